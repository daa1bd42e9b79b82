"""What becomes of the weights that share a cell of a map."""

from functools import reduce

import torch
import torch.nn.functional as nnf
from torch import Tensor

_NARROW = 32  # numbers a cell


class CellReducer:
    """Takes the numbers of each cell together.

    Cells lie between edges, (cells + 1,), which rise and may lie on one another.

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
        # In float64, or the differences are rough; Apple's GPUs have none.
        running = nnf.pad((x if x.device.type == "mps" else x.double()).cumsum(dim=-1), (1, 0))
        return (running[..., edges[1:]] - running[..., edges[:-1]]).to(x.dtype)

    def largest(self, x: Tensor) -> Tensor:
        """The same with the largest in each, and 0 where there is nothing. No number may be below 0."""
        if not self.number:
            return x[..., :0]
        if self._width:
            cells = self._side_by_side(x)
            # Likewise: a few of its maxima of two are faster than its maximum of a few.
            narrow = self._width <= _NARROW // 4 and x.device.type == "cpu"
            # Of one number a cell it would be a view of what the next tile overwrites.
            return reduce(torch.maximum, cells.unbind(dim=-1)) if narrow and self._width > 1 else cells.amax(dim=-1)
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
