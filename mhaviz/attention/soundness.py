"""Raises an error if there is NaN or infinity in what an attention computes with: it must never be shown as weights."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.records.attention import LARGEST

_AT_ONCE = 2**24  # scores that are in memory at a time


def require_numbers(
    call: AttentionCall | AttentionWeights,
    of: str,
    advice: str,
    output: Tensor | None = None,
    is_query: Tensor | None = None,
    is_key: Tensor | None = None,
    heads: Sequence[int] = (),
) -> None:
    """Raise an error if queries, keys, values or weights of an attention are NaN or infinite.

    Scores above ``LARGEST`` count as infinite. They and the weights are computed only if the sizes of queries and keys
    do not tell that they are small enough: there may be far more of them than of all else.

    Args:
        call: what the attention is called with.
        of: which it is, for the message: "model x, layer 3, masked".
        advice: what to do about it.
        output: what the model itself has made of it, (batch_size, n_heads, q_length, d_value).
        is_query, is_key: bool, (batch_size, length): False for padding, which may hold anything; None: no padding.
        heads: the numbers of the call's heads; empty: 0, 1, 2, …

    Raises:
        MhavizError: with the heads.
    """
    if isinstance(call, AttentionWeights):
        require_weights(call.given, of, advice, is_query, heads)
        return
    group = call.group
    parts = (
        ("queries", call.query, is_query, 1),
        ("keys", call.key, is_key, group),
        ("values", call.value, is_key, group),
    )
    for what, x, is_token, shared in parts:
        _require_none(_broken(x, is_token).repeat_interleave(shared, dim=1), what, of, advice, heads)
    if not _largest_score(call) <= LARGEST:
        _require_weights(call, of, advice, is_query, heads)
    if output is not None and not math.isfinite(_largest(output)):
        sees = _sees_some(call) if is_query is None else _sees_some(call) & is_query[:, None]
        _require_none((~output.isfinite().all(dim=-1) & sees).any(dim=-1), "outputs", of, advice, heads)


def require_weights(
    weights: Tensor, of: str, advice: str, is_query: Tensor | None = None, heads: Sequence[int] = ()
) -> None:
    """The same of weights alone, (batch_size, n_heads, q_length, k_length)."""
    if not math.isfinite(_largest(weights)):
        _require_none(_broken(weights, is_query), "weights", of, advice, heads)


def _broken(x: Tensor, is_token: Tensor | None) -> Tensor:
    """Of which heads something is NaN or infinite: x (batch_size, heads, length, d_key) → (batch_size, heads)."""
    if math.isfinite(_largest(x)):
        return x.new_zeros(x.shape[:2], dtype=torch.bool)
    broken = ~x.isfinite().all(dim=-1)
    return (broken if is_token is None else broken & is_token[:, None]).any(dim=-1)


def _largest(x: Tensor) -> float:
    """The largest absolute value, or NaN."""
    if not x.numel():
        return 0.0
    least, most = (number.item() for number in torch.aminmax(x))
    return math.nan if math.isnan(least) else max(abs(least), abs(most))


def _largest_score(call: AttentionCall) -> float:
    """No score, scaled or not, is larger; NaN or infinity if that cannot be told."""
    added = 0.0
    if call.mask is not None and call.mask.dtype != torch.bool:
        added += max(call.mask.amax().item(), 0.0) if call.mask.numel() else 0.0
    if call.sinks is not None:
        added += _largest(call.sinks)
    scale = max(abs(call.scale), 1.0)
    return scale * _largest(call.query) * _largest(call.key) * call.query.shape[-1] + added


def _require_weights(call: AttentionCall, of: str, advice: str, is_query: Tensor | None, heads: Sequence[int]) -> None:
    """Look at all of them, some queries at a time, and at the scores, scaled and not."""
    batch_size, n_heads, q_length, _ = call.query.shape
    at_once = max(_AT_ONCE // (batch_size * n_heads * call.key.shape[2]), 1)
    unscaled = replace(call, scale=max(call.scale, 1.0))
    for start in range(0, q_length, at_once):
        end = start + at_once
        broken = call.weights(start, end).isnan().any(dim=-1)
        for S in (call.scores(start, end), unscaled.scores(start, end)):
            broken |= (S.isnan() | (S > LARGEST)).any(dim=-1)
        if is_query is not None:
            broken &= is_query[:, None, start:end]
        _require_none(broken.any(dim=-1), "weights", of, advice, heads)


def _sees_some(call: AttentionCall) -> Tensor:
    """Which queries see a key at all: of the others an output may be NaN, and the weights are 0."""
    visible = call.visible()
    if visible is None:
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=call.query.device)
    return visible.expand(*call.query.shape[:3], call.key.shape[2]).any(dim=-1)


def _require_none(broken: Tensor, what: str, of: str, advice: str, heads: Sequence[int]) -> None:
    """broken: bool, (batch_size, n_heads); ``heads``: their numbers, if they are not simply 0, 1, 2, …"""
    places = broken.any(dim=0).nonzero().flatten().tolist()
    if not places:
        return
    found = [heads[place] if heads else place for place in places]
    if len(found) == broken.shape[1] > 1:
        which = "all heads"
    else:
        which = f"head{'s' * (len(found) > 1)} {', '.join(map(str, found[:5]))}{', …' * (len(found) > 5)}"
    raise MhavizError(f"{of}: expected {what} that are numbers, got NaN or infinity in {which}; {advice}")
