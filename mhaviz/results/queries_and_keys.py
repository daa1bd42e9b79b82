"""The queries and keys that weights are computed from, as whole numbers: few enough to be kept beside the weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.result import ShortRepr

PRECISE = 0.002
"""Weights that are computed from codes differ by no more from those of the call."""


@dataclass(frozen=True, eq=False)
class Codes(ShortRepr):
    """Features of tokens as whole numbers: each feature of a head has 2^bits even steps from its least to its largest.

    value[h, i, f] = lows[h, f] + codes[h, i, f] · steps[h, f]

    Attributes:
        codes: uint16, (n_heads, length, d_key); of 32 bits the features themselves, in float32.
        lows, steps: float32, (n_heads, d_key); of 32 bits 0 and 1.
        bits: 12, 16 or 32.
    """

    codes: NDArray[np.uint16] | NDArray[np.float32]
    lows: NDArray[np.float32]
    steps: NDArray[np.float32]
    bits: Literal[12, 16, 32]

    def select(self, heads: Sequence[int]) -> "Codes":
        """Of the heads at these places."""
        chosen = list(heads)
        return replace(self, codes=self.codes[chosen], lows=self.lows[chosen], steps=self.steps[chosen])


@dataclass(frozen=True, eq=False)
class Bias(ShortRepr):
    """What is added to scores, or which of them a mask leaves, where that takes little room.

    Attributes:
        form: "offsets": by the distance of key j from query i, at j − i + q_length − 1 (the relative positions of T5,
            arXiv 1910.10683, section 2.1, or ALiBi, arXiv 2108.12409); "keys": the same for all queries; "visible":
            whether a query sees a key.
        values: float32, (1 or n_heads, q_length + k_length − 1), or (1 or n_heads, k_length), where −∞ hides; bool,
            (1 or n_heads, 1 or q_length, k_length).
    """

    form: Literal["offsets", "keys", "visible"]
    values: NDArray[np.float32] | NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class QueriesAndKeys(ShortRepr):
    """What A = softmax(S) is computed from, of all tokens of one sentence; see ``mhaviz.attention.call``.

    Attributes:
        query: (n_heads, q_length, d_key).
        key: (n_kv_heads, k_length, d_key).
        key_heads: which of the key's heads each head has.
        scale, causal, softcap, sinks: as in ``AttentionCall``; sinks float32, (n_heads,).
        reach: a query sees no key that is more positions away; None: all.
        bias: None: nothing is added, and nothing else is hidden.
        rule: what becomes of q·k, as an equation goes on: "/ √64".
        precision: how far a weight that is computed from these codes is from that of the call, at most; and any sum of
            weights of one query.
        value_norms: float32, (n_heads, k_length): what weights are multiplied by in a map of norms; None: by nothing.
    """

    query: Codes
    key: Codes
    key_heads: tuple[int, ...]
    scale: float
    causal: bool
    reach: int | None
    softcap: float | None
    sinks: NDArray[np.float32] | None
    bias: Bias | None
    rule: str
    precision: float
    value_norms: NDArray[np.float32] | None = None

    def select(self, places: Sequence[int]) -> "QueriesAndKeys":
        """Of the heads at these places."""
        groups = [self.key_heads[place] for place in places]
        used = sorted(set(groups))
        bias = self.bias
        if bias is not None and len(bias.values) > 1:
            bias = Bias(bias.form, bias.values[list(places)])
        return replace(
            self,
            query=self.query.select(places),
            key=self.key.select(used),
            key_heads=tuple(used.index(group) for group in groups),
            sinks=None if self.sinks is None else self.sinks[list(places)],
            bias=bias,
            value_norms=None if self.value_norms is None else self.value_norms[list(places)],
        )
