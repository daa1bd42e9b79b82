"""Which grid a map gets in the terminal: one with a label for every token, or one of a long map's cells."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.text import Text

from mhaviz.records import AttentionMap
from mhaviz.views.captions import map_title, part_text
from mhaviz.views.panels import Panel, Scale, head_panels
from mhaviz.views.pooling import pool_map
from mhaviz.views.terminal.grid import BOLD, LEGEND_UP_TO, Abilities, GridLayout, HeatGrid
from mhaviz.views.terminal.long_maps import LongGrid, long_layout

_TITLE = 78  # characters that a title with positions may always have, in lines where the terminal is narrower


@dataclass(frozen=True)
class MapGrid:
    """A map as the screen has room for it: ``drawn`` in the cells of the layout, or with all its tokens.

    ``titles``: as in ``head_panels``; ``with_values``: numbers in the cells, where there is room.
    """

    drawn: AttentionMap
    layout: GridLayout | None = None
    titles: Sequence[str] | None = None
    with_values: bool = True

    @classmethod
    def on_screen(
        cls,
        attention_map: AttentionMap,
        console: Console,
        options: ConsoleOptions,
        titles: Sequence[str] | None = None,
    ) -> "MapGrid":
        """Pool the map where there is room neither for a label of every token nor for a legend of them."""
        width, abilities = options.max_width, Abilities.of(console, options)
        if not _is_long(attention_map, width, abilities):
            return cls(attention_map, titles=titles)
        height = console.height if console.file.isatty() else None
        layout = long_layout(attention_map, width, height, abilities, titles)
        return cls(pool_map(attention_map, layout.rows, layout.columns), layout, titles)

    def coloured(self, scale: Scale) -> LongGrid | HeatGrid:
        """The grid."""
        if self.layout:
            return LongGrid(self.drawn, scale, self.layout, self.titles)
        return token_grid(self.drawn, scale, self.titles, self.with_values)

    def panels(self, scale: Scale, width: int, abilities: Abilities) -> list[Panel]:
        """The panels as they are drawn, pooled where they are."""
        if self.layout:
            return head_panels(self.drawn, scale, self.titles)
        return token_grid(self.drawn, scale, self.titles, self.with_values).drawn(width, abilities)


def grid_title(attention_map: AttentionMap, width: int, ascii_only: bool, layers: str = "") -> Text:
    """The kind of attention and the sentence, over a grid; ``layers``: which, where there are several."""
    part = layers + part_text(attention_map)
    if attention_map.is_whole:
        return Text(map_title(attention_map, width, ascii_only, part=part), BOLD, no_wrap=True)
    return Text(map_title(attention_map, max(width, _TITLE), ascii_only, part=part), BOLD)


def token_grid(
    attention_map: AttentionMap, scale: Scale, titles: Sequence[str] | None = None, with_values: bool = True
) -> HeatGrid:
    """A grid of all tokens; it says itself what it pools. ``titles``: as in ``head_panels``."""
    return HeatGrid(
        head_panels(attention_map, scale, titles),
        attention_map.queries,
        attention_map.keys,
        with_values,
        first_query=attention_map.rows.start,
        first_key=attention_map.columns.start,
        special_queries=frozenset(attention_map.rows.tokens.special),
        special_keys=frozenset(attention_map.columns.tokens.special),
    )


def _is_long(attention_map: AttentionMap, width: int, abilities: Abilities) -> bool:
    if attention_map.is_pooled:
        return True
    most = max(attention_map.weights.shape[1:])
    return most > LEGEND_UP_TO and token_grid(attention_map, Scale()).decide(width, abilities).by_position
