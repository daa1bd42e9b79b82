"""Bars of length 1, each divided into slices with their names, while these have room."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mhaviz.pages.blocks import Bar, Bars, Slice
from mhaviz.pages.colormaps import SINK
from mhaviz.pages.labels import cut
from mhaviz.views.colours import needs_dark_text, palette
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL

_HEIGHT, _ROW, _AFTER_MEAN, _TICKS = 0.185, 0.22, 0.05, 0.16  # inches: a bar, from one to the next, a gap, the ends
_INSET, _BESIDE = 0.04, 0.09  # inches before a name in a slice; beside the bars
_LEAST_BESIDE_NOTES = 3.0  # least inches of bars beside notes
_SHADES = {"target": 0.6, "word": 0.15, "rest": 0.04}  # fixed, as lengths are the weights: places in the colormap
_ITSELF = 246, 220, 203  # tint of the query's outline
_MOST_CELLS = 24  # of a name
_GREY = 0.33  # colour of sinks, as a share of theirs


@dataclass(frozen=True)
class BarsPart(Part):
    """Bars, as wide as their place."""

    block: Bars
    fonts: Fonts
    colormap: str

    after = 0.1

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return _ROW * len(self.block.bars) + _AFTER_MEAN * self._has_mean + _TICKS

    @property
    def _has_mean(self) -> bool:
        return any(bar.is_mean for bar in self.block.bars)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the bars with their top left corner at (x, y)."""
        bars = self.block.bars
        left = max(self.fonts.width(bar.name, BODY, bold=bar.is_mean) for bar in bars) * DRAWN_WIDER + _BESIDE
        notes = max(self.fonts.width(bar.note, SMALL) for bar in bars) * DRAWN_WIDER + _BESIDE
        across = room - left - notes
        has_notes = across >= _LEAST_BESIDE_NOTES
        across = across if has_notes else room - left
        for bar in bars:
            middle = y + _HEIGHT / 2
            sheet.write(x, middle, bar.name, BODY, bold=bar.is_mean, vertical="center_baseline")
            self._draw_bar(sheet, bar, x + left, y, across)
            if has_notes:
                beside = x + left + across + _BESIDE
                sheet.write(beside, middle, bar.note, SMALL, colour=QUIET, vertical="center_baseline")
            y += _ROW + _AFTER_MEAN * bar.is_mean
        middle = y + _TICKS / 2 - (_ROW - _HEIGHT)
        sheet.write(x + left, middle, "0", SMALL, colour=QUIET, vertical="center_baseline")
        end = x + left + across
        sheet.write(end, middle, self.block.end, SMALL, colour=QUIET, align="right", vertical="center_baseline")

    def _draw_bar(self, sheet: Sheet, bar: Bar, x: float, y: float, across: float) -> None:
        """Draw the slices of words from the left while their names fit, the first with its name beside it if need be,
        and what is aside at the right."""
        words = [one for one in bar.slices if one.kind != "aside"]
        aside = sum(one.share for one in bar.slices if one.kind == "aside")
        end, limit = x + across * sum(one.share for one in words), x + across * (1 - aside)
        of_rest = self._shade("rest")
        self._box(sheet, x, y, end - x, of_rest)
        writes, covered = list[tuple[float, str, float, str]](), x  # from where, what, in which size and colour
        for place, one in enumerate(words):
            forms = self._forms(one)[bar.is_mean :]  # the text has the mean's numbers, of its weight on words
            text = self._fitting(forms, one.share * across - 2 * _INSET, BODY) if one.name else ""
            if not text and place:
                break
            fill = self._fill(one)
            self._box(sheet, x, y, one.share * across, fill)
            if not text:  # the first, whose name is beside it, or shortened where there is more room
                inside, x = x, x + one.share * across
                free = limit - x - 2 * _INSET
                text = self._fitting(forms, free, SMALL)
                if is_inside := not text and x - inside > limit - x:
                    free = x - inside - 2 * _INSET
                text = text or fit_text(self._name(one), free / DRAWN_WIDER, SMALL, self.fonts.families)
                ground = fill if is_inside else of_rest
                left = (inside if is_inside else x) + _INSET
                writes.append((left, text, SMALL, INK if needs_dark_text(ground) else "white"))
                covered = max(x, left + self._width(text, SMALL) + _INSET)
                break
            writes.append((x + _INSET, text, BODY, INK if needs_dark_text(fill) else "white"))
            x += one.share * across
            covered = x
        for left, text, size, colour in writes:
            sheet.write(left, y + _HEIGHT / 2, text, size, colour=colour, vertical="center_baseline")
        if end - covered > self._width(self.block.rest, SMALL) + 2 * _INSET:
            middle = (covered + end) / 2, y + _HEIGHT / 2
            quiet = QUIET if needs_dark_text(of_rest) else "white"
            sheet.write(*middle, self.block.rest, SMALL, colour=quiet, align="center", vertical="center_baseline")
        for one in bar.slices:
            if one.kind == "aside" and one.share > 0:
                self._box(sheet, limit, y, one.share * across, palette(SINK)[round(_GREY * 255)])
                room = one.share * across - 2 * _INSET
                text = self._fitting((self._text(one), f"{one.share:.2f}"), room, SMALL)
                middle = limit + one.share * across / 2, y + _HEIGHT / 2
                sheet.write(*middle, text, SMALL, align="center", vertical="center_baseline")

    def _box(self, sheet: Sheet, x: float, y: float, width: float, fill: NDArray[np.uint8]) -> None:
        line = 0.8 * sheet.zoom
        sheet.page.add_patch(Rectangle((x, y), width, _HEIGHT, facecolor=fill / 255, edgecolor="white", linewidth=line))

    def _fill(self, one: Slice) -> NDArray[np.uint8]:
        if one.kind == "itself":
            return np.array(_ITSELF, np.uint8)
        return self._shade(one.kind if one.name else "rest")

    def _shade(self, kind: str) -> NDArray[np.uint8]:
        shade: NDArray[np.uint8] = palette(self.colormap)[round(_SHADES[kind] * 255)]
        return shade

    def _forms(self, one: Slice) -> tuple[str, str]:
        """Return the name of a slice with its number, and without."""
        return self._text(one), self._name(one)

    def _text(self, one: Slice) -> str:
        return f"{self._name(one)} {one.share:.2f}"

    def _name(self, one: Slice) -> str:
        return cut(self.fonts.shown(one.name), _MOST_CELLS)

    def _width(self, text: str, size: float) -> float:
        return self.fonts.width(text, size) * DRAWN_WIDER

    def _fitting(self, forms: Sequence[str], room: float, size: float) -> str:
        """Return the first form of a name that has room; "" if none has."""
        return next((form for form in forms if self._width(form, size) <= room), "")
