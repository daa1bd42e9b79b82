"""The 256 colours of xterm, and those among them that stand for a colormap."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from rich.color import Color

from mhaviz.views.colours import palette
from mhaviz.views.lab import to_lab

FIRST = 16
"""The colours before it are the user's own, and may be any."""
_AROUND = 4  # colours to both sides, that say whether a colormap gets lighter
_TOO_STRONG, _TOO_PALE = 0.4, 0.3  # how much it counts, beside lightness and hue, that a colour is so


@cache
def xterm_colours() -> NDArray[np.uint8]:
    """The colours from 16 to 255, (240, 3): a cube of 6 × 6 × 6, and greys."""
    return np.array([Color.from_ansi(number).get_truecolor() for number in range(FIRST, 256)], np.uint8)


@cache
def xterm_numbers(colormap: str) -> NDArray[np.int64]:
    """For each of a colormap's 256 colours the number of the one that xterm shows in its place, from 16 to 255.

    Not the nearest to each, but of all sequences that get lighter where the colormap does, and darker where it does,
    the one that is nearest to it as a whole: so numbers keep their order. Found by dynamic programming: the best
    sequence that ends with some colour goes on from the best one that ends with a colour that may come before it.
    """
    wanted, there = to_lab(palette(colormap)), to_lab(xterm_colours())
    by_lightness = np.argsort(there[:, 0], kind="stable")
    distances = _distances(wanted, there[by_lightness])
    total, before = distances[0], []
    for distance, rises in zip(distances[1:], _rises(wanted[:, 0]), strict=True):
        best = _best_until(total) if rises else len(total) - 1 - _best_until(total[::-1])[::-1]
        before.append(best)
        total = total[best] + distance
    sequence = [int(total.argmin())]
    for best in reversed(before):
        sequence.append(int(best[sequence[-1]]))
    return np.asarray(by_lightness[sequence[::-1]] + FIRST)


def _rises(lightness: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether it gets lighter from each colour to the next, whatever their rounding to whole numbers says."""
    padded = np.pad(lightness, _AROUND, mode="edge")
    smooth = np.convolve(padded, np.ones(2 * _AROUND + 1), "valid")
    return np.diff(smooth) >= 0


def _best_until(totals: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each place that of the smallest total so far."""
    is_best = totals <= np.minimum.accumulate(totals)
    return np.maximum.accumulate(np.where(is_best, np.arange(len(totals)), 0))


def _distances(wanted: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
    """How unlike each wanted colour each that is there is, (wanted, there): in lightness, strength and hue.

    The square of the distance in L*a*b*, but for strength, which may differ: a grey is quieter than what is too strong.
    """
    apart = np.square(wanted[:, None] - there)
    strength = np.hypot(there[:, 1], there[:, 2]) - np.hypot(wanted[:, 1], wanted[:, 2])[:, None]
    hue = apart[..., 1] + apart[..., 2] - strength**2
    distances: NDArray[np.float64] = apart[..., 0] + hue + np.where(strength > 0, _TOO_STRONG, _TOO_PALE) * strength**2
    return distances
