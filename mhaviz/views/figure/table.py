"""Tables on a sheet: columns as wide as their texts, and bars for shares."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from mhaviz.pages.blocks import Column, Table
from mhaviz.views.columns import split_columns
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import text_width, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, INK, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL

if TYPE_CHECKING:
    from mhaviz.views.figure.heads import MosaicPart

_LINE, _BAR_LINE, _HEADING = 0.15, 0.22, 0.2  # inches of a line, of one with a bar, and of the heading
_GAP, _LEAST_GAP = 0.22, 0.1  # inches between columns, and least of them where room is short
_HAIR = 1e-6  # inches by which a table is narrower than its room, for rounding errors
_CARD_NOTES = 3.2  # inches of the notes of a card
_BAR_CELL, _LEAST_BAR = 0.1, 0.4  # inches of a bar for each of its characters in a terminal; least of all


@dataclass(frozen=True)
class TablePart(Part):
    """A table that has been measured.

    Attributes:
        table: the rows that are drawn.
        texts: texts of each row; the first row has the headings, or, in a card, each row begins with one.
        widths: widths of the columns, in inches.
        more: text that counts the rows left out.
        card: whether the table is a card: a single row of the table, written as one line for each number.
        line: inches of a row.
        gap: inches between columns.
        squeeze: share of their usual height that rows with bars have, if that is enough for their texts.
    """

    table: Table
    texts: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    more: str
    card: bool
    line: float
    gap: float
    squeeze: float = 1.0

    after = 0.08
    can_be_left_out = True

    @property
    def width(self) -> float:
        """Width in inches, without the notes, which are wrapped."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)

    @property
    def full_width(self) -> float:
        """Width in inches, with the notes of a card."""
        return max(self.width, _CARD_NOTES)

    @property
    def rows_height(self) -> float:
        """Height in inches of the rows and headings."""
        return _HEADING * bool(self.table.heading) + self.line * len(self.texts)

    def height(self, width: float) -> float:
        """Return the height in inches, with notes wrapped to ``width``."""
        return self.rows_height + _LINE * (bool(self.more) + len(self.note_lines(width)) + 0.5)

    def note_lines(self, width: float) -> list[str]:
        """Return the notes as lines of at most ``width`` inches."""
        return [line for note in self.table.notes.splitlines() for line in wrap(note, width / DRAWN_WIDER, SMALL)]

    @property
    def last_cells(self) -> float:
        """Height in inches of the rows and headings."""
        return self.rows_height

    def among(self, before: "Sequence[MosaicPart]", below: "Sequence[MosaicPart]") -> "TablePart":
        """Return the table in line with the rows of a picture before it, if it has as many: without its key columns, as
        the picture has labels."""
        if not before or len(self.texts) != before[-1].layout.queries.cells + 1:
            return self
        return replace(self._without_keys, line=before[-1].layout.queries.cell)

    @property
    def beside_width(self) -> float:
        """Width in inches beside a picture whose rows have labels."""
        return self._without_keys.width

    @property
    def _without_keys(self) -> "TablePart":
        return self._of([i for i, column in enumerate(self.table.columns) if not column.is_key])

    def split(self, room: float) -> Iterator["TablePart"]:
        """Yield the table, or parts of it that are at most ``room`` inches wide, each with the key columns."""
        if self.width <= room or self.card:
            yield self
            return
        parts = [*map(self._of, split_columns(self.table, lambda places: self._of(places).width <= room))]
        for part in parts:
            heading, notes = (self.table.heading if part is parts[0] else ""), self.table.notes
            table = replace(part.table, heading=heading, notes=notes if part is parts[-1] else "")
            yield replace(part, table=table, more=self.more if part is parts[-1] else "")

    def _of(self, places: Sequence[int]) -> "TablePart":
        """Return the table with these columns alone."""
        columns, widths = tuple(self.table.columns[i] for i in places), tuple(self.widths[i] for i in places)
        rows, texts = (tuple(tuple(row[i] for i in places) for row in all_) for all_ in (self.table.rows, self.texts))
        table, line = replace(self.table, columns=columns, rows=rows), _line(columns, self.squeeze)
        return replace(self, table=table, texts=texts, widths=widths, line=line)

    def draw(self, sheet: Sheet, x: float, y: float, width: float) -> None:
        """Draw the table with its top left corner at (x, y), and its notes wrapped to ``width``."""
        table = self.table
        if table.heading:
            sheet.write(x, y + _LINE / 2, table.heading, SMALL, bold=True)
            y += _HEADING
        for number, row in enumerate(self.texts):
            left, middle = x, y + self.line / 2
            for i, (text, wide) in enumerate(zip(row, self.widths, strict=True)):
                column = None if self.card else table.columns[i]
                colour = QUIET if (i if self.card else number) == 0 else INK
                right = column is not None and column.align == "right"
                at = left + wide * right
                sheet.write(at, middle, text, SMALL, align="right" if right else "left", colour=colour)
                if number and column and column.bar:
                    is_last = i == len(row) - 1  # it takes the remaining room
                    most, height = wide + max(width - self.width, 0.0) * is_last, 0.6 * self.line
                    size = most * table.rows[number - 1][i], height
                    sheet.page.add_patch(Rectangle((left, middle - height / 2), *size, facecolor=ACCENT, linewidth=0))
                left += wide + self.gap
            y += self.line
        if self.more:
            sheet.write(x, y + _LINE / 2, self.more, SMALL)
            y += _LINE
        for number, line in enumerate(self.note_lines(width), start=1):
            sheet.write(x, y + number * _LINE, line, SMALL, colour=QUIET)


def _line(columns: Sequence[Column], squeeze: float) -> float:
    return max(_BAR_LINE * squeeze, _LINE) if any(column.bar for column in columns) else _LINE


@dataclass(frozen=True)
class MeasuredTable:
    """A table whose texts have been measured, for any room.

    Attributes:
        table, texts, more, card: as of ``TablePart``.
        wides: width of the widest text of each column, in inches.
    """

    table: Table
    texts: tuple[tuple[str, ...], ...]
    wides: tuple[float, ...]
    more: str
    card: bool

    def part(self, room: float = math.inf, squeeze: float = 1.0) -> TablePart:
        """Return the table with smaller bars and gaps where it would be wider than ``room`` inches.

        ``squeeze``: see ``TablePart``.
        """
        columns, widths = self.table.columns, list(self.wides)
        least = [0.0] * len(widths) if self.card else [column.bar * _BAR_CELL for column in columns]
        room, gaps = room - _HAIR, len(widths) - 1
        if bars := sum(map(bool, least)):
            longest = max((room - sum(widths) - gaps * _LEAST_GAP) / bars, _LEAST_BAR)
            widths = [max(wide, min(bar, longest)) for wide, bar in zip(widths, least, strict=True)]
        gap = min(max((room - sum(widths)) / max(gaps, 1), _LEAST_GAP), _GAP)
        line = _line(columns, squeeze)
        return TablePart(self.table, self.texts, tuple(widths), self.more, self.card, line, gap, squeeze)


def measure_table(table: Table, fonts: Fonts, card: bool = False) -> MeasuredTable:
    """Measure the texts of a table; ``card``: as a card of its single row, without the first column."""
    families = fonts.families
    table, more = table.limited()
    texts = [tuple(text and fonts.shown(text) for text in row) for row in (table.headings(), *table.texts())]
    if card:
        texts = list(zip(*texts, strict=True))[1:]
    # Small letters are drawn wider than they measure, as they begin at whole pixels.
    wides = (max(text_width(text, SMALL, families) for text in column) for column in zip(*texts, strict=True))
    return MeasuredTable(table, tuple(texts), tuple(wide * DRAWN_WIDER for wide in wides), more, card)
