"""Pools numbers to cells: the sum or the largest of the numbers in each cell."""

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as nnf
from torch import Tensor

_FEW, _MANY = 4, 16
"""Up to so few numbers in a cell are taken together two at a time, which is faster than PyTorch's sum over an axis of a
few numbers; cells of unequal width with more than so many are summed one by one."""


class CellReducer:
    """Pools numbers along an axis to cells.

    Cells lie between edges, (cells + 1,), which rise and may lie on one another.

    What is pooled may end before the last edge, as the keys do that a causal block sees: then so do its cells.

    Attributes:
        number: how many cells.
        is_even: whether all are equally wide and nothing stands before the first.
    """

    def __init__(self, edges: Tensor) -> None:
        self._edges, self.number = edges, len(edges) - 1
        self._width = max(int(edges.diff().max()), 1) if self.number else 0  # of the widest
        self.is_even = torch.equal(edges, torch.arange(len(edges), device=edges.device) * self._width)
        self._cell_of = torch.arange(self.number, device=edges.device).repeat_interleave(edges.diff())

    @property
    def changes_nothing(self) -> bool:
        """Whether each cell is one number, so that the results are a view of what is pooled."""
        return self.is_even and self._width == 1

    def sum(self, x: Tensor, dim: int = -1) -> Tensor:
        """(…, length, …) → (…, cells, or as many as the length begins, …): the sum in each cell along an axis."""
        return self._pooled(x, dim % x.ndim, torch.add)

    def largest(self, x: Tensor, dim: int = -1) -> Tensor:
        """The same with the largest in each cell, and 0 where there is nothing. No number may be below 0."""
        return self._pooled(x, dim % x.ndim, torch.maximum)

    def _pooled(self, x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
        """By the sum or the maximum of two numbers."""
        if not self.number:
            return x.narrow(dim, 0, 0)
        if self.is_even:
            return _joined(self._side_by_side(x, dim), dim + 1, join)
        if self._width > _MANY:
            parts = x.tensor_split(self._edges.tolist(), dim)[1:-1]
            return torch.stack([_joined(part, dim, join) for part in parts], dim)
        edges = self._edges.clamp(max=x.shape[dim])
        first, last = int(edges[0]), int(edges[-1])
        if join is torch.add and not x.is_cuda:  # on a GPU index_add gives other last digits every time
            sums = x.new_zeros(*x.shape[:dim], self.number, *x.shape[dim + 1 :])
            return sums.index_add_(dim, self._cell_of[: last - first], x.narrow(dim, first, last - first))
        places = edges[:-1] + torch.arange(self._width, device=edges.device)[:, None]  # width cells
        places = places.masked_fill(places >= edges[1:], x.shape[dim])  # behind the end, where a zero is put
        x = nnf.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, 1))
        return _joined(torch.unflatten(x.index_select(dim, places.flatten()), dim, places.shape), dim, join)

    def _side_by_side(self, x: Tensor, dim: int) -> Tensor:
        """x as (…, cells, width, …), its last cell filled up with zeros; what lies behind the last edge is left out."""
        cells = min(-(-x.shape[dim] // self._width), self.number)
        missing = cells * self._width - x.shape[dim]
        x = nnf.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, missing)) if missing > 0 else x
        return torch.unflatten(x.narrow(dim, 0, cells * self._width), dim, (cells, self._width))


def _joined(x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
    """All numbers of an axis taken together; 0 where there are none."""
    if 0 < x.shape[dim] <= _FEW:
        return reduce(join, x.unbind(dim))
    return x.sum(dim) if join is torch.add or not x.shape[dim] else x.amax(dim)
