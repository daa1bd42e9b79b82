"""Heads and other small matrices on a sheet: a mosaic with its title, colour bars, table and texts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mhaviz.pages.blocks import Matrices, Title
from mhaviz.pages.margins import Margin, key_margin, query_margin, without_keys
from mhaviz.pages.panels import SINK_SCALE, Panel, Scale
from mhaviz.results.axis import Axis
from mhaviz.views.figure.colour_bar import LEAST_BAR, MOST_BAR, draw_lines, draw_upright, lines_height, scale_width
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.margins import AT_RIGHT, OVER, draw_key_margin, draw_query_margin
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.mosaic import draw_mosaic, write_sides
from mhaviz.views.figure.number_grid import draw_ranges, notes_below
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.figure.table import MeasuredTable, TablePart
from mhaviz.views.measures import BODY, DRAWN_WIDER, MARGIN, SMALL, snap
from mhaviz.views.scales import Scales, columns_apart
from mhaviz.views.tiles.fit import VALUES_UP_TO
from mhaviz.views.tiles.layout import BESIDE, GAP, TILE_TITLE, Layout
from mhaviz.views.tiles.panels import ids_width
from mhaviz.views.tiles.places import middles
from mhaviz.views.tiles.room import Room
from mhaviz.views.tiles.solve import solve

_TITLE, _SUBTITLE = 0.3, 0.16  # inches for the title of a mosaic, and for the line below it
_BETWEEN, _OVER_TABLE, _OVER_LINES = 0.3, 0.2, 0.04  # inches: from a bar to a card, above a table, above text on cells
_OF_HEADS = 0.7  # inches of an upright colour bar with its numbers beside heads
_WIDE = 5.0  # inches of a page that is not narrow
_BESIDE_TABLE = 8.0  # inches of a page with room for a table beside a map
_WITH_MARGINS = 2.5  # least inches of each side of a map that has numbers along its sides


@dataclass(frozen=True, eq=False)
class MosaicPart(Part):
    """Heads, or other small matrices, that have been laid out.

    Attributes:
        block: the block.
        title: title of the mosaic; "": none.
        subtitle: line below the title: the name of the attention's module.
        layout: places of tiles and labels.
        fonts: fonts of the figure.
        panels: the matrices, pooled to the cells of the picture.
        bars: scales with a colour bar.
        bars_lie: whether colour bars lie in lines above the matrices instead of standing beside them.
        table: statistics of each head.
        beside: whether the table stands at the right of a single head instead of below the mosaic.
        text: what a cell shows, below the mosaic; "": not said here.
        across: inches of the mosaic and its margin, or of the widest that it is aligned with.
        margins: numbers of the keys and of the queries along the sides of a single large map.
    """

    block: Matrices
    title: Title | str
    subtitle: str
    layout: Layout
    fonts: Fonts
    panels: Sequence[Panel] = ()
    bars: Sequence[Scale] = ()
    bars_lie: bool = False
    table: TablePart | None = None
    beside: bool = False
    text: str = ""
    across: float = 0.0
    margins: tuple[Margin | None, Margin | None] = (None, None)

    after_in_grid = 0.1
    is_picture = True

    @property
    def rows(self) -> Axis:
        """Axis of the rows of each matrix."""
        return self.block.rows

    @property
    def columns(self) -> Axis:
        """Axis of the columns of each matrix."""
        return self.block.columns

    def above(self, room: float) -> float:
        """Return the inches above the mosaic on a page with ``room`` inches."""
        sides = TILE_TITLE * (self.layout.title == 0 and not self.block.maps)
        return self._title_height + (lines_height(self.bars, room) if self.bars_lie else 0.0) + sides

    @property
    def _title_height(self) -> float:
        return _TITLE + _SUBTITLE * bool(self.subtitle) if self.title else 0.0

    @property
    def _mosaic_width(self) -> float:
        """Inches of the mosaic, with the title over the last matrix where bars stand beside it."""
        has_more = self._upright or self.block.are_numbers
        return max(self.layout.width + (self.layout.gap - GAP if has_more else 0.0), self.across)

    @cached_property
    def width(self) -> float:
        """Width in inches, with colour bars and table."""
        bars = max(map(self._bars_width, self._bars_of_rows.values()), default=0.0)
        width = self._mosaic_width + BESIDE * bool(self._upright) + bars
        if self.table is None:
            return width
        return width + _BETWEEN + self.table.full_width if self.beside else max(width, self.table.width)

    @property
    def _upright(self) -> Sequence[Scale]:
        return () if self.bars_lie else self.bars

    @property
    def _bars_of_rows(self) -> Mapping[int, Sequence[Scale]]:
        """Scales whose colour bars stand beside each row of matrices: the first row that has the scale."""
        return _by_row(self._upright, self.panels, self.layout.columns)

    def _bars_width(self, scales: Sequence[Scale]) -> float:
        """Return the inches of upright bars side by side; that of sinks stands below the others."""
        beside = [scale for scale in scales if scale != SINK_SCALE]
        return sum(map(self._bar_width, beside or scales))

    def _bar_width(self, scale: Scale) -> float:
        return scale_width(scale, _OF_HEADS) if self.block.maps else scale_width(scale)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        above = self.above(room)
        n_below = len(self._below(room))
        matrices = max(self.layout.height, self._bars_height)
        height = above + matrices + _OVER_LINES * bool(n_below) + FOOT_LINE * n_below
        if self.table is None:
            return height
        if self.beside:
            return max(height, above + self.layout.tile(0)[1] + self.table.height(self.table.full_width))
        return height + _OVER_TABLE + self.table.height(self.width)

    @property
    def _bars_height(self) -> float:
        """Inches from the top of the mosaic to the end of the bar of sinks; 0: there is none."""
        if SINK_SCALE not in self._upright:
            return 0.0
        return self.layout.tile(0)[1] + _above_sinks(self.layout.tile_height) + _BETWEEN + LEAST_BAR

    def _below(self, room: float) -> list[str]:
        """Return the lines of text below the matrices."""
        if self.block.are_numbers:
            return notes_below(self.layout, self.panels, room, self.fonts)
        return [self.text] * bool(self.text)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Layouts of all matrices."""
        return (self.layout,)

    def draw_above(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the title, the subtitle and lying colour bars at ``y`` inches from the top."""
        lower = sheet.title(x, y + 0.1, self.title, room)
        if self.title and self.subtitle:
            fonts = sheet.fonts
            subtitle = fit_text(fonts.shown(self.subtitle), room / DRAWN_WIDER, BODY, fonts.families)
            sheet.write(x, y + 0.12 + lower + _SUBTITLE, subtitle, BODY, colour=QUIET)
        if self.bars_lie:
            draw_lines(sheet, x, y + self._title_height, room, self.bars)

    def draw_bars(self, sheet: Sheet, x: float, y: float, height: float) -> float:
        """Draw colour bars at the right of a mosaic that begins at ``x``, and return where they end."""
        right = begin = x + self._mosaic_width + BESIDE
        pitch = self.layout.title + self.layout.tile_height + self.layout.below
        for row, scales in self._bars_of_rows.items():
            left, top, of_sinks = begin, y + row * pitch, SINK_SCALE in scales
            high = _above_sinks(height) if of_sinks else height
            for scale in scales:
                if scale != SINK_SCALE:
                    draw_upright(sheet, left, top, high, scale)
                    left += self._bar_width(scale)
            if of_sinks:  # below the others
                is_alone = left == begin
                draw_upright(sheet, begin, top if is_alone else top + high + _BETWEEN, LEAST_BAR, SINK_SCALE)
                left = max(left, begin + self._bar_width(SINK_SCALE))
            right = max(right, left)
        return right

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the part with its top left corner at (x, y)."""
        self.draw_above(sheet, x, y, room)
        y += self.above(room)
        draw_mosaic(sheet, x, y, self.layout, self.panels)
        cells = y + self.layout.tile(0)[1]
        (of_keys, of_queries), corner = self.margins, (x + self.layout.queries.room, cells)
        left, top = (snap(inches, sheet.pixels) for inches in corner)
        if of_keys:
            draw_key_margin(sheet, left, top, self.layout, of_keys)
        if of_queries:
            draw_query_margin(sheet, left, top, self.layout, of_queries)
        if self.layout.title == 0:
            titles, n = [panel.title.rpartition(" ") for panel in self.panels], self.layout.columns
            across, down = [name for *_, name in titles[:n]], [name for name, *_ in titles[::n]]
            down = down if self.layout.queries.room else []  # a neighbour has them
            write_sides(sheet, x, y, self.layout, across, down)
        if self.block.are_numbers:
            draw_ranges(sheet, x, y, self.layout, self.panels)
        write_asides(sheet, x, y, self.layout, self.panels, bool(of_keys))
        if self.block.ids:
            self._write_ids(sheet, x, cells)
        left = self.draw_bars(sheet, x, cells, self.layout.tile_height)
        under = y + max(self.layout.height, self._bars_height)
        left_of_lines = x if self.block.are_numbers else x + self.layout.queries.room
        for i, line in enumerate(self._below(room)):
            sheet.write(left_of_lines, under + _OVER_LINES / 2 + FOOT_LINE * (i + 0.5), line, SMALL, colour=QUIET)
        if self.table and self.beside:
            self.table.draw(sheet, left + _BETWEEN, cells, self.table.full_width)
        elif self.table:
            self.table.draw(sheet, x, under + _OVER_TABLE, self.width)

    def _write_ids(self, sheet: Sheet, x: float, y: float) -> None:
        """Write token ids in a column before the labels of the first matrix, whose cells begin at ``y``."""
        block, size, side = self.block, self.layout.label_size, self.layout.queries
        right = x + ids_width(block, size, self.fonts)
        sheet.write(right, y - 0.06, "id", SMALL, align="right", vertical="bottom", colour=QUIET)
        places = middles(len(block.ids), side.cells, range(len(block.ids)))
        for place, number in zip(places, block.ids, strict=True):
            sheet.write(right, y + place * side.cell, str(number), size, align="right", colour=QUIET)

    @property
    def pictures(self) -> "Sequence[MosaicPart]":
        """The part."""
        return (self,)

    @property
    def of_panels(self) -> "MosaicPart | None":
        """The part, if the matrices are no heads."""
        return None if self.block.maps else self

    @property
    def heads_height(self) -> float:
        """Height of the heads of maps, in inches; 0 if the matrices are others."""
        return self.layout.height if self.block.maps else 0.0

    def titles(self, room: float) -> Iterator[tuple[Title | str, float]]:
        """Yield the title of the mosaic, with its width."""
        yield self.title, room

    def entitled(self, title: str) -> "MosaicPart":
        """Return the mosaic with this title, if its own names sentences."""
        return replace(self, title=title) if isinstance(self.title, Title) else self

    def split(self, room: float) -> Iterator[Part]:
        """Yield the mosaic, and its table in parts below it if that is wider than ``room`` inches."""
        if self.table is None or self.table.width <= room:
            yield self
        else:
            yield from (replace(self, table=None), *self.table.split(room))

    @property
    def left(self) -> float:
        """Inches of the labels of the rows."""
        return self.layout.queries.room

    def begun(self, left: float) -> "MosaicPart":
        """Return the mosaic with ``left`` inches for the labels of its rows."""
        return replace(self, layout=replace(self.layout, queries=replace(self.layout.queries, room=left)))

    @property
    def last_cells(self) -> float:
        """Inches from the top to the end of the last row of cells."""
        return self.above(0.0) + self.layout.height - self.layout.keys.room

    def among(self, before: "Sequence[MosaicPart]", below: "Sequence[MosaicPart]") -> "MosaicPart":
        """Return the mosaic without the labels that neighbours have: of rows, before it; of columns, below it."""
        queries, keys = self.layout.queries, self.layout.keys
        if any(self.rows.are_same(other.rows) for other in before):
            queries = replace(queries, marks=(), room=0.0)
        alike = [other.layout.keys for other in below if self.columns.are_same(other.columns)]
        if alike:  # labels are written below the last, beside whose own labels there may be less room
            cell = min(side.cell for side in (keys, *alike) if side.cells == keys.cells)
            keys = replace(keys, marks=(), room=0.0, cell=cell)
        return replace(self, layout=replace(self.layout, queries=queries, keys=keys))

    def aligned(self, others: Sequence["MosaicPart"]) -> "MosaicPart":
        """Return the part with its cells in line with those of other parts: its first column, and all with as many."""
        layout = replace(self.layout, queries=replace(self.layout.queries, room=max(one.left for one in others)))
        alike = [one.layout for one in others if one.layout.columns == layout.columns]
        pitch = max(one.tile_width + one.gap for one in alike) if layout.columns > 1 else 0.0
        return replace(self, layout=layout.spread(pitch))


def _above_sinks(cells: float) -> float:
    """Return the inches of a colour bar that has that of sinks below it, beside cells that are so high."""
    return max(min(cells, MOST_BAR) - _BETWEEN - LEAST_BAR, LEAST_BAR)


def write_asides(
    sheet: Sheet, x: float, y: float, layout: Layout, panels: Sequence[Panel], is_over_bars: bool = False
) -> None:
    """Write the number of each panel at the right end of its title, if there is room for all: with its name, or alone.

    ``is_over_bars``: whether bars with a text of their own stand between title and cells, and the number beside the
    title.
    """
    of_titles = [text_width(panel.title, SMALL, bold=True) for panel in panels]
    for texts in ([panel.aside for panel in panels], [panel.aside_short for panel in panels]):
        widths = [title + text_width(text, SMALL) for title, text in zip(of_titles, texts, strict=True) if text]
        if widths and max(widths) * DRAWN_WIDER + GAP <= layout.tile_width:
            break
    else:
        return
    for i, (text, title) in enumerate(zip(texts, of_titles, strict=True)):
        left, top = layout.tile(i)
        colour = QUIET if panels[i].apart else INK  # the share of columns in grey is grey
        if is_over_bars and text:
            line = y + top - layout.title + TILE_TITLE - 0.04
            sheet.write(x + left + title * DRAWN_WIDER + GAP / 2, line, text, SMALL, vertical="bottom", colour=colour)
        elif text:
            right = x + left + layout.tile_width
            sheet.write(right, y + top - 0.04, text, SMALL, vertical="bottom", align="right", colour=colour)


def decide_heads(block: Matrices, room: Room, fonts: Fonts, measured: MeasuredTable | None) -> MosaicPart:
    """Lay out heads, with their table and the bars along the sides of a single large one.

    Args:
        block: the heads.
        room: their room, without what tables and bars take.
        fonts: fonts of the figure.
        measured: their table, a card of a single head; None: they have none.
    """
    m = block.maps[0]
    style, is_alone = room.style, len(block.panels) == 1
    width = style.width or math.inf
    table = measured.part(width - 2 * MARGIN) if measured else None
    beside = is_alone and width >= _BESIDE_TABLE and not style.is_least  # a map is not made smaller for its sake
    margins: tuple[Margin | None, Margin | None] = (None, None)
    if is_alone and room.stacked == 1 and min(len(m.rows), len(m.columns)) > VALUES_UP_TO and width >= _WIDE:
        of_keys, apart = key_margin(m), columns_apart(block, style)
        margins = of_keys and without_keys(of_keys, apart), query_margin(m)
    taken = 0.0 if style.bars_lie else BESIDE + _OF_HEADS
    if style.width is not None:
        taken += AT_RIGHT * any(margins) + (_BETWEEN + table.full_width if table and beside else 0.0)
    layout = solve(block, replace(room, taken=taken))
    across = layout.width + layout.gap - GAP if room.like else 0.0
    if any(margins) and min(layout.tile_width, layout.tile_height) >= _WITH_MARGINS:
        layout = replace(layout, title=layout.title + OVER * bool(margins[0]))
        across = layout.width + AT_RIGHT
    else:
        margins = None, None
    return MosaicPart(
        block,
        block.title,
        block.module,
        layout,
        fonts,
        table=table,
        beside=beside,
        text=block.cell_text(m.cells.pooled(*layout.cells)) if m.quantity.is_signed else "",
        across=across,
        margins=margins,
        bars_lie=style.bars_lie,
    )


def painted(part: MosaicPart, scales: Scales) -> MosaicPart:
    """Return heads with their panels, and the colour bars that stand beside them.

    Maps of all tokens are pooled head by head when they are drawn.
    """
    panels = [panel.pooled(*part.layout.cells) for panel in scales.panels(part.block)]
    return replace(part, panels=panels, bars=scales.beside(part.block))


def number_length(blocks: Iterable[Matrices], scales: Scales) -> int:
    """Return the characters of the longest number in a cell of the maps that are short enough to have numbers."""
    panels = (panel for block in blocks for panel in scales.panels(block))
    changes = (one for one in panels if one.scale.signed and max(one.values.shape) <= VALUES_UP_TO)
    return max((panel.text_length for panel in changes), default=4)


def decide_panels(block: Matrices, bars: Sequence[Scale], room: Room, fonts: Fonts) -> MosaicPart:
    """Lay out matrices that are no heads.

    Args:
        block: the matrices, on the scales that they are drawn on.
        bars: scales with a colour bar.
        room: their room, without what colour bars take.
        fonts: fonts of the figure.
    """
    beside = (sum(map(scale_width, scales)) for scales in _by_row(bars, block.panels, block.most_across).values())
    taken = 0.0 if room.style.bars_lie else BESIDE + max(beside, default=0.0)
    layout = solve(block, replace(room, taken=taken))
    return MosaicPart(block, block.title, "", layout, fonts, block.panels, bars, room.style.bars_lie)


def _by_row(bars: Iterable[Scale], panels: Sequence[Panel], across: int) -> Mapping[int, list[Scale]]:
    """Return the scales by the row of the first panel that has each, with ``across`` panels in a row."""
    rows = defaultdict[int, list[Scale]](list)
    for scale in bars:
        rows[next((i for i, panel in enumerate(panels) if panel.scale == scale), 0) // across].append(scale)
    return rows
