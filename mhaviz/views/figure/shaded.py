"""Texts whose words are shaded by numbers, wrapped to the width of their place."""

from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Rectangle

from mhaviz.pages.blocks import Shaded
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, POINTS, SMALL
from mhaviz.views.tiles.shaded import Placed, shaded_lines

_LINE, _BOX = 0.185, 0.155  # inches: from line to line, and height of a shade
_CAPITAL = 0.73 * BODY / POINTS  # inches: height of a capital, so that words share a baseline whatever is above them
_AROUND = 0.015  # inches of a shade beside its word
_KEY, _KEY_LINE, _BAR, _BAR_HEIGHT = 0.25, 0.15, 0.75, 0.08  # inches: the key, another line of it, and its bar
_GAP = 0.06  # inches between words of the key


@dataclass(frozen=True)
class ShadedPart(Part):
    """A shaded text with the key of its shades below."""

    block: Shaded
    fonts: Fonts

    after = 0.14

    @property
    def width(self) -> float:
        """Width that the key needs where its bar stands below its name; the text is wrapped."""
        return max(self._of_key(self.block.name), sum(map(self._of_key, self.block.ends)) + _BAR)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return _LINE * len(self._lines(room)) + _KEY + _KEY_LINE * self._has_wide_key(room)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the text with its top left corner at (x, y)."""
        words = self.block.words
        shares = np.array([np.nan if word.share is None else word.share for word in words], np.float32)
        fills = colours(shares, self.block.scale)
        inks = np.where(needs_dark_text(fills), INK, "white")
        texts = self._texts(room)
        for placed in self._lines(room):
            if not placed:
                sheet.write(x, y + _LINE / 2, "…", BODY, colour=QUIET)
            for i, left in placed:
                box = (x + left - _AROUND, y + (_LINE - _BOX) / 2), self._width(texts[i]) + 2 * _AROUND, _BOX
                sheet.page.add_patch(Rectangle(*box, facecolor=fills[i] / 255, linewidth=0))
                if words[i].is_query:
                    line = 1.1 * sheet.zoom
                    sheet.page.add_patch(Rectangle(*box, fill=False, edgecolor=ACCENT, linewidth=line, zorder=3))
                colour = QUIET if words[i].share is None else str(inks[i])
                sheet.write(x + left, y + _LINE / 2 + _CAPITAL / 2, texts[i], BODY, colour=colour, vertical="baseline")
            y += _LINE
        self._draw_key(sheet, x, y + _KEY / 2, self._has_wide_key(room))

    def _has_wide_key(self, room: float) -> bool:
        """Return whether the bar of the key has no room beside its name, and stands below it."""
        return sum(map(self._of_key, (self.block.name, *self.block.ends))) + _BAR > room

    def _of_key(self, text: str) -> float:
        return self.fonts.width(text, SMALL) * DRAWN_WIDER + _GAP

    def _draw_key(self, sheet: Sheet, x: float, middle: float, is_below: bool) -> None:
        begin = x
        for text in (self.block.name, self.block.ends[0]):
            sheet.write(x, middle, text, SMALL, colour=QUIET, vertical="center_baseline")
            x += self._of_key(text)
            if is_below and text is self.block.name:
                x, middle = begin, middle + _KEY_LINE
        gradient = np.linspace(0, self.block.scale.high, 256, dtype=np.float32)[None]
        sheet.image(x, middle - _BAR_HEIGHT / 2, _BAR, _BAR_HEIGHT, gradient, self.block.scale)
        sheet.frames([(x, middle - _BAR_HEIGHT / 2, _BAR, _BAR_HEIGHT)])
        sheet.write(x + _BAR + _GAP, middle, self.block.ends[1], SMALL, colour=QUIET, vertical="center_baseline")

    def _texts(self, room: float) -> list[str]:
        """Return the texts of all words, each short enough for a line."""
        words = self.block.words
        return [fit_text(self.fonts.shown(w.text), room / DRAWN_WIDER, BODY, self.fonts.families) for w in words]

    def _width(self, text: str) -> float:
        return self.fonts.width(text, BODY) * DRAWN_WIDER

    def _lines(self, room: float) -> list[list[Placed]]:
        """Return the lines that are drawn."""
        blank = self.fonts.width("n n", BODY) - self.fonts.width("nn", BODY)
        return shaded_lines(self.block.words, list(map(self._width, self._texts(room))), room, blank, 2 * _AROUND)
