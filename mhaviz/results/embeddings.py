"""Input of the first layer of a model, and its parts: embeddings and positions."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.result import Result, ShortRepr, Source

Within = Literal["rotary", "distance", "alibi"]
"""Positions inside each attention: rotated queries and keys (Su et al. 2021, arXiv 2104.09864), a learned number for
each distance that is added to the scores (Raffel et al. 2020, arXiv 1910.10683), or a number that falls with the
distance (Press et al. 2022, arXiv 2108.12409)."""

SINUSOIDS = "PE = sin and cos of p / 10000^(2i/d_model)"
"""Equation of the sinusoids: PE[p, 2i] is the sine, PE[p, 2i+1] the cosine."""


@dataclass(frozen=True)
class InputPart(ShortRepr):
    """One matrix between the tokens and the first layer.

    Attributes:
        symbol: its symbol, such as "E", "PE" or "X".
        equation: its equation, such as "E = lookup(ids) · √d_model".
        values: float32, (length, features).
    """

    symbol: str
    equation: str
    values: NDArray[np.float32]

    @property
    def cosines(self) -> NDArray[np.float32]:
        """Cosine of each pair of rows, (length, length); NaN for a row of zeros, which has no direction."""
        return cosines(self.values)

    @property
    def norms(self) -> NDArray[np.float32]:
        """Euclidean norm of each row, (length,)."""
        return np.asarray(np.linalg.norm(self.values.astype(np.float64), axis=1), np.float32)


@dataclass(frozen=True)
class EmbeddedText(Result):
    """Input of a model's first layer for one text, and the embeddings and positions beside it.

    Attributes:
        tokens: the tokens of the text, with their ids.
        parts: E and, where they are known, PE and others; then X, the input of the first layer. Only X where it is E.
        added: "sinusoids" where X = E + PE, and PE are sinusoids (Vaswani et al. 2017, arXiv 1706.03762, section 3.5);
            None: X is E, or it is not known how X is computed.
        within: positions inside the model's attentions, as far as they are known.
        is_target: whether this is the input of a decoder that has an encoder beside it.
    """

    source: Source
    tokens: Tokens
    parts: tuple[InputPart, ...]
    added: Literal["sinusoids"] | None = None
    within: tuple[Within, ...] = ()
    is_target: bool = False

    def __getitem__(self, symbol: str) -> NDArray[np.float32]:
        """Return the values of a part: ``embedded["PE"]``. Raises KeyError if there is no such part."""
        return {part.symbol: part.values for part in self.parts}[symbol]

    @property
    def repeated(self) -> tuple[int, int] | None:
        """Positions of the first two occurrences of a token that is repeated; None: no token of the text is."""
        first: dict[int, int] = {}
        for position in self.tokens.of_text:
            if (earlier := first.setdefault(self.tokens.ids[position], position)) != position:
                return earlier, position
        return None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes norms and cosines."""
        tokens = {"tokens": self.tokens.texts, "special": self.tokens.special, "ids": self.tokens.ids}
        parts = [vars(part) | {"norms": part.norms, "cosines": part.cosines} for part in self.parts]
        return super().to_dict() | tokens | {"parts": parts}


@dataclass(frozen=True)
class PositionTable(Result):
    """Sinusoids of positions, without a text.

    Attributes:
        values: float32, (length, d_model), PE of each position.
    """

    source: Source
    values: NDArray[np.float32]

    @property
    def cosines(self) -> NDArray[np.float32]:
        """Cosine of each pair of positions, (length, length): PE PEᵀ · 2 / d_model where d_model is even."""
        return cosines(self.values)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes cosines."""
        return {"equation": SINUSOIDS, "values": self.values, "cosines": self.cosines}


def cosines(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine of each pair of rows, (length, length), of values (length, features); NaN for rows of zeros."""
    rows = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.clip(rows @ rows.T, -1, 1).astype(np.float32)
