"""Pools numbers to cells: the sum or the largest of the numbers in each cell."""

import itertools
from collections.abc import Callable
from functools import reduce

import torch
import torch.nn.functional as nnf
from torch import Tensor

_FEW_ROWS, _FEW_COLUMNS = 2, 8
"""Up to so many rows, or numbers of a row, in a cell are taken together two at a time, which is faster than PyTorch's
sum and maximum over an axis of a few numbers."""

_NARROW = 32
"""Up to so many numbers in a cell, cells of unequal width are taken together number by number."""


class CellReducer:
    """Pools numbers along an axis to cells.

    Cells lie between edges, (cells + 1,), which rise and may lie on one another.

    What is pooled may end before the last edge, as the keys do that a causal block sees: then so do its cells.

    Attributes:
        number: how many cells.
    """

    def __init__(self, edges: Tensor) -> None:
        self._edges, self.number = edges, len(edges) - 1
        width = max(int(edges[1] - edges[0]), 1) if self.number else 0
        even = torch.arange(len(edges), device=edges.device) * width
        self._width = width if torch.equal(edges, even) else 0  # 0: they differ, or something stands before the first
        self._shorter: dict[int, CellReducer] = {}
        self._turns: list[Tensor] | None = None
        if self.number and not self._width:
            self._take_turns()

    @property
    def is_even(self) -> bool:
        """Whether all are equally wide and nothing stands before the first."""
        return self._width > 0

    @property
    def changes_nothing(self) -> bool:
        """Whether each cell is one number, so that the results are a view of what is pooled."""
        return self._width == 1

    def sum(self, x: Tensor, dim: int = -1) -> Tensor:
        """(…, length, …) → (…, cells, or as many as the length begins, …): the sum in each cell along an axis."""
        return self._pooled(x, dim, torch.add)

    def largest(self, x: Tensor, dim: int = -1) -> Tensor:
        """The same with the largest in each cell, and 0 where there is nothing. No number may be below 0."""
        return self._pooled(x, dim, torch.maximum)

    def _pooled(self, x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
        """By the sum or the maximum of two numbers."""
        is_sum = join is torch.add

        def whole(part: Tensor, dim: int) -> Tensor:
            return part.sum(dim=dim) if is_sum or not part.shape[dim] else part.amax(dim=dim)

        if not self.number:
            return x.narrow(dim, 0, 0)
        if self._width:
            cells, within = self._side_by_side(x, dim)
            few = self._width <= (_FEW_COLUMNS if within == cells.ndim - 1 else _FEW_ROWS)
            return reduce(join, cells.unbind(within)) if few else whole(cells, within)
        if self._turns is not None:
            shorter = self._up_to(x.shape[dim])
            return self._by_turns(x, dim, join) if shorter is self else shorter._pooled(x, dim, join)
        if dim % x.ndim < x.ndim - 1:
            return torch.stack([whole(part, dim) for part in self._parts(x, dim)], dim=dim)
        edges = self._edges.clamp(max=x.shape[-1])
        if is_sum:  # in float64, or the differences are rough; Apple's GPUs have none
            running = nnf.pad((x if x.device.type == "mps" else x.double()).cumsum(dim=-1), (1, 0))
            return (running[..., edges[1:]] - running[..., edges[:-1]]).to(x.dtype)
        cell_of = torch.repeat_interleave(torch.arange(self.number, device=x.device), edges.diff())
        between = x[..., int(edges[0]) : int(edges[-1])]
        largest = x.new_zeros(*x.shape[:-1], self.number)
        return largest.scatter_reduce_(-1, cell_of.expand_as(between), between, "amax")

    def _parts(self, x: Tensor, dim: int) -> list[Tensor]:
        """What is in each cell: for an axis of many wide rows of numbers, of which a block holds few."""
        ends: list[int] = self._edges.clamp(max=x.shape[dim]).tolist()
        return [x.narrow(dim, start, end - start) for start, end in itertools.pairwise(ends)]

    def _take_turns(self) -> None:
        """Let cells of unequal width give one number each at a time, the widest cells first.

        The first numbers of all cells, then the second numbers of all that have two, and so on: each turn adds to the
        beginning of what the turn before has made.
        """
        widths = self._edges.diff()
        widest = int(widths.max())
        if widest > _NARROW:
            return
        order = widths.argsort(descending=True, stable=True)
        starts = self._edges[:-1][order]
        at_least = [int((widths > turn).sum()) for turn in range(max(widest, 1))]
        self._turns = [starts[:cells] + turn for turn, cells in enumerate(at_least)]
        self._places = order.argsort()

    def _up_to(self, length: int) -> "CellReducer":
        """The one for what ends there, in which later cells are empty; it is made once."""
        if length >= int(self._edges[-1]):
            return self
        if length not in self._shorter:
            self._shorter[length] = CellReducer(self._edges.clamp(max=length))
        return self._shorter[length]

    def _by_turns(self, x: Tensor, dim: int, join: Callable[..., Tensor]) -> Tensor:
        assert self._turns is not None
        first, *others = self._turns
        joined = x.index_select(dim, first)
        for places in others:
            part = joined.narrow(dim, 0, len(places))
            join(part, x.index_select(dim, places), out=part)
        if len(first) < self.number:  # cells that are empty come last
            shape = list(x.shape)
            shape[dim] = self.number - len(first)
            joined = torch.cat([joined, x.new_zeros(shape)], dim)
        return joined.index_select(dim, self._places)

    def _side_by_side(self, x: Tensor, dim: int) -> tuple[Tensor, int]:
        """x as (…, cells, width, …), its last cell filled up with zeros, and the number of the axis of the width.

        What lies behind the last edge is left out.
        """
        dim %= x.ndim
        cells = min(-(-x.shape[dim] // self._width), self.number)
        missing = cells * self._width - x.shape[dim]
        x = nnf.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, missing)) if missing > 0 else x
        return torch.unflatten(x.narrow(dim, 0, cells * self._width), dim, (cells, self._width)), dim + 1
