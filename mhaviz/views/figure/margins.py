"""Bars along the sides of a single large map: numbers of its keys above it, numbers of its queries at its right."""

import math
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.margins import Margin
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.sheet import QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL
from mhaviz.views.tiles.labels import BESIDE_LABEL
from mhaviz.views.tiles.layout import Layout

_DEPTH, _APART = 0.4, 0.06  # inches of the longest bar, and between bars and map
_NAME, _LONGEST_NAME = 0.15, 0.8  # inches for a line of names of keys, and of the longest name
OVER, AT_RIGHT = _DEPTH + _APART + _NAME, _DEPTH + _APART  # inches above a map, and at its right


def draw_key_margin(sheet: Sheet, x: float, y: float, layout: Layout, margin: Margin) -> None:
    """Draw the numbers of keys above the map whose cells begin at (x, y)."""
    base, right = y - _APART, x + layout.tile_width
    sheet.area(_steps(margin, layout.tile_width) * (1, -1) + (x, base))
    top, written = base - _DEPTH, -math.inf
    has_labels = len(layout.keys.marks) == len(margin.values)
    for cell, text in () if has_labels else sorted(margin.named, key=itemgetter(0)):
        name = fit_text(sheet.fonts.shown(text), _LONGEST_NAME, SMALL, sheet.fonts.families)
        width = text_width(name, SMALL, sheet.fonts.families) * DRAWN_WIDER
        left = min(x + (cell + 0.5) / len(margin.values) * layout.tile_width - 0.03, right - width)
        if left >= written + BESIDE_LABEL:
            sheet.write(left, top - 0.02, name, SMALL, vertical="bottom")
            written = left + width
    sheet.write(right, top - _NAME - 0.04, margin.text, SMALL, colour=QUIET, align="right", vertical="bottom")
    sheet.write(right + 0.04, top, margin.highest, SMALL, vertical="top")
    sheet.write(right + 0.04, base, "0", SMALL, vertical="bottom")


def draw_query_margin(sheet: Sheet, x: float, y: float, layout: Layout, margin: Margin) -> None:
    """Draw the numbers of queries at the right of the map whose cells begin at (x, y)."""
    base, under = x + layout.tile_width + _APART, y + layout.tile_height + 0.05
    sheet.area(_steps(margin, layout.tile_height)[:, ::-1] + (base, y))
    sheet.write(base, under, "0", SMALL, vertical="top")
    sheet.write(base + _DEPTH, under, margin.highest, SMALL, align="right", vertical="top")
    sheet.write(base, under + 0.14, margin.text, SMALL, colour=QUIET, vertical="top")


def _steps(margin: Margin, length: float) -> NDArray[np.float64]:
    """Return the outline of the bars, one for each cell, (points, 2): place along the side, and distance from it."""
    shares = np.nan_to_num(margin.values) / (np.nanmax(margin.values, initial=0.0) or 1.0)
    along = np.linspace(0, length, len(shares) + 1).repeat(2)
    return np.stack([along, _DEPTH * np.concatenate([[0], shares.repeat(2), [0]])], axis=1)
