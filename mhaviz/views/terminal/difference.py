"""What has changed between two attentions, in the terminal: B − A of every head, then the heads that changed most."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.difference import ranking_heading, ranking_table
from mhaviz.records import Difference
from mhaviz.views.colours import DIVERGING
from mhaviz.views.differences import (
    HEADING,
    cell_text,
    change_scale,
    layer_text,
    reading_text,
)
from mhaviz.views.labels import quoting
from mhaviz.views.look import Look
from mhaviz.views.panels import head_panels, values_beyond
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, MapGrid, grid_title
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import table_lines

_ROWS = 16  # of the table; more heads scroll the pictures away


@dataclass(frozen=True)
class DifferenceView:
    """Every map that both have, its heads side by side on one scale, and a table of the heads.

    ``most``: maps that are drawn, the first; the table is of all.
    """

    difference: Difference
    look: Look = field(default_factory=lambda: Look(DIVERGING, vmax=None))
    most: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        d, abilities = self.difference, Abilities.of(console, options)
        plain = abilities.plain
        maps = d.maps[: self.most]
        grids = [MapGrid.on_screen(m.change, console, options) for m in maps]
        scale = change_scale((grid.drawn for grid in grids), self.look)

        yield Text(plain(HEADING), BOLD)
        for m, grid in zip(maps, grids, strict=True):
            yield grid_title(m.change, options.max_width, not abilities.unicode, layer_text(d, m.change))
            yield grid.coloured(scale)
            if text := cell_text(m.change, grid.drawn.cells):
                yield Text(plain(text), DIM)
            yield Segment.line()
        beyond = values_beyond((panel for grid in grids for panel in head_panels(grid.drawn, scale)), scale)
        yield ScaleBar(scale, beyond=beyond)
        changes = [m.change for m in maps]
        yield Text(plain(reading_text(scale, abilities.colour, changes, abilities.hidden)), DIM)
        yield Segment.line()
        yield Text(ranking_heading(d), BOLD)
        yield from table_lines(ranking_table(d, _ROWS, quoting(abilities.shown)), console, options)
        yield footnote(d.source.footnote, not abilities.unicode)
