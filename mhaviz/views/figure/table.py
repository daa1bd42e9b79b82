"""A table on a sheet: columns as wide as they need, and bars for shares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from matplotlib.patches import Rectangle

from mhaviz.pages.blocks import Table
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import ACCENT, DRAWN_WIDER, INK, QUIET, SMALL, Sheet, text_width, wrap

_T = TypeVar("_T")

_LINE, _BAR_LINE = 0.15, 0.22  # inches of a line, and of one with a bar
_GAP = 0.22  # between columns
_CARD_NOTES = 3.2  # inches; the notes of a single row are a narrow column
_BAR_CELL = 0.1  # inches of a bar for each cell of a terminal


@dataclass(frozen=True)
class TablePart:
    """A table that has been measured.

    Attributes:
        rows: of texts; the first are the headings, or, of a card, each begins with one.
        widths: of the columns, in inches.
        right: which columns have their numbers one under the other.
        keys: which columns tell the rows apart.
        bars: of each column the shares that its bars show; none where it has texts.
        heading: stands over it.
        more: what is said of rows that are left out.
        notes: what the columns mean.
        card: whether it is of a single row, a line a number.
        has_total: whether the last row sums up the others.
        line: inches of a row.
    """

    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    right: tuple[bool, ...]
    keys: tuple[bool, ...]
    bars: tuple[tuple[float, ...], ...]
    heading: str
    more: str
    notes: str
    card: bool
    has_total: bool
    line: float

    after = 0.08

    @property
    def width(self) -> float:
        """In inches, without the notes, which are broken to fit."""
        return sum(self.widths) + _GAP * (len(self.widths) - 1)

    @property
    def full_width(self) -> float:
        """In inches, with the notes of a card."""
        return max(self.width, _CARD_NOTES)

    @property
    def rows_height(self) -> float:
        """In inches, of the rows and their headings."""
        return self.line * len(self.rows)

    def height(self, width: float) -> float:
        """In inches, where the notes have ``width``."""
        return self.rows_height + _LINE * (bool(self.more) + len(self.note_lines(width)) + 0.5)

    def note_lines(self, width: float) -> list[str]:
        """The notes as lines of at most so many inches."""
        return wrap(self.notes, width / DRAWN_WIDER, SMALL) if self.notes else []

    def beside(self, n_rows: int, row: float) -> "TablePart":
        """The same beside so many rows of cells that are so high, if each is one of its own, which they tell apart."""
        if len(self.rows) != n_rows + 1:
            return self

        def others(columns: Sequence[_T]) -> tuple[_T, ...]:
            return tuple(column for column, is_key in zip(columns, self.keys, strict=True) if not is_key)

        kept = replace(self, rows=tuple(map(others, self.rows)), widths=others(self.widths), right=others(self.right))
        return replace(kept, keys=others(self.keys), bars=others(self.bars), line=row)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """With its top left corner at (x, y), its heading above, its notes in at most ``width`` inches."""
        if self.heading:
            sheet.write(x, y - 0.12, self.heading, SMALL, bold=True)
        for number, row in enumerate(self.rows):
            left, middle, bold = x, y + self.line / 2, self.has_total and number == len(self.rows) - 1
            for column, (text, wide, right) in enumerate(zip(row, self.widths, self.right, strict=True)):
                colour = QUIET if (column == 0 if self.card else number == 0) else INK
                if right:
                    sheet.write(left + wide, middle, text, SMALL, align="right", colour=colour, bold=bold)
                else:
                    sheet.write(left, middle, text, SMALL, colour=colour, bold=bold)
                if number and self.bars[column]:
                    is_last = column == len(row) - 1  # it has what room there is
                    most, height = wide + max(width - self.width, 0.0) * is_last, 0.6 * self.line
                    size = most * self.bars[column][number - 1], height
                    sheet.page.add_patch(Rectangle((left, middle - height / 2), *size, facecolor=ACCENT, linewidth=0))
                left += wide + _GAP
            y += self.line
        if self.more:
            sheet.write(x, y + _LINE / 2, self.more, SMALL)
            y += _LINE
        for number, line in enumerate(self.note_lines(width), start=1):
            sheet.write(x, y + number * _LINE, line, SMALL, colour=QUIET)


def measure_table(table: Table, fonts: Fonts, card: bool = False) -> TablePart:
    """Measure a table; as a card, without its first column, of a single row."""
    families = fonts.families
    table, more = table.limited()
    rows = [tuple(text and fonts.shown(text) for text in row) for row in (table.headings(), *table.texts())]
    columns = list(zip(*rows, strict=True))
    right, keys = (tuple(flags) for flags in zip(*((c.align == "right", c.is_key) for c in table.columns), strict=True))
    bars = tuple(tuple(row[i] for row in table.rows) if c.bar else () for i, c in enumerate(table.columns))
    least = [column.bar * _BAR_CELL for column in table.columns]
    if card:
        rows, right, keys, bars, least = columns[1:], (False, False), (False, False), ((), ()), [0.0, 0.0]
    # Small letters are drawn wider than they measure, as they begin at whole pixels.
    widths = (
        max(text_width(text, SMALL, families) for text in column) * DRAWN_WIDER for column in zip(*rows, strict=True)
    )
    return TablePart(
        tuple(rows),
        tuple(map(max, widths, least)),
        right,
        keys,
        bars,
        table.heading,
        more,
        table.notes,
        card,
        table.has_total,
        _BAR_LINE if any(bars) else _LINE,
    )
