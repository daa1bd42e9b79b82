"""Heads that turn from one span of a text to another: more than uniform attention would, and with some weight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.tokens import OF_ONE_TEXT
from mhaviz.results.attention import AttentionMap, head_name
from mhaviz.results.means import mean_text

TURNS = 2.0
"""Least weight / that of uniform attention of a head that turns to a span."""

LEAST_MASS = 0.05
"""Least weight of such a head: a short span can be many times uniform at little weight."""


@dataclass(frozen=True)
class SpanWeight:
    """Weight that queries of one span give to another, in a head or as the mean of heads.

    Attributes:
        query, key: places of the spans among rows and columns.
        mass: the weight.
        chance: what uniform attention gives, as ``SpanNumbers`` has it.
        name: name of the head, "L3 H7"; of a mean, "layer 3" or "".
        place: index of its map, and of its matrix in the map; None: it is a mean of all.
    """

    query: int
    key: int
    mass: float
    chance: float
    name: str = ""
    place: tuple[int, int] | None = None

    @property
    def times_uniform(self) -> float:
        """The weight / that of uniform attention."""
        return self.mass / self.chance

    @property
    def is_told(self) -> bool:
        """Whether its weight is enough to be named."""
        return self.mass >= LEAST_MASS

    @property
    def turns(self) -> bool:
        """Whether the head turns to the span."""
        return self.is_told and self.times_uniform >= TURNS


@dataclass(frozen=True, eq=False)
class SpanHeads:
    """All heads of one text in one kind of attention, by span.

    ``maps``: the maps of its layers, with ``chance``.
    """

    maps: Sequence[AttentionMap]

    @property
    def first(self) -> AttentionMap:
        """A map with the spans of all."""
        return self.maps[0]

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Columns that are spans: neither sinks nor the rest."""
        assert self.first.chance is not None
        return tuple(np.flatnonzero(~np.isnan(self.first.chance).all(axis=(0, 1))).tolist())

    @property
    def n_matrices(self) -> int:
        """Number of heads, or of means."""
        return sum(len(m.weights) for m in self.maps)

    @property
    def name(self) -> str:
        """What the mean over all matrices is: "mean of 72 heads"; of one, its name."""
        if self.n_matrices == 1:
            return mean_text(self.first.mean_over) or _name(self.first, self.first.heads[0])
        what = counted(self.n_matrices, "layer" if self.first.quantity.of_all_heads else "head")
        over = mean_text(self.first.mean_over, with_heads=False)
        return f"mean of {what}" + f", {over}" * bool(over)

    @cached_property
    def mass(self) -> NDArray[np.float64]:
        """Mean weight over all heads, (rows, columns)."""
        return _mean([m.weights for m in self.maps])

    @cached_property
    def chance(self) -> NDArray[np.float64]:
        """Mean over all heads of what uniform attention gives, (rows, columns)."""
        return _mean([m.chance for m in self.maps if m.chance is not None])

    def mean(self, query: int, key: int) -> SpanWeight | None:
        """Return the mean over all heads; None: the queries see none of the keys."""
        chance = float(self.chance[query, key])
        return SpanWeight(query, key, float(self.mass[query, key]), chance) if chance > 0 else None

    def heads(self, query: int, key: int) -> Iterator[SpanWeight]:
        """Iterate over what each head gives, as far as the queries see some of the keys."""
        for number, m in enumerate(self.maps):
            assert m.chance is not None
            numbers = zip(m.heads, m.weights[:, query, key], m.chance[:, query, key], strict=True)
            for row, (head, mass, chance) in enumerate(numbers):
                if chance > 0:
                    yield SpanWeight(query, key, float(mass), float(chance), _name(m, head), (number, row))

    def strongest(self, query: int, key: int) -> SpanWeight | None:
        """Return the head with the largest weight / uniform among those with enough weight; None: none has."""
        told = (one for one in self.heads(query, key) if one.is_told)
        return max(told, key=lambda one: one.times_uniform, default=None)

    def is_itself(self, query: int, key: int) -> bool:
        """Whether a row and a column are the same span of one text."""
        queries, keys = self.first.rows.tokens.ranges[query], self.first.columns.tokens.ranges[key]
        have_token = any(a < d and c < b for a, b in queries for c, d in keys)
        return have_token and self.first.kind in OF_ONE_TEXT

    def others(self, query: int) -> Iterator[int]:
        """Iterate over the columns of other spans than that of the queries."""
        return (key for key in self.keys if not self.is_itself(query, key))

    def best(self) -> SpanWeight | None:
        """Return the head with the largest weight / uniform from some span to another, with enough weight."""
        rows = range(len(self.first.rows))
        found = (self.strongest(query, key) for query in rows for key in self.others(query))
        return max(filter(None, found), key=lambda one: one.times_uniform, default=None)

    def lookback(self, query: int) -> NDArray[np.float64]:
        """Return the lookback ratio of each head for the queries of a span, (n_heads,); empty: they have none."""
        ratios = [m.lookback[:, query] for m in self.maps if m.lookback is not None]
        found = np.concatenate([np.zeros(0), *ratios]).astype(np.float64)
        return found[np.isfinite(found)]


def _name(m: AttentionMap, head: int) -> str:
    """Return the name of a head; of a mean over heads, that of its layer, or "" of several."""
    if not m.quantity.of_all_heads:
        return head_name(m.layer, head)
    return "" if m.layer is None else f"layer {m.layer}"


def _mean(of_maps: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    n_heads = sum(map(len, of_maps))
    total: NDArray[np.float64] = np.sum([one.sum(axis=0, dtype=np.float64) for one in of_maps], axis=0)
    return total / n_heads


def shares_of(m: AttentionMap) -> NDArray[np.float64]:
    """Return the weights of a map, (n_heads, rows, columns); NaN where queries see no key of a span."""
    assert m.chance is not None
    return np.where(m.chance == 0, np.nan, m.weights.astype(np.float64))


def ratios_of(m: AttentionMap) -> NDArray[np.float64]:
    """Return the weights of a map / those of uniform attention, (n_heads, rows, columns); see ``ratios``."""
    assert m.chance is not None
    return ratios(m.weights.astype(np.float64), m.chance.astype(np.float64))


def ratios(mass: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights / those of uniform attention; NaN for sinks, for the rest, and where queries see no key."""
    return np.divide(mass, chance, out=np.full_like(mass, np.nan), where=chance > 0)
