"""What scores, maps and outputs are made of: the queries, keys and values of each head."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.attention import Kind
from mhaviz.records.source import Source


@dataclass(frozen=True)
class HeadInputs:
    """The queries, keys and values of every head, for one sentence or one pair.

    Attributes:
        query_tokens, key_tokens: the tokens of the rows and columns of the scores.
        query: float32, (n_heads, q_length, d_key).
        key: float32, (n_heads, k_length, d_key).
        value: float32, (n_heads, k_length, d_key).
        visible: bool, (q_length, k_length); False where the mask hides a key from a query.
        kind, sentence: as in ``AttentionMap``.
    """

    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    visible: NDArray[np.bool_]
    kind: Kind = "self"
    sentence: int | None = None


@dataclass(frozen=True)
class LayerInputs:
    """The queries, keys and values of some sentences, and where they come from."""

    source: Source
    inputs: tuple[HeadInputs, ...]


@dataclass(frozen=True)
class QueriesAndKeys:
    """What a map of any length is made of: the queries and keys of some heads, for one sentence or one pair.

    Attributes:
        query_tokens, key_tokens: the tokens of the rows and columns of the map.
        query: float32, (n_heads, q_length, d_key).
        key: float32, (n_heads, k_length, d_key).
        heads: the numbers of these heads.
        kind, sentence: as in ``AttentionMap``.
    """

    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    heads: tuple[int, ...]
    kind: Kind = "self"
    sentence: int | None = None


@dataclass(frozen=True)
class MapInputs:
    """The queries and keys of some sentences, and where they come from."""

    source: Source
    inputs: tuple[QueriesAndKeys, ...]
