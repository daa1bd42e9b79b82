"""Scores before and after the mask, their softmax, and one draw of dropout.

The mask sets scores to −∞ (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3). Dropout sets weights to 0 with
probability p and divides the others by 1 − p, so that their expected value is unchanged (Srivastava et al. 2014, JMLR
15, section 10).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from mhaviz.attention.call import AttentionCall, hides
from mhaviz.attention.model import Inputs, Model, SiteCall, require_heads
from mhaviz.devices import float_array
from mhaviz.errors import ArgumentError, parameter
from mhaviz.layer.seeding import seeded
from mhaviz.limits import require_few_tokens
from mhaviz.results.masking import MaskedSentence, Masking


def masking(model: Model, inputs: Inputs, heads: Sequence[int], dropout: float | None = None, seed: int = 0) -> Masking:
    """Compute the effect of the mask and of dropout on some heads of one attention, for a padded batch.

    Dropout drops the same weights as ``torch.nn.Dropout`` on the CPU after ``torch.manual_seed(seed)``, applied to the
    weights of all heads and sentences, float32, (batch_size, n_heads, q_length, k_length).

    Args:
        model: model with a single selected attention.
        inputs: encoded input of all sentences.
        heads: indices of the heads, from 0.
        dropout: p, from 0 to less than 1; None: no dropout.
        seed: seed of the random numbers of dropout.

    Raises:
        ArgumentError: there is no such head; several attentions are selected; p is out of range; there are more tokens
            than ``MOST_LOOKED_INTO``.
        MhavizError: as ``Model.run``; the model only gives weights.
    """
    model.require_calls()
    site = model.one_site(inputs)
    if dropout is not None and not 0 <= dropout < 1:
        raise ArgumentError(f"{parameter('dropout')}: expected a share from 0 to less than 1, got {dropout:g}")
    require_few_tokens("masks", inputs.longest)
    require_heads(site, heads)
    seen: list[SiteCall] = []
    model.run(inputs, seen.append, None, batched=True)
    with seeded(seed):
        sentences = [sentence for one in seen for sentence in _masked(one, list(heads), dropout)]
    return Masking(
        source=model.describe(inputs),
        kind=site.kind,
        rule=seen[0].with_inputs.rule,
        heads=tuple(heads),
        sentences=tuple(sentences),
        dropout=dropout,
        seed=seed,
        layer=site.layer if model.has_layers else None,
    )


def _masked(seen: SiteCall, heads: list[int], dropout: float | None) -> list[MaskedSentence]:
    """Return the sentences of one batch."""
    call = replace(seen.with_inputs, query=seen.with_inputs.query.double())
    S = call.scores()  # batch_size n_heads q_length k_length
    A = call.weigh(S).float().cpu()
    before = _unhidden(call).scores()
    # Dropout of ones shows also where a weight of 0, as of a hidden key, is dropped.
    left = None if dropout is None else nn.functional.dropout(torch.ones_like(A), dropout)
    sentences = []
    for i, (queries, keys) in enumerate(zip(seen.queries, seen.keys, strict=True)):
        one = MaskedSentence(
            queries, keys, float_array(before[i, heads]), S[i, heads].isneginf().cpu().numpy(), float_array(A[i, heads])
        )
        if left is not None:
            one = replace(one, dropped=(left[i, heads] == 0).numpy(), kept=float_array((A * left)[i, heads]))
        sentences.append(one)
    return sentences


def _unhidden(call: AttentionCall) -> AttentionCall:
    """Return the call with no key hidden. A bias that the mask adds, such as one of positions, is kept.

    If there is a bias, it is not known for hidden keys, and their scores are NaN.
    """
    mask = call.mask
    if mask is not None and mask.dtype != torch.bool:
        hidden = hides(mask)
        has_bias = bool((mask[~hidden] != 0).any())
        return replace(call, causal=False, mask=mask.masked_fill(hidden, torch.nan if has_bias else 0.0))
    return replace(call, causal=False, mask=None)
