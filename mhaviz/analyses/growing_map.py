"""A map that grows by a few queries at a time, as that of a decoder that writes with a cache of keys."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import MhavizError, parameter
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.tokens import Tokens


@dataclass
class _Edges:
    """Where the cells of one side begin, and where the last one ends; each takes up to ``width`` tokens."""

    edges: list[int]
    width: int

    def extend(self) -> bool:
        """Take one token more; whether it begins a cell."""
        end = self.edges[-1]
        begins = end - self.edges[-2] >= self.width
        if begins:
            self.edges.append(end + 1)
        else:
            self.edges[-1] = end + 1
        return begins

    def halve(self) -> None:
        """Join every two cells."""
        last = self.edges[-1]
        self.edges = self.edges[::2]
        if self.edges[-1] != last:
            self.edges.append(last)
        self.width *= 2

    @property
    def counts(self) -> NDArray[np.int64]:
        """Tokens of each cell."""
        return np.diff(self.edges)


class GrowingMap:
    """The weights of one attention, to which those of further queries are added.

    Where there are more cells than ``size``, every two are joined, by the rule of the map's quantity: the memory that
    it takes does not grow with the length.

    Args:
        first: the map of the queries so far, of all of them and of all their keys.
        size: rows and columns of cells, at most.
    """

    def __init__(self, first: AttentionMap, size: int) -> None:
        self._first, self._size = first, max(size, 2)
        self._is_mass = first.quantity.reduction == "mass"
        self._rows, self._columns = (
            _Edges(axis.edges.tolist(), int(np.diff(axis.edges).max())) for axis in (first.rows, first.columns)
        )
        self._values = np.zeros((first.weights.shape[0], 0, 0), np.float32)
        self._reserve(first.weights.shape[1], first.weights.shape[2])
        self._values[:, : first.weights.shape[1], : first.weights.shape[2]] = first.weights
        self._last: tuple[NDArray[np.float32], bool] | None = None  # what was added last, which may yet be dropped

    def add(self, weights: NDArray[np.float32], grows: bool = True) -> None:
        """Add the weights of the queries that come next.

        Args:
            weights: (n_heads, queries, keys): of the last keys that the last query sees.
            grows: whether each query brings a key with it; else they are all of the same keys.
        """
        self._join_last()
        self._last = weights.copy(), grows  # they may be the program's own

    def drop(self, n_queries: int, shrinks: bool = True) -> None:
        """Drop the last queries; with ``shrinks`` as many keys.

        Raises:
            MhavizError: they are in cells with others.
        """
        if self._last is not None:
            weights, grows = self._last
            kept = weights.shape[1] - n_queries
            if kept > 0:
                self._last = weights[:, :kept, : weights.shape[2] - n_queries * grows], grows
                return
            self._last, n_queries = None, -kept
        if n_queries and max(self._rows.width, self._columns.width) > 1:
            raise MhavizError(
                f"the program rejected {n_queries:,} tokens that are in cells with others, and its map is left out; "
                f"give a larger {parameter('size')}, so that each token has cells of its own"
            )
        for side in (self._rows, self._columns)[: 1 + shrinks]:
            side.edges = side.edges[: len(side.edges) - n_queries]
        self._values[:, len(self._rows.counts) :] = 0
        self._values[:, :, len(self._columns.counts) :] = 0

    def _join_last(self) -> None:
        """Put what was added last into its cells."""
        if self._last is None:
            return
        (weights, grows), self._last = self._last, None
        n_queries, n_keys = weights.shape[1:]
        n_columns = self._columns.edges[-1] + (n_queries if grows else 0)
        first_key = n_columns - n_keys
        for query in range(n_queries):
            if grows:
                self._columns.extend()
            begins = self._rows.extend()
            self._reserve(len(self._rows.counts), len(self._columns.counts))
            end = self._columns.edges[-1]
            row = weights[:, query, : end - first_key]
            self._put(row, first_key, begins)
            if len(self._rows.counts) > self._size:
                self._join_rows()
            if len(self._columns.counts) > self._size:
                self._join_columns()

    def result(self, queries: Tokens, keys: Tokens) -> AttentionMap:
        """The map of all queries so far, which have these tokens, and the keys these."""
        self._join_last()
        n_rows, n_columns = len(self._rows.counts), len(self._columns.counts)
        is_pooled = max(self._rows.width, self._columns.width) > 1
        rows, columns = (
            Axis(tokens, np.array(side.edges) if is_pooled else None)
            for tokens, side in ((queries, self._rows), (keys, self._columns))
        )
        return replace(
            self._first,
            weights=self._values[:, :n_rows, :n_columns].copy(),
            rows=rows,
            columns=columns,
            kind=self._first.kind if self._first.kind == "cross" else "masked",
            summary=None,
            queries_and_keys=None,
            reach=None,
        )

    def _put(self, row: NDArray[np.float32], first_key: int, begins: bool) -> None:
        """One query's weights on the keys from ``first_key`` on, (n_heads, keys), into the last row of cells."""
        edges = np.array(self._columns.edges)
        first_cell = int(np.searchsorted(edges, first_key, side="right")) - 1
        starts = np.maximum(edges[first_cell:-1] - first_key, 0)
        cells = (np.add if self._is_mass else np.maximum).reduceat(row, starts, axis=-1)
        at = self._values[:, len(self._rows.counts) - 1, first_cell : first_cell + cells.shape[-1]]
        if not self._is_mass:
            np.maximum(at, cells, out=at)
            return
        of = int(self._rows.counts[-1])  # queries of the row, with this one
        whole = self._values[:, len(self._rows.counts) - 1]
        whole *= 0 if begins else (of - 1) / of
        at += cells / of

    def _join_rows(self) -> None:
        counts = self._rows.counts
        starts = np.arange(0, len(counts), 2)
        values = self._values[:, : len(counts)]
        if self._is_mass:
            sums = np.add.reduceat(values * counts[:, None], starts, axis=1)
            joined = sums / np.add.reduceat(counts, starts)[:, None]
        else:
            joined = np.maximum.reduceat(values, starts, axis=1)
        self._rows.halve()
        self._values[:] = 0
        self._values[:, : joined.shape[1]] = joined

    def _join_columns(self) -> None:
        n_columns = len(self._columns.counts)
        starts = np.arange(0, n_columns, 2)
        joined = (np.add if self._is_mass else np.maximum).reduceat(self._values[:, :, :n_columns], starts, axis=2)
        self._columns.halve()
        self._values[:] = 0
        self._values[:, :, : joined.shape[2]] = joined

    def _reserve(self, rows: int, columns: int) -> None:
        """Make room for so many cells, and for as many again."""
        n_heads, had_rows, had_columns = self._values.shape
        if rows <= had_rows and columns <= had_columns:
            return
        room = (n_heads, max(had_rows, 2 * rows), max(had_columns, 2 * columns))
        values = np.zeros(room, np.float32)
        values[:, :had_rows, :had_columns] = self._values
        self._values = values
