"""Stages from plain self-attention to a head: what each projection adds, and how several heads differ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.result import Result, ShortRepr, Source


@dataclass(frozen=True)
class ProjectionInputs(ShortRepr):
    """Input of the layer for one sentence, and its three projections before they are split into heads.

    Attributes:
        tokens: texts of the tokens.
        embedded: float32, (length, d_model), X, the embeddings with positions.
        query, key, value: float32, (length, d_model), X Wq, X Wk and X Wv, with biases.
        n_heads: number of heads that the layer splits d_model into.
    """

    source: Source
    tokens: tuple[str, ...]
    embedded: NDArray[np.float32]
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    n_heads: int


@dataclass(frozen=True)
class ProjectionStage(ShortRepr):
    """Attention with some of the projections.

    Attributes:
        scores: float32, (q_length, k_length), S; NaN where a query is left out of its own sum.
        weights: float32, (q_length, k_length), A, the softmax of the scores over the keys.
        outputs: float32, (q_length, d_model), O, the weighted sums.
        asymmetry: ‖S − Sᵀ‖ / ‖S‖ in Frobenius norms; 0 where S is symmetric. None for 0 / 0.
        self_weight: mean weight of a query on itself.
        departure: ‖O − A X‖ / ‖A X‖; 0 where the outputs are weighted averages of the inputs. None for 0 / 0.
    """

    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    outputs: NDArray[np.float32]
    asymmetry: float | None
    self_weight: float
    departure: float | None


@dataclass(frozen=True)
class ProjectionComparison(Result):
    """Four stages from plain self-attention to a whole head, and the same projections split into several heads.

    Attributes:
        tokens: texts of the tokens of rows and columns.
        d_model: number of features of the single head in the stages.
        include_self: whether a query is part of its own sum (j = i).
        stages: without projections; one projection shared by queries and keys; one each; values projected as well.
        pair: positions i, j of the two tokens whose scores S_ij and S_ji differ most in the third stage; None for a
            single token.
        heads: float32, (n_heads, q_length, k_length), weights of each head.
        divergence: float64, (n_heads, n_heads), mean Jensen–Shannon divergence between the rows of two heads, in bits,
            from 0 to 1.
        mean_divergence: mean over all pairs of different heads; None for a single head.
    """

    source: Source
    tokens: tuple[str, ...]
    d_model: int
    include_self: bool
    stages: tuple[ProjectionStage, ProjectionStage, ProjectionStage, ProjectionStage]
    pair: tuple[int, int] | None
    heads: NDArray[np.float32]
    divergence: NDArray[np.float64]
    mean_divergence: float | None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes the tokens of the pair and the unit of divergences."""
        pair = self.pair and {"positions": self.pair, "tokens": [self.tokens[i] for i in self.pair]}
        return super().to_dict() | {"pair": pair, "unit": "bits", "bound": 1}
