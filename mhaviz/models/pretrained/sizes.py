"""Compares what a configuration asks for with what its weight files hold, before anything is built.

A folder's config.json may ask for a million layers: building them takes minutes and gigabytes, and only then it shows
that there are no weights for them.
"""

import copy
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
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
        shapes: of each tensor, by its name.
        is_packed: whether they are quantised, so that shapes say little.
        dtypes: of their numbers, by the same names: "float32", "bfloat16".
    """

    shapes: Mapping[str, tuple[int, ...]]
    is_packed: bool = False
    dtypes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> int:
        """Of all tensors together, as many as they may stand for."""
        return sum(map(prod, self.shapes.values())) * (_PACKED if self.is_packed else 1)


def read_sizes(files: Sequence[Path], name: str) -> FileSizes:
    """The shapes that the headers of safetensors tell, which do not say whether they are packed.

    Raises MhavizError if one is broken.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for path in files:
        try:
            arrays, _ = read_safetensors(path)
        except MhavizError as error:
            raise MhavizError(f"{name}: {error}; take another copy of it") from error
        shapes |= {key: array.shape for key, array in arrays.items()}
        dtypes |= {key: array.dtype for key, array in arrays.items()}
    return FileSizes(shapes, dtypes=dtypes)


def require_fields(fields: Mapping[str, object], sizes: FileSizes, name: str) -> None:
    """Raise MhavizError if not even a configuration can be made: ten million labels have names of their own."""
    for key, value in fields.items():
        if isinstance(value, dict):
            require_fields(value, sizes, name)
        elif isinstance(value, int) and value > _MOST_LISTED and _LISTED.search(key):
            raise _misfit(name, f"{key} {counted(value)}", f"{len(sizes.shapes):,} tensors")


def require_model(
    kind: type[PreTrainedModel], config: PreTrainedConfig, attention: str, sizes: FileSizes, name: str
) -> None:
    """Build the model without memory, and raise MhavizError if it has other sizes than the files.

    ``attention``: the implementation that it will run with. A folder may ask for one that is not on this machine.
    """
    copied = copy.deepcopy(config)
    copied._attn_implementation = attention
    with torch.device("meta"), _at_most(sizes, name):
        model = kind(copied)
    if sizes.is_packed:
        return
    built = {key: tuple(parameter.shape) for key, parameter in model.state_dict().items()}
    pairs = {key: _of_file(key, sizes, model.base_model_prefix) for key in built}
    others = [
        (key, sizes.shapes[other], built[key])
        for key, other in pairs.items()
        if other is not None and prod(sizes.shapes[other]) != prod(built[key])
    ]
    if others:
        raise mismatch(others, name)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    lacking = {key: prod(built[key]) for key, other in pairs.items() if other is None and key not in tied}
    if sum(lacking.values()) > 1.5 * sizes.numbers + _BUILT_ALWAYS:  # all may be there, by other names
        together = f"{readable_count(sum(lacking.values()))} numbers that are not there"
        raise _misfit(name, f"{quoted(next(iter(lacking)))} and more, {together}", readable_count(sizes.numbers))


def mismatch(others: Sequence[tuple[str, Sequence[int], Sequence[int]]], name: str) -> MhavizError:
    """An error that names the first tensor of another shape, (its name, in the files, in the model)."""
    key, there, wanted = others[0]
    more = f"; so do {len(others) - 1:,} others" if len(others) > 1 else ""
    return MhavizError(
        f"{name}: its config.json and its weights do not fit: {quoted(key)} has the shape "
        f"{' × '.join(map(str, there)) or 'of a number'} in the files, and {' × '.join(map(str, wanted)) or 'none'} by "
        f"the config.json{more}; take both of the same model"
    )


def _of_file(key: str, sizes: FileSizes, prefix: str) -> str | None:
    """What a parameter is called in the files, which may be of the model with a head, or of what is below it."""
    names = (key, f"{prefix}.{key}", key.removeprefix(f"{prefix}."))
    return next((name for name in names if name in sizes.shapes), None)


@contextmanager
def _at_most(sizes: FileSizes, name: str) -> Iterator[None]:
    """Stop building a model that becomes far larger than its files: names may differ, but not by so much.

    What other threads build meanwhile is none of it, and is left alone.
    """
    most = 8 * len(sizes.shapes) + 4096, 8 * sizes.numbers + 4 * _BUILT_ALWAYS
    built = [0, 0]
    builder = threading.get_ident()

    def count(module: nn.Module, field: str, tensor: Tensor | None) -> None:
        if tensor is None or threading.get_ident() != builder:
            return
        built[0] += 1
        built[1] += tensor.numel()
        if built[0] > most[0]:
            raise _misfit(name, f"more than {most[0]:,} tensors", f"{len(sizes.shapes):,}")
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
