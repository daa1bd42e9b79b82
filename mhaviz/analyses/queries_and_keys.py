"""Keeps the queries and keys of a call, so that its weights can be computed again where there is no torch."""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import SiteCall
from mhaviz.records.queries_and_keys import PRECISE, Bias, Codes, QueriesAndKeys

_LONG = 2048  # tokens; weights of longer inputs are small, and so are the errors of coarser steps
_FEW = 2**23  # weights of all heads, which are all computed once more to know how precise they are; of more,
_AT_ONCE = 2**20  # of so many at a time, so that what is freed leaves no holes in memory as large as a layer
_SAMPLED, _RUNS = 16, 8  # those of so many queries, in so many places


def kept_queries_and_keys(seen: SiteCall, weights: Tensor | None = None) -> QueriesAndKeys | None:
    """Those of one sentence; ``weights``: its weights, (1, n_heads, q_length, k_length), where they are known.

    None of a model that shows its weights alone; where a bias has no form that takes little room; where queries or keys
    are so large that float32 does not hold how far they are apart.
    """
    call = seen.call
    if not isinstance(call, AttentionCall) or not (_has_steps(call.query) and _has_steps(call.key)):
        return None
    bias, is_kept = _kept_bias(call, seen.reach)
    if not is_kept:
        return None
    tries: tuple[Literal[12, 16], ...] = (12, 16) if max(call.shape[2:]) > _LONG else (16,)
    for bits in tries:
        query, key = _coded(call.query[0], bits), _coded(call.key[0], bits)
        precision = _error(call, replace(call, query=_decoded(query, call), key=_decoded(key, call)), weights)
        if precision <= PRECISE:
            break
    return QueriesAndKeys(
        query,
        key,
        tuple(head // call.group for head in range(call.shape[1])),
        call.scale,
        call.causal,
        seen.reach,
        call.softcap,
        None if call.sinks is None else call.sinks.float().cpu().numpy(),
        bias,
        call.rule,
        precision,
        None if call.value_norms is None else call.value_norms[0].float().cpu().numpy(),
    )


def _has_steps(x: Tensor) -> bool:
    """Whether the largest number less the least is one of float32."""
    least, largest = x.aminmax()
    return bool((largest.float() - least.float()).isfinite())


def _coded(x: Tensor, bits: Literal[12, 16]) -> Codes:
    """x (n_heads, length, d_key)."""
    x = x.float()
    lows, highs = x.amin(dim=1), x.amax(dim=1)  # n_heads d_key
    steps = ((highs - lows) / (2**bits - 1)).clamp(min=torch.finfo(torch.float32).tiny)
    codes = ((x - lows[:, None]) / steps[:, None]).round_().clamp_(0, 2**bits - 1)
    return Codes(codes.cpu().numpy().astype(np.uint16), lows.cpu().numpy(), steps.cpu().numpy(), bits)


def _decoded(coded: Codes, call: AttentionCall) -> Tensor:
    """(1, n_heads, length, d_key), on the call's device."""
    values = coded.lows[:, None] + coded.codes * coded.steps[:, None]
    return torch.from_numpy(values)[None].to(call.device)


def _error(call: AttentionCall, other: AttentionCall, weights: Tensor | None) -> float:
    """The largest difference of the weights of all queries, or of some."""
    _, n_heads, q_length, k_length = call.shape
    if n_heads * q_length * k_length <= _FEW:
        runs = [(0, q_length)]
    else:
        starts = {max((q_length * run) // _RUNS - _SAMPLED, 0) for run in range(1, _RUNS + 1)}
        runs = [(start, start + _SAMPLED) for start in sorted(starts)]

    def differ(heads: range, start: int, end: int) -> float:
        own = (
            call.select(heads).weights(start, end)
            if weights is None
            else weights[:, heads.start : heads.stop, start:end]
        )
        return float((other.select(heads).weights(start, end) - own).abs().max())

    at_once = max(_AT_ONCE // ((runs[0][1] - runs[0][0]) * k_length), 1)
    heads = [range(first, min(first + at_once, n_heads)) for first in range(0, n_heads, at_once)]
    return max(differ(some, *run) for some in heads for run in runs)


def _kept_bias(call: AttentionCall, reach: int | None) -> tuple[Bias | None, bool]:
    """The call's mask in a form that takes little room, None if there is no mask, and whether there is such a form.

    A band along the diagonal is known by its reach.
    """
    if call.mask is None or (reach is not None and call.mask.dtype == torch.bool):
        return None, True
    mask = call.mask[0]  # 1 or n_heads, 1 or q_length, 1 or k_length
    mask = mask.expand(-1, -1, call.shape[3])
    if mask.dtype == torch.bool:
        return Bias("visible", mask.cpu().numpy()), True
    values = mask.float()
    if mask.shape[1] == 1:
        return Bias("keys", values[:, 0].cpu().numpy()), True
    if torch.equal(values[:, 1:, 1:], values[:, :-1, :-1]):  # the same along every diagonal
        by_offset = torch.cat([values[:, :, 0].flip(1), values[:, 0, 1:]], dim=1)  # of key 0, then of query 0
        return Bias("offsets", by_offset.cpu().numpy()), True
    return None, False
