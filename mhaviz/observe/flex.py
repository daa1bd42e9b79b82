"""Read the inputs of ``flex_attention``, where functions change the scores and hide keys.

In PyTorch's ``torch.nn.attention.flex_attention``, ``score_mod(score, batch, head, query, key)`` returns a new score,
and ``mask_mod(batch, head, query, key)`` whether a key is visible.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mhaviz.attention.call import BLOCK, AttentionCall, AttentionWeights
from mhaviz.observe.handlers import Done
from mhaviz.observe.observed import ObservedCall, OnRan, WeightedValues
from mhaviz.observe.zeroing import zero_in_output

_ROUNDING = 1e-5
"""Relative and absolute tolerance between a score that ``score_mod`` has changed and the score plus a bias."""


def is_flex(func: Any) -> bool:
    """Return whether a function is the operator that ``flex_attention`` calls, which cannot be imported by name."""
    return getattr(func, "_name", None) == "flex_attention"


def follow_flex(on_ran: OnRan, done: Done) -> None:
    """Show a call of the operator."""
    query, key, value, score_mod, block_mask, scale = done.args[:6]

    def read(place: str) -> ObservedCall:
        call = call_of_flex(query, key, value, score_mod, block_mask[-1], scale)
        made = done.result[0]
        weighted = WeightedValues(value, made, lambda x: x)
        return ObservedCall(call, made, zero=zero_in_output(made), weighted=lambda: weighted)

    on_ran((query, key, value), read, (query.shape[2], key.shape[2]))


def call_of_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    mask_mod: Callable[..., Tensor],
    scale: float,
) -> AttentionCall | AttentionWeights:
    """Return the call.

    The call has a bias if ``score_mod`` adds one; for any other ``score_mod`` it has weights. ``query``, ``key`` and
    ``value`` are (batch_size, n_heads, length, features).
    """
    batch_size, n_heads, q_length, _ = query.shape
    k_length = key.shape[2]
    indices = [torch.arange(n, device=query.device) for n in (batch_size, n_heads, q_length, k_length)]
    seen = _at_all(mask_mod, indices)  # batch_size n_heads q_length k_length
    shape = seen.shape
    bias = _at_all(score_mod, indices, torch.zeros(shape, device=query.device)).float()
    call = AttentionCall(query, key, value, float(scale))
    blocks = [slice(start, start + BLOCK) for start in range(0, q_length, BLOCK)]

    def changed(rows: slice) -> Tensor:
        own = [*indices[:2], indices[2][rows], indices[3]]
        return _at_all(score_mod, own, call.scores(rows.start, rows.stop)).float()

    def is_biased(rows: slice) -> bool:
        S = call.scores(rows.start, rows.stop) + bias[:, :, rows]
        return torch.allclose(changed(rows), S, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)

    if not all(map(is_biased, blocks)):
        parts = [changed(rows).masked_fill(~seen[:, :, rows], -torch.inf).softmax(dim=-1) for rows in blocks]
        return AttentionWeights(torch.cat(parts, dim=2).nan_to_num(nan=0.0), seen=seen)
    mask = None if bool(seen.all()) else _narrow(seen)
    if bool(bias.any()):
        mask = _narrow(bias.masked_fill(~seen, -torch.inf))
    return replace(call, mask=mask)


def _at_all(function: Callable[..., Tensor], indices: Sequence[Tensor], scores: Tensor | None = None) -> Tensor:
    """Evaluate a function of single positions at all of them, (batch_size, n_heads, q_length, k_length)."""
    first = () if scores is None else (0,)
    for place in range(3, -1, -1):
        dims = tuple(0 if other == place else None for other in range(4))
        function = torch.vmap(function, in_dims=(*first, *dims), out_dims=0)
    result = function(*(() if scores is None else (scores,)), *indices)
    return torch.as_tensor(result).expand(*map(len, indices))


def _narrow(mask: Tensor) -> Tensor:
    """Reduce the axis of examples, or of heads, to length 1 where all of them have the same mask."""
    for axis in (0, 1):
        first = mask.narrow(axis, 0, 1)
        if mask.shape[axis] > 1 and torch.equal(mask, first.expand_as(mask)):
            mask = first
    return mask
