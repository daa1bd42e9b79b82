"""Attention weights in the terminal: a grid of cells for every head."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.records import Attention
from mhaviz.views.captions import map_title, reading_text
from mhaviz.views.look import Look
from mhaviz.views.panels import head_panels
from mhaviz.views.terminal.grid import BOLD, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote


@dataclass(frozen=True)
class HeatmapView:
    """Every map of a record, with its heads side by side, the scale and where the numbers come from."""

    attention: Attention
    look: Look = field(default_factory=Look)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scale = self.look.weight_scale(self.attention.maps)
        ascii_only = not Abilities.of(console, options).unicode
        for attention_map in self.attention.maps:
            yield Text(map_title(attention_map, options.max_width, ascii_only), BOLD, no_wrap=True)
            yield HeatGrid(head_panels(attention_map, scale), attention_map.queries, attention_map.keys)
            yield Segment.line()
        yield ScaleBar(scale, reading_text(self.attention))
        yield footnote(self.attention.source.footnote, ascii_only)
