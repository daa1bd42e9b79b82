"""What is not the same in two attentions of the same tokens, and how much may differ."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.results.attention import AttentionMap
from mhaviz.results.result import Result, ShortRepr, Source


@dataclass(frozen=True)
class Limits:
    """The largest divergences that are allowed, in bits, from 0 to 1; None: any.

    Attributes:
        mean: of a head: the mean of its rows, and over several sentences the mean of these.
        row: of any single row of a head.

    Raises:
        ArgumentError: a number that is not from 0 to 1.
    """

    mean: float | None = None
    row: float | None = None

    def __post_init__(self) -> None:
        for name, most in (("fail_above", self.mean), ("fail_above_row", self.row)):
            if most is not None and not 0 <= most <= 1:
                raise ArgumentError(f"{parameter(name)}: expected bits from 0 to 1, got {most}")

    @property
    def are_given(self) -> bool:
        """Whether there is a limit at all."""
        return self.mean is not None or self.row is not None


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
class RowChange:
    """The query whose row has changed most, and by how much: the Jensen–Shannon divergence of the row, in bits."""

    query: int
    divergence: float


@dataclass(frozen=True)
class Flaw:
    """A row that is no distribution, so that its head has no divergence: what it sums to, and in which of both."""

    query: int
    sum: float
    is_second: bool


@dataclass(frozen=True)
class HeadDifference(ShortRepr):
    """How one head of one map has changed.

    Attributes:
        map: of the changes: ``MapDifference.change``.
        head: its number.
        largest: where its weights have changed most; None if no weight differs.
        divergence: the mean Jensen–Shannon divergence of the head's rows before and after, in bits, from 0 to 1; None
            if some rows are no distributions. Rows that are zeros both before and after, as of padding, do not count;
            None if no row does.
        worst: the row with the largest divergence; None if none is above 0.
        flaw: the row that sums least nearly to 1, if that is why there is no divergence.
        zero_rows: how many rows are zeros before and after.
    """

    map: AttentionMap
    head: int
    largest: Change | None
    divergence: float | None = None
    worst: RowChange | None = None
    flaw: Flaw | None = None
    zero_rows: int = 0


@dataclass(frozen=True)
class MapDifference(ShortRepr):
    """How one map has changed.

    Attributes:
        change: the second map, but its weights are those of the second minus those of the first: rows sum to 0.
        heads: how each head has.
        sides: the map before, and that after; None: they are not kept.
    """

    change: AttentionMap
    heads: tuple[HeadDifference, ...]
    sides: tuple[AttentionMap, AttentionMap] | None = None

    @property
    def divergence(self) -> NDArray[np.float64]:
        """That of each head, (n_heads,); NaN where there is none."""
        return np.array([head.divergence for head in self.heads], np.float64)

    def select(self, heads: tuple[int, ...]) -> "MapDifference":
        """The same with only these heads. Raises ArgumentError if there is no such head."""
        change, own = self.change.select(heads), {one.head: one for one in self.heads}
        chosen = tuple(replace(own[head], map=change) for head in heads)
        return MapDifference(change, chosen, self.sides and (self.sides[0].select(heads), self.sides[1].select(heads)))


@dataclass(frozen=True)
class Difference(Result):
    """How the maps that two attentions have in common have changed.

    Attributes:
        source: where both come from.
        maps: in the order of the second.
        only_before, only_after: the names of the maps that only one of them has.
        limits: how much may have changed.
    """

    source: Source
    maps: tuple[MapDifference, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def ranking(self) -> tuple[HeadDifference, ...]:
        """Every head of every map: by divergence, the largest first, then those without one by their largest change."""
        return tuple(sorted((head for m in self.maps for head in m.heads), key=_unlike, reverse=True))

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; with the ranking, and the unit of divergences."""
        from mhaviz.results.saved_form import describe

        differences = [
            describe(m.change)
            | {
                "divergence": m.divergence,
                "worst_row": tuple(head.worst for head in m.heads),
                "zero_rows": tuple(head.zero_rows for head in m.heads),
                "largest": tuple(head.largest for head in m.heads),
                "change": m.change.weights,
            }
            for m in self.maps
        ]
        ranking = [
            {
                "map": one.map.name,
                "head": one.head,
                "divergence": one.divergence,
                "worst_row": one.worst and one.worst.divergence,
            }
            for one in self.ranking
        ]
        only = {"only_first": self.only_before, "only_second": self.only_after}
        return {"unit": "bits", "bound": 1, "differences": differences, "ranking": ranking} | only

    def select(self, head: Numbers) -> "Difference":
        """The same with only these heads; None: all. Raises ArgumentError if there is no such head."""
        if head is None:
            return self
        there = sorted({number for m in self.maps for number in m.change.heads})
        heads = require_numbers("head", head, there, "what is in both has")
        return replace(self, maps=tuple(m.select(heads) for m in self.maps))


def _unlike(head: HeadDifference) -> tuple[bool, float]:
    if head.divergence is not None:
        return True, head.divergence
    return False, abs(head.largest.after - head.largest.before) if head.largest else 0.0
