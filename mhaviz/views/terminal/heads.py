"""Heads, and other small matrices, in the terminal: a grid of cells for each, as many side by side as there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from mhaviz.pages.blocks import Heads, Panels
from mhaviz.pages.maps import scale_group
from mhaviz.pages.panels import Panel, Scale, values_beyond
from mhaviz.records import AttentionMap
from mhaviz.views.labels import title_text
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid, MapGrid
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.terminal.tables import table_lines

_MANY_HEADS = 24  # a screen of numbers for each of more is more than anybody scrolls through
_LEAST_TITLE = 78  # characters that a title with positions may always have, in lines where the terminal is narrower
_TABLE_LINES = 4  # of a table, beside its rows
_GRID_LINES = 40  # for the grids of all panels, or what follows scrolls them away


class HeadsView:
    """The heads of a page, a layer at a time where several rows of heads would be too many, on the scales they share.

    Maps are left out that would take more lines than the terminal shows; of the first one heads are.

    Attributes:
        n_maps: how many are shown; ``heads_left``: how many heads of the last of them are not.
        scale: of the heads that have been shown last, for the legend.
    """

    def __init__(self, blocks: Sequence[Heads], style: Style, console: Console, options: ConsoleOptions) -> None:
        self._console, self._options, self._abilities = console, options, Abilities.of(console, options)
        self._blocks: list[Heads] = []
        self._maps: list[AttentionMap] = []
        self._grids: list[MapGrid] = []
        self.n_maps, self.heads_left = 0, 0
        self._choose(sorted((one for b in blocks for one in b.by_layer or (b,)), key=lambda one: one.place))
        self._scales = style.scales(self._maps, [grid.drawn for grid in self._grids]) if self._maps else {}
        self._shown: list[Panel] = []
        self.scale = Scale()

    def _choose(self, blocks: Sequence[Heads]) -> None:
        """Take maps while there is room; of the first one as many heads as there is room for."""
        with_values = sum(len(block.tiles) for block in blocks) <= _MANY_HEADS
        room = self._abilities.lines
        for block in blocks:
            m = _stacked(block.maps)
            grid = self._grid(block, m, with_values, room)
            heads = m.heads[: len(grid.drawn.heads)]
            if room is not None:
                room -= self._height(block, grid)
                if self._grids and (room < 0 or heads != m.heads):
                    return
            self._blocks.append(block)
            self._maps.append(m if heads == m.heads else m.select(heads))
            self._grids.append(grid)
            if len(block.maps) > 1:  # of one head each
                self.n_maps += len(heads)
            else:
                self.n_maps += 1
                self.heads_left = len(m.heads) - len(heads)
            if heads != m.heads:
                return

    def _grid(self, block: Heads, m: AttentionMap, with_values: bool, room: int | None) -> MapGrid:
        if block.own_scale or block.says_cell:
            return MapGrid.on_screen(m, self._console, self._options, block.tiles, room)
        grid = MapGrid(m, titles=block.tiles, with_values=with_values)
        return grid.limited(self._options.max_width, self._abilities, room)

    def _height(self, block: Heads, grid: MapGrid) -> int:
        """Lines of a title, the grid and what stands below it."""
        lines = 2 + grid.coloured(Scale()).height(self._options.max_width, self._abilities)
        if block.own_scale or block.says_cell:
            lines += 1
        if block.table is not None:
            lines += _TABLE_LINES + len(grid.drawn.heads)
        return lines

    def lines(self) -> Iterator[RenderableType]:
        """What is shown of all heads, in the order of the record."""
        width, abilities = self._options.max_width, self._abilities
        for block, grid in zip(self._blocks, self._grids, strict=True):
            self.scale = scale = self._scales[scale_group(block.first)]
            heat = grid.coloured(scale)
            panels = heat.drawn(width, abilities)
            whole = block.first.is_whole
            title = title_text(block.title, width if whole else max(width, _LEAST_TITLE), not abilities.unicode)
            yield Text(title, BOLD, no_wrap=whole)
            yield heat
            cell = abilities.plain(block.cell_text(grid.drawn.cells))
            if block.own_scale:
                beyond = values_beyond(panels, scale, with_below=scale.log or not grid.drawn.is_whole)
                yield ScaleBar(scale, cell, beyond)
            else:
                self._shown += panels
                if block.says_cell and cell:
                    yield Text(cell, DIM)
            if block.table is not None:
                table = block.table.make(abilities.quote)
                first = replace(table, rows=table.rows[: len(grid.drawn.heads)])
                yield from table_lines(first, self._console, self._options)
            yield Text()

    @property
    def beyond(self) -> tuple[bool, bool]:
        """Whether numbers that have been shown lie below the scale, and above it."""
        return values_beyond(self._shown, self.scale, with_below=self.scale.log or self.scale.signed)


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
    more = [block.more(len(panels) - shown)] if len(panels) > shown else []
    yield Text("; ".join([block.caption, *more]), DIM)
    yield Text()
