"""Texts whose words are shaded by numbers, wrapped to the width of their place."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Rectangle

from mhaviz.pages.blocks import Shaded
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL

_LINE, _BOX = 0.185, 0.155  # inches: from line to line, and height of a shade
_AROUND = 0.015  # inches of a shade beside its word
_MOST_LINES, _KEPT = 22, 14  # most lines that are all shown, and shown of more
_KEY, _BAR, _BAR_HEIGHT = 0.25, 0.75, 0.08  # inches: line of the key, and its bar
_GAP = 0.06  # inches between words of the key
_NAME = "share of the weight on words"

_Placed = tuple[int, float, float, str]
"""Index of a word, its x and width in inches, and its text."""


@dataclass(frozen=True)
class ShadedPart(Part):
    """A shaded text with the key of its shades below."""

    block: Shaded
    fonts: Fonts

    after = 0.14

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return _LINE * len(self._shown(room)) + _KEY

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the text with its top left corner at (x, y)."""
        words = self.block.words
        shares = np.array([np.nan if word.share is None else word.share for word in words], np.float32)
        fills = colours(shares, self.block.scale)
        inks = np.where(needs_dark_text(fills), INK, "white")
        for placed in self._shown(room):
            if not placed:
                sheet.write(x, y + _LINE / 2, "…", BODY, colour=QUIET)
            for i, left, width, text in placed:
                box = (x + left - _AROUND, y + (_LINE - _BOX) / 2), width + 2 * _AROUND, _BOX
                sheet.page.add_patch(Rectangle(*box, facecolor=fills[i] / 255, linewidth=0))
                if words[i].is_query:
                    line = 1.1 * sheet.zoom
                    sheet.page.add_patch(Rectangle(*box, fill=False, edgecolor=ACCENT, linewidth=line, zorder=3))
                colour = QUIET if words[i].share is None else str(inks[i])
                sheet.write(x + left, y + _LINE / 2, text, BODY, colour=colour, vertical="center_baseline")
            y += _LINE
        self._draw_key(sheet, x, y + _KEY / 2)

    def _draw_key(self, sheet: Sheet, x: float, middle: float) -> None:
        for text in (_NAME, self.block.ends[0]):
            sheet.write(x, middle, text, SMALL, colour=QUIET, vertical="center_baseline")
            x += self.fonts.width(text, SMALL) * DRAWN_WIDER + _GAP
        gradient = np.linspace(0, self.block.scale.high, 256, dtype=np.float32)[None]
        sheet.image(x, middle - _BAR_HEIGHT / 2, _BAR, _BAR_HEIGHT, gradient, self.block.scale)
        sheet.frames([(x, middle - _BAR_HEIGHT / 2, _BAR, _BAR_HEIGHT)])
        sheet.write(x + _BAR + _GAP, middle, self.block.ends[1], SMALL, colour=QUIET, vertical="center_baseline")

    def _lines(self, room: float) -> Iterator[list[_Placed]]:
        """Yield the lines of all words, broken at blanks, and elsewhere only where there are none."""
        blank, line, x = self.fonts.width("n n", BODY) - self.fonts.width("nn", BODY), list[_Placed](), 0.0
        words = self.block.words
        texts = [fit_text(self.fonts.shown(w.text), room / DRAWN_WIDER, BODY, self.fonts.families) for w in words]
        widths = [self.fonts.width(text, BODY) * DRAWN_WIDER for text in texts]
        together = list(widths)  # with what follows without a blank
        for i in reversed(range(len(words) - 1)):
            together[i] += 0.0 if words[i + 1].after_blank else 2 * _AROUND + together[i + 1]
        for i, (word, text, width) in enumerate(zip(words, texts, widths, strict=True)):
            before = (blank if word.after_blank else 2 * _AROUND) if line else 0.0
            needed = together[i] if word.after_blank and together[i] <= room else width
            if line and x + before + needed > room:
                yield line
                line, x, before = [], 0.0, 0.0
            line.append((i, x + before, width, text))
            x += before + width
        yield line

    def _shown(self, room: float) -> list[list[_Placed]]:
        """Return the lines that are drawn: of many, those with the query or the largest numbers, and an empty one where
        some are left out."""
        lines = list(self._lines(room))
        if len(lines) <= _MOST_LINES:
            return lines
        words = self.block.words
        best = [max(np.inf if words[i].is_query else words[i].share or 0.0 for i, *_ in line) for line in lines]
        kept = sorted(sorted(range(len(lines)), key=lambda n: -best[n])[:_KEPT])
        shown = list[list[_Placed]]()
        for before, n in zip([-1, *kept], [*kept, len(lines)], strict=True):
            shown += [[]] * (n - before > 1)
            shown += lines[n : n + 1]
        return shown
