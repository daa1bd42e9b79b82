"""Pictures one after the other, as an animated GIF."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from mhaviz.records import Attention
from mhaviz.views.captions import evenly
from mhaviz.views.look import Look

if TYPE_CHECKING:
    from PIL.Image import Image

_FRAME, _LAST_FRAME = 500, 3000  # milliseconds
_MOST_FRAMES = 40
_COLOURS = 64  # of a frame; the maps have one scale of colours


def write_gif(stream: BinaryIO, frames: Sequence[Attention], look: Look) -> None:
    """Draw each record as a heatmap and write them as a film that begins anew when it has ended.

    All frames are of the same tokens. Of many frames it shows some.
    """
    from PIL import Image

    pictures = list(_pictures(evenly(frames, _MOST_FRAMES), look))
    width, height = (max(picture.size[side] for picture in pictures) for side in (0, 1))
    canvases = [Image.new("RGB", (width, height), "white") for _ in pictures]
    for canvas, picture in zip(canvases, pictures, strict=True):
        canvas.paste(picture)
    palette = canvases[len(canvases) // 2].quantize(_COLOURS)  # one for all: what stays the same is then stored once
    first, *rest = (canvas.quantize(palette=palette, dither=Image.Dither.NONE) for canvas in canvases)
    durations = [_FRAME] * len(rest) + [_LAST_FRAME]
    first.save(stream, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _pictures(frames: Sequence[Attention], look: Look) -> "Iterator[Image]":
    from PIL.Image import open as open_image

    from mhaviz.views.figure.heatmap import heatmap_figure
    from mhaviz.views.figure.sheet import house_style

    for frame in frames:
        png = BytesIO()
        with house_style():
            heatmap_figure(frame, look).save(png, "png")
        yield open_image(png).convert("RGB")
