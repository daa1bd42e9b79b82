"""Attention over images in the terminal: a line for each head, and the maps of those that have room."""

from collections.abc import Iterator
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from mhaviz.errors import counted
from mhaviz.pages.overlays import HeadOverlay, Overlays, PatchPicture
from mhaviz.pages.panels import Panel
from mhaviz.results.axis import Axis
from mhaviz.views.terminal.grid import DIM, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.text import isolated

_MOST_LINES, _FEW_LINES, _MOST_MAPS = 8, 4, 8  # heads with a line, the same on a low screen, and maps
_SCREENS = 3  # screens that pictures may take, of which these take one
_LOW = 36  # lines of a screen that is low
_ROOM, _LEAST_ROOM = 40, 9  # most and least lines for maps
_AROUND = 10  # lines of the title, the scale and the small print


def overlays_lines(block: Overlays, abilities: Abilities, width: int) -> Iterator[RenderableType]:
    """Yield a line for each head, the most peaked first, and the maps of the first of them as far as they have room."""
    heads = block.by_peak
    screen = _ROOM + _MOST_LINES + _AROUND if abilities.lines is None else abilities.lines // _SCREENS
    n_lines = _FEW_LINES if screen < _LOW else _MOST_LINES
    for head in heads[:n_lines]:
        yield Text(isolated(head.line))
    if len(heads) > n_lines:
        yield Text(f"… {counted(len(heads) - n_lines, 'head')} more", DIM)
    yield Text()
    room = max(min(_ROOM, screen - _AROUND - min(len(heads), n_lines)), _LEAST_ROOM)
    drawn = 0
    for _, alike in groupby(_pictures(heads), key=lambda one: one[1].times.shape):
        grid = _grid([_panel(block, *one) for one in alike])
        layout = grid.decide(width, abilities)
        if grid.pools(layout):  # patches that share a cell would be another picture
            continue
        if drawn and layout.panel_height > room:
            break
        fitting = HeatGrid(grid.panels[: layout.fitting(room)], grid.queries, grid.keys, with_values=False)
        yield fitting
        yield Text()
        room -= fitting.height(width, abilities)
        drawn += 1
    if drawn:
        yield ScaleBar(block.scale, block.key)
        yield Text()


def _pictures(heads: tuple[HeadOverlay, ...]) -> list[tuple[HeadOverlay, PatchPicture]]:
    """Return the first maps, of several views of a head those that get most."""
    pictures = ((head, picture) for head in heads for picture in sorted(head.pictures, key=lambda one: -one.share)[:3])
    return [*pictures][:_MOST_MAPS]


def _panel(block: Overlays, head: HeadOverlay, picture: PatchPicture) -> Panel:
    return Panel(f"{head.name} {picture.name}".strip(), picture.times, block.scale)


def _grid(panels: list[Panel]) -> HeatGrid:
    rows, columns = panels[0].values.shape
    return HeatGrid(panels, Axis.numbered(rows), Axis.numbered(columns), with_values=False)
