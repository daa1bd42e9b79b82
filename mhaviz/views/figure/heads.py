"""Heads, and other small matrices, on a sheet: a mosaic with its title, its scales, its table and its words."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mhaviz.pages.attention import scale_group
from mhaviz.pages.blocks import Heads, Panels, Title
from mhaviz.pages.labels import harmless, title_places
from mhaviz.pages.panels import Panel, Scale, head_panels, values_beyond
from mhaviz.pages.pooling import pool_map
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.quantity import Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import (
    BESIDE,
    GAP,
    LABELS_UP_TO,
    MOST_WIDTH,
    VALUES_UP_TO,
    MosaicLayout,
    Space,
    decide_mosaic,
    draw_mosaic,
    draw_scale,
    thinned_places,
)
from mhaviz.views.figure.sheet import BODY, DRAWN_WIDER, MARGIN, QUIET, SMALL, Sheet, fit_text, snap, text_width, wrap
from mhaviz.views.figure.sheet import TITLE as FULL
from mhaviz.views.figure.table import TablePart, measure_table
from mhaviz.views.style import Style

TITLE = 0.3  # inches over a mosaic
_TITLE_LINE, _COUNTS_LINE = 0.19, 0.16  # inches of one more line of a title, and of what it is over
_LEAST_TITLE = 9.5  # points that a title gets smaller to, rather than going on in another line
_UNDER_LINES = 0.06  # inches
_MOST_TITLE_LINES = 3
_MODULE = 0.16  # inches of a line under its title
_BETWEEN, _OVER_TABLE, _CELL_LINE = 0.3, 0.2, 0.2  # inches: from a scale to a card, over a table, of words on cells
_PAGE = 11.6, 7.5  # inches for the tiles of a page: width and height
_LEAST_TILE, _LEAST_CELL = 0.3, 0.12  # inches, of a cell with a label
_SCALE, _SIGNED_SCALE = 0.7, 0.75  # inches, the numbers beside the bar included
_LEAST_SCALE, _BESIDE_NAME = 0.85, 0.12  # of one that has a name of any length; between two names
_LEAST_ROOM = 0.5  # inches of a mosaic, however narrow the page is said to be
_LEAST_NUMBER = 0.05  # the largest weight of a part of a map in which numbers are more than 0.00
_WIDEST, _NARROWEST, _HIGHEST = {1: 6.84, 2: 4.5, 3: 3.6}, 2.8, 4.6  # inches of a panel, of so many side by side
_HIGHEST_FEATURES = 4.0  # inches of a panel of features
_OF_FEATURES, _OF_NUMBERS = (0.2, 0.2), (0.27, 0.42)  # inches, the most of a cell of one; of one with a number
# In a grid: inches, the most of features across and down, and of tokens; of a row with numbers; characters of a number
_SIDE_BY_SIDE, _HIGH, _TOKENS, _ROW, _NUMBER = 10.4, 1.2, 2.8, 0.22, 5
_AFTER_IDS = 0.12  # inches


@dataclass(frozen=True)
class HeadsPart:
    """Heads that have been laid out.

    Attributes:
        title: stands over it; "": nothing does.
        table: beside a single head, or under several.
        text: what a cell is, if that stands under the mosaic.
        panels: of all heads, in the cells of the picture, and their scale, as ``choose_scales`` makes them.
        bar: whether the scale stands beside it, and not beside another of its kind.
        beyond: whether some numbers lie below the scale, and above it, in all that share it.
        across: inches of the mosaic, or of the widest that it stands in line with.
    """

    block: Heads
    title: Title | str
    layout: MosaicLayout
    table: TablePart | None
    text: str
    panels: Sequence[Panel] = ()
    scale: Scale = field(default_factory=Scale)
    bar: bool = True
    beyond: tuple[bool, bool] = (False, False)
    across: float = 0.0

    after = 0.3

    @property
    def title_height(self) -> float:
        """Inches over the mosaic."""
        return (TITLE + (_MODULE if self.block.module else 0.0)) if self.title else 0.0

    @property
    def cells(self) -> Cells:
        """What the cells of the picture are, as far as ``MosaicLayout.pooled`` does not say it."""
        cells = self.block.first.cells
        return cells if self.block.first.is_whole else cells.pooled(*self.layout.cells)

    @property
    def width(self) -> float:
        """In inches, the scale included."""
        mosaic = max(self.layout.width, self.across) + BESIDE + _scale_width(self.block.first)
        if self.table is None:
            return mosaic
        if self.table.card:
            return mosaic + _BETWEEN + self.table.full_width
        return max(mosaic, self.table.width)

    def module_width(self, fonts: Fonts) -> float:
        """Inches that the line under the title would take if there were room for all of it."""
        if not (self.title and self.block.module):
            return 0.0
        return text_width(fonts.shown(self.block.module), BODY, fonts.families) * DRAWN_WIDER

    @property
    def top(self) -> float:
        """Inches from the top to the first row of cells."""
        return self.title_height + self.layout.tile(0)[1]

    def height(self, _: float) -> float:
        """In inches."""
        height = self.title_height + self.layout.height + (_CELL_LINE if self.text else 0.0)
        if self.table is None:
            return height
        if self.table.card:
            return max(height, self.top + self.table.height(0))
        return height + _OVER_TABLE + self.table.height(self.width)

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """With its top left corner at (x, y)."""
        block, layout, scale = self.block, self.layout, self.scale
        if self.title:
            sheet.title(y + 0.1, self.title)
            if block.module:
                self._write_module(sheet, y + 0.1 + _MODULE + 0.02)
        y += self.title_height
        draw_mosaic(sheet, x, y, layout, self.panels)
        self._write_numbers(sheet, x, y)
        first = block.first
        name = f"{first.quantity.drawn_name}, log" if scale.log else first.quantity.drawn_name
        right, top = x + max(layout.width, self.across) + BESIDE, y + layout.tile(0)[1]
        if self.bar:
            draw_scale(sheet, right, top, layout.bar, scale, name, self.beyond)
        under = y + layout.height
        if self.text:
            sheet.write(x + layout.queries.room, under + _CELL_LINE / 2, self.text, SMALL, colour=QUIET)
        if self.table and self.table.card:
            self.table.draw(sheet, right + _scale_width(first) + _BETWEEN, top, self.table.width)
        elif self.table:
            self.table.draw(sheet, x, under + _OVER_TABLE, self.width)

    def _write_module(self, sheet: Sheet, y: float) -> None:
        """What the program calls the attention, under the title."""
        families, room = sheet.fonts.families, sheet.width - 2 * MARGIN
        text = fit_text(sheet.fonts.shown(self.block.module), room / DRAWN_WIDER, BODY, families)
        sheet.write(MARGIN, y, text, BODY, colour=QUIET)

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


def decide_heads(
    block: Heads, fonts: Fonts, style: Style, stacked: int, text_length: int, like: Sequence[HeadsPart] = ()
) -> HeadsPart:
    """Lay out heads, their cells on whole pixels.

    Args:
        block: the heads.
        fonts, style: as everywhere; a width is that of the page.
        stacked: how many such blocks share the page.
        text_length: characters of the longest number in a cell.
        like: those that it stands in line with: of the same cells, columns and room for labels.
    """
    m = block.first
    numbers = style.numbers
    if numbers is None and not (m.is_whole or m.quantity.is_signed):
        is_seen = max(float(one.weights.max()) for one in block.maps) >= _LEAST_NUMBER
        numbers = None if is_seen else False
    around = 2 * MARGIN + BESIDE + _scale_width(m)
    columns, longest = style.columns or block.across, max(len(m.rows), len(m.columns))
    width, height, least = MOST_WIDTH - around * (not m.is_whole), math.inf, _LEAST_TILE
    if style.width is not None:
        width = max(style.width - around, _LEAST_ROOM)
    elif m.is_whole and longest <= LABELS_UP_TO and not numbers:  # a page, as far as labels can be read
        width, height = _PAGE[0], _PAGE[1] / stacked
        least = min(_LEAST_CELL * longest, MOST_WIDTH / (columns or math.sqrt(1.5 * len(block.tiles))))
    space = Space(
        fonts,
        style.dpi,
        columns,
        width,
        height,
        least,
        stacked=stacked,
        fills=style.width is not None,
        same_labels=style.font_size is not None,
    )
    if like:
        cells = [min(part.layout.queries.cell, part.layout.keys.cell) for part in like]
        space = replace(
            space,
            cell=min(cells),
            left=max(part.layout.queries.room for part in like),
            columns=max(part.layout.columns for part in like),
        )
    layout = decide_mosaic(len(block.tiles), m.rows, m.columns, space, text_length, numbers)
    across = 0.0
    if like:  # heads of the same number stand above each other
        gap, pitch = layout.gap, max(len(part.block.first.columns) for part in like) * layout.keys.cell + layout.gap
        across = layout.queries.room + layout.columns * pitch - gap
        layout = layout.spread(pitch)
    table = None
    if block.table is not None:
        table = measure_table(block.table, fonts, card=len(block.tiles) == 1)
    text = block.cell_text(m.cells.pooled(*layout.cells)) if block.says_cell else ""
    return HeadsPart(block, block.title, layout, table, text, across=across)


def choose_scales(parts: Sequence[HeadsPart], style: Style) -> list[HeadsPart]:
    """The same, each with the maps as they are drawn, and the scale that it shares with others of its kind.

    A map of all tokens is pooled when it is drawn, head by head.
    """
    drawn = [tuple(m if m.is_whole else pool_map(m, *p.layout.cells) for m in p.block.maps) for p in parts]
    scales = style.scales([m for part in parts for m in part.block.maps], [m for several in drawn for m in several])
    groups = [scale_group(part.block.first) for part in parts]
    chosen: list[HeadsPart] = []
    beyond: dict[str, tuple[bool, bool]] = {}
    for part, maps, group in zip(parts, drawn, groups, strict=True):
        first, scale, tiles = part.block.first, scales[group], iter(part.block.tiles)
        panels: list[Panel] = []
        for m in maps:
            panels += head_panels(m, scale, [next(tiles) for _ in m.heads], part.layout.cells)
        chosen.append(replace(part, panels=panels, scale=scale, bar=group not in beyond))
        below, above = values_beyond(panels, scale, first.quantity.is_signed or not first.is_whole or scale.log)
        lower, higher = beyond.get(group, (False, False))
        beyond[group] = (below or lower, above or higher)
    return [replace(part, beyond=beyond[group]) for part, group in zip(chosen, groups, strict=True)]


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
    if block.module:
        yield block.module


def _scale_width(m: AttentionMap) -> float:
    return _SIGNED_SCALE if m.quantity.is_signed else _SCALE


def scale_width(scale: Scale) -> float:
    """Inches of a bar with its numbers and its name."""
    return max(text_width(scale.name, SMALL) * DRAWN_WIDER + _BESIDE_NAME, _LEAST_SCALE)


@dataclass(frozen=True)
class PanelsPart:
    """Small matrices that have been laid out.

    Attributes:
        lines: of its title where one is too short for it, and how many of them are large; empty: it has one line.
        wanted: the title that the user wants in place of its own, "" for none; None: its own.
        bars: the scales that stand beside it, and whether numbers lie beyond.
    """

    block: Panels
    layout: MosaicLayout
    bars: Mapping[Scale, tuple[bool, bool]]
    lines: tuple[str, ...] = ()
    large: int = 0
    wanted: str | None = None

    after = 0.25

    @property
    def mosaic_width(self) -> float:
        """In inches, with what stands over the last matrix, beside which there are bars."""
        return self.layout.width + (self.layout.gap - GAP if self.bars else 0.0)

    @property
    def title(self) -> Title | str:
        """Stands over it."""
        return self.block.whole_title if self.wanted is None else self.wanted

    @property
    def width(self) -> float:
        """In inches, without the title."""
        return self.mosaic_width + BESIDE * bool(self.bars) + sum(map(scale_width, self.bars))

    @property
    def top(self) -> float:
        """Inches from the top to the first row of cells."""
        return self.title_height + self.layout.tile(0)[1]

    @property
    def title_height(self) -> float:
        """Inches over the mosaic."""
        if not self.title:
            return 0.0
        more = (self.large - 1) * _TITLE_LINE + (len(self.lines) - self.large) * _COUNTS_LINE
        return TITLE + (more + _UNDER_LINES if self.lines else 0.0)

    def height(self, _: float) -> float:
        """In inches."""
        return self.title_height + self.layout.height

    def titled(self, room: float, fonts: Fonts) -> "PanelsPart":
        """The same, its title in several lines if so many inches are too few for one.

        Its subtitle, what it is over, then stands under it, in small letters.
        """
        title, families = self.title, fonts.families
        if not isinstance(title, str) or text_width(title, _LEAST_TITLE, families, bold=True) <= 0.99 * room:
            return self
        name, subtitle = (str(self.block.title), self.block.subtitle) if self.wanted is None else (title, "")
        large = wrap(name, room, FULL, families, bold=True)
        small = wrap(subtitle, room / DRAWN_WIDER, BODY, families) if subtitle else []
        lines = [*large, *small]
        if len(large) > 1 and len(lines) > _MOST_TITLE_LINES:
            return self
        return replace(self, lines=tuple(lines), large=len(large))

    def aligned(self, others: Sequence["PanelsPart"]) -> "PanelsPart":
        """The same, its matrices under those of ``others``, if they are as many."""
        alike = [one.layout for one in others if one.layout.columns == self.layout.columns]
        room = max(layout.queries.room for layout in alike)
        layout = replace(self.layout, queries=replace(self.layout.queries, room=room))
        pitch = max(one.tile_width + one.gap for one in alike) if layout.columns > 1 else 0.0
        return replace(self, layout=layout.spread(pitch))

    def draw(self, sheet: Sheet, x: float, y: float, _: float) -> None:
        """With its top left corner at (x, y)."""
        if self.lines:
            self._write_lines(sheet, y + 0.1)
        elif self.title:
            sheet.title(y + 0.1, self.title)
        draw_mosaic(sheet, x, y + self.title_height, self.layout, self.block.panels)
        if self.block.ids:
            self._write_ids(sheet, x, y + self.top)
        left = x + self.mosaic_width + BESIDE
        for scale, beyond in self.bars.items():
            draw_scale(sheet, left, y + self.top, self.layout.bar, scale, scale.name, beyond)
            left += scale_width(scale)

    def _write_lines(self, sheet: Sheet, y: float) -> None:
        """The title, in its lines."""
        sheet.heading = sheet.heading or harmless(str(self.title))
        for i, line in enumerate(self.lines):
            if i < self.large:
                sheet.write(MARGIN, y + i * _TITLE_LINE, line, FULL, bold=True)
                below = y + i * _TITLE_LINE
            else:
                sheet.write(MARGIN, below + 0.02 + (i - self.large + 1) * _COUNTS_LINE, line, BODY, colour=QUIET)

    def _write_ids(self, sheet: Sheet, x: float, y: float) -> None:
        """Before the labels of the first matrix, whose cells begin at y, in a column of their own."""
        size, right = self.layout.label_size, x + _ids_width(self.block, self.layout.label_size)
        sheet.write(right, y - 0.06, "id", SMALL, align="right", vertical="bottom", colour=QUIET)
        side = self.layout.queries
        for place, i in thinned_places(len(self.block.ids), 1, side.cells):
            sheet.write(right, y + place * side.cell, str(self.block.ids[i]), size, align="right", colour=QUIET)


def decide_panels(
    block: Panels, fonts: Fonts, style: Style, bars: Mapping[Scale, tuple[bool, bool]], in_line: int = 0
) -> PanelsPart:
    """Lay out small matrices, far enough apart for what stands over each.

    ``in_line``: how many are side by side in a grid, where axes of one length are equally long; 0: it is in none.
    """
    panels, across = block.panels, block.across
    widest, n_lines = _WIDEST.get(across, _NARROWEST), -(-len(panels) // across)
    space = Space(fonts, style.dpi, across, height=n_lines * _HIGHEST, names=block.names)
    labels = space.widest(fonts.labels(block.rows.tokens.texts), BODY) + space.beside_name
    space = replace(space, width=labels + across * (widest + GAP))
    if block.columns.are_positions and not block.rows.are_same(block.columns):  # a row is as high as a label
        n_rows, n_columns = len(block.rows), len(block.columns)
        high, wide = _OF_NUMBERS if max(n_rows, n_columns) <= VALUES_UP_TO else _OF_FEATURES
        space = replace(space, shape=(min(high, _HIGHEST_FEATURES / n_rows), min(wide, widest / n_columns)))
    if in_line:
        widest = _WIDEST.get(in_line, _SIDE_BY_SIDE / in_line)
        feature = _OF_FEATURES[0] / min(in_line, 2)
        shape = (
            _in_line(block.rows, _ROW, min(feature, _HIGH / len(block.rows))),
            _in_line(block.columns, _OF_NUMBERS[1], min(feature, widest / len(block.columns))),
        )
        space = Space(fonts, style.dpi, block.across, least_tile=math.inf, names=("", ""), shape=shape)
    text_length = max(_NUMBER if in_line else 0, *(panel.text_length for panel in panels))
    layout = decide_mosaic(len(panels), block.rows, block.columns, space, text_length)
    if block.ids:
        room = snap(layout.queries.room + _ids_width(block, layout.label_size) + _AFTER_IDS, style.dpi)
        layout = replace(layout, queries=replace(layout.queries, room=room))
    longest = max(text_width(panel.title, SMALL, bold=True) for panel in panels)
    return PanelsPart(block, layout.spread(longest * DRAWN_WIDER + GAP), bars)


def _in_line(axis: Axis, with_number: float, feature: float) -> float:
    """Inches of a cell of an axis: of one with a number in it, of a feature, or of a token."""
    if len(axis) <= VALUES_UP_TO:
        return with_number
    return feature if axis.are_positions else min(_OF_FEATURES[0], _TOKENS / len(axis))


def _ids_width(block: Panels, size: float) -> float:
    """Inches of the column of ids."""
    return max(text_width(str(number), size) for number in block.ids)
