"""Attention weights in the terminal: a grid of cells for every head."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.records import Attention, AttentionMap
from mhaviz.views.captions import cells_text, map_title, reading_text
from mhaviz.views.look import Look
from mhaviz.views.panels import Scale, head_panels, scale_group, values_beyond
from mhaviz.views.pooling import pool_map
from mhaviz.views.terminal.grid import BOLD, DIM, LEGEND_UP_TO, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.long_maps import LongGrid, long_layout
from mhaviz.views.terminal.summary import SummaryTable

_TITLE = 78  # characters that a title with positions may always have, in lines where the terminal is narrower


@dataclass(frozen=True)
class HeatmapView:
    """Every map of a record, with its heads side by side, the scale and where the numbers come from."""

    attention: Attention
    look: Look = field(default_factory=Look)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = not Abilities.of(console, options).unicode
        if any(m.cells is not None or m.summary is not None for m in self.attention.maps):
            yield from self._parts(console, options)
            yield Text(reading_text(self.attention, drawn=()), DIM)
        else:
            scale = self.look.weight_scale(self.attention.maps)
            for attention_map in self.attention.maps:
                yield _title(attention_map, options.max_width, ascii_only)
                yield _token_grid(attention_map, scale)
                yield Segment.line()
            yield ScaleBar(scale, reading_text(self.attention))
        yield footnote(self.attention.source.footnote, ascii_only)

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        """Maps of cells: what a cell is depends on the screen, so that each map says it beside its own scale."""
        abilities = Abilities.of(console, options)
        maps = self.attention.maps
        height = console.height if console.file.isatty() else None
        layouts = [
            long_layout(m, options.max_width, height, abilities) if _is_long(m, options.max_width, abilities) else None
            for m in maps
        ]
        on_screen = [
            pool_map(m, layout.rows, layout.columns) if layout else m for m, layout in zip(maps, layouts, strict=True)
        ]
        for attention_map, drawn, layout in zip(maps, on_screen, layouts, strict=True):
            alike = [i for i, m in enumerate(maps) if scale_group(m) == scale_group(attention_map)]
            log = any(maps[i].is_pooled for i in alike) if self.look.log is None else self.look.log
            scale = replace(self.look, log=log).weight_scale(on_screen[i] for i in alike)
            yield _title(attention_map, options.max_width, not abilities.unicode)
            yield LongGrid(drawn, scale, layout) if layout else _token_grid(drawn, scale)
            beyond = values_beyond(head_panels(drawn, scale), scale) if drawn.cells is not None else (False, False)
            yield ScaleBar(scale, abilities.plain(cells_text(drawn.edges)), beyond)
            if attention_map.summary is not None:
                yield SummaryTable(attention_map, attention_map.summary)
            yield Segment.line()


def _title(attention_map: AttentionMap, width: int, ascii_only: bool) -> Text:
    if attention_map.cells is None:
        return Text(map_title(attention_map, width, ascii_only), BOLD, no_wrap=True)
    return Text(map_title(attention_map, max(width, _TITLE), ascii_only), BOLD)


def _is_long(attention_map: AttentionMap, width: int, abilities: Abilities) -> bool:
    """Whether there is room neither for a label of every token nor for a legend of them."""
    if attention_map.is_pooled:
        return True
    most = max(attention_map.weights.shape[1:])
    return most > LEGEND_UP_TO and _token_grid(attention_map, Scale()).decide(width, abilities).by_position


def _token_grid(attention_map: AttentionMap, scale: Scale) -> HeatGrid:
    return HeatGrid(
        head_panels(attention_map, scale),
        attention_map.queries,
        attention_map.keys,
        first_query=int(attention_map.edges.query_edges[0]),
        first_key=int(attention_map.edges.key_edges[0]),
    )
