"""Blocks: the titles, texts, tables, plots and matrices that a page is made of.

A block says what is shown, and in which words. The renderers in ``mhaviz.views`` decide how, and add no words of their
own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.labels import title_places
from mhaviz.pages.numbers import fixed
from mhaviz.pages.panels import SINK_SCALE, Panel, Scale
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.lines import HeadLinks, Link, TextLinks
from mhaviz.results.quantity import Cells
from mhaviz.results.trace import TraceStep

NOTHING = "–"
"""Text of a missing number."""


@dataclass(frozen=True)
class Title:
    """Title of a picture of attention, with the sentences that it is about. Renderers shorten it to their width.

    Attributes:
        head: begins the title: "source-target attention, layer 3".
        texts: name and tokens of each sentence: ("queries", …), ("keys", …), or ("", …) for one that is both.
        short: replaces the head where there is little room: "cross, layer 3".
    """

    head: str
    texts: tuple[tuple[str, Tokens], ...]
    short: str


class Block:
    """What is shown on a page, of one kind. A medium that has no picture of a kind shows its numbers as a table.

    Attributes:
        is_explained: whether it is a picture that texts on the page explain.
        is_text: whether it is lines of text.
    """

    is_explained = False
    is_text = False

    @property
    def heading(self) -> str:
        """Text over what follows it on the page, that it is; "": it is none."""
        return ""

    @property
    def rows_of_heads(self) -> str:
        """What each matrix of ``n_heads`` is of."""
        return "heads"

    @property
    def are_numbers(self) -> bool:
        """Whether it is matrices of statistics of heads."""
        return False

    @property
    def blocks(self) -> "tuple[Block, ...]":
        """Blocks that it arranges; empty: it is none of them."""
        return ()

    @property
    def as_table(self) -> "Table | None":
        """The numbers as a table; None: there is none."""
        return None

    @property
    def n_abreast(self) -> int:
        """Number of matrices side by side."""
        return 0

    @property
    def scales(self) -> tuple[Scale, ...]:
        """Distinct scales of its colours that have a name, and so a colour bar, or that it has a key of."""
        return ()

    @property
    def n_heads(self) -> int:
        """Number of heads of maps."""
        return 0

    @property
    def n_pieces(self) -> int:
        """Number of pieces that it can be divided into where it has no room."""
        return 1

    def pieces(self, begin: int, end: int) -> "Block":
        """Return the pieces from ``begin`` to ``end`` as a block."""
        return self

    def texts_of_users(self) -> Iterator[str]:
        """Yield the texts in it that may be written in any script."""
        if self.as_table:
            yield from (text for row in self.as_table.limited()[0].texts() for text in row)


@dataclass(frozen=True)
class Text(Block):
    """Lines of text.

    Attributes:
        lines: the lines; renderers wrap them.
        style: "quiet" for small print, "heading" over a part of the page, "subheading" over a part of that, "subtitle"
            below the page's title.
    """

    lines: tuple[str, ...]
    style: Literal["plain", "quiet", "heading", "subheading", "subtitle"] = "plain"

    is_text = True

    @property
    def heading(self) -> str:
        """Its first line, over a part of the page."""
        return self.lines[0] if self.style in ("heading", "subheading") else ""

    def texts_of_users(self) -> Iterator[str]:
        """Yield the lines."""
        yield from self.lines


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        heading: text above the column.
        text: formats a value; None is always a dash, and a text stays as it is.
        align: "left" for words, "right" for numbers.
        is_key: whether the column identifies the rows. A table that is too wide is split, and each part has it.
        bar: length of the longest bar in characters, for values that are shares from 0 to 1 and drawn as bars; 0: they
            are written.
    """

    heading: str
    text: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    is_key: bool = False
    bar: int = 0

    def write(self, value: object) -> str:
        """Return a value as text."""
        if value is None:
            return NOTHING
        return value if isinstance(value, str) else self.text(value)


@dataclass(frozen=True)
class Table(Block):
    """A table.

    Attributes:
        columns: headings and formats.
        rows: one value for each column; None: missing.
        heading: title of the table.
        most: number of rows to show, from the first; None: all.
        notes: explanation of the rows and columns, below the table.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    heading: str = ""
    most: int | None = None
    notes: str = ""

    @property
    def as_table(self) -> "Table":
        """The table."""
        return self

    @property
    def n_pieces(self) -> int:
        """Number of rows that are shown."""
        return len(self.limited()[0].rows)

    def pieces(self, begin: int, end: int) -> "Table":
        """Return some of the rows that are shown; the last have the notes."""
        is_last = end == self.n_pieces
        rest = self.rows[self.n_pieces :] if is_last else ()
        rows = self.rows[begin:end] + rest
        return replace(self, rows=rows, most=len(rows) - len(rest), notes=self.notes if is_last else "")

    def limited(self) -> tuple["Table", str]:
        """Return the table with the rows to show, and a text that counts the others; "" if there are none."""
        if self.most is None or len(self.rows) <= self.most:
            return self, ""
        return replace(self, rows=self.rows[: self.most]), f"and {len(self.rows) - self.most:,} more; .json has all"

    def headings(self) -> tuple[str, ...]:
        """Headings of all columns."""
        return tuple(column.heading for column in self.columns)

    def texts(self) -> list[tuple[str, ...]]:
        """Return the texts of all values, row by row; "" for bars."""
        return [
            tuple("" if c.bar else c.write(value) for c, value in zip(self.columns, row, strict=True))
            for row in self.rows
        ]


class _Illustration(Block):
    """A picture of numbers, which a medium without pictures lists."""

    table: Table

    @property
    def as_table(self) -> Table:
        """The same numbers, listed."""
        return self.table


@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        name: name at its end, or in a legend; "": the line has none.
        xs, ys: coordinates of its points, x ascending. A point whose y is None is left out.
        colour: number of a colour, 0 to 4; None: grey.
        marker: number of a marker shape, 0 to 4; None: no markers.
        band: interval around each y, (low, high), drawn as a shaded band; empty: none.
        line: line style.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
    colour: int | None = None
    marker: int | None = None
    band: tuple[tuple[float, float] | None, ...] = ()
    line: Literal["solid", "dashed", "dotted", "dash-dotted"] = "solid"


@dataclass(frozen=True)
class PlotAxis:
    """The x or y axis of a plot.

    Attributes:
        label: name and unit.
        log: base of a logarithmic axis, whose ticks are powers of it; None: linear.
        unit: formats the number at a tick; None: a plain number.
        limits: lowest and highest value; None: from the points.
    """

    label: str = ""
    log: int | None = None
    unit: Callable[[float], str] | None = None
    limits: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Plot:
    """Lines on one pair of axes.

    Attributes:
        title: text above the axes.
        series: the lines.
        x, y: the axes.
        marks: annotated points, (x, y, text).
        spans: annotated ranges of x, (low, high, text).
        notes: explanations of what only plots show, such as bands.
    """

    title: str
    series: tuple[Series, ...]
    x: PlotAxis
    y: PlotAxis
    marks: tuple[tuple[float, float, str], ...] = ()
    spans: tuple[tuple[float, float, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curves(_Illustration):
    """Plots side by side.

    Attributes:
        plots: the plots.
        table: the same numbers for a medium without curves.
    """

    plots: tuple[Plot, ...]
    table: Table

    is_explained = True

    @property
    def n_pieces(self) -> int:
        """Number of plots."""
        return len(self.plots)

    def pieces(self, begin: int, end: int) -> "Curves":
        """Return some plots."""
        return replace(self, plots=self.plots[begin:end])

    def texts_of_users(self) -> Iterator[str]:
        """Yield the names of the lines."""
        yield from (series.name for plot in self.plots for series in plot.series)


@dataclass(frozen=True)
class Dot:
    """One number of a ranking.

    Attributes:
        name: label, such as a head, "L0 H2".
        value: the number.
        low, high: ends of its whisker; NaN: none.
        chance: value expected by chance; NaN: unknown.
        note: remark beside the dot.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    note: str = ""


@dataclass(frozen=True)
class Dots(_Illustration):
    """Dot plot of numbers: in each row a dot, its whisker if it has one, and a grey line at chance level.

    Attributes:
        table: the same numbers for a medium without dots; its heading stands above the plot, too.
        dots: the numbers, from the first rank on.
        label: name of the numbers, below their axis.
        text: formats a number.
        notes: explanation of whiskers and lines, below the plot.
        shared: dots of other plots whose axis it shares, as pieces of one plot do.
        are_bars: whether a bar from 0 to the number takes the place of the dot, as of shares of a whole.
    """

    table: Table
    dots: tuple[Dot, ...]
    label: str
    text: Callable[[float], str]
    notes: str = ""
    shared: tuple[Dot, ...] = ()
    are_bars: bool = False

    is_explained = True

    @property
    def n_pieces(self) -> int:
        """Number of dots."""
        return len(self.dots)

    def pieces(self, begin: int, end: int) -> "Dots":
        """Return some dots."""
        return replace(self, dots=self.dots[begin:end], shared=self.shared or self.dots)

    @property
    def limits(self) -> tuple[float, float]:
        """Least and largest number on the axis, which begins or ends at 0."""
        known = (n for dot in self.shared or self.dots for n in (dot.value, dot.low, dot.high, dot.chance))
        numbers = [0.0, *(number for number in known if not math.isnan(number))]
        return min(numbers), max(numbers)

    def texts_of_users(self) -> Iterator[str]:
        """Yield the names of the dots, the remarks beside them, and what is above and below the plot."""
        yield from (self.table.heading, self.label, self.notes)
        yield from (text for dot in self.dots for text in (dot.name, dot.note))


@dataclass(frozen=True, eq=False)
class LinkPanel:
    """Two columns of words, with lines from words to those that they look at.

    Attributes:
        heads: the heads of the lines.
        colours: number of the colour of each head, an index of ``pages.colormaps.HEADS``.
        captions: text beside each colour.
        asides: special tokens and sinks, to which there are no lines: text, and the weight that each head gives it.
        note: remark below the captions.
        named: the link that the note, or the title in its place, is about; None: it is about none.
    """

    heads: tuple[HeadLinks, ...]
    colours: tuple[int, ...]
    captions: tuple[str, ...]
    asides: tuple[tuple[str, tuple[float, ...]], ...] = ()
    note: str = ""
    named: Link | None = None

    @property
    def n_links(self) -> int:
        """Number of lines."""
        return sum(len(head.links) for head in self.heads)


@dataclass(frozen=True, eq=False)
class Links(_Illustration):
    """Lines between the words of a text, in panels side by side.

    Attributes:
        table: the same numbers for a medium without lines.
        text: the words.
        panels: the lines, head by head, or of all heads together.
        aside: name of special tokens and sinks.
        notes: explanation of sides and lines, below the panels.
        said_of: returns what is said of the lines of some heads, such as their number.
    """

    table: Table
    text: TextLinks
    panels: tuple[LinkPanel, ...]
    aside: str
    notes: str
    said_of: Callable[[Sequence[HeadLinks]], str]

    is_explained = True

    @property
    def heads(self) -> tuple[HeadLinks, ...]:
        """Heads of all panels."""
        return tuple(head for panel in self.panels for head in panel.heads)

    @property
    def said(self) -> str:
        """What is said of the lines in the panels."""
        return self.said_of(self.heads)

    @property
    def n_pieces(self) -> int:
        """Number of panels."""
        return len(self.panels)

    def pieces(self, begin: int, end: int) -> "Links":
        """Return some panels, and the rows of the table that are about them."""
        ends = list(accumulate((panel.n_links for panel in self.panels), initial=0))
        table = replace(self.table, rows=self.table.rows[ends[begin] : ends[end]])
        return replace(self, table=table, panels=self.panels[begin:end])

    def texts_of_users(self) -> Iterator[str]:
        """Yield the words and captions."""
        yield from (*self.text.queries.texts, *self.text.keys.texts)
        for panel in self.panels:
            yield from (*panel.captions, panel.note, *(text for text, _ in panel.asides))


@dataclass(frozen=True)
class Word:
    """A word of a shaded text.

    Attributes:
        text: its text.
        share: number that it is shaded by; None: it is not shaded, as a sink.
        after_blank: whether a blank is before it.
        is_query: whether it is the word that looks at the others, which is outlined.
    """

    text: str
    share: float | None
    after_blank: bool = True
    is_query: bool = False


@dataclass(frozen=True)
class Shaded(_Illustration):
    """Text whose words are shaded by numbers. Of many lines, those with the largest numbers are shown.

    Attributes:
        table: the same numbers for a medium without shades.
        words: the words, in their order.
        scale: what shades mean.
        name: name of what they mean, in the key.
        ends: texts of the lowest and the highest shade.
    """

    table: Table
    words: tuple[Word, ...]
    scale: Scale
    name: str
    ends: tuple[str, str]

    is_explained = True

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of its shades, of which it has a key."""
        return (self.scale,)

    def texts_of_users(self) -> Iterator[str]:
        """Yield the words."""
        yield from (word.text for word in self.words)


@dataclass(frozen=True)
class Slice:
    """A part of a bar.

    Attributes:
        name: its name; "": the rest, without one.
        share: its length; all of a bar is 1.
        kind: "word"; "target", the word that the bar is about; "itself", the word that it is of; "aside", sinks, at the
            end of the bar.
    """

    name: str
    share: float
    kind: Literal["word", "target", "itself", "aside"] = "word"


@dataclass(frozen=True)
class Bar:
    """A bar of length 1, divided into slices, the largest first.

    Attributes:
        name: label before it, such as a head, "L0 H2".
        slices: the slices; those that have no room are drawn as the rest.
        note: number beside it, in a column.
        is_mean: whether it is the mean of the bars.
    """

    name: str
    slices: tuple[Slice, ...]
    note: str = ""
    is_mean: bool = False


@dataclass(frozen=True)
class Bars(_Illustration):
    """Bars of length 1, one below the other.

    Attributes:
        table: the same numbers for a medium without bars.
        bars: the bars.
        words: name of all slices that are not aside, in a bar that names none of them.
        rest: name of what has no name in a bar.
        aside: name of what is aside.
        end: text at the end of the bars, such as "weight 1".
        notes: name of the column of notes.
    """

    table: Table
    bars: tuple[Bar, ...]
    words: str
    rest: str
    aside: str
    end: str
    notes: str

    is_explained = True

    @property
    def n_pieces(self) -> int:
        """Number of bars."""
        return len(self.bars)

    def pieces(self, begin: int, end: int) -> "Bars":
        """Return some bars, and the rows of the table that are about them: the mean has none."""
        ends = list(accumulate((not bar.is_mean for bar in self.bars), initial=0))
        table = replace(self.table, rows=self.table.rows[ends[begin] : ends[end]])
        return replace(self, table=table, bars=self.bars[begin:end])

    def texts_of_users(self) -> Iterator[str]:
        """Yield the names of slices."""
        yield from (one.name for bar in self.bars for one in bar.slices)


@dataclass(frozen=True, eq=False)
class SpanPanel:
    """Weights between spans of a text, or changes of them.

    Attributes:
        title: text above it; "": none.
        shares: float64, (rows, columns), the weights; NaN where queries see no key.
        colours: float64, (rows, columns), numbers on the scale of colours, such as weights / those of uniform
            attention; NaN: not known.
        outlined: rows and columns of cells that are outlined.
        is_apart: whether it is of sinks or the rest, in grey by its weights.
    """

    title: str
    shares: NDArray[np.float64]
    colours: NDArray[np.float64]
    outlined: tuple[tuple[int, int], ...] = ()
    is_apart: bool = False


@dataclass(frozen=True, eq=False)
class SpanGrid(Block):
    """Weights between spans of a text in panels side by side: numbers in percent, in colours of other numbers. The last
    rows or columns are apart, in grey by their weights, but for changes, whose scale is of two signs.

    Attributes:
        panels: the weights.
        rows, columns: names of rows and columns of every panel.
        apart: number of rows, and of columns, that are apart.
        scale: what colours mean.
        of_colours, of_numbers: what colours and numbers are, for the key.
    """

    panels: tuple[SpanPanel, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    apart: tuple[int, int]
    scale: Scale
    of_colours: str
    of_numbers: str

    is_explained = True

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of its colours, of which it has a key."""
        return (self.scale,)

    @property
    def n_pieces(self) -> int:
        """Number of panels."""
        return len(self.panels)

    def pieces(self, begin: int, end: int) -> "SpanGrid":
        """Return some panels."""
        return replace(self, panels=self.panels[begin:end])

    def is_grey(self, panel: SpanPanel, row: int, column: int) -> bool:
        """Return whether a cell shows a weight of what is apart."""
        are_rows, are_columns = row >= len(self.rows) - self.apart[0], column >= len(self.columns) - self.apart[1]
        return not self.scale.signed and (panel.is_apart or are_rows or are_columns)

    def number(self, panel: SpanPanel, row: int, column: int) -> tuple[float, Scale]:
        """Return the number that colours a cell, and its scale."""
        if self.is_grey(panel, row, column):
            return float(panel.shares[row, column]), SINK_SCALE
        return float(panel.colours[row, column]), self.scale

    def text(self, panel: SpanPanel, row: int, column: int) -> str:
        """Return the number in a cell; "" where queries see no key."""
        return self._number_text(float(panel.shares[row, column]))

    def _number_text(self, share: float) -> str:
        sign = "+" if self.scale.signed and share >= 0.005 else ""
        return "" if math.isnan(share) else sign + fixed(100 * share, 0)

    @property
    def longest_text(self) -> str:
        """The longest number in a cell; "" where there is none."""
        known = np.concatenate([panel.shares[~np.isnan(panel.shares)] for panel in self.panels])
        return max((self._number_text(float(end)) for end in (known.min(), known.max())), key=len) if known.size else ""

    def texts_of_users(self) -> Iterator[str]:
        """Yield the names of spans."""
        yield from (*self.rows, *self.columns)


@dataclass(frozen=True)
class Flow(_Illustration):
    """Flow chart of the steps through a layer: boxes, with an arrow from each step to those that read its tensor.

    Attributes:
        steps: in the order of computation.
        notes: text in each step's box, such as its costs.
        visits: coordinates of a followed element, by the names of the steps that it passes.
        table: the steps for a medium without boxes.
        before, after: steps of the same chart in earlier and in later pieces.
    """

    steps: tuple[TraceStep, ...]
    notes: tuple[str, ...]
    visits: Mapping[str, str]
    table: Table
    before: tuple[TraceStep, ...] = ()
    after: tuple[TraceStep, ...] = ()

    @property
    def n_pieces(self) -> int:
        """Number of steps."""
        return len(self.steps)

    def pieces(self, begin: int, end: int) -> "Flow":
        """Return some steps, which know the others: an arrow leads to a step of another piece, or from it."""
        before, after = self.before + self.steps[:begin], self.steps[end:] + self.after
        return replace(self, steps=self.steps[begin:end], notes=self.notes[begin:end], before=before, after=after)

    def texts_of_users(self) -> Iterator[str]:
        """Yield nothing, as steps have names of ours."""
        yield from ()


def _nothing(_: Cells) -> str:
    return ""


@dataclass(frozen=True, eq=False)
class Matrices(Block):
    """Matrices of one shape, drawn as heatmaps side by side: the heads of attention maps, or any others.

    Attributes:
        title: title of the whole block; "": none.
        panels: the matrices.
        rows, columns: axes of every matrix.
        across: number of matrices side by side; None: as many as fit.
        names: names of the rows and of the columns, such as ("query", "key"), beside the labels.
        ids: token ids of the rows, before their labels; empty: none.
        maps: maps whose heads the panels are, of one attention in several layers or passes. They differ in nothing else
            but what masks hide. Empty: the panels are other matrices.
        cell_text: describes a cell of a pooled picture; "" where a cell is the number between one query and one key.
        table: statistics of each panel.
        module: name of the attention's module in a recorded program; for several layers a pattern, "blocks.*.attn".
        by_layer: this block split into one for each layer, for renderers without room for several rows of heads; empty
            where it is never split.
        order: number by which terminals order blocks of single layers.
        alike: axes of all blocks of the page that are drawn with cells and letters of one size; empty: of this alone.
    """

    title: Title | str
    panels: tuple[Panel, ...]
    rows: Axis
    columns: Axis
    across: int | None = None
    names: tuple[str, str] = ("", "")
    ids: tuple[int, ...] = ()
    maps: tuple[AttentionMap, ...] = ()
    cell_text: Callable[[Cells], str] = _nothing
    table: Table | None = None
    module: str = ""
    by_layer: tuple["Matrices", ...] = ()
    order: int = 0
    alike: tuple[tuple[Axis, Axis], ...] = ()

    @property
    def scales(self) -> tuple[Scale, ...]:
        """Distinct scales that have a name, and so a colour bar, in the order of the panels."""
        return tuple(dict.fromkeys(panel.scale for panel in self.panels if panel.scale.name))

    @property
    def most_across(self) -> int:
        """Most matrices side by side."""
        return self.across or len(self.panels)

    @property
    def as_table(self) -> Table | None:
        """Statistics of each panel."""
        return self.table

    @property
    def n_abreast(self) -> int:
        """Number of matrices side by side."""
        return self.most_across

    def texts_of_users(self) -> Iterator[str]:
        """Yield the labels that may be written, the module and the statistics.

        Of a part of a map or a pooled map, not all tokens are written.
        """
        is_whole = all(m.is_whole for m in self.maps)
        for side in (self.rows.tokens.texts, self.columns.tokens.texts):
            yield from (side[i] for i in (range(len(side)) if is_whole else title_places(len(side))))
        yield self.module
        yield from super().texts_of_users()

    @property
    def n_heads(self) -> int:
        """Number of heads of maps among the matrices: all or none."""
        return len(self.panels) if self.maps else 0

    @property
    def rows_of_heads(self) -> str:
        """Heads, or layers where the rows of each matrix are the heads of one."""
        return "layers" if self.maps and self.maps[0].quantity.row == "head" else "heads"

    @property
    def n_pieces(self) -> int:
        """Number of matrices; heads are chosen, not divided."""
        return 1 if self.maps else len(self.panels)

    def pieces(self, begin: int, end: int) -> "Matrices":
        """Return some matrices."""
        return replace(self, panels=self.panels[begin:end])

    @property
    def are_numbers(self) -> bool:
        """Whether each panel shows a different statistic of the heads, with its scale beside its title."""
        return not self.scales


@dataclass(frozen=True)
class Grid(Block):
    """Blocks in rows and columns, with the cells of their matrices aligned; one below the other where room is short.

    Attributes:
        rows: the blocks of each row, from left to right; None: an empty place.
        by_column: whether its blocks are read column by column where rows have no room.
    """

    rows: tuple[tuple[Block | None, ...], ...]
    by_column: bool = False

    @property
    def n_abreast(self) -> int:
        """Most matrices side by side in a row."""
        return max((sum(block.n_abreast for block in row if block) for row in self.rows), default=0)

    @property
    def n_pieces(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def pieces(self, begin: int, end: int) -> "Grid":
        """Return some rows."""
        return replace(self, rows=self.rows[begin:end])

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, row by row or column by column."""
        lines = zip_longest(*self.rows) if self.by_column else self.rows
        return tuple(block for line in lines for block in line if block is not None)


@dataclass(frozen=True)
class Stacks(Block):
    """Two stacks of blocks side by side on a page; one below the other where room is short.

    Attributes:
        left: blocks from top to bottom, as wide as they need.
        right: blocks beside them, in the room that is left.
    """

    left: tuple[Block, ...]
    right: tuple[Block, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, those of the left stack first."""
        return self.left + self.right


def leaves(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield all blocks, each grid and each pair of stacks replaced by the blocks in it."""
    for block in blocks:
        yield from leaves(block.blocks) if block.blocks else (block,)


def matrices(blocks: Iterable[Block]) -> list[Matrices]:
    """Return all matrices among blocks, also those in grids and stacks."""
    return [block for block in leaves(blocks) if isinstance(block, Matrices)]


def heads(blocks: Iterable[Block]) -> list[Matrices]:
    """Return those of ``matrices`` that are heads of maps."""
    return [block for block in matrices(blocks) if block.maps]


@dataclass(frozen=True)
class Drawn:
    """How a renderer has drawn the maps of a page, for the remark that explains the picture.

    Attributes:
        cells: the cells of each picture of a map.
        pooled: for each map of all tokens, and each block of panels, a text that says what a cell shows; "" where a
            cell is one number.
        hidden: how cells that a mask hides look.
        outlines: colours of the outlines of panels that are drawn; None: all that there are.
        sinks: how columns of sinks look, such as "apart, in grey"; "": like others.
        ends: names of the lowest and the highest colour, such as "blue" and "red"; None: without colour, or unnamed.
        scales: names of the scales of what is drawn of the page; None: all of it is drawn.
        texts: kinds, sentences and passes of the maps that are drawn; None: all.
    """

    cells: tuple[Cells, ...] = ()
    pooled: tuple[str, ...] = ()
    hidden: str = "outside the thin outline"  # a weight near 0 is blank, too
    outlines: frozenset[str] | None = None
    sinks: str = ""
    ends: tuple[str, str] | None = None
    scales: frozenset[str] | None = None
    texts: frozenset[tuple[str, int | None, int | None]] | None = None

    def shows(self, *scales: str) -> bool:
        """Return whether what is drawn has one of these scales."""
        return self.scales is None or not self.scales.isdisjoint(scales)

    def outlined(self, *colours: str) -> bool:
        """Return whether outlines of one of these colours are drawn; without colours, whether any is."""
        return self.outlines is None or bool(self.outlines.intersection(colours) if colours else self.outlines)

    def maps(self, maps: Sequence[AttentionMap]) -> list[AttentionMap]:
        """Return those of the maps that are of the texts that are drawn."""
        return [m for m in maps if self.texts is None or text_of(m) in self.texts]


def text_of(m: AttentionMap) -> tuple[str, int | None, int | None]:
    """Return what names the text of a map, and the kind of its attention, among the texts of ``Drawn``."""
    return m.kind, m.sentence, m.pass_number


@dataclass(frozen=True)
class Page:
    """Everything that is shown of a result: what a renderer draws.

    Attributes:
        title: title of the page; "": its pictures have titles of their own.
        blocks: from top to bottom.
        footnote: where the numbers come from, such as the model and its revision.
        remark: how to read the pictures: a text, or a function that makes it from what a renderer has drawn. Figures
            write it beside the footnote, terminals below the pictures.
        fits_paper: whether its figure, unless it is given a width, fits a printed page, with fewer or smaller pictures.
    """

    title: Title | str
    blocks: tuple[Block, ...]
    footnote: str
    remark: str | Callable[[Drawn], str] = ""
    fits_paper: bool = False

    def reading(self, drawn: Drawn) -> str:
        """Return the remark on pictures that are drawn so."""
        return self.remark if isinstance(self.remark, str) else self.remark(drawn)
