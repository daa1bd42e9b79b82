"""Tensors of a .safetensors file, or of what torch.save has written: named, and read one by one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mhaviz.devices import require_memory
from mhaviz.errors import MhavizError
from mhaviz.sources.reading import load_pt, require_file, told

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_DEEPEST = 4  # containers within containers
_NEVER_RUN = (
    "it holds Python objects, such as a whole model, which mhaviz never runs; save the parameters alone, with "
    "safetensors.torch.save_file(model.state_dict(), …)"
)


@dataclass(frozen=True)
class SavedTensor:
    """A tensor of a file, whose numbers are read only when they are asked for."""

    path: Path
    name: str
    shape: tuple[int, ...]
    _read: Callable[[], Tensor]

    def numbers(self) -> Tensor:
        """A copy of its own, in float32.

        Raises:
            MhavizError: they are no floating-point numbers, not all finite, too many, or cannot be read.
        """
        float32, copies = 4, 2
        require_memory(float32 * copies * torch.Size(self.shape).numel(), torch.device("cpu"), f"{self.path}")
        with told(self.path):
            tensor = self._read().detach()
            if not tensor.is_floating_point() or tensor.layout is not torch.strided or tensor.is_quantized:
                dtype = str(tensor.dtype).removeprefix("torch.")
                raise MhavizError(f"{self.path}: {self.name:.80}: expected floating-point numbers, got {dtype}")
            numbers = tensor.to(torch.float32, copy=True).contiguous()
        if not (finite := numbers.isfinite()).all():
            place = (~finite).nonzero()[0].tolist()
            raise MhavizError(
                f"{self.path}: {self.name:.80}: expected finite numbers of float32, got {numbers[tuple(place)].item()} "
                f"at {place}"
            )
        return numbers


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
            shape = tuple(file.get_slice(name).get_shape())
            return SavedTensor(path, name, shape, lambda: file.get_tensor(name))

        return {name: tensor(name) for name in file.keys()}  # noqa: SIM118


def _pickled(path: Path) -> dict[str, SavedTensor]:
    with told(path, _NEVER_RUN):
        held = load_pt(path)
    if isinstance(held, Tensor):
        held = {"input": held}
    if not isinstance(held, Mapping):
        raise MhavizError(f"{path}: expected a state dict, tensors by their names, got {type(held).__name__}")
    found: dict[str, SavedTensor] = {}

    def collect(prefix: str, some: Mapping[Any, Any], deep: int) -> None:
        for key, value in some.items():
            name = f"{prefix}{key}"
            if isinstance(value, Tensor):
                found[name] = SavedTensor(path, name, tuple(value.shape), lambda value=value: value)  # type: ignore[misc]
            elif isinstance(value, Mapping) and deep < _DEEPEST:
                collect(f"{name}.", value, deep + 1)

    collect("", held, 1)
    return found
