"""Compares what a configuration asks for with what its weight files hold, before anything is built.

A folder's config.json may ask for a million layers: building them takes minutes and gigabytes, and only then it shows
that there are no weights for them.
"""

import copy
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import PreTrainedConfig, PreTrainedModel

from mhaviz.errors import MhavizError, counted, quoted
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.units import readable_count

_LISTED = re.compile(r"(layers?|blocks?|repeats|loops|cycles|labels|kernel_size)$")
"""Fields that lists of a configuration are as long as: these are made with it, before anything is built."""

_MOST_LISTED = 2**17
"""So long they may be."""

_PACKED = 8
"""Numbers that one may stand for where weights are quantised: of 4 bits each, in 32."""

_BUILT_ALWAYS = 2**24
"""Numbers that no file need hold, such as tables of positions that are computed: 64 MiB of float32."""


@dataclass(frozen=True)
class FileSizes:
    """What is in weight files.

    Attributes:
        tensors: how many.
        stored: numbers of all tensors together.
        bytes: of the files.
        dtype: of their first floating-point numbers, as torch calls it.
        is_packed: whether they are quantised, so that the numbers say little.
    """

    tensors: int = 0
    stored: int = 0
    bytes: int = 0
    dtype: str = "float32"
    is_packed: bool = False

    @property
    def numbers(self) -> int:
        """As many as those that are stored may stand for."""
        return self.stored * (_PACKED if self.is_packed else 1)

    def bytes_of(self, parameters: int, own: object, dtype: str) -> int:
        """Of so many parameters, as they will be in memory; ``own``: what the configuration says of "auto"."""
        if self.is_packed:
            return self.bytes
        own = own if isinstance(own, torch.dtype) else getattr(torch, self.dtype)
        return parameters * int((own if dtype == "auto" else getattr(torch, dtype)).itemsize)


def read_sizes(files: Sequence[Path]) -> FileSizes:
    """What the headers of safetensors tell, which do not say if they are packed. Raises MhavizError of a broken one."""
    held = [array for path in files for array in read_safetensors(path)[0].values()]
    floats = (array.dtype for array in held if array.numbers == "float")
    stored, size = sum(prod(array.shape) for array in held), sum(path.stat().st_size for path in files)
    return FileSizes(len(held), stored, size, next(floats, "float32"))


def require_fields(fields: Mapping[str, object], sizes: FileSizes, name: str) -> None:
    """Raise MhavizError if not even a configuration can be made: ten million labels have names of their own."""
    for key, value in fields.items():
        if isinstance(value, dict):
            require_fields(value, sizes, name)
        elif isinstance(value, int) and value > _MOST_LISTED and _LISTED.search(key):
            raise _misfit(name, f"{key} {counted(value)}", f"{sizes.tensors:,} tensors")


def require_model(
    kind: type[PreTrainedModel], config: PreTrainedConfig, attention: str, sizes: FileSizes, name: str
) -> int:
    """Build the model without memory, and count its parameters. Raises MhavizError if the files lack most of them.

    ``attention``: the implementation that it will run with. A folder may ask for one that is not on this machine.
    """
    copied = copy.deepcopy(config)
    copied._attn_implementation = attention
    with torch.device("meta"), _at_most(sizes, name):
        model = kind(copied)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    if numbers > 2.5 * sizes.numbers + _BUILT_ALWAYS:  # those that are there may have other names, or be shared
        raise _misfit(name, f"{readable_count(numbers)} numbers", readable_count(sizes.numbers))
    return numbers


def mismatch(others: Sequence[tuple[str, Sequence[int], Sequence[int]]], name: str) -> MhavizError:
    """An error that names the first tensor of another shape, (its name, in the files, in the model)."""
    key, there, wanted = others[0]
    more = f"; so do {len(others) - 1:,} others" if len(others) > 1 else ""
    return MhavizError(
        f"{name}: its config.json and its weights do not fit: {quoted(key)} has the shape {tuple(there)} in the files, "
        f"and {tuple(wanted)} by the config.json{more}; take both of the same model"
    )


@contextmanager
def _at_most(sizes: FileSizes, name: str) -> Iterator[None]:
    """Stop building a model that becomes far larger than its files: names may differ, but not by so much.

    What other threads build meanwhile is none of it, and is left alone.
    """
    most = 8 * sizes.tensors + 4096, 8 * sizes.numbers + 4 * _BUILT_ALWAYS
    built = [0, 0]
    builder = threading.get_ident()

    def count(module: nn.Module, field: str, tensor: Tensor | None) -> None:
        if tensor is None or threading.get_ident() != builder:
            return
        built[0] += 1
        built[1] += tensor.numel()
        if built[0] > most[0]:
            raise _misfit(name, f"more than {most[0]:,} tensors", f"{sizes.tensors:,}")
        if built[1] > most[1]:
            raise _misfit(name, f"more than {readable_count(most[1])} numbers", readable_count(sizes.numbers))

    hooks = [register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _misfit(name: str, asked: str, there: str) -> MhavizError:
    return MhavizError(
        f"{name}: its config.json asks for {asked}, and its weight files hold {there}; take both of the same model"
    )
