"""The default colours of weights: from paper, for 0, to dark ink, in even steps of lightness."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mhaviz.views.lab import from_lab, to_lab

_N = 256  # colours
_DARKEST = 12.0  # lightness, where paper has 100
_PLACES = (0.0, 0.35, 0.65, 0.9, 1.0)  # shares of the scale
_CHROMA = (0.0, 24.0, 38.0, 34.0, 26.0)  # at these places
_HUE = (230.0, 235.0, 265.0, 285.0, 290.0)  # degrees, at these places: blue, which is seen with any colour blindness

_NIGHT = (22, 24, 28)  # the background of a dark page
_LIGHTEST = 96.0  # lightness
_CHROMA_AT_NIGHT = (4.0, 30.0, 38.0, 22.0, 6.0)  # at the same places
_CHANGES_AT_NIGHT = (80.0, 46.0, 265.0), (80.0, 46.0, 45.0)  # lightness, chroma, hue of the lowest and the highest


def ink() -> NDArray[np.uint8]:
    """Return the colormap, (256, 3) in sRGB: from white to dark blue, in perceptually even steps.

    The steps are even in L*, the lightness, so that it is also a scale in black-and-white print.
    """
    share = np.linspace(0, 1, _N)
    L = 100 + (_DARKEST - 100) * share
    return _polar(L, np.interp(share, _PLACES, _CHROMA), np.interp(share, _PLACES, _HUE))


def ink_at_night() -> NDArray[np.uint8]:
    """Return the colormap for dark pages, (256, 3): from their background to nearly white, in the same hues."""
    share = np.linspace(0, 1, _N)
    night = to_lab(np.array(_NIGHT, np.uint8))
    L = night[0] + (_LIGHTEST - night[0]) * share
    colours = _polar(L, np.interp(share, _PLACES, _CHROMA_AT_NIGHT), np.interp(share, _PLACES, _HUE[::-1]))
    colours[0] = _NIGHT
    return colours


def diverging_at_night() -> NDArray[np.uint8]:
    """Return the colormap of changes for dark pages, (256, 3): light blue for the lowest number, the background for 0,
    light red for the highest."""
    share = np.abs(np.linspace(-1, 1, _N))[:, None]
    below = (np.arange(_N) < _N / 2)[:, None]
    night = to_lab(np.array(_NIGHT, np.uint8))
    ends = np.where(below, *(_lab(*end) for end in _CHANGES_AT_NIGHT))
    return from_lab(night + (ends - night) * share)


def _polar(L: NDArray[np.float64], chroma: NDArray[np.float64], degrees: NDArray[np.float64]) -> NDArray[np.uint8]:
    return from_lab(_lab(L, chroma, degrees))


def _lab(L: ArrayLike, chroma: ArrayLike, degrees: ArrayLike) -> NDArray[np.float64]:
    hue = np.radians(degrees)
    return np.stack([np.asarray(L, float), chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
