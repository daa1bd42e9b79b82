"""Dot plots of ranked numbers: a dot in each row, its interval as a whisker, and chance as a grey line."""

import math
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from mhaviz.pages.blocks import Dots
from mhaviz.views.figure.measuring import fit_text, text_width, wrap
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL

_HEADING, _CHANCE, _ROW, _TICKS = 0.2, 0.14, 0.15, 0.2  # inches: a line of the title, "chance", a row, and ticks
_BESIDE, _AT_ENDS = 0.09, 0.12  # inches: between a name, its number and the plot; beside the plot
_LEAST = 0.8  # least inches of a plot beside notes
_TICK_APART, _NEAR = 0.5, 0.02  # least inches between ticks; share that an axis may be lengthened by to end at a tick
_GRID, _GREY = "#e6e6e6", "#8c8c8c"


@dataclass(frozen=True)
class DotsPart:
    """A dot plot, which takes the whole width of its place."""

    dots: Dots

    after, width = 0.25, 0.0

    def _above(self, room: float) -> list[str]:
        return wrap(self.dots.table.heading, room / DRAWN_WIDER, BODY, bold=True)

    def _below(self, room: float) -> list[tuple[str, str]]:
        """Return the lines below the plot and their colours."""
        texts = (self.dots.label, INK), (self.dots.notes, QUIET)
        return [(line, ink) for text, ink in texts if text for line in wrap(text, room / DRAWN_WIDER, SMALL)]

    @property
    def _chance(self) -> list[float]:
        return [dot.chance for dot in self.dots.dots if not math.isnan(dot.chance)]

    def height(self, room: float) -> float:
        """Return the height in inches."""
        plot = _CHANCE * bool(self._chance) + _ROW * len(self.dots.dots) + _TICKS
        return _HEADING * len(self._above(room)) + plot + FOOT_LINE * len(self._below(room))

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the plot with its top left corner at (x, y)."""
        dots = self.dots.dots
        for line in self._above(room):
            sheet.write(x, y + _HEADING / 2, line, BODY, bold=True)
            y += _HEADING
        y += _CHANCE * bool(self._chance)
        numbers = [self.dots.text(dot.value) for dot in dots]
        names = max(text_width(dot.name, BODY) for dot in dots) * DRAWN_WIDER
        middle = x + names + _BESIDE + max(text_width(number, BODY) for number in numbers) * DRAWN_WIDER
        left, right = middle + _BESIDE + _AT_ENDS, x + room - _AT_ENDS
        free, families = (right - left - _LEAST) / DRAWN_WIDER, sheet.fonts.families
        notes = [dot.note and fit_text(sheet.fonts.shown(dot.note), free, SMALL, families) for dot in dots]
        right -= max(text_width(note, SMALL, families) if note else 0.0 for note in notes) * DRAWN_WIDER
        known = [end for dot in dots for end in (dot.value, dot.low, dot.high, dot.chance) if not math.isnan(end)]
        low, high = min(0.0, *known), max(0.0, *known)
        high = 1.0 if low == high else high
        locator = MaxNLocator(max(int((right - left) / _TICK_APART), 1), steps=[1, 2, 5, 10])
        ticks = [float(tick) for tick in locator.tick_values(low, high)]
        high = next((tick for tick in ticks if high <= tick < high + _NEAR * (high - low)), high)

        def along(number: float) -> float:
            return left + (number - low) / (high - low) * (right - left)

        bottom = y + _ROW * len(dots)
        for tick in ticks:
            if low <= tick <= high:
                sheet.page.plot([along(tick)] * 2, [y, bottom], color=_GRID, linewidth=0.6 * sheet.zoom, zorder=1)
                text = f"{tick:g}"
                sheet.write(along(tick), bottom + 0.03, text, SMALL, align="center", vertical="top", colour=QUIET)
        thick = 1.2 * sheet.zoom
        chances = [along(dot.chance) for dot in dots for _ in range(2)]  # at the top and bottom of each row
        tops = [y + (i + 1) // 2 * _ROW for i in range(2 * len(dots))]
        sheet.page.plot(chances, tops, color=_GREY, zorder=1.5, linewidth=thick)
        for i, (dot, number) in enumerate(zip(dots, numbers, strict=True)):
            top = y + i * _ROW
            sheet.write(x + names, top + _ROW / 2, dot.name, BODY, align="right", vertical="center_baseline")
            sheet.write(middle, top + _ROW / 2, number, BODY, align="right", vertical="center_baseline", colour=QUIET)
            sheet.write(right + _AT_ENDS, top + _ROW / 2, notes[i], SMALL, colour=QUIET)
            sheet.page.plot(
                [along(dot.low), along(dot.high)], [top + _ROW / 2] * 2, color=INK, zorder=2, linewidth=thick
            )
        places = [along(dot.value) for dot in dots], [y + (i + 0.5) * _ROW for i in range(len(dots))]
        sheet.page.plot(*places, "o", color=ACCENT, markersize=5 * sheet.zoom, markeredgewidth=0, zorder=2.5)
        if self._chance:
            texts = set(map(self.dots.text, self._chance))
            text = f"chance {texts.pop()}" if len(texts) == 1 else "chance"
            half = text_width(text, SMALL) / 2
            place = min(max(along(self._chance[0]), left - _AT_ENDS + half), right - half)
            sheet.write(place, y - 0.03, text, SMALL, align="center", vertical="bottom", colour=QUIET)
        for i, (line, colour) in enumerate(self._below(room)):
            sheet.write(x, bottom + _TICKS + FOOT_LINE * (i + 0.5), line, SMALL, colour=colour)
