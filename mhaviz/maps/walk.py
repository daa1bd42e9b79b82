"""The way through all heads of a map and their blocks: in which order, in how many threads, in how much memory."""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from mhaviz.devices import free_memory
from mhaviz.maps.blocks import BlockSums, HeadBlocks, Rule, Wanted
from mhaviz.maps.pooled_map import PooledMap
from mhaviz.maps.tiles import Tile, TileShape, choose_tile_shape, cut_into_tiles

Block = tuple[int, int, list[int], int]
"""The first query and the end, how many of them are in each row of cells, and the number of the first row."""

Task = tuple[int, int, list[Block]]
"""A batch, a head, and blocks of it."""


def blocks_bytes(
    device: torch.device,
    k_length: int,
    d_key: int,
    columns: int = 512,
    entropy: bool = False,
    received: bool = False,
    memory: int | None = None,
) -> int:
    """What ``attention_map`` takes beside inputs and result, for the arguments that decide it."""
    wanted = Wanted(mass=True, largest=False, entropy=entropy, received=received)
    return _workers(device) * _shape(device, k_length, d_key, columns, wanted, memory, 4).bytes


def _workers(device: torch.device) -> int:
    return max(min(torch.get_num_threads(), os.cpu_count() or 1), 1) if device.type == "cpu" else 1


def _shape(
    device: torch.device, k_length: int, d_key: int, columns: int, wanted: Wanted, memory: int | None, itemsize: int
) -> TileShape:
    memory = memory or (free_memory(device) or 2**30) // 4
    scores_weights_and_products = 3
    copies = scores_weights_and_products if wanted.entropy else 1
    workers = _workers(device)
    return choose_tile_shape(device, k_length, d_key, columns, copies, wanted.received, memory, workers, itemsize)


@dataclass
class Walk:
    """One call of ``attention_map``, whose arguments it has; it fills in the result.

    Attributes:
        rules: of a batch and a head.
        later: as in ``Rule``, the same for all.
    """

    query: Tensor
    key: Tensor
    key_mask: Tensor | None
    rules: Callable[[int, int], Rule]
    later: int | None
    window: tuple[int, int, int, int]
    wanted: Wanted
    result: PooledMap
    memory: int | None

    def go(self, told: Callable[[float], None]) -> None:
        """Walk: on the CPU in as many threads as PyTorch has, each with heads, or parts of heads, of its own.

        The result does not depend on which thread is faster: each row of cells is one thread's, in order, and what keys
        receive is added up head by head and part by part.
        """
        self._device, self._lock, self._stopped = self.query.device, threading.Lock(), False
        self._dtype = torch.float64 if self.query.dtype == torch.float64 else torch.float32
        k_length, d_key = self.key.shape[2:]
        columns = self.result.weights.shape[3]
        shape = _shape(self._device, k_length, d_key, columns, self.wanted, self.memory, self._dtype.itemsize)
        self._tiles = [self._cut(b, shape) for b in range(len(self.query))]
        tasks = self._tasks(shape)
        self._told, self._done, self._all = told, 0, sum(self._pairs(block) for *_, blocks in tasks for block in blocks)
        if self._device.type == "cpu":
            self._in_threads(tasks)
        else:
            for b, h, blocks in tasks:
                self._add(b, h, self._walk(b, h, blocks))

    def _cut(self, b: int, shape: TileShape) -> list[Tile]:
        """The tiles of keys that all heads of a batch see; hidden keys are left out: they cost nothing then."""
        positions = torch.arange(self.key.shape[2], device=self._device)
        if self.key_mask is not None:
            positions = positions[self.key_mask[b] != 0]
        edges = torch.searchsorted(positions, self.result.key_edges)
        return list(cut_into_tiles(positions, edges, shape.keys))

    def _tasks(self, shape: TileShape) -> list[Task]:
        """Heads, or where they cannot be shared out evenly, parts of heads, each with whole rows of cells."""
        rows = [list(blocks) for _, blocks in groupby(self._blocks(shape.queries), key=lambda block: block[3])]
        heads = [(b, h) for b in range(self.query.shape[0]) for h in range(self.query.shape[1])]
        workers = _workers(self._device)
        parts = min(workers, len(rows)) if len(heads) % workers else 1
        # Dealt out in turn: of a causal map, later blocks cost more.
        return [
            (b, h, [block for row in rows[part::parts] for block in row]) for b, h in heads for part in range(parts)
        ]

    def _blocks(self, at_once: int) -> Iterator[Block]:
        """Runs of queries: as many whole rows of cells as ``at_once`` holds, or a part of one."""
        edges: list[int] = self.result.query_edges.tolist()
        row = 0
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

    def _in_threads(self, tasks: list[Task]) -> None:
        threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
        workers = min(_workers(self._device), len(tasks))

        def work(task: Task) -> Tensor | None:
            torch.set_num_threads(max(threads // workers, 1))
            try:
                with torch.inference_mode(inference), torch.no_grad():  # both are a thread's own affair
                    return self._walk(*task)
            except BaseException:
                self._stopped = True
                raise

        with ThreadPoolExecutor(workers) as pool:
            try:
                futures = [pool.submit(work, task) for task in tasks]
                for (b, h, _), future in zip(tasks, futures, strict=True):
                    self._add(b, h, future.result())
            except BaseException:  # Ctrl-C, or what one of them has found
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                torch.set_num_threads(threads)  # the number of a thread is also that of threads to come

    def _walk(self, b: int, h: int, blocks: list[Block]) -> Tensor | None:
        """Some blocks of a head; what its keys receive from them, (k_length,), if that is wanted."""
        key = self.key[b, h * self.key.shape[1] // self.query.shape[1]]
        n_cells = self.result.weights.shape[3]
        most = max((end - start for start, end, *_ in blocks), default=0)
        head = HeadBlocks(
            self.query[b, h], key, self._tiles[b], self._dtype, self.rules(b, h), n_cells, self.wanted, most
        )
        received = torch.zeros(len(key), dtype=self._dtype, device=self._device) if self.wanted.received else None
        for block in blocks:
            if self._stopped:
                break
            sums = head.sums(*block[:3])
            if sums is not None:
                self._write(b, h, block, sums)
                if received is not None:
                    for positions, weight in sums.received:
                        received.index_add_(0, positions, weight)
            with self._lock:
                self._done += self._pairs(block)
                self._told(self._done / self._all)
        return received

    def _add(self, b: int, h: int, received: Tensor | None) -> None:
        if self.result.received is not None and received is not None:
            self.result.received[b, h] += received

    def _write(self, b: int, h: int, block: Block, sums: BlockSums) -> None:
        start, end, row_sizes, row = block
        result, rows = self.result, slice(row, row + len(row_sizes))
        if sums.mass is not None:
            result.weights[b, h, rows, sums.cell : sums.cell + sums.mass.shape[1]] += sums.mass
        if sums.largest is not None:
            cells = result.weights if result.largest is None else result.largest
            here = cells[b, h, rows, sums.cell : sums.cell + sums.largest.shape[1]]
            torch.maximum(here, sums.largest.to(here.dtype), out=here)
        queries = slice(start - self.window[0], end - self.window[0])
        if result.entropy is not None and sums.entropy is not None:
            result.entropy[b, h, queries] = sums.entropy
        if result.local is not None and sums.local is not None:
            result.local[b, h, queries] = sums.local
        if result.top_weights is not None and sums.top_weights is not None:
            most = sums.top_weights.shape[1]
            result.top_weights[b, h, queries, :most] = sums.top_weights
            assert result.top_keys is not None
            assert sums.top_keys is not None
            result.top_keys[b, h, queries, :most] = sums.top_keys
