"""One attention layer on one sentence, as the matrices that it is computed with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.results.result import Result, ShortRepr, Source, of_layer


@dataclass(frozen=True)
class Matrix(ShortRepr):
    """A matrix of the whole layer: ``name`` = ``equation``, "Q" = "X Wq"; ``values``: float32, a row a token.

    ``equation``: "" where it is not known.
    """

    name: str
    equation: str
    values: NDArray[np.float32]


@dataclass(frozen=True)
class HeadMatrices(ShortRepr):
    """The matrices of one head. Vaswani et al. 2017, section 3.2.1.

    Attributes:
        head: counted from 0.
        key_head: whose keys and values it takes; not ``head`` where several heads share them.
        query: float32, (q_length, d_key): Q.
        key: float32, (k_length, d_key): K.
        value: float32, (k_length, d_value): V.
        scores: float32, (q_length, k_length): S = Q Kᵀ / √d_key, or by the layer's own ``rule``; NaN where the mask
            hides a key.
        weights: float32, (q_length, k_length): A = softmax(S).
        output: float32, (q_length, d_value): H = A V.
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
    """One layer from X to O, with the matrices of some of its heads.

    Attributes:
        queries, keys: the tokens of the sentence, or of the pair.
        kind: as in ``AttentionMap``.
        rule: what becomes of q·k before the softmax, as in ``AttentionCall.rule``: "/ √64".
        n_heads, n_key_heads: of the layer; fewer key heads where several heads share their keys and values.
        heads: those that are looked at.
        query: of all heads, side by side, (q_length, n_heads · d_key).
        key, value: of all key heads, side by side, (k_length, n_key_heads · d_key or d_value).
        joined: the outputs H of all heads, side by side, (q_length, n_heads · d_value).
        input: X of the queries, (q_length, d_model); None: it is not known.
        memory: X of the keys and values, where they are of another text; else None.
        output: O, (q_length, d_model); None: it is not known.
        position, key_position: a query and a key that are marked as examples, in all matrices.
        left_out: why X or O is not known; "" where both are.
        layer: counted from 0; None: the model has one.
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
        """Features of a query or a key of one head."""
        return int(self.heads[0].query.shape[1])

    @property
    def projected(self) -> tuple[Matrix, ...]:
        """X, Q, K and V as far as they are known: all that has a row a query, then all that has a row a key."""
        of_queries = (*([self.input] if self.input else []), self.query)
        return (*of_queries, *([self.memory] if self.memory else []), self.key, self.value)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; tokens by their texts, without what is marked."""
        texts = {"queries": self.queries.texts, "keys": self.keys.texts, "left_out": self.left_out or None}
        unsaid = ("layer", "position", "key_position")
        whole = {name: value for name, value in super().to_dict().items() if name not in unsaid}
        return of_layer(self.layer) | whole | texts
