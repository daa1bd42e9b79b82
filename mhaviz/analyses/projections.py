"""Stages from plain self-attention to a head, one projection at a time, and the effect of several heads.

Plain self-attention weighs the inputs by their similarity, softmax(X Xᵀ / √d) X. A projection shared by queries and
keys chooses the features that are compared, but the scores stay symmetric. Separate Wq and Wk break that symmetry, and
with Wv the outputs are no longer averages of the inputs. Vaswani et al. 2017, arXiv 1706.03762, sections 3.2.1 and
3.2.2.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.difference import jensen_shannon
from mhaviz.errors import ArgumentError, parameter
from mhaviz.layer.attention import weigh
from mhaviz.results.projections import ProjectionComparison, ProjectionInputs, ProjectionStage


def compare_projections(inputs: ProjectionInputs, include_self: bool = False) -> ProjectionComparison:
    """Compute four stages with the whole d_model × d_model matrices, then split the same matrices into heads.

    The stages have one head of d_key = d_model. Without ``include_self``, a query is left out of its own sum (j ≠ i) in
    stages and heads. With it, the first two stages mostly show that each token is most similar to itself.

    Raises:
        ArgumentError: there is a single token, and it is left out of its own sum.
    """
    given = inputs.embedded, inputs.query, inputs.key, inputs.value
    X, Q, K, V = (torch.from_numpy(x).double() for x in given)  # length d_model
    length, d_model = X.shape
    if length < 2 and not include_self:
        raise ArgumentError(
            f"expected at least two words, as a word is left out of its own sum, got one: add another, or set "
            f"{parameter('include_self')}"
        )
    visible = torch.ones(length, length, dtype=torch.bool) if include_self else ~torch.eye(length, dtype=torch.bool)
    stages = (
        _stage(X, X, X, X, visible),
        _stage(Q, Q, X, X, visible),
        _stage(Q, K, X, X, visible),
        _stage(Q, K, V, X, visible),
    )
    heads = _head_weights(Q, K, inputs.n_heads, visible)
    divergence = pairwise_divergence(heads)
    pairs = divergence[np.triu_indices(inputs.n_heads, 1)]
    return ProjectionComparison(
        source=inputs.source,
        tokens=inputs.tokens,
        d_model=d_model,
        include_self=include_self,
        stages=stages,
        pair=_least_symmetric(stages[2].scores),
        heads=heads,
        divergence=divergence,
        mean_divergence=float(pairs.mean()) if len(pairs) else None,
    )


def pairwise_divergence(heads: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the Jensen–Shannon divergence of each pair of heads, averaged over rows, in bits, (n_heads, n_heads).

    ``heads``: weights, (n_heads, q_length, k_length). The result is symmetric, with zeros on the diagonal.
    """
    divergence = np.zeros((len(heads), len(heads)))
    exact = heads.astype(np.float64)
    for i, head in enumerate(exact):
        divergence[i, :i] = divergence[:i, i] = jensen_shannon(head, exact[:i]).mean(axis=-1)
    return divergence


def _stage(query: Tensor, key: Tensor, value: Tensor, X: Tensor, visible: Tensor) -> ProjectionStage:
    S = query @ key.mT / math.sqrt(X.shape[1])  # q_length k_length
    A = weigh(S[None, None], visible)[0, 0]  # q_length k_length
    O = A @ value  # q_length d_model
    seen = S.where(visible, 0.0)
    return ProjectionStage(
        scores=S.masked_fill(~visible, math.nan).float().numpy(),
        weights=A.float().numpy(),
        outputs=O.float().numpy(),
        asymmetry=_ratio(seen - seen.mT, seen),
        self_weight=A.diagonal().mean().item(),
        departure=_ratio(O - A @ X, A @ X),
    )


def _head_weights(Q: Tensor, K: Tensor, n_heads: int, visible: Tensor) -> NDArray[np.float32]:
    """Split Q and K into heads, and compute the weights, (n_heads, q_length, k_length)."""
    d_key = Q.shape[1] // n_heads
    Q, K = (x.view(-1, n_heads, d_key).transpose(0, 1) for x in (Q, K))  # n_heads length d_key
    S = Q @ K.mT / math.sqrt(d_key)  # n_heads q_length k_length
    return weigh(S[None], visible)[0].float().numpy()


def _least_symmetric(scores: NDArray[np.float32]) -> tuple[int, int] | None:
    """Return the two positions with the largest |S − Sᵀ|; None for a single token."""
    if len(scores) < 2:
        return None
    i, j = divmod(int(np.nanargmax(np.abs(scores - scores.T))), len(scores))
    return (i, j) if i != j else (0, 1)


def _ratio(numerator: Tensor, denominator: Tensor) -> float | None:
    """Return the ratio of two Frobenius norms; None if the denominator is 0."""
    below = torch.linalg.matrix_norm(denominator).item()
    return torch.linalg.matrix_norm(numerator).item() / below if below else None
