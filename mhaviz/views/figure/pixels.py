"""What is drawn several times as fast, the same to the eye, because cells and tiles are on whole pixels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray


class Cells(AxesImage):
    """A matrix of coloured cells. Where they fill whole pixels, they are coloured first and enlarged then.

    matplotlib enlarges the numbers and colours every pixel, which for a page of heads takes longer than all else.
    """

    def make_image(
        self, renderer: RendererBase, magnification: float = 1.0, unsampled: bool = False
    ) -> tuple[NDArray[np.uint8], float, float, Affine2D]:
        """See ``AxesImage.make_image``."""
        numbers: NDArray[Any] = np.ma.asarray(self.get_array())
        box = self.get_window_extent()
        sizes = abs(box.height) / numbers.shape[0], abs(box.width) / numbers.shape[1], box.x0, min(box.y0, box.y1)
        whole = [round(size) for size in sizes]
        if unsampled or magnification != 1 or min(whole[:2]) < 1 or not np.allclose(sizes, whole, atol=1e-3):
            return super().make_image(renderer, magnification, unsampled)
        coloured = self.to_rgba(numbers, bytes=True)[::-1]  # Agg begins at the bottom
        pixels = coloured.repeat(whole[0], axis=0).repeat(whole[1], axis=1)
        return pixels, whole[2], whole[3], Affine2D()


def copy_texts(pixels: NDArray[np.uint8], copies: Sequence[tuple[Text, Text]]) -> None:
    """Put each second text where it belongs, with the pixels of the first, which are there.

    Labels are most of what takes time in a page of heads, and most are those of another tile. What else lies where the
    first text is must lie so where the second one is: the tiles of a mosaic do.

    Args:
        pixels: (height, width, channels), of the figure, which has just been drawn.
        copies: pairs for which ``can_be_copied`` holds.
    """
    height, width, _ = pixels.shape
    boxes: dict[Text, tuple[int, int, int, int]] = {}
    for first, second in copies:
        if first not in boxes:
            box = first.get_window_extent().padded(1)
            boxes[first] = math.floor(box.x0), math.ceil(box.x1), math.floor(box.y0), math.ceil(box.y1)
        dx, dy = map(round, _distance(first, second))
        left, right, bottom, top = boxes[first]
        left, right = max(left, -dx, 0), min(right, width - dx, width)
        bottom, top = max(bottom, -dy, 0), min(top, height - dy, height)
        if left < right and bottom < top:  # y of the figure begins at the bottom
            pixels[height - top - dy : height - bottom - dy, left + dx : right + dx] = pixels[
                height - top : height - bottom, left:right
            ]


def can_be_copied(first: Text, second: Text) -> bool:
    """Whether two texts that are alike are whole pixels apart, as the figure's size now is."""
    return bool(np.allclose(distance := _distance(first, second), np.rint(distance), atol=1e-3))


def _distance(first: Text, second: Text) -> NDArray[np.float64]:
    here, there = (text.get_transform().transform(text.get_unitless_position()) for text in (first, second))
    return np.asarray(there - here)
