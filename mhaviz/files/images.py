"""Images: from files, from PIL, or as arrays and tensors, made the same pixels."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from mhaviz.errors import ArgumentError, as_one_line, parameter, quoted
from mhaviz.files.errors import ContentError, reading

MOST_SIDE = 2048
"""Pixels of the longer side of what is kept: no picture shows more of it."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # that are pixels, and start no other program
_NAMES = "PNG, JPEG, WebP, GIF, BMP or TIFF"
_CHANNELS = ((), (1,), (3,), (4,))


def read_image(path: Path) -> NDArray[np.uint8]:
    """The pixels of an image file, (height, width, 3) in sRGB, turned as its camera says it was held.

    What is transparent lies on white. At most ``MOST_SIDE`` pixels a side are kept.

    Raises:
        MhavizError: there is no such file, it is no image or one that is cut off, or it is too large.
    """
    with reading(path):
        if path.exists() and not path.is_file():  # to open a pipe waits for who writes it
            raise ContentError("expected a file, got a folder, a pipe or a device")
        with path.open("rb") as stream, _in_silence():
            try:
                return _pixels(Image.open(stream, formats=_FORMATS))
            except UnidentifiedImageError:
                raise ContentError(f"it is no image that can be read: expected {_NAMES}") from None


def as_pixels(image: object) -> NDArray[np.uint8]:
    """An image as pixels, (height, width, 3).

    Args:
        image: a path; an image of PIL; a uint8 array (height, width), or with 1, 3 or 4 channels after them.

    Raises:
        ArgumentError: it is none of these.
        MhavizError: it cannot be read.
    """
    if isinstance(image, str | Path):
        return read_image(Path(image))
    name = parameter("image")
    if isinstance(image, np.ndarray):
        image = _of_array(image, name)
    if not isinstance(image, Image.Image):
        raise ArgumentError(f"{name}: expected a path, an image of PIL, or a uint8 array, got {quoted(image)}")
    with as_one_line(f"{name}: it cannot be read"), _in_silence():  # its file, which is read now, may be broken
        return _pixels(image)


def _of_array(array: NDArray[Any], name: str) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in _CHANNELS or not array.size:
        raise ArgumentError(
            f"{name}: expected a uint8 array, (height, width) or with 1, 3 or 4 channels after them, got {array.dtype} "
            f"{array.shape}"
        )
    return Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array)


@contextmanager
def _in_silence() -> Iterator[None]:
    """Without PIL's warnings of what cameras write into files; those of images too large to be decoded are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Of one that is open."""
    if image.format == "JPEG":  # of which a smaller one is decoded in less time
        image.draft("RGB", (MOST_SIDE, MOST_SIDE))
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ContentError("expected whole numbers for pixels, got others; convert it to 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits, of which PIL would cut off all above 255
        image = Image.fromarray(np.round(np.clip(np.asarray(image), 0, 65535) / 257).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        on_white = Image.new("RGBA", image.size, "white")
        on_white.alpha_composite(image)
        image = on_white
    image = image.convert("RGB")
    if max(image.size) > MOST_SIDE:
        image.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
    return np.array(image, np.uint8)
