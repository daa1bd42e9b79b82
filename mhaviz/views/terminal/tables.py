"""Tables that take several lines a row, or are split, where the terminal is too narrow for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.style import Style as RichStyle
from rich.table import Table as Grid
from rich.text import Text

from mhaviz.pages.blocks import Form, Table
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities

_NARROW_BAR = 6  # cells
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STYLES: dict[str, str | RichStyle] = {"plain": "", "bold": BOLD, "quiet": DIM}
_TIGHT: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def table_lines(table: Table, console: Console, options: ConsoleOptions, **style: Any) -> Iterator[RenderableType]:
    """A table with its heading, what is said of rows that it leaves out, and its notes.

    Where it is too wide, it is drawn for a narrow place: without extra columns, each row on several lines. What is too
    wide even so is split into parts of about as many columns, each with those that tell the rows apart. A table that
    says what it leaves out keeps as much as there is room for. ``style``: as in ``draw_grid``.
    """
    abilities = Abilities.of(console, options)
    table, left_out = table.limited(table.most_listed)
    if table.heading:
        yield Text(abilities.plain(table.heading), BOLD)
    every = range(len(table.columns))
    narrow = [place for place in every if not table.columns[place].is_extra]
    keys = [place for place in narrow if table.columns[place].is_key]
    layouts = [_Layout(every), *(_narrowed(table) if table.narrowed else ())]
    grids = ((one, draw_grid(table, one.columns, abilities, one.short, one.form, **style)) for one in layouts)
    chosen, grid = next(((one, grid) for one, grid in grids if fits(grid, console, options)), (None, None))
    if chosen and grid:
        yield grid
    else:
        chosen = _Layout(narrow, short=True, form="stacked")

        def drawn(places: Sequence[int]) -> Grid:
            return draw_grid(table, [*keys, *places], abilities, short=True, **style)

        yield from map(drawn, _parts(narrow[len(keys) :], lambda places: fits(drawn(places), console, options)))
    for text in filter(None, (left_out, chosen.left_out(table), "; ".join(chosen.notes(table)))):
        yield Text(abilities.plain(text), DIM)


@dataclass(frozen=True)
class _Layout:
    """Which columns of a table are drawn, with which headings, and how their values are written."""

    columns: Sequence[int]
    short: bool = False
    form: Form = "whole"

    def left_out(self, table: Table) -> str:
        """What is said of what it lacks."""
        lacking = tuple(c.heading for place, c in enumerate(table.columns) if place not in self.columns)
        is_bare = self.form == "bare"
        return table.narrowed(lacking, is_bare) if table.narrowed and (lacking or is_bare) else ""

    def notes(self, table: Table) -> list[str]:
        """What is said of what it shows."""
        headings, shown = table.headings(self.short), [table.columns[place] for place in self.columns]
        of_columns = [f"{headings[i]}: {c.note}" for i, c in zip(self.columns, shown, strict=True) if c.note]
        of_rests = [] if self.form == "bare" else dict.fromkeys(c.rest_note for c in shown)
        return list(filter(None, [(self.short and table.short_notes) or table.notes, *of_columns, *of_rests]))


def _narrowed(table: Table) -> Iterator[_Layout]:
    """From what needs most room to what needs least, without splitting it.

    Names are shortened before columns are left out, extra columns are before all but the main parts of values. Of the
    extra columns the first is left out first: it belongs to the one before it.
    """
    every = list(range(len(table.columns)))
    yield _Layout(every, form="stacked")
    yield _Layout(every, short=True, form="stacked")
    extra = [place for place in every if table.columns[place].is_extra]
    fewer = [[place for place in every if place not in extra[:n]] for n in range(1, len(extra) + 1)]
    yield from (_Layout(kept, short=True, form="stacked") for kept in fewer)
    yield from (_Layout(kept, short=True, form="bare") for kept in (every, *fewer))


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


def draw_grid(
    table: Table,
    columns: Sequence[int],
    abilities: Abilities,
    short: bool = False,
    form: Form | None = None,
    **style: Any,
) -> Grid:
    """These columns of a table, whatever room there is; ``style``: other options of rich's tables.

    ``form``: of the values; None: on several lines under short headings, else on one.
    """
    form = form or ("stacked" if short else "whole")
    grid = Grid(**(_TIGHT | style))
    chosen, headings, texts = [table.columns[i] for i in columns], table.headings(short), table.texts(form)
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
