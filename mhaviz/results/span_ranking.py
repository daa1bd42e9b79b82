"""Heads that turn from one span of a text to another: more than uniform attention would, and with some weight."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.tokens import OF_ONE_TEXT, Tokens
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
    def turns(self) -> bool:
        """Whether the head turns to the span."""
        return self.mass >= LEAST_MASS and self.times_uniform >= TURNS


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
        return tuple(np.flatnonzero(~self.first.are_apart).tolist())

    @property
    def n_matrices(self) -> int:
        """Number of heads, or of means."""
        return sum(len(m.weights) for m in self.maps)

    @property
    def noun(self) -> str:
        """What a matrix is of: "head", or "layer" where heads are averaged."""
        return "layer" if self.first.quantity.of_all_heads else "head"

    @property
    def name(self) -> str:
        """What the mean over all matrices is: "mean of 72 heads"; of one, its name."""
        if self.n_matrices == 1:
            return mean_text(self.first.mean_over) or _name(self.first, self.first.heads[0])
        what = counted(self.n_matrices, self.noun)
        over = mean_text(self.first.mean_over, with_heads=False)
        return f"mean of {what}" + f", {over}" * bool(over)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each matrix: "L3 H7"; of a mean, "layer 3" or ""."""
        return tuple(_name(m, head) for m in self.maps for head in m.heads)

    def masses(self, query: int, key: int) -> NDArray[np.float64]:
        """Return the weight in each matrix, (n_matrices,)."""
        return np.concatenate([m.weights[:, query, key] for m in self.maps]).astype(np.float64)

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

    @cached_property
    def _ranked(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each row and column: the largest weight / that of uniform attention of a head with enough weight, −1 if
        none has; the number of that head among all; and how many heads turn there, (rows, columns) each."""
        shape = self.first.weights.shape[1:]
        best, heads, turning = np.full(shape, -1.0), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        number = 0
        for m in self.maps:
            for ratio, mass in zip(ratios_of(m), m.weights, strict=True):
                told = np.where(np.isfinite(ratio) & (mass >= LEAST_MASS), ratio, -1.0)
                heads[told > best] = number
                best = np.maximum(best, told)
                turning += told >= TURNS
                number += 1
        return best, heads, turning

    def n_turning(self, query: int, key: int) -> int:
        """Return the number of heads that turn from a span to another."""
        return int(self._ranked[2][query, key])

    def strongest(self, query: int, key: int) -> SpanWeight | None:
        """Return the head with the largest weight / uniform among those with enough weight; None: none has."""
        best, heads, _ = self._ranked
        if best[query, key] < 0:
            return None
        number = int(heads[query, key])
        for place, m in enumerate(self.maps):
            if number < len(m.weights):
                assert m.chance is not None
                mass, chance = (float(x[number, query, key]) for x in (m.weights, m.chance))
                return SpanWeight(query, key, mass, chance, _name(m, m.heads[number]), (place, number))
            number -= len(m.weights)
        raise AssertionError

    @cached_property
    def _is_other(self) -> NDArray[np.bool_]:
        """Whether a column is another span than its row is, (rows, columns)."""
        is_other = np.zeros((len(self.first.rows), len(self.first.columns)), np.bool_)
        is_other[:, list(self.keys)] = True
        for query in range(len(self.first.rows)):
            if (itself := self.itself(query)) is not None:
                is_other[query, itself] = False
        return is_other

    def itself(self, query: int) -> int | None:
        """Return the column of the span that a row is of; None: it has none, or the keys are of another text.

        Names tell it, as positions of queries may be counted from another token than those of keys; positions tell
        spans of one name apart.
        """
        if self.first.kind not in OF_ONE_TEXT:
            return None
        name, end = self.first.queries[query], _end(self.first.rows.tokens, query)
        named = self._named[name]
        if len(named) == 1 == self._n_named[name]:
            return named[0]
        return next((key for key in named if _end(self.first.columns.tokens, key) == end), None)

    @cached_property
    def _named(self) -> Mapping[str, Sequence[int]]:
        """Columns of spans by their names."""
        named = defaultdict[str, list[int]](list)
        for key in self.keys:
            named[self.first.keys[key]].append(key)
        return named

    @cached_property
    def _n_named(self) -> Counter[str]:
        """Number of rows of each name."""
        return Counter(self.first.queries)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of a span and another that it sees some of."""
        return int((self._is_other & (self.chance > 0)).sum())

    def strongest_keys(self, query: int, most: int) -> list[int]:
        """Return at most ``most`` columns that are spans, in their order: those to which some head gives the most ×
        uniform, as far as one gives them enough weight, and then those with the largest mean weight."""
        best = self._ranked[0][query]
        order = sorted(self.keys, key=lambda key: (-best[key], -self.mass[query, key]))
        return sorted(order[:most])

    def ranking(self) -> Iterator[SpanWeight]:
        """Iterate over the pairs of a span and another, each with its strongest head, by weight / uniform."""
        best = np.where(self._is_other, self._ranked[0], -1.0)
        order = np.argsort(-best, axis=None, kind="stable")[: int((best >= 0).sum())]
        for place in order.tolist():
            query, key = divmod(place, best.shape[1])
            strongest = self.strongest(query, key)
            assert strongest is not None
            yield strongest

    @cached_property
    def best(self) -> SpanWeight | None:
        """The head with the largest weight / uniform from some span to another, with enough weight; None: none has."""
        return next(self.ranking(), None)

    def lookback(self, query: int) -> NDArray[np.float64]:
        """Return the lookback ratio of each head for the queries of a span, (n_heads,); empty: they have none."""
        ratios = [m.lookback[:, query] for m in self.maps if m.lookback is not None]
        found = np.concatenate([np.zeros(0), *ratios]).astype(np.float64)
        return found[np.isfinite(found)]


def _end(tokens: Tokens, span: int) -> int:
    """Return the position after the last token of a span."""
    return tokens.ranges[span][-1][1]


def _name(m: AttentionMap, head: int) -> str:
    """Return the name of a head; of a mean over heads, that of its layer, or "" of several."""
    if not m.quantity.of_all_heads:
        return head_name(m.layer, head)
    return "" if m.layer is None else f"layer {m.layer}"


def _mean(of_maps: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    n_heads = sum(map(len, of_maps))
    total: NDArray[np.float64] = np.sum([one.sum(axis=0, dtype=np.float64) for one in of_maps], axis=0)
    return total / n_heads


def ratios_of(m: AttentionMap) -> NDArray[np.float64]:
    """Return the weights of a map / those of uniform attention, (n_heads, rows, columns); see ``ratios``."""
    assert m.chance is not None
    return ratios(m.weights.astype(np.float64), m.chance.astype(np.float64))


def ratios(mass: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights / those of uniform attention; NaN for sinks, for the rest, and where queries see no key."""
    return np.divide(mass, chance, out=np.full_like(mass, np.nan), where=chance > 0)
