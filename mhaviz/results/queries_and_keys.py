"""Quantised queries and keys, small enough to be kept beside a map, from which its weights can be computed again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.result import ShortRepr

PRECISE = 0.002
"""Largest difference between weights that are computed from codes and those of the call."""


@dataclass(frozen=True, eq=False)
class Codes(ShortRepr):
    """Quantised features of tokens: 2^bits evenly spaced values from the least to the largest of each head's feature.

    value[h, i, f] = lows[h, f] + codes[h, i, f] · steps[h, f]

    Attributes:
        codes: uint16, (n_heads, length, d_key); with 32 bits the features themselves, in float32.
        lows, steps: float32, (n_heads, d_key); with 32 bits 0 and 1.
        bits: bits of a code, 12, 16 or 32.
    """

    codes: NDArray[np.uint16] | NDArray[np.float32]
    lows: NDArray[np.float32]
    steps: NDArray[np.float32]
    bits: Literal[12, 16, 32]

    def select(self, heads: Sequence[int]) -> "Codes":
        """Return the codes of the heads with these indices."""
        chosen = list(heads)
        return replace(self, codes=self.codes[chosen], lows=self.lows[chosen], steps=self.steps[chosen])


@dataclass(frozen=True, eq=False)
class Bias(ShortRepr):
    """Bias that is added to the scores, or a mask, in a compact form.

    Attributes:
        form: "offsets": a bias by the distance between key j and query i, at index j − i + q_length − 1 (relative
            positions of T5, arXiv 1910.10683, section 2.1, or ALiBi, arXiv 2108.12409); "keys": a bias for each key,
            the same for all queries; "visible": a mask, True where a query sees a key.
        values: "offsets": float32, (1 or n_heads, q_length + k_length − 1); "keys": float32, (1 or n_heads, k_length),
            where −∞ hides a key; "visible": bool, (1 or n_heads, 1 or q_length, k_length).
    """

    form: Literal["offsets", "keys", "visible"]
    values: NDArray[np.float32] | NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class QueriesAndKeys(ShortRepr):
    """Inputs of A = softmax(S) for all tokens of one sentence; see ``mhaviz.attention.call``.

    Attributes:
        query: (n_heads, q_length, d_key).
        key: (n_kv_heads, k_length, d_key).
        key_heads: index in ``key`` of the keys of each head, (n_heads,).
        scale, causal, softcap, sinks: as in ``AttentionCall``; sinks float32, (n_heads,).
        reach: sliding window: a query sees no key that is more than this many positions away; None: no window.
        bias: bias or mask; None: neither.
        rule: operations on q·k before the softmax, such as "/ √64", as in ``AttentionCall.rule``.
        precision: largest difference between a weight, or a sum of weights of one query, that is computed from these
            codes and that of the call.
        value_norms: float32, (n_heads, k_length), ‖v_j W_O‖ that multiplies the weights in a map of norms; None: a map
            of weights.
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
        """Return the queries and keys of the heads with these indices."""
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
