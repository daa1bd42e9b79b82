"""Heads, and other small matrices, on a sheet: a mosaic with its title, its scales, its table and its words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mhaviz.pages.blocks import Bars, Heads, Panels
from mhaviz.pages.maps import scale_group
from mhaviz.pages.panels import Panel, Scale, head_panels, values_beyond
from mhaviz.pages.pooling import pool_map
from mhaviz.records import AttentionMap, Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import (
    BESIDE,
    GAP,
    MOST_WIDTH,
    VALUES_UP_TO,
    MosaicLayout,
    Space,
    decide_mosaic,
    draw_mosaic,
    draw_scale,
    draw_scale_beside,
)
from mhaviz.views.figure.sheet import DRAWN_WIDER, MARGIN, QUIET, SMALL, Sheet, text_width
from mhaviz.views.figure.table import TablePart, measure_table
from mhaviz.views.labels import quoting, title_places
from mhaviz.views.style import Style

TITLE = 0.3  # inches over a mosaic
_BETWEEN, _OVER_TABLE, _CELL_LINE = 0.3, 0.2, 0.2  # inches: from a scale to a card, over a table, of words on cells
_SCALE, _SIGNED_SCALE, _NAMED_SCALE = 0.7, 0.75, 0.85  # inches, the numbers beside the bar included; a name is longer
_LEAST_NUMBER = 0.05  # the largest weight of a part of a map in which numbers are more than 0.00
_MOST_PANELS_WIDTH, _USUAL_ACROSS = 15.0, 5  # inches, of so many panels
_LEAST_BAR, _MOST_BAR, _OVER_BAR = 0.6, 2.5, 0.4  # inches: a bar, and its name with the gap to the bar above


@dataclass(frozen=True)
class HeadsPart:
    """Heads that have been laid out.

    Attributes:
        table: beside a single head, or under several.
        text: what a cell is, if that stands under the mosaic.
        drawn: the maps in the cells of the picture, and their scale, as ``choose_scales`` finds them.
    """

    block: Heads
    layout: MosaicLayout
    table: TablePart | None
    text: str
    drawn: tuple[AttentionMap, ...] = ()
    scale: Scale = field(default_factory=Scale)

    before, after = 0.0, 0.3

    @property
    def cells(self) -> Cells:
        """What the cells of the picture are, as far as ``MosaicLayout.pooled`` does not say it."""
        cells = self.block.first.cells
        return cells if self.block.first.is_whole else cells.pooled(*self.layout.cells)

    @property
    def width(self) -> float:
        """In inches, the scale included."""
        mosaic = self.layout.width + BESIDE + _scale_width(self.block.first)
        if self.table is None:
            return mosaic
        if self.table.card:
            return mosaic + _BETWEEN + self.table.full_width
        return max(mosaic, self.table.width)

    @property
    def top(self) -> float:
        """Inches from the top to the first row of cells."""
        return TITLE + self.layout.tile(0)[1]

    def height(self, _: float) -> float:
        """In inches."""
        height = TITLE + self.layout.height + (_CELL_LINE if self.text else 0.0)
        if self.table is None:
            return height
        if self.table.card:
            return max(height, self.top + self.table.height(0))
        return height + _OVER_TABLE + self.table.height(self.width)

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """With its top left corner at (x, y)."""
        block, layout, scale = self.block, self.layout, self.scale
        sheet.title(y + 0.1, block.title)
        y += TITLE
        tiles, panels = iter(block.tiles), []
        for m in self.drawn:
            panels += head_panels(m, scale, [next(tiles) for _ in m.heads], layout.cells)
        draw_mosaic(sheet, x, y, layout, panels)
        self._write_numbers(sheet, x, y)
        first = block.first
        with_below = first.quantity.is_signed or not first.is_whole or scale.log
        name = f"{first.quantity.drawn_name}, log" if scale.log else first.quantity.drawn_name
        right, top = draw_scale_beside(sheet, x, y, layout, scale, name, values_beyond(panels, scale, with_below))
        under = y + layout.height
        if self.text:
            sheet.write(x + layout.queries.room, under + _CELL_LINE / 2, self.text, SMALL, colour=QUIET)
        if self.table and self.table.card:
            self.table.draw(sheet, right + _scale_width(first) + _BETWEEN, top, self.table.width)
        elif self.table:
            self.table.draw(sheet, x, under + _OVER_TABLE, self.width)

    def _write_numbers(self, sheet: Sheet, x: float, y: float) -> None:
        """Over the right end of each tile, beside its title, if there is room for all."""
        layout, numbers = self.layout, self.block.numbers
        titles = zip(self.block.tiles, numbers, strict=False)
        widths = (text_width(title, SMALL, bold=True) + text_width(number, SMALL) for title, number in titles)
        if max(widths, default=0.0) * DRAWN_WIDER + GAP > layout.tile_width:
            return
        for number, (left, top) in zip(numbers, map(layout.tile, range(len(numbers))), strict=True):
            right = x + left + layout.tile_width
            sheet.write(right, y + top - 0.04, number, SMALL, vertical="bottom", align="right", colour=QUIET)


def decide_heads(block: Heads, fonts: Fonts, style: Style, stacked: int, text_length: int) -> HeadsPart:
    """Lay out heads, their cells on whole pixels.

    ``stacked``: how many such blocks share the page; ``text_length``: characters of the longest number in a cell.
    """
    m = block.first
    numbers = style.numbers
    if not (m.is_whole or m.quantity.is_signed):
        numbers = numbers and max(float(one.weights.max()) for one in block.maps) >= _LEAST_NUMBER
    # A whole map may make a somewhat wider page.
    room = MOST_WIDTH if m.is_whole else MOST_WIDTH - 2 * MARGIN - BESIDE - _scale_width(m)
    space = Space(fonts, style.dpi, style.columns or block.across, room, stacked=stacked)
    layout = decide_mosaic(len(block.tiles), m.rows, m.columns, space, text_length, numbers)
    table = None
    if block.table is not None:
        table = measure_table(block.table.make(quoting(fonts.shown)), fonts, card=len(block.tiles) == 1)
    text = block.cell_text(m.cells.pooled(*layout.cells)) if block.says_cell else ""
    return HeadsPart(block, layout, table, text)


def choose_scales(parts: Sequence[HeadsPart], style: Style) -> list[HeadsPart]:
    """The same, each with the maps as they are drawn, and the scale that it shares with others of its kind.

    A map of all tokens is pooled when it is drawn, head by head.
    """
    drawn = [tuple(m if m.is_whole else pool_map(m, *p.layout.cells) for m in p.block.maps) for p in parts]
    scales = style.scales([m for part in parts for m in part.block.maps], [m for several in drawn for m in several])
    return [
        replace(part, drawn=maps, scale=scales[scale_group(part.block.first)])
        for part, maps in zip(parts, drawn, strict=True)
    ]


def number_length(maps: list[AttentionMap], style: Style) -> int:
    """Characters of the longest number in a cell of these maps, where they are so short that it has one."""
    changes = [m for m in maps if m.quantity.is_signed and max(m.weights.shape[1:]) <= VALUES_UP_TO]
    if not changes:
        return 4
    scale = style.change_scale(maps)
    return max(panel.text_length for m in changes for panel in head_panels(m, scale))


def written_texts(block: Heads) -> Iterator[str]:
    """The tokens that may stand in a picture: of a part, or of a pooled map, it is not all of them."""
    m = block.first
    for side in (m.queries, m.keys):
        yield from (side[i] for i in (range(len(side)) if m.is_whole else title_places(len(side))))


def _scale_width(m: AttentionMap) -> float:
    return _SIGNED_SCALE if m.quantity.is_signed else _SCALE


@dataclass(frozen=True)
class PanelsPart:
    """Small matrices that have been laid out."""

    block: Panels
    panels: tuple[Panel, ...]
    layout: MosaicLayout

    before, after = 0.0, 0.25

    @property
    def width(self) -> float:
        """In inches, without the title."""
        return self.layout.width

    @property
    def top(self) -> float:
        """Inches from the top to the first row of cells."""
        return TITLE + self.layout.tile(0)[1]

    def height(self, _: float) -> float:
        """In inches."""
        return TITLE + self.layout.height

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """With its top left corner at (x, y)."""
        sheet.title(y + 0.1, self.block.title)
        draw_mosaic(sheet, x, y + TITLE, self.layout, self.panels)


def decide_panels(block: Panels, style: Style) -> PanelsPart:
    """Lay out small matrices, far enough apart for what stands over each."""
    panels = tuple(panel.coloured(style.cmap) for panel in block.panels)
    width = _MOST_PANELS_WIDTH * (block.across or _USUAL_ACROSS) / _USUAL_ACROSS
    space = Space(Fonts(), style.dpi, block.across, width)
    text_length = max(panel.text_length for panel in panels)
    layout = decide_mosaic(len(panels), block.rows, block.columns, space, text_length)
    longest = max(text_width(panel.title, SMALL, bold=True) for panel in panels)
    return PanelsPart(block, panels, layout.spread(longest * DRAWN_WIDER + GAP))


@dataclass(frozen=True)
class BarsPart:
    """Scales one below the other, beside cells of so many inches if that leaves them large enough."""

    block: Bars
    cmap: str
    cells: float

    before, width, after = BESIDE, _NAMED_SCALE, 0.0

    @property
    def bar(self) -> float:
        """The height of one, in inches."""
        return min(max((self.cells + _OVER_BAR) / len(self.block.scales) - _OVER_BAR, _LEAST_BAR), _MOST_BAR)

    def height(self, _: float) -> float:
        """In inches."""
        return len(self.block.scales) * (self.bar + _OVER_BAR) - _OVER_BAR

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """With its top left corner at (x, y)."""
        for name, scale in self.block.scales:
            draw_scale(sheet, x, y, self.bar, scale.coloured(self.cmap), name)
            y += self.bar + _OVER_BAR
