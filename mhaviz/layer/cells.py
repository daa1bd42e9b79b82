"""The cells of a picture that is smaller than its map: where they begin, and what becomes of the weights in them."""

from functools import reduce

import torch
import torch.nn.functional as nnf
from torch import Tensor

_NARROW = 32  # numbers a cell


def cell_edges(length: int, cells: int, device: torch.device | None = None) -> Tensor:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells), (cells + 1,)."""
    return torch.arange(cells + 1, device=device) * length // cells


def even_cells(length: int, most: int) -> int:
    """The largest number of cells, at most ``most``, that are as good as equally wide.

    A cell of three keys beside one of two has half as much weight again for no other reason, and a map of such cells is
    striped. As many cells as are needed when each is as wide as the widest must be: then few are narrower, by one.
    """
    widest = -(-length // most)
    return -(-length // widest)


class Cells:
    """Cells between edges, (cells + 1,), which rise and may lie on one another.

    What is pooled may end before the last edge, as the keys do that a causal block sees: then so do its cells.

    Attributes:
        number: how many cells.
    """

    def __init__(self, edges: Tensor) -> None:
        self._edges, self.number = edges, len(edges) - 1
        width = max(int(edges[1]), 1) if self.number else 0
        even = torch.arange(len(edges), device=edges.device) * width
        self._width = width if torch.equal(edges, even) else 0  # 0: they differ, or something stands before the first

    @property
    def is_even(self) -> bool:
        """Whether all are equally wide and nothing stands before the first."""
        return self._width > 0

    def sum(self, x: Tensor) -> Tensor:
        """(…, length) → (…, cells, or as many as the length begins): the sum in each."""
        if not self.number:
            return x[..., :0]
        if self._width:
            cells = self._side_by_side(x)
            # Of a few numbers, PyTorch's product with ones is faster than its sum.
            narrow = self._width <= _NARROW and x.device.type == "cpu"
            return cells @ cells.new_ones(self._width) if narrow else cells.sum(dim=-1)
        edges = self._edges.clamp(max=x.shape[-1])
        running = nnf.pad(x.double().cumsum(dim=-1), (1, 0))  # in float64, or their differences are rough
        return (running[..., edges[1:]] - running[..., edges[:-1]]).to(x.dtype)

    def largest(self, x: Tensor) -> Tensor:
        """The same with the largest in each, and 0 where there is nothing. No number may be below 0."""
        if not self.number:
            return x[..., :0]
        if self._width:
            cells = self._side_by_side(x)
            # Likewise: a few of its maxima of two are faster than its maximum of a few.
            narrow = self._width <= _NARROW // 4 and x.device.type == "cpu"
            return reduce(torch.maximum, cells.unbind(dim=-1)) if narrow else cells.amax(dim=-1)
        edges = self._edges.clamp(max=x.shape[-1])
        cell_of = torch.repeat_interleave(torch.arange(self.number, device=x.device), edges.diff())
        between = x[..., int(edges[0]) : int(edges[-1])]
        largest = x.new_zeros(*x.shape[:-1], self.number)
        return largest.scatter_reduce_(-1, cell_of.expand_as(between), between, "amax")

    def _side_by_side(self, x: Tensor) -> Tensor:
        """x as (…, cells, width), its last cell filled up with zeros; what lies behind the last edge is left out."""
        cells = min(-(-x.shape[-1] // self._width), self.number)
        missing = cells * self._width - x.shape[-1]
        x = nnf.pad(x, (0, missing)) if missing > 0 else x[..., : cells * self._width]
        return x.reshape(*x.shape[:-1], cells, self._width)
