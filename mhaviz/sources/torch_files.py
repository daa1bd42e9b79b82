"""What torch.save has written: tensors, and containers of them. Nothing else that is in such a file is ever run."""

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mhaviz.memory import free_main_memory, shortage
from mhaviz.sources.reading import NoWeightsError, unpacked_bytes
from mhaviz.units import readable_bytes

Tensors = tuple[Tensor, ...]
"""A list of nothing but tensors, such as those of a model's layers."""

_DEEPEST = 4  # containers within containers


def load_tensors(path: Path) -> Tensor | Tensors | dict[str, Tensor | Tensors]:
    """A tensor, a list of tensors, or several of both by their names: "state_dict.encoder.weight" in a dict of a dict.

    Raises:
        NoWeightsError: the file holds nothing that could be tensors. PyTorch raises whatever it likes of a broken file.
    """
    unpacked = unpacked_bytes(path)
    if short := shortage(2 * unpacked, free_main_memory()):
        raise NoWeightsError(f"it unpacks to {readable_bytes(unpacked)}, and needs {short}; save fewer tensors")
    is_mapped = zipfile.is_zipfile(path) and not unpacked  # what is packed would be taken for numbers as it is
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old formats
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped)
    if (tensors := _tensors(held)) is not None:
        return tensors
    if (items := _items(held)) is None:
        raise NoWeightsError(f"expected a tensor, or several in a dict, a list or a tuple, got {type(held).__name__}")
    found: dict[str, Tensor | Tensors] = {}

    def collect(prefix: str, items: Mapping[Any, Any], deep: int) -> None:
        for key, item in items.items():
            name = f"{prefix}{key}"
            if (tensors := _tensors(item)) is not None:
                found[name] = tensors
            elif deep < _DEEPEST and (within := _items(item)) is not None:
                collect(f"{name}.", within, deep + 1)

    collect("", items, 1)
    return found


def _tensors(held: Any) -> Tensor | Tensors | None:
    if isinstance(held, Tensor):
        return held
    if isinstance(held, (list, tuple)) and held and all(isinstance(item, Tensor) for item in held):
        return tuple(held)
    return None


def _items(held: Any) -> Mapping[Any, Any] | None:
    if isinstance(held, Mapping):
        return held
    return dict(enumerate(held)) if isinstance(held, (list, tuple)) else None


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Its sizes; none of a nested tensor, which has no such thing."""
    return () if tensor.is_nested else tuple(tensor.shape)


def why_no_numbers(tensor: Tensor) -> str | None:
    """What a tensor is that has no number in every place, and what to save in its stead."""
    if tensor.is_nested:
        return "a nested tensor; save one of its unbind()"
    if tensor.is_meta:
        return "a meta tensor, which has a shape but no numbers; save the model after its weights are loaded"
    if tensor.layout is not torch.strided:
        return "a sparse tensor; save its to_dense()"
    return None
