"""Dot plots of ranked numbers: a dot in each row, its interval as a whisker, and chance as a grey line."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from mhaviz.pages.blocks import Dots
from mhaviz.units import with_minus
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text, text_width, wrap
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import ACCENT, FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL

_HEADING, _CHANCE, _ROW, _TICKS = 0.2, 0.14, 0.15, 0.2  # inches: a line of the title, "chance", a row, and ticks
_BESIDE, _AT_ENDS = 0.09, 0.12  # inches: between a name, its number and the plot; beside the plot
_LEAST = 0.8  # least inches of a plot beside notes
_TICK_APART, _NEAR = 0.5, 0.02  # least inches between ticks; share that an axis may be lengthened by to end at a tick
_BAR = 0.65  # height of a bar in its row
_GRID, _GREY = "#e6e6e6", "#8c8c8c"


@dataclass(frozen=True)
class DotsPart(Part):
    """A dot plot, which takes the whole width of its place."""

    dots: Dots
    fonts: Fonts

    after = 0.25

    def _above(self, room: float) -> list[str]:
        return self._wrapped(self.dots.table.heading, room, BODY, bold=True)

    def _below(self, room: float) -> list[tuple[str, str]]:
        """Return the lines below the plot and their colours."""
        texts = (self.dots.label, INK), (self.dots.notes, QUIET)
        return [(line, ink) for text, ink in texts if text for line in self._wrapped(text, room, SMALL)]

    def _wrapped(self, text: str, room: float, size: float, bold: bool = False) -> list[str]:
        return wrap(self.fonts.shown(text), room / DRAWN_WIDER, size, self.fonts.families, bold=bold)

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
        families = sheet.fonts.families
        called = [sheet.fonts.shown(dot.name) for dot in dots]
        names = max(text_width(name, BODY, families) for name in called) * DRAWN_WIDER
        numbers_end = x + names + _BESIDE + max(text_width(number, BODY) for number in numbers) * DRAWN_WIDER
        left, right = numbers_end + _BESIDE + _AT_ENDS, x + room - _AT_ENDS
        free = (right - left - _LEAST) / DRAWN_WIDER
        notes = [dot.note and fit_text(sheet.fonts.shown(dot.note), free, SMALL, families) for dot in dots]
        right -= max(text_width(note, SMALL, families) if note else 0.0 for note in notes) * DRAWN_WIDER
        known = np.array([(dot.value, dot.low, dot.high, dot.chance) for dot in dots])
        low, high = self.dots.limits
        high = 1.0 if low == high else high
        locator = MaxNLocator(max(int((right - left) / _TICK_APART), 1), steps=[1, 2, 5, 10])
        ticks = np.asarray(locator.tick_values(low, high))
        high = next((tick for tick in ticks if high <= tick < high + _NEAR * (high - low)), high)

        def along(numbers: ArrayLike) -> NDArray[np.float64]:
            return left + (np.asarray(numbers) - low) / (high - low) * (right - left)

        values, lows, highs, chances = along(known).T
        tops, ticks = y + _ROW * np.arange(len(dots) + 1), ticks[(low <= ticks) & (ticks <= high)]
        middles, bottom, thick = tops[:-1] + _ROW / 2, tops[-1], 1.2 * sheet.zoom
        sheet.page.vlines(along(ticks), y, bottom, color=_GRID, linewidth=0.6 * sheet.zoom, zorder=0.5)
        sheet.page.stairs(chances, tops, orientation="horizontal", baseline=None, color=_GREY, linewidth=thick)
        sheet.page.hlines(middles, lows, highs, color=INK, linewidth=thick)
        if self.dots.are_bars:
            sheet.page.barh(middles, values - along(0.0), _BAR * _ROW, left=along(0.0), color=ACCENT, zorder=1)
        else:
            sheet.page.plot(values, middles, "o", color=ACCENT, markersize=5 * sheet.zoom, markeredgewidth=0)
        for place, tick in zip(along(ticks), ticks, strict=True):
            sheet.write(
                place, bottom + 0.03, with_minus(f"{tick:g}"), SMALL, align="center", vertical="top", colour=QUIET
            )
        for middle, name, number, note in zip(middles, called, numbers, notes, strict=True):
            sheet.write(x + names, middle, name, BODY, align="right", vertical="center_baseline")
            sheet.write(numbers_end, middle, number, BODY, align="right", vertical="center_baseline")
            sheet.write(right + _AT_ENDS, middle, note, SMALL, colour=QUIET)
        if self._chance:
            texts = set(map(self.dots.text, self._chance))
            text = f"chance {texts.pop()}" if len(texts) == 1 else "chance"
            half = text_width(text, SMALL) / 2
            place = min(max(float(along(self._chance[0])), left - _AT_ENDS + half), right - half)
            sheet.write(place, y - 0.03, text, SMALL, align="center", vertical="bottom", colour=QUIET)
        for i, (line, colour) in enumerate(self._below(room)):
            sheet.write(x, bottom + _TICKS + FOOT_LINE * (i + 0.5), line, SMALL, colour=colour)
