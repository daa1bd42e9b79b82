"""Tables that are split where the terminal is too narrow for them."""

from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.box import Box
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from mhaviz.pages.blocks import Table
from mhaviz.views.terminal.grid import BOLD, DIM
from mhaviz.views.text import isolated

_NARROW_BAR = 6  # cells
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table_lines(
    table: Table, console: Console, options: ConsoleOptions, rules: Box | None = box.SIMPLE_HEAD
) -> Iterator[RenderableType]:
    """A table with its heading, what is said of rows that it leaves out, and its notes.

    Where it is too wide, it is split into parts of about as many columns, each with those that tell the rows apart.
    """
    table, left_out = table.limited()
    if table.heading:
        yield Text(table.heading, BOLD)
    every = range(len(table.columns))
    whole = draw_grid(table, every, rules)
    if fits(whole, console, options):
        yield whole
    else:
        keys = [place for place in every if table.columns[place].is_key]
        others = [place for place in every if place not in keys]

        def drawn(places: Sequence[int]) -> Grid:
            return draw_grid(table, sorted([*keys, *places]), rules, _NARROW_BAR)

        yield from map(drawn, _parts(others, lambda places: fits(drawn(places), console, options)))
    for text in filter(None, (left_out, table.notes)):
        yield Text(text, DIM)


def side_by_side(tables: Sequence[Table], console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    """Matrices beside each other, where there is room for all; else one below the other."""
    grids = [draw_grid(table, range(len(table.columns)), None) for table in tables]
    if all(fits(grid, console, options) for grid in grids):
        yield Columns(grids, padding=(0, 3))
    else:
        for table in tables:
            yield from table_lines(table, console, options, None)


def _parts(places: Sequence[int], fit: Callable[[Sequence[int]], bool]) -> list[Sequence[int]]:
    """The columns in as few parts as fit, of about as many columns each; a part of one column may be too wide."""
    greedy = _filled(places, fit, len(places))
    even = _filled(places, fit, -(-len(places) // max(len(greedy), 1)))
    return even if len(even) == len(greedy) else greedy


def _filled(places: Sequence[int], fit: Callable[[Sequence[int]], bool], most: int) -> list[Sequence[int]]:
    """Parts of at most so many columns, each as full as it gets."""
    parts: list[list[int]] = [[]]
    for place in places:
        if parts[-1] and (len(parts[-1]) == most or not fit([*parts[-1], place])):
            parts.append([])
        parts[-1].append(place)
    return list(parts)


def fits(grid: Grid, console: Console, options: ConsoleOptions) -> bool:
    """Whether nothing of it would be cut."""
    return Measurement.get(console, options.update(max_width=1000), grid).maximum <= options.max_width


def draw_grid(table: Table, columns: Sequence[int], rules: Box | None, widest_bar: int = 100) -> Grid:
    """These columns of a table, whatever room there is: where there is too little, words wrap and numbers do not."""
    grid = Grid(box=rules, pad_edge=False, padding=(0, 1, 0, 0))
    chosen, headings, texts = [table.columns[i] for i in columns], table.headings(), table.texts()
    for place, column in zip(columns, chosen, strict=True):
        grid.add_column(
            Text(isolated(headings[place])),
            justify=column.align,
            no_wrap=column.align == "right",
            overflow="fold",
        )
    for number, (row, words) in enumerate(zip(table.rows, texts, strict=True), start=1):
        cells = [words[place] for place in columns]
        for i, (place, column) in enumerate(zip(columns, chosen, strict=True)):
            if column.bar:
                cells[i] = bar(row[place], min(column.bar, widest_bar))
        is_total = table.has_total and number == len(texts)
        grid.add_row(*(Text(isolated(text)) for text in cells), style=BOLD if is_total else None)
    return grid


def bar(share: float, width: int) -> str:
    """A bar of up to ``width`` cells for a share from 0 to 1, in eighths of a cell.

    >>> bar(0.5, 5)
    '██▌'
    """
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
