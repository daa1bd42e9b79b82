"""Numbers of each head of a model, averaged over sentences, and tables of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.result import RowsResult, ShortRepr

LEVEL = 0.95
"""Share of the bootstrap replicates whose means lie inside an interval."""

REPLICATES = 1_000
"""Number of bootstrap replicates, as is usual for an interval of 95%. Other draws move its ends by 2% of it."""

SEED = 0
"""Seed of the bootstrap, and of the tokens that an ablation masks: the same texts always give the same numbers."""

BOOTSTRAP = {"replicates": REPLICATES, "seed": SEED, "level": LEVEL}
"""The bootstrap behind the intervals, in documents."""

LEAST_FOR_INTERVAL = 30
"""Least number of sentences for an interval. With 5 sentences, a percentile interval contains the mean for 88 of 100
corpora. Student's interval contains it for 95 if numbers are normal, but for 93 if they are as skewed as gamma(4)."""


@dataclass(frozen=True)
class HeadNumbers(ShortRepr):
    """One number of each head, averaged within each sentence, such as over its queries, and then over the sentences.

    Attributes:
        mean: float64, (n_layers, n_heads), mean over the sentences; NaN where there is nothing to average, and for
            heads that a layer lacks because another layer has more.
        spread: float64, (n_layers, n_heads), standard deviation between the sentences, √(Σ (x − mean)² / (sentences −
            1)); NaN for fewer than two.
        low, high: float64, (n_layers, n_heads), 95% interval of the mean, from a bootstrap over the sentences (over
            the texts into which a needle was put); NaN for fewer than 30, where it would be too narrow.
        sentences: number of sentences that have something to average.
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sentences: int

    of_heads: ClassVar[tuple[str, ...]] = ("mean", "spread", "low", "high")
    """Names of the arrays with a number for each head."""

    @property
    def is_known(self) -> bool:
        """Whether any head has a number."""
        return bool(np.isfinite(self.mean).any())

    def of_head(self, row: int, column: int) -> dict[str, Any]:
        """Return the numbers of one head, given by its row and column in the arrays, by name."""
        return {name: getattr(self, name)[row, column].item() for name in self.of_heads}


@dataclass(frozen=True)
class AverageOfFew(HeadNumbers):
    """One number of each head, averaged over texts, such as of pairs of words, which may be few. ``sentences`` is the
    number of texts that have it, in the layer with the most.

    Attributes:
        low, high: float64, (n_layers, n_heads), 95% interval of the mean. Of a share of texts, Wilson's interval. Of
            other numbers, from a bootstrap over the texts as in ``HeadNumbers``, and for fewer than 30 texts Student's,
            cut at 0 and 1; NaN for a single text.
        chance: float64, (n_layers, n_heads), mean for a head that gives the same weight to all keys that the query
            sees; NaN where it has no meaning.
        by_layer: int64, (n_layers,), texts of each layer that have the number.
    """

    chance: NDArray[np.float64]
    by_layer: NDArray[np.int64]

    of_heads = (*HeadNumbers.of_heads, "chance")

    def of_head(self, row: int, column: int) -> dict[str, Any]:
        """See ``HeadNumbers``."""
        return super().of_head(row, column) | {"texts": int(self.by_layer[row])}


@dataclass(frozen=True)
class HeadsOfKind(ShortRepr):
    """Numbers of the heads of one kind of attention. Subclasses have a field for each number.

    Attributes:
        kind: the kind of attention.
        layers: index of the layer of each row of the arrays.
    """

    kind: Kind
    layers: tuple[int, ...]

    @property
    def numbers(self) -> dict[str, Any]:
        """All numbers by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, HeadNumbers)}

    def number(self, name: str) -> Any:
        """Return the number with this name, a ``HeadNumbers``."""
        return getattr(self, name)

    def heads(self) -> Iterator[tuple[int, int]]:
        """Iterate over (row, column) of each head that has the first of the numbers, layer by layer."""
        first = next(iter(self.numbers.values()))
        for row, column in np.argwhere(np.isfinite(first.mean)):
            yield int(row), int(column)


class HeadTable(RowsResult):
    """Result with numbers of heads."""

    kinds: tuple[HeadsOfKind, ...]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over rows of a table in long form, one for each head and number; unknown values are NaN."""
        for kind in self.kinds:
            known = {name: number for name, number in kind.numbers.items() if number.is_known}
            for row, column in kind.heads():
                about = {"kind": kind.kind, "layer": kind.layers[row], "head": column}
                for name, number in known.items():
                    yield about | {"number": name} | number.of_head(row, column)
