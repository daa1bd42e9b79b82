"""What every head looks at: a layers × heads panel of each number, and the heads ranked."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Block, Column, Page, Panels, Table, Text
from mhaviz.pages.head_distributions import distribution_panels
from mhaviz.pages.head_distributions import reading_text as distribution_text
from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.words import counted, left_out_text, one_text, texts_of
from mhaviz.records.axis import Axis
from mhaviz.records.head_numbers import LEAST_FOR_INTERVAL
from mhaviz.records.head_statistics import OF_A_NEEDLE, SINK_ABOVE, HeadAverages, HeadStatistics
from mhaviz.records.quantity import NORM
from mhaviz.records.tokens import KIND_NAMES, OF_ONE_TEXT

CHANCE = "chance: of a head that weighs all keys alike"
IN_MODEL_ORDER = "layer"
_UP_TO_1 = ("weight", "share")
_OF_MANY = ("sink", *OF_A_NEEDLE)
_DISTRIBUTIONS = 6  # heads
_ACROSS = 5  # panels side by side where several kinds are to have cells of one size
_ACROSS_OF_ONE_KIND = 4  # three rows, beside which the bars have room


@dataclass(frozen=True)
class Measure:
    """How one of the numbers in ``HeadAverages`` is called and written.

    Attributes:
        name, short: over a column.
        meaning: in a few words.
        meaning_of_norms: the same of shares of norms in place of weights; "" where it is the same.
        unit: what it is counted in; it tells which numbers share a scale.
        decimals: of the number in a cell.
        low_first: whether the lowest is what people look for.
    """

    name: str
    short: str
    meaning: str
    unit: str = "weight"
    decimals: int = 2
    low_first: bool = False
    meaning_of_norms: str = ""

    def told(self, are_of_norms: bool = False) -> str:
        """Its meaning, which of a weight says what lies there in the notes of several."""
        return (are_of_norms and self.meaning_of_norms) or self.meaning

    def told_alone(self, are_of_norms: bool = False) -> str:
        """Its meaning, where it stands by itself: "weight on the first token"."""
        told = self.told(are_of_norms)
        return f"{'share' if are_of_norms else 'weight'} {told}" if self.unit == "weight" else told


COLUMNS = (
    Measure(
        "entropy",
        "entr",
        "−Σ a ln a of a row of weights a, in nats",
        "entropy, nats",
        low_first=True,
        meaning_of_norms="−Σ a ln a of a row of shares a, in nats",
    ),
    Measure("distance", "dist", "Σ a |i − j| of query i and keys j, in tokens", "distance, tokens", decimals=1),
    Measure("itself", "self", "on the query's own position"),
    Measure("previous", "prev", "on the token before"),
    Measure("next", "next", "on the token after"),
    Measure("first", "first", "on the first token"),
    Measure("separators", "sep", "on special tokens such as [SEP]"),
    Measure("copies", "copy", "on earlier copies of the query's token"),
    Measure("induction", "ind", "on what followed earlier copies of the query's token"),
    Measure("sink", "sink", f"how often the mean of first is above {SINK_ABOVE:g}", "share"),
    Measure(
        "retrieval",
        "retr",
        "share of a needle's tokens that get the largest weight where they are read",
        "share",
        meaning_of_norms="share of a needle's tokens that get the largest norm where they are read",
    ),
    Measure("needle", "ndl", "on the token of the needle that is read"),
)
"""The numbers, in their order."""

OF_ONE_SENTENCE = tuple(measure for measure in COLUMNS if measure.name not in _OF_MANY)
"""Those that one sentence's map has by itself; the others are of many, or of a needle."""


@dataclass(frozen=True)
class Order:
    """Which heads stand first in a table, and how many are in it.

    Attributes:
        column: by the name in ``COLUMNS``, or ``IN_MODEL_ORDER``.
        reverse: the other end first.
        most: rows; None: all heads.
    """

    column: str = COLUMNS[0].name
    reverse: bool = False
    most: int | None = None

    @property
    def low_first(self) -> bool:
        """Whether the lowest number stands first."""
        by_number = [column.low_first for column in COLUMNS if column.name == self.column]
        return (by_number[0] if by_number else True) != self.reverse


@dataclass(frozen=True)
class Head:
    """A head, at a row and a column of the arrays of its kind."""

    averages: HeadAverages
    row: int
    column: int

    def mean(self, name: str) -> float:
        """One of its numbers."""
        return float(self.averages.average(name).mean[self.row, self.column])

    def spread(self, name: str) -> tuple[float, float] | None:
        """The same, and its standard deviation between sentences; None where there is no number."""
        if math.isnan(self.mean(name)):
            return None
        return self.mean(name), float(self.averages.average(name).spread[self.row, self.column])

    def interval(self, name: str) -> tuple[float, float] | None:
        """Between what the mean lies; None where that is not known."""
        average = self.averages.average(name)
        low, high = (float(end[self.row, self.column]) for end in (average.low, average.high))
        return None if math.isnan(low) else (low, high)

    def counts(self, name: str) -> NDArray[np.int64]:
        """How many sentences have a number in each bin, (n_bins,)."""
        counts: NDArray[np.int64] = self.averages.average(name).counts[self.row, self.column]
        return counts


USUAL_ORDER = Order(most=16)
"""What the terminal has room for."""


def head_statistics_page(statistics: HeadStatistics, order: Order = USUAL_ORDER) -> Page:
    """The means of all numbers; weights share one scale, from 0 to 1, entropy and distance have their own."""
    s, measures = statistics, known_columns(statistics.kinds)
    scales = measure_scales(s)
    counts, left_out = (tuple(filter(None, [text])) for text in (counts_text(s), left_out_text(s.too_long)))
    blocks: tuple[Block, ...] = (
        *(_panels(s, kind, scales, order) for kind in s.kinds),
        *_distributions(s, order),
        Text((*chance_texts(s), notes(measures, are_of_norms=s.are_of_norms)), "quiet", "drawn"),
        ranking_table(s, order),
        Text((*counts, *sink_texts(s), *filter(None, [s.source.remark])), "quiet"),
        Text(left_out, "quiet", "listed"),
    )
    return Page("", blocks, s.source.footnote, "; ".join([reading_text(s), *left_out]))


def _panels(statistics: HeadStatistics, kind: HeadAverages, scales: dict[str, Scale], order: Order) -> Panels:
    panels = tuple(
        Panel(measure.name, kind.average(measure.name).mean.astype(np.float32), scales[measure.name])
        for measure in COLUMNS
        if kind.average(measure.name).is_known
    )
    rows, columns = Axis.of(map(str, kind.layers)), Axis.of(map(str, range(kind.entropy.mean.shape[1])))
    across = min(_ACROSS if len(statistics.kinds) > 1 else _ACROSS_OF_ONE_KIND, len(panels))
    more = "-o heads.png has {} more".format
    about, caption = _title_and_subtitle(statistics, kind), reading_text(statistics)
    return Panels(
        about[0], panels, rows, columns, order.column, across, ("layer", "head"), caption, more, subtitle=about[1]
    )


def measure_scales(statistics: HeadStatistics) -> dict[str, Scale]:
    """The scale of each number, one for all kinds: weights and shares from 0 to 1, the others up to the largest."""
    ends = {}
    for measure in known_columns(statistics.kinds):
        largest = max(float(np.nanmax(kind.average(measure.name).mean, initial=0.0)) for kind in statistics.kinds)
        if measure.unit in _UP_TO_1:
            high, name = 1.0, "share of norms" if statistics.are_of_norms else "weight, share"
        else:
            high, name = largest or 1.0, measure.unit
        ends[measure.name] = Scale(high=high, decimals=measure.decimals, zeros=True, name=name)
    return ends


def _distributions(statistics: HeadStatistics, order: Order) -> list[Block]:
    """Of the number that heads are ordered by, of the first heads; none of a single sentence."""
    known = known_columns(statistics.kinds)
    measure = next((measure for measure in known if measure.name == order.column), known[0])
    heads = ranked(statistics, replace(order, column=measure.name))[: min(order.most or _DISTRIBUTIONS, _DISTRIBUTIONS)]
    rows = {_label(statistics, head, measure): head.counts(measure.name) for head in heads if head.spread(measure.name)}
    if all(counts.sum() < 2 for counts in rows.values()):
        return []
    there = np.logical_or.reduce([kind.average(measure.name).counts.any(axis=(0, 1)) for kind in statistics.kinds])
    n_bins = int(np.flatnonzero(there)[-1]) + 1
    one, n_heads = one_text(statistics.probe, statistics.is_recorded), len(ranked(statistics, order))
    panels = distribution_panels(measure.name, rows, n_bins, one, n_heads)
    has_interval = any(head.interval(measure.name) for head in heads)
    return [panels, Text((distribution_text(has_interval),), "quiet", "drawn")]


def _label(statistics: HeadStatistics, head: Head, measure: Measure) -> str:
    """ "3.5  0.53 [0.51, 0.55]"."""
    kind = f"{head.averages.kind} " if len(statistics.kinds) > 1 else ""
    ends = head.interval(measure.name)
    interval = "" if ends is None else f" [{', '.join(_number(measure, end) for end in ends)}]"
    name = f"{kind}{head.averages.layers[head.row]}.{head.column}"
    return f"{name}  {_number(measure, head.mean(measure.name))}{interval}"


def chance_texts(statistics: HeadStatistics) -> list[str]:
    """Of each kind, what each number is by chance: "chance, …: entropy 2.31, distance 3.4 to 5.1, …"."""
    return [text for kind in statistics.kinds if (text := _chance_text(statistics, kind))]


def _chance_text(statistics: HeadStatistics, kind: HeadAverages) -> str:
    numbers = []
    for measure in COLUMNS:
        chance = kind.average(measure.name).chance
        if np.isfinite(chance).any():
            ends = dict.fromkeys(_number(measure, float(end)) for end in (np.nanmin(chance), np.nanmax(chance)))
            numbers.append(f"{measure.name} {' to '.join(ends)}")
    of = f"{kind.kind}, " if len(statistics.kinds) > 1 else ""
    return f"{of}{CHANCE}: {', '.join(numbers)}" if numbers else ""


def sink_texts(statistics: HeadStatistics) -> list[str]:
    """Of each kind, how many heads look at the first token."""
    several = len(statistics.kinds) > 1
    return [
        f"{kind.kind + ', ' if several else ''}sink rate, of all heads: {100 * kind.sink_rate:.1f} %"
        for kind in statistics.kinds
        if kind.sink.is_known
    ]


def ranked(statistics: HeadStatistics, order: Order) -> list[Head]:
    """All heads in this order; those without the number stand last."""
    heads = [Head(kind, row, column) for kind in statistics.kinds for row, column in kind.heads()]
    sign = 1 if order.low_first else -1
    if order.column == IN_MODEL_ORDER:
        return heads[::sign]

    def place(head: Head) -> tuple[bool, float]:
        number = head.mean(order.column)
        return math.isnan(number), 0.0 if math.isnan(number) else sign * number

    return sorted(heads, key=place)


def ranking_heading(statistics: HeadStatistics, order: Order) -> str:
    """ "heads by entropy, lowest first: 16 of 144"."""
    heads = len(ranked(statistics, order))
    of = f": {order.most:,} of {heads:,}" if order.most is not None and order.most < heads else ""
    if order.column not in (IN_MODEL_ORDER, *(column.name for column in known_columns(statistics.kinds))):
        return f"heads in the order of the model, as no head has a number for {order.column}{of}"
    if order.column == IN_MODEL_ORDER:
        return f"heads in the order of the model, {'first' if order.low_first else 'last'} layer first{of}"
    return f"heads by {order.column}, {'lowest' if order.low_first else 'highest'} first{of}"


def known_columns(kinds: Iterable[HeadAverages]) -> list[Measure]:
    """Those of which a kind has a number."""
    kinds = tuple(kinds)
    return [column for column in COLUMNS if any(kind.average(column.name).is_known for kind in kinds)]


def ranked_columns(statistics: HeadStatistics, order: Order) -> list[Measure]:
    """The known ones, that of the order first."""
    return sorted(known_columns(statistics.kinds), key=lambda column: column.name != order.column)


def ranking_table(statistics: HeadStatistics, order: Order) -> Table:
    """A row a head, the number that they are ordered by before the others, with its interval; chance stands below."""
    measures = ranked_columns(statistics, order)
    s, several = statistics, len(statistics.kinds) > 1
    heads = ranked(statistics, order)[: order.most]
    first = measures[0]
    has_interval = any(head.interval(first.name) for head in heads)
    spreads = [
        Column(
            m.name,
            partial(_spread, m),
            short=m.short,
            note=m.told_alone(s.are_of_norms),
        )
        for m in measures
    ]
    columns = (
        *([Column("kind", align="left", is_key=True)] if several else []),
        *(Column(name, is_key=True) for name in ("layer", "head")),
        spreads[0],
        *([Column("95 %", partial(_interval, first), note=_interval_note(s))] if has_interval else []),
        *spreads[1:],
    )
    rows: list[tuple[object, ...]] = []
    for head in heads:
        of_first, *others = (head.spread(measure.name) for measure in measures)
        interval = [head.interval(first.name)] if has_interval else []
        of_kind = [head.averages.kind] if several else []
        rows.append((*of_kind, head.averages.layers[head.row], head.column, of_first, *interval, *others))
    for kind in statistics.kinds:
        chances = [_chance(kind, measure) for measure in measures]
        if any(chances):
            unknown = [""] if has_interval else []
            rows.append((*([kind.kind] if several else []), "chance", "", chances[0], *unknown, *chances[1:]))
    of_rows = []
    if s.are_of_norms:
        of_rows.append(f"shares are of a query's {NORM.name}s")
    if any(_chance_text(s, kind) for kind in s.kinds):
        of_rows.append(CHANCE)
    if s.replicates and not has_interval and any(kind.sentences > 1 for kind in s.kinds):
        texts = f"{one_text(s.probe, s.is_recorded)}s"
        of_rows.append(f"no 95 % interval of fewer than {LEAST_FOR_INTERVAL} {texts}, which would be too narrow")
    of_rows += dict.fromkeys(filter(None, (_spread_note(s, heads, m) for m in measures)))
    heading = ranking_heading(s, order)
    return Table(columns, tuple(rows), heading, notes="; ".join(of_rows), where="listed")


def _chance(kind: HeadAverages, measure: Measure) -> tuple[float, float] | None:
    """As in a row of the table: the mean over the heads, as layers may see different keys."""
    chance = kind.average(measure.name).chance
    return (float(np.nanmean(chance)), math.nan) if np.isfinite(chance).any() else None


def _interval_note(statistics: HeadStatistics) -> str:
    texts = f"{one_text(statistics.probe, statistics.is_recorded)}s"
    return f"of the means of {statistics.replicates:,} bootstrap replicates over {texts}"


def _spread_note(statistics: HeadStatistics, heads: Iterable[Head], measure: Measure) -> str:
    """What ± is; "" where no head has one."""
    spreads = (numbers[1] for head in heads if (numbers := head.spread(measure.name)))
    if all(map(math.isnan, spreads)):
        return ""
    return f"±: standard deviation between {one_text(statistics.probe, statistics.is_recorded)}s"


def _number(measure: Measure, number: float) -> str:
    return f"{number:z.{measure.decimals}f}"


def _interval(measure: Measure, ends: tuple[float, float]) -> str:
    """ "0.51–0.55"."""
    return "–".join(_number(measure, end) for end in ends)


def _spread(measure: Measure, number: tuple[float, float]) -> str:
    """ "0.53±0.12"; without what is not known."""
    mean, spread = number
    after = "" if math.isnan(spread) else f"±{spread:.{measure.decimals}f}"
    return f"{_number(measure, mean)}{after}"


def title(statistics: HeadStatistics, kind: HeadAverages) -> str:
    """ "self-attention: 144 heads, means over 1,000 sentences, 21,400 tokens"."""
    return ", ".join(_title_and_subtitle(statistics, kind))


def _title_and_subtitle(statistics: HeadStatistics, kind: HeadAverages) -> tuple[str, str]:
    """ "self-attention: 144 heads", "means over 1,000 sentences, 21,400 tokens"."""
    prefix = NORM.title_prefix if statistics.are_of_norms else ""
    most = texts_of(kind.sentences, statistics.probe, statistics.is_recorded), counted(kind.queries, "token")
    least, ends = kind.entropy.by_layer.min(axis=0).tolist(), (kind.sentences, kind.queries)
    texts, tokens = (
        text if few == many else f"{few:,} to {text}" for few, many, text in zip(least, ends, most, strict=True)
    )
    return (
        f"{prefix}{KIND_NAMES[kind.kind]}: {counted(len(list(kind.heads())), 'head')}",
        f"means over {texts}, {tokens}",
    )


def reading_text(statistics: HeadStatistics) -> str:
    """How to read the pictures."""
    lacking = any(len(list(kind.heads())) < kind.entropy.mean.size for kind in statistics.kinds)
    parts = ["rows are layers, columns heads", "blank: no such head" * lacking]
    if statistics.are_of_norms:
        parts.append(f"in place of weights, shares of each query's {NORM.name}s; {NORM.remark}")
    return "; ".join(filter(None, parts))


def counts_text(statistics: HeadStatistics) -> str:
    """Of how many tokens copies and induction are; empty where they have no meaning."""
    counts = {kind.kind: _count(statistics, kind) for kind in statistics.kinds if kind.kind in OF_ONE_TEXT}
    if not counts:
        return ""
    if len(set(counts.values())) == 1:
        (text,) = set(counts.values())
        return f"copies, induction: {text}"
    return "copies, induction: " + "; ".join(f"{kind}, {text}" for kind, text in counts.items())


def _count(statistics: HeadStatistics, kind: HeadAverages) -> str:
    if not kind.copies.queries:  # the numbers of a program's tokens are not always known
        return f"no token {'is known to have' if statistics.is_recorded else 'has'} an earlier copy"
    have = "has" if kind.copies.queries == 1 else "have"
    where = counted(kind.copies.sentences, one_text(statistics.probe, statistics.is_recorded))
    return f"of {counted(kind.copies.queries, 'token')} in {where} that {have} an earlier copy"


def notes(columns: Sequence[Measure], are_of_norms: bool = False) -> str:
    """What the numbers mean, in their order."""
    others = f"shares of a query's {NORM.name}s" if are_of_norms else "weights"
    ordered = sorted((column for column in COLUMNS if column in columns), key=lambda column: column.unit == "weight")
    meanings = [f"{column.name}: {column.told(are_of_norms)}" for column in ordered]
    weights = next((place for place, column in enumerate(ordered) if column.unit == "weight"), len(ordered))
    return "; ".join([*meanings[:weights], f"the others are {others}, from 0 to 1", *meanings[weights:]])
