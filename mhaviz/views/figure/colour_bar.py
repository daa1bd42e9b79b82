"""Colour bars on a sheet: upright at the right of matrices or, on a narrow page, lying in lines above them."""

import math
from collections.abc import Sequence

import numpy as np

from mhaviz.pages.numbers import short
from mhaviz.pages.panels import Scale
from mhaviz.views.figure.measuring import text_width
from mhaviz.views.figure.sheet import FAINT, QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL, snap

LEAST_BAR, MOST_BAR = 0.6, 2.5  # inches: height of an upright bar
_LEAST, _BESIDE_NAME = 0.85, 0.12  # inches: an upright bar with its numbers, and between two names
_LYING, _HIGH, _LINE = 0.6, 0.08, 0.2  # inches: width and height of a lying bar, and of its line
_APART, _BETWEEN = 0.06, 0.2  # inches between words, and between two lying bars
_BEYOND, _MARK = 0.035, 1.2  # inches by which the mark of a number exceeds a bar on each side; its points


def scale_width(scale: Scale, least: float = _LEAST) -> float:
    """Return the inches of an upright colour bar with its numbers and name."""
    return max(text_width(scale.name, SMALL) * DRAWN_WIDER + _BESIDE_NAME, least)


def draw_upright(sheet: Sheet, x: float, y: float, cells: float, scale: Scale) -> None:
    """Draw an upright colour bar with its name, its ends, and its middle or powers of ten between them.

    ``cells``: height of the cells beside it, in inches.
    """
    width, height = snap(0.12, sheet.pixels), min(max(cells, LEAST_BAR), MOST_BAR)
    x, y, height = snap(x, sheet.pixels), snap(y, sheet.pixels), snap(height, sheet.pixels)
    gradient = np.array([scale.value(share) for share in np.linspace(1, 0, 256)], np.float32)[:, None]
    bar = sheet.image(x, y, width, height, gradient, scale)
    bar.set_label(f"scale of {scale.name}")
    sheet.frames([(x, y, width, height)])
    low, high = scale.ends
    right = x + width + 0.05
    sheet.write(right, y, high, SMALL, vertical="top")
    for share in _between(scale, height):
        sheet.write(right, y + (1 - share) * height, short(scale.value(share)), SMALL)
    sheet.write(right, y + height, low, SMALL, vertical="bottom")
    sheet.write(x, y - 0.04, scale.name, SMALL, vertical="bottom", colour=QUIET)


def _between(scale: Scale, height: float) -> list[float]:
    """Return the places of the numbers between the ends of a bar of this height, as shares of the scale."""
    clear = 0.25 / height  # share of the bar beside the numbers of its ends
    if scale.log:
        round_numbers = 10.0 ** np.arange(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
    else:
        round_numbers = np.array([0.0 if scale.low < 0 else float(f"{scale.value(0.5):.1g}")])
    shares = [float(share) for share in scale.shares(round_numbers)]
    return [share for share in shares if clear < share < 1 - clear] or [0.5]


def lines_height(bars: Sequence[Scale], room: float) -> float:
    """Return the inches of the lines of lying colour bars that are ``room`` inches wide."""
    return _LINE * len(_lines(bars, room))


def draw_lines(sheet: Sheet, x: float, y: float, room: float, bars: Sequence[Scale]) -> None:
    """Draw lying colour bars, each with its name and ends, in lines that begin at (x, y)."""
    for line in _lines(bars, room):
        left, y = x, y + _LINE
        for scale in line:
            left += _lying_width(scale)
            at = draw_lying(sheet, left, y - 0.06, scale, _LYING, scale.name)
            sheet.write(at - _APART, y - 0.06, scale.name, SMALL, align="right", vertical="bottom", colour=QUIET)
            left += _BETWEEN


def draw_lying(
    sheet: Sheet, right: float, bottom: float, scale: Scale, width: float, name: str, marked: float = math.nan
) -> float:
    """Draw a lying colour bar between the texts at its ends, up to ``right``; return where its line begins.

    ``marked``: number with a line across the bar, such as chance level; NaN: none.
    """
    low, high = scale.ends
    sheet.write(right, bottom, high, SMALL, align="right", vertical="bottom", colour=QUIET)
    right -= text_width(high, SMALL) * DRAWN_WIDER + _APART
    box = snap(right - width, sheet.pixels), snap(bottom - 0.02 - _HIGH, sheet.pixels), width, _HIGH
    gradient = np.array([[scale.value(share) for share in np.linspace(0, 1, 256)]], np.float32)
    sheet.image(*box, gradient, scale).set_label(f"scale of {name}")
    sheet.frames([box])
    if not math.isnan(marked):
        at = box[0] + width * min(max(float(scale.shares(np.array(marked, np.float32))), 0.0), 1.0)
        sheet.ticks([(at, box[1] - _BEYOND, at, box[1] + _HIGH + _BEYOND)], FAINT, _MARK)
    right -= width + _APART
    sheet.write(right, bottom, low, SMALL, align="right", vertical="bottom", colour=QUIET)
    return right - text_width(low, SMALL) * DRAWN_WIDER


def _lines(bars: Sequence[Scale], room: float) -> list[list[Scale]]:
    """Return the scales of each line, as many as fit."""
    lines: list[list[Scale]] = []
    left = math.inf
    for scale in bars:
        width = _lying_width(scale)
        if left + width > room:
            lines, left = [*lines, []], 0.0
        lines[-1].append(scale)
        left += width + _BETWEEN
    return lines


def _lying_width(scale: Scale) -> float:
    texts = sum(text_width(text, SMALL) for text in (scale.name, *scale.ends))
    return texts * DRAWN_WIDER + _LYING + 3 * _APART
