"""Photos under attention: at full light and colour where patches stand out, darker and paler elsewhere."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mhaviz.pages.overlays import PatchPicture

LIGHT, COLOUR = 0.72, 0.45
"""Shares of the light and of the colour that remain outside of what stands out."""


def lit_photo(picture: PatchPicture, height: int, width: int) -> NDArray[np.uint8]:
    """Return the photo of a picture, (height, width, 3). Patches that are not lit, and what lies outside of all, are
    darker and paler."""
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
    return np.round(np.where(is_lit[..., None], photo, dim)).astype(np.uint8)


def _patch_of(n_pixels: int, begin: float, end: float, count: int) -> NDArray[np.int64]:
    """Return the row, or column, of the patch that each row, or column, of pixels is in, −1: in none."""
    middles = (np.arange(n_pixels) + 0.5) / n_pixels
    numbers = np.floor((middles - begin) / (end - begin) * count).astype(np.int64)
    return np.where((numbers >= 0) & (numbers < count), numbers, -1)
