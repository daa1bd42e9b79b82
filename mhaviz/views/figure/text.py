"""Texts on a sheet, wrapped to the width of their place."""

from dataclasses import dataclass

from mhaviz.pages.blocks import Text
from mhaviz.views.figure.measuring import wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER


@dataclass(frozen=True)
class TextPart(Part):
    """Lines of text, wrapped to the width of their place; ``size``: font size, at most that of the sheet's titles."""

    block: Text
    size: float

    after = 0.08

    @property
    def _is_bold(self) -> bool:
        return bool(self.block.heading)

    def _lines(self, room: float) -> list[str]:
        room /= DRAWN_WIDER
        return [part for line in self.block.lines for part in wrap(line, room, self.size, bold=self._is_bold)]

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return FOOT_LINE * len(self._lines(room))

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the text with its top left corner at (x, y)."""
        colour = QUIET if self.block.style in ("quiet", "subtitle") else INK
        size = min(self.size, sheet.title_size)
        for i, line in enumerate(self._lines(room)):
            middle = y + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, line, size, colour=colour, bold=self._is_bold)
