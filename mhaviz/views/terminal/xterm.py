"""The 256 colours of xterm, and those among them that stand for a colormap."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from rich.color import Color

from mhaviz.views.lab import to_lab
from mhaviz.views.scale import palette

FIRST = 16
"""The colours before it are the user's own, and may be any."""
_LIGHTNESS = 5.0  # how much it counts, beside hue and strength: with less, larger numbers may look smaller


@cache
def xterm_colours() -> NDArray[np.uint8]:
    """The colours from 16 to 255, (240, 3): a cube of 6 × 6 × 6, and greys."""
    return np.array([Color.from_ansi(number).get_truecolor() for number in range(FIRST, 256)], np.uint8)


@cache
def xterm_numbers(colormap: str) -> NDArray[np.int64]:
    """For each of a colormap's 256 colours the number of the nearest of xterm's in L*a*b*, from 16 to 255.

    rich's own choice, in RGB, would jump between hues along a scale.
    """
    apart = to_lab(palette(colormap))[:, None] - to_lab(xterm_colours())
    return np.asarray((apart**2 @ np.array([_LIGHTNESS, 1.0, 1.0])).argmin(axis=1) + FIRST)
