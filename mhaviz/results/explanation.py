"""Explanation of one query of one head, down to single features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.result import Result, Source


@dataclass(frozen=True)
class Explanation(Result):
    """Scores, weights and output of one query of one head, by key and by feature.

    Attributes:
        queries, keys: texts of the tokens.
        position: position of the explained query in ``queries``.
        head: index of the head, from 0.
        query: float32, (d_key,), q.
        key: float32, (k_length, d_key), k of each key.
        products: float32, (k_length, d_key), q ∘ k, the products of the features; each row sums to q·k.
        similarities: float32, (k_length,), q·k.
        scores: float32, (k_length,), q·k / √d_key, or as ``rule`` says; NaN where the mask hides a key.
        weights: float32, (k_length,), a, the softmax of the scores.
        value: float32, (k_length, d_key), v of each key.
        contributions: float32, (k_length, d_key), a v; the rows sum to the output.
        sizes: float32, (k_length,), ‖a v‖.
        shares: float32, (k_length,), each size as a share of their sum; zeros where that is 0.
        output: float32, (d_key,), output of the head for this query, before the heads are concatenated.
        visible: bool, (k_length,), False where the mask hides a key.
        kind: as in ``AttentionMap``.
        rule: operations on q·k before the softmax, such as "/ √64", as in ``AttentionCall.rule``.
        layer, special_queries, special_keys: as in ``ScalingComparison``.
    """

    source: Source
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    position: int
    head: int
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    products: NDArray[np.float32]
    similarities: NDArray[np.float32]
    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    value: NDArray[np.float32]
    contributions: NDArray[np.float32]
    sizes: NDArray[np.float32]
    shares: NDArray[np.float32]
    output: NDArray[np.float32]
    visible: NDArray[np.bool_]
    kind: Kind
    rule: str
    layer: int | None = None
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()

    @property
    def token(self) -> str:
        """Text of the explained query."""
        return self.queries[self.position]

    @property
    def d_key(self) -> int:
        """Number of features of a query, a key or a value of one head."""
        return len(self.query)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        return {"token": self.token, "d_key": self.d_key} | super().to_dict()

    def heaviest(self, most: int) -> list[int]:
        """Return the positions of the keys with the largest weights, at most ``most``, in the order of the sentence."""
        return sorted(np.argsort(-self.weights, kind="stable")[:most].tolist())

    def strongest_features(self, key: int) -> list[int]:
        """Return the three features whose products with the query are largest in magnitude, the largest first."""
        strongest: list[int] = np.argsort(-np.abs(self.products[key]), kind="stable")[:3].tolist()
        return strongest
