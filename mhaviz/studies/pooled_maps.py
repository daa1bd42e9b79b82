"""Maps of inputs of any length: the weights in the cells of a picture, and each head in a few numbers."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.limits import MOST_CELLS
from mhaviz.maps.attention_map import check_window
from mhaviz.maps.map_of_inputs import map_of_inputs
from mhaviz.maps.pooled_map import PooledMap, Window
from mhaviz.maps.walk import blocks_bytes
from mhaviz.records import (
    Attention,
    AttentionMap,
    Cells,
    HeadSummary,
    Link,
    MapInputs,
    MapOutline,
    MapSummary,
    QueriesAndKeys,
    Reduction,
    Sink,
)
from mhaviz.records.cells import cell_edges, even_cells

OpenWindow = tuple[int | None, int | None, int | None, int | None]

NEAR = 32
"""Keys up to so many positions away count as local."""

STRONG = 0.1
"""A key that gets at least this share of a query's weight is strongly linked to it."""

SINKS = 5
"""So many of the keys that get the most weight are named."""

_SAMPLED = 512  # queries that are timed to know how long all will take


@dataclass(frozen=True)
class Pooling:
    """How maps are pooled.

    Attributes:
        size: rows and columns of cells, at most: as many as make them equally large.
        reduce: "mass", "max" or "both"; see ``attention_map``.
        window: (q0, q1, k0, k1): the part of the map that is shown, an end that is None being that of the map; None:
            all of it.
        memory: bytes that may be used beside the inputs and the map; None: a quarter of what is free.
        device: where it is computed.
        summary: whether each head is summed up as well.
    """

    size: int = MOST_CELLS
    reduce: Literal["mass", "max", "both"] = "mass"
    window: OpenWindow | None = None
    memory: int | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    summary: bool = True

    def run(self, inputs: QueriesAndKeys, told: Callable[[float], None] | None = None) -> PooledMap:
        """The map of one sentence's queries and keys. Raises as ``attention_map`` does."""
        return map_of_inputs(
            inputs,
            self.device,
            rows=self.rows_of(inputs.outline),
            columns=self.columns_of(inputs.outline),
            reduce=self.reduce,
            window=self.window_of(inputs.outline),
            entropy=self.summary,
            top_keys=int(self.summary),
            received=self.summary,
            local=NEAR if self.summary and inputs.kind != "cross" else None,
            memory=self.memory,
            told=told,
        )

    def rows_of(self, outline: MapOutline) -> int:
        """Of cells."""
        q0, q1, *_ = self.window_of(outline)
        return even_cells(q1 - q0, self.size)

    def columns_of(self, outline: MapOutline) -> int:
        """Of cells."""
        *_, k0, k1 = self.window_of(outline)
        return even_cells(k1 - k0, self.size)

    def window_of(self, outline: MapOutline) -> Window:
        """The window, or all there is. Raises ArgumentError if it is not inside the map."""
        q0, q1, k0, k1 = self.window or (None, None, None, None)
        q_length, k_length = outline.q_length, outline.k_length
        window = q0 or 0, q_length if q1 is None else q1, k0 or 0, k_length if k1 is None else k1
        try:
            return check_window(window, q_length, k_length)
        except ArgumentError as error:
            of = "" if outline.sentence is None else f", in sentence {outline.sentence + 1}"
            raise ArgumentError(f"{error} ({outline.kind} attention{of})") from None


def pooled_maps(inputs: MapInputs, pooling: Pooling, told: Callable[[float], None] = lambda done: None) -> Attention:
    """Map every sentence; where ``pooling`` wants both reductions, and they differ, there are two maps of each.

    Raises:
        ArgumentError: a window outside a map, a size that cannot be.
    """
    maps: list[AttentionMap] = []
    whole, done = scores_needed(inputs, pooling), 0

    def seen(one: QueriesAndKeys) -> None:
        nonlocal done
        cost = _pairs(one.outline, pooling)
        pooled = pooling.run(one, lambda share: told((done + share * cost) / whole))
        done += cost
        maps.extend(_records(one, pooling, pooled))

    inputs.visit(seen)
    return Attention(inputs.source, tuple(maps))


def seconds_needed(inputs: MapInputs, pooling: Pooling) -> float:
    """About how long ``pooled_maps`` will take, from what some queries of one head take, whatever their numbers."""
    largest = max(inputs.outlines, key=lambda one: _pairs(one, pooling))
    q0, q1, k0, k1 = pooling.window_of(largest)
    middle = max((q0 + q1 - _SAMPLED) // 2, q0)  # of a causal map they see half of the keys
    sample = replace(pooling, window=(middle, min(middle + _SAMPLED, q1), k0, k1))
    query, key = (np.zeros((1, n, largest.d_key), np.float32) for n in (largest.q_length, largest.k_length))
    queries, keys = ("",) * largest.q_length, ("",) * largest.k_length
    one_head = QueriesAndKeys(queries, keys, query, key, (0,), largest.kind)
    warm_up = replace(sample, window=(middle, middle + 1, k0, k1))
    float(warm_up.run(one_head).weights.sum())
    start = time.perf_counter()
    float(sample.run(one_head).weights.sum())  # which waits for a GPU
    taken = time.perf_counter() - start
    return taken * scores_needed(inputs, pooling) / _pairs(one_head.outline, sample)


def cells_of(outline: MapOutline, pooling: Pooling) -> tuple[Cells, ...]:
    """The cells of the maps that ``pooled_maps`` makes of one sentence; none if nothing is pooled."""
    q0, q1, k0, k1 = pooling.window_of(outline)
    query_edges = cell_edges(q1 - q0, pooling.rows_of(outline)) + q0
    key_edges = cell_edges(k1 - k0, pooling.columns_of(outline)) + k0
    cells = Cells(query_edges, key_edges)
    reductions: tuple[Reduction, ...] = ("mass", "max") if pooling.reduce == "both" else (pooling.reduce,)
    return () if cells.are_tokens else tuple(replace(cells, reduction=reduction) for reduction in reductions)


def scores_needed(inputs: MapInputs, pooling: Pooling) -> int:
    """How many scores ``pooled_maps`` computes, or skips as hidden."""
    return sum(_pairs(one, pooling) for one in inputs.outlines)


def bytes_needed(inputs: MapInputs, pooling: Pooling) -> int:
    """At the peak: the maps, the largest of the inputs, and the blocks in which it is computed."""
    float32 = 4
    total = 0
    for one in inputs.outlines:
        cells = pooling.size**2 * (1 + (pooling.reduce == "both"))
        of_each_query = 6 * (one.q_length + one.k_length) * pooling.summary
        total += float32 * one.n_heads * (cells + of_each_query)
    largest = max(inputs.outlines, key=_bytes_of_inputs)
    wanted = pooling.summary, pooling.summary, pooling.memory
    blocks = blocks_bytes(pooling.device, largest.k_length, largest.d_key, pooling.size, *wanted)
    return total + _bytes_of_inputs(largest) + blocks


def _bytes_of_inputs(outline: MapOutline) -> int:
    float32 = 4
    return float32 * outline.n_heads * (outline.q_length + outline.k_length) * outline.d_key


def _pairs(outline: MapOutline, pooling: Pooling) -> int:
    """How many scores a map has: what it costs."""
    q0, q1, *_ = pooling.window_of(outline)
    return (q1 - q0) * outline.k_length * outline.n_heads


def _records(inputs: QueriesAndKeys, pooling: Pooling, pooled: PooledMap) -> list[AttentionMap]:
    cells = Cells(pooled.query_edges.cpu().numpy(), pooled.key_edges.cpu().numpy())
    if pooling.reduce == "max" and not cells.are_tokens:
        cells = replace(cells, reduction="max")
    weights = pooled.weights[0].cpu().numpy()
    whole = inputs.map(
        weights,
        pooling.window_of(inputs.outline),
        cells=cells if pooling.window or not cells.are_tokens else None,
        summary=_summary(inputs, pooling, pooled) if pooling.summary else None,
    )
    if pooled.largest is None or cells.are_tokens:
        return [whole]
    largest = pooled.largest[0].cpu().numpy()
    return [whole, replace(whole, weights=largest, cells=replace(cells, reduction="max"), summary=None)]


def _summary(inputs: QueriesAndKeys, pooling: Pooling, pooled: PooledMap) -> MapSummary:
    assert pooled.entropy is not None
    assert pooled.received is not None
    assert pooled.top_keys is not None
    assert pooled.top_weights is not None
    q0, q1, *_ = pooling.window_of(inputs.outline)
    queries = np.arange(q0, q1)
    seen = _keys_seen(inputs, queries)
    entropy, received, keys, weights = (
        x[0].cpu().numpy() for x in (pooled.entropy, pooled.received, pooled.top_keys, pooled.top_weights)
    )
    local = None if pooled.local is None else pooled.local[0].cpu().numpy()

    def link(h: int, i: int) -> Link:
        query, key = int(queries[i]), int(keys[h, i, 0])
        return Link(query, inputs.query_tokens[query], key, inputs.key_tokens[key], float(weights[h, i, 0]))

    def farthest(h: int) -> Link | None:
        distance = np.where(weights[h, :, 0] >= STRONG, np.abs(queries - keys[h, :, 0]), -math.inf)
        i = int(distance.argmax())
        return link(h, i) if weights[h, i, 0] >= STRONG else None

    heads = tuple(
        HeadSummary(
            entropy=float(entropy[h, seen > 0].mean()),
            uniform_entropy=float(np.log(seen[seen > 0]).mean()),
            sinks=_sinks(received[h], inputs.key_tokens),
            local=None if local is None else float(local[h, seen > 0].mean()),
            strongest=link(h, int(np.where((seen > 1) | (seen.max() == 1), weights[h, :, 0], -1.0).argmax())),
            farthest=None if local is None else farthest(h),
        )
        for h in range(len(inputs.heads))
    )
    return MapSummary(heads, int((seen > 0).sum()), NEAR, STRONG)


def _keys_seen(inputs: QueriesAndKeys, queries: NDArray[np.int64]) -> NDArray[np.int64]:
    """By each of these queries."""
    q_length, k_length = inputs.query.shape[1], inputs.key.shape[1]
    position, end = queries, np.full(queries.shape, k_length)
    if inputs.kind == "masked":
        position = queries + k_length - q_length
        end = np.clip(position + 1, 0, k_length)
    if inputs.reach is None:
        return end
    first, end = np.maximum(position - inputs.reach, 0), np.minimum(end, position + inputs.reach + 1)
    return np.asarray(np.maximum(end - first, 0))


def _sinks(received: NDArray[np.float32], tokens: tuple[str, ...]) -> tuple[Sink, ...]:
    """received (k_length,)"""
    order = np.argsort(-received, kind="stable")[:SINKS]
    return tuple(Sink(int(key), tokens[key], float(received[key])) for key in order if received[key] > 0)
