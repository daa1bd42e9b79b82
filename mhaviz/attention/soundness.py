"""Checks of an attention's inputs and outputs for NaN and infinity, which must never be shown as weights."""

import math
from collections.abc import Sequence, Sized
from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.results.attention import LARGEST, heads_text

_AT_ONCE = 2**24  # number of scores in memory at a time


def require_numbers(
    call: AttentionCall | AttentionWeights,
    of: str,
    advice: str,
    output: Tensor | None = None,
    is_query: Tensor | None = None,
    is_key: Tensor | None = None,
    heads: Sequence[int] = (),
    layer: int = 0,
) -> None:
    """Raise an error if queries, keys, values or weights of an attention are NaN or infinite.

    Scores above ``LARGEST`` count as infinite. Scores and weights, which may be far more than all else, are computed
    only if a bound from the largest query and key does not rule out such scores.

    Args:
        call: call of the attention, or its weights.
        of: name of the attention in the message, such as "model x, layer 3, masked".
        advice: what to do about it, the end of the message.
        output: output of the model itself, (batch_size, n_heads, q_length, d_value); None: not known.
        is_query, is_key: bool, (batch_size, length), False for padding, which may hold anything; None: no padding.
        heads: numbers of the call's heads; empty: 0, 1, 2, …
        layer: number of its layer.

    Raises:
        MhavizError: NaN or infinity; the message names the heads.
    """

    def refuse(what: str, broken: Tensor, is_token: Tensor | None) -> None:
        """Raise if a token is broken: bool, (batch_size, n_heads or n_kv_heads, length)."""
        broken = broken if is_token is None else broken & is_token[:, None]
        of_heads = broken.any(dim=-1).any(dim=0).repeat_interleave(call.shape[1] // broken.shape[1])
        found = [heads[place] if heads else place for place in of_heads.nonzero().flatten().tolist()]
        if found:
            which = heads_text(layer, found, len(of_heads))
            raise MhavizError(f"{of}: expected {what} that are numbers, got NaN or infinity in {which}; {advice}")

    if isinstance(call, AttentionWeights):
        parts = [("weights", call.given, is_query)]
    else:
        parts = [("queries", call.query, is_query), ("keys", call.key, is_key), ("values", call.value, is_key)]
    for what, x, is_token in parts:
        if not math.isfinite(_largest(x)):
            refuse(what, ~x.isfinite().all(dim=-1), is_token)
    if isinstance(call, AttentionWeights):
        return
    if not _largest_score(call) <= LARGEST:
        unscaled = replace(call, scale=max(call.scale, 1.0))
        at_once = max(_AT_ONCE // (call.query[..., 0].numel() * call.key.shape[2] // call.query.shape[2]), 1)
        for start in range(0, call.query.shape[2], at_once):
            rows = start, start + at_once
            broken = call.weights(*rows).isnan().any(dim=-1)
            for S in (call.scores(*rows), unscaled.scores(*rows)):
                broken |= (S.isnan() | (S > LARGEST)).any(dim=-1)
            refuse("weights", broken, None if is_query is None else is_query[:, slice(*rows)])
    if output is not None and not math.isfinite(_largest(output)):
        refuse("outputs", ~output.isfinite().all(dim=-1), is_query)


def require_traced(weights: Tensor, sides: Sequence[tuple[Sized, Sized]], of: str, advice: str) -> None:
    """Raise an error if weights of a batch, (batch_size, n_heads, q_length, k_length), are NaN or infinite.

    ``sides``: queries and keys of each sentence; positions behind their ends are padding. See ``require_numbers``.
    """
    for i, (queries, keys) in enumerate(sides):
        require_numbers(AttentionWeights(weights[i : i + 1, :, : len(queries), : len(keys)]), of, advice)


def _largest(x: Tensor) -> float:
    """Return the largest absolute value; NaN if there is one."""
    if not x.numel():
        return 0.0
    least, most = (number.item() for number in torch.aminmax(x))
    return math.nan if math.isnan(least) else max(abs(least), abs(most))


def _largest_score(call: AttentionCall) -> float:
    """Return an upper bound of all scores, scaled or not; NaN or infinity if there is none."""
    added = 0.0
    if call.mask is not None and call.mask.dtype != torch.bool:
        added += max(call.mask.amax().item(), 0.0) if call.mask.numel() else 0.0
    if call.sinks is not None:
        added += _largest(call.sinks)
    scale = max(abs(call.scale), 1.0)
    return scale * call.largest_product + added
