"""Effect of dividing scores by √d_key. Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1 and its footnote.

If the entries of q and k are independent with variance 1, their product q·k has variance d_key. Without scaling, the
softmax saturates as d_key grows: its Jacobian, diag(a) − a aᵀ for a row of weights a, and the gradient go to zero.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from mhaviz.analyses.weights import require_weights_fit
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Inputs, Model, call_of_one
from mhaviz.errors import ArgumentError
from mhaviz.layer.attention import weigh
from mhaviz.layer.embedding import Embeddings
from mhaviz.layer.seeding import seeded
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.results.scaling import SATURATED, Scaling, ScalingComparison, ScalingSweep, ScoreStatistics

SWEEP = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Values of d_key in a sweep."""

DRAWS = 64
"""Number of draws of random weights for each d_key in a sweep."""


def compare_scaling(model: Model, inputs: Inputs, heads: Sequence[int]) -> ScalingComparison:
    """Compare the scores and weights of some heads without scaling with those with scaling.

    Args:
        model: model with a single selected attention.
        inputs: encoded input of one sentence.
        heads: indices of the heads, from 0.

    Raises:
        ArgumentError: there is no such head; several attentions are selected; the layer does not scale its scores, as
            in T5.
        MhavizError: as ``Model.run``; the model only gives weights; the matrices do not fit into memory.
    """
    require_weights_fit(model, inputs, heads, copies=8)  # scores, weights and temporary copies, of both
    seen = call_of_one(model, inputs, heads)
    (queries,), (keys,) = seen.queries, seen.keys
    scaled, d_key = seen.with_inputs, seen.site.d_key
    if d_key > 1 and math.isclose(scaled.scale, 1):
        raise ArgumentError(
            f"expected scores that are scaled, got those of {model.describe(inputs).footnote}, which are q·k without "
            f"scaling: there is nothing to compare"
        )
    unscaled = replace(scaled, scale=1.0)
    return ScalingComparison(
        source=model.describe(inputs),
        queries=queries.texts,
        keys=keys.texts,
        heads=tuple(heads),
        d_key=d_key,
        unscaled=_scaling_of(unscaled),
        scaled=_scaling_of(scaled),
        kind=seen.site.kind,
        rule=scaled.rule,
        layer=seen.site.layer if model.has_layers else None,
        special_queries=queries.special,
        special_keys=keys.special,
    )


def sweep_scaling(
    tokens: Sequence[str], seed: int = 0, d_keys: Sequence[int] = SWEEP, draws: int = DRAWS
) -> ScalingSweep:
    """Measure the effect of scaling for several d_key on these tokens, and give the standard deviation of theory.

    Each draw takes new embeddings and new projections of one head (d_model = d_key). Positions are left out, as theory
    assumes entries of variance 1, which the embeddings have; positions would add ½.
    """
    unscaled, scaled = [], []
    numbers = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    ids = torch.tensor([[numbers[token] for token in tokens]])
    visible = torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    with seeded(seed), torch.no_grad():
        for d_key in d_keys:
            products = torch.cat([_products(ids, len(numbers), d_key) for _ in range(draws)])  # draws length length
            unscaled.append(_over_draws(products, visible))
            scaled.append(_over_draws(products / math.sqrt(d_key), visible))
    footnote = f"random weights, seed {seed}, 1 head, d_model = d_key from {min(d_keys)} to {max(d_keys)}, cpu"
    details = {"kind": RANDOM_WEIGHTS, "seed": seed, "device": "cpu", "n_heads": 1, "tokens": list(tokens)}
    return ScalingSweep(
        source=Source(footnote, details),
        tokens=tuple(tokens),
        draws=draws,
        d_keys=tuple(d_keys),
        theory=tuple(math.sqrt(d_key) for d_key in d_keys),
        unscaled=tuple(unscaled),
        scaled=tuple(scaled),
    )


def _products(ids: Tensor, vocab_size: int, d_key: int) -> Tensor:
    """Compute q·k of one head with new random weights as in ``MultiHeadAttention``, (1, length, length)."""
    x = Embeddings(vocab_size, d_key)(ids)
    Wq, Wk = (nn.init.xavier_uniform_(torch.empty(d_key, d_key)) for _ in range(2))
    products: Tensor = (x @ Wq) @ (x @ Wk).mT
    return products


def _scaling_of(call: AttentionCall) -> Scaling:
    """Return scores, weights and statistics of a call of one sentence."""
    S = call.scores()
    A = call.weigh(S)
    return _scaling(S[0].cpu(), A[0].cpu(), (S[0, 0] > -math.inf).cpu(), call.has_sink)


def _scaling(scores: Tensor, weights: Tensor, visible: Tensor, has_sink: bool = False) -> Scaling:
    """Add statistics to scores and weights, (n_heads, q_length, k_length); ``visible``: (q_length, k_length).

    ``has_sink``: whether each row weighs a sink, too, and has a choice if it sees a single key.
    """
    chooses = visible.sum(dim=-1) + has_sink > 1
    statistics = tuple(_statistics(s[visible], a[chooses]) for s, a in zip(scores, weights, strict=True))
    return Scaling(scores.masked_fill(~visible, math.nan).numpy(), weights.numpy(), statistics)


def _statistics(scores: Tensor, weights: Tensor) -> ScoreStatistics:
    """Compute statistics of one head from its visible scores, in any order, and the weights of rows with a choice."""
    a = weights.double()
    largest = a.amax(dim=-1)
    return ScoreStatistics(
        score_std=scores.double().std(correction=0).item(),
        score_min=scores.min().item(),
        score_max=scores.max().item(),
        entropy=torch.special.entr(a).sum(dim=-1).mean().item(),
        largest_weight=largest.mean().item(),
        saturated=(largest > SATURATED).double().mean().item(),
        jacobian=_jacobian_norm(a).mean().item(),
        rows=len(a),
    )


def _jacobian_norm(a: Tensor) -> Tensor:
    """Compute ‖diag(a) − a aᵀ‖ for each row, without the matrix: √(Σ aᵢ² − 2 Σ aᵢ³ + (Σ aᵢ²)²)."""
    squares = (a**2).sum(dim=-1)
    return (squares - 2 * (a**3).sum(dim=-1) + squares**2).clamp(min=0).sqrt()


def _over_draws(scores: Tensor, visible: Tensor) -> ScoreStatistics:
    """Average statistics over the draws, the first axis of scores; the standard deviation is that of all scores."""
    each = _scaling(scores, weigh(scores[None], visible)[0], visible).statistics
    means = {name: sum(getattr(s, name) for s in each) / len(each) for name in ScoreStatistics.__dataclass_fields__}
    return ScoreStatistics(**means | {"score_std": scores.double().std(correction=0).item(), "rows": each[0].rows})
