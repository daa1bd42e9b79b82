"""Weights of models whose attention cannot be seen from outside, but which give them: all layers' at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.errors import MhavizError
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.records import ROUNDING, Kind


class UnknownFormError(MhavizError):
    """Something is called attention, and is not the weights of heads."""


@dataclass(frozen=True)
class Given:
    """What a model gives as one of its attentions.

    Attributes:
        kind: as in ``AttentionMap``, where the model's name for it tells; None: where there is no encoder.
        layer: its place among those of its name.
        weights: of any form.
    """

    kind: Kind | None
    layer: int
    weights: object


def given_attentions(outputs: object) -> Iterator[Given]:
    """Every attention in what a transformers model has returned: encoder, then masked and cross layer by layer."""

    def of(name: str, kind: Kind | None) -> list[Given]:
        all_layers = enumerate(getattr(outputs, name, None) or ())
        return [Given(kind, layer, weights) for layer, weights in all_layers if weights is not None]

    yield from of("encoder_attentions", "self")
    yield from of("attentions", None)
    decoder = of("decoder_attentions", "masked") + of("cross_attentions", "cross")
    yield from sorted(decoder, key=lambda given: given.layer)


def call_of_weights(weights: object, lengths: set[int]) -> AttentionCall:
    """An attention that has these weights, (batch_size, n_heads, q_length, k_length).

    A = softmax(log A). Where rows sum to less than 1, the rest r goes to a sink of score 0: A = softmax(log A − log r).
    NaN stays NaN.

    Args:
        weights: what a model has given.
        lengths: of the texts that it has read.

    Raises:
        UnknownFormError: they are no weights, or their queries and keys are not the tokens that were read.
    """
    if not isinstance(weights, Tensor) or weights.ndim != 4 or not set(weights.shape[2:]) <= lengths:
        raise UnknownFormError
    batch_size, n_heads, q_length, k_length = weights.shape
    A = weights.float()
    sums = A.sum(dim=-1, keepdim=True)
    if bool((A < 0).any() | (sums > 1 + 2 * ROUNDING).any()):
        raise UnknownFormError
    has_sink = bool(((sums < 1 - ROUNDING) & (sums > 0)).any())
    S = A.log() - (1 - sums).clamp(min=torch.finfo(A.dtype).eps).log() * has_sink
    nothing = A.new_zeros(batch_size, n_heads, max(q_length, k_length), 1)
    Q, K = nothing[:, :, :q_length], nothing[:, :, :k_length]
    return AttentionCall(Q, K, K, 1.0, mask=S, sinks=A.new_zeros(n_heads) if has_sink else None)
