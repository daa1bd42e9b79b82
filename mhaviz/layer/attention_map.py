"""Exact attention maps at any length, without the matrix of weights.

The weights of one head are q_length × k_length; a picture has a thousand rows of pixels at most. So the map is computed
a block of queries at a time: the scores of the block to all of its keys, their softmax, which is exact because the
whole row is there, and from that the sums in the picture's cells. The block is small enough to stay in the cache.
"""

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mhaviz.devices import cpu_threads
from mhaviz.errors import ArgumentError
from mhaviz.layer.cells import Cells, cell_edges

Window = tuple[int, int, int, int]

_BLOCK, _BLOCK_ON_GPU = 1 << 20, 1 << 26
"""Scores in a block: 4 MiB stay in a core's share of the cache, and 256 MiB keep a GPU busy."""

_MOST_QUERIES = 256  # in a block


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
        cells = Cells(torch.searchsorted(positions, self.key_edges))
        on_gpu = self.device.type != "cpu"
        at_once = max((_BLOCK_ON_GPU if on_gpu else _BLOCK) // max(len(keys), 1), 1)
        at_once = at_once if on_gpu else min(at_once, _MOST_QUERIES)
        buffer = torch.empty(at_once * max(len(keys), 1), dtype=self.dtype, device=self.device)
        for start, end, row_sizes, row in self._blocks(at_once):
            A, seen = self._weights(b, h, start, end, keys, positions, buffer)
            if seen:
                self._pool(b, h, A, row, row_sizes, cells)
                self._take_in(b, h, start, end, A, positions[:seen])

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

    def _weights(
        self, b: int, h: int, start: int, end: int, keys: Tensor, positions: Tensor, buffer: Tensor
    ) -> tuple[Tensor, int]:
        """A = softmax(scale · Q Kᵀ) of a block of queries, (queries, seen), for the ``seen`` keys that it may see."""
        Q = self.query[b, h, start:end].to(self.dtype)  # queries d_key
        seen = len(positions)
        if self.causal:
            first, last = start + self.later, end - 1 + self.later
            all_see, seen = torch.searchsorted(
                positions, torch.tensor([first, last], device=self.device), right=True
            ).tolist()
        A = buffer[: (end - start) * seen].view(end - start, seen)
        torch.mm(Q * self.scale, keys[:seen].T, out=A)
        if not self.causal or all_see == seen:
            return torch.softmax(A, dim=-1, out=A), seen
        latest = torch.arange(start, end, device=self.device)[:, None] + self.later
        hidden = positions[all_see:seen] > latest  # queries keys
        A[:, all_see:].masked_fill_(hidden, -torch.inf)
        torch.softmax(A, dim=-1, out=A)
        if not all_see:  # some of these queries may see no key at all: their softmax is NaN
            A.masked_fill_((positions[0] > latest), 0.0)
        return A, seen

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
    if not math.isfinite(x.sum(dtype=torch.float64).item()) and not bool(x.isfinite().all()):
        place = int((~x.isfinite()).any(dim=-1).nonzero()[0])
        place = place if positions is None else int(positions[place])
        raise ArgumentError(
            f"{name}: expected finite numbers, got NaN or infinity in batch {b}, head {h}, position {place}"
        )
