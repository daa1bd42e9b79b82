"""Effect on the softmax of dividing the scores by √d_key."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.result import Result, ShortRepr, Source, of_layer

SATURATED = 0.99
"""A row is saturated if its largest weight is above this; hardly any gradient passes."""


@dataclass(frozen=True)
class ScoreStatistics:
    """Statistics of the scores of one head and of their softmax. Hidden keys are left out.

    So are, from all that is said of rows, those without a choice of keys, such as the first row of causal attention:
    whatever the scores are, they give all weight to a single key.

    Attributes:
        score_std: standard deviation of the scores.
        score_min, score_max: least and largest score.
        entropy: mean entropy of a row of weights, in nats: ln(number of keys) for uniform weights, 0 where one key has
            all the weight.
        largest_weight: largest weight of a row, averaged over the rows.
        saturated: share of the rows whose largest weight is above 0.99.
        jacobian: mean Frobenius norm of a row's softmax Jacobian, diag(a) − a aᵀ; 0 where no gradient passes.
        rows: number of the rows that count. If it is 0, the numbers about rows are NaN.
    """

    score_std: float
    score_min: float
    score_max: float
    entropy: float
    largest_weight: float
    saturated: float
    jacobian: float
    rows: int

    @property
    def saturated_rows(self) -> int:
        """Number of saturated rows."""
        return round(self.saturated * self.rows) if self.rows else 0


@dataclass(frozen=True)
class Scaling(ShortRepr):
    """Scores of some heads, either unscaled or scaled, with their softmax and statistics.

    Attributes:
        scores: float32, (n_heads, q_length, k_length); NaN where the mask hides a key.
        weights: float32, (n_heads, q_length, k_length), softmax of the scores over the keys.
        statistics: one for each head.
    """

    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    statistics: tuple[ScoreStatistics, ...]


@dataclass(frozen=True)
class ScalingComparison(Result):
    """Comparison of Q Kᵀ with Q Kᵀ / √d_key, for some heads of one sentence or pair.

    ``heads``: indices of the heads. ``rule``: the scaling, such as "/ √64", as in ``AttentionCall.rule``. ``layer``:
    index from 0. ``special_queries``, ``special_keys``: positions of special tokens, as in ``Tokens.special``.
    """

    source: Source
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    heads: tuple[int, ...]
    d_key: int
    unscaled: Scaling
    scaled: Scaling
    kind: Kind
    rule: str
    layer: int | None = None
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; one entry for each head."""
        scalings = {"unscaled": self.unscaled, "scaled": self.scaled}
        heads = [
            {
                "head": head,
                **{
                    name: vars(one.statistics[i]) | {"scores": one.scores[i], "weights": one.weights[i]}
                    for name, one in scalings.items()
                },
            }
            for i, head in enumerate(self.heads)
        ]
        about = {"kind": self.kind, "d_key": self.d_key, "queries": self.queries, "keys": self.keys}
        return of_layer(self.layer) | about | {"heads": heads}


@dataclass(frozen=True)
class ScalingSweep(Result):
    """Statistics of scores for several d_key, averaged over ``draws`` draws of random weights.

    Attributes:
        d_keys: the values of d_key.
        theory: standard deviation of unscaled scores that theory predicts for each d_key: √d_key.
        unscaled, scaled: statistics for each d_key.
        tokens: texts of the tokens of the sentence.
    """

    source: Source
    tokens: tuple[str, ...]
    draws: int
    d_keys: tuple[int, ...]
    theory: tuple[float, ...]
    unscaled: tuple[ScoreStatistics, ...]
    scaled: tuple[ScoreStatistics, ...]

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; one entry for each d_key."""
        names, columns = (
            ("d_key", "theory", "unscaled", "scaled"),
            (self.d_keys, self.theory, self.unscaled, self.scaled),
        )
        sizes = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"tokens": self.tokens, "draws": self.draws, "sweep": sizes}
