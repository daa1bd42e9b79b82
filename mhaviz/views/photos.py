"""Photos under attention: at full light and colour where patches stand out, darker and paler elsewhere."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mhaviz.inputs.patches import WHOLE
from mhaviz.pages.overlays import PatchPicture

LIGHT, COLOUR = 0.72, 0.45
"""Shares of the light and of the colour that remain outside of what stands out."""

_PALE = 0.35
"""Share that remains, on paper, of what lies outside of all patches."""

_STRIPE, _LIGHT_STRIPE, _DARK_STRIPE = 0.03, 236, 208
"""Width of stripes of padding, as a share of the photo's shorter side, and their greys."""


def lit_photo(picture: PatchPicture, height: int, width: int) -> NDArray[np.uint8]:
    """Return the photo of a picture, (height, width, 3).

    Patches that are not lit are darker and less colourful; what lies outside of all is pale; padding is striped.
    """
    assert picture.photo is not None
    resized = Image.fromarray(picture.photo).resize((width, height), Image.Resampling.LANCZOS)
    photo = np.asarray(resized, np.float64)
    grey = photo.mean(axis=2, keepdims=True)
    dim = (COLOUR * photo + (1 - COLOUR) * grey) * LIGHT
    rows, columns = (
        _patch_of(n, begin, end, count)
        for n, begin, end, count in zip(
            (height, width), picture.box[:2], picture.box[2:], picture.times.shape, strict=True
        )
    )
    inside = (rows >= 0)[:, None] & (columns >= 0)
    is_lit = inside & picture.lit[np.maximum(rows, 0)][:, np.maximum(columns, 0)]
    pale = 255 - _PALE * (255 - dim)
    drawn = np.where(is_lit[..., None], photo, np.where(inside[..., None], dim, pale))
    if picture.photo_box != WHOLE:
        down, across = (
            _patch_of(n, begin, end, 1) == 0
            for n, begin, end in zip((height, width), picture.photo_box[:2], picture.photo_box[2:], strict=True)
        )
        drawn = np.where((down[:, None] & across)[..., None], drawn, _stripes(height, width)[..., None])
    return np.round(drawn).astype(np.uint8)


def _stripes(height: int, width: int) -> NDArray[np.float64]:
    """Return diagonal stripes of two light greys, (height, width)."""
    wide = max(_STRIPE * min(height, width), 2.0)
    is_dark = (np.arange(height)[:, None] + np.arange(width)) % (2 * wide) < wide
    return np.where(is_dark, float(_DARK_STRIPE), float(_LIGHT_STRIPE))


def _patch_of(n_pixels: int, begin: float, end: float, count: int) -> NDArray[np.int64]:
    """Return the row, or column, of the patch that each row, or column, of pixels is in, −1: in none."""
    middles = (np.arange(n_pixels) + 0.5) / n_pixels
    numbers = np.floor((middles - begin) / (end - begin) * count).astype(np.int64)
    return np.where((numbers >= 0) & (numbers < count), numbers, -1)
