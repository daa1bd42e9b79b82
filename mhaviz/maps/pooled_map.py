"""What a map is when it is done."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mhaviz.maps.blocks import Wanted
from mhaviz.records.cells import cell_edges


@dataclass(frozen=True, repr=False)
class PooledMap:
    """The weights of every head in the cells of a picture, and what else was asked for.

    Attributes:
        weights: float32, (batch_size, n_heads, rows, columns); by mass or, if only that was asked for, by maximum.
        query_edges: where each row of cells begins, and where the last ends, (rows + 1,).
        key_edges: the same of the columns, (columns + 1,).
        largest: float32, in the shape of ``weights``: the largest weight in each cell, if both were asked for.
        entropy: float32, (batch_size, n_heads, queries): of each query's weights, in nats.
        top_keys: int64, (batch_size, n_heads, queries, k): the keys with the largest weights, the largest first.
        top_weights: float32, the same shape: their weights; 0 where there are fewer visible keys, which then are any.
        received: float32, (batch_size, n_heads, k_length): the total weight that each key gets from the queries.
        local: float32, (batch_size, n_heads, queries): the weight that each query gives to keys near by.
    """

    weights: Tensor
    query_edges: Tensor
    key_edges: Tensor
    largest: Tensor | None = None
    entropy: Tensor | None = None
    top_keys: Tensor | None = None
    top_weights: Tensor | None = None
    received: Tensor | None = None
    local: Tensor | None = None

    def __repr__(self) -> str:
        """The shapes: the numbers would fill the screen."""
        there = ((field.name, getattr(self, field.name)) for field in fields(self))
        shapes = ", ".join(f"{name}={tuple(x.shape)}" for name, x in there if x is not None)
        return f"PooledMap({shapes})"


def empty_map(
    query: Tensor, k_length: int, rows: int, columns: int, window: tuple[int, int, int, int], wanted: Wanted
) -> PooledMap:
    """The result, of zeros, in the smaller of the two sizes: of the window, and of the picture."""
    q0, q1, k0, k1 = window
    rows, columns = min(rows, q1 - q0), min(columns, k1 - k0)

    def zeros(is_wanted: bool, *shape: int) -> Tensor | None:
        if not is_wanted:
            return None
        return torch.zeros(*query.shape[:2], *shape, dtype=torch.float32, device=query.device)

    cells = torch.zeros(*query.shape[:2], rows, columns, dtype=torch.float32, device=query.device)
    top_weights = zeros(wanted.top_keys > 0, q1 - q0, wanted.top_keys)
    return PooledMap(
        cells,
        torch.from_numpy(cell_edges(q1 - q0, rows) + q0).to(query.device),
        torch.from_numpy(cell_edges(k1 - k0, columns) + k0).to(query.device),
        torch.zeros_like(cells) if wanted.mass and wanted.largest else None,
        zeros(wanted.entropy, q1 - q0),
        None if top_weights is None else top_weights.to(torch.int64),
        top_weights,
        zeros(wanted.received, k_length),
        zeros(wanted.local is not None, q1 - q0),
    )
