"""Tables that take several lines a row, or are split, where the terminal is too narrow for them."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.style import Style as RichStyle
from rich.table import Table as Grid
from rich.text import Text

from mhaviz.pages.blocks import Table
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities

_NARROW_BAR = 6  # cells
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STYLES: dict[str, str | RichStyle] = {"plain": "", "bold": BOLD, "quiet": DIM}
_TIGHT: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def table_lines(table: Table, console: Console, options: ConsoleOptions, **style: Any) -> Iterator[RenderableType]:
    """A table with its heading, what is said of rows that it leaves out, and its notes.

    Where it is too wide, it is drawn for a narrow place: without extra columns, each row on several lines. What is too
    wide even so is split into parts, each with the columns that tell the rows apart. ``style``: as in ``draw_grid``.
    """
    abilities = Abilities.of(console, options)
    table, left_out = table.limited(table.most_listed)
    if table.heading:
        yield Text(abilities.plain(table.heading), BOLD)
    every = range(len(table.columns))
    narrow = [place for place in every if not table.columns[place].is_extra]
    keys = [place for place in narrow if table.columns[place].is_key]
    grid, is_short = draw_grid(table, every, abilities, **style), False
    if not fits(grid, console, options):
        grid, is_short = draw_grid(table, keys, abilities, short=True, **style), True
        part = keys
        for place in narrow[len(keys) :]:
            longer = draw_grid(table, [*part, place], abilities, short=True, **style)
            if part != keys and not fits(longer, console, options):
                yield grid
                part, longer = keys, draw_grid(table, [*keys, place], abilities, short=True, **style)
            part, grid = [*part, place], longer
    yield grid
    for text in filter(None, (left_out, (is_short and table.short_notes) or table.notes)):
        yield Text(abilities.plain(text), DIM)


def fits(grid: Grid, console: Console, options: ConsoleOptions) -> bool:
    """Whether nothing of it would be cut."""
    return Measurement.get(console, options.update(max_width=1000), grid).maximum <= options.max_width


def draw_grid(table: Table, columns: Sequence[int], abilities: Abilities, short: bool = False, **style: Any) -> Grid:
    """These columns of a table, whatever room there is; ``style``: other options of rich's tables."""
    grid = Grid(**(_TIGHT | style))
    chosen, headings, texts = [table.columns[i] for i in columns], table.headings(short), table.texts(short)
    for place, column in zip(columns, chosen, strict=True):
        grid.add_column(Text(abilities.plain(headings[place])), justify=column.align, no_wrap=True)
    for number, (row, words) in enumerate(zip(table.rows, texts, strict=True)):
        begins = not number or row[0] != table.rows[number - 1][0]
        if table.is_grouped and number and begins:
            grid.add_section()
        cells = [abilities.plain(words[place]) for place in columns]
        for i, (place, column) in enumerate(zip(columns, chosen, strict=True)):
            if column.bar:
                cells[i] = bar(row[place], min(column.bar, _NARROW_BAR) if short else column.bar, abilities.unicode)
        if table.is_grouped and not begins:
            cells[0] = ""
        grid.add_row(*(Text(text, _STYLES[column.style]) for text, column in zip(cells, chosen, strict=True)))
    return grid


def bar(share: float, width: int, in_unicode: bool) -> str:
    """A bar of up to ``width`` cells for a share from 0 to 1, in eighths of a cell where Unicode is at hand.

    >>> bar(0.5, 5, True), bar(0.5, 5, False)
    ('██▌', '##')
    """
    if not in_unicode:
        return "#" * int(share * width)
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
