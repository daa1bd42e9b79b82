"""Exact attention maps at any length, without the matrix of weights in memory.

The weights of one head are q_length × k_length, while a picture has a thousand rows of pixels at most. The map is
computed a block of queries at a time, and each block a tile of keys at a time. The scores of a tile, their softmax, and
the sums in the picture's cells then fit into the processor's cache.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.pooled_map import PooledMap, Pooling, Window, empty_map
from mhaviz.attention.short_map import is_short, pool_weights, short_map
from mhaviz.attention.tiled_pass import TiledPass
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import check_mask_axes
from mhaviz.results.quantity import NORM, WEIGHT, Reduction


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
    mask: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    value_norms: Tensor | None = None,
    window: Window | None = None,
    entropy: bool = False,
    top_keys: int = 0,
    received: bool = False,
    local: int | None = None,
    memory: int | None = None,
    on_progress: Callable[[float], None] = lambda done: None,
) -> PooledMap:
    """Compute softmax(scale · Q Kᵀ) exactly, pooled to at most rows × columns cells, without holding all weights.

    Args:
        query: (batch_size, n_heads, q_length, d_key).
        key: (batch_size, n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads: heads share keys in
            groups, as in grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245).
        rows, columns: size of the picture. A smaller map is not pooled: its cells are the weights.
        reduce: "mass": the mean over the cell's queries of the weight that goes to the cell's keys, so that each row
            still sums to 1; "max": the largest single weight in the cell; "both".
        causal: hide later keys from each query. The last query is aligned with the last key, as in a decoder with a
            cache.
        key_mask: (batch_size, k_length); 0 or False hides a key from all queries.
        scale: factor of Q Kᵀ; None: 1/√d_key.
        mask: broadcasts to (batch_size, n_heads, q_length, k_length): bool, where False hides a key from a query, or
            numbers that are added to the scores, such as a position bias, where −∞ hides. Finite numbers, however low,
            hide a key only beside higher ones: a query to which all keys are −1e9 weighs them all.
        softcap: scores become softcap · tanh(score / softcap) before the mask (Gemma 2, arXiv 2408.00118, section 2).
        sinks: (n_heads,), a score for each head that takes part in the softmax and is then dropped, so that rows sum to
            less than 1 (gpt-oss; Xiao et al. 2023, arXiv 2309.17453).
        value_norms: (batch_size, n_heads, k_length), ‖v_j W_O‖ of each key, by which its weights are multiplied. The
            map then shows ‖A_ij · v_j W_O‖, the length of what each key adds to each query's output (Kobayashi et al.
            2020, arXiv 2004.10102, section 2.2); see ``mhaviz.attention.norms``. Its rows do not sum to 1.
        window: (q0, q1, k0, k1), the part of the map to show; the softmax is still over all keys.
        entropy: whether to compute the entropy of each query in the window. With ``sinks``, weights are first divided
            by their sum. The entropy is of the weights even with ``value_norms``; the next three are of the norms then.
        top_keys: number of keys with the largest weights to return for each query in the window.
        received: whether to compute the total weight that each key gets from the queries in the window.
        local: largest distance, in positions, of keys whose weights are summed for each query in the window. Queries
            and keys are aligned at their ends if the map is causal, else at their beginnings. None: no sums.
        memory: bytes that the computation may use in addition to the inputs and the result; None: a quarter of the free
            memory.
        on_progress: called with the share of the work that is done, from 0 to 1.

    Returns:
        The map. Inputs of float64 are computed in float64, others in float32. A query that sees no key has weights
        of 0. ``top_keys`` and ``top_weights`` are (batch_size, n_heads, queries, top_keys), the largest weight first.
        Where a query sees fewer keys, the places that are left have weight 0 and a meaningless position.

    Raises:
        ArgumentError: axes that do not fit; no row or column; a window outside the map; NaN or infinity, with its head
            and position; scores too large for their precision.

    Examples:
        >>> query, key = torch.randn(2, 1, 8, 3000, 64)  # each (batch_size, n_heads, length, d_key)
        >>> found = mhaviz.attention_map(query, key, rows=100, columns=100, causal=True)
        >>> found.weights.shape  # (batch_size, n_heads, rows, columns)
        torch.Size([1, 8, 100, 100])
    """
    _check_axes(query, key, key_mask)
    scale = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    if not math.isfinite(scale):
        raise ArgumentError(f"scale: expected a finite number, got {scale}")
    if softcap is not None and not 0 < softcap < math.inf:
        raise ArgumentError(f"softcap: expected a finite number above 0, got {softcap}")
    mask = None if mask is None else _check_mask(mask, (*query.shape[:3], key.shape[2]))
    (batch_size, n_heads, q_length, _), k_length = query.shape, key.shape[2]
    for name, given, axes, shape in (  # others might broadcast
        ("sinks", sinks, "n_heads", (n_heads,)),
        ("value_norms", value_norms, "batch_size, n_heads, k_length", (batch_size, n_heads, k_length)),
    ):
        if given is not None and tuple(given.shape) != shape:
            raise ArgumentError(f"{name}: expected ({axes}), which is {shape}, got {tuple(given.shape)}")
    if sinks is not None and not bool((sinks < torch.inf).all()):
        raise ArgumentError("sinks: expected numbers below infinity, got NaN or infinity")
    if value_norms is not None and key_mask is not None:  # what is hidden may be NaN
        value_norms = value_norms.masked_fill((key_mask == 0)[:, None], 0.0)
    if value_norms is not None and not bool(((value_norms >= 0) & (value_norms < torch.inf)).all()):
        raise ArgumentError("value_norms: expected finite numbers from 0 on, got one below 0, NaN or infinity")
    if reduce not in ("mass", "max", "both"):
        raise ArgumentError(f"reduce: expected mass, max or both, got {reduce!r}")
    if rows < 1 or columns < 1:
        raise ArgumentError(f"expected at least 1 row and 1 column, got {rows} and {columns}")
    if top_keys < 0:
        raise ArgumentError(f"top_keys: expected a number from 0 on, got {top_keys}")
    reduction: Reduction = "max" if reduce == "max" else "mass"
    asked = Pooling((rows, columns), reduction, window, entropy, top_keys, received, local, both=reduce == "both")
    wanted = asked.within(q_length, k_length)
    call = AttentionCall(query, key, key, scale, causal, mask, softcap, sinks, value_norms)
    found = pool(call, wanted, key_mask, memory, on_progress)
    quantity = WEIGHT if value_norms is None else NORM
    return replace(found, reduction=reduction, causal=causal, quantity=quantity)


@torch.no_grad()
def pool(
    call: AttentionCall | AttentionWeights,
    wanted: Pooling,
    key_mask: Tensor | None = None,
    memory: int | None = None,
    on_progress: Callable[[float], None] = lambda done: None,
) -> PooledMap:
    """Compute the map of a model's attention call, or of its weights; see ``attention_map``."""
    if isinstance(call, AttentionWeights):
        A = call.weights(*wanted.span[:2])
        A, norms = (A, None) if call.value_norms is None else (A.clone(), call.value_norms)
        return pool_weights(A, wanted, value_norms=norms, has_sink=call.has_sink)
    _check_finite(call, key_mask)
    if is_short(call, memory):
        found = short_map(call, key_mask, wanted)
        if found is not None:
            on_progress(1.0)
            return found
    result = empty_map(call.query, call.shape[3], wanted)
    TiledPass(call, key_mask, wanted, result, memory).run(on_progress)
    return result


def _check_axes(query: Tensor, key: Tensor, key_mask: Tensor | None) -> None:
    q, k = query.shape, key.shape
    fits = len(q) == len(k) == 4 and 0 not in (*q, *k) and (q[0], q[3]) == (k[0], k[3]) and q[1] % k[1] == 0
    if not fits:
        raise ArgumentError(
            f"expected query (batch_size, n_heads, q_length, d_key) and key (batch_size, n_kv_heads, k_length, d_key), "
            f"n_heads a multiple of n_kv_heads, got {tuple(q)} and {tuple(k)}"
        )
    if key_mask is not None and key_mask.shape != (k[0], k[2]):
        raise ArgumentError(f"key_mask: expected (batch_size, k_length), {(k[0], k[2])}, got {tuple(key_mask.shape)}")


def _check_mask(mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """Return the mask with four axes. Raises ArgumentError if it does not broadcast to the shape, or has NaN or +∞."""
    check_mask_axes(mask, shape)
    if mask.dtype != torch.bool:
        if not mask.is_floating_point():
            raise ArgumentError(f"mask: expected bool, or numbers that are added to the scores, got {mask.dtype}")
        if not bool((mask < torch.inf).all()):
            raise ArgumentError("mask: expected numbers below infinity, got NaN or infinity")
    return mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))


def _check_finite(call: AttentionCall, key_mask: Tensor | None) -> None:
    """Raise ArgumentError if a query is NaN or infinite, or a key that ``key_mask``, (batch_size, k_length), shows.

    The sum is NaN or infinite if any number is. Only then are single numbers checked.
    """
    for name, x, mask in (("query", call.query, None), ("key", call.key, key_mask)):
        if math.isfinite(x.sum(dtype=torch.float32 if x.dtype != torch.float64 else x.dtype).item()):
            continue
        bad = ~x.isfinite().all(dim=-1)  # batch_size n_heads length
        if mask is not None:
            bad &= mask[:, None] != 0
        if bool(bad.any()):
            b, h, position = bad.nonzero()[0].tolist()
            raise ArgumentError(
                f"{name}: expected finite numbers, got NaN or infinity in batch {b}, head {h}, position {position}"
            )
