"""Artists for the cells of heatmaps and the numbers in them, fast as pixels, and shapes and texts in SVG and PDF.

Beyond ``MOST_CELLS`` cells an SVG or PDF would open slowly, and beyond ``MOST_NUMBERS`` texts it would take a minute to
write. It then has images, and outlines of numbers, as a PNG has.
"""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.path import Path
from matplotlib.text import Text
from numpy.typing import NDArray

MOST_CELLS, MOST_NUMBERS = 20_000, 10_000
_ROUNDING = 1e-3  # pixels
_OVERLAP = 1 / 360  # inches that a cell extends below the next ones, as the background would show through between them


class Cells(AxesImage):
    """A matrix as coloured cells, with its first row at the top; NaN is white."""

    def draw(self, renderer: RendererBase) -> None:
        """See ``Artist.draw``."""
        alike = (image.get_size() for image in _page(self).images if type(image) is Cells)
        left, right, bottom, top = self.get_extent()
        colours = self.to_rgba(np.ma.asarray(self.get_array()), bytes=True)  # rows columns 4
        if not renderer.option_scale_image() or sum(rows * columns for rows, columns in alike) > MOST_CELLS:
            corners = _page(self).transData.transform([(left, bottom), (right, top)])
            cell = np.abs(corners[1] - corners[0]) / colours.shape[1::-1]
            whole = np.array([*corners[0], *cell])
            if renderer.option_scale_image() or np.abs(whole - whole.round()).max() > _ROUNDING:
                super().draw(renderer)
                return
            x, y, width, height = whole.round().astype(int)
            # The same as matplotlib's resampling in a tenth of its time, which is half of all time for many heads.
            renderer.draw_image(renderer.new_gc(), x, y, colours[::-1].repeat(height, axis=0).repeat(width, axis=1))
            return
        row, column = np.nonzero((colours[..., :3] < 255).any(axis=-1))
        height, width = (bottom - top) / colours.shape[0], (right - left) / colours.shape[1]
        x0, y0 = left + column * width, top + row * height
        x1, y1 = np.minimum(x0 + width + _OVERLAP, right), np.minimum(y0 + height + _OVERLAP, bottom)
        corners = np.stack([x0, y0, x1, y0, x1, y1, x0, y1], axis=1).reshape(-1, 4, 2)
        shapes = PolyCollection(
            list(corners), facecolors=colours[row, column] / 255, linewidths=0, antialiaseds=False
        )  # fmt: skip
        _draw_in_place(shapes, self, renderer)


class Numbers(PathCollection):
    """The same number in many cells. For pixels it is drawn as an outline, which is four times as fast as text.

    Args:
        outline: outline of the number, with its middle at (0, 0).
        number, colour, font: text, colour and font of the number.
        places: middle of each cell, (cells, 2).
        options: arguments of ``PathCollection``.
    """

    def __init__(
        self, outline: Path, number: str, colour: str, font: FontProperties, places: NDArray[np.float64], **options: Any
    ) -> None:
        super().__init__([outline], offsets=places, facecolors=colour, linewidths=0, **options)
        self.number, self.colour, self.font, self.places = number, colour, font, places
        self.set_label(f"numbers {number}")

    def draw(self, renderer: RendererBase) -> None:
        """See ``Artist.draw``."""
        alike = [one for one in _page(self).collections if isinstance(one, Numbers)]
        if not renderer.option_scale_image() or sum(len(one.places) for one in alike) > MOST_NUMBERS:
            super().draw(renderer)
            return
        for x, y in self.places:
            text = Text(x, y, self.number, color=self.colour, ha="center", va="center_baseline", parse_math=False)
            text.set_fontproperties(self.font)
            _draw_in_place(text, self, renderer)


def _page(artist: Artist) -> Axes:
    assert isinstance(artist.axes, Axes)
    return artist.axes


def _draw_in_place(artist: Artist, of: Artist, renderer: RendererBase) -> None:
    page = _page(of)
    artist.set_figure(page.figure)
    artist.set_transform(page.transData)
    artist.draw(renderer)
