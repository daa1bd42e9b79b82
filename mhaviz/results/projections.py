"""How one head comes about: what is projected, what each projection adds, and how several heads differ."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.result import Result, ShortRepr, Source


@dataclass(frozen=True)
class ProjectionInputs(ShortRepr):
    """The layer's input for one sentence, and its three projections before they are split into heads.

    Attributes:
        tokens: the sentence's.
        embedded: float32, (length, d_model): X, the embeddings with positions.
        query, key, value: float32, (length, d_model): X Wq, X Wk and X Wv, with biases.
        n_heads: into how many heads the layer splits d_model.
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
    """Attention with so many of the projections in place.

    Attributes:
        scores: float32, (q_length, k_length); NaN where a query leaves itself out.
        weights: float32, the same shape, the softmax of the scores over the keys.
        outputs: float32, (q_length, d_model): the weighted sums.
        asymmetry: ‖S − Sᵀ‖ / ‖S‖, Frobenius norms; 0 when every two words score each other alike. None for 0 / 0.
        self_weight: the mean weight that a query gives to itself.
        departure: ‖O − A X‖ / ‖A X‖; 0 when the outputs are weighted averages of the inputs. None for 0 / 0.
    """

    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    outputs: NDArray[np.float32]
    asymmetry: float | None
    self_weight: float
    departure: float | None


@dataclass(frozen=True)
class ProjectionComparison(Result):
    """Four stages from plain self-attention to a whole head, and the same matrices split into several heads.

    Attributes:
        tokens: of the rows and of the columns.
        d_model: features of the one head of the stages.
        include_self: whether a query has a part in its own sum (j = i).
        stages: plain; one projection shared by queries and keys; two of them; values projected as well.
        pair: the positions of the two words that score each other most unlike in the third stage; None for one word.
        heads: float32, (n_heads, q_length, k_length): the weights of each head.
        divergence: float64, (n_heads, n_heads): the mean Jensen–Shannon divergence of two heads' rows, in
            bits, from 0 to 1.
        mean_divergence: over all pairs of different heads; None for one head.
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
        """See ``Result.to_dict``; with the tokens of the pair, and the unit of divergences."""
        pair = self.pair and {"positions": self.pair, "tokens": [self.tokens[i] for i in self.pair]}
        return super().to_dict() | {"pair": pair, "unit": "bits", "bound": 1}
