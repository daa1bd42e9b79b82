"""Health of the heads of one attention in one forward pass, computed a block of queries at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.head_statistics import seen_keys
from mhaviz.attention.call import AttentionCall, AttentionWeights, entropy
from mhaviz.attention.padding import Padding
from mhaviz.results.head_statistics import SINK_ABOVE
from mhaviz.results.health import ONE_HOT

_BLOCK = 2**22
"""Most weights that are computed at a time."""


@dataclass(frozen=True)
class HealthSums:
    """Sums over the rows of an attention, float64, (n_heads,) each. Those of parts of an attention add up.

    Attributes:
        largest: largest score; −∞: no row has any; NaN: not known, or some score is NaN.
        rows: number of rows that see several keys.
        entropy, uniform, one_hot: sums of these rows; see ``LayerHealth``.
        examples, sinks: number of examples that have such rows, and of those in which the first key is a sink; NaN:
            it is not known which key is the first.
    """

    largest: NDArray[np.float64]
    rows: NDArray[np.float64]
    entropy: NDArray[np.float64]
    uniform: NDArray[np.float64]
    one_hot: NDArray[np.float64]
    examples: NDArray[np.float64]
    sinks: NDArray[np.float64]

    def __add__(self, other: "HealthSums") -> "HealthSums":
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return HealthSums(**sums | {"largest": np.maximum(self.largest, other.largest)})

    def numbers(self) -> NDArray[np.float64]:
        """Return the ``NUMBERS`` of ``LayerHealth``, float64, (len(NUMBERS), n_heads); NaN where nothing counts."""
        largest = np.where(np.isneginf(self.largest), np.nan, self.largest)
        entropy, uniform, one_hot = (_mean(of, self.rows) for of in (self.entropy, self.uniform, self.one_hot))
        return np.stack([largest, entropy, uniform, _mean(self.sinks, self.examples), one_hot])


def _mean(total: NDArray[np.float64], count: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def health_sums(
    call: AttentionCall | AttentionWeights, padding: Padding | None = None, knows_first: bool = True
) -> HealthSums:
    """Compute the sums of a call on its device, in float64 if the call is, else in float32 within each row.

    Args:
        call: the call.
        padding: padding of the batch.
        knows_first: whether the first key that is no padding is known to be the first token of its text.
    """
    batch_size, n_heads, q_length, k_length = call.shape
    is_query = torch.ones(batch_size, q_length, dtype=torch.bool, device=call.device)
    is_key = is_query.new_ones(batch_size, k_length)
    if padding is not None:
        is_query, is_key = padding.queries & padding.sees, padding.keys
    is_first = (is_key & (is_key.cumsum(dim=-1) == 1)).double()
    seen = _seen(call)
    sums = is_first.new_zeros(4, batch_size, n_heads)  # rows, entropy, uniform, one-hot
    first, largest = is_first.new_zeros(batch_size, n_heads), is_first.new_full((n_heads,), -torch.inf)
    step = max(_BLOCK // max(batch_size * n_heads * k_length, 1), 1)
    for start in range(0, q_length, step):
        end = start + step
        visible = is_query[:, None, start:end, None] & is_key[:, None, None]
        mask = call.visible(start, end) if seen is None else _rows(seen, start, end)
        visible = visible if mask is None else visible & mask
        if isinstance(call, AttentionCall):
            S = call.scores(start, end)
            at = S.masked_fill(~visible, -torch.inf).amax(dim=(0, 2, 3)).double()
            largest = torch.maximum(largest, at)
            A = call.weigh(S, in_place=True)
        else:
            largest, A = largest.fill_(torch.nan), call.weights(start, end)
        n_keys = visible.sum(dim=-1).expand(A.shape[:3])  # batch_size n_heads queries
        counts = n_keys > 1
        A = A.masked_fill(~(visible & counts[..., None]), 0.0)
        shares = A
        if call.has_sink:
            shares = A / A.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(A.dtype).tiny)
        most = A.amax(dim=-1)
        one_hot = (most > ONE_HOT).double().masked_fill(most.isnan(), torch.nan)
        uniform = n_keys.clamp(min=1).double().log() * counts
        sums += torch.stack([counts.double(), entropy(shares).double(), uniform, one_hot]).sum(dim=-1)
        first += torch.einsum("bhqk,bk->bhq", A, is_first.to(A.dtype)).double().sum(dim=-1)
    has_rows = sums[0] > 0
    sinks = (first / sums[0].clamp(min=1) > SINK_ABOVE).double()
    sinks = sinks.masked_fill(first.isnan() if knows_first else has_rows, torch.nan).where(has_rows, 0.0)
    totals = torch.cat([largest[None], sums.sum(dim=1), has_rows.sum(dim=0)[None], sinks.sum(dim=0)[None]])
    arrays: Any = totals.cpu().numpy()
    return HealthSums(*arrays)


def _seen(call: AttentionCall | AttentionWeights) -> Tensor | None:
    """Return which keys the queries see, as ``seen_keys``; None: no mask tells it, and the call knows of any block."""
    if isinstance(call, AttentionCall):
        return None if call.mask is None else seen_keys(call)
    if call.seen is not None:
        return seen_keys(call)
    # Weights that are 0 do not tell which keys are hidden: those of a head that has collapsed are.
    sees_later = bool(call.given.triu(1).any()) or call.shape[2] != call.shape[3]
    every = call.given.new_ones(1, 1, *call.shape[2:], dtype=torch.bool)
    return every if sees_later else every.tril()


def _rows(seen: Tensor, start: int, end: int) -> Tensor:
    return seen if seen.shape[2] == 1 else seen[:, :, start:end]
