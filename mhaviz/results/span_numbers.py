"""Weights between spans of a text, beside those of uniform attention, and the lookback ratio."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.spans import REST, Span, SpansOf
from mhaviz.inputs.tokens import Ranges, Tokens, runs_of
from mhaviz.results.axis import Axis
from mhaviz.results.sinks import Sinks
from mhaviz.results.spans import SpanSide

SpanPlace = tuple[str, int]
"""Name of a span, and how many before it have the same."""


class ApartKey(NamedTuple):
    """Column of a map by span that is no span.

    Attributes:
        column: its place.
        span: the span that its tokens are in, ``(REST, 0)`` of the rest and of sinks that are in no span; None: not
            known.
    """

    column: int
    span: SpanPlace | None


@dataclass(frozen=True, eq=False)
class KeySpans:
    """The keys of a map by span.

    Attributes:
        side: the spans without their sinks, then the rest, if there is any, and each sink; all keys are in one.
        n_spans: number of spans, which come first.
        spans: the spans as they were given, with their sinks.
        sinks: the sinks, with the places of their columns; None: there are none.
        apart: the columns behind the spans.
    """

    side: SpanSide
    n_spans: int
    spans: tuple[Span, ...]
    sinks: Sinks | None
    apart: tuple[ApartKey, ...]

    @classmethod
    def of(cls, tokens: Tokens, spans: tuple[Span, ...], sinks: Sinks | None) -> "KeySpans":
        """Return the columns for spans of these keys. A span of sinks alone has no column."""
        apart = {sink.key for sink in sinks.sinks} if sinks else set[int]()
        without = [replace(span, ranges=_without(span, apart)) for span in spans]
        named = [span for span in without if span.ranges]
        inside = {i for span in spans for run in span.ranges for i in range(*run)}
        others = [i for i in range(len(tokens)) if i not in inside and i not in apart]
        rest = [Span(REST, runs_of(others))] * bool(others)
        alone = [Span(tokens.texts[i], ((i, i + 1),)) for i in sorted(apart)]
        columns = (*named, *rest, *alone)
        axis = Axis(Tokens(tuple(one.name for one in columns), ranges=tuple(one.ranges for one in columns)))
        begin = len(named) + len(rest)
        moved = sinks and replace(
            sinks, sinks=tuple(replace(sink, key=begin + i) for i, sink in enumerate(sinks.sinks))
        )
        homes = [(REST, 0)] * len(rest) + [_home(i, spans, without) for i in sorted(apart)]
        keys = tuple(ApartKey(column, home) for column, home in enumerate(homes, len(named)))
        return cls(SpanSide.of_axis(axis, len(tokens)), len(named), spans, moved, keys)

    def span_at(self, position: int) -> Span:
        """Return the span, as it was given, that has the key at a position. Raises StopIteration if none has."""
        return next(span for span in self.spans if any(start <= position < end for start, end in span.ranges))

    @property
    def are_free(self) -> NDArray[np.bool_]:
        """Whether each column is of no sink, (columns,)."""
        free = np.ones(len(self.side.axis), np.bool_)
        free[list(self.sinks.keys) if self.sinks else []] = False
        return free


def spans_of_sides(
    queries: Tokens, keys: Tokens, spans_of: SpansOf, ahead: int | None
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans of the queries and of the keys.

    ``ahead``: position of the first query among the keys, where both are one text whose keys are all of it; None: each
    side is read by itself.

    Raises:
        ArgumentError: as ``spans_of``; no query is in a span.
    """
    of_keys = spans_of(keys)
    if not ahead:
        return spans_of(queries), of_keys
    moved = (replace(span, ranges=_moved(span.ranges, ahead, len(queries))) for span in of_keys)
    of_queries = tuple(span for span in moved if span.ranges)
    if not of_queries:
        raise ArgumentError(
            f"{parameter('by')}: expected queries in some span, got those from token {ahead} on, which are in none"
        )
    return of_queries, of_keys


def _moved(ranges: Ranges, ahead: int, length: int) -> Ranges:
    """Return which of ``length`` queries are keys in these ranges."""
    moved = ((max(start - ahead, 0), min(end - ahead, length)) for start, end in ranges)
    return tuple((start, end) for start, end in moved if start < end)


class SpanNumbers(NamedTuple):
    """Numbers of the queries of each span.

    Attributes:
        mass: float64, (n_heads, rows, columns), mean weight of the queries of a span on all keys of another.
        chance: float64, in the same shape, the mean of what uniform attention gives these keys: of the weight that a
            query gives to no sink, the share that they are of the keys that it sees and that are no sinks. NaN in the
            columns of sinks and of the rest.
        lookback: float64, (n_heads, rows), lookback ratio of the queries of a span; NaN: it has none.
        uniform_lookback: float64, in the same shape, that of a head whose queries give the same weight to each key that
            they see: 0.5 where they see all earlier keys.
    """

    mass: NDArray[np.float64]
    chance: NDArray[np.float64]
    lookback: NDArray[np.float64]
    uniform_lookback: NDArray[np.float64]


class SpanSums:
    """Sums over the queries of a map, from which its numbers by span are.

    With m_iT = Σ_{j ∈ T \\ S} a_ij for query i, span T and sinks S, and n_iT the number of keys of T \\ S that i sees,

        mass_PT = mean over i ∈ P of m_iT,
        chance_PT = mean over i ∈ P of Σ_U m_iU · n_iT / Σ_U n_iU,

    where U are all spans and the rest. A uniform head has mass = chance everywhere, whatever sinks take, and however
    long a span is or how much of it a mask hides.

    The lookback ratio of a query i of a span that begins at key s of masked self-attention is c / (c + w), where c is
    its mean weight on the keys before s, and w that on the keys from s to i (Chuang et al. 2024, arXiv 2407.07071,
    section 2.1). The first of these keys may have no query, where a decoder has it in its cache.

    Args:
        rows: spans of the queries.
        keys: columns.
        n_heads: number of heads.
        ahead: position of the first query among the keys, in masked self-attention; None: no later keys are hidden.
    """

    def __init__(self, rows: SpanSide, keys: KeySpans, n_heads: int, ahead: int | None) -> None:
        self._rows, self._keys, self._ahead = rows, keys, ahead
        shape = n_heads, len(rows.axis), len(keys.side.axis)
        self._mass, self._chance = np.zeros((2, *shape))
        self._lookback, self._uniform_lookback = np.zeros((2, *shape[:2]))

    def add(self, start: int, sums: NDArray[np.floating], seen: NDArray[np.number]) -> None:
        """Add queries from position ``start`` on.

        Args:
            start: position of the first.
            sums: (n_heads, queries, columns), weight on each column.
            seen: (n_heads or 1, queries, columns), number of keys of each column that they see.
        """
        owners = self._rows.owners[start : start + sums.shape[1]]
        free = self._keys.are_free
        given, n_free = sums[..., free].sum(axis=2, dtype=np.float64), seen[..., free].sum(axis=2)
        chance = (given / np.maximum(n_free, 1))[..., None] * seen
        for row in np.unique(owners[owners >= 0]):
            those = np.flatnonzero(owners == row)
            self._mass[:, row] += sums[:, those].sum(axis=1, dtype=np.float64)
            self._chance[:, row] += chance[:, those].sum(axis=1)
            for total, of in ((self._lookback, sums), (self._uniform_lookback, seen)):
                total[:, row] += self._lookbacks(int(row), start + those, of[:, those]).sum(axis=1)

    def _lookbacks(self, row: int, queries: NDArray[np.int64], sums: NDArray[np.number]) -> NDArray[np.float64]:
        """Return the lookback ratios of queries of a span, (n_heads, queries); NaN: they have none."""
        ratios = np.full(sums.shape[:2], np.nan)
        if self._ahead is None:
            return ratios
        ranges = self._keys.span_at(self._rows.axis.tokens.ranges[row][0][0] + self._ahead).ranges
        first, last = ranges[0]
        if len(ranges) > 1 or not first:
            return ratios
        are_written = [first <= of_column[0][0] < last for of_column in self._keys.side.axis.tokens.ranges]
        written = sums[..., are_written].sum(axis=2, dtype=np.float64)
        context = sums.sum(axis=2, dtype=np.float64) - written
        c, w = context / first, written / (queries + self._ahead - first + 1)
        np.divide(c, c + w, out=ratios, where=c + w > 0)
        return ratios

    def result(self) -> SpanNumbers:
        """Return the means over the queries of each span."""
        n_queries = np.bincount(self._rows.owners[self._rows.owners >= 0], minlength=len(self._rows.axis))
        chance = self._chance / n_queries[:, None]
        chance[..., self._keys.n_spans :] = np.nan
        lookbacks = self._lookback / n_queries, self._uniform_lookback / n_queries
        return SpanNumbers(self._mass / n_queries[:, None], chance, *lookbacks)


def _home(sink: int, spans: Sequence[Span], without: Sequence[Span]) -> SpanPlace | None:
    """Return the span of a sink, counted among the spans that have columns; ``without``: the spans without sinks.

    None: the sink is of one of several spans of one name, which has no other tokens.
    """
    place = next((i for i, span in enumerate(spans) if any(start <= sink < end for start, end in span.ranges)), None)
    if place is None:
        return REST, 0
    name = spans[place].name
    if not without[place].ranges:
        return (name, 0) if sum(span.name == name for span in spans) == 1 else None
    return name, sum(span.name == name and bool(span.ranges) for span in without[:place])


def _without(span: Span, apart: set[int]) -> Ranges:
    """Return the tokens of a span but for those apart."""
    return runs_of([i for run in span.ranges for i in range(*run) if i not in apart])
