"""Relevance of tokens for a prediction, through the weights of attention: attention × gradient.

Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability" (arXiv 2103.15679), section 3: Ā is the mean over
heads of the positive parts of A ⊙ ∂y/∂A (equation 5). In self-attention R ← R + Ā R, from R = I (equation 6). A query
of the prediction needs one row of R alone: with the row vector r, r ← r + r Ā from the last layer to the first.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mhaviz.attention.graded import GradedAttention
from mhaviz.errors import MhavizError


def queries_of_y(last: GradedAttention) -> Tensor:
    """Return equal weights that sum to 1 of the queries on which y depends, (1, q_length).

    They are the queries with a gradient in the last attention, after which tokens no longer mix: a class token, the
    last token, or all of them where y is a mean.
    """
    read = last.read.to(torch.promote_types(last.gradient.dtype, torch.float32))
    if not bool(read.any()):
        raise MhavizError(f"{last.name}: y does not depend on its output, so that no token has relevance")
    return (read / read.sum())[None]


def relevance(layers: Sequence[GradedAttention], r: Tensor) -> Tensor:
    """Compute r (R − I), (1, length), of layers of self-attention, in the order in which they run: r ← r + r Ā.

    The identity, which is the token's relevance for itself by the residual connections alone, is left out: what is
    gained is summed apart from r, which may be 10⁴ times as large.
    """
    *_, gained = _gains(layers, r)
    return gained


def _gains(layers: Sequence[GradedAttention], r: Tensor) -> Iterator[Tensor]:
    """Yield r Π (I + Ā) − r, over no layers, over the last, over the last two, and so on."""
    gained = torch.zeros_like(r)
    yield gained
    for layer in reversed(layers):
        gained = gained + layer.row_times(r + gained)
        yield gained


def relevance_of_both(
    encoder: Sequence[GradedAttention],
    decoder: Sequence[GradedAttention],
    cross: Sequence[GradedAttention],
    r: Tensor,
) -> tuple[Tensor, Tensor]:
    """Compute the relevance of the tokens of an encoder and of its decoder.

    With s for the decoder and q for the encoder, cross-attention adds R̂ssᵀ Ā R̂qq to R_sq (equation 10), where
    R̂ = I + (R − I) / row sums of R − I (equations 8 and 9; 0 / 0 is 0). Only products with vectors are computed: one
    pass down the decoder, one up, one up the encoder for its row sums, and one down. So memory is O(length · layers).

    Args:
        encoder, decoder, cross: their attentions in the order in which they run, as many of ``cross`` as of
            ``decoder``.
        r: weights of the decoder's queries on which y depends, (1, target length).

    Returns:
        Of the decoder's tokens, r (R_ss − I), (1, target length); of the encoder's, r R_sq, (1, source length).
    """
    *above, own = _gains(decoder, r)
    P = r.T + torch.cat(above[::-1]).T  # (target length, layers): what the cross-attention of each is multiplied by
    gained, sums = torch.zeros_like(P), torch.zeros_like(r).T
    x = r.new_zeros(1, cross[0].call.shape[3])
    for number, (layer, across) in enumerate(zip(decoder, cross, strict=True)):
        up = layer.times_columns(torch.cat([P + gained, 1 + sums], dim=1))
        gained, sums = gained + up[:, :-1], sums + up[:, -1:]  # (R_ss − I) P, and the row sums of R_ss − I
        normed = P[:, number : number + 1] + _divided(gained[:, number : number + 1], sums)  # R̂ss P
        x = x + across.row_times(normed.T)
    sums = torch.zeros_like(x).T
    for layer in encoder:
        sums = sums + layer.times_columns(1 + sums)
    return own, x + relevance(encoder, _divided(x.T, sums).T)


def _divided(x: Tensor, by: Tensor) -> Tensor:
    return torch.where(by > 0, x / by, torch.zeros_like(x))
