"""Comparison of a model's configuration with the sizes of its weight files, before the model is built.

A config.json may ask for a million layers. Building them would take minutes and gigabytes, before it turned out that
there are no weights for them.
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
"""Names of fields that are lengths of lists, which transformers creates together with the configuration."""

_MOST_LISTED = 2**17
"""Largest allowed value of such a field."""

_PACKED = 8
"""Most quantised weights in one stored number: 4 bits each, in 32."""

_BUILT_ALWAYS = 2**24
"""Allowance of numbers that files need not hold, such as computed tables of positions: 64 MiB of float32."""


@dataclass(frozen=True)
class FileSizes:
    """Sizes of weight files.

    Attributes:
        tensors: number of tensors.
        stored: number of elements of all tensors.
        bytes: size of the files.
        dtype: torch's name of the first floating-point type in the files.
        is_packed: whether the weights are quantised, so that one stored number may hold several.
    """

    tensors: int = 0
    stored: int = 0
    bytes: int = 0
    dtype: str = "float32"
    is_packed: bool = False

    @property
    def numbers(self) -> int:
        """Most weights that the stored numbers may hold."""
        return self.stored * (_PACKED if self.is_packed else 1)

    def bytes_of(self, parameters: int, own: object, dtype: str) -> int:
        """Return the bytes of ``parameters`` weights in memory; ``own``: the configuration's type, for "auto"."""
        if self.is_packed:
            return self.bytes
        own = own if isinstance(own, torch.dtype) else getattr(torch, self.dtype)
        return parameters * int((own if dtype == "auto" else getattr(torch, dtype)).itemsize)


def read_sizes(files: Sequence[Path]) -> FileSizes:
    """Read sizes, except ``is_packed``, from the headers of safetensors files. Raises MhavizError if one is broken."""
    held = [array for path in files for array in read_safetensors(path)[0].values()]
    floats = (array.dtype for array in held if array.numbers == "float")
    stored, size = sum(prod(array.shape) for array in held), sum(path.stat().st_size for path in files)
    return FileSizes(len(held), stored, size, next(floats, "float32"))


def require_fields(fields: Mapping[str, object], sizes: FileSizes, name: str) -> None:
    """Raise MhavizError if creating the configuration would create huge lists, such as names of ten million labels."""
    for key, value in fields.items():
        if isinstance(value, dict):
            require_fields(value, sizes, name)
        elif isinstance(value, int) and value > _MOST_LISTED and _LISTED.search(key):
            raise _misfit(name, f"{key} {counted(value)}", f"{sizes.tensors:,} tensors")


def require_model(
    kind: type[PreTrainedModel], config: PreTrainedConfig, attention: str | None, sizes: FileSizes, name: str
) -> int:
    """Build the model on the meta device, and return the number of its parameters.

    Args:
        kind: class of the model.
        config: its configuration.
        attention: the attention implementation to build with; None: the usual one. The configuration may ask for one
            that is not installed.
        sizes: sizes of its weight files.
        name: name of the model, for errors.

    Raises:
        MhavizError: the files lack most of the parameters.
    """
    copied = copy.deepcopy(config)
    copied._attn_implementation = attention
    with torch.device("meta"), _at_most(sizes, name):
        model = kind(copied)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    if numbers > 2.5 * sizes.numbers + _BUILT_ALWAYS:  # stored weights may be shared by several parameters
        raise _misfit(name, f"{readable_count(numbers)} numbers", readable_count(sizes.numbers))
    return numbers


def mismatch(others: Sequence[tuple[str, Sequence[int], Sequence[int]]], name: str) -> MhavizError:
    """Return an error about tensors, each (name, shape in the files, shape in the model), that names the first."""
    key, there, wanted = others[0]
    more = f"; so do {len(others) - 1:,} others" if len(others) > 1 else ""
    return MhavizError(
        f"{name}: its config.json and its weights do not fit: {quoted(key)} has the shape {tuple(there)} in the files, "
        f"and {tuple(wanted)} by the config.json{more}; take both of the same model"
    )


@contextmanager
def _at_most(sizes: FileSizes, name: str) -> Iterator[None]:
    """Raise MhavizError when a model that this thread builds becomes far larger than its files."""
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
