"""What every head looks at, in words, ranks and colours: the same in the terminal and in figures."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mhaviz.records import HeadAverages, HeadStatistics
from mhaviz.views.captions import KINDS
from mhaviz.views.colours import BONE
from mhaviz.views.panels import Panel, Scale

IN_MODEL_ORDER = "layer"
_NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """How one of the numbers in ``HeadAverages`` is called and written.

    Attributes:
        name, short: over a column.
        meaning: in a few words.
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


COLUMNS = (
    Column("entropy", "entr", "−Σ a ln a of a row of weights a, in nats", "entropy, nats", low_first=True),
    Column("distance", "dist", "Σ a |i − j| of query i and keys j, in tokens", "distance, tokens", decimals=1),
    Column("itself", "self", "on the query's own position"),
    Column("previous", "prev", "on the token before"),
    Column("next", "next", "on the token after"),
    Column("first", "first", "on the first token"),
    Column("separators", "sep", "on special tokens such as [SEP]"),
    Column("copies", "copy", "on earlier copies of the query's token"),
    Column("induction", "ind", "on what followed those copies"),
)
"""The numbers, in their order."""


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

    def text(self, column: Column, stacked: bool = False) -> str:
        """ "0.53 ± 0.12", or on two lines; a dash where there is no number."""
        mean, spread = self.mean(column.name), self.averages.average(column.name).spread[self.row, self.column]
        if math.isnan(mean):
            return _NOTHING
        between = "\n±" if stacked else " ± "
        return f"{mean:z.{column.decimals}f}" + ("" if math.isnan(spread) else f"{between}{spread:.{column.decimals}f}")


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


def known_columns(kinds: Iterable[HeadAverages]) -> list[Column]:
    """Those of which a kind has a number."""
    kinds = tuple(kinds)
    return [column for column in COLUMNS if any(kind.average(column.name).is_known for kind in kinds)]


def ranked_columns(statistics: HeadStatistics, order: Order) -> list[Column]:
    """The known ones, that of the order first."""
    return sorted(known_columns(statistics.kinds), key=lambda column: column.name != order.column)


def ranking_headings(statistics: HeadStatistics, order: Order, short: bool = False) -> tuple[str, ...]:
    """Of the columns of ``ranking_rows``; the first two, or three where there are several kinds, name a head."""
    names = [column.short if short else column.name for column in ranked_columns(statistics, order)]
    return (*["kind"] * (len(statistics.kinds) > 1), "layer", "head", *names)


def ranking_rows(statistics: HeadStatistics, order: Order, stacked: bool = False) -> list[tuple[str, ...]]:
    """A row a head."""
    columns = ranked_columns(statistics, order)
    return [
        (
            *[head.averages.kind] * (len(statistics.kinds) > 1),
            f"{head.averages.layers[head.row]}",
            f"{head.column}",
            *(head.text(column, stacked) for column in columns),
        )
        for head in ranked(statistics, order)[: order.most]
    ]


def title(kind: HeadAverages) -> str:
    """ "self-attention: 144 heads, means over 1,000 sentences, 21,400 tokens"."""
    return (
        f"{KINDS[kind.kind]}: {_number(len(list(kind.heads())), 'head')}, means over "
        f"{_number(kind.sentences, 'sentence')}, {_number(kind.queries, 'token')}"
    )


def reading_text(statistics: HeadStatistics) -> str:
    """How to read the pictures."""
    lacking = any(len(list(kind.heads())) < kind.entropy.mean.size for kind in statistics.kinds)
    return "rows are layers, columns heads" + "; grey: no such head" * lacking


def counts_text(statistics: HeadStatistics) -> str:
    """Of how many tokens copies and induction are; empty where they have no meaning."""
    counts = {kind.kind: _count(kind) for kind in statistics.kinds if kind.kind != "cross"}
    if not counts:
        return ""
    if len(set(counts.values())) == 1:
        (text,) = set(counts.values())
        return f"copies, induction: {text}"
    return "copies, induction: " + "; ".join(f"{kind}, {text}" for kind, text in counts.items())


def _count(kind: HeadAverages) -> str:
    if not kind.copies.queries:
        return "no token has an earlier copy"
    have = "has" if kind.copies.queries == 1 else "have"
    return (
        f"of {_number(kind.copies.queries, 'token')} in {_number(kind.copies.sentences, 'sentence')} that {have} an "
        f"earlier copy"
    )


def left_out_text(statistics: HeadStatistics) -> str:
    """What is said of sentences that were not read."""
    if not statistics.too_long:
        return ""
    were = "was" if statistics.too_long == 1 else "were"
    return f"{_number(statistics.too_long, 'sentence')} {were} left out: longer than the model can read"


def notes(columns: Sequence[Column], short: bool = False) -> str:
    """What the columns mean, in their order."""
    ordered = [column for column in COLUMNS if column in columns]
    meanings = [f"{column.short if short else column.name}: {column.meaning}" for column in ordered]
    weights = next((place for place, column in enumerate(ordered) if column.unit == "weight"), len(ordered))
    return "; ".join([*meanings[:weights], "the others are weights, from 0 to 1", *meanings[weights:]])


SPREAD = "±: standard deviation between sentences"


def panels(kind: HeadAverages, columns: Sequence[Column], scales: dict[str, Scale]) -> list[Panel]:
    """A layers × heads panel for each of these columns that the kind has."""
    return [
        Panel(column.name, kind.average(column.name).mean.astype(np.float32), scales[column.name])
        for column in columns
        if kind.average(column.name).is_known
    ]


def scales(statistics: HeadStatistics, cmap: str = BONE) -> dict[str, Scale]:
    """The scale of each number, one for all kinds: weights from 0 to 1, the others from 0 to the largest."""
    largest = {
        column.name: max(float(np.nanmax(kind.average(column.name).mean, initial=0.0)) for kind in statistics.kinds)
        for column in known_columns(statistics.kinds)
    }
    return {
        column.name: Scale(
            cmap, 0.0, 1.0 if column.unit == "weight" else largest[column.name] or 1.0, decimals=column.decimals
        )
        for column in known_columns(statistics.kinds)
    }


def named_scales(statistics: HeadStatistics, cmap: str = BONE) -> dict[str, Scale]:
    """Every scale once, by what it measures; that of the weights first."""
    every = scales(statistics, cmap)
    named = {column.unit: every[column.name] for column in known_columns(statistics.kinds)}
    return dict(sorted(named.items(), key=lambda pair: pair[0] != "weight"))


def _number(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"
