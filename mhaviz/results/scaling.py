"""What dividing the scores by √d_key does to the softmax."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.result import Result, ShortRepr, Source, of_layer


@dataclass(frozen=True)
class ScoreStatistics:
    """One head's scores and their softmax in six numbers; hidden keys do not count.

    Attributes:
        score_std: standard deviation of the scores.
        score_min, score_max: their range.
        entropy: mean entropy of a row of weights, in nats; ln(keys) when flat, 0 when one key has it all.
        largest_weight: mean largest weight of a row.
        saturated: share of the rows whose largest weight is above 0.99.
        jacobian: mean Frobenius norm of a row's softmax Jacobian, diag(a) − a aᵀ; 0 when no gradient passes.
    """

    score_std: float
    score_min: float
    score_max: float
    entropy: float
    largest_weight: float
    saturated: float
    jacobian: float


@dataclass(frozen=True)
class Scaling(ShortRepr):
    """The scores, their softmax and both in numbers, for some heads, either unscaled or scaled.

    Attributes:
        scores: float32, (n_heads, q_length, k_length); NaN where the mask hides a key.
        weights: float32, the same shape, the softmax of the scores over the keys.
        statistics: one a head.
    """

    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    statistics: tuple[ScoreStatistics, ...]


@dataclass(frozen=True)
class ScalingComparison(Result):
    """Q Kᵀ beside Q Kᵀ / √d_key, for some heads of one sentence or pair.

    ``heads``: their numbers; ``rule``: as in ``AttentionCall.rule``: "/ √64"; ``layer``: of the model, from 0;
    ``special_queries``, ``special_keys``: positions of those that are not of the text, as in ``Tokens.special``.
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
        """See ``Result.to_dict``; head by head."""
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
    """The same numbers at many d_key, the means over ``draws`` draws of the weights.

    Attributes:
        d_keys: the sizes.
        theory: the standard deviation of unscaled scores that theory expects at each: √d_key.
        unscaled, scaled: one a size.
        tokens: the sentence's.
    """

    source: Source
    tokens: tuple[str, ...]
    draws: int
    d_keys: tuple[int, ...]
    theory: tuple[float, ...]
    unscaled: tuple[ScoreStatistics, ...]
    scaled: tuple[ScoreStatistics, ...]

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; size by size."""
        names, columns = (
            ("d_key", "theory", "unscaled", "scaled"),
            (self.d_keys, self.theory, self.unscaled, self.scaled),
        )
        sizes = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"tokens": self.tokens, "draws": self.draws, "sweep": sizes}
