"""Attention weights as a figure: a mosaic of heads for every sentence, one scale for all that can share one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mhaviz.errors import ArgumentError
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.map_summary import summary_table
from mhaviz.records import Attention, AttentionMap
from mhaviz.views.captions import reading_text, tells_layer
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import (
    BESIDE,
    MOST_WIDTH,
    MosaicLayout,
    Space,
    decide_mosaic,
    draw_mosaic,
    draw_scale_beside,
)
from mhaviz.views.figure.sheet import (
    DRAWN_WIDER,
    MARGIN,
    PAGE_LIMIT,
    Sheet,
    fewer_pixels_notice,
    foot_height,
    foot_width,
    most_dpi,
    snap,
    title_width,
)
from mhaviz.views.figure.table import TableLayout, decide_table, draw_table
from mhaviz.views.labels import quoting, title_places
from mhaviz.views.look import Look, scale_group
from mhaviz.views.panels import LayerStack, stack_layers, values_beyond

MOST_HEADS = 32  # rows of a table; a longer one is no picture any more
_SCALE_WIDTH = 0.7  # inches, the numbers beside the bar included
_TITLE_HEIGHT, _BETWEEN = 0.3, 0.3
_OVER_TABLE = 0.2
_WIDEST_TITLE = 7.0  # inches that a sheet grows to for the sake of its title
_LEAST_NUMBER = 0.05  # the largest weight of a part of a map in which numbers are more than 0.00


def heatmap_figure(attention: Attention, look: Look | None = None) -> Sheet:
    """Draw every map of the record, with its title and its summary, on one sheet; layers of one attention together.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    look = look or Look()
    lettering = Lettering.covering(text for m in attention.maps for text in _texts(m))
    blocks, size, dpi = _decide(attention, lettering, look)
    sheet = Sheet(*size, dpi, lettering)
    if dpi < look.dpi:
        sheet.notices.append(fewer_pixels_notice(dpi, look.dpi))
    scales = look.scales(attention.maps)
    y = MARGIN
    for block in blocks:
        m, layout, scale = block.map, block.layout, scales[scale_group(block.map)]
        sheet.map_title(y + 0.1, m, block.stack.part)
        y += _TITLE_HEIGHT
        panels = block.stack.panels(scale, *layout.cells)
        draw_mosaic(sheet, MARGIN, y, layout, panels)
        name = m.quantity.name + ", log" * scale.log
        beyond = values_beyond(panels, scale, with_below=not m.is_whole or scale.log)
        x, top = draw_scale_beside(sheet, MARGIN, y, layout, scale, name, beyond)
        if block.table:
            if block.table.card:
                draw_table(sheet, block.table, x + _SCALE_WIDTH + _BETWEEN, top, block.table.width)
            else:
                draw_table(sheet, block.table, MARGIN, y + layout.height + _OVER_TABLE, block.width)
        y += block.height + _BETWEEN
    sheet.foot(attention.source.footnote, _remark(attention, blocks))
    return sheet


@dataclass(frozen=True)
class _Block:
    """A map, its mosaic, and the table beside a single head or under several."""

    stack: LayerStack
    layout: MosaicLayout
    table: TableLayout | None

    @property
    def map(self) -> AttentionMap:
        """That of the first layer, for what all have in common."""
        return self.stack.first

    @property
    def width(self) -> float:
        """In inches, the scale included."""
        mosaic = self.layout.width + BESIDE + _SCALE_WIDTH
        if self.table is None:
            return mosaic
        if self.table.card:
            return mosaic + _BETWEEN + self.table.full_width
        return max(mosaic, self.table.width)

    @property
    def height(self) -> float:
        """In inches, without the title."""
        if self.table is None:
            return self.layout.height
        if self.table.card:
            return max(self.layout.height, self.layout.tile(0)[1] + self.table.height(0))
        return self.layout.height + _OVER_TABLE + self.table.height(self.width)


def written_tokens(m: AttentionMap) -> set[str]:
    """The tokens that may stand in a picture of the map: of a part, or of a pooled map, it is not all of them."""
    sides = m.queries, m.keys
    return {side[i] for side in sides for i in (range(len(side)) if m.is_whole else title_places(len(side)))}


def _texts(m: AttentionMap) -> Iterator[str]:
    """What is written of a map."""
    yield from written_tokens(m)
    if m.summary:
        yield from (text for row in summary_table(m.heads, m.summary, quoting(str)).texts() for text in row)


def _summary(m: AttentionMap, lettering: Lettering) -> TableLayout | None:
    """What its heads do as a table: a row a head, or, of a single head, a line a number."""
    if m.summary is None:
        return None
    table = summary_table(m.heads, m.summary, quoting(lettering.shown), MOST_HEADS)
    return decide_table(table, lettering, card=len(m.heads) == 1)


def _remark(attention: Attention, blocks: Sequence[_Block]) -> str:
    pooled = [b.layout.pooled for b in blocks if b.map.is_whole]
    drawn = [b.map.cells if b.map.is_whole else b.map.cells.pooled(*b.layout.cells) for b in blocks]
    return reading_text(attention, pooled, drawn)


def _decide(attention: Attention, lettering: Lettering, look: Look) -> tuple[list[_Block], tuple[float, float], int]:
    """The layouts, the sheet's size in inches, and the pixels an inch that keep it within bounds."""
    stacks, footnote, dpi = stack_layers(attention.maps, tells_layer(attention)), attention.source.footnote, look.dpi
    maps = [stack.first for stack in stacks]
    title = max(title_width(s.maps[0], lettering, s.part) for s in stacks)
    tables = [_summary(m, lettering) for m in maps]
    while dpi >= LEAST_DPI:  # another dpi moves the cells to other whole pixels
        layouts = [_layout(stack, lettering, look, dpi, len(stacks)) for stack in stacks]
        blocks = [_Block(*parts) for parts in zip(stacks, layouts, tables, strict=True)]
        remark = _remark(attention, blocks)
        width = 2 * MARGIN + max(
            max(block.width for block in blocks),
            min(title, _WIDEST_TITLE),
            foot_width(footnote) * DRAWN_WIDER,
            foot_width(remark) * DRAWN_WIDER,
        )
        height = sum(_TITLE_HEIGHT + block.height + _BETWEEN for block in blocks)
        height += foot_height(width, footnote, remark) + 2 * MARGIN
        size = snap(width, dpi), snap(height, dpi)
        allowed = most_dpi(*size)
        if dpi <= allowed:
            return blocks, size, dpi
        dpi = min(allowed, dpi - 1)
    raise ArgumentError(
        f"expected a picture of {PAGE_LIMIT}, got {len(attention.maps)} maps of up to "
        f"{max(len(m.heads) for m in maps)} heads; draw fewer sentences or heads at a time, or save them as data"
    )


def _layout(stack: LayerStack, lettering: Lettering, look: Look, dpi: int, stacked: int) -> MosaicLayout:
    m, numbers = stack.first, look.numbers
    room = map_room(m, _SCALE_WIDTH)
    if not m.is_whole:
        numbers = numbers and max(float(m.weights.max()) for m in stack.maps) >= _LEAST_NUMBER
    space = Space(lettering, dpi, look.columns or stack.columns, room, stacked=stacked)
    return decide_mosaic(stack.n_tiles, m.rows, m.columns, space, numbers=numbers)


def map_room(m: AttentionMap, scale_width: float) -> float:
    """The most inches for a mosaic of the map beside a scale: a whole map may make a somewhat wider page."""
    return MOST_WIDTH if m.is_whole else MOST_WIDTH - 2 * MARGIN - BESIDE - scale_width
