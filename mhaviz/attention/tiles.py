"""Cuts the keys of a head into tiles, and chooses how many queries are computed with a tile at once.

A tile's scores should stay in a core's cache, and everything in the memory that there is.
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
"""Queries and keys of a tile: 16 MiB of scores, or 256 on a GPU. With more nothing is faster; with fewer, PyTorch's
threads wait for one another too often."""

_WHOLE_ROWS = 8192
"""Up to so many keys a tile takes whole rows: then nothing has to be joined."""

_QUERIES, _WEIGHTS = (128, 2048), 2**22
"""Of tiles of whole rows on the CPU: the fewest and the most queries, and the weights that they should have between
these: 16 MiB, too."""

_PARTS_OF_CAUSAL, _WEIGHTS_OF_CAUSAL = 8, 2**19
"""Into so many blocks a causal map is cut, so that little is computed of what is hidden; or into fewer, of so many
weights."""

_KEPT, _KEPT_ON_GPU = 2**23, 2**28
"""Weights that are kept until all tiles of a block are done, where they are needed once more."""

_LEAST = (32, 1024)  # queries and keys of a tile; with fewer, products are many times slower


class TileShape(NamedTuple):
    """How many queries and keys are computed at once, all keys where a tile takes whole rows, and their memory."""

    queries: int
    keys: int
    bytes: int


def tile_shape(
    device: torch.device, k_length: int, d_key: int, wanted: Pooling, memory: int | None, itemsize: int = 4
) -> TileShape:
    """The shape that is fastest, or what ``memory`` bytes hold beside inputs and result; a GPU takes more at once."""
    memory = memory or (free_memory(device) or 2**30) // 4
    on_cpu, copies = device.type == "cpu", 3 if wanted.entropy else 1  # scores, weights and products
    queries, keys = _TILE if on_cpu else _TILE_ON_GPU
    if k_length <= max(_WHOLE_ROWS, keys * (not on_cpu)):
        fewest, most = _QUERIES if on_cpu else (1, queries)
        weights = _WEIGHTS // (1 + (copies > 1)) if on_cpu else queries * keys
        queries, keys = min(most, max(weights // k_length, fewest)), k_length
    elif wanted.received:  # the weights of all tiles are needed once more when the last is done
        queries = min(queries, max((_KEPT if on_cpu else _KEPT_ON_GPU) // k_length, _LEAST[0]))

    def needed() -> int:
        """At most, about: with sums in cells, and keys that are copied where some are hidden or cells are filled up."""
        kept = k_length if wanted.received and keys < k_length else 0
        of_each_query = copies * keys + kept + 4 * wanted.cells[1] + queries
        return itemsize * (queries * of_each_query + keys * d_key)

    while needed() > memory and queries > _LEAST[0]:
        queries = max(queries // 2, _LEAST[0])
    while needed() > memory and keys > _LEAST[1]:
        keys = max(keys // 2, _LEAST[1])
    return TileShape(queries, keys, needed())


def causal_queries(q_length: int, k_length: int, most: int) -> int:
    """How many queries of a causal map meet keys at once, where others would be ``most``."""
    return min(most, max(q_length // _PARTS_OF_CAUSAL, _WEIGHTS_OF_CAUSAL // k_length, 1))


class Tile:
    """Some of the keys that are not hidden, and the cells that they fall into.

    Attributes:
        positions: of the keys, (keys,).
        first, last: of the positions.
        cell: the number of its first cell; ``cells`` takes those of a cell together.
        fillers: places where no key stands, so that all cells are equally wide; None if there are none.
        is_gapless: whether there is a key at every position from the first to the last.
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
        """Make all cells as wide as the widest, unless that doubles their number: equal cells are summed faster."""
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
        """The first so many of its keys, (number, d_key), of all keys, (k_length, d_key).

        ``room``: (at least number · d_key,), in the precision of the computation; they are copied to it if need be.
        """
        if self.is_gapless and key.dtype == room.dtype:
            return key[self.first : self.first + number]
        copied = room[: number * key.shape[1]].view(number, key.shape[1])
        if key.dtype == room.dtype:
            return torch.index_select(key, 0, self.positions[:number], out=copied)
        return copied.copy_(key.index_select(0, self.positions[:number]))

    def number_up_to(self, position: int) -> int:
        """How many of its keys, or fillers among them, stand at this position or before it."""
        if self.is_gapless:
            return min(max(position - self.first + 1, 0), len(self.positions))
        return int(torch.searchsorted(self.positions, position, right=True))


def cut_into_tiles(positions: Tensor, edges: Tensor, at_once: int) -> Iterator[Tile]:
    """The keys at these positions, cut into tiles of at most about ``at_once``: whole cells if they are no wider.

    ``edges``: where among the positions each cell begins.
    """
    ends: list[int] = edges.tolist()
    if len(positions) <= at_once:
        if len(positions):
            yield Tile(positions, edges, 0, whole_rows=True)
        return

    def beside(first: int, last: int, cell: int) -> Iterator[Tile]:
        """Keys of one cell, or of none (cell −1), which still have their share of the weight."""
        for start in range(first, last, at_once):
            end = min(start + at_once, last)
            own = torch.tensor([0, end - start] if cell >= 0 else [0], device=positions.device)
            yield Tile(positions[start:end], own, max(cell, 0), whole_rows=False)

    yield from beside(0, ends[0], -1)
    cell = 0
    while cell < len(ends) - 1:
        last = bisect_right(ends, ends[cell] + at_once) - 1
        if last <= cell:
            yield from beside(ends[cell], ends[cell + 1], cell)
            last = cell + 1
        elif ends[last] > ends[cell]:
            part = slice(ends[cell], ends[last])
            yield Tile(positions[part], edges[cell : last + 1] - ends[cell], cell, whole_rows=False)
        cell = last
    yield from beside(ends[-1], len(positions), -1)
