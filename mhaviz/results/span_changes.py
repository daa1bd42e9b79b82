"""Changes of the weights between the spans of two texts, as means over all heads and in the head that changes most."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.difference import TIED, MapDifference
from mhaviz.results.span_columns import SpansOfOne
from mhaviz.results.span_ranking import SpanHeads, SpanWeight

_ROUNDING = 1e-6  # largest change that rounding of sums in float32 can make


class HeadChange(NamedTuple):
    """Weights of one head before and after; ``name``: "L3 H7", of a mean "layer 3" or ""."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class SpanChanges:
    """All heads of two texts in one kind of attention, by span, with the same rows and columns.

    Attributes:
        before, after: the heads.
        only: what only the first, and what only the second text has.
    """

    before: SpanHeads
    after: SpanHeads
    only: tuple[SpansOfOne, SpansOfOne]

    @classmethod
    def of(cls, differences: Sequence[MapDifference]) -> "SpanChanges":
        """Return the changes of the maps of one text and kind of attention, layer by layer."""
        sides = [m.sides for m in differences if m.sides is not None]
        only = differences[0].only
        assert only is not None
        before, after = zip(*sides, strict=True)
        return cls(SpanHeads(before), SpanHeads(after), only)

    @cached_property
    def change(self) -> NDArray[np.float64]:
        """Mean weight over all heads after − before, (rows, columns)."""
        return self.after.mass - self.before.mass

    def changes(self, query: int, key: int) -> NDArray[np.float64]:
        """Return the change in each head, (n_heads,)."""
        return self.after.masses(query, key) - self.before.masses(query, key)

    def means(self, query: int, key: int) -> tuple[SpanWeight | None, SpanWeight | None]:
        """Return the mean over all heads before and after; None: the queries see none of the keys."""
        return self.before.mean(query, key), self.after.mean(query, key)

    def most(self, query: int, key: int) -> HeadChange | None:
        """Return the head that changes most; None: none changes by more than rounding."""
        sizes = np.abs(self.changes(query, key))
        head = int(sizes.argmax())
        if sizes[head] <= _ROUNDING:
            return None
        before, after = (side.masses(query, key)[head] for side in (self.before, self.after))
        return HeadChange(self.after.names[head], float(before), float(after))

    @cached_property
    def lone(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Columns of spans that only the first, and that only the second text has."""
        empty = [[not of_span for of_span in side.first.columns.tokens.ranges] for side in (self.after, self.before)]
        first, second = (tuple(j for j in self.before.keys if lacks[j]) for lacks in empty)
        return first, second

    @cached_property
    def _are_shared(self) -> NDArray[np.bool_]:
        """Which columns both texts have, with sinks and the rest, (columns,)."""
        shared = np.ones(len(self.before.first.keys), np.bool_)
        shared[[*self.lone[0], *self.lone[1]]] = False
        return shared

    @cached_property
    def largest(self) -> tuple[int, int]:
        """Row and column of the largest change of the mean, among the columns that both texts have."""
        return self._place_of_largest(np.abs(self.change))

    @cached_property
    def most_changed(self) -> tuple[int, int]:
        """Row and column of the largest change of a head, among the columns that both texts have."""
        return self._place_of_largest(self.sizes)

    @property
    def has_changed(self) -> bool:
        """Whether some head changes by more than rounding, in a column that both texts have."""
        return bool(self.sizes[:, self._are_shared].max() > _ROUNDING)

    @cached_property
    def ranking(self) -> list[tuple[int, int]]:
        """Rows and columns in which some head changes by more than rounding, the largest change of the mean first."""
        order = np.argsort(-np.abs(self.change), axis=None, kind="stable")
        order = order[self.sizes.ravel()[order] > _ROUNDING]
        rows, columns = np.unravel_index(order, self.sizes.shape)
        return list(zip(rows.tolist(), columns.tolist(), strict=True))

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Largest change of a head, (rows, columns)."""
        pairs = zip(self.before.maps, self.after.maps, strict=True)
        of_maps = [np.abs(b.weights.astype(np.float64) - a.weights).max(axis=0) for a, b in pairs]
        return np.asarray(np.max(of_maps, axis=0))

    def _place_of_largest(self, sizes: NDArray[np.float64]) -> tuple[int, int]:
        sizes = np.where(self._are_shared, sizes, -1.0)
        first = (sizes >= sizes.max() * (1 - TIED)).argmax()  # of equal changes, so that rounding does not decide
        row, column = np.unravel_index(first, sizes.shape)
        return int(row), int(column)
