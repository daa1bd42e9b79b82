"""Map that grows by a few queries at a time, as when a decoder generates text with a cache of keys."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.devices import held_bytes
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis

Array = NDArray[np.float32]


class GrowingMap:
    """Weights of one attention, to which those of further queries can be added.

    When there are more than ``size`` rows or columns, pairs of them are merged by the reduction of the map's quantity,
    so that memory does not grow with the length.

    Args:
        first: map of all queries and keys so far.
        size: most rows and columns of cells.

    Attributes:
        bytes: memory of all weights.
    """

    def __init__(self, first: AttentionMap, size: int) -> None:
        no_weights = np.broadcast_to(np.float32(0), first.weights.shape)
        self._first = replace(first, weights=no_weights, summary=None, queries_and_keys=None, reach=None)
        self._kind: Kind = first.kind
        self._size, self._is_mass = max(size, 2), first.quantity.reduction == "mass"
        self._join = np.add if self._is_mass else np.maximum
        self._cells = [row.copy() for row in first.weights.swapaxes(0, 1)]  # rows: (n_heads, columns then)
        self.bytes = held_bytes(self._cells)
        self._rows, self._columns = (np.diff(axis.edges).tolist() for axis in (first.rows, first.columns))  # tokens
        self._height, self._width = max(self._rows), max(self._columns)  # most tokens in a cell

    def copy(self) -> "GrowingMap":
        """Return a map with the same weights so far, to which others can be added."""
        other = copy(self)
        other._cells, other._rows, other._columns = [*self._cells], [*self._rows], [*self._columns]
        return other

    def add(self, weights: Array, grows: bool = True) -> None:
        """Add the weights of the next queries.

        Args:
            weights: (n_heads, queries, keys), where the keys are the last ones, up to that of the last query.
            grows: whether each query adds a key; otherwise the keys stay the same.
        """
        n_heads, n_queries, n_keys = weights.shape
        self._kind = "masked" if grows else self._kind
        first_key = sum(self._columns) + n_queries * grows - n_keys
        for query in range(n_queries):
            if grows:
                _extend(self._columns, self._width)
            row = np.zeros((n_heads, sum(self._columns)), np.float32)
            row[:, first_key:] = weights[:, query, : row.shape[1] - first_key]
            cells = self._join.reduceat(row, np.cumsum([0, *self._columns[:-1]]), axis=1)
            if not _extend(self._rows, self._height):
                before = self._cells.pop()
                cells = self._pooled([before, cells], [self._rows[-1] - 1, 1])
                self.bytes -= held_bytes([before])
            self._cells.append(cells)
            self.bytes += held_bytes([cells])
            if len(self._rows) > self._size:
                pairs = [slice(start, start + 2) for start in range(0, len(self._rows), 2)]
                self._cells = [self._pooled(self._cells[pair], self._rows[pair]) for pair in pairs]
                self._rows, self._height = [sum(self._rows[pair]) for pair in pairs], 2 * self._height
                self.bytes = held_bytes(self._cells)
            if len(self._columns) > self._size:
                starts = np.arange(0, len(self._columns), 2)
                self._cells = [self._join.reduceat(self._whole(row), starts, axis=1) for row in self._cells]
                self._columns, self._width = np.add.reduceat(self._columns, starts).tolist(), 2 * self._width
                self.bytes = held_bytes(self._cells)

    def result(self, queries: Tokens, keys: Tokens) -> AttentionMap:
        """Return the map of all queries so far, with the tokens of queries and keys."""
        is_pooled = max(self._height, self._width) > 1
        rows, columns = (
            Axis(tokens, np.cumsum([0, *counts]) if is_pooled else None)
            for tokens, counts in ((queries, self._rows), (keys, self._columns))
        )
        return replace(
            self._first,
            weights=np.stack([self._whole(row) for row in self._cells], axis=1),
            rows=rows,
            columns=columns,
            kind=self._kind,
        )

    def _pooled(self, rows: Sequence[Array], counts: Sequence[int]) -> Array:
        """Merge rows of cells into one; ``counts``: number of queries in each."""
        cells = np.stack([self._whole(row) for row in rows])
        return np.average(cells, 0, counts).astype(np.float32) if self._is_mass else cells.max(axis=0)

    def _whole(self, row: Array) -> Array:
        """Return a row, padded with zeros for columns that were added after it."""
        return np.pad(row, ((0, 0), (0, len(self._columns) - row.shape[1])))


def _extend(counts: list[int], width: int) -> bool:
    """Add a token to the last cell, or to a new cell if that is full. Return whether a cell is new."""
    begins = counts[-1] >= width
    if begins:
        counts.append(1)
    else:
        counts[-1] += 1
    return begins
