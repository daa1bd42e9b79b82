"""Part of a photo that an image processor shows to its model, read off photos whose pixels say where they are.

A processor resizes, crops, pads, tiles or stretches a photo, each family in its own way. A photo of the same size,
whose grey is the share of the width that lies to the left of a pixel, goes through the same steps, and so does one of
heights. Where the pixels come out, their grey says which part of the photo they show. Dark and bright photos undo the
scale of the numbers, and tell what is padding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mhaviz.inputs.patches import WHOLE, Box

Processor = Callable[[Image.Image], Any]
"""Function that returns the pixels that a model reads of an image, (…, channels, height, width), in one view or
several; or in patches, (n_patches, pixels)."""

_DARK, _BRIGHT = 40, 215
"""Greys of the photo's ends: a resized edge overshoots black and white, and would be cut off there."""

_LEAST_CONTRAST = 0.5
"""Least difference of bright and dark, as a share of the largest, of a pixel that is no padding."""

_MOST_BENT = 0.02
"""Largest deviation from a straight line, as a share of the photo's side: a grey and the rounding of a resized one."""

_EDGE = 1.5
"""Pixels of the photo at its edges that are not read: a resized pixel there may stand for less than its place says."""

_SAME = 0.006
"""Distance from an edge of the photo, as a share of its side, at which a part is said to end at the edge."""


def shown_parts(process: Processor, width: int, height: int) -> tuple[Box | None, ...]:
    """Find which part of a photo of this size each view of a processor shows.

    Args:
        process: the processor.
        width, height: numbers of pixels of the photo.

    Returns:
        For each view, in the order of its numbers: top, left, bottom and right, as fractions of the photo's height and
        width, which are below 0 or above 1 where the view is padded; None: the view shows no rectangle of the photo,
        upright, or its patches, which have no rows and columns, show not all of it.
    """
    across, down = np.meshgrid(*((np.arange(side) + 0.5) / side for side in (width, height)))
    greys = np.zeros_like(across), np.ones_like(across), across, down
    dark, bright, lefts, tops = (_views(process, np.round(_DARK + (_BRIGHT - _DARK) * grey)) for grey in greys)
    if not dark.shape == bright.shape == lefts.shape == tops.shape:  # another number of tiles
        return (None,)
    contrast = bright - dark
    are_photo = contrast > _LEAST_CONTRAST * contrast.max()
    if dark.ndim < 3:
        is_all = are_photo.all() and all(
            _reaches_ends((places - dark) / contrast, side) for places, side in ((lefts, width), (tops, height))
        )
        return (WHOLE if is_all else None,)
    parts = list[Box | None]()
    for view, is_photo in enumerate(are_photo):
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = ((places[view] - dark[view]) / contrast[view] for places in (lefts, tops))
        ends = _ends(x, is_photo, 1, width), _ends(y, is_photo, 0, height)
        parts.append(None if ends[0] is None or ends[1] is None else (ends[1][0], ends[0][0], ends[1][1], ends[0][1]))
    return tuple(parts)


def _views(process: Processor, greys: NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers for a grey image, a mean over channels, (views, rows, columns); of patches, as they are."""
    pixels: NDArray[np.float64] = np.asarray(
        process(Image.fromarray(greys.astype(np.uint8)).convert("RGB")), np.float64
    )
    if pixels.ndim < 4:
        return pixels.reshape(len(pixels), -1)
    return np.asarray(pixels.mean(axis=-3)).reshape(-1, *pixels.shape[-2:])


def _reaches_ends(places: NDArray[np.float64], n_pixels: int) -> bool:
    """Return whether places in a photo, as fractions of its side, reach from its first pixel to its last."""
    edge = _MOST_BENT + 1 / n_pixels
    return bool(places.min() < edge and places.max() > 1 - edge)


def _ends(
    places: NDArray[np.float64], is_photo: NDArray[np.bool_], axis: int, n_pixels: int
) -> tuple[float, float] | None:
    """Return where a view begins and ends along an axis; None: places do not grow evenly along it, and only along it.

    Args:
        places: place of each pixel of the view in the photo, as fractions of its side, (rows, columns).
        is_photo: which pixels are no padding, likewise.
        axis: 0: from the top down; 1: from left to right.
        n_pixels: number of pixels of the photo's side.
    """
    edge = min(_EDGE / n_pixels, 0.25)
    inside = is_photo & (places > edge) & (places < 1 - edge)
    along = np.broadcast_to(
        np.expand_dims((np.arange(places.shape[axis]) + 0.5) / places.shape[axis], 1 - axis), places.shape
    )
    if np.unique(along[inside]).size < 2:
        return None
    step, first = np.polyfit(along[inside], places[inside], 1)
    if step <= 0 or np.abs(first + step * along[inside] - places[inside]).max() > _MOST_BENT:
        return None
    begin, end = float(first), float(first + step)
    return begin * (abs(begin) > _SAME), end if abs(end - 1) > _SAME else 1.0
