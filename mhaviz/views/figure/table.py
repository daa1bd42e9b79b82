"""A table on a sheet: columns as wide as they need, or, where its values are shares, bars."""

from dataclasses import dataclass

from mhaviz.pages.blocks import Table
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import ACCENT, BODY, DRAWN_WIDER, INK, QUIET, SECOND, SMALL, Sheet, text_width, wrap

_LINE = 0.15  # inches
_GAP = 0.22  # between columns
_CARD_NOTES = 3.2  # inches; the notes of a single row are a narrow column
_BAR_PITCH, _BAR_NAMES, _BAR_NUMBER, _OVER_BARS = 0.24, 1.3, 0.5, 0.17  # inches


@dataclass(frozen=True)
class TablePart:
    """A table that has been measured.

    Attributes:
        rows: of texts; the first are the headings, or, of a card, each begins with one.
        widths: of the columns, in inches.
        right: which columns have their numbers one under the other.
        heading: stands over it.
        more: what is said of rows that are left out.
        notes: what the columns mean.
        card: whether it is of a single row, a line a number.
    """

    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    right: tuple[bool, ...]
    heading: str
    more: str
    notes: str
    card: bool

    after = 0.08

    @property
    def width(self) -> float:
        """In inches, without the notes, which are broken to fit."""
        return sum(self.widths) + _GAP * (len(self.widths) - 1)

    @property
    def full_width(self) -> float:
        """In inches, with the notes of a card."""
        return max(self.width, _CARD_NOTES)

    def height(self, width: float) -> float:
        """In inches, where the notes have ``width``."""
        return _LINE * (len(self.rows) + bool(self.more) + len(self.note_lines(width)) + 0.5)

    def note_lines(self, width: float) -> list[str]:
        """The notes as lines of at most so many inches."""
        return wrap(self.notes, (self.full_width if self.card else width) / DRAWN_WIDER, SMALL) if self.notes else []

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """With its top left corner at (x, y), its heading above, its notes in at most ``width`` inches."""
        if self.heading:
            sheet.write(x, y - 0.12, self.heading, SMALL, bold=True)
        for number, row in enumerate(self.rows):
            left = x
            for column, (text, wide, right) in enumerate(zip(row, self.widths, self.right, strict=True)):
                heading = column == 0 if self.card else number == 0
                at = left + wide if right else left
                sheet.write(
                    at, y + _LINE / 2, text, SMALL, align="right" if right else "left", colour=QUIET if heading else INK
                )
                left += wide + _GAP
            y += _LINE
        if self.more:
            sheet.write(x, y + _LINE / 2, self.more, SMALL)
            y += _LINE
        for number, line in enumerate(self.note_lines(width), start=1):
            sheet.write(x, y + number * _LINE, line, SMALL, colour=QUIET)


def decide_table(table: Table, fonts: Fonts) -> "TablePart | TableBars":
    """Measure a table; one whose values are shares is drawn as bars."""
    return TableBars(table) if any(column.bar for column in table.columns) else measure_table(table, fonts)


def measure_table(table: Table, fonts: Fonts, card: bool = False) -> TablePart:
    """Measure a table; as a card, without its first column, of a single row."""
    families = fonts.families
    table, more = table.limited(table.most_drawn)
    rows = [table.headings(), *table.texts()]
    right = tuple(column.align == "right" for column in table.columns)
    if card:
        rows, right = list(zip(*rows, strict=True))[1:], (False, False)
    # Small letters are drawn wider than they measure, as they begin at whole pixels.
    widths = (
        max(text_width(text, SMALL, families) for text in column) * DRAWN_WIDER for column in zip(*rows, strict=True)
    )
    return TablePart(tuple(rows), tuple(widths), right, table.heading, more, table.notes, card)


@dataclass(frozen=True)
class TableBars:
    """Bars, one a row, between its first and its second text; a row that sums up all others stands out."""

    table: Table

    width, after = 0.0, 0.08

    def height(self, _: float) -> float:
        """In inches."""
        return _OVER_BARS + max(len(self.table.rows) * _BAR_PITCH, 0.1) + 0.16

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """With its top left corner at (x, y), in ``width`` inches."""
        table = self.table
        (share,) = (place for place, column in enumerate(table.columns) if column.bar)
        left, room = x + _BAR_NAMES, width - _BAR_NAMES - _BAR_NUMBER
        for i, ((name, number, *_), row) in enumerate(zip(table.texts(), table.rows, strict=True)):
            middle = y + _OVER_BARS + (i + 0.5) * _BAR_PITCH
            stands_out = table.has_total and i == len(table.rows) - 1
            end = left + room * row[share]
            sheet.write(left - 0.1, middle, name, BODY, align="right", bold=stands_out)
            colour = ACCENT if stands_out else SECOND
            sheet.page.barh(middle, end - left, height=0.6 * _BAR_PITCH, left=left, color=colour)
            sheet.write(end + 0.06, middle, number, BODY, bold=stands_out)
