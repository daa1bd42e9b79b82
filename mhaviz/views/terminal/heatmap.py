"""Attention weights in the terminal: a grid of cells for every head."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.records import Attention
from mhaviz.views.captions import cells_text, layers_text, reading_text, tells_layer
from mhaviz.views.layer_stacks import LayerStack, stack_rollouts
from mhaviz.views.look import Look, spans_magnitudes
from mhaviz.views.panels import Panel, scale_group, values_beyond
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.map_grids import MapGrid, grid_title
from mhaviz.views.terminal.summary import SummaryTable

MANY_HEADS = 24
"""With more heads than this a screen of numbers a head is more than anybody scrolls through."""


@dataclass(frozen=True)
class HeatmapView:
    """Every map of a record, with its heads side by side, the scale and where the numbers come from."""

    attention: Attention
    look: Look = field(default_factory=Look)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        ascii_only = not abilities.unicode
        several_scales = len(set(map(scale_group, self.attention.maps))) > 1
        if several_scales or any(not m.is_whole or m.summary is not None for m in self.attention.maps):
            yield from self._parts(console, options)
            yield Text(reading_text(self.attention, drawn=(), hidden=abilities.hidden), DIM)
        else:
            scale = self.look.weight_scale(self.attention.maps)
            panels: list[Panel] = []
            with_values = sum(len(m.heads) for m in self.attention.maps) <= MANY_HEADS
            for stack in stack_rollouts(self.attention.maps):
                grid = MapGrid(stack.map, titles=stack.titles, with_values=with_values)
                yield grid_title(stack.map, options.max_width, ascii_only, self._layers(stack))
                yield grid.coloured(scale)
                yield Segment.line()
                panels += grid.panels(scale, options.max_width, abilities)
            remark = reading_text(self.attention, hidden=abilities.hidden)
            yield ScaleBar(scale, remark, values_beyond(panels, scale, with_below=scale.log))
        yield footnote(self.attention.source.footnote, ascii_only)

    def _layers(self, stack: LayerStack) -> str:
        """Which layers a grid shows, where there are several in the record; a rollout has them over its panels."""
        layers = [m.layer for m in stack.maps]
        if not tells_layer(self.attention) or (stack.map.quantity.is_rollout and len(layers) == 1):
            return ""
        return f", {layers_text(layers)}"

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        """Maps of cells: what a cell is depends on the screen, so that each map says it beside its own scale."""
        abilities = Abilities.of(console, options)
        stacks = stack_rollouts(self.attention.maps)
        maps = [stack.map for stack in stacks]
        grids = [MapGrid.on_screen(stack.map, console, options, stack.titles) for stack in stacks]
        for stack, attention_map, grid in zip(stacks, maps, grids, strict=True):
            alike = [i for i, m in enumerate(maps) if scale_group(m) == scale_group(attention_map)]
            log = any(spans_magnitudes(maps[i]) for i in alike) if self.look.log is None else self.look.log
            scale = replace(self.look, log=log).weight_scale(grids[i].drawn for i in alike)
            yield grid_title(attention_map, options.max_width, not abilities.unicode, self._layers(stack))
            yield grid.coloured(scale)
            drawn = grid.drawn
            with_below = not drawn.is_whole or scale.log
            beyond = values_beyond(grid.panels(scale, options.max_width, abilities), scale, with_below)
            yield ScaleBar(scale, abilities.plain(cells_text(drawn.cells, drawn.quantity.name)), beyond)
            if attention_map.summary is not None:
                yield SummaryTable(attention_map, attention_map.summary)
            yield Segment.line()
