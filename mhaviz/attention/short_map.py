"""Pooled maps of short inputs: all weights are computed at once, which is faster there than block by block."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.attention.blocks import local_weight, strongest
from mhaviz.attention.call import AttentionCall, entropy, times_norms
from mhaviz.attention.pooled_map import PooledMap, Pooling
from mhaviz.attention.reducer import CellReducer
from mhaviz.devices import FreeCores

MOST_WEIGHTS = 2**21
"""Largest number of weights that are computed at once."""

_WORTH_A_LOOK = 2**20
"""Number of weights from which looking for free cores pays."""

_COPIES = 3  # most copies of the weights in memory at a time
_FLOAT32 = 4  # fewest bytes of a weight


def is_short(call: AttentionCall, memory: int | None) -> bool:
    """Return whether the call has few enough weights, and these fit into ``memory`` bytes; None: no limit."""
    weights = math.prod(call.shape)
    size = max(call.query.itemsize, _FLOAT32)
    return weights <= MOST_WEIGHTS and (memory is None or _COPIES * weights * size <= memory)


def short_map(call: AttentionCall, key_mask: Tensor | None, wanted: Pooling) -> PooledMap | None:
    """Compute the map with all weights at once; None if a score is NaN or +∞. Arguments as in ``pool``."""
    call = _with_key_mask(call, key_mask)
    with FreeCores(call.query.device) as cores:
        S = call.scores(*wanted.span[:2])  # batch_size n_heads queries k_length
        if S.numel() >= _WORTH_A_LOOK:
            cores.look()
        if not math.isfinite(S.sum().item() if call.visible_everywhere else max(S.amax().item(), 0)):
            return None
        later = call.shape[3] - call.shape[2] if call.causal else 0
        return pool_weights(call.weigh(S, in_place=True), wanted, later, call.value_norms, call.has_sink)


def pool_weights(
    A: Tensor, wanted: Pooling, later: int = 0, value_norms: Tensor | None = None, has_sink: bool = False
) -> PooledMap:
    """Pool weights to a map.

    Args:
        A: weights, (batch_size, n_heads, queries of the window, k_length), changed in place if there are norms.
        wanted: request.
        later: offset of the keys: the query at position i is aligned with the key at i + later.
        value_norms: factors of the weights; see ``AttentionCall``.
        has_sink: whether rows may sum to less than 1.
    """
    entropies = entropy(_normalised(A) if has_sink else A) if wanted.entropy else None
    A = times_norms(A, value_norms)
    (q0, q1, k0, k1), (rows, columns) = wanted.span, wanted.cells
    query_edges, key_edges = wanted.edges(A.device)
    weights = largest = A[..., k0:k1].contiguous()
    if rows < q1 - q0:
        cells = CellReducer(query_edges - q0)
        weights = cells.sum(weights, -2) / query_edges.diff()[:, None] if wanted.mass else weights
        largest = cells.largest(largest, -2) if wanted.largest else largest
    if columns < k1 - k0:
        cells = CellReducer(key_edges - k0)
        weights = cells.sum(weights) if wanted.mass else weights
        largest = cells.largest(largest) if wanted.largest else largest
    top_weights, top_keys = strongest(A, wanted.top_keys) if wanted.top_keys else (None, None)
    local = None
    if wanted.local is not None:
        local = local_weight(A, q0 + later, torch.arange(A.shape[3], device=A.device), wanted.local)
    found = PooledMap(
        weights if wanted.mass else largest,
        query_edges,
        key_edges,
        largest if wanted.mass and wanted.largest else None,
        entropies,
        top_keys,
        top_weights,
        A.sum(dim=-2) if wanted.received else None,
        local,
        A.sum(dim=-1) if wanted.totals else None,
    )
    return found if A.dtype == torch.float32 else found.float()


def _normalised(A: Tensor) -> Tensor:
    """Return each row divided by its sum, without what a sink has taken."""
    return A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)


def _with_key_mask(call: AttentionCall, key_mask: Tensor | None) -> AttentionCall:
    """Return the call with ``key_mask`` merged into its mask, in which −∞ hides where it is added to the scores."""
    if key_mask is None and call.mask is None:
        return call
    mask, key = call.mask, call.key
    if key_mask is not None:
        shown = (key_mask != 0)[:, None, None]  # batch_size 1 1 k_length
        key = key.masked_fill(~shown.mT, 0.0)  # hidden keys may be NaN
        if mask is None:
            mask = shown
        else:
            mask = mask & shown if mask.dtype == torch.bool else mask.masked_fill(~shown, -torch.inf)
    return replace(call, key=key, mask=mask)
