"""What goes into the first layer of a model, and what that is made of."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.result import Result, ShortRepr, Source

Added = Literal["sinusoids", "learned"]
"""Positions that are added to embeddings: Vaswani et al. 2017, arXiv 1706.03762, section 3.5; or a table's rows."""

Within = Literal["rotary", "distance", "alibi"]
"""Positions that each attention brings in: it turns queries and keys (Su et al. 2021, arXiv 2104.09864), adds a learned
number for each distance to the scores (Raffel et al. 2020, arXiv 1910.10683), or one that falls with it (Press et al.
2022, arXiv 2108.12409)."""


SINUSOIDS = "PE = sin and cos of p / 10000^(2i/d_model)"
"""The equation of positions that are made so: PE[p, 2i] is the sine, PE[p, 2i+1] the cosine."""


@dataclass(frozen=True)
class InputPart(ShortRepr):
    """One matrix on the way from tokens to the first layer.

    Attributes:
        symbol: "E", "PE", "X".
        equation: "E = lookup(ids) · √d_model".
        values: float32, (length, features).
    """

    symbol: str
    equation: str
    values: NDArray[np.float32]

    @property
    def cosines(self) -> NDArray[np.float32]:
        """The cosine of every two rows, (length, length); NaN for a row of zeros, which has no direction."""
        return cosines(self.values)

    @property
    def norms(self) -> NDArray[np.float32]:
        """The length of each row as a vector, (length,)."""
        return np.asarray(np.linalg.norm(self.values.astype(np.float64), axis=1), np.float32)


@dataclass(frozen=True)
class EmbeddedText(Result):
    """What a model's first layer reads of a text, and what it is made of.

    Attributes:
        tokens: of the text, with their ids.
        parts: what is added, in order, and last X, what the first layer reads; X alone where nothing is done to E.
        added: how positions are part of X; None: they are not.
        within: how else the model's attention knows of positions, as far as that is known.
        difference: the largest difference between X and what its equation makes of the other parts, each in the
            model's own precision; None: it is not known how X is made of them.
        is_target: whether it is what a decoder beside an encoder reads.
    """

    source: Source
    tokens: Tokens
    parts: tuple[InputPart, ...]
    added: Added | None
    within: tuple[Within, ...] = ()
    difference: float | None = None
    is_target: bool = False

    def __getitem__(self, symbol: str) -> NDArray[np.float32]:
        """The values of a part: ``embedded["PE"]``. Raises KeyError if there is no such part."""
        return {part.symbol: part.values for part in self.parts}[symbol]

    @property
    def repeated(self) -> tuple[int, int] | None:
        """The positions of the first token of the text that comes again, and of its next copy; None: none does."""
        first: dict[int, int] = {}
        for position in self.tokens.of_text:
            if (earlier := first.setdefault(self.tokens.ids[position], position)) != position:
                return earlier, position
        return None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; with norms and cosines."""
        tokens = {"tokens": self.tokens.texts, "special": self.tokens.special, "ids": self.tokens.ids}
        parts = [vars(part) | {"norms": part.norms, "cosines": part.cosines} for part in self.parts]
        return super().to_dict() | tokens | {"parts": parts}


@dataclass(frozen=True)
class PositionTable(Result):
    """The sinusoids that tell positions apart: PE, without a text.

    Attributes:
        values: float32, (length, d_model): PE of each position.
    """

    source: Source
    values: NDArray[np.float32]

    @property
    def cosines(self) -> NDArray[np.float32]:
        """The cosine of every two positions, (length, length): PE PEᵀ · 2 / d_model where d_model is even."""
        return cosines(self.values)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; with cosines."""
        return {"equation": SINUSOIDS, "values": self.values, "cosines": self.cosines}


def cosines(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of every two rows of (length, features), (length, length); NaN for a row of zeros."""
    rows = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.clip(rows @ rows.T, -1, 1).astype(np.float32)
