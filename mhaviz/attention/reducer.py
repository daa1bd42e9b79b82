"""Pooling of numbers to cells, by their sum or their maximum."""

from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as nnf
from torch import Tensor

_FEW, _MANY = 4, 16
"""Widths of cells at which the method changes. Cells of at most ``_FEW`` numbers are reduced two numbers at a time,
which is faster than PyTorch's sum over a short axis. Unequal cells wider than ``_MANY``, on average where they are
summed, are reduced one by one."""


class CellReducer:
    """Pools numbers along an axis to cells.

    The axis may end before the last edge, as the keys of a causal block do. Then there are fewer cells.

    Args:
        edges: (cells + 1,), the edges of the cells, not decreasing.

    Attributes:
        number: number of cells.
        is_even: whether all cells are equally wide, and the first begins at 0.
    """

    def __init__(self, edges: Tensor) -> None:
        self._edges, self.number = edges, len(edges) - 1
        self._width = max(int(edges.diff().max()), 1) if self.number else 0  # width of the widest cell
        self.is_even = torch.equal(edges, torch.arange(len(edges), device=edges.device) * self._width)
        self._cell_of = torch.arange(self.number, device=edges.device).repeat_interleave(edges.diff())

    @property
    def changes_nothing(self) -> bool:
        """Whether each cell is one number, so that the result is a view of the input."""
        return self.is_even and self._width == 1

    def sum(self, x: Tensor, dim: int = -1) -> Tensor:
        """Sum the numbers in each cell along an axis, (…, length, …) → (…, cells, …)."""
        return self._pooled(x, dim % x.ndim, torch.add)

    def largest(self, x: Tensor, dim: int = -1) -> Tensor:
        """Return the largest number in each cell, 0 in empty ones; as ``sum``. No number may be below 0."""
        return self._pooled(x, dim % x.ndim, torch.maximum)

    def _pooled(self, x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
        """Reduce each cell by ``join``, torch.add or torch.maximum."""
        if not self.number:
            return x.narrow(dim, 0, 0)
        if self.is_even:
            return _joined(self._side_by_side(x, dim), dim + 1, join)
        edges = self._edges.clamp(max=x.shape[dim])
        first, last = int(edges[0]), int(edges[-1])
        adds = join is torch.add and not x.is_cuda  # on a GPU index_add_ is not deterministic
        if self._width > _MANY and (not adds or last - first > _MANY * self.number):
            parts = x.tensor_split(self._edges.tolist(), dim)[1:-1]
            return torch.stack([_joined(part, dim, join) for part in parts], dim)
        if adds:
            sums = x.new_zeros(*x.shape[:dim], self.number, *x.shape[dim + 1 :])
            return sums.index_add_(dim, self._cell_of[: last - first], x.narrow(dim, first, last - first))
        places = edges[:-1] + torch.arange(self._width, device=edges.device)[:, None]  # width cells
        places = places.masked_fill(places >= edges[1:], x.shape[dim])  # a zero that is appended to x
        x = nnf.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, 1))
        return _joined(torch.unflatten(x.index_select(dim, places.flatten()), dim, places.shape), dim, join)

    def _side_by_side(self, x: Tensor, dim: int) -> Tensor:
        """Return x as (…, cells, width, …), the last cell padded with zeros, without numbers behind the last edge."""
        cells = min(-(-x.shape[dim] // self._width), self.number)
        missing = cells * self._width - x.shape[dim]
        x = nnf.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, missing)) if missing > 0 else x
        return torch.unflatten(x.narrow(dim, 0, cells * self._width), dim, (cells, self._width))


def _joined(x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
    """Reduce all numbers of an axis; 0 if it is empty."""
    if 0 < x.shape[dim] <= _FEW:
        return reduce(join, x.unbind(dim))
    return x.sum(dim) if join is torch.add or not x.shape[dim] else x.amax(dim)
