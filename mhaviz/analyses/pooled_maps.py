"""Pooled maps of inputs of any length, one for each attention of a model, with a summary of each head."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.analyses.queries_and_keys import kept_queries_and_keys
from mhaviz.analyses.weights import MapSize, map_sizes, mean_share, require_text
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.map import pool
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.attention.pooled_map import PooledMap, Pooling, Window
from mhaviz.attention.tiles import tile_shape
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Tokens, is_run
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis, cell_edges, even_cells
from mhaviz.results.quantity import NORM, WEIGHT, Cells, Quantity, Reduction
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink

NEAR = 32
"""Keys up to so many positions away count as local."""

STRONG = 0.1
"""A key that gets at least this share of a query's weight is strongly linked to it."""

SINKS = 5
"""So many of the keys that get the most weight are named."""

_FLOAT32 = 4  # bytes
_SAMPLED = 512  # queries that are timed to know how long all will take


SUMMED_UP = Pooling(entropy=True, top_keys=1, received=True, local=NEAR)
"""With what a summary of each head is made of."""


def pooling_of(size: MapSize, pooling: Pooling) -> Pooling:
    """The same of a map: its window, as many cells as make them equally large, and what has a meaning.

    Raises ArgumentError if the window is not inside the map.
    """
    try:
        pooling = pooling.within(size.q_length, size.k_length)
    except ArgumentError as error:
        of = "" if size.sentence is None else f", in sentence {size.sentence + 1}"
        raise ArgumentError(f"{error} ({KIND_NAMES[size.kind]}{of})") from None
    (q0, q1, k0, k1), (rows, columns) = pooling.span, pooling.most
    local = pooling.local if size.kind in OF_ONE_TEXT else None
    return replace(pooling, size=(even_cells(q1 - q0, rows), even_cells(k1 - k0, columns)), local=local)


def pooled_maps(
    model: Model,
    inputs: Inputs,
    pooling: Pooling,
    heads: Sequence[int] | None = None,
    hide_special: bool = False,
    on_progress: Callable[[float, str], None] = lambda done, what: None,
    keep: bool = False,
) -> Attention:
    """Map every sentence; where ``pooling`` wants both reductions, and they differ, there are two maps of each.

    Args:
        model, inputs, heads, hide_special: as in ``attention_weights``.
        pooling: how.
        on_progress: called with the share of the work that is done, from 0 to 1, and what is done next.
        keep: whether queries and keys are kept beside the maps; not of a window, or where special tokens are hidden.

    Raises:
        ArgumentError: a window outside a map, a size that cannot be; hidden tokens that are inside the text.
    """
    maps: list[AttentionMap] = []
    sizes = map_sizes(model, inputs, heads)
    whole, done, number = scores_needed(sizes, pooling), 0, 1

    def on_attention(seen: SiteCall) -> None:
        nonlocal done, number
        part = _of_text(seen, pooling) if hide_special else pooling
        cost, what = _pairs(_size_of(seen), pooling), f"map {number} of {len(sizes)}"
        number += 1
        pooled, found = _pooled(seen, part, keep, lambda share: on_progress((done + share * cost) / whole, what))
        done += cost
        if hide_special and seen.keys[0].special:
            found = _with_share(found, pooled)
        if pooling.reduce == "max":
            found = [replace(found[-1], summary=found[0].summary)]
        maps.extend(found)

    model.run(inputs, on_attention, heads)
    return Attention(model.describe(inputs), tuple(maps))


def pooled_of_call(seen: SiteCall, pooling: Pooling, keep: bool = False) -> list[AttentionMap]:
    """The map of a call of one sentence, or two if both reductions are wanted; see ``pooled_maps``."""
    return _pooled(seen, pooling, keep)[1]


def _pooled(
    seen: SiteCall, pooling: Pooling, keep: bool, on_progress: Callable[[float], None] = lambda done: None
) -> tuple[PooledMap, list[AttentionMap]]:
    """The same, and all that was computed for it."""
    has_norms = seen.call.value_norms is not None
    wanted = replace(pooling_of(_size_of(seen), pooling), totals=pooling.totals or (has_norms and pooling.entropy))
    pooled = pool(seen.call, wanted, on_progress=on_progress)
    found = _records(seen, pooling, pooled)
    if keep and pooling.window is None and (kept := kept_queries_and_keys(seen)) is not None:
        found = [replace(m, queries_and_keys=kept) for m in found]
    return pooled, found


def _size_of(seen: SiteCall) -> MapSize:
    _, n_heads, q_length, k_length = seen.call.shape
    return MapSize(seen.site.kind, n_heads, q_length, k_length, seen.site.d_key, seen.sentence)


def _of_text(seen: SiteCall, pooling: Pooling) -> Pooling:
    """The same of the text alone, with what the share of special tokens is computed from.

    Raises:
        ArgumentError: no token of the text, or special tokens between them.
    """
    sides = seen.queries[0].of_text, seen.keys[0].of_text
    require_text(*sides, seen.site.kind)
    if not all(map(is_run, sides)):
        raise ArgumentError(
            f"{parameter('hide_special')}: special tokens stand inside the text, and share cells with it; leave it out"
        )
    rows, columns = sides
    window = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    return replace(pooling, window=window, totals=True, reduce="both" if pooling.reduce == "max" else pooling.reduce)


def _with_share(found: Sequence[AttentionMap], pooled: PooledMap) -> list[AttentionMap]:
    """The maps of the run of text, the first of which is by mass, with what goes to special tokens."""
    assert pooled.totals is not None
    mass, totals = found[0], pooled.totals[0].double().cpu().numpy()  # n_heads queries
    inside = (mass.row_sums * np.diff(mass.rows.edges)).sum(axis=-1, keepdims=True)
    wholes = np.ones_like(totals) if mass.quantity.is_distribution else totals
    share = mean_share(totals.sum(axis=-1, keepdims=True) - inside, wholes)
    return [replace(m, to_special=share) for m in found]


def seconds_needed(sizes: Sequence[MapSize], pooling: Pooling, device: torch.device) -> float:
    """About how long ``pooled_maps`` will take, from what some queries of one head take, whatever their numbers."""
    largest = max(sizes, key=lambda size: _pairs(size, pooling))
    q0, q1, k0, k1 = pooling_of(largest, pooling).span
    middle = max((q0 + q1 - _SAMPLED) // 2, q0)  # of a causal map they see half of the keys
    sample = replace(pooling, window=(middle, min(middle + _SAMPLED, q1), k0, k1))
    Q, K = (torch.zeros(1, 1, n, largest.d_key, device=device) for n in (largest.q_length, largest.k_length))
    call = AttentionCall(Q, K, K, largest.d_key**-0.5, largest.kind == "masked")
    warm_up = replace(sample, window=(middle, middle + 1, k0, k1))
    float(pool(call, pooling_of(largest, warm_up)).weights.sum())
    start = time.perf_counter()
    float(pool(call, pooling_of(largest, sample)).weights.sum())  # which waits for a GPU
    taken = time.perf_counter() - start
    return taken * scores_needed(sizes, pooling) / _pairs(replace(largest, n_heads=1), sample)


def cells_of(size: MapSize, pooling: Pooling) -> tuple[Cells, ...]:
    """The cells of the maps that ``pooled_maps`` makes of one sentence; none if nothing is pooled."""
    of_map = pooling_of(size, pooling)
    rows, columns = (
        Axis(Tokens(("",) * (end - start)), cell_edges(end - start, cells) + start)
        for (start, end), cells in zip((of_map.span[:2], of_map.span[2:]), of_map.cells, strict=True)
    )
    if Cells(rows, columns, WEIGHT).are_tokens:
        return ()
    reductions: tuple[Reduction, ...] = ("mass", "max") if pooling.reduce == "both" else (pooling.reduce or "mass",)
    return tuple(Cells(rows, columns, Quantity(reduction=reduction)) for reduction in reductions)


def scores_needed(sizes: Sequence[MapSize], pooling: Pooling) -> int:
    """How many scores ``pooled_maps`` computes, or skips as hidden."""
    return sum(_pairs(size, pooling) for size in sizes)


def bytes_needed(sizes: Sequence[MapSize], pooling: Pooling, device: torch.device) -> int:
    """At the peak: the maps, the largest of the inputs, and the blocks in which it is computed."""
    total = 0
    for size in sizes:
        cells = math.prod(pooling.most) * (1 + (pooling.reduce == "both"))
        of_each_query = 6 * (size.q_length + size.k_length) * pooling.entropy
        total += _FLOAT32 * size.n_heads * (cells + of_each_query)
    largest = max(sizes, key=lambda size: size.bytes_of_inputs)
    shape = tile_shape(device, largest.k_length, largest.d_key, pooling_of(largest, pooling), None)
    return total + largest.bytes_of_inputs + shape.bytes


def _pairs(size: MapSize, pooling: Pooling) -> int:
    """How many scores a map has: what it costs."""
    return pooling_of(size, pooling).queries * size.k_length * size.n_heads


def _records(seen: SiteCall, pooling: Pooling, pooled: PooledMap) -> list[AttentionMap]:
    query_edges, key_edges = pooled.query_edges.cpu().numpy(), pooled.key_edges.cpu().numpy()
    window = int(query_edges[0]), int(query_edges[-1]), int(key_edges[0]), int(key_edges[-1])
    is_pooled = max(np.diff(query_edges).max(), np.diff(key_edges).max()) > 1
    single = WEIGHT if seen.call.value_norms is None else NORM
    of_largest = replace(single, reduction="max")
    whole = seen.map(
        pooled.weights[0].cpu().numpy(),
        (query_edges, key_edges) if pooling.window or is_pooled else None,
        quantity=of_largest if pooling.reduce == "max" and is_pooled else single,
        summary=_summary(seen, window, pooled) if pooling.entropy else None,
    )
    if pooled.largest is None or not is_pooled:
        return [whole]
    return [whole, replace(whole, weights=pooled.largest[0].cpu().numpy(), quantity=of_largest, summary=None)]


def _summary(seen: SiteCall, window: Window, pooled: PooledMap) -> MapSummary:
    assert pooled.entropy is not None
    assert pooled.received is not None
    assert pooled.top_keys is not None
    assert pooled.top_weights is not None
    q0, q1, *_ = window
    queries = np.arange(q0, q1)
    n_keys = _keys_seen(seen, queries)
    query_tokens, key_tokens = seen.queries[0].texts, seen.keys[0].texts
    entropy, received, keys, weights = (
        x[0].cpu().numpy() for x in (pooled.entropy, pooled.received, pooled.top_keys, pooled.top_weights)
    )
    local = None if pooled.local is None else pooled.local[0].cpu().numpy()
    shares = weights[..., 0]  # n_heads queries: of what a query gives, to the key that gets most of it
    if seen.call.value_norms is not None and pooled.totals is not None:
        totals = np.maximum(pooled.totals[0].cpu().numpy(), np.finfo(np.float32).tiny)  # n_heads queries
        received = received / totals.sum(axis=-1, keepdims=True) * (n_keys > 0).sum()
        shares, local = shares / totals, None if local is None else local / totals

    def link(h: int, i: int) -> Link:
        query, key = int(queries[i]), int(keys[h, i, 0])
        return Link(query, query_tokens[query], key, key_tokens[key], float(weights[h, i, 0]))

    def farthest(h: int) -> Link | None:
        distance = np.where(shares[h] >= STRONG, np.abs(queries - keys[h, :, 0]), -math.inf)
        i = int(distance.argmax())
        return link(h, i) if shares[h, i] >= STRONG else None

    heads = tuple(
        HeadSummary(
            entropy=float(entropy[h, n_keys > 0].mean()),
            uniform_entropy=float(np.log(n_keys[n_keys > 0]).mean()),
            sinks=_sinks(received[h], key_tokens),
            local=None if local is None else float(local[h, n_keys > 0].mean()),
            strongest=link(h, int(np.where((n_keys > 1) | (n_keys.max() == 1), weights[h, :, 0], -1.0).argmax())),
            farthest=None if local is None else farthest(h),
            entropies=tuple(_row_means(entropy[h], n_keys > 0, pooled.query_edges.cpu().numpy() - q0)),
        )
        for h in range(len(seen.heads))
    )
    return MapSummary(heads, int((n_keys > 0).sum()), NEAR, STRONG)


def _row_means(numbers: NDArray[np.float32], counts: NDArray[np.bool_], edges: NDArray[np.int64]) -> list[float]:
    """Of each row of cells the mean of the numbers of its queries that count; NaN where none does."""
    sums, n = (np.add.reduceat(x, edges[:-1], dtype=np.float64) for x in (np.where(counts, numbers, 0.0), counts))
    return np.divide(sums, n, out=np.full(len(sums), np.nan), where=n > 0).tolist()  # type: ignore[no-any-return]


def _keys_seen(seen: SiteCall, queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """By each of these queries."""
    _, _, q_length, k_length = seen.call.shape
    position, end = queries, np.full(queries.shape, k_length)
    if seen.site.kind == "masked":
        position = queries + k_length - q_length
        end = np.clip(position + 1, 0, k_length)
    if seen.reach is None:
        return end
    first, end = np.maximum(position - seen.reach, 0), np.minimum(end, position + seen.reach + 1)
    return np.asarray(np.maximum(end - first, 0))


def _sinks(received: NDArray[np.float32], tokens: tuple[str, ...]) -> tuple[Sink, ...]:
    """received (k_length,)"""
    order = np.argsort(-received, kind="stable")[:SINKS]
    return tuple(Sink(int(key), tokens[key], float(received[key])) for key in order if received[key] > 0)
