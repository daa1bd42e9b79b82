"""Animated GIFs of heatmaps."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from mhaviz.pages.attention import attention_page
from mhaviz.pages.training import evenly
from mhaviz.results.attention import Attention
from mhaviz.views.style import Style

if TYPE_CHECKING:
    from PIL.Image import Image

_PAPER = 250  # of 255: lighter levels of a colour become 255
_FRAME, _LAST_FRAME = 500, 3000  # milliseconds
_MOST_FRAMES = 40


def write_gif(stream: BinaryIO, frames: Sequence[Attention], style: Style) -> None:
    """Write heatmaps of the results as an animated GIF that loops for ever.

    All frames must be of the same tokens. Of more than 40 frames, 40 are drawn, evenly spaced.
    """
    from PIL import Image

    style = style if style.vmax is not None else replace(style, vmax=1.0)  # the same scale in all frames
    pictures = list(_pictures(evenly(frames, _MOST_FRAMES), style))
    width, height = (max(picture.size[side] for picture in pictures) for side in (0, 1))
    canvases = [Image.new("RGB", (width, height), "white") for _ in pictures]
    for canvas, picture in zip(canvases, pictures, strict=True):
        canvas.paste(picture)
    # With one palette for all, a frame stores only what differs from the one before. Its paper is white.
    palette = canvases[-1].quantize(method=Image.Quantize.MAXCOVERAGE)
    levels = [255 if level > _PAPER else level for level in palette.getpalette() or []]
    lightest = max(range(0, len(levels), 3), key=lambda i: sum(levels[i : i + 3]))
    levels[lightest : lightest + 3] = [255] * 3
    palette.putpalette(levels)
    first, *rest = (canvas.quantize(palette=palette, dither=Image.Dither.NONE) for canvas in canvases)
    durations = [_FRAME] * len(rest) + [_LAST_FRAME]
    first.save(stream, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _pictures(frames: Sequence[Attention], style: Style) -> "Iterator[Image]":
    from PIL.Image import open as open_image

    from mhaviz.views.figure.page import draw_page
    from mhaviz.views.figure.sheet import ACCENT, house_style
    from mhaviz.views.measures import MARGIN, TITLE

    for frame in frames:
        png = BytesIO()
        with house_style():
            sheet = draw_page(attention_page(frame), style)
            steps = frame.source.details.get("steps")
            caption = f"step {steps:,}" if isinstance(steps, int) else ""
            sheet.write(sheet.width - MARGIN, MARGIN + 0.1, caption, TITLE, bold=True, colour=ACCENT, align="right")
            sheet.save(png, "png")
        yield open_image(png).convert("RGB")
