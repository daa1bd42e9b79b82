"""Attention weights in the terminal: a grid of cells for every head."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.map_summary import summary_table
from mhaviz.records import Attention
from mhaviz.views.captions import cells_text, layers_text, reading_text, tells_layer
from mhaviz.views.labels import quoting
from mhaviz.views.look import Look, scale_group
from mhaviz.views.panels import LayerStack, Panel, stack_rollouts, values_beyond
from mhaviz.views.terminal.grid import DIM, Abilities, MapGrid, grid_title
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import table_lines

MANY_HEADS = 24
"""With more heads than this a screen of numbers a head is more than anybody scrolls through."""


@dataclass(frozen=True)
class HeatmapView:
    """Every map of a record, with its heads side by side, the scale and where the numbers come from."""

    attention: Attention
    look: Look = field(default_factory=Look)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        maps, abilities, width = self.attention.maps, Abilities.of(console, options), options.max_width
        stacks = stack_rollouts(maps)
        # What a cell of a part is depends on the screen: each such map says it beside its own scale.
        apart = len(set(map(scale_group, maps))) > 1 or any(not m.is_whole or m.summary is not None for m in maps)
        if apart:
            grids = [MapGrid.on_screen(stack.map, console, options, stack.titles) for stack in stacks]
        else:
            with_values = sum(len(m.heads) for m in maps) <= MANY_HEADS
            grids = [MapGrid(stack.map, titles=stack.titles, with_values=with_values) for stack in stacks]
        scales = self.look.scales([stack.map for stack in stacks], [grid.drawn for grid in grids])
        drawn: list[Panel] = []
        for stack, grid in zip(stacks, grids, strict=True):
            scale = scales[scale_group(stack.map)]
            heat = grid.coloured(scale)
            panels = heat.drawn(width, abilities)
            yield grid_title(stack.map, width, not abilities.unicode, self._layers(stack))
            yield heat
            if apart:
                beyond = values_beyond(panels, scale, with_below=scale.log or not grid.drawn.is_whole)
                remark = abilities.plain(cells_text(grid.drawn.cells, grid.drawn.quantity.name))
                yield ScaleBar(scale, remark, beyond)
                if stack.map.summary is not None:
                    table = summary_table(stack.map.heads, stack.map.summary, quoting(abilities.shown))
                    yield from table_lines(table, console, options)
            drawn += panels
            yield Segment.line()
        if apart:
            yield Text(reading_text(self.attention, drawn=(), hidden=abilities.hidden), DIM)
        else:
            remark = reading_text(self.attention, hidden=abilities.hidden)
            yield ScaleBar(scale, remark, values_beyond(drawn, scale, with_below=scale.log))
        yield footnote(self.attention.source.footnote, not abilities.unicode)

    def _layers(self, stack: LayerStack) -> str:
        """Which layers a grid shows, where there are several in the record; a rollout has them over its panels."""
        layers = [m.layer for m in stack.maps]
        if not tells_layer(self.attention) or (stack.map.quantity.through_layers and len(layers) == 1):
            return ""
        return f", {layers_text(layers)}"
