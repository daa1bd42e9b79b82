"""Attention weights as a figure: a mosaic of heads for every sentence, one scale for all."""

from collections.abc import Sequence
from functools import partial

from mhaviz.errors import ArgumentError
from mhaviz.records import Attention
from mhaviz.views.captions import reading_text
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import MosaicLayout, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import (
    MARGIN,
    MOST_PIXELS,
    SMALL,
    Sheet,
    fewer_pixels_notice,
    foot_height,
    snap,
    text_width,
    title_width,
)
from mhaviz.views.look import LEAST_DPI, Look
from mhaviz.views.panels import head_panels

_SCALE_WIDTH = 0.7  # inches, the numbers beside the bar included
_TITLE_HEIGHT, _BETWEEN = 0.3, 0.3
_WIDEST_TITLE = 7.0  # inches that a sheet grows to for the sake of its title


def heatmap_figure(attention: Attention, look: Look | None = None) -> Sheet:
    """Draw every map of the record, with its title, on one sheet.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    look = look or Look()
    lettering = Lettering.covering(token for m in attention.maps for token in {*m.queries, *m.keys})
    layouts, size, dpi = _decide(attention, lettering, look)
    sheet = Sheet(*size, dpi, lettering)
    if dpi < look.dpi:
        sheet.notices.append(fewer_pixels_notice(dpi, look.dpi))
    scale = look.weight_scale(attention.maps)
    y = MARGIN
    for attention_map, layout in zip(attention.maps, layouts, strict=True):
        sheet.title(y + 0.1, attention_map.kind, attention_map.queries, attention_map.keys)
        y += _TITLE_HEIGHT
        draw_mosaic(sheet, MARGIN, y, layout, head_panels(attention_map, scale))
        _, top = layout.tile(0)
        scale_height = min(max(layout.tile_height, 0.6), 2.5)
        draw_scale(sheet, MARGIN + layout.width + 0.15, y + top, scale_height, scale, "weight")
        y += layout.height + _BETWEEN
    sheet.foot(attention.source.footnote, _remark(attention, layouts))
    return sheet


def _remark(attention: Attention, layouts: Sequence[MosaicLayout]) -> str:
    return reading_text(attention, next((layout.pooled for layout in layouts if layout.pooled), ""))


def _decide(
    attention: Attention, lettering: Lettering, look: Look
) -> tuple[list[MosaicLayout], tuple[float, float], int]:
    """The layouts, the sheet's size in inches, and the pixels an inch that keep it within bounds."""
    maps, footnote, dpi = attention.maps, attention.source.footnote, look.dpi
    title = max(title_width(m.kind, m.queries, m.keys, lettering) for m in maps)
    while dpi >= LEAST_DPI:  # another dpi moves the cells to other whole pixels
        decide = partial(decide_mosaic, stacked=len(maps), numbers=look.numbers)
        layouts = [decide(len(m.heads), m.queries, m.keys, lettering, dpi, look.columns) for m in maps]
        width = 2 * MARGIN + max(
            max(layout.width for layout in layouts) + 0.15 + _SCALE_WIDTH,
            min(title, _WIDEST_TITLE),
            text_width(footnote, SMALL),
            text_width(_remark(attention, layouts), SMALL),
        )
        height = sum(_TITLE_HEIGHT + layout.height + _BETWEEN for layout in layouts)
        height += foot_height(width, footnote, _remark(attention, layouts)) + 2 * MARGIN
        size = snap(width, dpi), snap(height, dpi)
        if max(size) * dpi <= MOST_PIXELS:
            return layouts, size, dpi
        dpi = min(int(MOST_PIXELS / max(size)), dpi - 1)
    raise ArgumentError(
        f"expected a picture of at most {MOST_PIXELS:,} pixels a side, got {len(maps)} maps of up to "
        f"{max(len(m.heads) for m in maps)} heads; draw fewer sentences or heads at a time, or save them as data"
    )
