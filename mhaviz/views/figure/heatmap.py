"""Attention weights as a figure: a mosaic of heads for every sentence, one scale for all."""

from collections.abc import Sequence

from mhaviz.errors import ArgumentError
from mhaviz.records import Attention, AttentionMap
from mhaviz.views.captions import pair_title
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import MosaicLayout, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import MARGIN, MOST_PIXELS, QUIET, SMALL, TITLE, Sheet, fit_text, snap, text_width
from mhaviz.views.look import Look
from mhaviz.views.panels import head_panels

_SCALE_WIDTH = 0.55  # inches, the numbers beside the bar included
_TITLE_HEIGHT, _FOOT_HEIGHT, _BETWEEN = 0.3, 0.25, 0.3
READING = "rows are queries, columns keys; a row sums to 1"


def heatmap_figure(attention: Attention, look: Look | None = None) -> Sheet:
    """Draw every map of the record, with its title, on one sheet.

    Raises:
        ArgumentError: there are so many maps that even coarse pixels give no picture of allowed size.
    """
    look = look or Look()
    lettering = Lettering.covering(token for m in attention.maps for token in {*m.queries, *m.keys})
    layouts, size, dpi = _decide(attention.maps, lettering, look, attention.source.footnote)
    sheet = Sheet(*size, dpi, lettering)
    if dpi < look.dpi:
        sheet.notices.append(f"drawn at {dpi} dpi instead of {look.dpi}: no side has more than {MOST_PIXELS:,} pixels")
    scale = look.weight_scale(attention.maps)
    y = MARGIN
    for attention_map, layout in zip(attention.maps, layouts, strict=True):
        title = pair_title(attention_map.kind, attention_map.queries, attention_map.keys, 400, shown=lettering.shown)
        room = sheet.width - 2 * MARGIN
        sheet.write(MARGIN, y + 0.1, fit_text(title, room, TITLE, lettering.families, bold=True), TITLE, bold=True)
        y += _TITLE_HEIGHT
        draw_mosaic(sheet, MARGIN, y, layout, head_panels(attention_map, scale))
        _, top = layout.tile(0)
        scale_height = min(max(layout.tile_height, 0.6), 2.5)
        draw_scale(sheet, MARGIN + layout.width + 0.15, y + top, scale_height, scale, "weight")
        y += layout.height + _BETWEEN
    foot = sheet.height - MARGIN
    sheet.write(MARGIN, foot, attention.source.footnote, SMALL, colour=QUIET, vertical="bottom")
    reading_fits = text_width(attention.source.footnote + READING, SMALL) + 2 * MARGIN + 0.3 < sheet.width
    if reading_fits:
        sheet.write(sheet.width - MARGIN, foot, READING, SMALL, colour=QUIET, vertical="bottom", align="right")
    return sheet


def _decide(
    maps: Sequence[AttentionMap], lettering: Lettering, look: Look, footnote: str
) -> tuple[list[MosaicLayout], tuple[float, float], int]:
    """The layouts, the sheet's size in inches, and the pixels an inch that keep it within bounds."""
    dpi = look.dpi
    for _ in range(3):  # another dpi moves the cells to other whole pixels
        layouts = [decide_mosaic(len(m.heads), m.queries, m.keys, lettering, dpi, look.columns) for m in maps]
        width = max(max(layout.width for layout in layouts) + 0.15 + _SCALE_WIDTH, text_width(footnote, SMALL), 3.0)
        height = sum(_TITLE_HEIGHT + layout.height + _BETWEEN for layout in layouts) + _FOOT_HEIGHT - _BETWEEN
        size = snap(width + 2 * MARGIN, dpi), snap(height + 2 * MARGIN, dpi)
        if max(size) * dpi <= MOST_PIXELS:
            return layouts, size, dpi
        dpi = int(MOST_PIXELS / max(size))
        if dpi < 20:
            break
    raise ArgumentError(
        f"expected a picture of at most {MOST_PIXELS:,} pixels a side, got {len(maps)} maps of up to "
        f"{max(len(m.heads) for m in maps)} heads; draw fewer sentences or heads at a time, or save them as data"
    )
