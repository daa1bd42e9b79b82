"""Computes a map of half precision on a GPU without ever writing a weight to its memory.

First the logarithm of each query's sum of exponentials, lse, as flash attention computes it (Dao 2023, arXiv
2307.08691, section 3.1); then A = exp(S − lse) tile by tile, of which nothing is kept but its sums over the queries of
a row of cells. Both are products of half precision on tensor cores with sums in float32: as exact as the scores of
float32 that ``tiled_pass`` computes, and faster by what tensor cores are.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.pooled_map import PooledMap, Wanted, empty_map
from mhaviz.attention.reducer import CellReducer
from mhaviz.attention.tiled_pass import TiledPass
from mhaviz.errors import is_out_of_memory

_HALF = (torch.bfloat16, torch.float16)
_WIDEST = 256  # features of a key that a tile has room for
_TILE = 64, 128  # queries and keys
_QUERIES = 256  # of the rows of cells that share a tile of keys
_AT_ONCE = 2**28  # bytes of sums of rows of cells
_ALIKE = 1e-3  # of weights, computed by two ways whose products are the same and whose sums are not


def takes(call: AttentionCall, key_mask: Tensor | None, wanted: Wanted) -> bool:
    """Whether the kernels are made for this call, and are right on its device."""
    return (
        is_for(call, key_mask, wanted)
        and call.device.type == "cuda"
        and _is_right(call.device, call.query.dtype, _features(call))
    )


def is_for(call: AttentionCall, key_mask: Tensor | None, wanted: Wanted) -> bool:
    """Whether the kernels are made for this call, on whatever device."""
    return (
        call.query.dtype in _HALF
        and call.key.dtype == call.query.dtype
        and call.query.shape[3] <= _WIDEST
        and call.mask is None
        and call.softcap is None
        and call.value_norms is None
        and key_mask is None
        and wanted.top_keys <= 1
    )


def _features(call: AttentionCall) -> int:
    """Those that a tile has room for: a power of 2."""
    return max(16, 1 << (call.query.shape[3] - 1).bit_length())


@cache
def _is_right(device: torch.device, dtype: torch.dtype, features: int) -> bool:
    """Whether a small map is what ``tiled_pass`` makes of it, looked at once for each device, precision and width.

    Drivers and compilers differ, a GPU may lack room for a wide tile, and a wrong map is worse than a slow one.
    """
    if find_spec("triton") is None:
        return False
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, 300, features, generator=generator).to(device, dtype) for _ in range(2))
    wanted = Wanted((0, 300, 0, 300), 40, 40, "both", entropy=True, top_keys=1, received=True, local=8)
    call = AttentionCall(query, key, key, features**-0.5, causal=True)
    expected = empty_map(query, 300, wanted)
    TiledPass(call, None, wanted, expected, None).run(lambda done: None)
    try:
        found = gpu_map(call, wanted)
    except Exception as error:  # a compiler that is not there, a GPU that it does not know
        if is_out_of_memory(error):
            raise
        return False
    pairs = ((getattr(found, name), getattr(expected, name)) for name in ("weights", "largest", "entropy", "received"))
    return all(torch.allclose(a, b, rtol=_ALIKE, atol=_ALIKE) for a, b in pairs)


def gpu_map(call: AttentionCall, wanted: Wanted, on_progress: Callable[[float], None] = lambda done: None) -> PooledMap:
    """What ``attention_map`` gives of a call that ``is_for`` it; some heads at a time."""
    result = empty_map(call.query, call.shape[3], wanted)
    batch_size, n_heads, _, k_length = call.shape
    keys = k_length if wanted.received else wanted.window[3] - wanted.window[2]
    copies = wanted.mass + wanted.largest
    at_once = max(_AT_ONCE // (4 * copies * wanted.cells[0] * keys), 1)
    heads = batch_size * n_heads
    for first in range(0, heads, at_once):
        part = _Heads(call, wanted, result, first, min(first + at_once, heads))
        part.fill()
        on_progress(part.end / heads)
    return result


@dataclass
class _Heads:
    """Some heads of a call, counted through the batch, whose part of the result is filled in."""

    call: AttentionCall
    wanted: Wanted
    result: PooledMap
    first: int
    end: int

    def fill(self) -> None:
        """All that is wanted."""
        lse = self._of_queries()
        if self.wanted.local is not None:
            self._launch("local_sums", (self._query_blocks, self.number), lse, self._own("local"), self.wanted.local)
        self._cells(lse)

    @property
    def number(self) -> int:
        """Of heads."""
        return self.end - self.first

    @property
    def _query_blocks(self) -> int:
        return -(-self.wanted.queries // _TILE[0])

    def _own(self, name: str) -> Tensor:
        """What the result has of these heads, (heads, …), to be written."""
        whole: Tensor = getattr(self.result, name)
        return whole.flatten(0, 1)[self.first : self.end]

    def _of_queries(self) -> Tensor:
        """lse with a head's sink, (heads, queries); +∞ for a query that sees no key. Fills in what is each query's."""
        shape = self.number, self.wanted.queries
        lse, mean_score, top_weight = (torch.empty(shape, device=self.call.device) for _ in range(3))
        top_key = torch.empty(shape, dtype=torch.int32, device=self.call.device)
        self._launch("normalisers", (self._query_blocks, self.number), lse, mean_score, top_weight, top_key)
        if self.wanted.entropy:  # −Σ a log a with log a = s − lse, of the shares that keys have among each other
            self._own("entropy").copy_((lse - mean_score).where(top_weight > 0, 0.0))
        share: Tensor | float = 1.0  # of the weight that goes to keys, and not to a sink
        if self.call.sinks is not None:
            heads = torch.arange(self.first, self.end, device=self.call.device) % self.call.shape[1]
            with_sink = torch.logaddexp(lse, self.call.sinks.float()[heads][:, None])
            share, lse = (lse - with_sink).exp().nan_to_num(0.0), with_sink
        if self.wanted.top_keys:
            self._own("top_weights").copy_((top_weight * share)[..., None])
            self._own("top_keys").copy_(top_key[..., None])
        return lse

    def _cells(self, lse: Tensor) -> None:
        wanted, result = self.wanted, self.result
        _, _, k0, k1 = wanted.window
        first, end = (0, self.call.shape[3]) if wanted.received else (k0, k1)
        rows = wanted.cells[0]
        shape = self.number, rows, end - first
        nothing = torch.empty(1, device=self.call.device)
        sums = torch.empty(shape, device=self.call.device) if wanted.mass or wanted.received else nothing
        largest = torch.empty(shape, device=self.call.device) if wanted.largest else nothing
        together = max(_QUERIES * rows // wanted.queries, 1)  # rows of cells
        grid = -(-(end - first) // _TILE[1]), -(-rows // together), self.number
        self._launch("column_sums", grid, lse, sums, largest, first, end, together)
        if wanted.received:
            self._own("received").copy_(sums.sum(dim=1))
        columns = CellReducer(result.key_edges - k0)
        window = slice(k0 - first, k1 - first)
        if wanted.mass:
            counts = result.query_edges.diff()[:, None]
            self._own("weights").copy_(columns.sum(sums[..., window]) / counts)
        if wanted.largest and result.largest is not result.weights:
            self._own("largest" if wanted.mass else "weights").copy_(columns.largest(largest[..., window]))

    def _launch(self, kernel: str, grid: tuple[int, ...], lse: Tensor, *others: Any) -> None:
        from mhaviz.attention import gpu_kernels

        call, (q0, q1, _, _) = self.call, self.wanted.window
        query, key = (x if x.stride(-1) == 1 else x.contiguous() for x in (call.query, call.key))
        strides = *query.stride()[:3], *key.stride()[:3]
        _, n_heads, q_length, k_length = call.shape
        which = self.first, n_heads, call.group
        features, later = query.shape[3], k_length - q_length
        M, N = _TILE
        sizes = {"CAUSAL": call.causal, "M": M, "N": N, "D": _features(call)}
        if kernel == "normalisers":
            rest = (*others, *strides, *which, q0, q1, k_length, features, call.scale, later)
        elif kernel == "local_sums":
            local, distance = others
            rest = (local, *strides, *which, q0, q1, k_length, features, call.scale, later, distance)
        else:
            sums, largest, first, end, together = others
            edges = self.result.query_edges.to(torch.int32)
            rest = (edges, sums, largest, *strides, *which, q0, q1, first, end, k_length, len(edges) - 1)
            rest = (*rest, features, call.scale, later)
            sizes |= {"SUMS": sums.numel() > 1, "LARGEST": largest.numel() > 1, "ROWS": together}
        is_gpu = call.device.type == "cuda"  # else the kernels are interpreted
        with torch.cuda.device(call.device) if is_gpu else nullcontext():
            getattr(gpu_kernels, kernel)[grid](query, key, lse, *rest, **sizes)
