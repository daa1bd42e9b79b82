"""Pictures one after the other, as an animated GIF."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.maps import attention_page
from mhaviz.pages.training import evenly
from mhaviz.records import Attention
from mhaviz.views.colours import palette
from mhaviz.views.style import Style

if TYPE_CHECKING:
    from PIL.Image import Image

_FRAME, _LAST_FRAME = 500, 3000  # milliseconds
_MOST_FRAMES = 40
_GREYS, _COLOURS = 16, 128  # between ink and paper; altogether


def write_gif(stream: BinaryIO, frames: Sequence[Attention], style: Style) -> None:
    """Draw each record as a heatmap and write them as a film that begins anew when it has ended.

    All frames are of the same tokens. Of many frames it shows some.
    """
    from PIL import Image

    style = style if style.vmax is not None else replace(style, vmax=1.0)  # the same in all frames
    pictures = list(_pictures(evenly(frames, _MOST_FRAMES), style))
    width, height = (max(picture.size[side] for picture in pictures) for side in (0, 1))
    canvases = [Image.new("RGB", (width, height), "white") for _ in pictures]
    for canvas, picture in zip(canvases, pictures, strict=True):
        canvas.paste(picture)
    colours = _palette(style)
    first, *rest = (_indexed(canvas, colours) for canvas in canvases)
    durations = [_FRAME] * len(rest) + [_LAST_FRAME]
    first.save(stream, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _palette(style: Style) -> NDArray[np.uint8]:
    """The scale of the weights, and what the rest is drawn in, (colours, 3): no frame lacks what another has."""
    from matplotlib.colors import to_rgb

    from mhaviz.views.figure.sheet import ACCENT

    greys = np.linspace(0, 255, _GREYS).round().astype(np.uint8)[:, None].repeat(3, axis=1)
    weights = palette(style.cmap)[np.linspace(0, 255, _COLOURS - _GREYS - 1).round().astype(int)]
    return np.concatenate([greys, weights, np.array([to_rgb(ACCENT)]) * 255]).round().astype(np.uint8)


def _indexed(picture: "Image", colours: NDArray[np.uint8]) -> "Image":
    """The picture in these colours, each pixel in the nearest. (Pillow's own search is off by some shades.)"""
    from PIL import Image

    red, green, blue = np.moveaxis(np.asarray(picture).astype(np.uint32), -1, 0)
    packed, places = np.unique(red << 16 | green << 8 | blue, return_inverse=True)
    found = np.stack([packed >> 16, packed >> 8 & 255, packed & 255], axis=-1).astype(np.int32)
    distances = ((found[:, None] - colours.astype(np.int32)) ** 2).sum(axis=-1)  # colours found × colours there are
    indexed = Image.fromarray(distances.argmin(axis=-1).astype(np.uint8)[places.reshape(red.shape)], "P")
    indexed.putpalette(colours.tobytes())
    return indexed


def _pictures(frames: Sequence[Attention], style: Style) -> "Iterator[Image]":
    from PIL.Image import open as open_image

    from mhaviz.views.figure.page import draw_page
    from mhaviz.views.figure.sheet import ACCENT, MARGIN, TITLE, house_style

    for frame in frames:
        png = BytesIO()
        with house_style():
            sheet = draw_page(attention_page(frame), style)
            steps = frame.source.details.get("steps")
            caption = f"step {steps:,}" if isinstance(steps, int) else ""
            sheet.write(sheet.width - MARGIN, MARGIN + 0.1, caption, TITLE, bold=True, colour=ACCENT, align="right")
            sheet.save(png, "png")
        yield open_image(png).convert("RGB")
