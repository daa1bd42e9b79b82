"""What has changed between two attentions, as a figure: B − A of every head on one scale, the heads' table beside."""

from dataclasses import dataclass

from mhaviz.errors import ArgumentError
from mhaviz.limits import LEAST_DPI
from mhaviz.pages.difference import ranking_heading, ranking_table
from mhaviz.records import AttentionMap, Difference
from mhaviz.views.captions import part_text
from mhaviz.views.colours import DIVERGING
from mhaviz.views.differences import (
    HEADING,
    cell_text,
    change_scale,
    layer_text,
    reading_text,
)
from mhaviz.views.figure.heatmap import map_room, written_tokens
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import BESIDE, MosaicLayout, Space, decide_mosaic, draw_mosaic, draw_scale_beside
from mhaviz.views.figure.sheet import (
    BODY,
    MARGIN,
    PAGE_LIMIT,
    QUIET,
    SMALL,
    Sheet,
    foot_height,
    foot_width,
    most_dpi,
    redraw_coarser,
    snap,
    text_width,
    title_width,
)
from mhaviz.views.figure.table import decide_table, draw_table
from mhaviz.views.labels import quoting
from mhaviz.views.look import Look
from mhaviz.views.panels import head_panels, values_beyond
from mhaviz.views.pooling import pool_map

_SCALE_WIDTH = 0.75  # inches, the numbers beside the bar included
_TITLE, _BETWEEN = 0.3, 0.3
_CELL_LINE = 0.2  # of the words under a map that say what a cell is
_MOST_ROWS = 24  # of the table
_WIDEST_TITLE = 7.0  # inches that a sheet grows to for the sake of its title


@dataclass(frozen=True)
class _Block:
    """A map, its mosaic, and what a cell of it is."""

    map: AttentionMap
    layout: MosaicLayout
    text: str

    @property
    def drawn(self) -> AttentionMap:
        """The map in the cells of the picture; one of all tokens is pooled when it is drawn."""
        return self.map if self.map.is_whole else pool_map(self.map, *self.layout.cells)

    @property
    def height(self) -> float:
        """In inches, title and words included."""
        return _TITLE + self.layout.height + _CELL_LINE * bool(self.text)


def difference_figure(difference: Difference, look: Look | None = None) -> Sheet:
    """Draw the change of every map, and the ranking of all heads.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    look = look or Look(DIVERGING, vmax=None)
    return redraw_coarser(lambda coarser: _difference_sheet(difference, coarser), look)


def _difference_sheet(d: Difference, look: Look) -> Sheet:
    lettering = Lettering.covering(text for m in d.maps for text in written_tokens(m.change))
    changes = [m.change for m in d.maps]
    text_length = max(panel.text_length for m in changes for panel in head_panels(m, change_scale(changes, look)))
    blocks = [_block(m, lettering, look, len(changes), text_length) for m in changes]
    drawn = [block.drawn for block in blocks]
    scale = change_scale(drawn, look)
    table = decide_table(ranking_table(d, _MOST_ROWS, quoting(lettering.shown)), lettering)
    remark = reading_text(scale, maps=changes)

    mosaics = max(block.layout.width for block in blocks) + BESIDE + _SCALE_WIDTH
    parts = [layer_text(d, m) + part_text(m) for m in changes]
    title = max(title_width(m, lettering, part) for m, part in zip(changes, parts, strict=True))
    texts = max(foot_width(d.source.footnote), foot_width(remark), *(text_width(block.text, SMALL) for block in blocks))
    width = 2 * MARGIN + max(mosaics + _BETWEEN + table.width, min(title, _WIDEST_TITLE), texts)
    beside = MARGIN + mosaics + _BETWEEN
    blocks_height = sum(block.height + _BETWEEN for block in blocks)
    table_height = _TITLE + blocks[0].layout.tile(0)[1] + table.height(width - MARGIN - beside) + _BETWEEN
    foot = foot_height(width, d.source.footnote, remark)
    height = 2 * MARGIN + _TITLE + max(blocks_height, table_height) + foot
    if most_dpi(width, height) < LEAST_DPI:
        raise ArgumentError(
            f"expected a picture of {PAGE_LIMIT}, got {len(changes)} maps of up to "
            f"{max(len(m.heads) for m in changes)} heads; choose a layer or heads, or save them as data"
        )
    sheet = Sheet(snap(width, look.dpi), snap(height, look.dpi), look.dpi, lettering)

    sheet.write(MARGIN, MARGIN + 0.1, HEADING, BODY, colour=QUIET)
    y = MARGIN + _TITLE
    top = y + _TITLE + blocks[0].layout.tile(0)[1]
    mosaic_panels = [head_panels(m, scale) for m in drawn]
    beyond = values_beyond((panel for panels in mosaic_panels for panel in panels), scale)
    for block, part, panels in zip(blocks, parts, mosaic_panels, strict=True):
        sheet.map_title(y + 0.1, block.map, part)
        draw_mosaic(sheet, MARGIN, y + _TITLE, block.layout, panels)
        draw_scale_beside(sheet, MARGIN, y + _TITLE, block.layout, scale, "change", beyond)
        if block.text:
            under = y + _TITLE + block.layout.height + _CELL_LINE / 2
            sheet.write(MARGIN + block.layout.queries.room, under, block.text, SMALL, colour=QUIET)
        y += block.height + _BETWEEN
    sheet.write(beside, top - 0.12, ranking_heading(d), SMALL, bold=True)
    draw_table(sheet, table, beside, top, width - MARGIN - beside)
    sheet.foot(d.source.footnote, remark)
    return sheet


def _block(m: AttentionMap, lettering: Lettering, look: Look, stacked: int, text_length: int) -> _Block:
    space = Space(lettering, look.dpi, look.columns, map_room(m, _SCALE_WIDTH), stacked=stacked)
    layout = decide_mosaic(len(m.heads), m.rows, m.columns, space, text_length, look.numbers)
    return _Block(m, layout, cell_text(m, m.cells.pooled(*layout.cells)))
