"""Weights of models whose attention cannot be seen from outside, but which give them: all layers' at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from mhaviz.attention.call import AttentionWeights
from mhaviz.errors import MhavizError
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


def weights_of(given: object, lengths: set[int]) -> AttentionWeights:
    """An attention that has these weights, (batch_size, n_heads, q_length, k_length), which may be NaN.

    Args:
        given: what a model has given.
        lengths: of the texts that it has read.

    Raises:
        UnknownFormError: they are no weights, or their queries and keys are not the tokens that were read.
    """
    if not isinstance(given, Tensor) or given.ndim != 4 or not set(given.shape[2:]) <= lengths:
        raise UnknownFormError
    A = given.float()
    sums = A.sum(dim=-1)
    if bool((A < 0).any() | (sums > 1 + 2 * ROUNDING).any()):
        raise UnknownFormError
    return AttentionWeights(A, bool(((sums < 1 - ROUNDING) & (sums > 0)).any()))
