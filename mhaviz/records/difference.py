"""What is not the same in two attentions of the same tokens."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.attention import AttentionMap
from mhaviz.records.source import Source


@dataclass(frozen=True)
class Change:
    """The weight that one query gives to one key, before and after; positions are those of the whole input.

    In a map of cells they are where the cell begins, and the weights are the cell's.
    """

    query: int
    key: int
    before: float
    after: float


@dataclass(frozen=True)
class MapDifference:
    """How one map has changed.

    Attributes:
        change: the second map, but its weights are those of the second minus those of the first: rows sum to 0.
        divergence: float64, (n_heads,): the mean Jensen–Shannon divergence of each head's rows before and after, in
            nats, from 0 to ln 2; None if the rows are no distributions.
        largest: of each head, where its weights have changed most.
    """

    change: AttentionMap
    divergence: NDArray[np.float64] | None
    largest: tuple[Change, ...]


@dataclass(frozen=True)
class HeadDifference:
    """How one head of one map has changed: a row of ``Difference.ranking``."""

    map: AttentionMap
    head: int
    divergence: float | None
    largest: Change


@dataclass(frozen=True)
class Difference:
    """How the maps that two attentions have in common have changed.

    Attributes:
        source: where both come from.
        maps: in the order of the second.
        only_before, only_after: the names of the maps that only one of them has.
    """

    source: Source
    maps: tuple[MapDifference, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def ranking(self) -> tuple[HeadDifference, ...]:
        """Every head of every map: by divergence, the largest first, then those without one by their largest change."""
        heads = [
            HeadDifference(m.change, head, None if m.divergence is None else float(m.divergence[i]), m.largest[i])
            for m in self.maps
            for i, head in enumerate(m.change.heads)
        ]
        return tuple(sorted(heads, key=_unlike, reverse=True))


def _unlike(head: HeadDifference) -> tuple[bool, float]:
    if head.divergence is not None:
        return True, head.divergence
    return False, abs(head.largest.after - head.largest.before)
