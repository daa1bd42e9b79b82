"""Heads, and other small matrices, in the terminal: a grid of cells for each, as many side by side as there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.style import Style as RichStyle
from rich.text import Text

from mhaviz.pages.blocks import Heads, Panels
from mhaviz.pages.maps import scale_group
from mhaviz.pages.panels import Panel, Scale, values_beyond
from mhaviz.pages.words import sampled_text
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import even_cells
from mhaviz.views.labels import cut, title_text, visible
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, GAP, Abilities, GridLayout, HeatGrid, MapGrid, quote
from mhaviz.views.terminal.isolates import isolated
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.terminal.tables import table_lines

_QUIET = RichStyle(dim=True, bold=False)
_BEFORE_MODULE = "  "
_MANY_HEADS = 24  # a screen of numbers for each of more is more than anybody scrolls through
_LEAST_TITLE = 78  # characters that a title with positions may always have, in lines where the terminal is narrower
_TABLE_LINES = 4  # of a table, beside its rows
_ALL_LINES, _LEAST_LINES = 60, 4  # for matrices that are all shown, and of one of them
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
        lines = 1 + grid.coloured(Scale()).height(self._options.max_width, self._abilities)
        lines += len(self._title_lines(block))
        if block.own_scale or block.says_cell:
            lines += 1
        if block.table is not None:
            lines += _TABLE_LINES + len(grid.drawn.heads)
        return lines

    def _title_lines(self, block: Heads) -> list[Text]:
        """The title, and what the program calls the attention: in the same line if there is room for both."""
        width, whole = self._options.max_width, block.first.is_whole
        text = title_text(block.title, width if whole else max(width, _LEAST_TITLE))
        title = Text(text, BOLD, no_wrap=whole)
        if not block.module:
            return [title]
        shown = visible(block.module)
        if cell_len(text) + len(_BEFORE_MODULE) + cell_len(shown) <= width:
            return [title.append(_BEFORE_MODULE).append(isolated(shown), _QUIET)]
        return [title, Text(isolated(cut(shown, width)), DIM, no_wrap=True)]

    def lines(self) -> Iterator[RenderableType]:
        """What is shown of all heads, in the order of the record."""
        width, abilities = self._options.max_width, self._abilities
        for block, grid in zip(self._blocks, self._grids, strict=True):
            self.scale = scale = self._scales[scale_group(block.first)]
            heat = grid.coloured(scale)
            panels = heat.drawn(width, abilities)
            yield from self._title_lines(block)
            yield heat
            cell = block.cell_text(grid.drawn.cells)
            if block.own_scale:
                beyond = values_beyond(panels, scale, with_below=scale.log or not grid.drawn.is_whole)
                yield ScaleBar(scale, cell, beyond)
            else:
                self._shown += panels
                if block.says_cell and cell:
                    yield Text(cell, DIM)
            if block.table is not None:
                table = block.table.make(quote)
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


@dataclass(frozen=True)
class FeatureGrid(HeatGrid):
    """Matrices of features, of which those are drawn that there is room for."""

    def _cell_explanations(self, layout: GridLayout) -> Iterator[tuple[list[str], str]]:
        text = sampled_text(len(self.queries), len(self.keys), layout.rows, layout.columns)
        if text:
            yield text.split(" "), " "


def panels_lines(
    block: Panels, n_blocks: int, style: Style, console: Console, options: ConsoleOptions
) -> Iterator[RenderableType]:
    """As many small matrices as a screen has room for beside those of the other blocks; all, if they have scales."""
    abilities = Abilities.of(console, options)
    panels = sorted((panel.coloured(style.cmap) for panel in block.panels), key=lambda p: p.title != block.first)

    def grid(most: int, layout: GridLayout | None = None) -> HeatGrid:
        return HeatGrid(panels[:most], block.rows, block.columns, with_values=False, numbered=True, layout=layout)

    layout = grid(len(panels)).decide(options.max_width, abilities)
    lines = 3 + len(layout.lines)
    if isinstance(block.title, str):
        yield from (Text(text, BOLD) for text in [str(block.whole_title)] if text)
    else:
        yield Text(title_text(block.title, options.max_width), BOLD, no_wrap=True)
    if block.scales:
        layout = _all_on_screen(block, layout, options.max_width)
        if block.of_features:
            panels = [panel.sampled(layout.rows, layout.columns) for panel in panels]
        yield (FeatureGrid if block.of_features else HeatGrid)(
            panels, block.rows, block.columns, with_values=False, numbered=True, layout=layout
        )
        for name, scale in replace(block, panels=tuple(panels)).named_scales:
            beyond = values_beyond([panel for panel in panels if panel.scale == scale], scale)
            yield ScaleBar(scale, name, beyond)
        if block.caption:
            yield Text(block.caption, DIM)
        yield Text()
        return
    shown = layout.per_line * max(_GRID_LINES // (lines * n_blocks), 1)
    yield grid(shown)
    more = [block.more(len(panels) - shown)] if len(panels) > shown else []
    yield Text("; ".join([block.caption, *more]), DIM)
    yield Text()


def _all_on_screen(block: Panels, layout: GridLayout, width: int) -> GridLayout:
    """The layout, or one of fewer cells where all matrices would be more lines than a screen has room for."""
    n_panels, together = len(block.panels), 2 if layout.cells == "half-blocks" else 1
    lines = -(-n_panels // layout.per_line) * (len(layout.lines) + 3)
    if lines <= _ALL_LINES:
        return layout
    label_width = len(str(block.rows.end))
    room = width - label_width - 1 + GAP
    per_line = 1 if block.of_features else n_panels  # squares that are small stand beside each other
    columns = even_cells(len(block.columns), max(min(layout.columns, room // per_line - GAP), 1))
    most = max(_ALL_LINES * per_line // n_panels - 3, _LEAST_LINES) * together
    rows = even_cells(len(block.rows), min(most, len(block.rows)))
    if not block.of_features:
        rows = min(rows, even_cells(len(block.rows), max(columns * together // 2, 1)))
    panel_width = max(columns, room // per_line - GAP)
    return GridLayout(layout.cells, 1, label_width, panel_width, per_line, rows, columns, "positions")
