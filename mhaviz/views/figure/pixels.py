"""Draws cells several times as fast, with the same result, where they are on whole pixels."""

from typing import Any

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.image import AxesImage
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
