"""Conversion between sRGB (IEC 61966-2-1) and CIE 1976 L*a*b* (CIE 15:2018, section 8.2.1).

In L*a*b*, distances are about as large as differences look. L* is the lightness, from 0, black, to 100, white; a* and
b* give the chroma and the hue.
"""

import numpy as np
from numpy.typing import NDArray

_TO_RGB = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])  # D65
_BEND = 6 / 29  # below it, a straight line replaces the cube root


def from_lab(lab: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the sRGB colours of L*, a*, b*, (…, 3); colours outside sRGB are clipped."""
    y = (lab[..., 0] + 16) / 116
    f = np.stack([y + lab[..., 1] / 500, y, y - lab[..., 2] / 200], axis=-1)
    xyz = np.where(f > _BEND, f**3, 3 * _BEND**2 * (f - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ _TO_RGB.T, 0, 1)
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colours: NDArray[np.uint8] = np.round(rgb * 255).astype(np.uint8)
    return colours


def to_lab(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the L*, a*, b* of sRGB colours, (…, 3)."""
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    xyz = linear @ np.linalg.inv(_TO_RGB).T / _WHITE
    f = np.where(xyz > _BEND**3, np.cbrt(xyz), xyz / (3 * _BEND**2) + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    lab: NDArray[np.float64] = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)
    return lab
