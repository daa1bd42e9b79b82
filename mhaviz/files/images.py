"""Images: from files, from PIL, or as arrays and tensors, made the same pixels."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted, reason
from mhaviz.files.errors import ContentError, reading

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 100_000_000
"""Of an image that is read: 300 MB."""
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
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError
    from PIL.Image import open as open_image

    with reading(path):
        if path.is_dir():
            raise ContentError("it is a folder; give an image in it")
        if path.exists() and not path.is_file():  # to open a pipe waits for who writes it
            raise ContentError("it is a pipe or a device; give a file")
        with path.open("rb") as stream, _in_silence():
            try:
                image = open_image(stream, formats=_FORMATS)
                _require_few(image.width, image.height)
                return _pixels(image)
            except DecompressionBombError:
                raise ContentError(f"expected an image of at most {MOST_PIXELS:,} pixels; make it smaller") from None
            except UnidentifiedImageError:
                raise ContentError(f"it is no image that can be read: expected {_NAMES}") from None
            except (MhavizError, ContentError, MemoryError):
                raise
            except Exception as error:  # a broken file may raise anything
                raise ContentError(f"it is no whole image, but cut off or damaged ({reason(error)})") from error


def as_pixels(image: object) -> NDArray[np.uint8]:
    """An image as pixels, (height, width, 3).

    Args:
        image: a path; an image of PIL; a uint8 array (height, width), or with 1, 3 or 4 channels after them.

    Raises:
        ArgumentError: it is none of these.
        MhavizError: it cannot be read.
    """
    from PIL.Image import Image

    if isinstance(image, str | Path):
        return read_image(Path(image))
    name = parameter("image")
    if isinstance(image, np.ndarray):
        image = _of_array(image, name)
    if not isinstance(image, Image):
        raise ArgumentError(f"{name}: expected a path, an image of PIL, or a uint8 array, got {quoted(image)}")
    try:
        with _in_silence():
            _require_few(image.width, image.height)
            return _pixels(image)
    except ContentError as error:
        raise ArgumentError(f"{name}: {error}") from error
    except Exception as error:  # its file, which is read now, may be broken
        raise MhavizError(f"{name}: it cannot be read ({reason(error)})") from error


def _of_array(array: NDArray[Any], name: str) -> "Image":
    from PIL.Image import fromarray

    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in _CHANNELS or not array.size:
        raise ArgumentError(
            f"{name}: expected a uint8 array, (height, width) or with 1, 3 or 4 channels after them, got {array.dtype} "
            f"{array.shape}"
        )
    return fromarray(array[..., 0] if array.shape[2:] == (1,) else array)


@contextmanager
def _in_silence() -> Iterator[None]:
    """Without PIL's warnings of large images, which are refused or not, and of what cameras write into files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _require_few(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise ContentError(
            f"expected an image of at most {MOST_PIXELS:,} pixels, got {width:,} × {height:,}; make it smaller"
        )


def _pixels(image: "Image") -> NDArray[np.uint8]:
    """Of one that is open."""
    from PIL import ImageOps
    from PIL.Image import Resampling, fromarray
    from PIL.Image import new as new_image

    if image.format == "JPEG":  # of which a smaller one is decoded in less time
        image.draft("RGB", (MOST_SIDE, MOST_SIDE))
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ContentError("expected whole numbers for pixels, got others; convert it to 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits, of which PIL would cut off all above 255
        image = fromarray(np.round(np.clip(np.asarray(image), 0, 65535) / 257).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        on_white = new_image("RGBA", image.size, "white")
        on_white.alpha_composite(image)
        image = on_white
    image = image.convert("RGB")
    if max(image.size) > MOST_SIDE:
        image.thumbnail((MOST_SIDE, MOST_SIDE), Resampling.LANCZOS)
    return np.array(image, np.uint8)
