"""Draws cells and repeated texts several times as fast, with the same result, where they are on whole pixels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray


class CellImage(AxesImage):
    """A matrix of coloured cells. Where they fill whole pixels, they are coloured first and enlarged then.

    matplotlib enlarges the numbers and colours every pixel, which for a page of heads takes longer than all else.

    Attributes:
        is_gradient: whether it shows a scale or a photo, and no cells.
    """

    is_gradient = False

    @property
    def numbers(self) -> NDArray[Any]:
        """Of the cells, (rows, columns)."""
        return np.ma.asarray(self.get_array())

    def make_image(
        self, renderer: RendererBase, magnification: float = 1.0, unsampled: bool = False
    ) -> tuple[NDArray[np.uint8], float, float, Affine2D]:
        """See ``AxesImage.make_image``."""
        numbers = self.numbers
        box = self.get_window_extent()
        left, bottom = min(box.x0, box.x1), min(box.y0, box.y1)
        sizes = np.array([abs(box.height) / numbers.shape[0], abs(box.width) / numbers.shape[1], left, bottom])
        sizes *= magnification
        whole = np.rint(sizes).astype(int)
        if unsampled or min(whole[:2]) < 1 or not np.allclose(sizes, whole, atol=1e-3):
            return super().make_image(renderer, magnification, unsampled)
        coloured = self.to_rgba(numbers, bytes=True)[::-1]  # Agg begins at the bottom
        pixels = coloured.repeat(whole[0], axis=0).repeat(whole[1], axis=1)
        if magnification == 1:
            left, bottom = int(whole[2]), int(whole[3])
        return pixels, left, bottom, Affine2D()


@dataclass(frozen=True)
class Copy:
    """A text that looks as one does that is there already, whole pixels away: so many to the right, and upwards."""

    first: Text
    second: Text
    right: int
    up: int


def copies_among(alike: Sequence[tuple[Text, Text]]) -> list[Copy]:
    """Those pairs of texts that are whole pixels apart, as the figure's size now is."""
    if not alike:
        return []
    to_pixels = alike[0][0].get_transform()  # that of all of them
    first, second = (to_pixels.transform([pair[which].get_position() for pair in alike]) for which in (0, 1))
    apart = second - first
    whole = np.rint(apart).astype(int)
    are_whole = np.isclose(apart, whole, atol=1e-3).all(axis=1)
    return [
        Copy(*pair, *distance)
        for pair, distance, is_whole in zip(alike, whole.tolist(), are_whole, strict=True)
        if is_whole
    ]


def copy_texts(pixels: NDArray[np.uint8], copies: Sequence[Copy]) -> None:
    """Put each second text where it belongs, with the pixels of the first, which are there.

    Labels are most of what takes time in a page of heads, and most are those of another tile. What else lies where the
    first text is must lie so where the second one is: the tiles of a mosaic do.

    Args:
        pixels: (height, width, channels), of the figure, which has just been drawn without the second texts.
        copies: which.
    """
    height, width, _ = pixels.shape
    boxes: dict[Text, tuple[int, int, int, int]] = {}
    for copy in copies:
        if copy.first not in boxes:
            box = copy.first.get_window_extent().padded(1)
            boxes[copy.first] = math.floor(box.x0), math.ceil(box.x1), math.floor(box.y0), math.ceil(box.y1)
        left, right, bottom, top = boxes[copy.first]
        left, right = max(left, -copy.right, 0), min(right, width - copy.right, width)
        bottom, top = max(bottom, -copy.up, 0), min(top, height - copy.up, height)
        if left < right and bottom < top:
            here = pixels[height - top : height - bottom, left:right]  # rows are counted from the top
            pixels[height - top - copy.up : height - bottom - copy.up, left + copy.right : right + copy.right] = here
