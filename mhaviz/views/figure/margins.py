"""Bars along the sides of a single large map: numbers of its keys above it, numbers of its queries at its right."""

import math
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.patches import StepPatch

from mhaviz.pages.margins import Margin
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.sheet import QUIET, Sheet
from mhaviz.views.measures import DRAWN_WIDER, SMALL
from mhaviz.views.tiles.labels import BESIDE_LABEL
from mhaviz.views.tiles.layout import Layout

_DEPTH, _APART = 0.4, 0.06  # inches of the longest bar, and between bars and map
_NAME, _LONGEST_NAME = 0.15, 0.8  # inches for a line of names of keys, and of the longest name
_BARS = "#b4b4b4"
OVER, AT_RIGHT = _DEPTH + _APART + _NAME, _DEPTH + _APART  # inches above a map, and at its right


def draw_key_margin(sheet: Sheet, x: float, y: float, layout: Layout, margin: Margin) -> None:
    """Draw the numbers of keys above the map whose cells begin at (x, y)."""
    base, right, begin = y - _APART, x + layout.tile_width, layout.keys.begin
    sheet.page.add_artist(_bars(margin, x + begin, layout.tile_width - begin, base, -_DEPTH))
    top, written = base - _DEPTH, -math.inf
    has_labels = len(layout.keys.marks) == len(margin.values)
    for cell, text in () if has_labels else sorted(margin.named, key=itemgetter(0)):
        name = fit_text(sheet.fonts.shown(text), _LONGEST_NAME, SMALL, sheet.fonts.families)
        width = text_width(name, SMALL, sheet.fonts.families) * DRAWN_WIDER
        middle = begin + (cell + 0.5) / len(margin.values) * (layout.tile_width - begin)
        left = min(x + middle - 0.03, right - width)
        if left >= written + BESIDE_LABEL:
            sheet.write(left, top - 0.02, name, SMALL, vertical="bottom")
            written = left + width
    sheet.write(right, top - _NAME - 0.04, margin.text, SMALL, colour=QUIET, align="right", vertical="bottom")
    sheet.write(right + 0.04, top, margin.highest, SMALL, vertical="top")
    sheet.write(right + 0.04, base, "0", SMALL, vertical="bottom")


def draw_query_margin(sheet: Sheet, x: float, y: float, layout: Layout, margin: Margin) -> None:
    """Draw the numbers of queries at the right of the map whose cells begin at (x, y)."""
    base, under = x + layout.tile_width + _APART, y + layout.tile_height + 0.05
    sheet.page.add_artist(_bars(margin, y, layout.tile_height, base, _DEPTH, orientation="horizontal"))
    sheet.write(base, under, "0", SMALL, vertical="top")
    sheet.write(base + _DEPTH, under, margin.highest, SMALL, align="right", vertical="top")
    sheet.write(base, under + 0.14, margin.text, SMALL, colour=QUIET, vertical="top")


def _bars(margin: Margin, start: float, length: float, base: float, depth: float, **options: Any) -> StepPatch:
    """Return a bar for each cell along a side, the longest of ``depth`` inches. ``Axes.stairs`` would look for limits,
    in 80 times the time."""
    edges = np.linspace(start, start + length, len(margin.values) + 1)
    ends = base + depth * margin.values / (np.nanmax(margin.values, initial=0.0) or 1.0)
    return StepPatch(ends, edges, baseline=base, color=_BARS, linewidth=0, **options)
