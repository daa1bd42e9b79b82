"""The request for a pooled map, ``Pooling``, and its result, ``PooledMap``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.limits import MOST_CELLS
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis, cell_edges
from mhaviz.results.quantity import WEIGHT, Quantity, Reduction
from mhaviz.results.result import Result, Source

Window = tuple[int, int, int, int]
"""Part of a map, (q0, q1, k0, k1): queries from q0 up to but without q1, keys from k0 up to but without k1."""


OpenWindow = tuple[int | None, int | None, int | None, int | None]
"""A window in which None stands for the map's own first or last position."""


@dataclass(frozen=True)
class Pooling:
    """Request for a pooled map: its cells, and what else is computed from single weights; see ``attention_map``.

    Attributes:
        size: most rows and columns of cells, one number for both or a pair; None: ``MOST_CELLS`` each.
        reduce: "mass" or "max"; None: by mass, where there are more tokens than cells.
        window: part of the map to show; None: all of it.
        entropy, top_keys, received, local: as in ``attention_map``.
        totals: whether to compute the sum of each row over all keys.
        both: whether cells are pooled by the other reduction, too.
        cuts: edges of the rows and of the columns, from the first to the last position of the window, in place of
            ``size``; None: cells of nearly equal width.

    Raises:
        ArgumentError: a size below 1, or an unknown reduction.
    """

    size: int | tuple[int, int] | None = None
    reduce: Literal["mass", "max"] | None = None
    window: OpenWindow | None = None
    entropy: bool = False
    top_keys: int = 0
    received: bool = False
    local: int | None = None
    totals: bool = False
    both: bool = False
    cuts: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        if self.reduce not in (None, "mass", "max"):
            raise ArgumentError(f"{parameter('pool')}: expected mass or max, got {quoted(self.reduce)}")
        if min(self.most) < 1:
            raise ArgumentError(f"{parameter('size')}: expected at least 1 cell, got {self.size}")

    @property
    def most(self) -> tuple[int, int]:
        """Most rows and most columns of cells."""
        if isinstance(self.size, tuple):
            return self.size
        return (MOST_CELLS,) * 2 if self.size is None else (self.size,) * 2

    def within(self, q_length: int, k_length: int) -> "Pooling":
        """Return the request with the window filled in for a map of this size.

        Raises:
            ArgumentError: the window is not inside the map.
        """
        if self.window is not None and len(self.window) != 4:
            got = len(self.window)
            raise ArgumentError(f"{parameter('window')}: expected four positions, q0, q1, k0 and k1, got {got}")
        q0, q1, k0, k1 = self.window or (None, None, None, None)
        window = q0 or 0, q_length if q1 is None else q1, k0 or 0, k_length if k1 is None else k1
        for axis, start, end, length in (("query", *window[:2], q_length), ("key", *window[2:], k_length)):
            if not 0 <= start < end <= length:
                raise ArgumentError(
                    f"{parameter('window')}: expected {axis} positions that go up, from 0 to at most {length}, got "
                    f"{start} to {end}"
                )
        return replace(self, window=window)

    @property
    def span(self) -> Window:
        """The window after ``within``, without None."""
        return self.window  # type: ignore[return-value]

    @property
    def mass(self) -> bool:
        """Whether cells are pooled by mass."""
        return self.reduce != "max" or self.both

    @property
    def largest(self) -> bool:
        """Whether cells are pooled by maximum."""
        return self.reduce == "max" or self.both

    @property
    def queries(self) -> int:
        """Number of queries in the window."""
        return self.span[1] - self.span[0]

    @property
    def cells(self) -> tuple[int, int]:
        """Number of rows and of columns: at most one for each query and each key in the window."""
        if self.cuts is not None:
            return len(self.cuts[0]) - 1, len(self.cuts[1]) - 1
        rows, columns = self.most
        return min(rows, self.queries), min(columns, self.span[3] - self.span[2])

    def edges(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the edges of the rows, (rows + 1,), and of the columns, (columns + 1,), as positions of tokens."""
        if self.cuts is not None:
            return torch.tensor(self.cuts[0], device=device), torch.tensor(self.cuts[1], device=device)
        (q0, q1, k0, k1), (rows, columns) = self.span, self.cells
        query_edges = _edges(q0, q1, rows, device)
        return query_edges, query_edges if (q0, q1, rows) == (k0, k1, columns) else _edges(k0, k1, columns, device)


@dataclass(frozen=True)
class PooledMap(Result):
    """Weights of every head, pooled to the cells of a picture, and further numbers of single weights.

    Notebooks show it as a picture. Numbers that were not asked for are None.

    Attributes:
        weights: float32, (batch_size, n_heads, rows, columns), pooled by mass, or by maximum if that alone is wanted.
        query_edges: (rows + 1,), edges of the rows of cells, as positions of queries.
        key_edges: (columns + 1,), edges of the columns of cells, as positions of keys.
        largest: float32, in the shape of ``weights``, the largest weight in each cell, if both reductions were asked
            for; the same tensor as ``weights`` where nothing is pooled.
        entropy: float32, (batch_size, n_heads, queries), entropy of each query's weights over their sum, in nats.
        top_keys: int64, (batch_size, n_heads, queries, k), keys with the largest weights, the largest first.
        top_weights: float32, (batch_size, n_heads, queries, k), weights of ``top_keys``. Where a query sees fewer than
            k keys, the remaining weights are 0 and their keys meaningless.
        received: float32, (batch_size, n_heads, k_length), total weight that each key gets from the queries.
        local: float32, (batch_size, n_heads, queries), weight that each query gives to keys near it.
        totals: float32, (batch_size, n_heads, queries), sum of each row over all keys.
        reduction: pooling of ``weights``, "mass" or "max".
        causal: whether later keys are hidden from each query.
        quantity: quantity of the numbers: weights, or norms.
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
    totals: Tensor | None = None
    reduction: Reduction = "mass"
    causal: bool = False
    quantity: Quantity = WEIGHT

    def to_attention(self, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None) -> Attention:
        """Return the weights as a result that is drawn and saved, with one map for each example of the batch.

        Args:
            queries, keys: tokens of the window, one for each query and each key; None: their positions.

        Raises:
            ArgumentError: a number of tokens other than that of the window.
        """
        rows, columns = _axis(self.query_edges, queries), _axis(self.key_edges, keys)
        is_pooled = rows.is_pooled or columns.is_pooled
        quantity = replace(self.quantity, reduction=self.reduction if is_pooled else "mass")
        kind: Kind = "masked" if self.causal else "self" if rows.is_same(columns) else "cross"
        maps = [
            AttentionMap(weights, rows, columns, kind, sentence=i if len(self.weights) > 1 else None, quantity=quantity)
            for i, weights in enumerate(self.weights.detach().float().cpu().numpy())
        ]
        return Attention(Source(""), tuple(maps))

    def float(self) -> "PooledMap":
        """Return the map with all floating-point numbers in float32."""
        there = ((field.name, getattr(self, field.name)) for field in fields(self))
        numbers: dict[str, Any] = {
            name: x.float() for name, x in there if isinstance(x, Tensor) and x.is_floating_point()
        }
        return replace(self, **numbers)


def empty_map(query: Tensor, k_length: int, wanted: Pooling) -> PooledMap:
    """Return a map to be filled in by ``TiledPass``: its cells are uninitialised, all other numbers 0."""
    query_edges, key_edges = wanted.edges(query.device)

    def zeros(is_wanted: bool, *shape: int) -> Tensor | None:
        if not is_wanted:
            return None
        return torch.zeros(*query.shape[:2], *shape, dtype=torch.float32, device=query.device)

    # Not zeros: filling them takes as long as a short map. ``write_cells`` clears each row with its first query.
    cells = torch.empty(*query.shape[:2], *wanted.cells, dtype=torch.float32, device=query.device)
    largest = None
    if wanted.mass and wanted.largest:
        q0, q1, k0, k1 = wanted.span
        largest = cells if wanted.cells == (q1 - q0, k1 - k0) else torch.empty_like(cells)
    top_weights = zeros(wanted.top_keys > 0, wanted.queries, wanted.top_keys)
    return PooledMap(
        cells,
        query_edges,
        key_edges,
        largest,
        zeros(wanted.entropy, wanted.queries),
        None if top_weights is None else top_weights.to(torch.int64),
        top_weights,
        zeros(wanted.received, k_length),
        zeros(wanted.local is not None, wanted.queries),
        zeros(wanted.totals, wanted.queries),
    )


def _axis(edges: Tensor, texts: Sequence[str] | None) -> Axis:
    places = edges.cpu().numpy()
    texts = [str(position) for position in range(int(places[0]), int(places[-1]))] if texts is None else texts
    is_whole = places[0] == 0 and len(places) == places[-1] + 1
    return Axis(Tokens(tuple(texts)), None if is_whole else places)


def _edges(start: int, end: int, cells: int, device: torch.device) -> Tensor:
    if cells >= end - start:
        return torch.arange(start, end + 1, device=device)
    return torch.from_numpy(cell_edges(end - start, cells) + start).to(device)
