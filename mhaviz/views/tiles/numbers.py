"""Numbers of heads as tiles: a panel of layers × heads for each number, with its scale beside its title."""

import math
from collections.abc import Sequence
from dataclasses import replace

from mhaviz.pages.blocks import Matrices
from mhaviz.pages.panels import Panel
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL, snap
from mhaviz.views.tiles.fit import Space, lay_out
from mhaviz.views.tiles.labels import Ruler, widest
from mhaviz.views.tiles.layout import GAP, NAME, TILE_TITLE, Layout
from mhaviz.views.tiles.room import Room

APART = 0.06  # inches between words
NOTE = 0.14  # inches of a line of a note
_CELL, _SHAPE = 0.4, 1.1  # most inches of a cell; most height / width of all panels
_LEAST = 1.2  # least inches of a panel
_LEAST_BAR, _MOST_BAR = 0.2, 0.8  # inches of the bar between the ends of a scale
_WITH_NOTE = 0.35  # least inches of a bar beside the title of a panel that has room for its note
_BEFORE_CELLS = 0.04  # inches between the last note and the cells


def numbers_layout(block: Matrices, room: Room) -> Layout:
    """Lay out panels across the page, with a number of columns that leaves few empty places in the last row."""
    dpi, panels, ruler, counts = room.style.pixels, block.panels, room.ruler, room.of_numbers
    n_keys = len(block.columns)
    left = snap(widest(ruler, block.rows.tokens.texts, BODY) + APART + NAME, dpi)
    across = room.style.across - left + GAP
    titles = max(title_width(panel, ruler) for panel in panels) + APART
    least = max(titles + _LEAST_BAR, _LEAST, n_keys / dpi) + GAP
    most = min(max(int(across / least), 1), max(counts, default=1))
    columns = min(range(min(3, most), most + 1), key=lambda n: (sum(-count % n for count in counts), -n))
    space = Space(
        ruler,
        dpi,
        columns,
        room.style.across,
        _SHAPE * room.style.across,
        larger=math.inf,
        least_tile=max(len(block.rows), n_keys) / dpi,
        cell=min((across / columns - GAP) / n_keys, _CELL),
        are_square=True,
        stretches=True,
        left=left,
        below=APART,
        names=block.names,
        text_length=max(panel.text_length for panel in panels),
        values_up_to=max(len(block.rows), n_keys),
    )
    layout = lay_out(len(panels), block.rows, block.columns, space).spread(least)
    lines = max(len(note_lines(panel, layout, ruler)) for panel in panels) if has_notes(layout, panels, ruler) else 0
    return replace(layout, title=snap(TILE_TITLE + lines * NOTE + _BEFORE_CELLS * bool(lines), dpi))


def title_width(panel: Panel, ruler: Ruler) -> float:
    """Return the inches of a title with the ends of its scale, without a bar."""
    numbers = ruler.width(panel.scale.range_text, SMALL)
    return (ruler.width(panel.title, SMALL, bold=True) + numbers) * DRAWN_WIDER + 2 * APART


def panel_width(layout: Layout) -> float:
    """Return the inches of a panel with its title, which may be wider than its cells."""
    return layout.tile_width + layout.gap - GAP


def note_lines(panel: Panel, layout: Layout, ruler: Ruler) -> list[str]:
    """Return the lines of the meaning of a panel's numbers, below its title."""
    return ruler.wrap(panel.note, panel_width(layout) / DRAWN_WIDER, SMALL) if panel.note else []


def bar_width(layout: Layout, panels: Sequence[Panel], ruler: Ruler) -> float:
    """Return the inches of the bars of scales beside the titles of panels; 0: there is no room for bars."""
    room = _beside_titles(layout, panels, ruler)
    return min(room, _MOST_BAR) if room >= _LEAST_BAR else 0.0


def has_notes(layout: Layout, panels: Sequence[Panel], ruler: Ruler) -> bool:
    """Return whether panels have room for what their numbers mean, below their titles."""
    return _beside_titles(layout, panels, ruler) >= _WITH_NOTE


def _beside_titles(layout: Layout, panels: Sequence[Panel], ruler: Ruler) -> float:
    return panel_width(layout) - max(title_width(panel, ruler) for panel in panels) - APART
