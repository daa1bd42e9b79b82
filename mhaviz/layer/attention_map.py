"""Exact attention maps at any length, without the matrix of weights.

The weights of one head are q_length × k_length; a picture has a thousand rows of pixels at most. So the map is computed
a block of queries at a time, and the block a tile of keys at a time, small enough to stay in the cache: the scores,
their softmax within the tile, and the sums in the picture's cells. What share of a row's weight lies in each tile is
known when its last tile is done, from the logarithm of each tile's sum of exponentials: softmax over all keys = softmax
over tiles of these logarithms × softmax within the tile (Milakov and Gimelshein 2018, arXiv 1805.02867).
"""

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mhaviz.devices import cpu_threads
from mhaviz.errors import ArgumentError
from mhaviz.layer.cells import Cells, cell_edges

Window = tuple[int, int, int, int]

_TILE, _TILE_ON_GPU = (256, 4096), (4096, 16384)
"""Queries and keys of a tile: 4 MiB of scores stay in a core's share of the cache, and 256 MiB keep a GPU busy."""

_WHOLE_ROWS = 8192
"""Up to so many keys a tile takes whole rows, with fewer queries: then nothing has to be joined."""


@dataclass(frozen=True)
class PooledMap:
    """The weights of every head in the cells of a picture, and what else was asked for.

    Attributes:
        weights: float32, (batch_size, n_heads, rows, columns); by mass or, if only that was asked for, by maximum.
        query_edges: where each row of cells begins, and where the last ends, (rows + 1,).
        key_edges: the same of the columns, (columns + 1,).
        largest: float32, in the shape of ``weights``: the largest weight in each cell, if both were asked for.
        entropy: float32, (batch_size, n_heads, queries): of each query's weights, in nats.
        top_keys: int64, (batch_size, n_heads, queries, k): the keys with the largest weights, the largest first.
        top_weights: float32, the same shape: their weights; 0 where there are fewer visible keys.
        received: float32, (batch_size, n_heads, k_length): the total weight that each key gets from the queries.
    """

    weights: Tensor
    query_edges: Tensor
    key_edges: Tensor
    largest: Tensor | None = None
    entropy: Tensor | None = None
    top_keys: Tensor | None = None
    top_weights: Tensor | None = None
    received: Tensor | None = None


@torch.no_grad()
def attention_map(
    query: Tensor,
    key: Tensor,
    *,
    rows: int = 512,
    columns: int = 512,
    reduce: Literal["mass", "max", "both"] = "mass",
    causal: bool = False,
    key_mask: Tensor | None = None,
    scale: float | None = None,
    window: Window | None = None,
    entropy: bool = False,
    top_keys: int = 0,
    received: bool = False,
    told: Callable[[float], None] | None = None,
) -> PooledMap:
    """softmax(scale · Q Kᵀ), pooled to at most rows × columns cells, exactly, without ever holding it.

    Args:
        query: (batch_size, n_heads, q_length, d_key).
        key: (batch_size, n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads: heads share keys in
            groups, as in grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245).
        rows, columns: of the picture. A map that is smaller than that is not pooled: its cells are the weights.
        reduce: "mass": the mean over the cell's queries of the weight that goes to the cell's keys, so that each row
            still sums to 1; "max": the largest single weight in the cell; "both".
        causal: a query sees no later key; the last query is lined up with the last key.
        key_mask: (batch_size, k_length); 0 or False hides a key from all queries.
        scale: of the scores; 1/√d_key if it is None.
        window: (q0, q1, k0, k1), the part of the map that is shown; each weight is still a share of all keys.
        entropy, top_keys, received: compute these too, ``top_keys`` for so many keys; of the window's queries.
        told: is told of the progress, from 0 to 1.

    Returns:
        The map. A query that sees no key at all has weights of 0. float64 inputs are computed in float64, others in
        float32.

    Raises:
        ArgumentError: an axis that does not fit, named; a number of rows, columns or keys below what makes sense; a
            window outside the map; a NaN or an infinity, with its head and position.
    """
    problem = _Problem(query, key, rows, columns, reduce, causal, key_mask, scale, window, entropy, top_keys, received)
    return problem.solve(told or (lambda done: None))


class _Problem:
    """One call: its inputs, checked, its results, and the way from the ones to the others."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        rows: int,
        columns: int,
        reduce: str,
        causal: bool,
        key_mask: Tensor | None,
        scale: float | None,
        window: Window | None,
        entropy: bool,
        top_keys: int,
        received: bool,
    ) -> None:
        _check_inputs(query, key, key_mask)
        q_length, k_length = query.shape[2], key.shape[2]
        self.window = q0, q1, k0, k1 = _check_window(window, q_length, k_length)
        for name, size in (("rows", rows), ("columns", columns)):
            if size < 1:
                raise ArgumentError(f"{name}: expected at least 1, got {size}")
        if reduce not in ("mass", "max", "both"):
            raise ArgumentError(f"reduce: expected mass, max or both, got {reduce!r}")
        if not 0 <= top_keys <= k_length:
            raise ArgumentError(f"top_keys: expected a number from 0 to {k_length}, got {top_keys}")
        self.query, self.key, self.key_mask, self.causal = query, key, key_mask, causal
        self.scale = 1 / math.sqrt(query.shape[3]) if scale is None else scale
        self.later = k_length - q_length  # a query at position i sees the keys up to i + later
        self.inference = torch.is_inference_mode_enabled()
        self.device, self.dtype = query.device, torch.float64 if query.dtype == torch.float64 else torch.float32

        rows, columns = min(rows, q1 - q0), min(columns, k1 - k0)
        self.query_edges = cell_edges(q1 - q0, rows, self.device) + q0
        self.key_edges = cell_edges(k1 - k0, columns, self.device) + k0
        self.row_edges: list[int] = self.query_edges.tolist()
        heads = query.shape[:2]

        def empty(wanted: bool, *shape: int) -> Tensor | None:
            return torch.zeros(*heads, *shape, device=self.device) if wanted else None

        self.mass = empty(reduce != "max", rows, columns)
        self.largest = empty(reduce != "mass", rows, columns)
        self.entropy = empty(entropy, q1 - q0)
        self.top_weights = empty(top_keys > 0, q1 - q0, top_keys)
        self.top_keys = None if self.top_weights is None else self.top_weights.to(torch.int64)
        self.received = empty(received, k_length)

    def solve(self, told: Callable[[float], None]) -> PooledMap:
        batch_size, n_heads = self.query.shape[:2]
        heads = [(b, h) for b in range(batch_size) for h in range(n_heads)]
        if self.device.type == "cpu":
            workers = min(torch.get_num_threads(), os.cpu_count() or 1, len(heads))
            each = max(torch.get_num_threads() // max(workers, 1), 1)
            with ThreadPoolExecutor(max(workers, 1)) as pool:
                done = pool.map(lambda head: self._solve_head(head[0], head[1], each), heads)
                for number, _ in enumerate(done, start=1):
                    told(number / len(heads))
        else:
            for number, head in enumerate(heads, start=1):
                self._solve_head(*head)
                told(number / len(heads))
        if self.mass is not None:
            self.mass /= self.query_edges.diff()[:, None]
        first, second = (self.mass, self.largest) if self.mass is not None else (self.largest, None)
        assert first is not None
        return PooledMap(
            first,
            self.query_edges,
            self.key_edges,
            second,
            self.entropy,
            self.top_keys,
            self.top_weights,
            self.received,
        )

    def _solve_head(self, b: int, h: int, threads: int | None = None) -> None:
        """All blocks of one head, with ``threads`` of PyTorch's for each of its operations."""
        if threads is None:
            self._solve_blocks(b, h)
            return
        # All of these are a thread's own affair.
        with torch.inference_mode(self.inference), torch.no_grad(), cpu_threads(threads):
            self._solve_blocks(b, h)

    def _solve_blocks(self, b: int, h: int) -> None:
        keys = self.key[b, h * self.key.shape[1] // self.query.shape[1]]
        positions = torch.arange(len(keys), device=self.device)
        if self.key_mask is not None:  # hidden keys are left out: they cost nothing then
            positions = positions[self.key_mask[b] != 0]
            keys = keys[positions]
        keys = keys.to(self.dtype)  # k_length d_key
        _check_finite("key", keys, b, h, positions)
        _check_finite("query", self.query[b, h], b, h)
        queries_at_once, keys_at_once = _TILE if self.device.type == "cpu" else _TILE_ON_GPU
        if len(keys) <= _WHOLE_ROWS:
            queries_at_once = min(queries_at_once, max(queries_at_once * keys_at_once // max(len(keys), 1), 1))
            keys_at_once = len(keys)
        edges = torch.searchsorted(positions, self.key_edges)
        tiles = list(_tiles(positions, keys, edges, keys_at_once))
        widest = max((len(tile.keys) for tile in tiles), default=0)
        buffer = torch.empty(queries_at_once * widest, dtype=self.dtype, device=self.device)
        for start, end, row_sizes, row in self._blocks(queries_at_once):
            Q = self.query[b, h, start:end].to(self.dtype) * self.scale  # queries d_key
            seen = [tile for tile in tiles if not self.causal or tile.first <= end - 1 + self.later]
            if len(tiles) == 1 and seen:
                A, _ = self._softmax(Q, tiles[0], start, buffer, alone=True)
                self._pool(b, h, A, row, row_sizes, tiles[0].cells)
                self._take_in(b, h, start, end, A, tiles[0].positions[: A.shape[1]])
            elif seen:
                self._join_tiles(b, h, start, end, Q, row, row_sizes, seen, buffer)

    def _blocks(self, at_once: int) -> Iterator[tuple[int, int, list[int], int]]:
        """Runs of queries: as many whole rows of cells as ``at_once`` holds, or a part of one.

        Yields the first query and the end, how many of them are in each row, and the number of the first row.
        """
        edges, row = self.row_edges, 0
        while row < len(edges) - 1:
            last = bisect_right(edges, edges[row] + at_once) - 1
            if last > row:
                yield edges[row], edges[last], [edges[i + 1] - edges[i] for i in range(row, last)], row
                row = last
                continue
            for start in range(edges[row], edges[row + 1], at_once):
                end = min(start + at_once, edges[row + 1])
                yield start, end, [end - start], row
            row += 1

    def _softmax(
        self, Q: Tensor, tile: "_Tile", start: int, buffer: Tensor, alone: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The weights of a block of queries among a tile's keys alone, and the logarithm of their sum of exponentials.

        A (queries, keys), where a query that sees none of them has zeros, and its lse (queries,), −∞ there; where the
        tile is ``alone``, nobody needs the lse, and it is 0.
        """
        keys, latest, blind = tile.keys, None, None
        if self.causal and tile.last > start + self.later:
            latest = torch.arange(start, start + len(Q), device=self.device)[:, None] + self.later
            blind = tile.first > latest  # queries 1
            if tile.fillers is None:  # what none of them sees need not be computed
                keys = keys[: int(torch.searchsorted(tile.positions, latest[-1, 0], right=True))]
        A = buffer[: len(Q) * len(keys)].view(len(Q), len(keys))
        torch.mm(Q, keys.T, out=A)
        if tile.fillers is not None:
            A.index_fill_(1, tile.fillers, -torch.inf)
        if latest is not None:
            all_see = int(torch.searchsorted(tile.positions, latest[0, 0], right=True))
            A[:, all_see:].masked_fill_(tile.positions[all_see : len(keys)] > latest, -torch.inf)
        most = Q.new_zeros(len(Q)) if alone else A.amax(dim=-1)
        torch.softmax(A, dim=-1, out=A)
        # The largest weight is e^(most − lse), and never too small for a logarithm.
        lse = most if alone else most - A.amax(dim=-1).log_()
        if blind is not None and bool(blind.any()):
            A.masked_fill_(blind, 0.0)
            lse.masked_fill_(blind[:, 0], -torch.inf)
        return A, lse

    def _join_tiles(
        self,
        b: int,
        h: int,
        start: int,
        end: int,
        Q: Tensor,
        row: int,
        row_sizes: list[int],
        tiles: "Sequence[_Tile]",
        buffer: Tensor,
    ) -> None:
        """Take in a block of queries whose keys lie in several tiles."""
        n_cells, most = len(self.key_edges) - 1, self.top_weights.shape[-1] if self.top_weights is not None else 0
        parts = [self._part(Q, tile, start, buffer, most) for tile in tiles]
        lses = torch.stack([part.lse for part in parts], dim=-1)
        shares = torch.softmax(lses, dim=-1).nan_to_num(0.0)  # queries tiles; NaN where a query sees no key
        mass, largest = Q.new_zeros(2, len(Q), n_cells)
        for tile, part, share in zip(tiles, parts, shares.T[..., None], strict=True):
            if part.mass is not None:
                mass[:, tile.cell : tile.cell + part.mass.shape[1]] += part.mass * share
            if part.largest is not None:
                here = largest[:, tile.cell : tile.cell + part.largest.shape[1]]
                torch.maximum(here, part.largest * share, out=here)
            if part.weights is not None and self.received is not None:
                positions = tile.positions[: part.weights.shape[1]]
                self.received[b, h].index_add_(0, positions, (share.T @ part.weights)[0].float())
        rows, queries = slice(row, row + len(row_sizes)), slice(start - self.window[0], end - self.window[0])
        if self.mass is not None:
            self.mass[b, h, rows] += _over_rows(mass, row_sizes, torch.sum)
        if self.largest is not None:
            here = self.largest[b, h, rows]
            torch.maximum(here, _over_rows(largest, row_sizes, torch.amax).float(), out=here)
        if self.entropy is not None:  # of the tiles among each other, and within each
            within = torch.stack([part.entropy for part in parts if part.entropy is not None], dim=-1)
            self.entropy[b, h, queries] = (shares * within + torch.special.entr(shares)).sum(dim=-1).float()
        if self.top_weights is not None and self.top_keys is not None:
            best = [part.top for part in parts if part.top is not None]
            weights = torch.cat([w * shares[:, i, None] for i, (w, _) in enumerate(best)], dim=-1)
            chosen, which = weights.topk(min(most, weights.shape[1]), dim=-1)
            self.top_weights[b, h, queries, : chosen.shape[1]] = chosen.float()
            self.top_keys[b, h, queries, : chosen.shape[1]] = torch.cat([p for _, p in best], dim=-1).gather(-1, which)

    def _part(self, Q: Tensor, tile: "_Tile", start: int, buffer: Tensor, most: int) -> "_Part":
        A, lse = self._softmax(Q, tile, start, buffer)
        top = None
        if most:
            weights, places = A.topk(min(most, A.shape[1]), dim=-1)
            top = weights, tile.positions[places]
        return _Part(
            lse,
            tile.cells.sum(A) if self.mass is not None else None,
            tile.cells.largest(A) if self.largest is not None else None,
            torch.special.entr(A).sum(dim=-1) if self.entropy is not None else None,
            A.clone() if self.received is not None else None,
            top,
        )

    def _pool(self, b: int, h: int, A: Tensor, row: int, row_sizes: list[int], cells: Cells) -> None:
        """Add the weights of a block, (queries, seen), to the picture."""
        rows = slice(row, row + len(row_sizes))
        if self.mass is not None:
            mass = cells.sum(_over_rows(A, row_sizes, torch.sum))
            self.mass[b, h, rows, : mass.shape[1]] += mass
        if self.largest is not None:
            largest = cells.largest(_over_rows(A, row_sizes, torch.amax)).float()
            here = self.largest[b, h, rows, : largest.shape[1]]
            torch.maximum(here, largest, out=here)

    def _take_in(self, b: int, h: int, start: int, end: int, A: Tensor, positions: Tensor) -> None:
        """Take note of what else was asked for, from the weights of a block, (queries, seen)."""
        queries = slice(start - self.window[0], end - self.window[0])
        if self.entropy is not None:
            self.entropy[b, h, queries] = torch.special.entr(A).sum(dim=-1).float()
        if self.received is not None:
            self.received[b, h, positions] += A.sum(dim=0).float()
        if self.top_weights is not None and self.top_keys is not None:
            most = min(self.top_weights.shape[-1], A.shape[1])
            weights, places = A.topk(most, dim=-1)
            self.top_weights[b, h, queries, :most] = weights.float()
            self.top_keys[b, h, queries, :most] = positions[places]


@dataclass(frozen=True)
class _Part:
    """What one tile gives for a block of queries, as if its keys were all there are. ``lse``: see ``_softmax``."""

    lse: Tensor
    mass: Tensor | None
    largest: Tensor | None
    entropy: Tensor | None
    weights: Tensor | None
    top: tuple[Tensor, Tensor] | None


class _Tile:
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


def _tiles(positions: Tensor, keys: Tensor, edges: Tensor, at_once: int) -> Iterator[_Tile]:
    """All keys, cut into tiles of at most about ``at_once``: whole cells as far as they are no wider."""
    ends: list[int] = edges.tolist()
    if len(keys) <= at_once:
        if len(keys):
            yield _Tile(positions, keys, edges, 0, whole_rows=True)
        return

    def beside(first: int, last: int, cell: int) -> Iterator[_Tile]:
        """Keys of one cell, or of none (cell −1), which still have their share of the weight."""
        for start in range(first, last, at_once):
            end = min(start + at_once, last)
            own = torch.tensor([0, end - start] if cell >= 0 else [0], device=keys.device)
            yield _Tile(positions[start:end], keys[start:end], own, max(cell, 0), whole_rows=False)

    yield from beside(0, ends[0], -1)
    cell = 0
    while cell < len(ends) - 1:
        last = bisect_right(ends, ends[cell] + at_once) - 1
        if last <= cell:
            yield from beside(ends[cell], ends[cell + 1], cell)
            last = cell + 1
        elif ends[last] > ends[cell]:
            part = slice(ends[cell], ends[last])
            yield _Tile(positions[part], keys[part], edges[cell : last + 1] - ends[cell], cell, whole_rows=False)
        cell = last
    yield from beside(ends[-1], len(keys), -1)


def _over_rows(A: Tensor, row_sizes: list[int], reduce: Callable[..., Tensor]) -> Tensor:
    """(queries, seen) → (rows of cells, seen): the sum or the largest over the queries of each row."""
    if len(A) == len(row_sizes):
        return A
    if min(row_sizes) == max(row_sizes):
        return reduce(A.view(len(row_sizes), -1, A.shape[1]), dim=1)
    return torch.stack([reduce(part, dim=0) for part in torch.split(A, row_sizes)])


def _check_inputs(query: Tensor, key: Tensor, key_mask: Tensor | None) -> None:
    for name, x, axes in (("query", query, "n_heads, q_length"), ("key", key, "n_kv_heads, k_length")):
        if x.ndim != 4:
            raise ArgumentError(f"{name}: expected 4 axes, (batch_size, {axes}, d_key), got {x.ndim}: {tuple(x.shape)}")
        if not x.is_floating_point():
            raise ArgumentError(f"{name}: expected floating-point numbers, got {x.dtype}")
        for axis, size in zip(("batch_size", *axes.split(", "), "d_key"), x.shape, strict=True):
            if size < 1:
                raise ArgumentError(f"{name}: expected axis {axis} to be at least 1, got {size}")
    for axis, place in (("batch_size", 0), ("d_key", 3)):
        if query.shape[place] != key.shape[place]:
            raise ArgumentError(
                f"key: expected axis {axis} to be {query.shape[place]}, as in query, got {key.shape[place]}"
            )
    if query.shape[1] % key.shape[1]:
        raise ArgumentError(f"expected n_heads to be a multiple of n_kv_heads, got {query.shape[1]} and {key.shape[1]}")
    if query.device != key.device:
        raise ArgumentError(f"expected query and key on one device, got {query.device} and {key.device}")
    shape = key.shape[0], key.shape[2]
    if key_mask is not None and tuple(key_mask.shape) != shape:
        raise ArgumentError(f"key_mask: expected (batch_size, k_length), which is {shape}, got {tuple(key_mask.shape)}")


def _check_window(window: Window | None, q_length: int, k_length: int) -> Window:
    if window is None:
        return 0, q_length, 0, k_length
    for axis, start, end, length in (("query", *window[:2], q_length), ("key", *window[2:], k_length)):
        if not 0 <= start < end <= length:
            raise ArgumentError(
                f"window: expected {axis} positions that go up, from 0 to at most {length}, got {start} to {end}"
            )
    return window


def _check_finite(name: str, x: Tensor, b: int, h: int, positions: Tensor | None = None) -> None:
    """x (length, d_key), at these positions. The sum is NaN or infinite if a number is; only then is it looked for."""
    if not math.isfinite(x.sum().item()) and not bool(x.isfinite().all()):
        place = int((~x.isfinite()).any(dim=-1).nonzero()[0])
        place = place if positions is None else int(positions[place])
        raise ArgumentError(
            f"{name}: expected finite numbers, got NaN or infinity in batch {b}, head {h}, position {place}"
        )
