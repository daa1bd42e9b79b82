"""Cells of a panel in the terminal: numbers as colours, or as characters where there are no colours."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style as RichStyle

from mhaviz.pages.colormaps import AROUND_UNIFORM
from mhaviz.pages.numbers import short
from mhaviz.pages.panels import Panel, Scale
from mhaviz.views.colours import needs_dark_text, palette, places
from mhaviz.views.lab import to_lab

Colours = Literal["256", "truecolor"]
"""Colours of a terminal that has enough of them for a scale."""

CellKind = Literal["values", "half-blocks", "lines"]
"""Cells with numbers in them; two rows of cells a line; one row of cells a line, without numbers."""

RAMP = " ▁▂▃▄▅▆▇█"
"""Characters from the lowest number to the highest."""
BELOW, ABOVE = "░▒▓", "▂▅█"
"""Characters of numbers below and above the neutral number of a scale, from small to large; those near it are blank."""
AROUND_ONE = "   ░▂▅█"
"""Characters of multiples of uniform, from small to large: less than uniform is little ink, as more is much."""
HIDDEN = "·"
"""Character of a hidden cell, as a blank would look like 0."""

_EDGE = 1e-5  # numbers this close to the next character get it, so that rounding errors do not choose
_FIRST = 16  # index of the first of xterm's 256 colours that users do not set themselves
_LIGHTNESS = 5.0  # weight of lightness beside chroma and hue: with less, larger numbers may look smaller
_STEADY = 100.0  # weight of a change of chroma or hue from one colour to the next: with less, they come and go


def blank_text(several: Sequence[NDArray[np.float32]], scale: Scale) -> str:
    """Return "blank: below 0.11" where blank cells hold most of the sum of some row, else ""."""
    end = scale.value(1 / len(RAMP))
    is_blank = any(
        bool((2 * np.nansum(np.where(values < end, values, 0), axis=1) > np.nansum(values, axis=1)).any())
        for values in several
    )
    return f"blank: below {short(end, 2)}" if is_blank and not scale.diverges else ""


def ramp_characters(values: NDArray[np.float32], scale: Scale) -> NDArray[np.str_]:
    """Return the character of each value; for NaN, that of a hidden cell."""
    shares = np.nan_to_num(scale.shares(values)).astype(np.float64)
    if scale.diverges:
        ramp = [*AROUND_ONE] if scale.colormap == AROUND_UNIFORM else [*reversed(BELOW), " ", *ABOVE]
        from_middle = shares * (len(ramp) - 1) - len(BELOW)
        places = len(BELOW) + np.copysign(np.rint(np.abs(from_middle)), from_middle)
    else:
        ramp = list(RAMP)
        places = np.floor(shares * len(ramp) + _EDGE)
    chosen = np.array(ramp)[np.clip(places, 0, len(ramp) - 1).astype(int)]
    return np.where(np.isnan(values), HIDDEN, chosen)


@cache
def xterm_colours() -> NDArray[np.uint8]:
    """Return xterm's colours 16 to 255, (240, 3): a cube of 6 × 6 × 6, and greys."""
    return np.array([Color.from_ansi(number).get_truecolor() for number in range(_FIRST, 256)], np.uint8)


@cache
def xterm_numbers(colormap: str) -> NDArray[np.int64]:
    """Return the number of xterm's colour, 16 to 255, for each of a colormap's 256 colours.

    Of all sequences it is the one that is nearest to the colormap in L*a*b* and goes the shortest way from hue to hue
    (Viterbi 1967). The nearest colour to each by itself, as xterm has few, would be grey, blue, and grey again.
    """
    there = to_lab(xterm_colours())
    apart = (to_lab(palette(colormap))[:, None] - there) ** 2 @ np.array([_LIGHTNESS, 1.0, 1.0])
    steps = _STEADY * np.linalg.norm(there[:, None, 1:] - there[:, 1:], axis=-1)
    least, before = apart[0], list[NDArray[np.int64]]()  # of sequences that end with each colour, and what precedes it
    for distances in apart[1:]:
        sums = least[:, None] + steps
        before.append(sums.argmin(axis=0))
        least = sums.min(axis=0) + distances
    chosen = [int(least.argmin())]
    for preceding in reversed(before):
        chosen.append(int(preceding[chosen[-1]]))
    return np.array(chosen[::-1]) + _FIRST


@cache
def terminal_colours(colormap: str, colours: Colours) -> tuple[Color, ...]:
    """Return the 256 colours of a colormap as a terminal shows them."""
    if colours == "256":
        return tuple(map(Color.from_ansi, xterm_numbers(colormap).tolist()))
    return tuple(Color.from_rgb(*rgb) for rgb in palette(colormap).tolist())


@cache
def text_colours(colormap: str, colours: Colours) -> tuple[Color, ...]:
    """Return the colour of text, black or white, on each colour of the colormap."""
    ground = xterm_colours()[xterm_numbers(colormap) - _FIRST] if colours == "256" else palette(colormap)
    black, white = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)
    return tuple(black if is_light else white for is_light in needs_dark_text(ground))


class Cells:
    """Cells of one panel.

    Args:
        panel: the matrix.
        kind: see ``CellKind``.
        width: characters of a cell.
        colours: colours of the terminal; None: without colour.
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
            self._text = text_colours(panel.scale.colormap, colours)
            self._places = places(panel.values, panel.scale).tolist()
            # rich keeps the codes of a style, for one kind of terminal, in the object: equal colours share one.
            self._style = cache(RichStyle.from_color)

    def line(self, rows: range) -> list[Segment]:
        """Return one line of the terminal, which shows one or two rows of cells."""
        return [self._cell(rows, column) for column in range(self._panel.values.shape[1])]

    def _cell(self, rows: range, column: int) -> Segment:
        """Return one cell; a hidden one is a character without colour."""
        if all(self._hidden[row][column] for row in rows):
            mark = self._panel.mark(rows[0], column) if self._kind == "values" else ""
            return Segment((mark or HIDDEN).center(self._width))
        return self._paint(rows, column)

    def _number(self, row: int, column: int) -> str:
        return self._panel.text(row, column) if self._kind == "values" else ""

    def _character(self, rows: range, column: int) -> Segment:
        (row,) = rows
        shown = self._ramp[row][column]
        if self._kind == "lines":  # a blank keeps cells apart
            return Segment((shown * max(self._width - 1, 1)).ljust(self._width))
        return Segment((shown + self._number(row, column)).center(self._width))

    def _coloured(self, rows: range, column: int) -> Segment:
        (row,) = rows
        place = self._places[row][column]
        number = self._number(row, column).center(self._width)
        return Segment(number, self._style(self._text[place] if number.strip() else None, self._ground[place]))

    def _half_block(self, rows: range, column: int) -> Segment:
        """Return characters for two rows, each half in its colour; hidden cells have the terminal's background."""
        upper, *lower = (None if self._hidden[row][column] else self._ground[self._places[row][column]] for row in rows)
        if upper is None:
            return Segment("▄" * self._width, self._style(*lower))
        return Segment("▀" * self._width, self._style(upper, *lower))
