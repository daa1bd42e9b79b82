"""Numbers of heads on a page: panels of layers × heads, and the heads ranked as dots and in a table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.tokens import KIND_NAMES
from mhaviz.pages.blocks import Column, Dot, Dots, Matrices, Table
from mhaviz.pages.numbers import fixed
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.attention import head_name
from mhaviz.results.axis import Axis
from mhaviz.results.head_numbers import LEAST_FOR_INTERVAL, REPLICATES, HeadsOfKind

WHISKER = f"95% of the means of {REPLICATES:,} bootstrap replicates over {{}}"
_SIDES = "layer", "head"
_TIED = 1e-9  # relative difference below which two numbers are equal but for rounding
_MOST_OF_IT = 0.5  # a larger share of a row is "most of its weight"


@dataclass(frozen=True)
class Measure:
    """Name, meaning and format of one number of a head.

    Attributes:
        name: name of the number in the result, and title of its column or panel.
        meaning: explanation; "": weight on ``place``.
        unit: name and unit, "entropy, nats". Numbers of one unit share a scale in the page for the browser.
        decimals: decimals of the number.
        low_first: whether heads are ranked from the lowest number on.
        place: for a weight, the keys that it is on: "the first token".
        of: for a share, the number of texts that it is of, which tables then count: "14 of 20"; 0: they do not.
    """

    name: str
    meaning: str = ""
    unit: str = "weight"
    decimals: int = 2
    low_first: bool = False
    place: str = ""
    of: int = 0

    @property
    def is_share(self) -> bool:
        """Whether the number is a share, from 0 to 1; all shares are on one scale."""
        return self.unit in ("weight", "share")

    @property
    def described(self) -> str:
        """The meaning: "weight on the first token"."""
        return self.meaning or f"weight on {self.place}"

    def text(self, number: float) -> str:
        """Return a number as text."""
        return fixed(number, self.decimals)

    def spread(self, number: tuple[float, float]) -> str:
        """Return "0.53±0.12", or "0.53" where the standard deviation is not known, or "14 of 20"."""
        mean, spread = number
        if self.of:
            return f"{round(mean * self.of):,} of {self.of:,}"
        return self.text(mean) + ("" if math.isnan(spread) else f"±{self.text(spread)}")

    def interval(self, ends: tuple[float, float]) -> str:
        """Return "0.51–0.55", or "−0.55 to −0.51" where a dash would stand beside a minus sign."""
        return ("–" if ends[1] >= 0 else " to ").join(map(self.text, ends))


@dataclass(frozen=True)
class Order:
    """Order of heads in a ranking, and how many it has.

    Attributes:
        column: name of the number that heads are ranked by.
        most: number of heads; None: all.
    """

    column: str
    most: int | None = 16


@dataclass(frozen=True)
class Head:
    """One head: a row and a column of the arrays of its kind, (n_layers, n_heads)."""

    of: HeadsOfKind
    row: int
    column: int

    @property
    def name(self) -> str:
        """Name of the head: "L3 H5"."""
        return head_name(self.of.layers[self.row], self.column)

    def name_among(self, kinds: Sequence[HeadsOfKind]) -> str:
        """Return the name among heads of these kinds: "self L3 H5" if there are several."""
        return f"{self.of.kind} " * (len(kinds) > 1) + self.name

    def spread(self, name: str) -> tuple[float, float] | None:
        """Return the mean of a number and its standard deviation between sentences; None: the head has none."""
        return self._pair(name, "mean", "spread")

    def interval(self, name: str) -> tuple[float, float] | None:
        """Return the confidence interval of the mean of a number; None: not known."""
        return self._pair(name, "low", "high")

    def _pair(self, name: str, first: str, second: str) -> tuple[float, float] | None:
        numbers = self.of.number(name).of_head(self.row, self.column)
        return None if math.isnan(numbers[first]) else (numbers[first], numbers[second])


def known_measures(kinds: Sequence[HeadsOfKind], measures: Sequence[Measure]) -> list[Measure]:
    """Return the measures for which some kind has a number; the first one if there are none."""
    known = [measure for measure in measures if any(kind.number(measure.name).is_known for kind in kinds)]
    return known or list(measures[:1])


@dataclass(frozen=True)
class Ranking:
    """Heads of a model, ranked by one of their numbers.

    Attributes:
        kinds: the heads.
        order: their order, and how many of them are shown.
        measures: their numbers.
        texts: what the means are over, "sentences".
        interval: what the intervals of the means are; {} is ``texts``.
        beside: number that stands beside the dots of another; None: none.
        chance: what head has the chance.
    """

    kinds: Sequence[HeadsOfKind]
    order: Order
    measures: Sequence[Measure]
    texts: str
    interval: str = WHISKER
    beside: Measure | None = None
    chance: str = "of a head that weighs all keys alike"

    @cached_property
    def known(self) -> list[Measure]:
        """Measures of the table; see ``known_measures``."""
        return known_measures(self.kinds, self.measures)

    @cached_property
    def measure(self) -> Measure:
        """Measure that the heads are ranked by; the first one if no head has it."""
        return next((measure for measure in self.known if measure.name == self.order.column), self.known[0])

    @property
    def others(self) -> list[Measure]:
        """Measures of the table without ``measure``."""
        return [measure for measure in self.known if measure != self.measure]

    @cached_property
    def heads(self) -> list[Head]:
        """All heads in this order, those without the number last."""
        heads = [Head(kind, row, column) for kind in self.kinds for row, column in kind.heads()]
        sign = 1 if self.measure.low_first else -1

        def place(head: Head) -> tuple[bool, float]:
            number = head.spread(self.order.column)
            return number is None, 0.0 if number is None else sign * number[0]

        return sorted(heads, key=place)

    @property
    def means(self) -> list[tuple[str, float]]:
        """Name and mean of each head that has the number of ``measure``, ranked by it."""
        name = self.measure.name
        heads = replace(self, order=Order(name)).heads
        return [(head.name_among(self.kinds), pair[0]) for head in heads if (pair := head.spread(name))]

    @property
    def heading(self) -> str:
        """Heading of the table: "heads by entropy, lowest first: 16 of 144"."""
        most, name = self.order.most, self.order.column
        of = f": {most:,} of {len(self.heads):,}" if most is not None and most < len(self.heads) else ""
        if name != self.measure.name:
            return f"heads in the order of the model, as no head has a number for {name}{of}"
        return f"heads by {name}, {'lowest' if self.measure.low_first else 'highest'} first{of}"

    def table(self) -> Table:
        """Return the table of ranked heads. Its first number is the one that they are ranked by, with its interval; the
        last rows are the numbers expected by chance."""
        first, texts = self.measure, self.texts
        measures = [first, *self.others]
        heads = self.heads[: self.order.most]
        has_interval = any(head.interval(first.name) for head in heads)
        has_kind = len(self.kinds) > 1

        def row(of: HeadsOfKind, name: str, pairs: Sequence[object], interval: object) -> list[object]:
            return [*[of.kind] * has_kind, name, pairs[0], *[interval] * has_interval, *pairs[1:]]

        rows = [row(h.of, h.name, [h.spread(m.name) for m in measures], h.interval(first.name)) for h in heads]
        chances = {kind.kind: [_chance(kind, measure) for measure in measures] for kind in self.kinds}
        rows += [row(kind, "chance", chances[kind.kind], "") for kind in self.kinds if any(chances[kind.kind])]
        columns = (
            *(Column(name, align="left", is_key=True) for name in ["kind"] * has_kind + ["head"]),
            Column(first.name, first.spread),
            *[Column("95%", first.interval)] * has_interval,
            *(Column(measure.name, measure.spread) for measure in measures[1:]),
        )
        notes = [f"chance: {self.chance}"] * any(map(any, chances.values()))
        if not has_interval and any(kind.number(first.name).sentences > 1 for kind in self.kinds):
            notes.append(f"no 95% interval of fewer than {LEAST_FOR_INTERVAL} {texts}, which would be too narrow")
        notes.append(f"{first.name}: {first.described}")
        notes += [self.interval.format(texts).replace("95%", "95%:", 1)] * has_interval
        if any(pair and not math.isnan(pair[1]) for head in heads for pair in [head.spread(first.name)]):
            notes.append(f"±: standard deviation between {texts}")
        notes += [f"{measure.name}: {_meaning(self.kinds, measure)}" for measure in self.others]
        return Table(columns, tuple(map(tuple, rows)), self.heading, notes="; ".join(notes))

    def plot(self) -> Dots | Table:
        """Return the heads of the table as a dot plot of the number that ranks them; only the table if none has it."""
        measure, dots = self.measure, []
        for head in self.heads[: self.order.most]:
            if pair := head.spread(measure.name):
                chance = getattr(head.of.number(measure.name), "chance", None)
                at = math.nan if chance is None else float(chance[head.row, head.column])
                whisker = head.interval(measure.name) or (math.nan, math.nan)
                beside = head.spread(self.beside.name) if self.beside else None
                note = self.beside.spread(beside) if self.beside and beside else ""
                dots.append(Dot(head.name_among(self.kinds), pair[0], *whisker, at, note))
        notes = [f"whisker: {self.interval.format(self.texts)}"]
        notes = notes * any(not math.isnan(dot.low) for dot in dots)
        notes += [f"grey line: chance, {self.chance}"] * any(not math.isnan(dot.chance) for dot in dots)
        notes += [f"beside: {self.beside.name}, {self.beside.described}"] if self.beside else []
        label = f"{measure.name}: {measure.described}"
        return Dots(self.table(), tuple(dots), label, measure.text, "; ".join(notes)) if dots else self.table()

    def panels(self, scales: Mapping[str, Scale]) -> Iterator[Matrices]:
        """Yield a block for each kind of attention, with a panel of layers × heads for each number that it has."""
        for kind in self.kinds:
            known = sorted(known_measures([kind], self.measures), key=lambda one: one.name != self.order.column)
            title = KIND_NAMES[kind.kind] if len(self.kinds) > 1 else ""
            panels = [_panel(kind, measure, scales[measure.name]) for measure in known]
            yield layers_by_heads(title, kind.layers, panels)

    def lesson(self, model: str) -> str:
        """Return the title, "minilm: 5 of 72 heads put most of their weight on the token before"."""
        measure, heads = self.measure, self.means
        if not heads:
            return f"{model}: {counted(len(self.heads), 'head')}"
        (name, first), means = heads[0], [mean for _, mean in heads]
        n_most, n = sum(mean > _MOST_OF_IT for mean in means), len(means)
        if measure.place and n_most > 1:
            return f"{model}: {n_most:,} of {n:,} heads put most of their weight on {measure.place}"
        if measure.place and n_most:
            who = f"only {name} of {n:,} heads" if n > 1 else name
            return f"{model}: {who} puts most of its weight on {measure.place}"
        what = f"weight on {measure.place}" if measure.place else measure.name
        unit = measure.unit.removeprefix(measure.name).replace(",", "") if measure.unit.startswith(measure.name) else ""
        amount, end = f"{measure.text(first)}{unit}", "lowest" if measure.low_first else "highest"
        if n == 1:
            return f"{model}, {name}: {what} {amount}"
        tied = sum(math.isclose(mean, first, rel_tol=_TIED) for mean in means)
        if tied == n:
            return f"{model}: all {n:,} heads have the same {what}: {amount}"
        who = f"{tied:,} of {n:,} heads have" if tied > 1 else f"{name} of {n:,} heads has"
        return f"{model}: {who} the {end} {what}: {amount}"


def _chance(kind: HeadsOfKind, measure: Measure) -> tuple[float, float] | None:
    """Return the mean over the heads of what is expected by chance, which differs between layers with other keys."""
    chance = getattr(kind.number(measure.name), "chance", None)
    return None if chance is None or not np.isfinite(chance).any() else (float(np.nanmean(chance)), math.nan)


def _meaning(kinds: Sequence[HeadsOfKind], measure: Measure) -> str:
    """Return what a number means, and what is expected by chance: "weight on the token before, 0.07 by chance"."""
    chances = [getattr(kind.number(measure.name), "chance", np.zeros(0)) for kind in kinds]
    known = np.concatenate([chance[np.isfinite(chance)] for chance in chances])
    ends = dict.fromkeys(measure.text(float(end)) for end in (known.min(), known.max())) if known.size else ()
    return measure.described + (f", {' to '.join(ends)} by chance" if ends else "")


def kind_text(kind: HeadsOfKind, about: str) -> str:
    """Return "self-attention: 72 heads, means over 1,000 sentences, 21,400 tokens"; ``about`` follows the heads."""
    return f"{KIND_NAMES[kind.kind]}: {counted(len(list(kind.heads())), 'head')}, {about}"


def _panel(kind: HeadsOfKind, measure: Measure, scale: Scale) -> Panel:
    """Return the means of one number as a panel of layers × heads, with its meaning."""
    mean, chance = kind.number(measure.name).mean.astype(np.float32), _chance(kind, measure)
    at = math.nan if chance is None else chance[0]
    return Panel(measure.name, mean, scale, note=_meaning([kind], measure), chance=at)


def layers_by_heads(title: str, layers: Sequence[int], panels: Sequence[Panel]) -> Matrices:
    """Return a block of panels of (n_layers, n_heads) of one kind of attention; ``title``: see ``Matrices``."""
    rows, columns = Axis.of(map(str, layers)), Axis.numbered(panels[0].values.shape[1])
    return Matrices(title, tuple(panels), rows, columns, len(panels), _SIDES)


def reading_text(numbers: Sequence[NDArray[np.float64]], blank: str = "no such head") -> str:
    """Return how to read panels; ``blank``: what a blank cell is, if there are any."""
    lacking = any(np.isnan(values).any() for values in numbers)
    return "rows are layers, columns heads" + f"; blank: {blank}" * lacking
