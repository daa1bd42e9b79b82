"""Comparison of a model's configuration with the sizes of its weight files, before the weights are loaded."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mhaviz.errors import MhavizError, quoted
from mhaviz.files.safetensors_files import read_safetensors
from mhaviz.units import readable_count

_PACKED = 8
"""Most quantised weights in one stored number: 4 bits each, in 32."""

_BUILT_ALWAYS = 2**24
"""Allowance of numbers that files need not hold, such as computed tables of positions: 64 MiB of float32."""


@dataclass(frozen=True)
class FileSizes:
    """Sizes of weight files.

    Attributes:
        stored: number of elements of all tensors.
        bytes: size of the files.
        dtype: torch's name of the first floating-point type in the files.
        is_packed: whether the weights are quantised, so that one stored number may hold several.
    """

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
    return FileSizes(stored, size, next(floats, "float32"))


def require_model(
    kind: type[PreTrainedModel], config: PreTrainedConfig, attention: str, sizes: FileSizes, name: str
) -> int:
    """Build the model on the meta device, and return the number of its parameters.

    Args:
        kind: class of the model.
        config: its configuration.
        attention: the attention implementation to build with, as the configuration may ask for one that is not
            installed.
        sizes: sizes of its weight files.
        name: name of the model, for errors.

    Raises:
        MhavizError: the files lack most of the parameters.
    """
    copied = copy.deepcopy(config)
    copied._attn_implementation = attention
    with torch.device("meta"):
        model = kind(copied)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    if numbers > 2.5 * sizes.numbers + _BUILT_ALWAYS:  # stored weights may be shared by several parameters
        raise MhavizError(
            f"{name}: its config.json asks for {readable_count(numbers)} numbers, and its weight files hold "
            f"{readable_count(sizes.numbers)}; take both of the same model"
        )
    return numbers


def mismatch(others: Sequence[tuple[str, Sequence[int], Sequence[int]]], name: str) -> MhavizError:
    """Return an error about tensors, each (name, shape in the files, shape in the model), that names the first."""
    key, there, wanted = others[0]
    more = f"; so do {len(others) - 1:,} others" if len(others) > 1 else ""
    return MhavizError(
        f"{name}: its config.json and its weights do not fit: {quoted(key)} has the shape {tuple(there)} in the files, "
        f"and {tuple(wanted)} by the config.json{more}; take both of the same model"
    )
