"""Positions along the axes of a long map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.axis import Axis
from mhaviz.views.figure.sheet import SMALL, Sheet, text_width
from mhaviz.views.labels import round_positions

_LINE = 0.12  # inches, of SMALL letters
_MARK, _TEXT = 0.04, 0.07  # inches from the cells: the end of a mark, the number
_APART = 0.08  # inches between two numbers, at least
_LEAST_STEP = 0.45  # inches between two round positions, on both axes alike
_MOST = 9  # round positions on an axis; more are clutter


@dataclass(frozen=True)
class Ruler:
    """Positions on an axis.

    Attributes:
        ticks: inches from the beginning of the cells, and the position as text: the first, round ones, the last.
        upright: whether it is the axis of the queries.
        depth: inches across the axis for marks and numbers.
    """

    ticks: tuple[tuple[float, str], ...]
    upright: bool
    depth: float


def decide_ruler(axis: Axis, cell: float, *, upright: bool) -> Ruler:
    """Choose as many positions on one axis of a tile as have room; ``cell``: inches of one."""
    length, first, last = cell * len(axis), axis.start, axis.end - 1
    wide = text_width(f"{last:,}", SMALL)
    size = _LINE if upright else wide
    clear = 1.5 * size + _APART  # an end's number is written inwards, others are centred
    before = clear if upright else text_width(f"{first:,}", SMALL) + 0.5 * size + _APART
    positions = [first, last] if first < last and length >= 2 * size + _APART else [first]
    if not upright and wide > length + _APART:
        positions = []
    if len(positions) == 2:
        inner = round_positions(first, last + 1, min(int(length / max(clear, _LEAST_STEP)), _MOST))
        places = position_places(axis.edges, cell, inner)
        positions[1:1] = [p for p, place in zip(inner, places, strict=True) if before <= place <= length - clear]
    ticks = zip(position_places(axis.edges, cell, positions), (f"{p:,}" for p in positions), strict=True)
    return Ruler(tuple(ticks), upright, _TEXT + (wide + 0.06 if upright else _LINE + 0.02))


def position_places(edges: NDArray[np.int64], cell: float, positions: Sequence[int]) -> list[float]:
    """The middle of each position, in inches from the beginning of the cells."""
    at = np.array(positions, np.int64)
    index = np.searchsorted(edges, at, side="right") - 1
    inside = (at + 0.5 - edges[index]) / (edges[index + 1] - edges[index])
    return [float(place) for place in (index + inside) * cell]


def draw_ruler(sheet: Sheet, ruler: Ruler, x: float, y: float) -> None:
    """Draw it left of cells whose top left corner is at (x, y), or under those whose bottom left corner is there."""
    edge = 1 / sheet.dpi  # the frame of the cells
    last = len(ruler.ticks) - 1
    for i, (place, number) in enumerate(ruler.ticks):
        if ruler.upright:
            sheet.ticks([(x - _MARK, y + place, x - edge, y + place)])
            sheet.write(x - _TEXT, y + place, number, SMALL, align="right")
        else:
            align: Literal["left", "center", "right"] = "left" if i == 0 else "right" if i == last else "center"
            sheet.ticks([(x + place, y + edge, x + place, y + _MARK)])
            sheet.write(x + place, y + _TEXT, number, SMALL, align=align, vertical="top")
