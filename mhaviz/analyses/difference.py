"""Difference of two attentions of one text, of two that differ in a word, or of any two by span: B − A, and the
divergence of rows.

A row of weights is a distribution over the keys, so rows are compared as distributions, by the Jensen–Shannon
divergence of Lin 1991, "Divergence measures based on the Shannon entropy", section IV. It is symmetric, finite also
where one of the weights is 0, and at most 1 bit.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import zip_longest
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import MhavizError, counted, parameter, quoted
from mhaviz.results.attention import ROUNDING, Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.difference import (
    TIED,
    Change,
    Difference,
    Flaw,
    HeadDifference,
    MapDifference,
    RowChange,
    require_limit,
)
from mhaviz.results.result import Source
from mhaviz.results.span_columns import aligned

_BLOCK = 2**20  # numbers that are converted to float64 at a time


def _with_common_heads(before: Attention, after: Attention) -> tuple[Attention, Attention]:
    """Select the common heads of maps that are in both attentions. Raises MhavizError if there are none."""
    heads = {m.name: m.heads for m in before.maps}
    common = {m.name: tuple(h for h in m.heads if h in heads[m.name]) for m in after.maps if m.name in heads}
    for m in after.maps:
        if m.name in common and not common[m.name]:
            had, has = (", ".join(map(str, numbers)) for numbers in (heads[m.name], m.heads))
            raise MhavizError(f"{m.name}: no head is in both: the first has heads {had}, the second {has}")

    def reduced(attention: Attention) -> Attention:
        maps = (m if common.get(m.name, m.heads) == m.heads else m.select(common[m.name]) for m in attention.maps)
        return replace(attention, maps=tuple(maps))

    return reduced(before), reduced(after)


def compare(
    before: Attention,
    after: Attention,
    layer: int | None = None,
    common_heads: bool = False,
    fail_above: float | None = None,
) -> Difference:
    """Compare maps of the same sentence, layer, kind and reduction, and of the same pass if a side has several.

    Maps by sentence, turn or other spans are matched by the names of these, as ``aligned`` does.

    Args:
        before, after: both attentions.
        layer: layer to compare; None: all.
        common_heads: compare only the heads that both maps have.
        fail_above: largest divergence of a head that is allowed, in bits; with it, all tokens must be the same.

    Raises:
        ArgumentError: there is no such layer; ``fail_above`` is not from 0 to 1.
        MhavizError: no map is in both, or two such maps differ in their heads, their cells, or too many tokens;
            also as ``aligned``.
    """
    require_limit(fail_above)
    before, after = _without_passes(before.select(layer=layer), after.select(layer=layer))
    if common_heads:
        before, after = _with_common_heads(before, after)
    olds, news = ({m.name: m for m in attention.maps} for attention in (before, after))
    common = [name for name in news if name in olds]
    if not common:
        raise MhavizError(
            f"no map is in both: the first has {_listed(olds)}, the second {_listed(news)}; compare maps of the same "
            f"pass, sentence, layer and kind"
        )
    return Difference(
        source=joined_source(before.source, after.source),
        maps=tuple(_difference(olds[name], news[name], fail_above) for name in common),
        only_before=tuple(name for name in olds if name not in news),
        only_after=tuple(name for name in news if name not in olds),
        fail_above=fail_above,
    )


def _without_passes(before: Attention, after: Attention) -> tuple[Attention, Attention]:
    """Drop the pass numbers where each side has one pass, so that any two can be compared; sources keep them."""
    sides = before, after
    passes = [{m.pass_number for m in side.maps} for side in sides]
    if any(len(numbers) > 1 for numbers in passes) or passes[0] == passes[1]:
        return sides
    named = []
    for side, (number,) in zip(sides, passes, strict=True):
        footnote = side.source.footnote if number is None else f"{side.source.footnote}, pass {number}"
        maps = tuple(replace(m, pass_number=None) for m in side.maps)
        named.append(replace(side, source=replace(side.source, footnote=footnote), maps=maps))
    return named[0], named[1]


def _difference(before: AttentionMap, after: AttentionMap, fail_above: float | None) -> MapDifference:
    only = None
    if before.chance is not None and after.chance is not None:
        if fail_above is not None:
            _require_same_spans(before, after)
        (before, after), only = aligned(before, after)
    _require_same_cells(before, after, _MOST_CHANGED if fail_above is None else 0.0)
    reaches = [m.reach for m in (before, after) if m.reach is not None]
    change = replace(
        after,
        rows=_joined_axis(before.rows, after.rows),
        columns=_joined_axis(before.columns, after.columns),
        weights=after.weights - before.weights,
        quantity=replace(after.quantity, is_signed=True, is_change=True),
        summary=None,
        sinks=None,
        # A weight can change if either of them sees the key. Words of other pieces reach elsewhere.
        reach=max(reaches) if len(reaches) == 2 and not before.has_spans else None,
        sink=before.sink or after.sink,
        to_special=None,
        queries_and_keys=None,
        chance=None,
        lookback=None,
        apart=None,
    )
    heads = zip(after.heads, before.weights, after.weights, strict=True)
    has_rest = before.has_rest or after.has_rest
    differences = tuple(_head_difference(change, *head, has_rest) for head in heads)
    return MapDifference(change, differences, (before, after), _chance(change, before, after, has_rest), only)


def _chance(m: AttentionMap, before: AttentionMap, after: AttentionMap, has_rest: bool) -> float | None:
    """Compute the mean divergence of each head before from a head after that is not the same.

    That head stands half of all heads away, as neighbours may share their keys. None: no two heads have a divergence.
    """
    others = np.roll(np.arange(len(after.heads)), -(len(after.heads) // 2))
    pairs = ((before.weights[head], after.weights[other]) for head, other in enumerate(others) if head != other)
    bits = [found for pair in pairs if (found := _divergence(m, *pair, has_rest).divergence) is not None]
    return fmean(bits) if bits else None


def _joined_axis(before: Axis, after: Axis) -> Axis:
    """Return an axis with the tokens of both: where these differ, "cat / dog", and without those of its spans."""
    if before.tokens.ranges != after.tokens.ranges:  # words of other pieces
        after = replace(after, tokens=replace(after.tokens, ranges=()))
    if before.tokens.texts == after.tokens.texts:
        return after
    pairs = zip(before.tokens.texts, after.tokens.texts, strict=True)
    texts = tuple(one if one == other else f"{one} / {other.strip()}" for one, other in pairs)
    return replace(after, tokens=replace(after.tokens, texts=texts, ids=()))


def _head_difference(
    m: AttentionMap, head: int, A: NDArray[np.float32], B: NDArray[np.float32], has_rest: bool
) -> HeadDifference:
    """Compare one head: the weight that has changed most, and the divergence of its rows."""
    return replace(_divergence(m, A, B, has_rest), head=head, largest=_largest(m, A, B))


def _divergence(m: AttentionMap, A: NDArray[np.float32], B: NDArray[np.float32], has_rest: bool) -> HeadDifference:
    """Compute the mean over the queries of JSD(A, B), and the largest. Rows of cells are weighted by their queries.

    With ``has_rest``, the missing weight of a row counts as one more key: a sink, special tokens, or keys outside a
    window. The result is then a lower bound of the divergence over all keys.
    """
    found = HeadDifference(m, 0, None)
    if not m.quantity.rows_are_shares:
        return found
    sums = np.stack([weights.sum(axis=-1, dtype=np.float64) for weights in (A, B)])
    if (flaw := _flaw(m, sums, has_rest)) is not None:
        return replace(found, flaw=flaw)
    step = max(_BLOCK // A.shape[1], 1)
    blocks: list[NDArray[np.float64]] = []
    for start in range(0, len(A), step):
        block = slice(start, start + step)
        p, q = (weights[block].astype(np.float64) for weights in (A, B))
        if has_rest:
            rests = (1 - sums[:, block, None]).clip(0)
            p, q = (np.append(rows, rest, axis=-1) for rows, rest in zip((p, q), rests, strict=True))
        blocks.append(jensen_shannon(p, q))
    bits = np.concatenate(blocks)
    counts = np.diff(m.rows.edges)
    seen = np.ones(len(A), np.bool_) if has_rest else sums.any(axis=0)
    worst = int(bits.argmax())
    return replace(
        found,
        divergence=float(np.average(bits[seen], weights=counts[seen])) if seen.any() else None,
        worst=RowChange(int(m.rows.edges[worst]), float(bits[worst])) if bits[worst] else None,
        zero_rows=int((~seen).sum()),
    )


def jensen_shannon(p: Any, q: Any, log1p: Callable[[Any], Any] = np.log1p) -> Any:
    """Compute the Jensen–Shannon divergence of the rows of p and q in bits: 0 for equal rows, 1 for disjoint rows.

    With s = p + q, which sums to 2 over the keys, and t = |p − q| / s,

        JSD(p, q) = ½ Σ s [(1 + t) log₂(1 + t) + (1 − t) log₂(1 − t)] / Σ s

    This is ½ KL(p ‖ s/2) + ½ KL(q ‖ s/2) of Lin 1991, section IV, in terms of the difference. It stays accurate for
    nearly equal rows, where p log₂(2p / s) and q log₂(2q / s) cancel.

    Args:
        p, q: rows that sum to 1, or to 0 where a query sees no key, (…, k_length). NumPy arrays, or tensors on any
            device, of one floating type; they broadcast.
        log1p: ``numpy.log1p``, or ``torch.log1p`` for tensors.

    Returns:
        Divergence of each row, (…). Two rows of zeros give 0; one row of zeros gives 1.
    """
    s, t = p + q, abs(p - q)
    tiny, eps = (float(getattr(np.finfo(str(s.dtype).removeprefix("torch.")), name)) for name in ("tiny", "eps"))
    t /= s.clip(tiny)  # so that 0 / 0 is 0
    terms = log1p((-t).clip(eps / 2 - 1))  # log 0 is infinite, and 0 log 0 is 0
    terms *= 1 - t
    terms += (1 + t) * log1p(t)
    terms *= s
    return (terms.sum(-1) / (2 * math.log(2)) / s.sum(-1).clip(tiny)).clip(0, 1)


def _flaw(m: AttentionMap, sums: NDArray[np.float64], has_rest: bool) -> Flaw | None:
    """Find the row whose sum, of (2, rows), is farthest from that of a distribution, if by more than rounding."""
    away = sums - 1 if has_rest else np.where(sums == 0, 0.0, np.abs(sums - 1))
    side, row = (int(i) for i in np.unravel_index(away.argmax(), away.shape))
    if away[side, row] <= ROUNDING:
        return None
    return Flaw(int(m.rows.edges[row]), float(sums[side, row]), bool(side))


_MOST_CHANGED = 0.5  # share of tokens that may differ between two texts, as where a word is replaced


def _largest(m: AttentionMap, A: NDArray[np.float32], B: NDArray[np.float32]) -> Change | None:
    sizes = np.abs(B - A)
    first = (sizes >= sizes.max() * (1 - TIED)).argmax()  # the first of equal changes, so that rounding does not decide
    row, column = np.unravel_index(first, A.shape)
    if A[row, column] == B[row, column]:
        return None
    query, key = m.rows.edges[row], m.columns.edges[column]
    return Change(int(query), int(key), float(A[row, column]), float(B[row, column]))


def _require_same_cells(before: AttentionMap, after: AttentionMap, most_changed: float) -> None:
    """Raise MhavizError unless both maps have the same heads, cells and number of tokens, of which at most a share of
    ``most_changed`` differ; it names the first difference."""
    name = after.name
    sides = ("query", "queries", before.rows, after.rows), ("key", "keys", before.columns, after.columns)
    for side, several, old, new in sides:
        pairs = list(zip(old.tokens.texts, new.tokens.texts, strict=False))
        differing = [i for i, (one, other) in enumerate(pairs) if one != other]
        if len(differing) > most_changed * len(pairs) or (differing and len(old.tokens) != len(new.tokens)):
            one, other = pairs[differing[0]]
            advice = ", or of texts that differ in a word" if most_changed else ", as a limit is for those"
            raise MhavizError(
                f"{name}: expected the same tokens, but {side} {differing[0]} is {quoted(one)} in the first and "
                f"{quoted(other)} in the second; compare maps of one text{advice}"
            )
        if len(old.tokens) != len(new.tokens):
            raise MhavizError(
                f"{name}: expected the same tokens, got {len(old.tokens)} and {len(new.tokens)} {several}; "
                f"compare maps of one text"
            )
    if before.heads != after.heads:
        raise MhavizError(
            f"{name}: expected the same heads, got {_heads(before)} and {_heads(after)}; choose some with "
            f"{parameter('head')}"
        )
    for _, several, old, new in sides:
        if not np.array_equal(old.edges, new.edges):
            got = f"{len(old):,} and {len(new):,} along the {several}, with other edges"
            raise MhavizError(f"{name}: expected the same cells, got {got}; pool both in the same way")


def _require_same_spans(before: AttentionMap, after: AttentionMap) -> None:
    """Raise MhavizError unless two maps have the same spans, of as many tokens, and the same sinks."""
    for side, old, new in (("query", before.rows, after.rows), ("key", before.columns, after.columns)):
        spans = [zip(axis.tokens.texts, axis.tokens.counts, strict=True) for axis in (old, new)]
        for place, pair in enumerate(zip_longest(*spans)):
            if pair[0] != pair[1]:
                one, other = (
                    "none" if one is None else f"{quoted(one[0])} of {counted(one[1], 'token')}" for one in pair
                )
                raise MhavizError(
                    f"{before.name}: expected the same spans and sinks, as a limit is for one text, but {side} {place} "
                    f"is {one} in the first and {other} in the second; leave out {parameter('fail_above')}"
                )


def _heads(m: AttentionMap) -> str:
    return ", ".join(map(str, m.heads[:12])) + ", …" * (len(m.heads) > 12)


def _listed(names: Collection[str]) -> str:
    return "; ".join(list(names)[:4]) + f"; … {len(names) - 4} more" * (len(names) > 4)


def joined_source(before: Source, after: Source) -> Source:
    """Return the source of a difference, from those of A and B."""
    sides = {"first": before, "second": after}
    details = {
        side: {"name": source.model, "footnote": source.footnote, **source.details} for side, source in sides.items()
    }
    return Source(f"A: {before.footnote}; B: {after.footnote}", {"kind": "difference", **details}, after.remark)
