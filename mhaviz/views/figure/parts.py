"""The blocks of a page, each measured for a sheet before any of them is drawn."""

from dataclasses import dataclass
from typing import Protocol

from mhaviz.pages.blocks import Bars, Block, Curves, Heads, Legend, Page, Panels, QuotedTable, Text
from mhaviz.views.figure.curves import decide_curves
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.heads import BarsPart, HeadsPart, PanelsPart, decide_heads, decide_panels, number_length
from mhaviz.views.figure.sheet import BODY, FOOT_LINE, INK, QUIET, SMALL, Sheet, wrap
from mhaviz.views.figure.table import decide_table
from mhaviz.views.labels import quoting
from mhaviz.views.style import Style

_AFTER_TEXT, _AFTER_INTRO = 0.08, 0.14  # inches


class Part(Protocol):
    """A block that has been measured, in inches; ``before`` and ``after``: the gaps to its left and below it."""

    @property
    def width(self) -> float:
        """As much as it needs; 0: it is broken to fit."""

    @property
    def before(self) -> float:
        """Beside something else."""

    @property
    def after(self) -> float:
        """Above something else."""

    def height(self, room: float, /) -> float:
        """In so much room."""

    def draw(self, sheet: Sheet, x: float, y: float, room: float, /) -> None:
        """With its top left corner at (x, y)."""


@dataclass(frozen=True)
class TextPart:
    """Lines of words, broken where the place is too narrow for them."""

    block: Text
    size: float

    width, before = 0.0, 0.0

    @property
    def after(self) -> float:
        """Inches to the next part."""
        return _AFTER_INTRO if self.block.style == "intro" else _AFTER_TEXT

    def _lines(self, room: float) -> list[str]:
        return [part for line in self.block.lines for part in wrap(line, room, self.size)]

    def height(self, room: float) -> float:
        """In inches."""
        return FOOT_LINE * len(self._lines(room))

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """With its top left corner at (x, y)."""
        colour = INK if self.block.style in ("plain", "heading") else QUIET
        for i, line in enumerate(self._lines(room)):
            middle = y + FOOT_LINE * (i + 0.5)
            sheet.write(x, middle, line, self.size, colour=colour, bold=self.block.style == "heading")


def decide_parts(page: Page, fonts: Fonts, style: Style) -> tuple[list[Part], list[Part]]:
    """Measure the blocks that paper has, and those beside its pictures."""
    blocks = [block for block in page.blocks if block.where != "listed"]
    stacked = [block for block in blocks if isinstance(block, Heads)]
    length = number_length([m for block in stacked for m in block.maps], style)
    explains = any(isinstance(block, (Curves, Panels)) for block in blocks)

    def decide(block: Block, cells_height: float = 0.0) -> Part:
        if isinstance(block, Heads):
            return decide_heads(block, fonts, style, len(stacked), length)
        if isinstance(block, Panels):
            return decide_panels(block, style)
        if isinstance(block, Curves):
            return decide_curves(block)
        if isinstance(block, Text):
            return TextPart(block, SMALL if explains else BODY)
        if isinstance(block, Bars):
            return BarsPart(block, style.cmap, cells_height)
        assert not isinstance(block, Legend), "a sheet has its scales beside the pictures"
        return decide_table(block.quoted(quoting(fonts.shown)) if isinstance(block, QuotedTable) else block, fonts)

    parts, cells_height = [decide(block) for block in blocks], 0.0
    pictures = [part for part in parts if isinstance(part, (HeadsPart, PanelsPart))]
    if pictures:  # from the first row of cells to the last
        below = pictures[-1].after + pictures[-1].layout.keys.room
        cells_height = sum(part.height(0) + part.after for part in pictures) - pictures[0].top - below
    return parts, [decide(block, cells_height) for block in page.beside]
