"""Spreading of a model over several devices, main memory and disk with accelerate.

Weights on the disk are read from the model's own files, layer by layer, whenever it runs.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mhaviz.devices import free_memory
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted, reason
from mhaviz.memory import shortage
from mhaviz.models.transformers.sharing import whole_weight
from mhaviz.units import readable_bytes

_LARGE = 2**30
"""Bytes from which on a notice says how much memory a model needs."""

MaxMemory = Mapping[str | int, str | int]
"""The most bytes on each device: {"cpu": "2GiB", 0: 10**10}, where 0 is cuda:0."""


@dataclass(frozen=True)
class Spread:
    """Plan for spreading a model.

    Attributes:
        way: transformers' ``device_map``: "auto", "balanced", "balanced_low_0", or "sequential".
        most: most bytes on each device, by accelerate's names of devices; None: the free memory.
    """

    way: str = "auto"
    most: Mapping[str | int, int] | None = None

    @classmethod
    def of(cls, way: str, max_memory: MaxMemory | str | None = None) -> "Spread":
        """Return the plan for a user's options; ``max_memory`` may be text, such as "cpu=2GiB,0=10GiB".

        Raises:
            ArgumentError: a size that accelerate cannot parse.
            MhavizError: accelerate is not installed.
        """
        with as_one_line("spreading a model needs accelerate", 'install it with pip install "mhaviz[large]"'):
            from accelerate.utils import get_max_memory
        if max_memory is None:
            return cls(way)
        try:
            pairs: Any = max_memory
            if isinstance(max_memory, str):
                pairs = (map(str.strip, pair.split("=")) for pair in max_memory.split(","))
            most = {int(place) if str(place).isdecimal() else place: size for place, size in dict(pairs).items()}
            return cls(way, get_max_memory(most))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{parameter('max_memory')}: expected bytes for each device, such as cpu=2GiB,0=10GiB, where 0 is "
                f"cuda:0, got {quoted(max_memory)} ({reason(error)})"
            ) from error

    @property
    def free(self) -> dict[str, int | None]:
        """Bytes that may be used on each device; None: not known."""
        from accelerate.utils import get_max_memory

        there = get_max_memory()
        most = self.most or there
        free = {place: free_memory(torch.device(_name(place))) for place in there if place in most}
        return {_name(place): min(most[place], size or most[place]) for place, size in free.items()}

    def options(self, temporary: ExitStack) -> dict[str, Any]:
        """Return the arguments of ``from_pretrained``.

        Weights on the disk that differ from the files are kept in a folder until ``temporary`` is closed.
        """
        folder = temporary.enter_context(tempfile.TemporaryDirectory(prefix="mhaviz-", ignore_cleanup_errors=True))
        return {"device_map": self.way, "max_memory": self.most and dict(self.most), "offload_folder": folder}


def require_fit(
    name: str, needed: int, device: torch.device, spread: Spread | None, on_notice: Callable[[str], None]
) -> None:
    """Notify the user of the memory that a large model needs, and of the free memory of each device.

    Raises:
        MhavizError: the model is not spread, and does not fit.
    """
    if needed >= _LARGE:
        free = {str(device): free_memory(device)} if spread is None else spread.free
        known = [f"{readable_bytes(there)} on {place}" for place, there in free.items() if there is not None]
        on_notice(
            f"{name} needs about {readable_bytes(needed)} of memory{'; free: ' * bool(known)}{', '.join(known)}"
            + ", and the disk" * (spread is not None)
        )
    if spread is None and (short := shortage(needed, free_memory(device), str(device))):
        raise MhavizError(
            f"the model {name} needs {short}; spread it over all devices and the disk by {parameter('device_map')}, or "
            f"take a smaller {parameter('dtype')}"
        )


def input_device(model: PreTrainedModel) -> torch.device:
    """Return the device of the model's inputs: its own device, or the first computing one of a spread model."""
    places = _places(model)
    return model.device if not places else torch.device("cpu" if places[0] == "disk" else places[0])


def where_it_lies(model: PreTrainedModel) -> str:
    """Return the devices of the model in words: "cpu", "cuda:0, cpu and disk"."""
    *others, last = _places(model) or [str(model.device)]
    return f"{', '.join(others)} and {last}" if others else last


def lies_on_disk(model: PreTrainedModel) -> bool:
    """Return whether some of the model's weights are on the disk until they are needed."""
    return "disk" in _places(model)


@contextmanager
def weight_at_hand(module: nn.Module) -> Iterator[Tensor | None]:
    """Provide the whole weight of a module, even if it is on the disk or split among processes; None: it has none."""
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and weight.is_meta:
        from accelerate.utils import align_module_device

        with align_module_device(module):
            yield getattr(module, "weight", None)
        return
    yield None if weight is None else whole_weight(weight)


def _places(model: nn.Module) -> list[str]:
    """Return the devices of a model that accelerate has spread, the computing ones first; empty for other models."""
    names = {_name(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}
    return sorted(names, key=lambda name: ({"cpu": 1, "disk": 2}.get(name, 0), name))


def _name(place: object) -> str:
    return f"cuda:{place}" if isinstance(place, int) else str(place)
