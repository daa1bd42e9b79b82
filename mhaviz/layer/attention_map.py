"""Exact attention maps at any length, without the matrix of weights.

The weights of one head are q_length × k_length; a picture has a thousand rows of pixels at most. So the map is computed
a block of queries at a time, and the block a tile of keys at a time, small enough to stay in the cache: the scores,
their softmax, and the sums in the picture's cells.
"""

import math
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mhaviz.devices import cpu_threads, free_memory
from mhaviz.errors import ArgumentError
from mhaviz.layer.cells import cell_edges
from mhaviz.layer.map_blocks import BlockSums, HeadBlocks, Wanted
from mhaviz.layer.map_tiles import TileShape, choose_tile_shape, cut_into_tiles

Window = tuple[int, int, int, int]
Block = tuple[int, int, list[int], int]
"""The first query and the end, how many of them are in each row of cells, and the number of the first row."""


@dataclass(frozen=True)
class PooledMap:
    """The weights of every head in the cells of a picture, and what else was asked for.

    Attributes:
        weights: float32, (batch_size, n_heads, rows, columns); by mass or, if only that was asked for, by maximum.
        query_edges: where each row of cells begins, and where the last ends, (rows + 1,).
        key_edges: the same of the columns, (columns + 1,).
        largest: float32, in the shape of ``weights``: the largest weight in each cell, if both were asked for.
        entropy: float32, (batch_size, n_heads, queries): of each query's weights, in nats.
        top_keys: int64, (batch_size, n_heads, queries, k): the keys with the largest weights, the largest first.
        top_weights: float32, the same shape: their weights; 0 where there are fewer visible keys.
        received: float32, (batch_size, n_heads, k_length): the total weight that each key gets from the queries.
        local: float32, (batch_size, n_heads, queries): the weight that each query gives to keys near by.
    """

    weights: Tensor
    query_edges: Tensor
    key_edges: Tensor
    largest: Tensor | None = None
    entropy: Tensor | None = None
    top_keys: Tensor | None = None
    top_weights: Tensor | None = None
    received: Tensor | None = None
    local: Tensor | None = None


@torch.no_grad()
def attention_map(
    query: Tensor,
    key: Tensor,
    *,
    rows: int = 512,
    columns: int = 512,
    reduce: Literal["mass", "max", "both"] = "mass",
    causal: bool = False,
    key_mask: Tensor | None = None,
    scale: float | None = None,
    window: Window | None = None,
    entropy: bool = False,
    top_keys: int = 0,
    received: bool = False,
    local: int | None = None,
    memory: int | None = None,
    told: Callable[[float], None] | None = None,
) -> PooledMap:
    """softmax(scale · Q Kᵀ), pooled to at most rows × columns cells, exactly, without ever holding it.

    Args:
        query: (batch_size, n_heads, q_length, d_key).
        key: (batch_size, n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads: heads share keys in
            groups, as in grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245).
        rows, columns: of the picture. A map that is smaller than that is not pooled: its cells are the weights.
        reduce: "mass": the mean over the cell's queries of the weight that goes to the cell's keys, so that each row
            still sums to 1; "max": the largest single weight in the cell; "both".
        causal: a query sees no later key; the last query is lined up with the last key.
        key_mask: (batch_size, k_length); 0 or False hides a key from all queries.
        scale: of the scores; 1/√d_key if it is None.
        window: (q0, q1, k0, k1), the part of the map that is shown; each weight is still a share of all keys.
        entropy, top_keys, received, local: compute these too, of the window's queries; ``top_keys`` for so many keys,
            ``local`` for the keys at most so many positions away.
        memory: bytes that the blocks may take beside the inputs and the result; None: a quarter of what is free.
        told: is told of the progress, from 0 to 1, by one thread at a time.

    Returns:
        The map. A query that sees no key at all has weights of 0. float64 inputs are computed in float64, others in
        float32.

    Raises:
        ArgumentError: an axis that does not fit, named; a number of rows, columns or keys below what makes sense; a
            window outside the map; a NaN or an infinity, with its head and position.
    """
    _check_inputs(query, key, key_mask)
    q_length, k_length = query.shape[2], key.shape[2]
    window = check_window(window, q_length, k_length)
    for name, size in (("rows", rows), ("columns", columns)):
        if size < 1:
            raise ArgumentError(f"{name}: expected at least 1, got {size}")
    if reduce not in ("mass", "max", "both"):
        raise ArgumentError(f"reduce: expected mass, max or both, got {reduce!r}")
    if not 0 <= top_keys <= k_length:
        raise ArgumentError(f"top_keys: expected a number from 0 to {k_length}, got {top_keys}")
    if local is not None and local < 0:
        raise ArgumentError(f"local: expected at least 0 positions, got {local}")
    wanted = Wanted(reduce != "max", reduce != "mass", entropy, top_keys, received, local)
    scale = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    later = k_length - q_length if causal else None
    result = _empty_map(query, k_length, rows, columns, window, wanted)
    _Walk(query, key, key_mask, scale, later, window, wanted, result, memory).go(told or (lambda done: None))
    if wanted.mass:
        result.weights.div_(result.query_edges.diff()[:, None])
    return result


def _empty_map(query: Tensor, k_length: int, rows: int, columns: int, window: Window, wanted: Wanted) -> PooledMap:
    """The result, of zeros, in the smaller of the two sizes: of the window, and of the picture."""
    q0, q1, k0, k1 = window
    rows, columns = min(rows, q1 - q0), min(columns, k1 - k0)

    def zeros(is_wanted: bool, *shape: int) -> Tensor | None:
        return torch.zeros(*query.shape[:2], *shape, device=query.device) if is_wanted else None

    cells = torch.zeros(*query.shape[:2], rows, columns, device=query.device)
    top_weights = zeros(wanted.top_keys > 0, q1 - q0, wanted.top_keys)
    return PooledMap(
        cells,
        cell_edges(q1 - q0, rows, query.device) + q0,
        cell_edges(k1 - k0, columns, query.device) + k0,
        torch.zeros_like(cells) if wanted.mass and wanted.largest else None,
        zeros(wanted.entropy, q1 - q0),
        None if top_weights is None else top_weights.to(torch.int64),
        top_weights,
        zeros(wanted.received, k_length),
        zeros(wanted.local is not None, q1 - q0),
    )


def blocks_bytes(
    device: torch.device,
    k_length: int,
    columns: int = 512,
    entropy: bool = False,
    received: bool = False,
    memory: int | None = None,
) -> int:
    """What ``attention_map`` takes beside inputs and result, for the arguments that decide it."""
    wanted = Wanted(mass=True, largest=False, entropy=entropy, received=received)
    return _workers(device) * _shape(device, k_length, columns, wanted, memory).bytes


def _workers(device: torch.device) -> int:
    return max(min(torch.get_num_threads(), os.cpu_count() or 1), 1) if device.type == "cpu" else 1


def _shape(device: torch.device, k_length: int, columns: int, wanted: Wanted, memory: int | None) -> TileShape:
    memory = memory or (free_memory(device) or 2**30) // 4
    scores_weights_and_products = 3
    copies = scores_weights_and_products if wanted.entropy else 1
    return choose_tile_shape(device, k_length, columns, copies, wanted.received, memory // _workers(device))


@dataclass
class _Walk:
    """The way through all heads and their blocks, filling in the result."""

    query: Tensor
    key: Tensor
    key_mask: Tensor | None
    scale: float
    later: int | None
    window: Window
    wanted: Wanted
    result: PooledMap
    memory: int | None

    def __post_init__(self) -> None:
        self.device = self.query.device
        self.dtype = torch.float64 if self.query.dtype == torch.float64 else torch.float32
        self.inference = torch.is_inference_mode_enabled()
        self.row_edges: list[int] = self.result.query_edges.tolist()
        self.lock, self.stopped, self.done = threading.Lock(), False, 0

    def go(self, told: Callable[[float], None]) -> None:
        """Walk: on the CPU in as many threads as PyTorch has, each with heads, or parts of heads, of its own."""
        heads = [(b, h) for b in range(self.query.shape[0]) for h in range(self.query.shape[1])]
        on_cpu = self.device.type == "cpu"
        threads, at_most = torch.get_num_threads(), _workers(self.device)
        columns = self.result.weights.shape[3]
        shape = _shape(self.device, self.key.shape[2], columns, self.wanted, self.memory)
        blocks = list(self._blocks(shape.queries))
        self.told, self.pairs = told, len(heads) * sum(map(self._pairs, blocks))
        parts = min(at_most, len(blocks)) if len(heads) % at_most else 1
        # Dealt out in turn: of a causal map, later blocks cost more.
        tasks = [(b, h, blocks[part::parts]) for b, h in heads for part in range(parts)]
        if not on_cpu:
            for b, h, some in tasks:
                self._walk_head(b, h, some, shape)
            return
        workers = min(at_most, len(tasks))
        each = max(threads // workers, 1)

        def work(task: tuple[int, int, list[Block]]) -> None:
            # All of these are a thread's own affair.
            with torch.inference_mode(self.inference), torch.no_grad(), cpu_threads(each):
                self._walk_head(*task, shape)

        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(work, task) for task in tasks]
            try:
                for future in futures:
                    future.result()
            except BaseException:  # Ctrl-C, or what one of them has found
                self.stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _blocks(self, at_once: int) -> Iterator[Block]:
        """Runs of queries: as many whole rows of cells as ``at_once`` holds, or a part of one."""
        edges, row = self.row_edges, 0
        while row < len(edges) - 1:
            last = bisect_right(edges, edges[row] + at_once) - 1
            if last > row:
                yield edges[row], edges[last], [edges[i + 1] - edges[i] for i in range(row, last)], row
                row = last
                continue
            for start in range(edges[row], edges[row + 1], at_once):
                end = min(start + at_once, edges[row + 1])
                yield start, end, [end - start], row
            row += 1

    def _pairs(self, block: Block) -> int:
        """How many weights a block has: what it costs."""
        start, end, *_ = block
        k_length = self.key.shape[2]
        return (end - start) * (k_length if self.later is None else min(max(end + self.later, 1), k_length))

    def _walk_head(self, b: int, h: int, blocks: list[Block], shape: TileShape) -> None:
        keys = self.key[b, h * self.key.shape[1] // self.query.shape[1]]
        positions = torch.arange(len(keys), device=self.device)
        if self.key_mask is not None:  # hidden keys are left out: they cost nothing then
            positions = positions[self.key_mask[b] != 0]
            keys = keys[positions]
        keys = keys.to(self.dtype)  # k_length d_key
        _check_finite("key", keys, b, h, positions)
        _check_finite("query", self.query[b, h], b, h)
        edges = torch.searchsorted(positions, self.result.key_edges)
        tiles = list(cut_into_tiles(positions, keys, edges, shape.keys))
        n_cells = self.result.weights.shape[3]
        most = max((end - start for start, end, *_ in blocks), default=0)
        head = HeadBlocks(self.query[b, h], tiles, self.dtype, self.scale, self.later, n_cells, self.wanted, most)
        for block in blocks:
            if self.stopped:
                return
            sums = head.sums(*block[:3])
            with self.lock:
                if sums is not None:
                    self._write(b, h, block, sums)
                self.done += self._pairs(block)
                self.told(self.done / self.pairs)

    def _write(self, b: int, h: int, block: Block, sums: BlockSums) -> None:
        start, end, row_sizes, row = block
        result, rows = self.result, slice(row, row + len(row_sizes))
        if sums.mass is not None:
            result.weights[b, h, rows, sums.cell : sums.cell + sums.mass.shape[1]] += sums.mass
        if sums.largest is not None:
            cells = result.weights if result.largest is None else result.largest
            here = cells[b, h, rows, sums.cell : sums.cell + sums.largest.shape[1]]
            torch.maximum(here, sums.largest.float(), out=here)
        queries = slice(start - self.window[0], end - self.window[0])
        if result.entropy is not None and sums.entropy is not None:
            result.entropy[b, h, queries] = sums.entropy.float()
        if result.local is not None and sums.local is not None:
            result.local[b, h, queries] = sums.local.float()
        if result.top_weights is not None and sums.top_weights is not None:
            most = sums.top_weights.shape[1]
            result.top_weights[b, h, queries, :most] = sums.top_weights.float()
            assert result.top_keys is not None
            assert sums.top_keys is not None
            result.top_keys[b, h, queries, :most] = sums.top_keys
        if result.received is not None:
            for positions, weight in sums.received:
                result.received[b, h].index_add_(0, positions, weight.float())


def _check_inputs(query: Tensor, key: Tensor, key_mask: Tensor | None) -> None:
    for name, x, axes in (("query", query, "n_heads, q_length"), ("key", key, "n_kv_heads, k_length")):
        if x.ndim != 4:
            raise ArgumentError(f"{name}: expected 4 axes, (batch_size, {axes}, d_key), got {x.ndim}: {tuple(x.shape)}")
        if not x.is_floating_point():
            raise ArgumentError(f"{name}: expected floating-point numbers, got {x.dtype}")
        for axis, size in zip(("batch_size", *axes.split(", "), "d_key"), x.shape, strict=True):
            if size < 1:
                raise ArgumentError(f"{name}: expected axis {axis} to be at least 1, got {size}")
    for axis, place in (("batch_size", 0), ("d_key", 3)):
        if query.shape[place] != key.shape[place]:
            raise ArgumentError(
                f"key: expected axis {axis} to be {query.shape[place]}, as in query, got {key.shape[place]}"
            )
    if query.shape[1] % key.shape[1]:
        raise ArgumentError(f"expected n_heads to be a multiple of n_kv_heads, got {query.shape[1]} and {key.shape[1]}")
    if query.device != key.device:
        raise ArgumentError(f"expected query and key on one device, got {query.device} and {key.device}")
    shape = key.shape[0], key.shape[2]
    if key_mask is not None and tuple(key_mask.shape) != shape:
        raise ArgumentError(f"key_mask: expected (batch_size, k_length), which is {shape}, got {tuple(key_mask.shape)}")


def check_window(window: Window | None, q_length: int, k_length: int) -> Window:
    """The window, or all there is. Raises ArgumentError if it is turned around, empty, or outside the map."""
    if window is None:
        return 0, q_length, 0, k_length
    for axis, start, end, length in (("query", *window[:2], q_length), ("key", *window[2:], k_length)):
        if not 0 <= start < end <= length:
            raise ArgumentError(
                f"window: expected {axis} positions that go up, from 0 to at most {length}, got {start} to {end}"
            )
    return window


def _check_finite(name: str, x: Tensor, b: int, h: int, positions: Tensor | None = None) -> None:
    """x (length, d_key), at these positions. The sum is NaN or infinite if a number is; only then is it looked for."""
    if not math.isfinite(x.sum().item()) and not bool(x.isfinite().all()):
        place = int((~x.isfinite()).any(dim=-1).nonzero()[0])
        place = place if positions is None else int(positions[place])
        raise ArgumentError(
            f"{name}: expected finite numbers, got NaN or infinity in batch {b}, head {h}, position {place}"
        )
