"""Images from files, PIL or arrays, converted to uint8 pixels in RGB."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from mhaviz.errors import ArgumentError, as_one_line, counted, parameter, quoted
from mhaviz.files.errors import ContentError, reading, require_regular

MOST_SIDE = 2048
"""Most pixels of the longer side that are kept. No picture shows more."""

MOST_FRAMES = 1_000
"""Most frames of an animation that are read."""

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # pixels, for which PIL starts no other program
_NAMES = "PNG, JPEG, WebP, GIF, BMP or TIFF"
_CHANNELS = ((), (1,), (3,), (4,))


def read_image(path: Path, is_whole: bool = False) -> NDArray[np.uint8]:
    """Read the pixels of an image file, (height, width, 3) in sRGB, rotated according to its EXIF data.

    Transparent images are put on white. At most ``MOST_SIDE`` pixels per side are kept, unless ``is_whole``.

    Raises:
        MhavizError: there is no such file, or it is not an image, truncated, or too large.
    """
    with reading(path):
        require_regular(path)
        with path.open("rb") as stream, _in_silence():
            try:
                return _pixels(Image.open(stream, formats=_FORMATS), is_whole)
            except UnidentifiedImageError:
                raise ContentError(f"it is not an image that can be read: expected {_NAMES}") from None


def as_photo(image: object) -> Image.Image:
    """Return an image in RGB with all its pixels, as a model reads it; see ``as_pixels``. Raises as that does."""
    return Image.fromarray(as_pixels(image, is_whole=True))


def as_pixels(image: object, is_whole: bool = False) -> NDArray[np.uint8]:
    """Convert an image to pixels, (height, width, 3).

    Args:
        image: a path; a PIL image; or a uint8 array (height, width) or (height, width, channels), with 1, 3 or 4
            channels.
        is_whole: whether all pixels are kept, and not at most ``MOST_SIDE`` per side.

    Raises:
        ArgumentError: the image is none of these.
        MhavizError: the image cannot be read.
    """
    if isinstance(image, str | Path):
        return read_image(Path(image), is_whole)
    name = parameter("image")
    if isinstance(image, np.ndarray):
        image = _of_array(image, name)
    if not isinstance(image, Image.Image):
        raise ArgumentError(f"{name}: expected a path, a PIL image, or a uint8 array, got {quoted(image)}")
    with as_one_line(f"{name}: it cannot be read"), _in_silence():  # PIL reads the file now, which may be broken
        return _pixels(image, is_whole)


def as_frames(image: object) -> tuple[NDArray[np.uint8], ...]:
    """Convert images to pixels, (height, width, 3) each.

    Args:
        image: an image as of ``as_pixels``, which may be animated; a list of images; or a uint8 array of several,
            (frames, height, width, channels).

    Raises:
        ArgumentError: an image is none of these, the list is empty, or an animation has more than ``MOST_FRAMES``.
        MhavizError: an image cannot be read.
    """
    if isinstance(image, list | tuple) or (isinstance(image, np.ndarray) and image.ndim == 4):
        if not len(image):
            raise ArgumentError(f"{parameter('image')}: expected at least one image, got none")
        return tuple(as_pixels(one) for one in image)
    first = as_pixels(image)  # which refuses what is no image
    if isinstance(image, str | Path):
        with Image.open(image, formats=_FORMATS) as opened:
            return _frames(opened, first)
    return _frames(image, first)


def _frames(image: Any, first: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], ...]:
    """Return the frames of an open image, or the only one, which has been read."""
    n_frames = getattr(image, "n_frames", 1)
    if n_frames == 1:
        return (first,)
    name = parameter("image")
    if n_frames > MOST_FRAMES:
        raise ArgumentError(f"{name}: expected at most {counted(MOST_FRAMES, 'frame')}, got {n_frames:,}")
    with as_one_line(f"{name}: it cannot be read"), _in_silence():
        return tuple(as_pixels(frame.convert("RGB")) for frame in ImageSequence.Iterator(image))


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


def _pixels(image: Image.Image, is_whole: bool) -> NDArray[np.uint8]:
    """Return the pixels of an open image."""
    if image.format == "JPEG" and not is_whole:  # decoding it at a smaller size takes less time
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
    if not is_whole and max(image.size) > MOST_SIDE:
        image.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
    return np.array(image, np.uint8)
