"""Tables that take several lines a row, or are split, where the terminal is too narrow for them."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from mhaviz.pages.blocks import Table
from mhaviz.views.terminal.bars import bar
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities

_BAR = 20  # cells
_STYLES: dict[str, str | Style] = {"plain": "", "bold": BOLD, "quiet": DIM}
_TIGHT: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def table_lines(table: Table, console: Console, options: ConsoleOptions, **look: Any) -> Iterator[RenderableType]:
    """A table, what is said of rows that it leaves out, and its notes.

    Where it is too wide, bars are left out. Then each row takes several lines, if it can. What is too wide even so is
    split into parts, each with the columns that tell the rows apart. ``look``: as in ``draw_grid``.
    """
    abilities = Abilities.of(console, options)
    every = range(len(table.columns))
    numbers = [place for place in every if not table.columns[place].is_bar]
    stacks = any(column.stacked or column.short for column in table.columns)
    for columns, short in ((every, False), (numbers, False), (numbers, stacks)):
        grid = draw_grid(table, columns, short, abilities, **look)
        if fits(grid, console, options):
            yield grid
            break
    else:
        yield from _parts(table, numbers, stacks, console, options, **look)
    for text in filter(None, (table.more, (short and table.short_notes) or table.notes)):
        yield Text(abilities.plain(text), DIM)


def fits(grid: Grid, console: Console, options: ConsoleOptions) -> bool:
    """Whether nothing of it would be cut."""
    return Measurement.get(console, options.update(max_width=1000), grid).maximum <= options.max_width


def _parts(
    table: Table, columns: Sequence[int], short: bool, console: Console, options: ConsoleOptions, **look: Any
) -> Iterator[Grid]:
    abilities = Abilities.of(console, options)
    keys = [place for place in columns if table.columns[place].is_key]
    part: list[int] = []
    for place in columns[len(keys) :]:
        if part and not fits(draw_grid(table, [*keys, *part, place], short, abilities, **look), console, options):
            yield draw_grid(table, [*keys, *part], short, abilities, **look)
            part = []
        part.append(place)
    yield draw_grid(table, [*keys, *part], short, abilities, **look)


def draw_grid(table: Table, columns: Sequence[int], short: bool, abilities: Abilities, **look: Any) -> Grid:
    """These columns of a table, whatever room there is; ``look``: other options of rich's tables."""
    grid = Grid(**(_TIGHT | look))
    headings, texts = table.headings(short), table.texts(stacked=short)
    for place in columns:
        grid.add_column(abilities.plain(headings[place]), justify=table.columns[place].align, no_wrap=True)
    for number, (row, words) in enumerate(zip(table.rows, texts, strict=True)):
        is_first = not number or row[0] != table.rows[number - 1][0]
        if table.is_grouped and number and is_first:
            grid.add_section()
        cells = [
            bar(row[place], _BAR, abilities.unicode) if table.columns[place].is_bar else abilities.plain(words[place])
            for place in columns
        ]
        if table.is_grouped and not is_first:
            cells[0] = ""
        styles = (_STYLES[table.columns[place].style] for place in columns)
        grid.add_row(*map(Text, cells, styles))
    return grid
