"""A page in the terminal, which lists numbers where figures have curves."""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style as RichStyle
from rich.text import Text as Line

from mhaviz.errors import counted
from mhaviz.pages.blocks import (
    Block,
    Drawn,
    Links,
    Matrices,
    Page,
    Shaded,
    SpanGrid,
    Text,
    heads,
    leaves,
    matrices,
)
from mhaviz.pages.labels import harmless, visible
from mhaviz.pages.map_words import sinks_texts
from mhaviz.pages.overlays import Overlays
from mhaviz.views.scales import Scales, resolve
from mhaviz.views.style import Style
from mhaviz.views.terminal.cells import HIDDEN
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities
from mhaviz.views.terminal.heads import HeadsView, leaves_out, more_text, panels_grid, panels_lines, title_lines
from mhaviz.views.terminal.lines import links_lines
from mhaviz.views.terminal.overlays import overlays_lines
from mhaviz.views.terminal.shaded import shaded_lines
from mhaviz.views.terminal.span_grid import span_grid_lines
from mhaviz.views.terminal.tables import side_by_side, table_lines
from mhaviz.views.text import isolated

_STYLES: dict[str, str | RichStyle] = {"plain": "", "quiet": DIM, "heading": BOLD, "subheading": BOLD, "subtitle": ""}


class _Terminal(NamedTuple):
    """Where a block is shown: a terminal, with the scales of the page."""

    scales: Scales
    abilities: Abilities
    console: Console
    options: ConsoleOptions
    positions: bool


@singledispatch
def _lines(block: Block, terminal: _Terminal) -> RenderResult:
    """Yield the lines of a block that is no picture of matrices."""
    table = block.as_table
    assert table is not None, "what has no picture has numbers"
    yield from table_lines(table, terminal.console, terminal.options)
    yield from [Line()] * bool(table.notes)


@_lines.register
def _(block: Text, terminal: _Terminal) -> RenderResult:
    yield from (Line(isolated(line), _STYLES[block.style]) for line in block.lines)


@_lines.register
def _(block: SpanGrid, terminal: _Terminal) -> RenderResult:
    block = replace(block, scale=terminal.scales.drawn[block.scale])
    return span_grid_lines(block, terminal.abilities, terminal.options.max_width)


@_lines.register
def _(block: Overlays, terminal: _Terminal) -> RenderResult:
    block = replace(block, scale=terminal.scales.drawn[block.scale])
    return overlays_lines(block, terminal.abilities, terminal.options.max_width)


@_lines.register
def _(block: Links, terminal: _Terminal) -> RenderResult:
    return links_lines(block, terminal.abilities, terminal.options.max_width, terminal.positions)


@_lines.register
def _(block: Shaded, terminal: _Terminal) -> RenderResult:
    scale = terminal.scales.drawn[block.scale]
    return shaded_lines(block, scale, terminal.abilities, terminal.options.max_width)


@dataclass(frozen=True)
class PageView:
    """A page as a renderable: title, blocks and footnote from top to bottom."""

    page: Page
    style: Style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        page, scales = self.page, resolve(self.page, {}, self.style)
        abilities = Abilities.of(console, options)
        used, left_out = 0, 0
        drawn = Drawn((), (), HIDDEN, frozenset(), ends=self.style.ends if abilities.colours else None)
        remark = harmless(page.reading(drawn))
        yield from title_lines(page.title, options.max_width)
        blocks = page.blocks
        of_heads = heads(blocks)
        positions = self.style.positions
        view = HeadsView(of_heads, scales, remark, console, options, positions) if of_heads else None
        if view and view.cells:
            scales = resolve(page, view.cells, self.style)
        waiting = list(blocks[::-1])
        while waiting:
            block, is_full = waiting.pop(), abilities.lines is not None and used > abilities.lines
            if is_full and matrices([block]) and not (block in of_heads or leaves_out(block)):
                left_out += sum(len(one.panels) for one in matrices([block]))
            elif block.blocks:
                tables = [one.as_table for one in block.blocks if one.as_table and not matrices([one])]
                if len(tables) == len(block.blocks):
                    yield from side_by_side(tables, console, options)
                else:
                    waiting += block.blocks[::-1]
            elif block.n_heads:
                if view and block is of_heads[0]:  # all together, in the order of the result
                    yield from view.lines(scales)
                    yield from [Line()] * bool(waiting)
            elif isinstance(block, Matrices):
                grid = panels_grid(block, scales.panels(block), abilities, options.max_width, positions)
                used += grid.height(options.max_width, abilities)
                alike = list(filter(leaves_out, matrices(blocks)))
                yield from panels_lines(block, grid, scales.beside(block), len(alike), options.max_width)
            else:
                yield from _lines(block, _Terminal(scales, abilities, console, options, positions))
        if left_out:
            yield more_text(counted(left_out, "panel"))
        if remark and not (view and view.share_scale):
            yield Line(remark, DIM)
        if self.style.has_sinks_apart:
            yield from (Line(text) for text in sinks_texts([m for block in of_heads for m in block.maps]))
        yield Line(visible(page.footnote), DIM)

    def without_pictures(self) -> "PageView | None":
        """Return the page with its tables and texts alone; None if it has only texts."""
        blocks = self.page.blocks
        words = [block for block in leaves(blocks) if not matrices([block])]
        while words and words[-1].heading:  # of pictures
            words.pop()
        if all(block.is_text for block in words):
            return None
        return (
            self
            if words == list(leaves(blocks))
            else replace(self, page=replace(self.page, blocks=tuple(words), remark=""))
        )
