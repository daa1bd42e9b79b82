"""The arrays in files of other tools: .npy, .npz, .safetensors and .pt. Nothing that a file holds is ever run."""

import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.memory import free_main_memory, shortage
from mhaviz.sources.reading import NoWeightsError

if TYPE_CHECKING:
    from torch import Tensor

    from mhaviz.sources.torch_files import Tensors


_MAGIC = b"\x93NUMPY"  # what a .npy file begins with
_AT_ONCE = 2**20  # numbers that are unpacked together
_MOST_HEADER = 2**17  # bytes; numpy reads no header of more than 10,000 characters


@dataclass(frozen=True)
class Array:
    """An array in a file, as it is known before its numbers are read.

    Attributes:
        shape: its sizes.
        dtype: the name of its type, or what it is instead of numbers, and what to save in its stead.
        numbers: what it holds: "whole" are those of integers and of truth values.
        read: reads them, as float32.
    """

    shape: tuple[int, ...]
    dtype: str
    numbers: Literal["float", "whole", "objects", "other"]
    read: Callable[[], NDArray[np.float32]]


Arrays = tuple[Array, ...]
"""A list of arrays that belong together, such as those of a model's layers."""

Held = Array | Arrays | Mapping[str, Array | Arrays]
"""What a file holds: a single array without a name, a list, or several by their names."""


def arrays_in(path: Path) -> Held:
    """What the file holds. Raises NoWeightsError, or whatever a library raises about a broken file."""
    return _READERS[path.suffix.lower()](path)


def require_room(shapes: Iterable[tuple[int, ...]]) -> None:
    """Raise NoWeightsError if numbers of these shapes, and what becomes of them, do not fit into memory."""
    float32, copies = 4, 2
    if short := shortage(float32 * copies * sum(map(math.prod, shapes)), free_main_memory()):
        raise NoWeightsError(f"its weights need {short}; save fewer heads or layers, or pooled maps")


def _npy(path: Path) -> Array:
    with path.open("rb") as stream:
        shape, _, dtype = _npy_header(io.BytesIO(stream.read(_MOST_HEADER)))
    return Array(shape, str(dtype), _numbers(dtype), lambda: _float32(np.lib.format.open_memmap(path, mode="r")))


def _npz(path: Path) -> Mapping[str, Array]:
    arrays: dict[str, Array] = {}
    with path.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                start = stream.read(_MOST_HEADER)
            if not start.startswith(_MAGIC):
                continue  # it is no array
            shape, _, dtype = _npy_header(io.BytesIO(start))
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise NoWeightsError(f"{name[:60]} is cut off")
            arrays[name] = Array(shape, str(dtype), _numbers(dtype), partial(_read_npz, path, member.filename))
    return arrays


def _read_npz(path: Path, member: str) -> NDArray[np.float32]:
    """A piece at a time: whole arrays of float64 would take twice the memory of the weights beside them."""
    with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        shape, by_columns, dtype = _npy_header(stream)
        numbers = np.empty(math.prod(shape), np.float32)
        with np.errstate(over="ignore"):  # as in _float32
            for start in range(0, len(numbers), _AT_ONCE):
                piece = numbers[start : start + _AT_ONCE]
                read = stream.read(len(piece) * dtype.itemsize)
                if len(read) < len(piece) * dtype.itemsize:  # shorter than the archive's list of its files says
                    raise NoWeightsError(f"{member.removesuffix('.npy')[:60]} is cut off")
                piece[:] = np.frombuffer(read, dtype)
    return _float32(numbers.reshape(shape, order="F" if by_columns else "C"))


def _npy_header(start: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether the numbers are in the order of the columns, and their type."""
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(start)


def _numbers(dtype: np.dtype[Any]) -> Literal["float", "whole", "objects", "other"]:
    if dtype.hasobject:
        return "objects"
    return "float" if dtype.kind == "f" else "whole" if dtype.kind in "iub" else "other"


_FLOATS = ("F64", "F32", "F16", "BF16")
_WHOLE = ("BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")


def _safetensors(path: Path) -> Mapping[str, Array]:
    from safetensors import safe_open

    arrays: dict[str, Array] = {}
    with safe_open(path, "numpy") as file:
        for name in file.keys():  # noqa: SIM118
            part = file.get_slice(name)
            dtype = part.get_dtype()
            numbers: Literal["float", "whole", "other"] = (
                "float" if dtype in _FLOATS else "whole" if dtype in _WHOLE else "other"
            )
            arrays[name] = Array(tuple(part.get_shape()), dtype, numbers, partial(_read_safetensors, path, name))
    return arrays


def _read_safetensors(path: Path, name: str) -> NDArray[np.float32]:
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        return _read_tensor(file, path, name)


def read_weights(file: Any, path: Path, name: str) -> NDArray[np.float32]:
    """A tensor of a file that ``safe_open`` has opened and checked. Raises NoWeightsError if it has no such numbers."""
    dtype = file.get_slice(name).get_dtype()
    if dtype not in _FLOATS:
        raise NoWeightsError(f"expected floating-point weights, got {dtype}")
    return _read_tensor(file, path, name)


def _read_tensor(file: Any, path: Path, name: str) -> NDArray[np.float32]:
    is_bfloat16 = file.get_slice(name).get_dtype() == "BF16"
    return _bfloat16(path, name) if is_bfloat16 else _float32(file.get_tensor(name))


def _bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """numpy has no bfloat16: it is the upper half of a float32. The file's header has been checked."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        about = json.loads(stream.read(length))[name]
        stream.seek(8 + length + about["data_offsets"][0])
        halves = np.fromfile(stream, "<u2", int(np.prod(about["shape"])))
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(about["shape"])


def _pt(path: Path) -> Held:
    from mhaviz.sources.torch_files import load_tensors

    held = load_tensors(path)
    return {name: _described(some) for name, some in held.items()} if isinstance(held, dict) else _described(held)


def _described(tensors: "Tensor | Tensors") -> Array | Arrays:
    return tuple(map(_tensor, tensors)) if isinstance(tensors, tuple) else _tensor(tensors)


def _tensor(tensor: "Tensor") -> Array:
    from mhaviz.sources.torch_files import shape_of, why_no_numbers

    numbers: Literal["float", "whole", "other"] = "whole"
    no_numbers = why_no_numbers(tensor)
    if no_numbers or tensor.is_quantized or tensor.is_complex():
        numbers = "other"
    elif tensor.is_floating_point():
        numbers = "float"
    dtype = no_numbers or str(tensor.dtype).removeprefix("torch.")
    return Array(shape_of(tensor), dtype, numbers, lambda: _float32(tensor.detach().float().numpy()))


_READERS: dict[str, Callable[[Path], Held]] = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".pt": _pt}
SUFFIXES: Sequence[str] = tuple(_READERS)


def _float32(array: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large becomes infinity, which is no weight
        return np.ascontiguousarray(array, np.float32)
