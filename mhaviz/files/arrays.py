"""Arrays in files of other tools. Only .pt files and similar ones need torch."""

from dataclasses import replace
from pathlib import Path

from mhaviz.errors import MhavizError
from mhaviz.files.errors import reading, require_file
from mhaviz.files.numpy_files import read_npy, read_npz
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.files.saved_array import ArrayList, SavedArray
from mhaviz.files.torch_files import read_torch

_READERS = {".npy": read_npy, ".npz": read_npz, ".safetensors": lambda path: read_safetensors(path)[0]}
_OF_TORCH = (".pt", ".pth", ".bin", ".ckpt")
SUFFIXES = (*_READERS, *_OF_TORCH)
NAMED_SUFFIXES = (".safetensors", *_OF_TORCH)
"""Suffixes of the formats in which parameters are saved by name."""


def read_arrays(path: Path) -> dict[str, SavedArray | ArrayList]:
    """Return the arrays of a file by name; a single array or list without a name has the name "".

    Their numbers are not read yet.

    Raises:
        MhavizError: there is no such file, its suffix is none of ``SUFFIXES``, it is broken, or holds Python objects.
    """
    require_file(path, SUFFIXES)
    with reading(path):
        return {**_READERS.get(path.suffix.lower(), read_torch)(path)}


def read_named_arrays(path: Path) -> dict[str, SavedArray]:
    """Return the arrays of a .safetensors file or a saved state dict. A single tensor without a name becomes "input".

    Raises:
        MhavizError: as ``read_arrays``, and for a list of tensors.
    """
    require_file(path, NAMED_SUFFIXES)
    held = read_arrays(path)
    unnamed = held.pop("", None)
    if isinstance(unnamed, tuple):
        raise MhavizError(f"{path}: expected a state dict, which names its tensors, got a list of tensors")
    if unnamed is not None:
        held["input"] = replace(unnamed, name="input")
    return {name: array for name, array in held.items() if isinstance(array, SavedArray)}
