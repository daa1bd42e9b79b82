"""Tiles of a head's keys, and the number of queries that are computed with a tile at once.

A tile's scores should fit into a core's cache, and all numbers into the free memory.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mhaviz.attention.pooled_map import Pooling
from mhaviz.attention.reducer import CellReducer
from mhaviz.devices import free_memory

_TILE, _TILE_ON_GPU = (1024, 4096), (4096, 16384)
"""Queries and keys of a tile: 16 MiB of scores, or 256 MiB on a GPU. Larger tiles are no faster; with smaller ones
PyTorch's threads wait for one another too often."""

_WHOLE_ROWS = 8192
"""Up to this many keys a tile takes whole rows, so that no tiles have to be combined."""

_QUERIES, _WEIGHTS = (128, 2048), 2**22
"""Fewest and most queries of a tile of whole rows on the CPU, and the number of its weights within these limits:
16 MiB."""

_PARTS_OF_CAUSAL, _WEIGHTS_OF_CAUSAL = 8, 2**19
"""Number of blocks of a causal map, so that few hidden weights are computed; fewer blocks if each would have fewer
weights than the second number."""

_KEPT, _KEPT_ON_GPU = 2**23, 2**28
"""Number of weights that are kept until all tiles of a block are done, where they are needed again."""

_SMALLEST = (32, 1024)  # fewest queries and keys of a tile; smaller products are many times slower


class TileShape(NamedTuple):
    """Number of queries and of keys in a tile, and the bytes that its computation needs, about."""

    queries: int
    keys: int
    bytes: int


def tile_shape(
    device: torch.device, k_length: int, d_key: int, wanted: Pooling, memory: int | None, itemsize: int = 4
) -> TileShape:
    """Return the fastest shape of tiles that fits into ``memory`` bytes, without inputs and result.

    ``memory`` of None: a quarter of the free memory.
    """
    memory = memory or (free_memory(device) or 2**30) // 4
    on_cpu, copies = device.type == "cpu", 3 if wanted.entropy else 1  # scores, weights and products
    queries, keys = _TILE if on_cpu else _TILE_ON_GPU
    if k_length <= max(_WHOLE_ROWS, keys * (not on_cpu)):
        fewest, most = _QUERIES if on_cpu else (1, queries)
        weights = _WEIGHTS // (1 + (copies > 1)) if on_cpu else queries * keys
        queries, keys = min(most, max(weights // k_length, fewest)), k_length
    elif wanted.received:  # the weights of all tiles are needed again when the last is done
        queries = min(queries, max((_KEPT if on_cpu else _KEPT_ON_GPU) // k_length, _SMALLEST[0]))

    def needed() -> int:
        """Return the most bytes needed, about, with sums in cells, and a copy of the keys, where one is made."""
        kept = k_length if wanted.received and keys < k_length else 0
        of_each_query = copies * keys + kept + 4 * wanted.cells[1] + queries
        return itemsize * (queries * of_each_query + keys * d_key)

    while needed() > memory and queries > _SMALLEST[0]:
        queries = max(queries // 2, _SMALLEST[0])
    while needed() > memory and keys > _SMALLEST[1]:
        keys = max(keys // 2, _SMALLEST[1])
    return TileShape(queries, keys, needed())


def causal_queries(q_length: int, k_length: int, most: int) -> int:
    """Return the number of queries in a block of a causal map, at most ``most``, that of other maps."""
    return min(most, max(q_length // _PARTS_OF_CAUSAL, _WEIGHTS_OF_CAUSAL // k_length, 1))


class Tile:
    """Some of the visible keys, and the cells that they belong to.

    Attributes:
        positions: positions of the keys, (keys,).
        first, last: first and last of these positions.
        cell: number of its first cell.
        cells: pools the keys to cells.
        fillers: places in ``positions`` that repeat a key to make all cells equally wide; None if there are none.
        is_gapless: whether there is a key at every position from the first to the last, once.
    """

    def __init__(self, positions: Tensor, edges: Tensor, cell: int, whole_rows: bool) -> None:
        self.cell, self.first, self.last = cell, int(positions[0]), int(positions[-1])
        self.positions = positions
        self.fillers: Tensor | None = None
        self.cells = CellReducer(edges)
        if not whole_rows and self.cells.number and not self.cells.is_even:
            self._fill_up(edges)
        self.is_gapless = self.fillers is None and len(self.positions) == self.last - self.first + 1

    def _fill_up(self, edges: Tensor) -> None:
        """Make all cells as wide as the widest, as equal cells are summed faster, unless that doubles the keys."""
        widths = edges.diff()
        width = int(widths.max())
        if width * len(widths) > 2 * len(self.positions):
            return
        places = torch.arange(width, device=edges.device)
        filled = places >= widths[:, None]  # cells width
        chosen = (edges[:-1, None] + places).minimum((edges[1:, None] - 1).clamp(min=0)).flatten()
        self.positions = self.positions[chosen]
        self.fillers = filled.flatten().nonzero()[:, 0]
        self.cells = CellReducer(torch.arange(len(edges), device=edges.device) * width)

    def __len__(self) -> int:
        return len(self.positions)

    def keys(self, key: Tensor, number: int, room: Tensor) -> Tensor:
        """Return the first ``number`` keys of the tile, (number, d_key).

        Args:
            key: all keys of the head, (k_length, d_key).
            number: number of keys.
            room: memory of at least number · d_key numbers, in the precision of the computation. Keys are copied to it
                unless a view of ``key`` suffices.
        """
        if self.is_gapless and key.dtype == room.dtype:
            return key[self.first : self.first + number]
        copied = room[: number * key.shape[1]].view(number, key.shape[1])
        if key.dtype == room.dtype:
            return torch.index_select(key, 0, self.positions[:number], out=copied)
        return copied.copy_(key.index_select(0, self.positions[:number]))

    def number_up_to(self, position: int) -> int:
        """Return how many of the tile's keys, with fillers, are at this position or before it."""
        if self.is_gapless:
            return min(max(position - self.first + 1, 0), len(self.positions))
        return int(torch.searchsorted(self.positions, position, right=True))


def cut_into_tiles(positions: Tensor, edges: Tensor, at_once: int) -> Iterator[Tile]:
    """Cut the keys at these positions into tiles of about ``at_once`` keys at most, of whole cells where these fit.

    ``edges``: the place in ``positions`` where each cell begins, and where the last ends.
    """
    ends: list[int] = edges.tolist()
    if len(positions) <= at_once:
        if len(positions):
            yield Tile(positions, edges, 0, whole_rows=True)
        return

    def cut_cell(first: int, last: int, cell: int) -> Iterator[Tile]:
        """Cut keys of one cell, or of none (cell −1), which still take part in the softmax."""
        for start in range(first, last, at_once):
            end = min(start + at_once, last)
            own = torch.tensor([0, end - start] if cell >= 0 else [0], device=positions.device)
            yield Tile(positions[start:end], own, max(cell, 0), whole_rows=False)

    yield from cut_cell(0, ends[0], -1)
    cell = 0
    while cell < len(ends) - 1:
        last = bisect_right(ends, ends[cell] + at_once) - 1
        if last <= cell:
            yield from cut_cell(ends[cell], ends[cell + 1], cell)
            last = cell + 1
        elif ends[last] > ends[cell]:
            part = slice(ends[cell], ends[last])
            yield Tile(positions[part], edges[cell : last + 1] - ends[cell], cell, whole_rows=False)
        cell = last
    yield from cut_cell(ends[-1], len(positions), -1)
