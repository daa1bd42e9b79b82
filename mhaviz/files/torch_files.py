"""Tensors in files of torch.save, and in containers there. Code in such files is never run."""

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.files.errors import ContentError
from mhaviz.files.saved_array import ArrayList, Numbers, SavedArray
from mhaviz.memory import free_main_memory, shortage
from mhaviz.units import readable_bytes

if TYPE_CHECKING:
    from torch import Tensor

_DEEPEST = 4  # containers within containers


def _unpacked_bytes(path: Path) -> int:
    """Return the unpacked size in bytes of a zip archive, such as a .npz or .pt file; 0: nothing is compressed."""
    if not zipfile.is_zipfile(path):
        return 0
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    return sum(member.file_size for member in members) if is_packed else 0


def read_torch(path: Path) -> dict[str, SavedArray | ArrayList]:
    """Return tensors and lists of tensors by name, such as "state_dict.encoder.weight" in nested dicts.

    A single tensor, or a list of tensors only, has the name "".

    Raises:
        ContentError: the file holds no tensors, is broken, or does not fit into memory.
    """
    import torch

    unpacked = _unpacked_bytes(path)
    if short := shortage(2 * unpacked, free_main_memory()):
        raise ContentError(f"it unpacks to {readable_bytes(unpacked)}, and needs {short}; save fewer tensors")
    # mmap would read compressed members as raw numbers. PyTorch cannot open files whose names are not UTF-8.
    is_mapped = zipfile.is_zipfile(path) and not unpacked and str(path).isprintable()
    with warnings.catch_warnings(), path.open("rb") as stream:
        warnings.simplefilter("ignore")  # about old formats
        try:
            held = torch.load(path if is_mapped else stream, map_location="cpu", weights_only=True, mmap=is_mapped)
        except MemoryError:
            raise
        except Exception as error:  # PyTorch's own message advises running the code in it
            raise ContentError(
                "it is truncated or damaged, or holds Python objects, which mhaviz never runs; save only tensors, such "
                "as a model's parameters, with safetensors.torch.save_file(model.state_dict(), …)"
            ) from error
    found: dict[str, SavedArray | ArrayList] = {}

    def collect(name: str, item: Any, deep: int) -> None:
        if isinstance(item, torch.Tensor):
            found[name] = _described(path, name, item)
        elif isinstance(item, (list, tuple)) and item and all(isinstance(one, torch.Tensor) for one in item):
            found[name] = tuple(_described(path, f"{name} {i}".strip(), one) for i, one in enumerate(item))
        elif deep < _DEEPEST and isinstance(item, (Mapping, list, tuple)):
            for key, within in item.items() if isinstance(item, Mapping) else enumerate(item):
                collect(f"{name}.{key}" if deep else str(key), within, deep + 1)

    if not isinstance(held, (torch.Tensor, Mapping, list, tuple)):
        raise ContentError(f"expected a tensor, or several in a dict, a list or a tuple, got {type(held).__name__}")
    collect("", held, 0)
    return found


def _described(path: Path, name: str, tensor: "Tensor") -> SavedArray:
    import torch

    numbers: Numbers = "float" if tensor.is_floating_point() else "other" if tensor.is_complex() else "whole"
    shape, dtype = tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch.")
    # A copy, as the file may change while the tensor is mapped to it.
    return SavedArray(path, name, shape, dtype, numbers, lambda: tensor.detach().to(torch.float32, copy=True).numpy())
