"""Matrices of one attention layer on one sentence, from its input X to its output O."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.result import Result, ShortRepr, Source, of_layer


@dataclass(frozen=True)
class Matrix(ShortRepr):
    """Matrix of all heads of the layer: ``name`` = ``equation``, such as "Q" = "X Wq".

    ``values``: float32, (length, features); ``equation``: "" where it is not known.
    """

    name: str
    equation: str
    values: NDArray[np.float32]


@dataclass(frozen=True)
class HeadMatrices(ShortRepr):
    """Matrices of one head. Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.

    Attributes:
        head: index of the head, from 0.
        key_head: index of its keys and values among the key heads; several heads may share one.
        query: float32, (q_length, d_key), Q.
        key: float32, (k_length, d_key), K.
        value: float32, (k_length, d_value), V.
        scores: float32, (q_length, k_length), S = Q Kᵀ / √d_key, or as ``LayerMatrices.rule`` says; NaN where the mask
            hides a key.
        weights: float32, (q_length, k_length), A = softmax(S).
        output: float32, (q_length, d_value), H = A V.
    """

    head: int
    key_head: int
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    scores: NDArray[np.float32]
    weights: NDArray[np.float32]
    output: NDArray[np.float32]


@dataclass(frozen=True)
class LayerMatrices(Result):
    """Matrices of one layer from X to O, and of some of its heads.

    Attributes:
        queries, keys: tokens of the sentence or pair.
        kind: as in ``AttentionMap``.
        rule: operations on q·k before the softmax, such as "/ √64", as in ``AttentionCall.rule``.
        n_heads, n_key_heads: of the layer; there are fewer key heads where several heads share keys and values.
        heads: the selected heads.
        query: Q of all heads, concatenated, (q_length, n_heads · d_key).
        key, value: K and V of all key heads, concatenated, (k_length, n_key_heads · d_key or d_value).
        joined: outputs H of all heads, concatenated, (q_length, n_heads · d_value).
        input: X of the queries, (q_length, d_model); None: not known.
        memory: X of the keys and values, if these are another text; else None.
        output: O, (q_length, d_model); None: not known.
        position, key_position: positions of a query and a key that are marked in all matrices as examples.
        left_out: why X or O is not known; "": both are known.
        layer: index of the layer, from 0; None: the model has only one.
    """

    source: Source
    queries: Tokens
    keys: Tokens
    kind: Kind
    rule: str
    n_heads: int
    n_key_heads: int
    heads: tuple[HeadMatrices, ...]
    query: Matrix
    key: Matrix
    value: Matrix
    joined: Matrix
    input: Matrix | None
    memory: Matrix | None
    output: Matrix | None
    position: int
    key_position: int
    left_out: str = ""
    layer: int | None = None

    @property
    def d_key(self) -> int:
        """Number of features of a query or a key of one head."""
        return int(self.heads[0].query.shape[1])

    @property
    def projected(self) -> tuple[Matrix, ...]:
        """X, Q, K and V, as far as they are known: first those with a row for each query, then for each key."""
        of_queries = (*([self.input] if self.input else []), self.query)
        return (*of_queries, *([self.memory] if self.memory else []), self.key, self.value)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; gives tokens by their texts, and excludes the marked positions."""
        texts = {"queries": self.queries.texts, "keys": self.keys.texts, "left_out": self.left_out or None}
        unsaid = ("layer", "position", "key_position")
        whole = {name: value for name, value in super().to_dict().items() if name not in unsaid}
        return of_layer(self.layer) | whole | texts
