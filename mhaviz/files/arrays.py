"""The arrays in files of other tools. Only .pt files and their like need torch."""

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
"""Of the formats in which parameters are saved by their names."""


def read_arrays(path: Path) -> dict[str, SavedArray | ArrayList]:
    """What a file holds, by name, and "" for a single array or a single list that has no name. No number is read yet.

    Raises:
        MhavizError: there is no such file, its suffix is none of ``SUFFIXES``, it is broken, or holds Python objects.
    """
    require_file(path, SUFFIXES)
    with reading(path):
        return {**_READERS.get(path.suffix.lower(), read_torch)(path)}


def read_named_arrays(path: Path) -> dict[str, SavedArray]:
    """The arrays of a .safetensors file or of a state dict of torch.save; "input": a single tensor without a name.

    Raises:
        MhavizError: as ``read_arrays``, and for a list of tensors.
    """
    require_file(path, NAMED_SUFFIXES)
    held = read_arrays(path)
    unnamed = held.pop("", None)
    if isinstance(unnamed, tuple):
        raise MhavizError(f"{path}: expected a state dict, tensors by their names, got a list of tensors")
    if unnamed is not None:
        held["input"] = replace(unnamed, name="input")
    return {name: array for name, array in held.items() if isinstance(array, SavedArray)}
