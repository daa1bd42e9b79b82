"""Tables in the terminal, split where it is too narrow for them."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.box import Box
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from mhaviz.pages.blocks import Table
from mhaviz.views.columns import split_columns
from mhaviz.views.terminal.grid import BOLD, DIM
from mhaviz.views.text import isolated

_NARROW_BAR = 6  # cells
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table_lines(
    table: Table, console: Console, options: ConsoleOptions, rules: Box | None = box.SIMPLE_HEAD
) -> Iterator[RenderableType]:
    """Yield a table with its heading, the number of rows left out, and its notes.

    A table that is too wide has no bars, as they show numbers that stand beside them, or else is split into parts of
    about equally many columns, each with the key columns.
    """
    table, left_out = table.limited()
    if table.heading:
        yield Text(table.heading, BOLD)
    every = range(len(table.columns))
    whole = draw_grid(table, every, rules)
    if fits(whole, console, options):
        yield whole
    else:

        def drawn(places: Sequence[int]) -> Grid:
            return draw_grid(table, places, rules, _NARROW_BAR)

        parts = split_columns(table, lambda places: fits(drawn(places), console, options))
        without_bars = [place for place in every if not table.columns[place].bar]
        if len(parts) > 1 and fits(drawn(without_bars), console, options):
            parts = [without_bars]
        yield from map(drawn, parts)
    for text in filter(None, (left_out, table.notes)):
        yield Text(text, DIM)


def side_by_side(tables: Sequence[Table], console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    """Yield tables side by side if there is room for all, otherwise one below the other."""
    grids = [draw_grid(table, range(len(table.columns)), None) for table in tables]
    if all(fits(grid, console, options) for grid in grids):
        yield Columns(grids, padding=(0, 3))
    else:
        for table in tables:
            yield from table_lines(table, console, options, None)


def fits(grid: Grid, console: Console, options: ConsoleOptions) -> bool:
    """Return whether a table fits without being cut."""
    return Measurement.get(console, options.update(max_width=1000), grid).maximum <= options.max_width


def draw_grid(table: Table, columns: Sequence[int], rules: Box | None, widest_bar: int = 100) -> Grid:
    """Return these columns of a table as a table of rich; where room is short, words are wrapped, but not numbers."""
    grid = Grid(box=rules, pad_edge=False, padding=(0, 1, 0, 0))
    chosen, headings, texts = [table.columns[i] for i in columns], table.headings(), table.texts()
    for place, column in zip(columns, chosen, strict=True):
        grid.add_column(
            Text(isolated(headings[place])),
            justify=column.align,
            no_wrap=column.align == "right",
            overflow="fold",
        )
    for row, words in zip(table.rows, texts, strict=True):
        cells = [words[place] for place in columns]
        for i, (place, column) in enumerate(zip(columns, chosen, strict=True)):
            if column.bar:
                cells[i] = bar(row[place], min(column.bar, widest_bar))
        grid.add_row(*(Text(isolated(text)) for text in cells))
    return grid


def bar(share: float, width: int) -> str:
    """Return a bar of up to ``width`` characters for a share from 0 to 1, in steps of an eighth of a character.

    >>> bar(0.5, 5)
    '██▌'
    """
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
