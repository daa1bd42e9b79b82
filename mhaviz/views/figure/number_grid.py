"""Numbers of heads on a sheet: a panel of layers × heads for each number, with its scale beside its title."""

import math
from collections.abc import Sequence

from mhaviz.pages.blocks import Matrices
from mhaviz.pages.labels import every
from mhaviz.pages.panels import Panel
from mhaviz.views.figure.colour_bar import draw_lying
from mhaviz.views.figure.measuring import text_width, wrap
from mhaviz.views.figure.mosaic import (
    GAP,
    LEAST_LABEL,
    NAME,
    TILE_TITLE,
    Mark,
    MosaicLayout,
    Side,
    label_size,
    number_size,
)
from mhaviz.views.figure.sheet import INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, MARGIN, PAGE_WIDTH, POINTS, SMALL, snap
from mhaviz.views.style import Style

_CELL, _SHAPE = 0.4, 1.1  # most inches of a cell; most height / width of all panels
_LEAST = 1.2  # least inches of a panel
_APART, _BAR, _MOST_BAR = 0.06, 0.35, 0.8  # inches: between words, and the bar between the ends of a scale
_NOTE, _BEFORE_CELLS = 0.14, 0.04  # inches: a line of a note, and between the last and the cells


def number_layout(block: Matrices, panels: Sequence[Panel], counts: Sequence[int], style: Style) -> MosaicLayout:
    """Lay out panels across the page, with a number of columns that leaves few empty places in the last row.

    Args:
        block: the panels.
        panels: the same on the scales that they are drawn on.
        counts: numbers of panels of all such blocks on the page, which have the same number of columns.
        style: style of the figure.
    """
    dpi, (rows, columns) = style.dpi, (block.rows.tokens.texts, block.columns.tokens.texts)
    left = snap(max(text_width(text, BODY) for text in rows) + 2 * _APART + NAME, dpi)
    room = (style.width or PAGE_WIDTH) - 2 * MARGIN - left + GAP
    titles = max(map(_title_width, panels))
    least = max(titles, _LEAST, len(columns) / dpi) + GAP
    most = min(max(int(room / least), 1), max(counts))
    across = min(range(min(3, most), most + 1), key=lambda n: (sum(-count % n for count in counts), -n))
    width = max(math.floor(min((room / across - GAP) / len(columns), _CELL) * dpi), 1) / dpi
    rows_of_panels = -(-len(panels) // across)
    gap = max(least - len(columns) * width, GAP)
    pitch = len(columns) * width + gap - GAP
    lines = max(len(_note_lines(panel, pitch)) for panel in panels) if _bar_width(pitch, panels) else 0
    title = snap(TILE_TITLE + lines * _NOTE + _BEFORE_CELLS * bool(lines), dpi)
    high = (_SHAPE * (room + left) / rows_of_panels - TILE_TITLE - GAP) / len(rows)  # so that the page is not too long
    height = max(math.floor(min(width, high) * dpi), 1) / dpi
    size = label_size(min(width, height), LEAST_LABEL)
    line, widest = size * 1.05 / POINTS, max(text_width(text, size) for text in columns) + _APART
    values = number_size(width, height, max(panel.text_length for panel in panels))
    return MosaicLayout(
        across,
        rows_of_panels,
        Side(len(rows), height, left, _marks(rows, height, line)),
        Side(len(columns), width, snap(line + 0.06 + NAME, dpi), _marks(columns, width, widest)),
        size,
        turned=False,
        value_size=values if values >= LEAST_LABEL else None,
        gap=gap,
        names=block.names,
        title=title,
        below=_APART,
    )


def _marks(texts: Sequence[str], cell: float, apart: float) -> tuple[Mark, ...]:
    """Return labels of as many cells as there is room for."""
    step = every(len(texts), int(len(texts) * cell / apart))
    return tuple(((i + 0.5) * cell, texts[i], INK) for i in range(0, len(texts), step))


def _title_width(panel: Panel) -> float:
    """Return the inches of a title with the ends of its scale, without a bar."""
    numbers = text_width(panel.scale.range_text, SMALL)
    return (text_width(panel.title, SMALL, bold=True) + numbers) * DRAWN_WIDER + 2 * _APART


def _note_lines(panel: Panel, room: float) -> list[str]:
    """Return the lines of the meaning of a panel's numbers, below its title."""
    return wrap(panel.note, room / DRAWN_WIDER, SMALL) if panel.note else []


def _bar_width(pitch: float, panels: Sequence[Panel]) -> float:
    """Return the inches of the bars beside the titles of panels that begin ``pitch`` apart; 0: no room for bars."""
    room = pitch - max(map(_title_width, panels)) - _APART
    return min(room, _MOST_BAR) if room >= _BAR else 0.0


def notes_below(layout: MosaicLayout, panels: Sequence[Panel], room: float) -> list[str]:
    """Return the lines of what numbers mean below panels that have no room for it, "next: weight on …"."""
    if _bar_width(layout.tile_width + layout.gap - GAP, panels):
        return []
    text = "; ".join(f"{panel.title}: {panel.note}" for panel in panels if panel.note)
    return wrap(text, room / DRAWN_WIDER, SMALL) if text else []


def draw_ranges(sheet: Sheet, x: float, y: float, layout: MosaicLayout, panels: Sequence[Panel]) -> None:
    """Draw each panel's scale right of its title, and what its numbers mean below; (x, y): the mosaic's corner.

    Where there is room, the scale is a bar with a line across it at chance level; else it is the ends alone, and
    ``notes_below`` says what numbers mean.
    """
    pitch = layout.tile_width + layout.gap - GAP
    bar = _bar_width(pitch, panels)
    for i, panel in enumerate(panels):
        left, top = layout.tile(i)
        right, line = x + left + pitch, y + top - layout.title + TILE_TITLE - 0.04
        if not bar:
            sheet.write(right, line, panel.scale.range_text, SMALL, align="right", vertical="bottom", colour=QUIET)
            continue
        for number, text in enumerate(_note_lines(panel, pitch), 1):
            sheet.write(
                snap(x + left, sheet.pixels), line + number * _NOTE, text, SMALL, vertical="bottom", colour=QUIET
            )
        draw_lying(sheet, right, line, panel.scale, bar, panel.title, panel.chance)
