"""Photos in a page for the browser, as addresses that hold their pixels."""

import base64
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MOST_BYTES = 200 * 1024
"""Most bytes of a photo's file, before Base64."""

_SIDES = (1024, 768, 512, 256)
_QUALITIES = (90, 80, 65, 45)


def photo_address(pixels: NDArray[np.uint8]) -> str:
    """Return the address of a photo, "data:image/jpeg;base64,…": the largest and best of at most ``MOST_BYTES``.

    ``pixels``: uint8, (height, width, 3).
    """
    whole = Image.fromarray(pixels)
    written = b""
    for side in _SIDES:
        image = whole.copy()
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        for quality in _QUALITIES:
            stream = BytesIO()
            image.save(stream, "JPEG", quality=quality)
            written = stream.getvalue()
            if len(written) <= MOST_BYTES:
                return _address(written)
    return _address(written)


def _address(written: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(written).decode('ascii')}"
