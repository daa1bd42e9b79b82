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
_CHANNELS = (1, 3, 4)
_SHAPES = "(height, width), or with 1, 3 or 4 channels after them"


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
        image: a path; an image of PIL; an array (height, width), or with 1, 3 or 4 channels after them; a tensor, whose
            channels may also come first. Whole numbers are from 0 to 255, or to 65,535 in uint16; others from 0 to 1.

    Raises:
        ArgumentError: it is none of these, or has other numbers.
        MhavizError: as ``read_image``.
    """
    from PIL.Image import Image

    if isinstance(image, str | Path):
        return read_image(Path(image))
    if isinstance(image, Image):
        try:
            with _in_silence():
                _require_few(image.width, image.height)
                return _pixels(image)
        except MhavizError:
            raise
        except ContentError as error:
            raise ArgumentError(f"{parameter('image')}: {error}") from error
        except Exception as error:  # its file, which is read now, may be broken
            raise MhavizError(f"{parameter('image')}: it cannot be read ({reason(error)})") from error
    return _of_array(image)


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
    from PIL.Image import Resampling
    from PIL.Image import new as new_image

    if image.format == "JPEG":  # of which a smaller one is decoded in less time
        image.draft("RGB", (MOST_SIDE, MOST_SIDE))
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        return _shrunk(_of_numbers(np.asarray(image)))
    has_alpha = "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La")
    if has_alpha:
        if image.mode in ("RGBa", "La"):
            image = image.convert({"RGBa": "RGBA", "La": "LA"}[image.mode])
        image = image.convert("RGBA")
        on_white = new_image("RGBA", image.size, "white")
        on_white.alpha_composite(image)
        image = on_white
    image = image.convert("RGB")
    if max(image.size) > MOST_SIDE:
        image.thumbnail((MOST_SIDE, MOST_SIDE), Resampling.LANCZOS)
    return np.array(image, np.uint8)


def _of_numbers(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey of more than 8 bits: of 16, or of numbers of any range, which then goes from black to white."""
    if numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() <= 65535:
        return _grey(numbers / 65535)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        raise ContentError("it has no finite number")
    low, high = float(finite.min()), float(finite.max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return _grey(np.nan_to_num(np.clip((numbers - low) / ((high - low) or 1.0), 0, 1)))


def _grey(shares: NDArray[Any]) -> NDArray[np.uint8]:
    return np.repeat(np.round(255 * shares).astype(np.uint8)[..., None], 3, axis=2)


def _shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if max(pixels.shape[:2]) <= MOST_SIDE:
        return pixels
    from PIL.Image import Resampling, fromarray

    image = fromarray(pixels)
    image.thumbnail((MOST_SIDE, MOST_SIDE), Resampling.LANCZOS)
    return np.array(image, np.uint8)


def _of_array(image: Any) -> NDArray[np.uint8]:
    """Of an array, or of whatever numpy takes for one."""
    is_tensor = hasattr(image, "detach")
    if is_tensor:
        image = image.detach().cpu()
        if getattr(image, "is_floating_point", bool)():
            image = image.float()  # numpy has no bfloat16
        image = image.numpy()
    try:
        array = np.asarray(image)
    except ValueError:
        array = np.array(None)
    name = parameter("image")
    if array.dtype.kind not in "fiub":
        raise ArgumentError(f"{name}: expected a path, an image of PIL, or an array of pixels, got {quoted(image)}")
    shape = array.shape
    if array.ndim == 4 and shape[0] == 1:
        array = array[0]
    first, last = (array.ndim == 3 and array.shape[axis] in _CHANNELS for axis in (0, -1))
    if first and (not last or (is_tensor and array.shape[0] < 4)):
        array = np.moveaxis(array, 0, -1)
    elif array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[-1] not in _CHANNELS or not array.size:
        raise ArgumentError(f"{name}: expected an array of shape {_SHAPES}, got {shape}")
    try:
        _require_few(*array.shape[:2])
    except ContentError as error:
        raise ArgumentError(f"{name}: {error}") from error
    shares = _shares(array, name)
    if shares.shape[-1] == 4:
        alpha = shares[..., 3:]
        shares = shares[..., :3] * alpha + (1 - alpha)
    return _shrunk(np.round(255 * np.broadcast_to(shares, (*shares.shape[:2], 3))).astype(np.uint8))


def _shares(array: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Numbers from 0, for black, to 1. Raises ArgumentError for those of another range."""
    if array.dtype.kind == "b":
        return array.astype(np.float32)
    most = 1.0 if array.dtype.kind == "f" else 65535.0 if array.dtype == np.uint16 else 255.0
    low, high = float(array.min()), float(array.max())
    if not (low >= 0 and high <= most):  # nor if one is NaN
        undo = "; undo the normalisation that its model wants" if most == 1 else ""
        raise ArgumentError(
            f"{name}: expected {'' if most == 1 else 'whole '}numbers from 0 to {most:,.0f}, got {low:.4g} to "
            f"{high:.4g}{undo}"
        )
    return np.asarray(array / most, np.float32)
