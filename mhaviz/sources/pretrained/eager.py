"""Weights of models whose attention cannot be seen from outside, but which give them: all layers' at once."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.maps.attention_call import AttentionCall


def eager_calls(outputs: object) -> Iterator[AttentionCall]:
    """Every attention in what a transformers model has returned: encoder, then masked and cross layer by layer."""
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


def call_of_weights(weights: Tensor) -> AttentionCall:
    """An attention that has these weights, (batch_size, n_heads, q_length, k_length): softmax(log A) = A."""
    batch_size, n_heads, q_length, k_length = weights.shape
    nothing = weights.new_zeros(batch_size, n_heads, max(q_length, k_length), 1, dtype=torch.float32)
    logarithms = weights.float().log()
    return AttentionCall(
        nothing[:, :, :q_length], nothing[:, :, :k_length], nothing[:, :, :k_length], 1.0, False, logarithms
    )
