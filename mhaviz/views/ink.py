"""The default colours of weights: from paper, for 0, to dark ink, in even steps of lightness."""

import numpy as np
from numpy.typing import NDArray

_DARKEST = 12.0  # lightness, where paper has 100
_PLACES = (0.0, 0.35, 0.65, 0.9, 1.0)  # along the scale, where
_CHROMA = (0.0, 24.0, 38.0, 34.0, 26.0)  # the colour is so strong,
_HUE = (230.0, 235.0, 265.0, 285.0, 290.0)  # and of this angle: one hue, blue, which no colour blindness takes away

_GREY = 150  # of 255

_TO_RGB = ((3.2404542, -1.5371385, -0.4985314), (-0.9692660, 1.8760108, 0.0415560), (0.0556434, -0.2040259, 1.0572252))
_WHITE = np.array([0.95047, 1.0, 1.08883])  # D65


def quiet(n: int = 256) -> NDArray[np.uint8]:
    """The colours, (n, 3) in sRGB, of what is there but not looked at: from paper to a middle grey."""
    return np.round(np.linspace(255, _GREY, n)[:, None] * np.ones(3)).astype(np.uint8)


def ink(n: int = 256) -> NDArray[np.uint8]:
    """The colours, (n, 3) in sRGB: white first, then evenly darker to the eye.

    Even in L*, the lightness of CIE 1976 L*a*b* (CIE 15:2018, section 8.2.1), so that they are a scale in print without
    colour, too. sRGB: IEC 61966-2-1.
    """
    share = np.linspace(0, 1, n)
    L = 100 + (_DARKEST - 100) * share
    chroma, hue = np.interp(share, _PLACES, _CHROMA), np.radians(np.interp(share, _PLACES, _HUE))
    y = (L + 16) / 116
    f = np.stack([y + chroma * np.cos(hue) / 500, y, y - chroma * np.sin(hue) / 200], axis=-1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ np.array(_TO_RGB).T, 0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colours: NDArray[np.uint8] = np.round(rgb * 255).astype(np.uint8)
    return colours
