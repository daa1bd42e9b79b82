"""Images from files, PIL or arrays, converted to uint8 pixels in RGB."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from mhaviz.errors import ArgumentError, as_one_line, parameter, quoted
from mhaviz.files.errors import ContentError, reading, require_regular

MOST_SIDE = 2048
"""Most pixels of the longer side that are kept. No picture shows more."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # pixels, for which PIL starts no other program
_NAMES = "PNG, JPEG, WebP, GIF, BMP or TIFF"
_CHANNELS = ((), (1,), (3,), (4,))


def read_image(path: Path) -> NDArray[np.uint8]:
    """Read the pixels of an image file, (height, width, 3) in sRGB, rotated according to its EXIF data.

    Transparent images are put on white. At most ``MOST_SIDE`` pixels per side are kept.

    Raises:
        MhavizError: there is no such file, or it is not an image, truncated, or too large.
    """
    with reading(path):
        require_regular(path)
        with path.open("rb") as stream, _in_silence():
            try:
                return _pixels(Image.open(stream, formats=_FORMATS))
            except UnidentifiedImageError:
                raise ContentError(f"it is not an image that can be read: expected {_NAMES}") from None


def as_pixels(image: object) -> NDArray[np.uint8]:
    """Convert an image to pixels, (height, width, 3).

    Args:
        image: a path; a PIL image; or a uint8 array (height, width) or (height, width, channels), with 1, 3 or 4
            channels.

    Raises:
        ArgumentError: the image is none of these.
        MhavizError: the image cannot be read.
    """
    if isinstance(image, str | Path):
        return read_image(Path(image))
    name = parameter("image")
    if isinstance(image, np.ndarray):
        image = _of_array(image, name)
    if not isinstance(image, Image.Image):
        raise ArgumentError(f"{name}: expected a path, a PIL image, or a uint8 array, got {quoted(image)}")
    with as_one_line(f"{name}: it cannot be read"), _in_silence():  # PIL reads the file now, which may be broken
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
    """Suppress PIL's warnings about what cameras write into files, but raise those about images that are too large.

    What PIL logs of a broken file, it raises, too.
    """
    log = logging.getLogger("PIL")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    finally:
        log.setLevel(before)


def _pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Return the pixels of an open image."""
    if image.format == "JPEG":  # decoding it at a smaller size takes less time
        image.draft("RGB", (MOST_SIDE, MOST_SIDE))
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ContentError("expected whole numbers for pixels, got others; convert it to 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits: PIL would clip at 255
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
