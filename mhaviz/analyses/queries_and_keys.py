"""Keep the queries and keys of a call, so that its weights can be computed again without torch, as in a browser."""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import SiteCall
from mhaviz.results.queries_and_keys import PRECISE, Bias, Codes, QueriesAndKeys

_LONG = 2048  # tokens; weights of longer inputs are small, so that fewer bits are enough
_AT_ONCE = 2**19  # weights; so few that freeing them does not leave gaps in memory as large as a layer


def kept_queries_and_keys(seen: SiteCall) -> QueriesAndKeys | None:
    """Return the queries and keys of one sentence, in the fewest bits that keep the weights within ``PRECISE``.

    None if the model only gives weights, if its bias has no compact form, if finite numbers hide all keys from a query,
    so that its weights depend on how scores were rounded, or if scores are so large that even 32 bits are not precise
    enough.
    """
    call = seen.call
    if not isinstance(call, AttentionCall):
        return None
    if call.weighs_hidden:
        return None
    bias, is_kept = _compact_bias(call, seen.reach)
    if not is_kept:
        return None
    tries: tuple[Literal[12, 16, 32], ...] = (12, 16, 32) if max(call.shape[2:]) > _LONG else (16, 32)
    for bits in tries:
        query, key = _quantised(call.query[0], bits), _quantised(call.key[0], bits)
        precision = _error(call, query, key)
        if precision <= PRECISE:
            break
    else:
        return None
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


def _quantised(x: Tensor, bits: Literal[12, 16, 32]) -> Codes:
    """Quantise features x, (n_heads, length, d_key)."""
    x = x.float().cpu()
    if bits == 32:
        lows = x.new_zeros(x.shape[0], x.shape[2])
        return Codes(x.numpy(), lows.numpy(), np.ones_like(lows), bits)
    lows, highs = x.amin(dim=1), x.amax(dim=1)  # n_heads d_key
    steps = (highs.double() - lows.double()).div_(2**bits - 1).float().clamp_(min=torch.finfo(torch.float32).tiny)
    codes = (x.double() - lows[:, None]).div_(steps[:, None]).round_().clamp_(0, 2**bits - 1)
    return Codes(codes.numpy().astype(np.uint16), lows.numpy(), steps.numpy(), bits)


def _dequantised(coded: Codes) -> Tensor:
    """Return the features as float64, (1, n_heads, length, d_key), rounded to float32 as in the browser."""
    values = coded.lows[:, None] + coded.codes * coded.steps[:, None].astype(np.float64)
    return torch.from_numpy(values.astype(np.float32))[None].double()


def _error(call: AttentionCall, query: Codes, key: Codes) -> float:
    """Return the largest share of a query's weight that moves to other keys if weights are computed from codes.

    It bounds the error of each weight, of each sum of weights of a query, and of means of such sums, as in cells. It is
    measured in float64 over all rows, plus the rounding of the browser. It stops at the first rows beyond ``PRECISE``.
    """
    _, n_heads, q_length, k_length = call.shape
    heads_at_once, rows_at_once = max(_AT_ONCE // (q_length * k_length), 1), max(_AT_ONCE // k_length, 1)
    worst = 0.0
    for first in range(0, n_heads, heads_at_once):
        heads = range(first, min(first + heads_at_once, n_heads))
        own = _in_float64(call.select(heads))
        Q, K = _dequantised(query.select(heads)), _dequantised(key.select([head // call.group for head in heads]))
        other = replace(
            own, query=Q.to(own.device), key=K.to(own.device), mask=_float32(own.mask), sinks=_float32(own.sinks)
        )
        rounding = _rounding(own)
        for start in range(0, q_length, rows_at_once):
            rows = start, start + rows_at_once
            differences = other.weights(*rows).sub_(own.weights(*rows))
            sums = differences.sum(dim=-1)
            gained = differences.clamp_(min=0).sum(dim=-1)
            worst = max(worst, float(torch.maximum(gained, gained - sums).max()) + rounding)
            if not worst <= PRECISE:
                return worst
    return worst


def _rounding(call: AttentionCall) -> float:
    """Bound the rounding errors of the browser, which sums in float64 and draws float32.

    A score is a sum of d_key products and a few more steps (Higham 2002, Accuracy and Stability of Numerical
    Algorithms, section 3.1). If scores have an error of at most ε, the share of any set of keys, which is σ(x) of some
    x with an error of at most 2ε, has an error of at most tanh(ε/2) < ε.
    """
    largest = float(call.query.norm(dim=-1).max() * call.key.norm(dim=-1).max()) * abs(call.scale)
    return (call.query.shape[3] + 8) * largest * torch.finfo(torch.float64).eps + 2**-22


def _in_float64(call: AttentionCall) -> AttentionCall:
    """Convert a call to float64, on the CPU if the device only supports float32, as Apple's GPUs."""
    device = torch.device("cpu") if call.device.type == "mps" else call.device
    Q, K = (x.to(device, torch.float64) for x in (call.query, call.key))
    mask, sinks = (None if x is None else x.to(device) for x in (call.mask, call.sinks))
    return replace(call, query=Q, key=K, mask=mask, sinks=sinks)


def _float32(x: Tensor | None) -> Tensor | None:
    """Convert floating numbers to float32, as in a page."""
    return x.float() if x is not None and x.is_floating_point() else x


def _compact_bias(call: AttentionCall, reach: int | None) -> tuple[Bias | None, bool]:
    """Return the mask of a call in a compact form (None: no mask), and whether there is such a form.

    A sliding window is no mask here, as it is given by ``reach``.
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
