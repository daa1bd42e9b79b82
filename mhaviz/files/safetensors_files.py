""".safetensors files, read without torch, which is needed for float8 alone."""

import json
import math
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.files.errors import reading
from mhaviz.files.saved_array import SavedArray, numbers_of

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "?"} | {
    f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (1, 2, 4, 8)
}
"""The types that numpy has, by their names in the header."""

_OTHER_FLOATS = {"BF16": ("bfloat16", "<u2"), "F8_E4M3": ("float8_e4m3fn", "u1"), "F8_E5M2": ("float8_e5m2", "u1")}
"""Their names, and the types of numpy that hold their bits."""


def read_safetensors(path: Path) -> tuple[dict[str, SavedArray], Mapping[str, str]]:
    """The arrays of a file by their names, and its metadata. Raises MhavizError if it is broken or cut off."""
    from safetensors import safe_open

    with reading(path):
        with safe_open(path, "numpy"):  # checks the header, and that all numbers are there
            pass
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
    metadata = header.pop("__metadata__", None) or {}
    return {name: _described(path, name, entry, 8 + length) for name, entry in header.items()}, metadata


def _described(path: Path, name: str, entry: Mapping[str, Any], begin: int) -> SavedArray:
    """The array of an entry of the header; ``begin``: where the numbers of the file begin."""
    shape, code, at = tuple(entry["shape"]), entry["dtype"], begin + entry["data_offsets"][0]
    if code in _OTHER_FLOATS:
        dtype, bits = _OTHER_FLOATS[code]
        return SavedArray(path, name, shape, dtype, "float", partial(_other_floats, path, shape, dtype, bits, at))
    if code in _TYPES:
        numpy_type = np.dtype(_TYPES[code])
        load = partial(_numbers, path, shape, numpy_type, at)
        return SavedArray(path, name, shape, numpy_type.name, numbers_of(numpy_type), load)
    # The numbers of other types, such as F4, do not fill a byte, or are factors of other numbers.
    return SavedArray(path, name, shape, f"{code}; save them as float32", "other", partial(np.empty, 0))


def _numbers(path: Path, shape: tuple[int, ...], dtype: Any, at: int) -> NDArray[Any]:
    return np.fromfile(path, dtype, math.prod(shape), offset=at).reshape(shape)


def _other_floats(path: Path, shape: tuple[int, ...], dtype: str, bits: str, at: int) -> NDArray[np.float32]:
    raw = _numbers(path, shape, bits, at)
    if dtype == "bfloat16":  # the upper half of a float32
        return (raw.astype(np.uint32) << 16).view(np.float32)
    import torch

    floats: NDArray[np.float32] = torch.from_numpy(raw).view(getattr(torch, dtype)).float().numpy()
    return floats
