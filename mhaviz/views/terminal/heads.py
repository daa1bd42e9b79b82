"""Heads and other small matrices in the terminal, each as a grid of cells, as many side by side as fit."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.style import Style as RichStyle
from rich.text import Text

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Matrices, Title
from mhaviz.pages.labels import cut, title_text, visible
from mhaviz.pages.panels import Panel, Scale, group_scale
from mhaviz.results.axis import even_cells
from mhaviz.results.quantity import Cells
from mhaviz.views.scales import DrawnCells, Scales
from mhaviz.views.terminal.cells import blank_text
from mhaviz.views.terminal.grid import BOLD, DIM, LEGEND_UP_TO, Abilities, GridLayout, HeatGrid, long_layout
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.terminal.tables import table_lines
from mhaviz.views.text import isolated

_QUIET = RichStyle(dim=True, bold=False)
_BEFORE_MODULE = "  "
_MANY_HEADS = 24  # most heads with numbers in their cells, where all share a scale
_LEAST_TITLE = 78  # cells that a title with positions may always have; it is wrapped in narrower terminals
_TABLE_LINES = 4  # lines of a table, without its rows
_ALL_LINES, _LEAST_LINES = 44, 4  # lines for all matrices of a block that shows all, and for one of them
_GRID_LINES = 40  # lines for the grids of all panels, so that they do not scroll away


@dataclass(frozen=True)
class _Shown:
    """Heads of a block that are shown.

    Attributes:
        block: the block.
        cells: its axes, pooled to the cells of the grid.
        grid: the grid of the heads that have room.
    """

    block: Matrices
    cells: Cells
    grid: HeatGrid

    @property
    def n_heads(self) -> int:
        """Number of heads that are shown."""
        return len(self.grid.panels)


class HeadsView:
    """All heads of a page, layer by layer, on the scales that they share.

    Maps that would take more lines than the terminal shows are left out. The first map is always shown, if with fewer
    heads.

    Attributes:
        share_scale: whether all heads have one scale, which stands below all, with the remark; otherwise each picture
            has its own.
        cells: cells in which pooled maps are drawn.

    Args:
        blocks: the heads.
        scales: scales of whole maps.
        remark: how to read the pictures.
        console, options: the terminal.
        positions: see ``HeatGrid``.
    """

    def __init__(
        self,
        blocks: Sequence[Matrices],
        scales: Scales,
        remark: str,
        console: Console,
        options: ConsoleOptions,
        positions: bool = True,
    ) -> None:
        self._scales, self._remark, self._positions = scales, remark, positions
        self._console, self._options, self._abilities = console, options, Abilities.of(console, options)
        self._chosen: list[_Shown] = []
        every = [m for block in blocks for m in block.maps]
        self._n_maps, self._n_all, self._heads_left = 0, len(every), 0
        self.share_scale = len(set(map(group_scale, every))) == 1
        self.share_scale &= all(m.is_whole and m.summary is None for m in every)
        self._choose(sorted((one for b in blocks for one in b.by_layer or (b,)), key=lambda one: one.order))
        layouts = {one.block.maps[0].weights.shape[1:]: one.grid.layout for one in reversed(self._chosen)}
        chosen = ((m, layouts.get(m.weights.shape[1:])) for m in every if m.is_pooled)
        self.cells: DrawnCells = {id(m): (layout.rows, layout.columns) for m, layout in chosen if layout}

    def _choose(self, blocks: Sequence[Matrices]) -> None:
        """Choose the maps that there is room for; from the first, as many heads as there is room for."""
        with_values = sum(len(block.panels) for block in blocks) <= _MANY_HEADS
        room = self._abilities.lines
        for block in blocks:
            shown = self._grid(block, with_values, room)
            left = len(block.panels) - shown.n_heads
            if room is not None:
                room -= self._height(shown)
                if self._chosen and (room < 0 or left):
                    return
            self._chosen.append(shown)
            if len(block.maps) > 1:  # of one head each
                self._n_maps += shown.n_heads
            else:
                self._n_maps += 1
                self._heads_left = left
            if left:
                return

    def _grid(self, block: Matrices, with_values: bool, room: int | None) -> "_Shown":
        """Return the first heads that fit into ``room`` lines, at least as many as stand side by side.

        A map with a scale of its own is pooled where there is no room for labels of all tokens, nor for a legend.
        """
        width, abilities, layout, m = self._options.max_width, self._abilities, None, block.maps[0]
        has_scale = m.quantity.is_signed or not self.share_scale
        panels = [
            replace(one, title=f"{one.title} {one.aside_short or one.aside}".rstrip())
            for one in self._scales.panels(block)
        ]
        with_values |= has_scale
        grid = HeatGrid(panels, block.rows, block.columns, with_values, None, block.across, positions=self._positions)

        def decided() -> GridLayout:
            return grid.decide(width, abilities)

        lacks_legend = m.is_pooled or (max(m.weights.shape[1:]) > LEGEND_UP_TO and grid.pools(decided()))
        if has_scale and lacks_legend and not panels[0].apart:
            height = self._console.height if self._console.file.isatty() else None
            layout = long_layout(m, width, height, abilities, [panel.title for panel in panels])
        if room is not None:
            panels = panels[: (layout or decided()).fitting(room)]
        cells = m.cells if layout is None else m.cells.pooled(layout.rows, layout.columns)
        pooled = panels if layout is None else [panel.pooled(layout.rows, layout.columns) for panel in panels]
        return _Shown(block, cells, replace(grid, panels=pooled, queries=cells.rows, keys=cells.columns, layout=layout))

    def _height(self, shown: "_Shown") -> int:
        """Return the number of lines of the title, the grid and what stands below it."""
        block = shown.block
        lines = 1 + shown.grid.height(self._options.max_width, self._abilities)
        lines += len(self._title_lines(block)) + (block.maps[0].quantity.is_signed or not self.share_scale)
        return lines if block.table is None else lines + _TABLE_LINES + shown.n_heads

    def _title_lines(self, block: Matrices) -> list[Text]:
        """Return the title and the name of the module, in one line if there is room for both."""
        width, whole = self._options.max_width, block.maps[0].is_whole
        room, title = width if whole else max(width, _LEAST_TITLE), block.title
        text = title if isinstance(title, str) else title_text(title, room)
        line = Text(text, BOLD, no_wrap=whole)
        if not block.module:
            return [line]
        shown = visible(block.module)
        if cell_len(text) + len(_BEFORE_MODULE) + cell_len(shown) <= width:
            return [line.append(_BEFORE_MODULE).append(isolated(shown), _QUIET)]
        return [line, Text(isolated(cut(shown, width)), DIM, no_wrap=True)]

    def lines(self, scales: Scales) -> Iterator[RenderableType]:
        """Yield the pictures of all heads, in the order of the result, and their colour bar.

        ``scales``: those of ``cells``.
        """
        width, abilities = self._options.max_width, self._abilities
        blanks = []
        for shown in self._chosen:
            block, (scale,) = shown.block, {panel.scale for panel in scales.panels(shown.block)}
            heat = shown.grid.coloured(scale)
            panels = heat.drawn(width, abilities)
            yield from self._title_lines(block)
            yield heat
            are_bare = heat.decide(width, abilities).cells != "values"
            blanks.append(blank_text([panel.values for panel in panels], scale) if are_bare else "")
            cell = block.cell_text(shown.cells)
            if not self.share_scale:
                yield ScaleBar(scale, cell, blanks[-1])
            elif cell:
                yield Text(cell, DIM)
            if block.table is not None:
                first = replace(block.table, rows=block.table.rows[: shown.n_heads])
                yield from table_lines(first, self._console, self._options)
            yield Text()
        counts = (self._heads_left, "head"), (self._n_all - self._n_maps, "map")
        if left := [counted(n, what) for n, what in counts if n]:
            yield more_text(" and ".join(left))
            yield Text()
        if self.share_scale:
            scale = scales.of(self._chosen[0].block.maps[0])
            yield ScaleBar(scale, self._remark, next(filter(None, blanks), ""))


def title_lines(title: Title | str, width: int) -> list[Text]:
    """Return the line of a title; none of ""."""
    if isinstance(title, str):
        return [Text(title, BOLD)] * bool(title)
    return [Text(title_text(title, width), BOLD, no_wrap=True)]


def panels_lines(
    block: Matrices, grid: HeatGrid, bars: Sequence[Scale], n_blocks: int, width: int
) -> Iterator[RenderableType]:
    """Yield a block of panels and its colour bars. If some may be left out, as many are shown as a screen has room for.

    ``grid``: see ``panels_grid``; ``n_blocks``: number of blocks that share this room.
    """
    layout = grid.layout
    assert layout is not None
    yield from title_lines(block.title, width)
    shown = len(grid.panels)
    if leaves_out(block):
        shown = layout.per_line * max(_GRID_LINES // (layout.panel_height * n_blocks), 1)
    panels = grid.panels[:shown]
    yield replace(grid, panels=panels)
    yield from (ScaleBar(scale, scale.name) for scale in bars)
    if block.are_numbers:
        on = defaultdict[str, list[str]](list)
        for panel in panels:
            on[panel.scale.range_text].append(panel.title)
        ranges = "; ".join(f"{', '.join(titles)} {ends}" for ends, titles in on.items())
        yield Text(f"{'scales' if len(on) > 1 else 'scale'}: {ranges}", DIM)
    if left := len(grid.panels) - len(panels):
        yield more_text(counted(left, "panel"))
    yield Text()


def more_text(left_out: str) -> Text:
    """Return the line that counts what a terminal has no room for: "24 maps"."""
    return Text(f"and {left_out} more: -o page.png has all", DIM)


def leaves_out(block: Block) -> bool:
    """Return whether panels that have no room are left out; of other blocks, all are shown, with numbers."""
    return block.are_numbers


def panels_grid(
    block: Matrices, panels: Sequence[Panel], abilities: Abilities, width: int, positions: bool = True
) -> HeatGrid:
    """Return the grid of all panels, pooled where none may be left out and a screen has no room for all.

    ``panels``: those of the block, on the scales that they are drawn on; ``positions``: see ``HeatGrid``.
    """
    queries, tokens = block.rows, block.rows.tokens
    if block.ids:
        texts = tuple(f"{id} {text}" for id, text in zip(block.ids, tokens.texts, strict=True))
        queries = replace(queries, tokens=replace(tokens, texts=texts))
    with_values = not leaves_out(block)
    grid = HeatGrid(panels, queries, block.columns, with_values, None, block.across, block.names, positions)
    layout = grid.decide(width, abilities)
    if abilities.lines is not None and 2 * layout.height(len(block.panels)) > abilities.lines:  # rather without numbers
        grid = replace(grid, with_values=False)
        layout = grid.decide(width, abilities)
    if leaves_out(block) or layout.cells == "values" or layout.height(len(block.panels)) <= _ALL_LINES:
        return replace(grid, layout=layout)
    together = 2 if layout.cells == "half-blocks" else 1
    most = max(_ALL_LINES * layout.per_line // len(block.panels) - 3, _LEAST_LINES) * together
    rows, columns = even_cells(len(block.rows), min(most, len(block.rows))), layout.columns
    if block.rows.are_same(block.columns):  # squares stay squares
        columns = min(columns, even_cells(len(block.columns), max(2 * rows // together, 1)))
    labels = max(layout.label_width, len(str(block.rows.end)))
    pooled = replace(layout, rows=rows, columns=columns, label_width=labels, labels="positions", cell_width=1, above=1)
    return replace(grid, layout=pooled)
