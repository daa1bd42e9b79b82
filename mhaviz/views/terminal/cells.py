"""What the numbers of a panel look like in a terminal: colours, or characters where there are none."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style as RichStyle

from mhaviz.pages.panels import Panel, Scale
from mhaviz.views.lab import to_lab
from mhaviz.views.scale import needs_dark_text, over_image, palette, places

Colours = Literal["256", "truecolor"]
"""How many colours a terminal has, if they are enough for a scale."""

CellKind = Literal["values", "half-blocks", "lines"]
"""Numbers on colour; two rows a line; one row a line."""

RAMP = " ▁▂▃▄▅▆▇█"
"""From the lowest number to the highest."""
BELOW, ABOVE = "░▒▓", "▂▅█"
"""Of numbers of two signs, from the smallest to the largest; what is nearly 0 is blank."""
HIDDEN = "·"
"""What stands in a hidden cell: a blank would look like 0."""

_EDGE = 1e-5  # a number so near to the next character has it: rounding does not choose, as in a legend's even steps
_FIRST = 16  # of xterm's 256 colours: those before it are the user's own, and may be any
_LIGHTNESS = 5.0  # how much it counts, beside hue and strength: with less, larger numbers may look smaller


def blank_text(several: Sequence[NDArray[np.float32]], scale: Scale) -> str:
    """ "blank: below 0.11", where most of a row is, as of one that is nearly even; else nothing."""
    end = scale.value(1 / len(RAMP))
    is_blank = any(
        bool((2 * np.nansum(np.where(values < end, values, 0), axis=1) > np.nansum(values, axis=1)).any())
        for values in several
    )
    return f"blank: below {end:.2g}" if is_blank and not scale.has_two_signs else ""


def ramp_characters(values: NDArray[np.float32], scale: Scale) -> NDArray[np.str_]:
    """The character of each value; for NaN, the mark of what is hidden."""
    shares = np.nan_to_num(scale.shares(values)).astype(np.float64)
    if scale.has_two_signs:
        ramp = [*reversed(BELOW), " ", *ABOVE]
        from_middle = shares * (len(ramp) - 1) - len(BELOW)
        places = len(BELOW) + np.copysign(np.rint(np.abs(from_middle)), from_middle)
    else:
        ramp = list(RAMP)
        places = np.floor(shares * len(ramp) + _EDGE)
    chosen = np.array(ramp)[np.clip(places, 0, len(ramp) - 1).astype(int)]
    return np.where(np.isnan(values), HIDDEN, chosen)


@cache
def xterm_colours() -> NDArray[np.uint8]:
    """The colours from 16 to 255, (240, 3): a cube of 6 × 6 × 6, and greys."""
    return np.array([Color.from_ansi(number).get_truecolor() for number in range(_FIRST, 256)], np.uint8)


@cache
def xterm_numbers(colormap: str) -> NDArray[np.int64]:
    """For each of a colormap's 256 colours the number of the nearest of xterm's in L*a*b*, from 16 to 255.

    rich's own choice, in RGB, would jump between hues along a scale.
    """
    apart = to_lab(palette(colormap))[:, None] - to_lab(xterm_colours())
    return np.asarray((apart**2 @ np.array([_LIGHTNESS, 1.0, 1.0])).argmin(axis=1) + _FIRST)


@cache
def terminal_colours(colormap: str, colours: Colours) -> tuple[Color, ...]:
    """The 256 colours of a colormap, as a terminal shows them."""
    if colours == "256":
        return tuple(map(Color.from_ansi, xterm_numbers(colormap).tolist()))
    return tuple(Color.from_rgb(*rgb) for rgb in palette(colormap).tolist())


@cache
def _text_colours(colormap: str, colours: Colours) -> tuple[Color, ...]:
    """Black or white, on each of these colours."""
    ground = xterm_colours()[xterm_numbers(colormap) - _FIRST] if colours == "256" else palette(colormap)
    black, white = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)
    return tuple(black if is_light else white for is_light in needs_dark_text(ground))


class Cells:
    """One panel's cells.

    ``colours``: of the terminal; None: it has none.
    """

    def __init__(self, panel: Panel, kind: CellKind, width: int, colours: Colours | None) -> None:
        self._panel, self._kind, self._width = panel, kind, width
        self._hidden = np.isnan(panel.values).tolist()
        self._paint: Callable[[range, int], Segment]
        if colours is None:
            self._paint = self._character
            self._ramp = ramp_characters(panel.values, panel.scale).tolist()
        else:
            self._paint = self._half_block if kind == "half-blocks" else self._coloured
            self._ground = terminal_colours(panel.scale.colormap, colours)
            self._text = _text_colours(panel.scale.colormap, colours)
            self._places = places(panel.values, panel.scale).tolist()
            if panel.image is not None and colours == "truecolor":
                over = over_image(panel, *panel.values.shape).reshape(-1, 3)
                self._ground = tuple(Color.from_rgb(*rgb) for rgb in over.tolist())
                self._places = np.arange(panel.values.size).reshape(panel.values.shape).tolist()
            # rich keeps the codes of a style, for one kind of terminal, in the object: equal colours share one.
            self._style = cache(RichStyle.from_color)

    def line(self, rows: range) -> list[Segment]:
        """One line of the terminal: one row of cells, or two."""
        return [self._cell(rows, column) for column in range(self._panel.values.shape[1])]

    def _cell(self, rows: range, column: int) -> Segment:
        """What is hidden is no number, and has no colour."""
        if all(self._hidden[row][column] for row in rows):
            mark = self._panel.mark(rows[0], column) if self._kind == "values" else ""
            return Segment((mark or HIDDEN).center(self._width))
        return self._paint(rows, column)

    def _number(self, row: int, column: int) -> str:
        return self._panel.text(row, column) if self._kind == "values" else ""

    def _character(self, rows: range, column: int) -> Segment:
        (row,) = rows
        return Segment((self._ramp[row][column] + self._number(row, column)).center(self._width))

    def _coloured(self, rows: range, column: int) -> Segment:
        (row,) = rows
        place = self._places[row][column]
        number = self._number(row, column).center(self._width)
        return Segment(number, self._style(self._text[place] if number.strip() else None, self._ground[place]))

    def _half_block(self, rows: range, column: int) -> Segment:
        """The upper half of a place in one colour, the lower in another; what is hidden has the terminal's own."""
        upper, *lower = (None if self._hidden[row][column] else self._ground[self._places[row][column]] for row in rows)
        if upper is None:
            return Segment("▄", self._style(*lower))
        return Segment("▀", self._style(upper, *lower))
