"""Sinks of texts by span that are compared: a key that is a sink in one of them alone is part of its span again."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import MhavizError, quoted
from mhaviz.inputs.spans import REST
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.axis import Axis
from mhaviz.results.span_numbers import ApartKey, SpanPlace

if TYPE_CHECKING:
    from mhaviz.results.attention import AttentionMap

_SEE_ALL = frozenset({"self", "cross"})  # kinds without a mask
_ROUNDING = 1e-4  # relative difference of equal numbers in float32


def with_common_sinks(maps: "Sequence[AttentionMap]") -> "list[AttentionMap]":
    """Return maps by span in which the same keys are sinks: those of one name in one span, as often in each map, and at
    the same places of it where it is as long in each.

    Other sinks are part of their span, or of the rest. What uniform attention gives is then exact where each query sees
    all keys, or none of a span, and NaN elsewhere, as a map has only means over its queries.

    Raises:
        MhavizError: it is not known which span has such a sink.
    """
    homes = [homes_of(m) for m in maps]
    unknown = {m.keys[j] for m, of_map in zip(maps, homes, strict=True) for j, home in of_map.items() if home is None}
    found = [_places(m, of_map) for m, of_map in zip(maps, homes, strict=True)]
    lengths = defaultdict[SpanPlace | None, set[int]](set)
    for of_map, places in zip(homes, found, strict=True):
        for j, (_, length) in places.items():
            lengths[of_map[j]].add(length)
    sinks = [
        {
            j: (m.keys[j],) if m.keys[j] in unknown else (m.keys[j], home, places[j][0] * (len(lengths[home]) == 1))
            for j, home in of_map.items()
        }
        for m, of_map, places in zip(maps, homes, found, strict=True)
    ]
    counts = [Counter(of_map.values()) for of_map in sinks]
    lone = {sink for one in counts for sink in one if any(one[sink] != other[sink] for other in counts)}
    return [
        _folded(m, [j for j, sink in of_map.items() if sink in lone]) for m, of_map in zip(maps, sinks, strict=True)
    ]


def spans_and_apart(m: "AttentionMap") -> tuple[list[int], list[int]]:
    """Return the columns that are spans, and those of the rest and of sinks."""
    return np.flatnonzero(~m.are_apart).tolist(), np.flatnonzero(m.are_apart).tolist()


def sinks_of_spans(m: "AttentionMap") -> list[int]:
    """Return the columns of sinks."""
    return [j for j in spans_and_apart(m)[1] if m.keys[j] != REST]


def numbered(names: Sequence[str]) -> tuple[SpanPlace, ...]:
    """Return each name with the number of those before it that are the same."""
    before = Counter[str]()
    places = list[SpanPlace]()
    for name in names:
        places.append((name, before[name]))
        before[name] += 1
    return tuple(places)


def homes_of(m: "AttentionMap") -> dict[int, SpanPlace | None]:
    """Return the span of each sink, by its column; None: not known.

    A map of an older file does not tell. There, it is the span that has the next keys on both sides.
    """
    sinks = sinks_of_spans(m)
    if m.apart is not None:
        spans = {one.column: one.span for one in m.apart}
        return {j: spans[j] for j in sinks}
    columns, ranges = spans_and_apart(m)[0], m.columns.tokens.ranges
    places: dict[int, SpanPlace] = dict(zip(columns, numbered([m.keys[j] for j in columns]), strict=True))
    tokens = [{i for run in of_key for i in range(*run)} for of_key in ranges]
    apart = {i for j in sinks for i in tokens[j]}
    homes = dict[int, SpanPlace | None]()
    for j in sinks:
        low, high = min(tokens[j], default=0), max(tokens[j], default=0)
        while low in apart:
            low -= 1
        while high in apart:
            high += 1
        owner = next((key for key, own in enumerate(tokens) if {low, high} <= own), None)
        homes[j] = None if owner is None else places.get(owner, (REST, 0))
    return homes


def _places(m: "AttentionMap", homes: Mapping[int, SpanPlace | None]) -> dict[int, tuple[int, int]]:
    """Return, for each sink, how many tokens of its span are before it, and how many it has, sinks included."""
    (spans, apart), ranges = spans_and_apart(m), m.columns.tokens.ranges
    free = [*spans, *(j for j in apart if m.keys[j] == REST)]
    own = dict(zip(numbered([m.keys[j] for j in free]), free, strict=True))
    places = dict[int, tuple[int, int]]()
    for j, home in homes.items():
        columns = [i for i, other in homes.items() if other == home]
        columns += [own[home]] if home in own else []
        runs = [run for i in columns for run in ranges[i]]
        first = min(start for start, _ in ranges[j]) if ranges[j] else 0
        before = sum(max(min(end, first) - start, 0) for start, end in runs)
        places[j] = before, sum(end - start for start, end in runs)
    return places


def _folded(m: "AttentionMap", lone: Collection[int]) -> "AttentionMap":
    """Return a map by span in which sinks, by their columns, are part of their spans."""
    if not lone:
        return m
    assert m.chance is not None
    spans, apart = spans_and_apart(m)
    homes, ranges = homes_of(m), m.columns.tokens.ranges
    columns = dict(zip(numbered([m.keys[j] for j in spans]), ([j] for j in spans), strict=True))
    rest = [j for j in apart if m.keys[j] == REST]
    for j in lone:
        home = homes[j]
        if home is None:
            raise MhavizError(
                f"{m.name}: expected the same sinks, got {quoted(m.keys[j])}, a sink in one text alone, and it is not "
                f"known which span it is in; compute the map again, and save it with this version"
            )
        if home == (REST, 0):
            rest.append(j)
        elif home in columns:
            columns[home].append(j)
        else:  # a span of sinks alone goes before those that are behind it in the text
            place = next((i for i, own in enumerate(columns.values()) if ranges[own[0]] > ranges[j]), len(columns))
            items = list(columns.items())
            columns = dict([*items[:place], (home, [j]), *items[place:]])
    kept = [j for j in apart if j not in lone and m.keys[j] != REST]
    parts = [*columns.values(), *[rest] * bool(rest), *([j] for j in kept)]
    n_free = len(columns) + bool(rest)
    weights = np.stack([m.weights[..., own].sum(axis=-1, dtype=np.float64) for own in parts], axis=-1)
    counts = [sum(m.columns.tokens.counts[j] for j in own) for own in parts[:n_free]]
    chance = np.full(weights.shape, np.nan)
    even = weights[..., :n_free].sum(axis=-1, keepdims=True) * np.array(counts) / sum(counts)
    had = np.stack([np.nansum(m.chance[..., own], axis=-1) for own in parts[:n_free]], axis=-1)
    is_hidden = (had == 0) & (weights[..., :n_free] == 0)
    even[:, ~_see_all_keys(m)] = np.nan
    even[is_hidden] = 0
    chance[..., : len(columns)] = even[..., : len(columns)]
    texts = (*(name for name, _ in columns), *[REST] * bool(rest), *(m.keys[j] for j in kept))
    tokens = Tokens(texts, ranges=tuple(tuple(sorted(run for j in own for run in ranges[j])) for own in parts))
    of_apart = [*[(REST, 0)] * bool(rest), *(homes[j] for j in kept)]
    return replace(
        m,
        weights=weights.astype(np.float32),
        chance=chance.astype(np.float32),
        columns=Axis(tokens),
        sinks=None,
        apart=tuple(ApartKey(column, home) for column, home in enumerate(of_apart, len(columns))),
    )


def _see_all_keys(m: "AttentionMap") -> NDArray[np.bool_]:
    """Return whether the queries of each row surely see all keys, as their ``chance`` is that of all keys, (rows,)."""
    assert m.chance is not None
    if m.kind not in _SEE_ALL or m.reach is not None:
        return np.zeros(len(m.rows), np.bool_)
    spans, free = spans_and_apart(m)[0], [j for j in range(len(m.keys)) if j not in sinks_of_spans(m)]
    counts = m.columns.tokens.counts
    given = m.weights[..., free].sum(axis=-1, keepdims=True, dtype=np.float64)
    even = given * np.array([counts[j] for j in spans]) / sum(counts[j] for j in free)
    return np.asarray(np.isclose(m.chance[..., spans], even, rtol=_ROUNDING, atol=0).all(axis=(0, 2)))
