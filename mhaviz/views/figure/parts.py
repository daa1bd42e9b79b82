"""Parts of a page: each block is measured in the room that the others leave, before all are placed.

A block of a new kind is measured by a method that is registered for it at ``Measuring.part``; without one, it is a
table.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatchmethod

from mhaviz.pages.blocks import (
    Bars,
    Block,
    Curves,
    Dots,
    Flow,
    Grid,
    Links,
    Matrices,
    Page,
    Shaded,
    SpanGrid,
    Stacks,
    Table,
    Text,
    heads,
    leaves,
    matrices,
)
from mhaviz.pages.overlays import Overlays
from mhaviz.pages.panels import Scale
from mhaviz.views.figure.bars import BarsPart
from mhaviz.views.figure.colour_bar import scale_width
from mhaviz.views.figure.curves import decide_curves
from mhaviz.views.figure.dots import DotsPart
from mhaviz.views.figure.flow import FlowPart
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.grid import BETWEEN, BETWEEN_STACKS, GridPart, StacksPart, in_lines, line_up
from mhaviz.views.figure.heads import MosaicPart, decide_heads, decide_panels, number_length, painted
from mhaviz.views.figure.lines import decide_lines
from mhaviz.views.figure.overview import overview
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.patches import OverlayPart
from mhaviz.views.figure.shaded import ShadedPart
from mhaviz.views.figure.span_grid import SpanGridPart
from mhaviz.views.figure.table import MeasuredTable, measure_table
from mhaviz.views.figure.text import TextPart
from mhaviz.views.measures import BODY, MARGIN, SMALL
from mhaviz.views.scales import Scales, resolve
from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.fit import MOST_WIDTH
from mhaviz.views.tiles.layout import BESIDE
from mhaviz.views.tiles.room import Room

ROUNDING = 0.15  # inches by which labels may exceed their estimate
_HEADING = 10.0  # font size in points
_LEAST_BESIDE_TABLE, _LABELS_BESIDE = 0.03, 0.6  # inches of a cell, at least, and of labels, of pictures beside a table
_LEAST_STACK = 2.8  # inches of the right one of two stacks side by side
_MUCH_LONGER = 3  # ratio of lengths beyond which cells of the same size would be too small for the shorter map


class Measuring:
    """Measures the blocks of a page.

    Args:
        page: the page.
        scales: scales of whole maps.
        fonts: fonts of the figure.
        style: style of the page, with its width.
        whole: measuring of the page that these blocks are a stack of, whose letters and scales they have; None: they
            are all of the page.
    """

    def __init__(
        self, page: Page, scales: Scales, fonts: Fonts, style: LayoutStyle, whole: "Measuring | None" = None
    ) -> None:
        blocks, of_heads = matrices(page.blocks), heads(page.blocks)
        self._page, self._scales, self._fonts, self._style = page, scales, fonts, style
        self._tables: dict[tuple[int, bool], tuple[Table, MeasuredTable]] = whole._tables if whole else {}
        self._room = Room(
            fonts,
            style,
            stacked=len(of_heads),
            text_length=number_length(of_heads, scales),
            of_numbers=[len(block.panels) for block in blocks if block.are_numbers],
        )
        mosaics = self._aligned(of_heads)
        if whole:
            self._text_size: float = whole._text_size
        else:
            are_explained = any(block.is_explained for block in leaves(page.blocks)) or len(blocks) > len(of_heads)
            self._text_size = SMALL if are_explained else BODY
            if style.room is None and (cells := pooled_cells(mosaics)):  # the sheets of a room share their scales
                self._scales = resolve(page, cells, style)
        self._of_heads = {id(mosaic.block): painted(mosaic, self._scales) for mosaic in mosaics}

    def _stack(self, blocks: tuple[Block, ...], width: float) -> list[Part]:
        """Measure one of two stacks on the page, of a ``width``."""
        page, style = replace(self._page, blocks=blocks), replace(self._style, width=width)
        return Measuring(page, self._scales, self._fonts, style, whole=self).parts()

    def _measured(self, table: Table, card: bool = False) -> MeasuredTable:
        """Return a table of the page with its texts measured, once for all rooms that are tried."""
        key = id(table), card
        if key not in self._tables:
            self._tables[key] = table, measure_table(table, self._fonts, card)  # a table that is kept keeps its id
        return self._tables[key][1]

    def parts(self) -> list[Part]:
        """Return the parts, in the order of the blocks."""
        parts = [part for block in self._page.blocks for part in self._parts_of(block)]
        of_panels = [part.of_panels for part in parts if part.of_panels]
        in_columns = [part.of_panels.aligned(of_panels) if part.of_panels else part for part in parts]
        return in_columns if all(part.width <= self._style.most_across for part in in_columns) else parts

    @singledispatchmethod
    def part(self, block: Block, room: Room) -> Part:
        """Measure a block in its room."""
        table = block.as_table
        assert table is not None, "what has no picture has numbers"
        return self._measured(table).part(self._style.most_across, self._style.squeeze)

    @part.register
    def _(self, block: Matrices, room: Room) -> Part:
        if block.maps:
            return self._of_heads[id(block)]
        bars = () if room.in_line else self._scales.beside(block)
        return decide_panels(replace(block, panels=self._scales.panels(block)), bars, room, self._fonts)

    @part.register
    def _(self, block: Grid, room: Room) -> Part:
        style, is_inside = room.style, room.in_line > 0
        room = replace(room, in_line=room.in_line or block.n_abreast)
        bars = () if is_inside else self._scales.beside(block)
        most = MOST_WIDTH if style.width is None else style.most_across
        part = line_up(self._rows(block, self._beside_tables(block, bars, room)), bars, style.bars_lie)
        has_grids = any(one.blocks for one in block.blocks)
        if part.width <= most or (style.width is None and not has_grids):
            return part
        parts = [self.part(one, room) for one in block.blocks]
        return in_lines(parts, bars, most, style.width is not None, in_order=not style.is_narrow)

    def _rows(self, grid: Grid, room: Room) -> list[list[Part | None]]:
        return [[self.part(one, room) if one else None for one in row] for row in grid.rows]

    def _beside_tables(self, grid: Grid, bars: Sequence[Scale], room: Room) -> Room:
        """Return the room of the pictures of a grid beside its tables, or the whole if that would be too little."""
        tables = [one.as_table for one in grid.blocks if one.as_table is one]
        least = _LEAST_BESIDE_TABLE * max((len(one.columns) for one in matrices([grid])), default=0) + _LABELS_BESIDE
        wide = (self._measured(table).part().beside_width + BETWEEN for table in tables)
        free = room.style.across - max(wide, default=math.inf)
        free -= 0.0 if room.style.bars_lie or not bars else BESIDE + sum(map(scale_width, bars))
        return replace(room, style=replace(room.style, width=free + 2 * MARGIN)) if free >= least else room

    @part.register
    def _(self, block: Stacks, room: Room) -> Part:
        return GridPart(tuple((self.part(one, room),) for one in block.blocks), ())

    @part.register
    def _(self, block: Curves, room: Room) -> Part:
        return decide_curves(block, room.style)

    @part.register
    def _(self, block: Dots, room: Room) -> Part:
        return DotsPart(block, self._fonts)

    @part.register
    def _(self, block: Shaded, room: Room) -> Part:
        return ShadedPart(self._scales.shaded(block), self._fonts)

    @part.register
    def _(self, block: SpanGrid, room: Room) -> Part:
        return SpanGridPart(replace(block, scale=self._scales.drawn[block.scale]), self._fonts)

    @part.register
    def _(self, block: Overlays, room: Room) -> Part:
        return OverlayPart(block, self._scales.drawn[block.scale], self._fonts, self._style)

    @part.register
    def _(self, block: Bars, room: Room) -> Part:
        return BarsPart(block, self._fonts, self._style.cmap)

    @part.register
    def _(self, block: Links, room: Room) -> Part:
        return decide_lines(block, room.style, self._fonts)

    @part.register
    def _(self, block: Flow, room: Room) -> Part:
        return FlowPart(block, room.style.most_across, room.style.heads_height or math.inf)

    @part.register
    def _(self, block: Text, room: Room) -> Part:
        shown = replace(block, lines=tuple(line and self._fonts.shown(line) for line in block.lines))
        heading = BODY if room.style.is_narrow else _HEADING
        sizes = {"heading": heading, "subheading": BODY}
        return TextPart(shown, sizes.get(block.style, self._text_size))

    def _parts_of(self, block: Block) -> list[Part]:
        """Return the part of a block; two stacks side by side, each measured as a page of its width, or else their
        parts one below the other."""
        if not isinstance(block, Stacks):
            return [self.part(block, self._room)]
        below = [self.part(one, self._room) for one in block.blocks]
        across = self._style.across - BETWEEN_STACKS
        left = max(part.width for part in below[: len(block.left)]) or across / 2
        rooms = left, across - left
        if self._style.is_narrow or rooms[1] < _LEAST_STACK:
            return below
        stacks = zip((block.left, block.right), rooms, strict=True)
        first, second = (tuple(self._stack(stack, inside + 2 * MARGIN)) for stack, inside in stacks)
        if max(part.width for part in second) > rooms[1] + ROUNDING:
            return below
        return [StacksPart((first, second), rooms)]

    def _aligned(self, of_heads: Sequence[Matrices]) -> list[MosaicPart]:
        """Return all heads of the page; those with the same number stand above each other."""

        def decided(block: Matrices, room: Room) -> MosaicPart:
            measured = self._measured(block.table, len(block.panels) == 1) if block.table else None
            return decide_heads(block, room, self._fonts, measured)

        alone = [decided(block, self._room) for block in of_heads]

        def aligned(mosaic: MosaicPart) -> MosaicPart:
            if mosaic.layout.enlarged:
                return overview(mosaic, self._style)
            others = (one for one in alone if not one.layout.enlarged and _stand_in_line(mosaic.block, one.block))
            like = [one.layout for one in others]
            if len(like) < 2:
                return mosaic
            return decided(mosaic.block, replace(self._room, like=like))

        return list(map(aligned, alone))


def pooled_cells(parts: Iterable[MosaicPart]) -> dict[int, tuple[int, int]]:
    """Return the cells in which pooled maps are drawn, by the ``id`` of each."""
    return {id(m): part.layout.cells for part in parts for m in part.block.maps if m.is_pooled}


def _stand_in_line(one: Matrices, other: Matrices) -> bool:
    """Return whether the heads of two blocks are aligned, with cells of the same size.

    They are not where one block is a part of a map or pooled, nor where stages of a recorded program differ in their
    number of heads, or much in their length.
    """
    if one is other:
        return True
    first, second = one.maps[0], other.maps[0]
    if not (first.is_whole and second.is_whole):
        return False
    if not (first.is_recorded and second.is_recorded):
        return True
    longest = [max(len(m.rows), len(m.columns)) for m in (first, second)]
    return len(first.heads) == len(second.heads) and max(longest) <= _MUCH_LONGER * min(longest)
