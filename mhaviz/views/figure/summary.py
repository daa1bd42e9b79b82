"""What each head of a long map does, as a table beside its picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from mhaviz.records import AttentionMap, MapSummary
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.sheet import DRAWN_WIDER, INK, QUIET, SMALL, Sheet, text_width, wrap
from mhaviz.views.summaries import summary_headings, summary_notes, summary_rows

MOST_HEADS = 32  # rows; a longer table is no picture any more
_LINE = 0.15  # inches
_GAP = 0.22  # between columns
_CARD_NOTES = 3.2  # inches; the notes of a single head are a narrow column


@dataclass(frozen=True)
class SummaryTable:
    """A table that has been measured.

    Attributes:
        rows: of texts; the first are the headings, or, for a single head, each begins with one.
        widths: of the columns, in inches.
        right: which columns have their numbers one under the other.
        more: what is said of heads that are left out.
        notes: what the columns mean.
        card: whether it is of a single head, a line a number.
    """

    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    right: tuple[bool, ...]
    more: str
    notes: str
    card: bool

    @property
    def width(self) -> float:
        """In inches, without the notes, which are broken to fit."""
        return sum(self.widths) + _GAP * (len(self.widths) - 1)

    @property
    def full_width(self) -> float:
        """In inches, with the notes of a single head."""
        return max(self.width, _CARD_NOTES)

    def height(self, width: float) -> float:
        """In inches, where the notes have ``width``."""
        return _LINE * (len(self.rows) + bool(self.more) + len(self.note_lines(width)) + 0.5)

    def note_lines(self, width: float) -> list[str]:
        """The notes as lines of at most so many inches."""
        return wrap(self.notes, (self.full_width if self.card else width) / DRAWN_WIDER, SMALL)


def decide_summary(attention_map: AttentionMap, summary: MapSummary, lettering: Lettering) -> SummaryTable:
    """The table of a map's summary: a row a head, or, of a single head, a line a number."""
    heads = len(summary.heads)
    shown = attention_map if heads <= MOST_HEADS else attention_map.select(attention_map.heads[:MOST_HEADS])
    assert shown.summary is not None
    rows: list[tuple[str, ...]] = [
        summary_headings(summary),
        *summary_rows(shown, shown.summary, lettering.shown),
    ]
    card = heads == 1
    if card:
        rows = list(zip(*rows, strict=True))[1:]
    more = f"and {heads - MOST_HEADS} heads more" if heads > MOST_HEADS else ""
    right = (False, False) if card else tuple(place < 3 for place in range(len(rows[0])))
    return measured_table(rows, right, more, summary_notes(summary), lettering, card)


def measured_table(
    rows: Sequence[tuple[str, ...]],
    right: tuple[bool, ...],
    more: str,
    notes: str,
    lettering: Lettering,
    card: bool = False,
) -> SummaryTable:
    """A table of these texts, its columns as wide as they need; see the attributes of ``SummaryTable``."""
    widths = tuple(_room(column, lettering) for column in zip(*rows, strict=True))
    return SummaryTable(tuple(rows), widths, right, more, notes, card)


def _room(texts: Sequence[str], lettering: Lettering) -> float:
    """Small letters are drawn wider than they measure, as they begin at whole pixels."""
    return max(text_width(text, SMALL, lettering.families) for text in texts) * DRAWN_WIDER


def draw_summary(sheet: Sheet, table: SummaryTable, x: float, y: float, width: float) -> None:
    """Draw it with its top left corner at (x, y), its notes in at most ``width`` inches."""
    for number, row in enumerate(table.rows):
        left = x
        for column, (text, wide, right) in enumerate(zip(row, table.widths, table.right, strict=True)):
            heading = column == 0 if table.card else number == 0
            at = left + wide if right else left
            sheet.write(
                at, y + _LINE / 2, text, SMALL, align="right" if right else "left", colour=QUIET if heading else INK
            )
            left += wide + _GAP
        y += _LINE
    if table.more:
        sheet.write(x, y + _LINE / 2, table.more, SMALL)
        y += _LINE
    _write_notes(sheet, table.note_lines(width), x, y + _LINE / 2)


def _write_notes(sheet: Sheet, lines: Sequence[str], x: float, y: float) -> None:
    for number, line in enumerate(lines):
        sheet.write(x, y + (number + 0.5) * _LINE, line, SMALL, colour=QUIET)
