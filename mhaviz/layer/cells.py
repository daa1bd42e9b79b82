"""The cells of a picture that is smaller than its map: where they begin, and what becomes of the weights in them."""

import torch
import torch.nn.functional as nnf
from torch import Tensor


def cell_edges(length: int, cells: int, device: torch.device | None = None) -> Tensor:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells), (cells + 1,)."""
    return torch.arange(cells + 1, device=device) * length // cells


def sum_in_cells(x: Tensor, edges: Tensor) -> Tensor:
    """(…, length) → (…, cells): the sum between every two edges, which may lie on one another."""
    even = _as_even_cells(x, edges)
    if even is not None:
        return even.sum(dim=-1)
    running = nnf.pad(x.double().cumsum(dim=-1), (1, 0))  # in float64, or their differences are rough
    return (running[..., edges[1:]] - running[..., edges[:-1]]).to(x.dtype)


def largest_in_cells(x: Tensor, edges: Tensor) -> Tensor:
    """(…, length) → (…, cells): the largest between every two edges, and 0 where there is nothing between.

    No number may be below 0.
    """
    even = _as_even_cells(x, edges)
    if even is not None:
        return even.amax(dim=-1)
    widths = edges.diff()
    cell_of = torch.repeat_interleave(torch.arange(len(widths), device=x.device), widths)  # of what is between edges
    between = x[..., int(edges[0]) : int(edges[-1])]
    largest = x.new_zeros(*x.shape[:-1], len(widths))
    return largest.scatter_reduce_(-1, cell_of.expand_as(between), between, "amax")


def _as_even_cells(x: Tensor, edges: Tensor) -> Tensor | None:
    """x as (…, cells, width), filled up with zeros, if all cells are equally wide until x ends; else None."""
    cells, length = len(edges) - 1, x.shape[-1]
    width = max(int(edges[1]), 1)
    even = (torch.arange(cells + 1, device=edges.device) * width).clamp(max=length)
    if not torch.equal(edges, even) or cells * width < length:
        return None
    return nnf.pad(x, (0, cells * width - length)).view(*x.shape[:-1], cells, width)
