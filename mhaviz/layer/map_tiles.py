"""How the keys of a head are cut into tiles, and how many queries meet a tile at once.

A tile's scores should stay in a core's cache, and everything in the memory that there is.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.layer.cells import Cells

_TILE, _TILE_ON_GPU = (256, 4096), (4096, 16384)
"""Queries and keys of a tile: 4 MiB of scores stay in a core's share of the cache, and 256 MiB keep a GPU busy."""

_WHOLE_ROWS = 8192
"""Up to so many keys a tile takes whole rows, with fewer queries: then nothing has to be joined."""

_KEPT, _KEPT_ON_GPU = 2**23, 2**28
"""Weights of a block that are kept until all of its tiles are done, where they are needed once more."""

_LEAST = (16, 256)  # queries and keys of a tile; with fewer, products are slow and save next to nothing


@dataclass(frozen=True)
class TileShape:
    """How many queries and keys meet at once, and what is held of them.

    Attributes:
        queries, keys: of a tile; ``keys`` is all that there are where a tile takes whole rows.
        copies: how often a tile's numbers are held.
        kept: how many weights of each query are held until all tiles of its block are done.
        columns: of the picture.
    """

    queries: int
    keys: int
    copies: int
    kept: int
    columns: int

    @property
    def bytes(self) -> int:
        """What one block takes, in float32."""
        sums = 4 * self.columns
        return 4 * self.queries * (self.copies * self.keys + self.kept + sums)


def choose_tile_shape(
    device: torch.device, k_length: int, columns: int, copies: int, keeps: bool, memory: int
) -> TileShape:
    """The shape that is fastest, or what ``memory`` bytes hold; a GPU takes more at once.

    ``keeps``: whether the weights of all tiles are needed once more when the last is done.
    """
    on_cpu = device.type == "cpu"
    queries, keys = _TILE if on_cpu else _TILE_ON_GPU
    if k_length <= max(_WHOLE_ROWS, keys * (not on_cpu)):
        queries, keys = min(queries, max(queries * keys // k_length, 1)), k_length
    elif keeps:
        queries = min(queries, max((_KEPT if on_cpu else _KEPT_ON_GPU) // k_length, _LEAST[0]))

    def shape() -> TileShape:
        return TileShape(queries, keys, copies, k_length if keeps and keys < k_length else 0, columns)

    while shape().bytes > memory and queries > _LEAST[0]:
        queries = max(queries // 2, _LEAST[0])
    while shape().bytes > memory and keys > _LEAST[1]:
        keys = max(keys // 2, _LEAST[1])
    return shape()


class Tile:
    """Some of the keys that are not hidden, (keys, d_key), and the cells of the picture that they fall into.

    Attributes:
        positions: of the keys.
        first, last: of the positions.
        cell: the number of its first cell; ``cells``: pools them.
        fillers: places where no key stands, so that all cells are equally wide; None if there are none.
    """

    def __init__(self, positions: Tensor, keys: Tensor, edges: Tensor, cell: int, whole_rows: bool) -> None:
        self.cell, self.first, self.last = cell, int(positions[0]), int(positions[-1])
        self.positions, self.keys, self.fillers = positions, keys, None
        self.cells = Cells(edges)
        if whole_rows or not self.cells.number or self.cells.is_even:
            return
        widths = edges.diff()
        width = int(widths.max())
        if width * len(widths) > 2 * len(keys):
            return
        places = torch.arange(width, device=keys.device)
        filled = places >= widths[:, None]  # cells width
        chosen = (edges[:-1, None] + places).minimum((edges[1:, None] - 1).clamp(min=0)).flatten()
        self.positions, self.keys = positions[chosen], keys[chosen]
        self.fillers = filled.flatten().nonzero()[:, 0]
        self.cells = Cells(torch.arange(len(edges), device=keys.device) * width)

    @property
    def is_gapless(self) -> bool:
        """Whether there is a key at every position from the first to the last."""
        return len(self.positions) == self.last - self.first + 1 and self.fillers is None

    def number_up_to(self, position: int) -> int:
        """How many of its keys, or fillers among them, stand at this position or before it."""
        if self.is_gapless:
            return min(max(position - self.first + 1, 0), len(self.positions))
        return int(torch.searchsorted(self.positions, position, right=True))


def cut_into_tiles(positions: Tensor, keys: Tensor, edges: Tensor, at_once: int) -> Iterator[Tile]:
    """All keys, cut into tiles of at most about ``at_once``: whole cells as far as they are no wider.

    ``positions`` and ``keys`` are of the keys that are not hidden; ``edges`` say where among them each cell begins.
    """
    ends: list[int] = edges.tolist()
    if len(keys) <= at_once:
        if len(keys):
            yield Tile(positions, keys, edges, 0, whole_rows=True)
        return

    def beside(first: int, last: int, cell: int) -> Iterator[Tile]:
        """Keys of one cell, or of none (cell −1), which still have their share of the weight."""
        for start in range(first, last, at_once):
            end = min(start + at_once, last)
            own = torch.tensor([0, end - start] if cell >= 0 else [0], device=keys.device)
            yield Tile(positions[start:end], keys[start:end], own, max(cell, 0), whole_rows=False)

    yield from beside(0, ends[0], -1)
    cell = 0
    while cell < len(ends) - 1:
        last = bisect_right(ends, ends[cell] + at_once) - 1
        if last <= cell:
            yield from beside(ends[cell], ends[cell + 1], cell)
            last = cell + 1
        elif ends[last] > ends[cell]:
            part = slice(ends[cell], ends[last])
            yield Tile(positions[part], keys[part], edges[cell : last + 1] - ends[cell], cell, whole_rows=False)
        cell = last
    yield from beside(ends[-1], len(keys), -1)
