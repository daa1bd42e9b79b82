"""Weights that another tool has saved: one array in a .npy, .npz, .safetensors or .pt file, and nothing else is run."""

import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.sources.reading import NEVER_RUN, listed, load_pt, told

if TYPE_CHECKING:
    from torch import Tensor


def read_array(path: Path, name: str | None = None) -> NDArray[np.float32]:
    """The array of a file, or that of this name, as (n_heads, q_length, k_length); one head if it has two axes.

    Its type and its shape are checked before its numbers are read.

    Raises:
        ArgumentError: there are several arrays and no name, or none of this name.
        MhavizError: the file cannot be read, or holds no weights.
    """
    with told(path):
        weights = _READERS[path.suffix.lower()](path, name)
    return weights.reshape(weights.shape[-3:]) if weights.ndim > 2 else weights[None]


def _npy(path: Path, name: str | None) -> NDArray[np.float32]:
    if name is not None:
        raise ArgumentError(f"--name: {path} holds a single array without a name; leave it out")
    array = np.lib.format.open_memmap(path, mode="r")  # it takes no pickles
    _check(array.shape, str(array.dtype), array.dtype.kind == "f")
    return _float32(array)


def _npz(path: Path, name: str | None) -> NDArray[np.float32]:
    with path.open("rb") as opened, zipfile.ZipFile(opened) as archive, np.load(opened, allow_pickle=False) as arrays:
        chosen = _choose(path, arrays.files, name)
        member = next(n for n in (f"{chosen}.npy", chosen) if n in archive.namelist())
        with archive.open(member) as stream:
            shape, dtype = _npy_header(stream)
        _check(shape, str(dtype), dtype.kind == "f")
        if int(np.prod(shape, dtype=np.float64)) * dtype.itemsize > archive.getinfo(member).file_size:
            raise ValueError(f"{chosen} is cut off")
        return _float32(arrays[chosen])


def _npy_header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    start = io.BytesIO(stream.read(2**17))  # a header has at most 64 KiB
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(start)
    if dtype.hasobject:
        raise ValueError(NEVER_RUN)
    return shape, dtype


def _safetensors(path: Path, name: str | None) -> NDArray[np.float32]:
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        return read_tensor(file, path, _choose(path, list(file.keys()), name))


def read_tensor(file: Any, path: Path, name: str) -> NDArray[np.float32]:
    """A tensor of a file that ``safe_open`` has opened and checked. Raises ValueError if it cannot hold weights."""
    part = file.get_slice(name)
    dtype = part.get_dtype()
    _check(part.get_shape(), dtype, dtype in ("F64", "F32", "F16", "BF16"))
    return _bfloat16(path, name) if dtype == "BF16" else _float32(file.get_tensor(name))


def _bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """numpy has no bfloat16: it is the upper half of a float32. The file's header has been checked."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        about = json.loads(stream.read(length))[name]
        stream.seek(8 + length + about["data_offsets"][0])
        halves = np.fromfile(stream, "<u2", int(np.prod(about["shape"])))
    return (halves.astype(np.uint32) << 16).view(np.float32).reshape(about["shape"])


def _pt(path: Path, name: str | None) -> NDArray[np.float32]:
    """What torch.save has written: a tensor, or tensors in a dict, a list or a tuple."""
    import torch

    held = load_pt(path)
    if not isinstance(held, torch.Tensor):
        if not isinstance(held, (dict, list, tuple)):
            raise ValueError(f"expected a tensor, or several in a dict, a list or a tuple, got {type(held).__name__}")
        items: Mapping[Any, Any] = held if isinstance(held, dict) else dict(enumerate(held))
        tensors = {str(key): item for key, item in items.items() if isinstance(item, torch.Tensor)}
        held = tensors[_choose(path, list(tensors), name)]
    elif name is not None:
        raise ArgumentError(f"--name: {path} holds a single tensor without a name; leave it out")
    tensor: Tensor = held.detach()
    is_float = tensor.is_floating_point() and tensor.layout is torch.strided and not tensor.is_quantized
    _check(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), is_float)
    return _float32(tensor.float().numpy())


_READERS: dict[str, Callable[[Path, str | None], NDArray[np.float32]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": _pt,
}
SUFFIXES = tuple(_READERS)


def _choose(path: Path, names: Sequence[str], wanted: str | None) -> str:
    if not names:
        raise MhavizError(f"{path} holds no array")
    there = listed(sorted(names))
    if wanted is None:
        if len(names) > 1:
            raise ArgumentError(f"{path} holds {len(names)} arrays; choose one with --name: {there}")
        return names[0]
    if wanted not in names:
        raise ArgumentError(f"--name: there is no array {wanted[:60]} in {path}; it has {there}")
    return wanted


def _check(shape: Sequence[int], dtype: str, is_float: bool) -> None:
    """Raise ValueError unless the array can hold weights."""
    axes = f"({', '.join(map(str, shape))})"
    if not (len(shape) in (2, 3) or (len(shape) == 4 and shape[0] == 1)):
        raise ValueError(
            f"expected weights (q_length, k_length), (n_heads, q_length, k_length) or the same with a first axis of 1, "
            f"got {len(shape)} axes: {axes}"
        )
    if not is_float:
        raise ValueError(f"expected floating-point weights, got {dtype}")
    if 0 in shape:
        raise ValueError(f"expected at least one weight, got none: {axes}")


def _float32(array: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large becomes infinity, which is no weight
        return np.ascontiguousarray(array, np.float32)
