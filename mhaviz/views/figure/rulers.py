"""Positions along the axes of a long map, with its first and its last token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import Axis
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import FAINT, INK, QUIET, SMALL, Sheet, fit_text, text_width
from mhaviz.views.labels import TOKEN_CELLS, bare, cut, round_positions

Place = Literal["left", "under", "turned"]
Align = Literal["left", "center", "right"]

_LINE = 0.12  # inches, of SMALL letters
_MARK = 0.04
_TEXT = 0.07  # inches between the cells and the text
_APART = 0.08  # between two texts of a line, at least
_LEAST_STEP = 0.45  # between two round positions, on both axes alike
_MOST = 9  # round positions on an axis; more are clutter


@dataclass(frozen=True)
class Tick:
    """A position on an axis.

    Attributes:
        place: inches from the beginning of the cells.
        number: the position as text; empty where there is no room for it.
        token: what stands there, cut and fit to be shown; at the ends of the axis.
        align: how the text stands to the place, if it is written along the axis.
        is_special: whether the token is not of the text, and faint.
    """

    place: float
    number: str
    token: str = ""
    align: Align = "center"
    is_special: bool = False

    @property
    def colour(self) -> str:
        """Of the token."""
        return FAINT if self.is_special else QUIET


@dataclass(frozen=True)
class Ruler:
    """The ticks of an axis, in order.

    Attributes:
        side: "left" of the cells; "under" them, the tokens under the numbers; "turned", under them and upright, where
            they are too narrow for numbers side by side.
        depth: room for marks and text, in inches across the axis.
    """

    ticks: tuple[Tick, ...]
    side: Place
    depth: float


def decide_ruler(axis: Axis, cell: float, fonts: Fonts, *, upright: bool) -> Ruler:
    """Choose the positions on one axis of a tile.

    Args:
        axis: in the cells of the tile; its first and its last token are shown.
        cell: inches of one.
        fonts: the fonts for the tokens.
        upright: whether it is the axis of the queries.
    """
    length, first, last = cell * len(axis), axis.start, axis.end - 1
    ends = [first] if first == last else [first, last]
    tokens = [axis.tokens.texts[position - first] for position in ends]
    if tokens == list(map(str, ends)):  # for want of names
        tokens = [""] * len(ends)
    shown = [cut(fonts.shown(bare(token)), TOKEN_CELLS) if token else "" for token in tokens]
    wide = [text_width(f"{position:,}", SMALL) for position in ends]
    side: Place = "left"
    if not upright:
        side = "under" if sum(wide) + (len(ends) - 1) * _APART <= length else "turned"
    if side == "under":
        room = (length - _APART) / 2 if len(ends) == 2 else length
        shown = [fit_text(token, max(room, 0), SMALL, fonts.families) for token in shown]
    if side != "under" and len(ends) == 2 and length < (4 if side == "left" else 1) * _LINE:
        ends, shown, wide = ends[:1], shown[:1], wide[:1]
    places = position_places(axis.edges, cell, ends)
    ticks = [
        Tick(place, f"{end:,}", token, is_special=end - first in axis.tokens.special)
        for place, end, token in zip(places, ends, shown, strict=True)
    ]
    if side == "under":
        aligned: tuple[Align, ...] = ("left", "right")
        ticks = [replace(tick, align=align) for tick, align in zip(ticks, aligned, strict=False)]
    if len(ticks) == 2:
        ticks[1:1] = _inside(axis.edges, cell, side, (wide[0], wide[1]))
    return Ruler(tuple(ticks), side, _depth(ticks, side, fonts))


def position_places(edges: NDArray[np.int64], cell: float, positions: Sequence[int]) -> list[float]:
    """The middle of each position, in inches from the beginning of the cells."""
    at = np.array(positions, np.int64)
    index = np.searchsorted(edges, at, side="right") - 1
    inside = (at + 0.5 - edges[index]) / (edges[index + 1] - edges[index])
    return [float(place) for place in (index + inside) * cell]


def _inside(edges: NDArray[np.int64], cell: float, side: Place, wide: tuple[float, float]) -> list[Tick]:
    """Round positions: as many as have room side by side; next to the ends, a mark without its number if need be."""
    length, first, last = cell * (len(edges) - 1), int(edges[0]), int(edges[-1]) - 1
    size = max(wide) if side == "under" else _LINE
    before = {"under": wide[0], "left": 1.5 * _LINE, "turned": 0.5 * _LINE}[side] + size / 2 + _APART
    after = before - wide[0] + wide[1] if side == "under" else before
    apart = 2 * size if side == "turned" else max(1.5 * size + _APART, _LEAST_STEP)
    positions: list[int] = []
    for most in range(_MOST, 0, -1):
        positions = round_positions(first, last + 1, most)
        places = position_places(edges, cell, positions)
        if min(np.diff(places), default=length) >= apart:
            break
    places = position_places(edges, cell, positions)
    return [
        Tick(place, f"{position:,}" if before <= place <= length - after else "")
        for place, position in zip(places, positions, strict=True)
    ]


def _depth(ticks: Sequence[Tick], side: Place, fonts: Fonts) -> float:
    if side == "under":
        return _TEXT + 2 * _LINE + 0.02
    texts = [f"{t.number} {t.token}" if side == "turned" else text for t in ticks for text in (t.number, t.token)]
    return _TEXT + max(text_width(text, SMALL, fonts.families) for text in texts) + 0.06


def draw_ruler(sheet: Sheet, ruler: Ruler, x: float, y: float) -> None:
    """Draw it left of cells whose top left corner is at (x, y), or under those whose bottom left corner is there."""
    edge = 1 / sheet.dpi  # the frame of the cells
    if ruler.side == "left":
        sheet.ticks([(x - _MARK, y + tick.place, x - edge, y + tick.place) for tick in ruler.ticks])
    else:
        sheet.ticks([(x + tick.place, y + edge, x + tick.place, y + _MARK) for tick in ruler.ticks])
    for tick in ruler.ticks:
        if ruler.side == "left":
            _write(sheet, x - _TEXT, y + tick.place, tick.number, INK, "right", "center")
            inwards = _LINE if tick is ruler.ticks[0] else -_LINE
            _write(sheet, x - _TEXT, y + tick.place + inwards, tick.token, tick.colour, "right", "center")
        elif ruler.side == "turned":
            text = f"{tick.number} {tick.token}".strip()
            if text:
                colour = tick.colour if tick.is_special else INK
                sheet.write(x + tick.place, y + _TEXT, text, SMALL, colour=colour, align="right", rotation=90)
        else:
            _write(sheet, x + tick.place, y + _TEXT, tick.number, INK, tick.align, "top")
            _write(sheet, x + tick.place, y + _TEXT + _LINE, tick.token, tick.colour, tick.align, "top")


def _write(
    sheet: Sheet,
    x: float,
    y: float,
    text: str,
    colour: str,
    align: Align,
    vertical: Literal["top", "center"],
) -> None:
    if text:
        sheet.write(x, y, text, SMALL, colour=colour, align=align, vertical=vertical)
