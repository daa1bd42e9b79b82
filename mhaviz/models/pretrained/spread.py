"""Spreads a model over several devices, the main memory and the disk, as accelerate does it, and finds where it lies.

What lies on the disk is read from the model's own files, layer by layer, whenever it runs.
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted
from mhaviz.models.pretrained.sharing import whole_weight
from mhaviz.units import parse_bytes

WAYS = ("auto", "balanced", "balanced_low_0", "sequential")
"""How a model may be spread; see accelerate. auto: as evenly as the devices have memory, the fastest first."""

_DIGITS = 5  # no machine has so many GPUs that their numbers have as many

MaxMemory = Mapping[str | int, str | int]
"""The most bytes on each device: {"cpu": "2GiB", 0: 10**10}, where 0 is cuda:0."""


@dataclass(frozen=True)
class Spread:
    """How a model is spread.

    Attributes:
        way: one of ``WAYS``.
        most: bytes that each device may hold, as accelerate names them; None: as much as is free.
    """

    way: str = "auto"
    most: Mapping[str | int, int] | None = None

    @classmethod
    def of(cls, way: str, max_memory: MaxMemory | str | None = None) -> "Spread":
        """What a user has asked for; ``max_memory`` may be text, "cpu=2GiB,0=10GiB".

        Raises:
            ArgumentError: no such way, or memory that cannot be read.
            MhavizError: accelerate is not installed.
        """
        if way not in WAYS:
            raise ArgumentError(f"{parameter('device_map')}: expected {', '.join(WAYS)}, got {quoted(way)}")
        most = None if max_memory is None else _parsed(max_memory)
        if find_spec("accelerate") is None:
            raise MhavizError(
                f'{parameter("device_map")} needs accelerate; install it with pip install "mhaviz[large]"'
            )
        return cls(way, most)

    def options(self) -> tuple[dict[str, Any], str]:
        """For ``from_pretrained``, and the temporary folder for weights that are not in the files as they are used."""
        folder = tempfile.mkdtemp(prefix="mhaviz-")
        return {"device_map": self.way, "max_memory": self.most and dict(self.most), "offload_folder": folder}, folder


def remove_with(model: nn.Module, folder: str) -> None:
    """Remove the temporary folder when the model is gone, or the program ends."""
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)


def is_spread(model: nn.Module) -> bool:
    """Whether it lies on more than one device."""
    return len(_places(model)) > 1 or "disk" in _places(model)


def input_device(model: PreTrainedModel) -> torch.device:
    """Where what the model reads must be: on its device, or on the first that computes where it is spread."""
    if not is_spread(model):
        return model.device
    computing = [place for place in _places(model) if place not in ("cpu", "disk")]
    return torch.device(computing[0] if computing else "cpu")


def where_it_lies(model: PreTrainedModel) -> str:
    """ "cpu", "cuda:0, cpu and disk"."""
    if not is_spread(model):
        return str(model.device)
    *others, last = _places(model)
    return f"{', '.join(others)} and {last}" if others else last


def lies_on_disk(model: PreTrainedModel) -> bool:
    """Whether parts of it lie there until they are needed."""
    return is_spread(model) and "disk" in _places(model)


@contextmanager
def weight_at_hand(module: nn.Module) -> Iterator[Tensor | None]:
    """The weight of a module, which lies on the disk until it is needed, or of which each process has a part."""
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and weight.is_meta:
        from accelerate.utils import align_module_device

        with align_module_device(module):
            yield getattr(module, "weight", None)
        return
    yield None if weight is None else whole_weight(weight)


def _places(model: nn.Module) -> list[str]:
    """The devices of a model that accelerate has spread, each once, the computing ones first; none of another."""
    names = {_name(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}
    return sorted(names, key=lambda name: ({"cpu": 1, "disk": 2}.get(name, 0), name))


def _name(place: object) -> str:
    return f"cuda:{place}" if isinstance(place, int) else str(place)


def _parsed(given: MaxMemory | str) -> dict[str | int, int]:
    """Bytes by device. Raises ArgumentError."""
    if isinstance(given, str):
        pairs = [pair.partition("=") for pair in given.split(",")]
        places = [place.strip() for place, _, _ in pairs]
        if lacking := next((place for place, between, _ in pairs if not between), ""):
            raise _unlike(quoted(lacking))
        if twice := next((place for place in places if places.count(place) > 1), ""):
            raise _unlike(f"{quoted(twice)} twice")
        given = {place: size for place, (_, _, size) in zip(places, pairs, strict=True)}
    most: dict[str | int, int] = {}
    for place, size in given.items():
        name = str(place).removeprefix("cuda:")
        is_gpu = name.isascii() and name.isdigit() and len(name) < _DIGITS
        if not is_gpu and name not in ("cpu", "mps"):
            raise _unlike(f"the device {quoted(str(place))}")
        try:
            number = size if isinstance(size, int) else parse_bytes(size)
        except ValueError as error:
            raise _unlike(quoted(size)) from error
        if number < 1:
            raise _unlike(f"{number} bytes")
        most[int(name) if is_gpu else name] = number
    return most


def _unlike(got: str) -> ArgumentError:
    expected = 'expected bytes for each device, such as "cpu=2GiB,0=10GiB", where 0 is cuda:0'
    return ArgumentError(f"{parameter('max_memory')}: {expected}, got {got}")
