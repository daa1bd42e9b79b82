"""Attention weights with the tokens that they stand between."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.records.source import Source

Kind = Literal["self", "masked", "cross"]


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one layer on one sentence, or on one pair of sentences.

    Attributes:
        queries: the tokens of the rows.
        keys: the tokens of the columns.
        weights: float32, (n_heads, q_length, k_length); each row sums to 1, or to 0 where a query sees no key.
        kind: "self"; "masked", when a query sees no later key; "cross", when the keys are another sentence.
        layer: counted from 0.
        heads: the numbers of the heads in ``weights``, in order.
        sentence: which of several sentences, counted from 0; None if there is one.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: NDArray[np.float32]
    kind: Kind = "self"
    layer: int = 0
    heads: tuple[int, ...] = ()
    sentence: int | None = None

    def __post_init__(self) -> None:
        if self.weights.ndim != 3:
            raise ArgumentError(
                f"weights: expected 3 axes, (n_heads, q_length, k_length), got {self.weights.ndim}: "
                f"{self.weights.shape}"
            )
        n_heads, q_length, k_length = self.weights.shape
        for axis, size, names in (("q_length", q_length, self.queries), ("k_length", k_length, self.keys)):
            if size != len(names):
                raise ArgumentError(f"weights: expected axis {axis} to be {len(names)}, one a token, got {size}")
        if not self.heads:
            object.__setattr__(self, "heads", tuple(range(n_heads)))
        if len(self.heads) != n_heads:
            raise ArgumentError(f"weights: expected axis n_heads to be {len(self.heads)}, got {n_heads}")

    def select(self, heads: tuple[int, ...]) -> "AttentionMap":
        """The same map with only these heads, in this order.

        Raises:
            ArgumentError: the map has no such head.
        """
        return replace(self, weights=self.weights[[self._row(head) for head in heads]], heads=heads)

    def _row(self, head: int) -> int:
        if head not in self.heads:
            raise ArgumentError(f"expected a head from 0 to {max(self.heads)}, got {head}")
        return self.heads.index(head)


@dataclass(frozen=True)
class Attention:
    """What a source gives to be looked at: maps, in order, and where they come from."""

    source: Source
    maps: tuple[AttentionMap, ...]

    def select(self, heads: tuple[int, ...]) -> "Attention":
        """The same maps with only these heads. Raises ArgumentError if there is no such head."""
        return replace(self, maps=tuple(m if m.heads == heads else m.select(heads) for m in self.maps))
