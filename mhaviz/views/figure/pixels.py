"""What can be drawn several times as fast, pixel for pixel the same, because cells and tiles are on whole pixels."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Bbox
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


class Copy(Text):
    """A text like one that is drawn before it, whole pixels away. On pixels it is not drawn again, but copied.

    Labels are most of what takes time in a page of heads, and most are those of another tile.
    """

    def __init__(self, original: Text) -> None:
        super().__init__()
        self.update_from(original)
        self.set(text=original.get_text(), parse_math=False, usetex=False)
        self._original = original

    def draw(self, renderer: RendererBase) -> None:
        """See ``Text.draw``."""
        if not isinstance(renderer, RendererAgg):
            super().draw(renderer)
            return
        region = renderer.copy_from_bbox(_pixels_of(self._original, renderer.dpi))
        ours, theirs = (x.get_transform().transform(x.get_unitless_position()) for x in (self, self._original))
        dx, dy = np.rint(ours - theirs)
        left, top, *_ = region.get_extents()  # counted from the top
        renderer.restore_region(region, xy=(left + dx, top - dy))  # type: ignore[no-untyped-call]
        self.stale = False


def _pixels_of(text: Text, dpi: float) -> Bbox:
    """The whole pixels that a text is on. Finding out takes as long as drawing it: it is done once for all copies."""
    known = _PIXELS.get(text)
    if known is None or known[0] != dpi:
        box = text.get_window_extent(dpi=dpi).padded(1)
        known = dpi, Bbox.from_extents(*np.floor(box.min).tolist(), *np.ceil(box.max).tolist())
        _PIXELS[text] = known
    return known[1]


_PIXELS: WeakKeyDictionary[Text, tuple[float, Bbox]] = WeakKeyDictionary()
