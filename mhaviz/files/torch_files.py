"""Tensors in files of torch.save, and in containers there. Code in such files is never run."""

import io
import mmap
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED

from mhaviz.files.archives import opened
from mhaviz.files.errors import ContentError
from mhaviz.files.pickles import require_modest
from mhaviz.files.saved_array import MOST_ARRAYS, ArrayList, Numbers, SavedArray
from mhaviz.memory import free_main_memory, shortage
from mhaviz.units import readable_bytes

if TYPE_CHECKING:
    from torch import Tensor

    _Part = Tensor | list[Tensor] | None

_DEEPEST = 4  # containers within containers
_MOST_BESIDE = 2**28  # bytes of an archive beside numbers, which PyTorch reads whole: the pickle, and a few words
_PICKLES = 5  # in an old file, before its numbers
_ZIP = b"PK\3\4"  # first bytes of an archive, as PyTorch tells it
_BROKEN = (
    "it is truncated or damaged, or holds Python objects, which mhaviz never runs; save only tensors, such as a "
    "model's parameters, with safetensors.torch.save_file(model.state_dict(), …)"
)
_OF_TRANSFORMERS = re.compile(r"GLOBAL transformers\.[\w.]*?(\w+Output\w*) ")  # in what PyTorch raises


def _require_modest(path: Path, is_archive: bool) -> bool:
    """Raise ContentError if reading the file would take long, or does not fit into memory. Return whether it is packed.

    Other errors are raised for a broken file.
    """
    if not is_archive:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for _ in range(_PICKLES):
                require_modest(content)  # type: ignore[arg-type]
        return False
    with opened(path) as archive:
        members = archive.infolist()
        is_packed = any(member.compress_type != ZIP_STORED for member in members)
        unpacked = sum(member.file_size for member in members) if is_packed else 0
        if short := shortage(2 * unpacked, free_main_memory()):
            raise ContentError(f"it unpacks to {readable_bytes(unpacked)}, and needs {short}; save fewer tensors")
        if (beside := sum(member.file_size for member in members if "/data/" not in member.filename)) > _MOST_BESIDE:
            raise ContentError(f"it holds {readable_bytes(beside)} beside the numbers of tensors; save only tensors")
        for member in members:
            if member.filename.endswith("data.pkl"):
                require_modest(io.BytesIO(archive.read(member)))
    return is_packed


def read_torch(path: Path) -> dict[str, SavedArray | ArrayList]:
    """Return tensors and lists of tensors by name, such as "state_dict.encoder.weight" in nested dicts.

    A single tensor, or a list of tensors only, has the name "".

    Raises:
        ContentError: the file holds no tensors, is broken, or does not fit into memory.
    """
    import torch

    with warnings.catch_warnings(), path.open("rb") as stream:
        warnings.simplefilter("ignore")  # about old formats
        is_archive = stream.read(len(_ZIP)) == _ZIP
        stream.seek(0)
        try:
            is_packed = _require_modest(path, is_archive)
            # mmap would read compressed members as raw numbers. PyTorch cannot open files whose names are not UTF-8.
            is_mapped = is_archive and not is_packed and str(path).isprintable()
            held = torch.load(path if is_mapped else stream, map_location="cpu", weights_only=True, mmap=is_mapped)
        except (ContentError, MemoryError):
            raise
        except Exception as error:  # PyTorch's own message advises running the code in it
            if output := _OF_TRANSFORMERS.search(str(error)):
                raise ContentError(
                    f"it holds {output[1]:.60} of transformers, a Python object, which mhaviz never runs; save the "
                    "tensors in it, torch.save(output.attentions, …)"
                ) from error
            raise ContentError(_BROKEN) from error
    if not isinstance(held, (torch.Tensor, Mapping, list, tuple)):
        raise ContentError(f"expected a tensor, or several in a dict, a list or a tuple, got {type(held).__name__}")
    found: dict[str, SavedArray | ArrayList] = {}
    number = 0
    for name, item in _parts(held):
        number += len(item) if isinstance(item, list) else 1
        if number > MOST_ARRAYS:  # a few lists that hold one another many times have any number
            raise ContentError(f"expected at most {MOST_ARRAYS:,} tensors, lists and dicts, got more; save fewer")
        if isinstance(item, torch.Tensor):
            found[name] = _described(path, name, item)
        elif item is not None:
            found[name] = tuple(_described(path, f"{name} {i}".strip(), one) for i, one in enumerate(item))
    return found


def _parts(held: Any) -> "Iterator[tuple[str, _Part]]":
    """Iterate over tensors, lists of tensors only, and other containers, which are None, by name, depth first."""
    from torch import Tensor

    seen: dict[int, tuple[list[Tensor] | None, list[tuple[Any, Any]]]] = {}  # a container may have many names

    def parts(name: str, item: Any, deep: int) -> "Iterator[tuple[str, _Part]]":
        if isinstance(item, Tensor):
            yield name, item
            return
        if id(item) not in seen:
            seen[id(item)] = _split(item)
        tensors, named = seen[id(item)]
        yield name, tensors
        if tensors is None and deep < _DEEPEST:
            for key, part in named:
                yield from parts(f"{name}.{key}" if deep else str(key), part, deep + 1)

    return parts("", held, 0)


def _split(container: Any) -> "tuple[list[Tensor] | None, list[tuple[Any, Any]]]":
    """Return the tensors of a list or tuple of tensors only, else None; and the tensors and containers with keys."""
    from torch import Tensor

    items = container.items() if isinstance(container, Mapping) else enumerate(container)
    named = [(key, part) for key, part in items if isinstance(part, (Tensor, Mapping, list, tuple))]
    tensors = [part for _, part in named if isinstance(part, Tensor)]
    is_list = not isinstance(container, Mapping) and 0 < len(tensors) == len(container)
    return tensors if is_list else None, named


def _described(path: Path, name: str, tensor: "Tensor") -> SavedArray:
    import torch

    numbers: Numbers = "float" if tensor.is_floating_point() else "other" if tensor.is_complex() else "whole"
    shape, dtype = tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch.")
    # A copy, as the file may change while the tensor is mapped to it.
    return SavedArray(path, name, shape, dtype, numbers, lambda: tensor.detach().to(torch.float32, copy=True).numpy())
