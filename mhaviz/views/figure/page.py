"""A page of blocks as a sheet: curves first, what is said of them in an empty place beside them or below."""

from functools import partial

from mhaviz.pages.blocks import Curves, Page, Table, Text
from mhaviz.views.figure.curves import decide_curves, draw_curves
from mhaviz.views.figure.sheet import (
    BODY,
    FOOT_LINE,
    INK,
    MARGIN,
    QUIET,
    SMALL,
    TITLE,
    Sheet,
    fit_text,
    foot_height,
    text_width,
)
from mhaviz.views.figure.table import bars_height, decide_table, draw_bars, draw_table
from mhaviz.views.labels import cut
from mhaviz.views.look import Look

_OVER = 0.34  # inches, the title included
_BETWEEN, _UNDER = 0.08, 0.13  # inches between two blocks, and between the last one and the foot
_LEAST_WIDTH = 7.0  # inches of a sheet without curves


def draw_page(page: Page, look: Look | None = None) -> Sheet:
    """Draw a page, of which at most one block is curves."""
    look = look or Look()
    title = text_width(page.title, TITLE, bold=True)
    layouts = [decide_curves(block) for block in page.blocks if isinstance(block, Curves)]
    blocks = [b for b in page.blocks if not isinstance(b, Curves) and b.where != "instead of curves"]
    size = BODY
    width = max([layout.width for layout in layouts] or [_LEAST_WIDTH - 2 * MARGIN, title]) + 2 * MARGIN
    left, top, bottom = MARGIN, MARGIN + _OVER, MARGIN + _OVER
    for layout in layouts:
        bottom = top + layout.height + _BETWEEN
        left, top = (left + layout.free[0], top + layout.free[1]) if layout.free else (left, bottom)
        size = SMALL  # of words that explain curves
    heights = [_height(block, width - MARGIN - left) + _BETWEEN for block in blocks]
    bottom = max(bottom, top + sum(heights)) - _BETWEEN + _UNDER
    sheet = Sheet(width, bottom + foot_height(width, page.footnote, page.remark) + MARGIN, look.dpi)

    sheet.heading(MARGIN + 0.1, partial(cut, page.title))
    for layout in layouts:
        draw_curves(sheet, MARGIN, MARGIN + _OVER, layout, width - 2 * MARGIN)
    for block, height in zip(blocks, heights, strict=True):
        _draw(sheet, block, left, top, width - MARGIN - left, size)
        top += height
    sheet.foot(page.footnote, page.remark)
    return sheet


def _has_bars(table: Table) -> bool:
    return any(column.bar for column in table.columns)


def _height(block: Text | Table, width: float) -> float:
    if isinstance(block, Text):
        return FOOT_LINE * len(block.lines)
    return bars_height(block) if _has_bars(block) else decide_table(block).height(width)


def _draw(sheet: Sheet, block: Text | Table, x: float, y: float, width: float, size: float) -> None:
    if isinstance(block, Text):
        colour = QUIET if block.style in ("quiet", "subtitle") else INK
        for i, line in enumerate(block.lines):
            middle = y + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, fit_text(line, width, size), size, colour=colour, bold=block.style == "heading")
    elif _has_bars(block):
        draw_bars(sheet, block, x, y, width)
    else:
        draw_table(sheet, decide_table(block), x, y, width)
