"""The blocks that a page is made of. Who draws them, on paper or in the terminal, adds no words of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

NOTHING = "–"
"""What stands where there is no number."""

Where = Literal["everywhere", "beside curves", "instead of curves"]
"""Some media draw curves, others list their numbers: where a block belongs that says or lists the same as curves do."""

Quote = Callable[[str, int], str]
"""Makes a token fit to be shown in a medium, in at most so many cells of a terminal."""


@dataclass(frozen=True)
class Text:
    """Lines of words; a "subtitle" explains the title."""

    lines: tuple[str, ...]
    style: Literal["plain", "quiet", "heading", "subtitle"] = "plain"
    where: Where = "everywhere"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        heading: stands over it.
        text: how one of its values is written; None is always a dash, and "" stays empty.
        align: words begin on the left, numbers end on the right.
        is_key: whether it tells the rows apart: it stands in every part of a table that is too wide for its place.
        is_extra: whether a narrow place does without it.
        bar: its values are shares from 0 to 1, drawn as bars of up to so many cells of a terminal; 0: they are not.
        short: a heading for a narrow place, if there is one.
        stacked: how a value is written on several lines, for a narrow place.
    """

    heading: str
    text: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    is_key: bool = False
    is_extra: bool = False
    bar: int = 0
    short: str = ""
    stacked: Callable[[Any], str] | None = None
    style: Literal["plain", "bold", "quiet"] = "plain"

    def write(self, value: object, stacked: bool = False) -> str:
        """A value as text."""
        if value is None or value == "":
            return NOTHING if value is None else ""
        return self.stacked(value) if stacked and self.stacked else self.text(value)


@dataclass(frozen=True)
class Table:
    """Rows of values.

    Attributes:
        rows: a value a column; None: there is none.
        more: what is said of rows that are left out.
        notes: what the columns mean; ``short_notes``: the same of their short headings.
        is_grouped: whether rows that have the first column's value in common belong together.
        has_total: whether the last row sums up the others.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: str = ""
    notes: str = ""
    short_notes: str = ""
    is_grouped: bool = False
    has_total: bool = False
    where: Where = "everywhere"

    def headings(self, short: bool = False) -> tuple[str, ...]:
        """Of all columns."""
        return tuple((short and column.short) or column.heading for column in self.columns)

    def texts(self, stacked: bool = False) -> list[tuple[str, ...]]:
        """All values as they are written, without bars."""
        return [
            tuple("" if c.bar else c.write(value, stacked) for c, value in zip(self.columns, row, strict=True))
            for row in self.rows
        ]


@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        name: stands at its end; a line without one is known by another, or by the key.
        xs, ys: its points, x rising. Where y is None, nothing is drawn.
        colour: 0 to 4; None: a quiet grey.
        marker: the shape of its points, 0 to 4; None: they are not marked.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
    colour: int | None = None
    marker: int | None = None
    line: Literal["solid", "dashed", "dotted"] = "solid"


@dataclass(frozen=True)
class Axis:
    """One side of a plot.

    Attributes:
        label: its name and unit.
        log: labels stand at powers of this number, and equal factors are equally long; None: it is even.
        ticks: where labels may stand; empty: where they fit.
        unit: writes a label; None: as a plain number.
        limits: from where to where it goes, None where the points say it.
    """

    label: str = ""
    log: int | None = None
    ticks: tuple[float, ...] = ()
    unit: Callable[[float], str] | None = None
    limits: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Plot:
    """Lines over one pair of axes; ``marks``: points that have something to say, (x, y, text)."""

    title: str
    series: tuple[Series, ...]
    x: Axis
    y: Axis
    marks: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True)
class Key:
    """What lines of a colour are, in all plots; ``remark``: what there is to say of it."""

    name: str
    colour: int | None
    remark: str = ""
    line: Literal["solid", "dashed", "dotted"] = "solid"


@dataclass(frozen=True)
class Curves:
    """Plots side by side.

    Attributes:
        columns: how many stand beside each other.
        size: width and height in inches of the axes of one.
        keys: of all plots.
    """

    plots: tuple[Plot, ...]
    columns: int
    size: tuple[float, float]
    keys: tuple[Key, ...] = ()


Block = Text | Table | Curves


@dataclass(frozen=True)
class Page:
    """What is shown of a record.

    Attributes:
        title: stands over everything.
        blocks: in their order.
        footnote: where the numbers come from.
        remark: what stands beside it on paper.
        title_where: whether curves need a title that their numbers do without.
    """

    title: str
    blocks: tuple[Block, ...]
    footnote: str
    remark: str = ""
    title_where: Where = "everywhere"
