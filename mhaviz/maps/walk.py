"""The way through all heads of a map and their blocks: in which order, in how many threads, in how much memory."""

import math
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
from mhaviz.errors import ArgumentError
from mhaviz.maps.blocks import BlockSums, HeadBlocks, Rule, Wanted, Workspace
from mhaviz.maps.pooled_map import PooledMap
from mhaviz.maps.reducer import CellReducer
from mhaviz.maps.tiles import Tile, TileShape, choose_tile_shape, cut_into_tiles


@dataclass(frozen=True)
class Block:
    """Queries that are computed at once: some rows of cells, or a part of one row.

    Attributes:
        start, end: of the queries.
        first_row: the number of the first row of cells.
        rows: which of the queries are in which row, counted from the first ones.
        share: 1 / how many queries each whole row has, (rows, 1).
        begins: whether it holds the first query of its rows.
    """

    start: int
    end: int
    first_row: int
    rows: CellReducer
    share: Tensor
    begins: bool


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
        # What is later, or near by, is found by where it stands.
        self._in_order = self.later is None and self.wanted.local is None
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
            workspace = Workspace(self._device, self._dtype)
            for b, h, blocks in tasks:
                self._add(b, h, self._walk(b, h, blocks, workspace))

    def _cut(self, b: int, shape: TileShape) -> list[Tile]:
        """The tiles of keys that all heads of a batch see; hidden keys are left out: they cost nothing then."""
        positions = torch.arange(self.key.shape[2], device=self._device)
        if self.key_mask is not None:
            positions = positions[self.key_mask[b] != 0]
        edges = torch.searchsorted(positions, self.result.key_edges)
        return list(cut_into_tiles(positions, edges, shape.keys, self._in_order))

    def _tasks(self, shape: TileShape) -> list[Task]:
        """Heads, or where they cannot be shared out evenly, parts of heads, each with whole rows of cells."""
        rows = [list(blocks) for _, blocks in groupby(self._blocks(shape.queries), key=lambda block: block.first_row)]
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
        share = 1 / self.result.query_edges.diff()[:, None].float()
        row = 0
        while row < len(edges) - 1:
            last = max(bisect_right(edges, edges[row] + at_once) - 1, row + 1)
            for start in range(edges[row], edges[last], at_once):
                end = min(start + at_once, edges[last])
                own = self.result.query_edges[row : last + 1].clamp(start, end) - start
                yield Block(start, end, row, CellReducer(own), share[row:last], start == edges[row])
            row = last

    def _pairs(self, block: Block) -> int:
        """How many weights a block has: what it costs."""
        k_length = self.key.shape[2]
        seen = k_length if self.later is None else min(max(block.end + self.later, 1), k_length)
        return (block.end - block.start) * seen

    def _in_threads(self, tasks: list[Task]) -> None:
        threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
        workers = min(_workers(self._device), len(tasks))

        of_thread = threading.local()

        def work(task: Task) -> Tensor | None:
            torch.set_num_threads(max(threads // workers, 1))
            try:
                if not hasattr(of_thread, "workspace"):
                    of_thread.workspace = Workspace(self._device, self._dtype)
                with torch.inference_mode(inference), torch.no_grad():  # both are a thread's own affair
                    return self._walk(*task, of_thread.workspace)
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

    def _walk(self, b: int, h: int, blocks: list[Block], workspace: Workspace) -> Tensor | None:
        """Some blocks of a head; what its keys receive from them, (k_length,), if that is wanted."""
        key = self.key[b, h * self.key.shape[1] // self.query.shape[1]]
        n_cells = self.result.weights.shape[3]
        most = max((block.end - block.start for block in blocks), default=0)
        head = HeadBlocks(
            self.query[b, h],
            key,
            self._tiles[b],
            workspace,
            self.rules(b, h),
            n_cells,
            self.wanted,
            most,
            self._in_order,
        )
        received = torch.zeros(len(key), dtype=self._dtype, device=self._device) if self.wanted.received else None
        for block in blocks:
            if self._stopped:
                break
            sums = head.sums(block.start, block.end, block.rows) or BlockSums()
            check_sums(sums, b, h)
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
        result, rows = self.result, slice(block.first_row, block.first_row + block.rows.number)
        if self.wanted.mass:
            write_cells(result.weights[b, h, rows], block, sums.cell, sums.mass, block.share, torch.add)
        if self.wanted.largest and result.largest is not result.weights:
            largest = result.weights if result.largest is None else result.largest
            write_cells(largest[b, h, rows], block, sums.cell, sums.largest, 1.0, torch.maximum)
        queries = torch.arange(block.start, block.end, device=self._device) - self.window[0]
        if self._in_order and block.rows.order is not None:
            queries = queries[block.rows.order]
        for whole, numbers in (
            (result.entropy, sums.entropy),
            (result.local, sums.local),
            (result.top_weights, sums.top_weights),
            (result.top_keys, sums.top_keys),
        ):
            if whole is None or numbers is None:
                continue
            of_head = whole[b, h] if numbers.ndim == 1 else whole[b, h, :, : numbers.shape[1]]
            of_head.index_copy_(0, queries, numbers.to(whole.dtype))


def write_cells(
    cells: Tensor,
    block: Block,
    first: int,
    numbers: Tensor | None,
    factor: Tensor | float,
    join: Callable[..., Tensor],
) -> None:
    """Write factor · numbers of a block into its rows of cells, from the column ``first`` on; None: there are none.

    Where the block begins its rows, the cells hold anything yet, and become 0 beside what is written; where it goes on
    with a row, the numbers join those that are there.
    """
    last = first + (0 if numbers is None else numbers.shape[1])
    if block.begins:
        cells[:, :first] = 0
        cells[:, last:] = 0
    if numbers is None:
        return
    here = cells[:, first:last]
    if block.begins:
        torch.mul(numbers, factor, out=here)
    else:
        join(here, (numbers * factor).to(here.dtype), out=here)


def check_sums(sums: BlockSums, b: int, h: int) -> None:
    """Finite inputs give weights that are NaN only if their products are larger than float32 can hold."""
    weights = sums.largest if sums.mass is None else sums.mass
    if weights is not None and not math.isfinite(weights.sum().item()):
        raise ArgumentError(
            f"expected scores that float32 can hold, got larger ones in batch {b}, head {h}; use float64, or a smaller "
            f"scale"
        )
