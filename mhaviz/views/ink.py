"""The default colours of weights: from paper, for 0, to dark ink, in even steps of lightness."""

import numpy as np
from numpy.typing import NDArray

from mhaviz.views.lab import from_lab

_DARKEST = 12.0  # lightness, where paper has 100
_PLACES = (0.0, 0.35, 0.65, 0.9, 1.0)  # along the scale, where
_CHROMA = (0.0, 24.0, 38.0, 34.0, 26.0)  # the colour is so strong,
_HUE = (230.0, 235.0, 265.0, 285.0, 290.0)  # and of this angle: one hue, blue, which no colour blindness takes away

_GREY = 150  # of 255


def quiet(n: int = 256) -> NDArray[np.uint8]:
    """The colours, (n, 3) in sRGB, of what is there but not looked at: from paper to a middle grey."""
    return np.round(np.linspace(255, _GREY, n)[:, None] * np.ones(3)).astype(np.uint8)


def ink(n: int = 256) -> NDArray[np.uint8]:
    """The colours, (n, 3) in sRGB: white first, then evenly darker to the eye.

    Even in L*, the lightness, so that they are a scale in print without colour, too.
    """
    share = np.linspace(0, 1, n)
    L = 100 + (_DARKEST - 100) * share
    chroma, hue = np.interp(share, _PLACES, _CHROMA), np.radians(np.interp(share, _PLACES, _HUE))
    return from_lab(np.stack([L, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1))
