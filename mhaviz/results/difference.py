"""Difference between two attentions of one text, of two that differ in a word, or of any two by span, and the limit on
it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, parameter
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.results.attention import AttentionMap
from mhaviz.results.result import Result, ShortRepr, Source
from mhaviz.results.span_columns import SpansOfOne

TIED = 1e-5
"""Relative difference below which two changes count as equally large."""


def require_limit(fail_above: float | None) -> None:
    """Raise ArgumentError unless a limit on divergences is None or from 0 to 1 bit."""
    if fail_above is not None and not 0 <= fail_above <= 1:
        raise ArgumentError(f"{parameter('fail_above')}: expected bits from 0 to 1, got {fail_above}")


@dataclass(frozen=True)
class Change:
    """Weight of one query on one key, before and after. Positions are those in the whole input.

    In a pooled map, they are the first positions of a cell, and the weights are those of the cell.
    """

    query: int
    key: int
    before: float
    after: float


@dataclass(frozen=True)
class RowChange:
    """Row that has changed most: the position of its query, and its Jensen–Shannon divergence in bits."""

    query: int
    divergence: float


@dataclass(frozen=True)
class Flaw:
    """Row that is not a distribution, so that its head has no divergence; ``is_second``: in the second attention."""

    query: int
    sum: float
    is_second: bool


@dataclass(frozen=True)
class HeadDifference(ShortRepr):
    """Change of one head of one map.

    Attributes:
        map: the map of changes, ``MapDifference.change``.
        head: index of the head.
        largest: the weight that has changed most; None: no weight differs.
        divergence: Jensen–Shannon divergence between the rows before and after, in bits, from 0 to 1, averaged over the
            rows. Rows that are zeros both before and after, as for padding, are left out. None: some rows are not
            distributions, or no row is left.
        worst: the row with the largest divergence; None: none is above 0.
        flaw: the row whose sum is farthest from 1, if that is why there is no divergence; else None.
        zero_rows: number of rows that are zeros both before and after.
    """

    map: AttentionMap
    head: int
    largest: Change | None
    divergence: float | None = None
    worst: RowChange | None = None
    flaw: Flaw | None = None
    zero_rows: int = 0

    @property
    def size(self) -> float:
        """Size of the largest change; 0 if there is none."""
        return abs(self.largest.after - self.largest.before) if self.largest else 0.0


@dataclass(frozen=True)
class MapDifference(ShortRepr):
    """Change of one map.

    Attributes:
        change: the second map, with the weights of the second minus those of the first: rows sum to 0.
        heads: the change of each head.
        sides: the maps before and after; None: not kept.
        chance: divergence of heads that have nothing to do with each other: mean of that of a head before from another
            head after, in bits. None: unknown, as of a single head.
    """

    change: AttentionMap
    heads: tuple[HeadDifference, ...]
    sides: tuple[AttentionMap, AttentionMap] | None = None
    chance: float | None = None
    only: tuple[SpansOfOne, SpansOfOne] | None = None

    def spans_of_one(self, side: int) -> tuple[str, ...]:
        """Return the spans that one side alone has, 0 or 1; not queries that it has more of, where both see the span as
        keys."""
        if self.only is None:
            return ()
        only = self.only[side]
        queries = (name for name in only.queries if name not in self.change.keys)
        return tuple(dict.fromkeys([*only.keys, *queries]))

    @property
    def divergence(self) -> NDArray[np.float64]:
        """Divergence of each head in bits, (n_heads,); NaN where there is none."""
        return np.array([head.divergence for head in self.heads], np.float64)

    def select(self, heads: tuple[int, ...]) -> "MapDifference":
        """Return the change of only these heads. Raises ArgumentError if there is no such head."""
        change, own = self.change.select(heads), {one.head: one for one in self.heads}
        chosen = tuple(replace(own[head], map=change) for head in heads)
        sides = self.sides and (self.sides[0].select(heads), self.sides[1].select(heads))
        return replace(self, change=change, heads=chosen, sides=sides)


@dataclass(frozen=True)
class Difference(Result):
    """Changes of the maps that two attentions have in common.

    Attributes:
        source: origin of both.
        maps: the changes, in the order of the second attention.
        only_before, only_after: names of the maps that only one of them has.
        fail_above: largest divergence of a head that is allowed, in bits; None: no limit.
    """

    source: Source
    maps: tuple[MapDifference, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    fail_above: float | None = None

    @property
    def ranking(self) -> tuple[HeadDifference, ...]:
        """All heads of all maps, the largest divergence first. Heads without one follow, by their largest change."""
        return tuple(sorted((head for m in self.maps for head in m.heads), key=_rank, reverse=True))

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes the ranking and the unit of divergences."""
        from mhaviz.results.saved_form import describe

        differences = [
            describe(m.change)
            | {
                "divergence": m.divergence,
                "chance": m.chance,
                "worst_row": tuple(head.worst for head in m.heads),
                "zero_rows": tuple(head.zero_rows for head in m.heads),
                "largest": tuple(head.largest for head in m.heads),
                "change": m.change.weights,
            }
            | _sides_by_span(m)
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
        """Return the changes of only these heads; None: all. Raises ArgumentError if there is no such head."""
        if head is None:
            return self
        there = sorted({number for m in self.maps for number in m.change.heads})
        heads = require_numbers("head", head, there, "both have")
        return replace(self, maps=tuple(m.select(heads) for m in self.maps))


def _sides_by_span(m: MapDifference) -> dict[str, Any]:
    """Return the weights of both sides of maps by span, those of uniform attention, the tokens of spans, and what only
    one side has; empty of other maps."""
    if m.only is None or m.sides is None:
        return {}
    sides = {
        name: {
            "weights": side.weights,
            "chance": side.chance,
            "query_token_ranges": side.rows.tokens.ranges,
            "key_token_ranges": side.columns.tokens.ranges,
        }
        for name, side in zip(("first", "second"), m.sides, strict=True)
    }
    return {**sides, "only_first": m.only[0], "only_second": m.only[1]}


def _rank(head: HeadDifference) -> tuple[bool, float]:
    if head.divergence is not None:
        return True, head.divergence
    return False, head.size
