"""What every head looks at, in the terminal: a layers × heads grid of each number, then the heads ranked."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.head_statistics import (
    Order,
    counts_text,
    left_out_text,
    ranked_columns,
    ranking_heading,
    ranking_table,
    reading_text,
    title,
)
from mhaviz.records import Axis, HeadAverages, HeadStatistics
from mhaviz.views.colours import BONE
from mhaviz.views.head_statistics import named_scales, panels, scales
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import table_lines

_ROWS = 16  # of the table, unless more are asked for
_GRID_LINES = 40  # for the grids of all kinds, or the table scrolls them away


@dataclass(frozen=True)
class HeadStatisticsView:
    """The grids, as many as a screen has room for, their scales, and the table."""

    statistics: HeadStatistics
    order: Order = field(default_factory=lambda: Order(most=_ROWS))
    colormap: str = BONE

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        s, abilities = self.statistics, Abilities.of(console, options)
        plain = abilities.plain
        for kind in s.kinds:
            yield Text(plain(title(kind)), BOLD)
            yield from self._grids(kind, options.max_width, abilities)
            yield Segment.line()
        for name, scale in named_scales(s, self.colormap).items():
            yield ScaleBar(scale, name)
        yield Segment.line()
        yield Text(plain(ranking_heading(s, self.order)), BOLD)
        yield from table_lines(ranking_table(s, self.order), console, options)
        for text in filter(None, [counts_text(s), left_out_text(s)]):
            yield Text(plain(text), DIM)
        yield footnote(s.source.footnote, not abilities.unicode)

    def _grids(self, kind: HeadAverages, width: int, abilities: Abilities) -> Iterator[RenderableType]:
        columns = ranked_columns(self.statistics, self.order)
        all_panels = panels(kind, columns, scales(self.statistics, self.colormap))
        layers, heads = (Axis.of(map(str, numbers)) for numbers in (kind.layers, range(kind.entropy.mean.shape[1])))

        def grid(most: int) -> HeatGrid:
            return HeatGrid(all_panels[:most], layers, heads, with_values=False, numbered=True)

        layout = grid(len(all_panels)).decide(width, abilities)
        lines = 3 + len(layout.lines)
        shown = layout.per_line * max(_GRID_LINES // (lines * len(self.statistics.kinds)), 1)
        yield grid(shown)
        more = len(all_panels) - shown
        yield Text(reading_text(self.statistics) + (f"; -o heads.png has {more} more" if more > 0 else ""), DIM)
