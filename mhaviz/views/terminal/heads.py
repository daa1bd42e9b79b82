"""Heads, and other small matrices, in the terminal: a grid of cells for each, as many side by side as there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from mhaviz.pages.blocks import Heads, Panels, Title
from mhaviz.pages.maps import scale_group
from mhaviz.pages.panels import Panel, Scale, tile_titles, values_beyond
from mhaviz.records import AttentionMap
from mhaviz.views.labels import quoting, title_text
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid, MapGrid
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.terminal.tables import table_lines

_MANY_HEADS = 24  # a screen of numbers for each of more is more than anybody scrolls through
_LEAST_TITLE = 78  # characters that a title with positions may always have, in lines where the terminal is narrower
_GRID_LINES = 40  # for the grids of all panels, or what follows scrolls them away


@dataclass(frozen=True)
class HeadsPart:
    """The heads of one layer, or the rollouts of several, as the screen has room for them."""

    block: Heads
    title: Title
    map: AttentionMap
    grid: MapGrid


class HeadsView:
    """All heads of a page, with the scales that they share.

    Attributes:
        drawn: the panels that have been shown so far, as they were drawn, with their scale; for the legend.
    """

    def __init__(self, blocks: Sequence[Heads], style: Style, console: Console, options: ConsoleOptions) -> None:
        self._style, self._console, self._options = style, console, options
        self._abilities = Abilities.of(console, options)
        with_values = sum(len(block.tiles) for block in blocks) <= _MANY_HEADS
        self._parts = [part for block in blocks for part in self._of(block, with_values)]
        maps, drawn = [part.map for part in self._parts], [part.grid.drawn for part in self._parts]
        self._scales = style.scales(maps, drawn) if maps else {}
        self.scale, self.drawn = Scale(), list[Panel]()

    def _of(self, block: Heads, with_values: bool) -> Iterator[HeadsPart]:
        """A grid for each layer; rollouts are single matrices, and stand side by side."""
        if block.first.quantity.through_layers:
            groups = [(block.title, _stacked(block.maps), block.tiles)]
        else:
            groups = [(title, m, tile_titles(m)) for title, m in zip(block.map_titles, block.maps, strict=True)]
        for title, m, tiles in groups:
            if block.own_scale or block.says_cell:
                grid = MapGrid.on_screen(m, self._console, self._options, tiles)
            else:
                grid = MapGrid(m, titles=tiles, with_values=with_values)
            yield HeadsPart(block, title, m, grid)

    def lines(self, block: Heads) -> Iterator[RenderableType]:
        """What is shown of one of the blocks."""
        width, abilities = self._options.max_width, self._abilities
        for part in (part for part in self._parts if part.block is block):
            self.scale = scale = self._scales[scale_group(part.map)]
            heat = part.grid.coloured(scale)
            panels = heat.drawn(width, abilities)
            whole = part.map.is_whole
            title = title_text(part.title, width if whole else max(width, _LEAST_TITLE), not abilities.unicode)
            yield Text(title, BOLD, no_wrap=whole)
            yield heat
            cell = abilities.plain(block.cell_text(part.grid.drawn.cells))
            if block.own_scale:
                beyond = values_beyond(panels, scale, with_below=scale.log or not part.grid.drawn.is_whole)
                yield ScaleBar(scale, cell, beyond)
            elif block.says_cell and cell:
                yield Text(cell, DIM)
            if block.table is not None:
                yield from table_lines(block.table(quoting(abilities.shown)), self._console, self._options)
            self.drawn += panels
            yield Text()

    @property
    def beyond(self) -> tuple[bool, bool]:
        """Whether numbers that have been shown lie below the scale, and above it."""
        return values_beyond(self.drawn, self.scale, with_below=self.scale.log or self.scale.signed)


def _stacked(maps: Sequence[AttentionMap]) -> AttentionMap:
    """All matrices as the heads of one map."""
    if len(maps) == 1:
        return maps[0]
    weights = np.concatenate([m.weights for m in maps])
    return replace(maps[0], weights=weights, heads=tuple(range(len(weights))), summary=None)


def panels_lines(
    block: Panels, n_blocks: int, style: Style, console: Console, options: ConsoleOptions
) -> Iterator[RenderableType]:
    """As many small matrices as a screen has room for beside those of the other blocks."""
    abilities = Abilities.of(console, options)
    panels = sorted((panel.coloured(style.cmap) for panel in block.panels), key=lambda p: p.title != block.first)

    def grid(most: int) -> HeatGrid:
        return HeatGrid(panels[:most], block.rows, block.columns, with_values=False, numbered=True)

    layout = grid(len(panels)).decide(options.max_width, abilities)
    lines = 3 + len(layout.lines)
    shown = layout.per_line * max(_GRID_LINES // (lines * n_blocks), 1)
    yield Text(abilities.plain(block.title), BOLD)
    yield grid(shown)
    more = f"; -o heads.png has {len(panels) - shown} more" if len(panels) > shown else ""
    yield Text(block.caption + more, DIM)
    yield Text()
