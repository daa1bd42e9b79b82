"""Tensors of a .safetensors file, or of what torch.save has written: named, and read one by one."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mhaviz.devices import require_memory
from mhaviz.errors import MhavizError
from mhaviz.sources.reading import require_file, told
from mhaviz.sources.torch_files import load_tensors, shape_of, why_no_numbers

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_TYPES = (*_FLOATS, "BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "C64")
"""The types of a .safetensors file that have a number in every place; others, such as F4, are parts of numbers."""
_PARAMETERS_ALONE = "of a model save the parameters alone, with safetensors.torch.save_file(model.state_dict(), …)"


@dataclass(frozen=True)
class SavedTensor:
    """A tensor of a file, whose numbers are read only when they are asked for."""

    path: Path
    name: str
    _shape: tuple[int, ...]
    _read: Callable[[], Tensor]
    _no_numbers: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes. Raises MhavizError if it has no number in every place."""
        if self._no_numbers:
            raise self._error(self._no_numbers)
        return self._shape

    def numbers(self) -> Tensor:
        """A copy of its own, in float32.

        Raises:
            MhavizError: they are no floating-point numbers, not all finite, too many, or cannot be read.
        """
        _require_memory([self])
        with told(self.path):
            tensor = self._read().detach()
            if not tensor.is_floating_point() or tensor.is_quantized:
                raise self._error(str(tensor.dtype).removeprefix("torch."))
            numbers = tensor.to(torch.float32, copy=True).contiguous()
        if not (finite := numbers.isfinite()).all():
            place = (~finite).nonzero()[0].tolist()
            raise MhavizError(
                f"{self.path}: {self.name:.80}: expected finite numbers of float32, got {numbers[tuple(place)].item()} "
                f"at {place}"
            )
        return numbers

    def _error(self, got: str) -> MhavizError:
        return MhavizError(f"{self.path}: {self.name:.80}: expected floating-point numbers, got {got}")


def read_all(tensors: Mapping[str, SavedTensor]) -> dict[str, Tensor]:
    """The numbers of each. Raises MhavizError as ``numbers`` does, and if all of them together are too many."""
    _require_memory(tensors.values())
    return {name: tensor.numbers() for name, tensor in tensors.items()}


def _require_memory(tensors: Collection[SavedTensor]) -> None:
    float32, copies = 4, 2
    numbers = sum(math.prod(tensor.shape) for tensor in tensors)
    require_memory(float32 * copies * numbers, torch.device("cpu"), " and ".join({f"{t.path}" for t in tensors}))


def open_tensors(path: Path) -> dict[str, SavedTensor]:
    """The tensors of a file. What is in a dict of a dict has both names: "state_dict.encoder.weight".

    Raises:
        MhavizError: there is no such file, its suffix is none of ``SUFFIXES``, it is broken, or holds Python objects.
    """
    require_file(path, SUFFIXES)
    return _safetensors(path) if path.suffix.lower() == ".safetensors" else _pickled(path)


def _safetensors(path: Path) -> dict[str, SavedTensor]:
    from safetensors import safe_open

    with told(path):
        file: Any = safe_open(path, "pt")  # open for as long as its tensors are wanted

        def tensor(name: str) -> SavedTensor:
            part = file.get_slice(name)
            dtype = part.get_dtype()
            no_numbers = None if dtype in _TYPES else f"{dtype}; save them as float32"
            return SavedTensor(path, name, tuple(part.get_shape()), lambda: file.get_tensor(name), no_numbers)

        return {name: tensor(name) for name in file.keys()}  # noqa: SIM118


def _pickled(path: Path) -> dict[str, SavedTensor]:
    with told(path, _PARAMETERS_ALONE):
        held = load_tensors(path)
    if isinstance(held, tuple):
        raise MhavizError(f"{path}: expected a state dict, tensors by their names, got a list of tensors")
    named = {"input": held} if isinstance(held, Tensor) else held

    def saved(name: str, tensor: Tensor) -> SavedTensor:
        return SavedTensor(path, name, shape_of(tensor), lambda: tensor, why_no_numbers(tensor))

    return {name: saved(name, tensor) for name, tensor in named.items() if isinstance(tensor, Tensor)}
