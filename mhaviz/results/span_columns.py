"""Maps by span of texts with other spans, brought to the same rows and columns by the names of their spans."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mhaviz.errors import MhavizError, quoted
from mhaviz.inputs.spans import REST
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.axis import Axis
from mhaviz.results.common_sinks import homes_of, numbered, sinks_of_spans, spans_and_apart, with_common_sinks
from mhaviz.results.span_numbers import ApartKey, SpanPlace

if TYPE_CHECKING:
    from mhaviz.results.attention import AttentionMap

_T = TypeVar("_T")

_MOST_NAMED = 3  # spans of each side that an error names


@dataclass(frozen=True)
class SpansOfOne:
    """Names of what only one of two texts has.

    Attributes:
        queries: rows.
        keys: columns of spans.
        apart: columns of the rest, and of keys that are sinks in this text alone.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    apart: tuple[str, ...]


@dataclass(frozen=True)
class _Names:
    """The rows and columns of a map by span; fields as of ``SpansOfOne``."""

    queries: tuple[SpanPlace, ...]
    keys: tuple[SpanPlace, ...]
    apart: tuple[str, ...]

    @classmethod
    def of(cls, m: "AttentionMap") -> "_Names":
        spans, apart = spans_and_apart(m)
        return cls(numbered(m.queries), numbered([m.keys[j] for j in spans]), tuple(m.keys[j] for j in apart))

    def without(self, other: "_Names") -> SpansOfOne:
        """Return what is not in another map."""
        queries, keys = (
            tuple(span[0] for span in own if span not in others)
            for own, others in ((self.queries, other.queries), (self.keys, other.keys))
        )
        return SpansOfOne(queries, keys, tuple(name for name in self.apart if name not in other.apart))


def aligned(
    before: "AttentionMap", after: "AttentionMap"
) -> "tuple[tuple[AttentionMap, AttentionMap], tuple[SpansOfOne, SpansOfOne]]":
    """Return two maps by span with the columns of both and the rows that both have, and what only each of them has.

    A span has weight 0 and chance 0 where a text lacks it, as uniform attention gives nothing to no keys. A key that is
    a sink in one of them alone is part of its span; see ``with_common_sinks``. Columns are in the order of the first
    text, with those of the second put in behind what precedes them there.

    Raises:
        MhavizError: no row is in both; it is not known which of several spans of one name is which, or which span a
            sink is in.
    """
    sinks = [dict.fromkeys(m.keys[j] for j in sinks_of_spans(m)) for m in (before, after)]
    before, after = with_common_sinks((before, after))
    common = {before.keys[j] for j in sinks_of_spans(before)}
    names = _Names.of(before), _Names.of(after)
    first, second = names
    _require_distinct(before.name, first.keys, second.keys)
    _require_distinct(before.name, first.queries, second.queries)
    rows = [span for span in first.queries if span in second.queries]
    if not rows:
        got, other = (_listed([name for name, _ in side.queries]) for side in names)
        raise MhavizError(
            f"{before.name}: expected a span of queries that both have, got {got} in the first and {other} in the "
            f"second; name their spans alike, or compare maps of the same query"
        )
    keys, apart = _merged(first.keys, second.keys), _merged(first.apart, second.apart)
    one, two = (_with_rows(_with_columns(m, keys, apart), rows) for m in (before, after))
    only = [
        replace(own, apart=(*own.apart, *(name for name in of_side if name not in common)))
        for own, of_side in zip((first.without(second), second.without(first)), sinks, strict=True)
    ]
    return (one, two), (only[0], only[1])


def with_columns_of_all(group: Sequence["AttentionMap"]) -> Sequence["AttentionMap"]:
    """Return maps by span with a column for each sink of any of them, and for the rest: it has no weight where a text
    has no such column. Other maps stay as they are."""
    if len({m.columns.tokens.texts for m in group}) == 1 or any(m.chance is None for m in group):
        return group
    names = [_Names.of(m) for m in group]
    apart = reduce(_merged, (of_map.apart for of_map in names))
    return [_with_columns(m, of_map.keys, apart) for m, of_map in zip(group, names, strict=True)]


def _listed(names: Sequence[str]) -> str:
    """Return the first names in quotes, "'system', 'user', …"."""
    return ", ".join(map(quoted, names[:_MOST_NAMED])) + ", …" * (len(names) > _MOST_NAMED)


def _merged(first: Sequence[_T], second: Sequence[_T]) -> tuple[_T, ...]:
    """Return what is in either, each once, in the order of the first; what is new in the second, behind what precedes
    it there."""
    found = list(dict.fromkeys(first))
    for place, name in enumerate(second):
        if name not in found:
            found.insert(found.index(second[place - 1]) + 1 if place else 0, name)
    return tuple(found)


def _require_distinct(map_name: str, first: tuple[SpanPlace, ...], second: tuple[SpanPlace, ...]) -> None:
    """Raise MhavizError if texts with other spans share a name that several spans have."""
    if first == second:
        return
    counts = [Counter(name for name, _ in side) for side in (first, second)]
    again = next((name for name in counts[0] if counts[1][name] and counts[0][name] + counts[1][name] > 2), None)
    if again is not None:
        raise MhavizError(
            f"{map_name}: expected spans of distinct names, as they are matched by name, got {quoted(again)} "
            f"{counts[0][again]} times in the first and {counts[1][again]} in the second; name the spans in a file"
        )


def _with_columns(m: "AttentionMap", spans: Sequence[SpanPlace], apart: Sequence[str]) -> "AttentionMap":
    """Return a map by span with these columns. Columns apart of one name are summed."""
    assert m.chance is not None
    own_spans, own_apart = spans_and_apart(m)
    of_spans = dict(zip(numbered([m.keys[j] for j in own_spans]), own_spans, strict=True))
    columns = [[of_spans[span]] if span in of_spans else [] for span in spans]
    columns += [[j for j in own_apart if m.keys[j] == name] for name in apart]
    weights = np.stack([m.weights[..., those].sum(axis=-1) for those in columns], axis=-1)
    chance = np.stack([m.chance[..., those].sum(axis=-1) for those in columns], axis=-1)  # 0 of no columns
    chance[..., len(spans) :] = np.nan
    ranges = tuple(tuple(sorted(run for j in those for run in m.columns.tokens.ranges[j])) for those in columns)
    axis, homes = Axis(Tokens((*(name for name, _ in spans), *apart), ranges=ranges)), homes_of(m)
    of_apart = [{homes.get(j, (REST, 0)) for j in those} for those in columns[len(spans) :]]
    keys = tuple(
        ApartKey(column, next(iter(those)) if len(those) == 1 else None)
        for column, those in enumerate(of_apart, len(spans))
    )
    return replace(m, weights=weights, chance=chance, columns=axis, sinks=None, apart=keys)


def _with_rows(m: "AttentionMap", spans: Sequence[SpanPlace]) -> "AttentionMap":
    """Return a map by span with these rows of it."""
    assert m.chance is not None
    assert m.lookback is not None
    own, tokens = numbered(m.queries), m.rows.tokens
    rows = [own.index(span) for span in spans]
    axis = Axis(Tokens(tuple(name for name, _ in spans), ranges=tuple(tokens.ranges[i] for i in rows)))
    return replace(
        m, weights=m.weights[:, rows], chance=m.chance[:, rows], lookback=m.lookback[:, rows], rows=axis, summary=None
    )
