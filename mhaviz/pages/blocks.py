"""The blocks that a page is made of. Who draws them, on paper or in the terminal, adds no words of its own."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.panels import DIVERGING, FILM, INK, WEIGHT, Panel, Scale, values_beyond
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import Cells
from mhaviz.results.trace import TraceStep

NOTHING = "–"
"""What stands where there is no number."""

_LOG_RANGE = 1000  # times as large as its least number is the largest of a logarithmic scale from 0

Where = Literal["everywhere", "drawn", "listed"]
"""Paper draws, a terminal lists numbers: where a block belongs that says or lists what another one shows."""


@dataclass(frozen=True)
class Title:
    """What a picture is of, and the texts that its tokens make; a medium shortens them to its width.

    Attributes:
        head: "source-target attention, layer 3".
        texts: what each is called, and its tokens; a text that is called nothing is both queries and keys.
        short: a head for narrow places: "cross, layer 3".
    """

    head: str
    texts: tuple[tuple[str, Tokens], ...]
    short: str


@dataclass(frozen=True)
class Text:
    """Lines of words; a "subtitle" explains the title, an "intro" stands in its place where pictures have titles."""

    lines: tuple[str, ...]
    style: Literal["plain", "quiet", "heading", "subtitle", "intro"] = "plain"
    where: Where = "everywhere"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        heading: stands over it.
        text: how one of its values is written; None is always a dash, and "" stays empty.
        align: words begin on the left, numbers end on the right.
        is_key: whether it tells the rows apart: it stands in every part of a table that is too wide for its place.
        bar: its values are shares from 0 to 1, drawn as bars of up to so many cells of a terminal; 0: they are not.
    """

    heading: str
    text: Callable[[Any], str] = str
    align: Literal["left", "right"] = "right"
    is_key: bool = False
    bar: int = 0

    def write(self, value: object) -> str:
        """A value as text."""
        if value is None or value == "":
            return NOTHING if value is None else ""
        return self.text(value)


@dataclass(frozen=True)
class Table:
    """Rows of values.

    Attributes:
        rows: a value a column; None: there is none.
        heading: stands over it.
        most: rows that are shown; None: all.
        notes: what the rows and the columns mean.
        has_total: whether the last row sums up the others.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    heading: str = ""
    most: int | None = None
    notes: str = ""
    has_total: bool = False
    where: Where = "everywhere"

    def limited(self) -> tuple["Table", str]:
        """The first rows, and what is said of the others."""
        if self.most is None or len(self.rows) <= self.most:
            return self, ""
        return replace(self, rows=self.rows[: self.most]), f"and {len(self.rows) - self.most:,} more; .json has all"

    def headings(self) -> tuple[str, ...]:
        """Of all columns."""
        return tuple(column.heading for column in self.columns)

    def texts(self) -> list[tuple[str, ...]]:
        """All values as they are written, without bars."""
        return [
            tuple("" if c.bar else c.write(value) for c, value in zip(self.columns, row, strict=True))
            for row in self.rows
        ]


@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        name: stands in the key, or below the plot; a line without one is the only one, or known by another.
        xs, ys: its points, x rising. Where y is None, nothing is drawn.
        colour: 0 to 4; None: a quiet grey.
        marker: the shape of its points, 0 to 4; None: they are not marked.
        band: from where to where each y may lie; empty: not known.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
    colour: int | None = None
    marker: int | None = None
    band: tuple[tuple[float, float] | None, ...] = ()
    line: Literal["solid", "dashed", "dotted"] = "solid"


@dataclass(frozen=True)
class PlotAxis:
    """One side of a plot.

    Attributes:
        label: its name and unit.
        log: labels stand at powers of this number, and equal factors are equally long; None: it is even.
        unit: writes a label; None: as a plain number.
        limits: from where to where it goes, None where the points say it.
    """

    label: str = ""
    log: int | None = None
    unit: Callable[[float], str] | None = None
    limits: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Plot:
    """Lines over one pair of axes; ``marks``: points that have something to say, (x, y, text)."""

    title: str
    series: tuple[Series, ...]
    x: PlotAxis
    y: PlotAxis
    marks: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True)
class Key:
    """The name of lines that are in several plots; ``remark``: what there is to say of it."""

    name: str
    remark: str = ""


@dataclass(frozen=True)
class Curves:
    """Plots side by side.

    Attributes:
        columns: how many stand beside each other, where there is room.
        keys: of all plots.
    """

    where: ClassVar[Where] = "drawn"

    plots: tuple[Plot, ...]
    columns: int
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Dot:
    """One number of a ranking.

    Attributes:
        name: what it is of, "L0 H2".
        value: the number.
        low, high: the ends of its interval; NaN: not known.
        chance: what it is by chance; NaN: not known.
        note: what there is to say of it.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    note: str = ""


@dataclass(frozen=True)
class Dots:
    """Ranked numbers, one a row: a dot with its interval as a whisker, beside a grey line at chance.

    Attributes:
        title: stands over them.
        dots: from the first on.
        label: what the numbers are.
        text: how one is written.
        notes: what whiskers and lines mean.
    """

    where: ClassVar[Where] = "drawn"

    title: str
    dots: tuple[Dot, ...]
    label: str
    text: Callable[[float], str]
    notes: str = ""


@dataclass(frozen=True)
class Flow:
    """Steps as boxes, with arrows from each to those that read it.

    Attributes:
        steps: in the order in which they are taken.
        notes: what is said of each step: its costs.
        visits: of the steps that a followed element passes, its coordinates there.
    """

    where: ClassVar[Where] = "drawn"

    steps: tuple[TraceStep, ...]
    notes: tuple[str, ...]
    visits: Mapping[str, str]


@dataclass(frozen=True)
class Heads:
    """The heads of a map side by side, or of one map in several layers, a row of heads a layer, on one scale.

    Attributes:
        title: of all layers together.
        maps: they differ in their layer alone, or in their forward pass; what their masks hide may differ.
        tiles: what stands over each head, layer by layer.
        numbers: one of each head, of which pictures that have room for it write it over the right end; may be empty.
        across: heads that belong side by side; None: as it fits.
        cell_text: what a cell of a picture is, if it is not a number between one query and one key.
        says_cell: whether that stands under this picture, and not with what else is said of all.
        table: what each head does.
        place: of the first map in the result.
        by_layer: the same a layer at a time, for media that have no room for several rows of heads; empty where it is
            shown together everywhere.
        module: what the program that was recorded calls the attention, or those of all layers: "blocks.*.attn".
    """

    where: ClassVar[Where] = "everywhere"

    title: Title
    maps: tuple[AttentionMap, ...]
    tiles: tuple[str, ...]
    across: int | None
    cell_text: Callable[[Cells], str]
    says_cell: bool = False
    numbers: tuple[str, ...] = ()
    table: Table | None = None
    place: int = 0
    by_layer: tuple["Heads", ...] = ()
    module: str = ""

    @property
    def first(self) -> AttentionMap:
        """The map of the first layer, for what all have in common."""
        return self.maps[0]


@dataclass(frozen=True)
class Panels:
    """Small matrices of one shape side by side.

    Attributes:
        title: over all of them; "" beside other pictures.
        is_main: whether this is what the page is of, whose title somebody may replace.
        rows, columns: of each.
        across: how many stand side by side.
        names: of the rows and the columns, where paper has room for them.
        first: the title of the one that stands first where some have no room; "": all are shown, with their numbers.
        ids: of the rows, which paper writes before their labels; empty: they have none.
    """

    title: Title | str
    panels: tuple[Panel, ...]
    rows: Axis
    columns: Axis
    across: int
    names: tuple[str, str] = ("", "")
    first: str = ""
    ids: tuple[int, ...] = ()
    is_main: bool = True
    where: Where = "everywhere"

    @property
    def scales(self) -> tuple[Scale, ...]:
        """Those that have a name, each once, in the order of the panels."""
        return tuple(dict.fromkeys(panel.scale for panel in self.panels if panel.scale.name))

    @property
    def are_numbers(self) -> bool:
        """Whether each is of another number of heads, with a scale that stands in its title."""
        return bool(self.first) and not self.scales

    @property
    def are_patches(self) -> bool:
        """Whether the cells are patches of an image."""
        return self.rows.tokens.grid is not None


@dataclass(frozen=True)
class Grid:
    """Blocks in rows and columns, whose cells line up; where there is no room side by side, one after the other.

    ``rows``: from the left to the right; None is an empty place.
    """

    where: ClassVar[Where] = "everywhere"

    rows: tuple[tuple["Block | None", ...], ...]

    @property
    def blocks(self) -> tuple["Block", ...]:
        """All of them, row by row."""
        return tuple(block for row in self.rows for block in row if block is not None)


Block = Text | Table | Curves | Dots | Flow | Heads | Panels | Grid


def leaves(blocks: Iterable[Block]) -> Iterator[Block]:
    """The same with the blocks of grids in their places."""
    for block in blocks:
        yield from leaves(block.blocks) if isinstance(block, Grid) else (block,)


@dataclass(frozen=True)
class Drawn:
    """What a medium has made of maps, for the words that explain the picture.

    Attributes:
        cells: what the cells of the pictures are, as far as it is not said beside them.
        pooled: the same of maps of all tokens, in words; empty where a cell is one number.
        hidden: how hidden cells are shown.
        ends: what the lowest and the highest colour are called, if anybody could call them so.
        n_maps: how many are drawn, the first; None: all.
    """

    cells: tuple[Cells, ...] = ()
    pooled: tuple[str, ...] = ()
    hidden: str = "outside the thin outline"  # a weight near 0 is blank, too
    ends: tuple[str, str] | None = None
    n_maps: int | None = None


@dataclass(frozen=True)
class Page:
    """What is shown of a result.

    Attributes:
        title: stands over everything; "" where pictures have titles.
        blocks: in their order.
        footnote: where the numbers come from.
        remark: how to read the pictures as they have been drawn; beside the footnote on paper, else below the pictures.
        left_out: what a medium says that shows so many maps, the first, and lacks so many heads of the last of them.
    """

    title: Title | str
    blocks: tuple[Block, ...]
    footnote: str
    remark: str | Callable[[Drawn], str] = ""
    left_out: Callable[[int, int], str] | None = None

    @property
    def _panels(self) -> list[Panels]:
        return [block for block in leaves(self.blocks) if isinstance(block, Panels)]

    def bars(self, block: Panels) -> dict[Scale, tuple[bool, bool]]:
        """Scales that appear first in this block; whether values exceed each end."""
        several = self._panels
        place = next(i for i, one in enumerate(several) if one is block)
        known = {scale for one in several[:place] for scale in one.scales}
        alike = [panel for one in several for panel in one.panels]
        return {
            scale: values_beyond([panel for panel in alike if panel.scale == scale], scale)
            for scale in block.scales
            if scale not in known
        }

    def coloured(self, colormap: str, vmax: float | None = None, log: bool = False) -> "Page":
        """The same in these colours, the darkest of weights at ``vmax``, and of patches, which may be ``log``.

        Beside numbers of one sign, which the colours are for, those of two keep their own.
        """
        signs = {panel.scale.has_two_signs for block in self._panels for panel in block.panels}

        def of_panel(panel: Panel) -> Panel:
            scale = panel.scale
            keeps = scale.colormap not in (INK, DIVERGING, FILM) or (len(signs) > 1 and scale.has_two_signs)
            if vmax is not None and (scale.name == WEIGHT or scale.colormap == FILM):
                if vmax <= scale.low:
                    raise ArgumentError(
                        f"{parameter('vmax')}: expected more than {scale.low:g} {scale.name}, got {vmax:g}"
                    )
                scale = replace(scale, high=vmax)
            if log and scale.colormap == FILM:
                scale = replace(scale, low=scale.low or scale.high / _LOG_RANGE, log=True, name=f"{scale.name}, log")
            return replace(panel, scale=scale if keeps else scale.coloured(colormap))

        def drawn(block: Block) -> Block:
            if isinstance(block, Grid):
                return Grid(tuple(tuple(one and drawn(one) for one in row) for row in block.rows))
            if not isinstance(block, Panels):
                return block
            return replace(block, panels=tuple(map(of_panel, block.panels)))

        return replace(self, blocks=tuple(map(drawn, self.blocks)))
