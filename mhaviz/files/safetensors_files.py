"""Arrays of .safetensors files. Only float8 needs torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from mhaviz.files.errors import reading, require_regular
from mhaviz.files.saved_array import SavedArray, numbers_of, require_few
from mhaviz.files.texts import parse_json

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "?"} | {
    f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (1, 2, 4, 8)
}
"""NumPy types by their names in the header."""

_MOST_HEADER = 2**27  # bytes; safetensors reads no header of more than 100 million

_FLOAT8 = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
"""Names in torch of the types that NumPy lacks, by their names in the header."""


def read_safetensors(path: Path) -> tuple[dict[str, SavedArray], Mapping[str, str]]:
    """Return the arrays of a file by name, and its metadata. Raises MhavizError if it is broken or truncated."""
    with reading(path):
        require_regular(path)
        # Keeps this file open, even if another one takes its place. A memmap takes long to slice.
        content = np.memmap(path, np.uint8, "r").view(np.ndarray)
        begin = 8 + int.from_bytes(content[:8].tobytes(), "little")
        header = content[8 : min(begin, _MOST_HEADER)].tobytes()
        require_few(header.count(b'"data_offsets"'))  # names with this text in them are no matter
        with safe_open(path, "numpy"):  # checks the header, and that all numbers are there
            pass
        entries = parse_json(header.decode())
    metadata, numbers = entries.pop("__metadata__", None) or {}, content[begin:]
    return {name: _described(path, name, entry, numbers) for name, entry in entries.items()}, metadata


def _described(path: Path, name: str, entry: Mapping[str, Any], numbers: NDArray[np.uint8]) -> SavedArray:
    """Return the array of an entry of the header. ``numbers``: bytes of all numbers in the file."""
    shape, code, (start, end) = tuple(entry["shape"]), entry["dtype"], entry["data_offsets"]
    bits = numbers[start:end]
    if code in _TYPES:
        dtype = np.dtype(_TYPES[code])
        return SavedArray(path, name, shape, dtype.name, numbers_of(dtype), lambda: bits.view(dtype).reshape(shape))
    if code == "BF16":  # the upper half of a float32
        return SavedArray(
            path,
            name,
            shape,
            "bfloat16",
            "float",
            lambda: (bits.view("<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape),
        )
    if code in _FLOAT8:
        return SavedArray(path, name, shape, _FLOAT8[code], "float", lambda: _float8(bits, _FLOAT8[code], shape))
    # Numbers of other types, such as F4, do not fill a byte, or are scales of other numbers.
    return SavedArray(path, name, shape, f"{code}; save them as float32", "other", lambda: bits)


def _float8(bits: NDArray[np.uint8], dtype: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    import torch

    return torch.from_numpy(bits.copy()).view(getattr(torch, dtype)).float().numpy().reshape(shape)
