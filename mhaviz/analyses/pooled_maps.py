"""Pooled maps for inputs of any length, one for each attention of a model, with a summary of each head."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.analyses.queries_and_keys import kept_queries_and_keys
from mhaviz.analyses.weights import MapSize, map_sizes, mean_share, require_text, without_special
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.map import pool
from mhaviz.attention.model import Inputs, Model, SiteCall
from mhaviz.attention.pooled_map import PooledMap, Pooling, Window
from mhaviz.attention.tiles import tile_shape
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind, Tokens, is_run
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis, cell_edges, even_cells
from mhaviz.results.quantity import NORM, WEIGHT, Cells, Quantity, Reduction
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink

NEAR = 32
"""Largest distance of a local key, in positions."""

STRONG = 0.1
"""Least share of a query's weight for a strong link to a key."""

SINKS = 5
"""Number of keys with the most weight that a summary names."""

_FLOAT32 = 4  # bytes
_SAMPLED = 512  # queries that are timed to estimate the time of all


SUMMED_UP = Pooling(entropy=True, top_keys=1, received=True, local=NEAR)
"""Pooling that computes what a summary of each head needs."""


def pooling_of(size: MapSize, pooling: Pooling) -> Pooling:
    """Adapt a pooling to one map: fill in its window, choose cells of nearly equal width, drop undefined numbers.

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
    """Compute a pooled map of each selected attention for each sentence.

    Args:
        model, inputs, heads, hide_special: as in ``attention_weights``.
        pooling: cells and window of the maps.
        on_progress: called with the share of the work that is done, from 0 to 1, and a description of what is next.
        keep: keep queries and keys beside the maps; not for a window, or where special tokens are hidden.

    Raises:
        ArgumentError: the window is outside of a map, a size is invalid, or hidden tokens are inside the text.
    """
    maps: list[AttentionMap] = []
    sizes = map_sizes(model, inputs, heads)
    whole, done, number = scores_needed(sizes, pooling), 0, 1

    def on_attention(seen: SiteCall) -> None:
        nonlocal done, number
        part = _within_text((seen.queries[0], seen.keys[0]), seen.site.kind, pooling) if hide_special else pooling
        cost, what = _n_scores(_size_of(seen), pooling), f"map {number} of {len(sizes)}"
        number += 1
        pooled, m = _pooled(seen, part, keep, lambda share: on_progress((done + share * cost) / whole, what))
        done += cost
        maps.append(_with_share(m, pooled) if hide_special and seen.keys[0].special else m)

    model.run(inputs, on_attention, heads)
    return Attention(model.describe(inputs), tuple(maps))


def pooled_of_call(seen: SiteCall, pooling: Pooling, keep: bool = False) -> AttentionMap:
    """Return the map of a call of one sentence; see ``pooled_maps``."""
    return _pooled(seen, pooling, keep)[1]


def _pooled(
    seen: SiteCall, pooling: Pooling, keep: bool, on_progress: Callable[[float], None] = lambda done: None
) -> tuple[PooledMap, AttentionMap]:
    """Return the ``PooledMap`` of a call, and the map as in ``pooled_of_call``."""
    has_norms = seen.call.value_norms is not None
    wanted = replace(pooling_of(_size_of(seen), pooling), totals=pooling.totals or (has_norms and pooling.entropy))
    pooled = pool(seen.call, wanted, on_progress=on_progress)
    m = _map_of(seen, pooling, pooled)
    if keep and pooling.window is None and (kept := kept_queries_and_keys(seen)) is not None:
        m = replace(m, queries_and_keys=kept)
    return pooled, m


def _size_of(seen: SiteCall) -> MapSize:
    _, n_heads, q_length, k_length = seen.call.shape
    return MapSize(seen.site.kind, n_heads, q_length, k_length, seen.site.d_key, seen.sentence)


def _within_text(sides: tuple[Tokens, Tokens], kind: Kind, pooling: Pooling) -> Pooling:
    """Restrict a pooling to the tokens of the text, and request totals and mass for the share of special tokens.

    Raises:
        ArgumentError: there are only special tokens, or some inside the text.
    """
    rows, columns = (side.of_text for side in sides)
    require_text(rows, columns, kind)
    if not (is_run(rows) and is_run(columns)):
        raise ArgumentError(
            f"{parameter('hide_special')}: special tokens are inside the text and share cells with it; leave this out"
        )
    window = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    return replace(pooling, window=window, totals=True, both=pooling.reduce == "max")


def _with_share(m: AttentionMap, pooled: PooledMap) -> AttentionMap:
    """Add the mean share of special tokens to the map of a text; ``pooled`` has its cells by mass."""
    assert pooled.totals is not None
    totals = pooled.totals[0].double().cpu().numpy()  # n_heads queries
    mass = pooled.weights[0].double().cpu().numpy()  # n_heads rows columns
    inside = (mass.sum(axis=-1) * np.diff(m.rows.edges)).sum(axis=-1, keepdims=True)
    wholes = np.ones_like(totals) if m.quantity.is_distribution else totals
    return replace(m, to_special=mean_share(totals.sum(axis=-1, keepdims=True) - inside, wholes))


def outline(
    model: Model, inputs: Inputs, pooling: Pooling | None, hide_special: bool = False, quantity: Quantity = WEIGHT
) -> Attention:
    """Return maps with the axes of those that ``pooled_maps`` computes, or ``attention_weights`` without a pooling.

    There is one map, with one head of zeros, for each text and kind of attention. What is then done with the maps, and
    cannot be, fails on these before the model runs. Arguments as in ``pooled_maps``; ``quantity``: what the maps show.

    Raises:
        ArgumentError: as ``pooled_maps``.
    """
    sites, maps = model.first_sites(inputs), list[AttentionMap]()
    for number, text in enumerate(inputs.texts):
        for site in sites.values():
            sides, sentence = text.sides(site.kind), inputs.sentence(number)
            rows, columns = map(Axis, sides)
            reduction: Reduction = "mass"
            if pooling is not None:
                part = _within_text(sides, site.kind, pooling) if hide_special else pooling
                size = MapSize(site.kind, 1, len(rows), len(columns), site.d_key, sentence)
                cells = _axes(pooling_of(size, part), sides)
                is_pooled = any(axis.is_pooled for axis in cells)
                rows, columns = cells if part.window or is_pooled else (rows, columns)
                reduction = pooling.reduce or "mass" if is_pooled else "mass"
            zeros = np.broadcast_to(np.float32(0), (1, len(rows), len(columns)))
            m = AttentionMap(zeros, rows, columns, site.kind, site.layer, sentence=sentence, quantity=quantity)
            m = without_special(m) if hide_special and pooling is None else m
            maps.append(replace(m, quantity=replace(quantity, reduction=reduction)))
    return Attention(Source(""), tuple(maps))


def _axes(of_map: Pooling, sides: tuple[Tokens, Tokens]) -> tuple[Axis, Axis]:
    """Return the axes of a map with this pooling, of ``pooling_of``, between these tokens."""
    q0, q1, k0, k1 = of_map.span
    rows, columns = of_map.cells
    queries, keys = sides
    return (
        Axis(queries[q0:q1], cell_edges(q1 - q0, rows) + q0),
        Axis(keys[k0:k1], cell_edges(k1 - k0, columns) + k0),
    )


def seconds_needed(sizes: Sequence[MapSize], pooling: Pooling, device: torch.device) -> float:
    """Estimate the seconds of ``pooled_maps`` by timing some queries of one head, with zeros as queries and keys."""
    largest = max(sizes, key=lambda size: _n_scores(size, pooling))
    q0, q1, k0, k1 = pooling_of(largest, pooling).span
    middle = max((q0 + q1 - _SAMPLED) // 2, q0)  # these see half of the keys in a causal map, which is the average
    sample = replace(pooling, window=(middle, min(middle + _SAMPLED, q1), k0, k1))
    Q, K = (torch.zeros(1, 1, n, largest.d_key, device=device) for n in (largest.q_length, largest.k_length))
    call = AttentionCall(Q, K, K, largest.d_key**-0.5, largest.kind == "masked")
    warm_up = replace(sample, window=(middle, middle + 1, k0, k1))
    float(pool(call, pooling_of(largest, warm_up)).weights.sum())
    start = time.perf_counter()
    float(pool(call, pooling_of(largest, sample)).weights.sum())  # float() waits for a GPU
    taken = time.perf_counter() - start
    return taken * scores_needed(sizes, pooling) / _n_scores(replace(largest, n_heads=1), sample)


def cells_of(size: MapSize, pooling: Pooling) -> Cells | None:
    """Return the cells of the map that ``pooled_maps`` computes for one sentence; None: nothing is pooled."""
    sides = Tokens(("",) * size.q_length), Tokens(("",) * size.k_length)
    rows, columns = _axes(pooling_of(size, pooling), sides)
    cells = Cells(rows, columns, Quantity(reduction=pooling.reduce or "mass"))
    return None if cells.are_tokens else cells


def scores_needed(sizes: Sequence[MapSize], pooling: Pooling) -> int:
    """Return the number of scores that ``pooled_maps`` computes, hidden ones included."""
    return sum(_n_scores(size, pooling) for size in sizes)


def bytes_needed(sizes: Sequence[MapSize], pooling: Pooling, device: torch.device) -> int:
    """Estimate the peak memory: the maps, the largest of the inputs, and the blocks in which it is computed."""
    total = 0
    for size in sizes:
        of_each_query = 6 * (size.q_length + size.k_length) * pooling.entropy
        total += _FLOAT32 * size.n_heads * (math.prod(pooling.most) + of_each_query)
    largest = max(sizes, key=lambda size: size.bytes_of_inputs)
    shape = tile_shape(device, largest.k_length, largest.d_key, pooling_of(largest, pooling), None)
    return total + largest.bytes_of_inputs + shape.bytes


def _n_scores(size: MapSize, pooling: Pooling) -> int:
    """Return the number of scores of a map, which its cost is proportional to."""
    return pooling_of(size, pooling).queries * size.k_length * size.n_heads


def _map_of(seen: SiteCall, pooling: Pooling, pooled: PooledMap) -> AttentionMap:
    query_edges, key_edges = pooled.query_edges.cpu().numpy(), pooled.key_edges.cpu().numpy()
    window = int(query_edges[0]), int(query_edges[-1]), int(key_edges[0]), int(key_edges[-1])
    is_pooled = max(np.diff(query_edges).max(), np.diff(key_edges).max()) > 1
    quantity = WEIGHT if seen.call.value_norms is None else NORM
    by_largest = pooling.reduce == "max" and is_pooled
    cells = pooled.largest if by_largest and pooled.largest is not None else pooled.weights
    sides = zip((seen.queries[0], seen.keys[0]), (query_edges, key_edges), strict=True)
    rows, columns = (Axis(tokens[int(edges[0]) : int(edges[-1])], edges) for tokens, edges in sides)
    return seen.map(
        cells[0].cpu().numpy(),
        (rows, columns) if pooling.window or is_pooled else None,
        quantity=replace(quantity, reduction="max") if by_largest else quantity,
        summary=_summary(seen, window, pooled) if pooling.entropy else None,
    )


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
    shares = weights[..., 0]  # n_heads queries: largest share of each query
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
    """Return the mean over the counted queries in each row of cells; NaN where there are none."""
    sums, n = (np.add.reduceat(x, edges[:-1], dtype=np.float64) for x in (np.where(counts, numbers, 0.0), counts))
    return np.divide(sums, n, out=np.full(len(sums), np.nan), where=n > 0).tolist()  # type: ignore[no-any-return]


def _keys_seen(seen: SiteCall, queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of keys that each of these queries can weigh, in some head."""
    call, (_, _, q_length, k_length) = seen.call, seen.call.shape
    if isinstance(call, AttentionCall) and call.mask is not None:
        weighed = call.weighed()
        assert weighed is not None
        counts: NDArray[np.int64] = weighed[0].any(dim=0).sum(dim=-1).expand(q_length).cpu().numpy()
        return counts[queries]
    is_causal = call.causal if isinstance(call, AttentionCall) else seen.site.kind == "masked"
    return np.clip(queries + k_length - q_length + 1, 0, k_length) if is_causal else np.full(queries.shape, k_length)


def _sinks(received: NDArray[np.float32], tokens: tuple[str, ...]) -> tuple[Sink, ...]:
    """Return the keys that received the most weight; ``received``: (k_length,)."""
    order = np.argsort(-received, kind="stable")[:SINKS]
    return tuple(Sink(int(key), tokens[key], float(received[key])) for key in order if received[key] > 0)
