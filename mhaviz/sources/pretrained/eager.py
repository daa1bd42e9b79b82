"""Weights of models whose attention cannot be seen from outside, but which give them: all layers' at once."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.records import ROUNDING


def eager_calls(outputs: object) -> Iterator[AttentionCall]:
    """Every attention in what a transformers model has returned: encoder, then masked and cross layer by layer.

    Raises:
        UnknownFormError: what is called attention is no weights.
    """
    for name in ("encoder_attentions", "attentions"):
        for weights in getattr(outputs, name, None) or ():
            if weights is not None:
                yield call_of_weights(weights)
    masked = getattr(outputs, "decoder_attentions", None) or ()
    cross = getattr(outputs, "cross_attentions", None) or ()
    for layer in range(max(len(masked), len(cross))):
        for weights in (*masked[layer : layer + 1], *cross[layer : layer + 1]):
            if weights is not None:
                yield call_of_weights(weights)


class UnknownFormError(MhavizError):
    """Something is called attention, and is not the weights of heads."""


def call_of_weights(weights: Tensor) -> AttentionCall:
    """An attention that has these weights, (batch_size, n_heads, q_length, k_length).

    A = softmax(log A). Where rows sum to less than 1, the rest r goes to a sink of score 0: A = softmax(log A − log r).

    Raises:
        UnknownFormError: they are no weights.
    """
    if not isinstance(weights, Tensor) or weights.ndim != 4:
        raise UnknownFormError
    batch_size, n_heads, q_length, k_length = weights.shape
    A = weights.float()
    sums = A.sum(dim=-1, keepdim=True)
    if not bool((A >= 0).all() & (sums <= 1 + 2 * ROUNDING).all()):  # NaN is neither
        raise UnknownFormError
    has_sink = bool(((sums < 1 - ROUNDING) & (sums > 0)).any())
    S = A.log() - (1 - sums).clamp(min=torch.finfo(A.dtype).eps).log() * has_sink
    nothing = A.new_zeros(batch_size, n_heads, max(q_length, k_length), 1)
    Q, K = nothing[:, :, :q_length], nothing[:, :, :k_length]
    return AttentionCall(Q, K, K, 1.0, mask=S, sinks=A.new_zeros(n_heads) if has_sink else None)
