"""What scores, maps and outputs are made of: the queries, keys and values of each head."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.records.attention import AttentionMap, Kind
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
        layer: of a model with several; None: there is one.
        special_queries, special_keys: as in ``AttentionMap``.
        scale, softcap, sinks: as in ``attention_map``.
        bias: float32, (n_heads or 1, q_length, k_length): what is added to the scores, such as a position bias.
    """

    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    value: NDArray[np.float32]
    visible: NDArray[np.bool_]
    kind: Kind = "self"
    sentence: int | None = None
    layer: int | None = None
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    scale: float | None = None
    bias: NDArray[np.float32] | None = None
    softcap: float | None = None
    sinks: NDArray[np.float32] | None = None

    @property
    def own_scale(self) -> float:
        """1/√d_key, unless the layer has another."""
        return 1 / math.sqrt(self.query.shape[2]) if self.scale is None else self.scale

    @property
    def rule(self) -> str:
        """What becomes of q·k before the softmax, as an equation goes on: "/ √64", or "· 0.1, capped at 50"."""
        d_key = self.query.shape[2]
        text = f"/ √{d_key}" if math.isclose(self.own_scale * math.sqrt(d_key), 1, rel_tol=1e-4) else ""
        if not text and self.own_scale != 1:
            text = f"· {self.own_scale:.3g}"
        text += f", capped at {self.softcap:g}" if self.softcap is not None else ""
        text += " + bias" * (self.bias is not None)
        return (text + ", with a sink" * (self.sinks is not None)).removeprefix(", ").strip()


@dataclass(frozen=True)
class LayerInputs:
    """The queries, keys and values of some sentences, and where they come from."""

    source: Source
    inputs: tuple[HeadInputs, ...]


@dataclass(frozen=True)
class QueriesAndKeys:
    """What a map of any length is made of: the queries and keys of some heads, for one sentence or one pair.

    The weights are the softmax of scale · QKᵀ, soft-capped, masked, or with what the mask adds. Keys beyond those that
    ``kind`` and ``mask`` let a query see are hidden.

    Attributes:
        query_tokens, key_tokens: the tokens of the rows and columns of the map.
        query: float32, (n_heads, q_length, d_key).
        key: float32, (n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads.
        heads: the numbers of these heads.
        kind, sentence, layer, special_queries, special_keys, reach: as in ``AttentionMap``.
        scale: of the scores; None: 1/√d_key.
        mask, softcap, sinks: as in ``attention_map``; the mask is (n_heads or 1, q_length or 1, k_length or 1).
        value: float32, (n_kv_heads, k_length, d_value), and output: float32, (n_heads, q_length, d_value), as the model
            itself has computed it; where they were asked for.
    """

    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    query: NDArray[np.float32]
    key: NDArray[np.float32]
    heads: tuple[int, ...]
    kind: Kind = "self"
    sentence: int | None = None
    layer: int = 0
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    reach: int | None = None
    scale: float | None = None
    mask: NDArray[np.bool_] | NDArray[np.float32] | None = None
    softcap: float | None = None
    sinks: NDArray[np.float32] | None = None
    value: NDArray[np.float32] | None = None
    output: NDArray[np.float32] | None = None

    @property
    def outline(self) -> "MapOutline":
        """What is known of them before they are there."""
        n_heads, q_length, d_key = self.query.shape
        return MapOutline(self.kind, n_heads, q_length, self.key.shape[1], d_key, self.sentence)

    def map(
        self, weights: NDArray[np.float32], window: tuple[int, int, int, int] | None = None, **others: Any
    ) -> AttentionMap:
        """These weights as the map of them.

        Args:
            weights: (n_heads, rows, columns).
            window: (q0, q1, k0, k1), the queries and keys that they are of; None: all.
            others: further fields of ``AttentionMap``, or other values of those that are known.
        """
        q0, q1, k0, k1 = window or (0, self.query.shape[1], 0, self.key.shape[1])
        known: dict[str, Any] = {
            "kind": self.kind,
            "layer": self.layer,
            "heads": self.heads,
            "sentence": self.sentence,
            "special_queries": tuple(i - q0 for i in self.special_queries if q0 <= i < q1),
            "special_keys": tuple(i - k0 for i in self.special_keys if k0 <= i < k1),
            "reach": self.reach,
            "sink": self.sinks is not None,
        }
        return AttentionMap(self.query_tokens[q0:q1], self.key_tokens[k0:k1], weights, **known | others)

    def without_special(self) -> "QueriesAndKeys":
        """The same of the text alone: weights are shares of the keys that remain, so that rows sum to 1 again.

        Raises:
            ArgumentError: no query or no key remains.
        """
        q_length, k_length = self.query.shape[1], self.key.shape[1]
        queries = np.setdiff1d(np.arange(q_length), self.special_queries)
        keys = np.setdiff1d(np.arange(k_length), self.special_keys)
        if not (len(queries) and len(keys)):
            raise ArgumentError(
                f"expected tokens of the text as queries and keys, got special ones alone ({self.kind} attention); "
                f"leave out --hide-special"
            )
        mask: Any = self.mask
        if mask is not None:
            mask = mask[:, queries if mask.shape[1] > 1 else slice(None)]
            mask = np.ascontiguousarray(mask[:, :, keys if mask.shape[2] > 1 else slice(None)])
        gapless = all(len(kept) and kept[-1] - kept[0] + 1 == len(kept) for kept in (queries, keys))
        return replace(
            self,
            query_tokens=tuple(self.query_tokens[i] for i in queries),
            key_tokens=tuple(self.key_tokens[i] for i in keys),
            query=np.ascontiguousarray(self.query[:, queries]),
            key=np.ascontiguousarray(self.key[:, keys]),
            special_queries=(),
            special_keys=(),
            reach=self.reach if gapless else None,
            mask=mask,
            value=None,
            output=None,
        )


@dataclass(frozen=True)
class MapOutline:
    """How large a map will be: what it takes can be told before its queries and keys are there.

    Attributes:
        kind, sentence: as in ``AttentionMap``.
        n_heads, q_length, k_length, d_key: sizes.
    """

    kind: Kind
    n_heads: int
    q_length: int
    k_length: int
    d_key: int
    sentence: int | None = None


@dataclass(frozen=True)
class MapInputs:
    """The queries and keys of some sentences, which come one after the other, so that they need not be held together.

    Attributes:
        source: where they come from.
        outlines: of each, in order.
        visit: calls the given function with each, in order; what it is called with is gone when it returns.
    """

    source: Source
    outlines: tuple[MapOutline, ...]
    visit: Callable[[Callable[[QueriesAndKeys], None]], None]

    @classmethod
    def of(cls, source: Source, inputs: Sequence[QueriesAndKeys]) -> "MapInputs":
        """Those that are there already."""

        def visit(seen: Callable[[QueriesAndKeys], None]) -> None:
            for one in inputs:
                seen(one)

        return cls(source, tuple(one.outline for one in inputs), visit)
