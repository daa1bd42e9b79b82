"""One query of one head, taken apart down to the single features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.result import Result, Source


@dataclass(frozen=True)
class Explanation(Result):
    """How one query's scores, weights and output are made, key by key and feature by feature.

    Attributes:
        queries, keys: the tokens of the sentence, or of the pair.
        position: of the query that is explained, among ``queries``.
        head: counted from 0.
        query: float32, (d_key,): q.
        key: float32, (k_length, d_key): k of each key.
        products: float32, (k_length, d_key): q ∘ k, the products of their features; they sum to q·k.
        similarities: float32, (k_length,): q·k.
        scores: float32, (k_length,): q·k / √d_key, or by the layer's own ``rule``; NaN where the mask hides a key.
        weights: float32, (k_length,): a, the softmax of the scores.
        value: float32, (k_length, d_key): v of each key.
        contributions: float32, (k_length, d_key): a v; they sum to the output.
        sizes: float32, (k_length,): ‖a v‖.
        shares: float32, (k_length,): of the sum of all sizes; zeros where there is nothing to share.
        output: float32, (d_key,): the head's output for this query, before heads are joined.
        visible: bool, (k_length,); False where the mask hides a key.
        kind: as in ``AttentionMap``.
        rule: what becomes of q·k before the softmax, as in ``AttentionCall.rule``: "/ √64".
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
        """The query that is explained."""
        return self.queries[self.position]

    @property
    def d_key(self) -> int:
        """Features of a query, a key or a value of one head."""
        return len(self.query)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        return {"token": self.token, "d_key": self.d_key} | super().to_dict()

    def heaviest(self, most: int) -> list[int]:
        """The positions of the keys with the largest weights, at most so many, in the order of the sentence."""
        return sorted(np.argsort(-self.weights, kind="stable")[:most].tolist())

    def strongest_features(self, key: int) -> list[int]:
        """The three features that make the most of the key's score, for or against it, the strongest first."""
        strongest: list[int] = np.argsort(-np.abs(self.products[key]), kind="stable")[:3].tolist()
        return strongest
