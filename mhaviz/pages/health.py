"""Page of the health of attention in a training: curves of four numbers over the passes, and what has collapsed."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Column, Curves, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.registry import HEALTH_SUFFIXES, shown
from mhaviz.pages.training import evenly
from mhaviz.results.head_statistics import SINK_ABOVE
from mhaviz.results.health import ONE_HOT, Collapse, Health, Sign
from mhaviz.units import readable_share, with_minus

_ROWS = 12  # of the table
_MOST_MARKERS = 40  # points of a curve, beyond which it has no markers
_LEAST_SAMPLES = 3  # fewest samples of which it is said that no head has collapsed
_MOST_SAID, _MOST_LISTED = 4, 16  # heads that are named in lines while a program runs, and listed in the table
_LOG_FROM = 100.0  # largest / least number, from which an axis is logarithmic
_WORST, _OTHER = 0, 2  # numbers of colours and markers

_SIGNS: Mapping[Sign, tuple[str, str, str, str]] = {
    "entropy": ("{} has collapsed", "{} have collapsed", "{} collapses", "{} collapse"),
    "scores": (*("scores of {} grow without bound",) * 2, *("Scores of {} grow without bound",) * 2),
    "not finite": (*("weights or scores of {} are not finite",) * 2, *("Weights or scores of {} are not finite",) * 2),
}
"""What is said of a head with a sign of a collapse, and of several heads; in titles, of a head and of several. The most
telling sign comes first."""

_WHEN: Mapping[Sign, str] = {
    "entropy": "entropy falls to 0",
    "scores": "scores grow without bound",
    "not finite": "weights or scores are not finite",
}
"""What the table of the heads with signs is about."""


@dataclass(frozen=True)
class _Measure:
    """One number of heads, as it is shown.

    Attributes:
        name: its name in ``LayerHealth``.
        title: title of its plot.
        heading: heading of its column.
        text: formats it.
        worst: index of the worst of some numbers.
        limits: ends of its axis; None: from the numbers.
        sign: sign of a collapse that it shows; None: none.
    """

    name: str
    title: str
    heading: str
    text: Callable[[float], str]
    worst: Callable[[NDArray[np.float64]], np.intp]
    limits: tuple[float | None, float | None] = (None, None)
    sign: Sign | None = None


def number_text(number: float) -> str:
    """Return a score or an entropy with three digits: "0.0213", "104", "1.2e+05", "NaN"."""
    return "NaN" if math.isnan(number) else with_minus(f"{number:.3g}")


def _argmax(values: NDArray[np.float64]) -> np.intp:
    return np.nanargmax(values)


def _argmin(values: NDArray[np.float64]) -> np.intp:
    return np.nanargmin(values)


_MEASURES = (
    _Measure("largest", "largest score before the softmax", "largest score", number_text, _argmax, sign="scores"),
    _Measure("entropy", "entropy of the weights, in nats", "least entropy", number_text, _argmin, (0, None), "entropy"),
    _Measure("sink", "share of examples with a sink", "sinks", readable_share, _argmax, (0, 1)),
    _Measure("one_hot", "share of rows that are one-hot", "one-hot", readable_share, _argmax, (0, 1)),
)


@dataclass(frozen=True)
class _Course:
    """One number of all heads over all sampled passes.

    Attributes:
        passes: numbers of the passes.
        heads: name of each head.
        values: float64, (n_samples, n_heads), NaN where it is not known or not finite.
    """

    passes: tuple[int, ...]
    heads: tuple[str, ...]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, health: Health, name: str) -> "_Course":
        passes = sorted({int(number) for layer in health.layers for number in layer.passes})
        heads = [health.name_of(layer.kind, layer.layer, head) for layer in health.layers for head in layer.heads]
        values, column = np.full((len(passes), len(heads)), np.nan), 0
        for layer in health.layers:
            width = len(layer.heads)
            values[np.searchsorted(passes, layer.passes), column : column + width] = getattr(layer, name)
            column += width
        return cls(tuple(passes), tuple(heads), np.where(np.isfinite(values), values, np.nan))

    @property
    def known(self) -> list[int]:
        """Places of the passes of which some head's number is known."""
        return [place for place, of_heads in enumerate(self.values) if np.isfinite(of_heads).any()]

    def worst(self, measure: _Measure) -> int | None:
        """Return the column of the head that is worst in the last pass in which any is known; None: none is."""
        return self.worst_at(self.known[-1], measure) if self.known else None

    def worst_at(self, place: int, measure: _Measure) -> int | None:
        """Return the column of the head that is worst in a pass; None: none is known, or all are alike."""
        known = self.values[place][np.isfinite(self.values[place])]
        is_told = known.size and (known.size == 1 or known.min() < known.max())
        return int(measure.worst(self.values[place])) if is_told else None


@shown(Health, HEALTH_SUFFIXES)
def health_page(health: Health) -> Page:
    """Return the page: the four numbers of all heads over the passes, the worst head named, and all that collapsed."""
    courses = {measure.name: _Course.of(health, measure.name) for measure in _MEASURES}
    n_heads = len(courses["entropy"].heads)
    about = (
        f"{counted(n_heads, 'head')} of {counted(len(health.layers), 'attention')}, in each{_ordinal(health.every)} "
        f"of {counted(health.passes, 'pass')}"
    )
    plots = tuple(_plot(health, measure, courses[measure.name]) for measure in _MEASURES)
    blocks: tuple[Block, ...] = Text((about,), "subtitle"), Curves(plots, _table(health, courses))
    if health.collapses:
        blocks = *blocks, _collapses(health)
    return Page(_answer(health, n_heads), blocks, health.source.footnote)


def collapse_lines(new: Sequence[Collapse], number: int, of_several_kinds: bool) -> Iterator[str]:
    """Iterate over lines that say what has been found in a pass, "pass 400: L1 H3 has collapsed since pass 350: entropy
    0.02 of 3.2 nats (2.1 at pass 0)", or of many heads "pass 400: 12 heads have collapsed since pass 350: L0 H0, L0 H1,
    L0 H2, …".

    Args:
        new: what has been found.
        number: number of the pass.
        of_several_kinds: whether there are attentions of other kinds.
    """
    for sign, (of_one, of_many, *_) in _SIGNS.items():
        heads = {_name(collapse, of_several_kinds): collapse for collapse in new if collapse.sign == sign}
        if len(heads) > _MOST_SAID:
            first = min(collapse.pass_number for collapse in heads.values())
            names = ", ".join([*heads][: _MOST_SAID - 1])
            yield f"pass {number:,}: {of_many.format(f'{len(heads):,} heads')}{_since(first, number)}: {names}, …"
            continue
        for name, collapse in heads.items():
            since = _since(collapse.pass_number, number)
            yield f"pass {number:,}: {of_one.format(name)}{since}{_sign_text(collapse)}"


def _since(first: int, number: int) -> str:
    return f" since pass {first:,}" * (first != number)


def _name(collapse: Collapse, of_several_kinds: bool) -> str:
    return f"{collapse.kind} " * of_several_kinds + collapse.name


def _sign_text(collapse: Collapse) -> str:
    """Return what tells a collapse: ": entropy 0.02 of 3.2 nats (2.1 at pass 0)"; "" where no number does."""
    is_told = not math.isnan(collapse.before) and collapse.before_pass != collapse.pass_number
    before = f" ({number_text(collapse.before)} at pass {collapse.before_pass:,})" * is_told
    if collapse.sign == "entropy":
        return f": entropy {number_text(collapse.value)} of {number_text(collapse.uniform)} nats{before}"
    if collapse.sign == "scores":
        return f": the largest is {number_text(collapse.value)}{before}"
    # What is NaN may be weights alone, whose scores are finite or not known.
    return f": the largest score is {number_text(collapse.value)}{before}" * math.isinf(collapse.value)


def _ordinal(every: int) -> str:
    """Return " 50th"; "" for 1."""
    if every == 1:
        return ""
    ending = "th" if every % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
    return f" {every:,}{ending}"


def _answer(health: Health, n_heads: int) -> str:
    """Return the title: which heads have collapsed first, and when, or that none has."""
    if not health.collapses:
        passes, sharp = counted(health.passes, "pass"), health.sharp_from_start
        if sharp:
            which = sharp[0] if len(sharp) == 1 else f"{len(sharp):,} of {n_heads:,} heads"
            are, ones = ("is", "a collapsed one") if len(sharp) == 1 else ("are", "collapsed ones")
            return f"{which} {are} as sharp as {ones} from the first of {passes} on"
        if health.n_samples < _LEAST_SAMPLES:
            return f"{counted(health.n_samples, 'sample')} of {passes}: too few to tell whether a head collapses"
        heads = f"None of {n_heads:,} heads has" if n_heads > 1 else "The head has not"
        return f"{heads} collapsed in {passes}"
    first = _first(health)
    alike = [collapse for collapse in health.collapses if collapse.sign == first.sign]
    together = [collapse for collapse in alike if collapse.pass_number == first.pass_number]
    at_once = [_name(collapse, len(health.kinds) > 1) for collapse in together]
    names = at_once if len(at_once) <= _MOST_SAID else [f"{len(at_once):,} of {n_heads:,} heads"]
    who = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    what = f"{_SIGNS[first.sign][2 + (len(at_once) > 1)].format(who)} at pass {first.pass_number:,}"
    if len(alike) > len(at_once):
        return f"{what}, the first of {len(alike):,} of {n_heads:,} heads"
    return what + _sign_text(first) * (len(alike) == 1)


def _first(health: Health) -> Collapse:
    """Return the first collapse of the most telling sign."""
    return min(health.collapses, key=lambda collapse: ([*_SIGNS].index(collapse.sign), collapse.pass_number))


def _collapses(health: Health) -> Table:
    """Return a table of the heads that have collapsed, with the pass of each sign."""
    by_head: dict[str, dict[str, Collapse]] = {}
    for collapse in sorted(health.collapses, key=lambda collapse: collapse.pass_number):
        by_head.setdefault(_name(collapse, len(health.kinds) > 1), {})[collapse.sign] = collapse
    columns = (
        Column("head", align="left", is_key=True),
        Column("at pass", "{:,}".format, is_key=True),
        Column("entropy", number_text),
        Column("of", number_text),
        Column("scores grow at pass", "{:,}".format),
        Column("to a score of", number_text),
        Column("not finite from", "{:,}".format),
    )
    rows = []
    for name, signs in by_head.items():
        entropy, scores, nan = map(signs.get, ("entropy", "scores", "not finite"))
        of_entropy = (entropy.pass_number, entropy.value, entropy.uniform) if entropy else (None, None, None)
        of_scores = (scores.pass_number, scores.value) if scores else (None, None)
        rows.append((name, *of_entropy, *of_scores, nan.pass_number if nan else None))
    filled = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    chosen = tuple(tuple(row[place] for place in filled) for row in rows)
    return Table(
        tuple(columns[place] for place in filled),
        chosen,
        ", and ".join(
            f"when {what}" for sign, what in _WHEN.items() if any(sign in signs for signs in by_head.values())
        ),
        most=_MOST_LISTED,
    )


def _plot(health: Health, measure: _Measure, course: _Course) -> Plot:
    """Plot one number: the median of all heads with the range of all, the head that is worst at the end, and the first
    that has collapsed."""
    named = {} if (worst := course.worst(measure)) is None else {worst: _OTHER}
    marks: tuple[tuple[float, float, str], ...] = ()
    if health.collapses:
        first = _first(health)
        named[course.heads.index(_name(first, len(health.kinds) > 1))] = _WORST
        if first.sign == measure.sign:
            marks = ((float(first.pass_number), first.value, f"pass {first.pass_number:,}"),)
    places = course.known
    passes = tuple(float(course.passes[place]) for place in places)
    has_markers = len(places) <= _MOST_MARKERS
    series = []
    if len(course.heads) > 1:
        values = course.values[places]
        middle = tuple(np.nanmedian(values, axis=1).tolist())
        band = tuple(zip(np.nanmin(values, axis=1).tolist(), np.nanmax(values, axis=1).tolist(), strict=True))
        series.append(Series("median", passes, middle, None, None, band))
    if measure.name == "entropy":
        uniform = _Course.of(health, "uniform").values[places]
        series.append(Series("uniform", passes, tuple(np.nanmedian(uniform, axis=1).tolist()), line="dotted"))
    for column, colour in named.items():
        ys = tuple(None if math.isnan(y) else y for y in course.values[places, column].tolist())
        series.append(Series(course.heads[column], passes, ys, colour, colour if has_markers else None))
    x = PlotAxis("pass", unit="{:,.0f}".format, limits=(0, None))
    notes = ("band: from the least to the largest of all heads",) * (len(course.heads) > 1)
    return Plot(measure.title, tuple(series), x, _axis(measure, course), marks, notes=(*notes, *_meaning(measure)))


def _meaning(measure: _Measure) -> tuple[str, ...]:
    if measure.name == "sink":
        return (f"sink: the mean weight on the first key is above {SINK_ABOVE:g}",)
    if measure.name == "one_hot":
        return (f"one-hot: the largest weight is above {ONE_HOT:g}",)
    return ()


def _axis(measure: _Measure, course: _Course) -> PlotAxis:
    """Return the axis of a number, which is logarithmic where scores grow by far."""
    known = course.values[np.isfinite(course.values)]
    if measure.name == "largest" and known.size and known.min() > 0 and known.max() > _LOG_FROM * known.min():
        return PlotAxis(log=10, unit="{:,g}".format)
    return PlotAxis(limits=measure.limits)


def _table(health: Health, courses: Mapping[str, _Course]) -> Table:
    """Return the worst number of all heads in some of the sampled passes, among them that of the first collapse."""
    course = courses["entropy"]
    columns = [Column("pass", "{:,}".format, is_key=True)]
    for measure in _MEASURES:
        columns += [Column(measure.heading, measure.text), Column("head", align="left")]
    rows = []
    first = {course.passes.index(_first(health).pass_number)} if health.collapses else set[int]()
    for place in sorted({*evenly(range(len(course.passes)), _ROWS)} | first):
        row: list[object] = [course.passes[place]]
        for measure in _MEASURES:
            values, worst = courses[measure.name].values[place], courses[measure.name].worst_at(place, measure)
            known = values[np.isfinite(values)]
            row += [float(known[measure.worst(known)]) if known.size else None]
            row += [None if worst is None else course.heads[worst]]
        rows.append(tuple(row))
    notes = "of all heads: the largest score before the softmax, and so on, with the head that has it"
    return Table(tuple(columns), tuple(rows), notes=notes)
