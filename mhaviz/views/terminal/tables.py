"""Tables of numbers that are split where the terminal is too narrow for them."""

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

Row = Sequence[str]


def fitting_tables(
    headings: Sequence[str],
    rows: Sequence[Row | None],
    console: Console,
    options: ConsoleOptions,
    keys: int = 1,
    left: Sequence[int] = (),
) -> list[Table]:
    """One table, or as many as the width makes necessary.

    Args:
        headings: of the columns.
        rows: as many texts each; None draws a line.
        console: where they are shown.
        options: likewise.
        keys: how many columns on the left tell the rows apart: they stand in every table.
        left: the columns of words; the others are numbers, aligned on the right.
    """
    unlimited = options.update(max_width=1000)

    def fits(columns: Sequence[int]) -> bool:
        table = _table([*range(keys), *columns], headings, rows, left)
        return Measurement.get(console, unlimited, table).maximum <= options.max_width

    parts: list[list[int]] = []
    for column in range(keys, len(headings)):
        if parts and fits([*parts[-1], column]):
            parts[-1].append(column)
        else:
            parts.append([column])
    return [_table([*range(keys), *part], headings, rows, left) for part in parts]


def fitting_or_stacked(
    headings: Sequence[str],
    rows_of: Callable[[bool], Sequence[Row | None]],
    console: Console,
    options: ConsoleOptions,
    keys: int = 1,
    left: Sequence[int] = (),
) -> list[Table]:
    """``fitting_tables`` of ``rows_of(False)``, or of the rows stacked, ``rows_of(True)``, if one table is too wide."""
    tables = fitting_tables(headings, rows_of(False), console, options, keys, left)
    return tables if len(tables) == 1 else fitting_tables(headings, rows_of(True), console, options, keys, left)


def _table(columns: Sequence[int], headings: Sequence[str], rows: Sequence[Row | None], left: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(headings[column], justify="left" if column in left else "right", no_wrap=True)
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(Text(row[column]) for column in columns))
    return table
