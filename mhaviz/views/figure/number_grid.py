"""Numbers of heads on a sheet: each panel's scale beside its title, and what its numbers mean."""

from collections.abc import Sequence

from mhaviz.pages.panels import Panel
from mhaviz.views.figure.colour_bar import draw_lying
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL, snap
from mhaviz.views.tiles.layout import TILE_TITLE, Layout
from mhaviz.views.tiles.numbers import NOTE, bar_width, has_notes, note_lines, panel_width


def notes_below(layout: Layout, panels: Sequence[Panel], room: float, fonts: Fonts) -> list[str]:
    """Return the lines of what numbers mean below panels that have no room for it: "next: weight on …", each from a new
    line on."""
    if has_notes(layout, panels, fonts):
        return []
    texts = (f"{panel.title}: {panel.note}" for panel in panels if panel.note)
    return [line for text in texts for line in fonts.wrap(text, room / DRAWN_WIDER, SMALL)]


def draw_ranges(sheet: Sheet, x: float, y: float, layout: Layout, panels: Sequence[Panel]) -> None:
    """Draw each panel's scale right of its title, and what its numbers mean below; (x, y): the mosaic's corner.

    Where there is room, the scale is a bar with a line across it at chance level; else it is the ends alone. Where
    notes have none, ``notes_below`` says what numbers mean.
    """
    bar, are_noted = bar_width(layout, panels, sheet.fonts), has_notes(layout, panels, sheet.fonts)
    for i, panel in enumerate(panels):
        left, top = layout.tile(i)
        right, line = x + left + panel_width(layout), y + top - layout.title + TILE_TITLE - 0.04
        for number, text in enumerate(note_lines(panel, layout, sheet.fonts) if are_noted else (), 1):
            sheet.write(
                snap(x + left, sheet.pixels), line + number * NOTE, text, SMALL, vertical="bottom", colour=QUIET
            )
        if bar:
            draw_lying(sheet, right, line, panel.scale, bar, panel.title, panel.chance)
        else:
            sheet.write(right, line, panel.scale.range_text, SMALL, align="right", vertical="bottom", colour=QUIET)
