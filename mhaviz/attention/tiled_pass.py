"""Computation of a map tile by tile: one head after the other, its queries in blocks, within a memory limit."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.blocks import BlockSums, HeadBlocks, Workspace
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.pooled_map import PooledMap, Pooling
from mhaviz.attention.reducer import CellReducer
from mhaviz.attention.tiles import Tile, TileShape, causal_queries, cut_into_tiles, tile_shape
from mhaviz.devices import FreeCores
from mhaviz.errors import ArgumentError

_ENOUGH_QUERIES = 32
"""With fewer queries the last digits of PyTorch's product with the keys depend on the number of threads."""


@dataclass(frozen=True)
class Block:
    """Queries that are computed at once: some rows of cells, or a part of one row.

    Attributes:
        start, end: the queries, from ``start`` up to but without ``end``.
        first_row: number of the first row of cells.
        rows: pools the queries of the block to its rows.
        share: (rows, 1), 1 / the number of queries in each whole row.
        begins: whether the block holds the first query of its rows.
    """

    start: int
    end: int
    first_row: int
    rows: CellReducer
    share: Tensor
    begins: bool


@dataclass
class TiledPass:
    """One pass over all weights of a call, tile by tile, which fills ``result``; see ``pool`` for the other fields."""

    call: AttentionCall
    key_mask: Tensor | None
    wanted: Pooling
    result: PooledMap
    memory: int | None

    def run(self, on_progress: Callable[[float], None]) -> None:
        """Compute one head after the other, its blocks in order. PyTorch splits each step among its threads.

        One thread for each head would be slower at every length, as the blocks of all heads would share the cache.
        """
        self._device = self.call.device
        dtype = torch.float64 if self.call.query.dtype == torch.float64 else torch.float32
        self._workspace = Workspace(self._device, dtype)
        batch_size, n_heads, q_length, k_length = self.call.shape
        d_key = self.call.query.shape[3]
        shape = tile_shape(self._device, k_length, d_key, self.wanted, self.memory, dtype.itemsize)
        at_once = causal_queries(q_length, k_length, shape.queries) if self.call.causal else shape.queries
        blocks = list(self._blocks(at_once))
        done, everything = 0, batch_size * n_heads * sum(map(self._pairs, blocks))
        adapts = min(block.end - block.start for block in blocks) >= _ENOUGH_QUERIES
        with FreeCores(self._device) as cores:
            for b in range(batch_size):
                tiles = self._cut(b, shape)
                for h in range(n_heads):
                    for block in self._head(b, h, tiles, blocks):
                        done += self._pairs(block)
                        on_progress(done / everything)
                        if adapts:
                            cores.look()

    def _cut(self, b: int, shape: TileShape) -> list[Tile]:
        """Cut the keys of example ``b`` into tiles, which all heads share, without keys that ``key_mask`` hides."""
        positions = torch.arange(self.call.shape[3], device=self._device)
        if self.key_mask is not None:
            positions = positions[self.key_mask[b] != 0]
        edges = torch.searchsorted(positions, self.result.key_edges)
        return list(cut_into_tiles(positions, edges, shape.keys))

    def _blocks(self, at_once: int) -> Iterator[Block]:
        """Cut the queries into blocks: as many whole rows of cells as ``at_once`` queries hold, or a part of one."""
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
        """Return the number of weights in a block, the measure of its cost."""
        _, _, q_length, k_length = self.call.shape
        seen = min(max(block.end + k_length - q_length, 1), k_length) if self.call.causal else k_length
        return (block.end - block.start) * seen

    def _head(self, b: int, h: int, tiles: list[Tile], blocks: list[Block]) -> Iterator[Block]:
        """Compute the blocks of a head, write each into the result, and yield it."""
        head = HeadBlocks(
            self.call,
            b,
            h,
            tiles,
            self._workspace,
            self.wanted,
            max(block.end - block.start for block in blocks),
        )
        for block in blocks:
            sums = head.sums(block.start, block.end, block.rows) or BlockSums()
            check_sums(sums, b, h)
            self._write(b, h, block, sums)
            if self.result.received is not None:
                for positions, weight in sums.received:
                    self.result.received[b, h].index_add_(0, positions, weight.to(self.result.received.dtype))
            yield block

    def _write(self, b: int, h: int, block: Block, sums: BlockSums) -> None:
        result, rows = self.result, slice(block.first_row, block.first_row + block.rows.number)
        if self.wanted.mass:
            write_cells(result.weights[b, h, rows], block, sums.cell, sums.mass, block.share, torch.add)
        if self.wanted.largest and result.largest is not result.weights:
            largest = result.weights if result.largest is None else result.largest
            write_cells(largest[b, h, rows], block, sums.cell, sums.largest, 1.0, torch.maximum)
        queries = torch.arange(block.start, block.end, device=self._device) - self.wanted.span[0]
        for name in ("entropy", "local", "totals", "top_weights", "top_keys"):
            whole, numbers = getattr(result, name), getattr(sums, name)
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
    """Write factor · numbers of a block into its rows of cells, from the column ``first`` on; None: no numbers.

    If the block begins its rows, their cells are uninitialised, and all cells outside the numbers become 0. If it
    continues a row, ``join`` combines the numbers with the cells.
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
    """Raise ArgumentError if a weight of the block is NaN: the products of finite inputs were too large for float32."""
    weights = sums.largest if sums.mass is None else sums.mass
    if weights is not None and not math.isfinite(weights.sum().item()):
        raise ArgumentError(
            f"expected scores that float32 can hold, got larger ones in batch {b}, head {h}; use float64, or a smaller "
            f"scale"
        )
