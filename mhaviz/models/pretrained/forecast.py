"""Says before a model is loaded how much memory it needs, and how much there is, by device."""

from dataclasses import dataclass

import torch
from transformers import PreTrainedConfig

from mhaviz.devices import free_memory
from mhaviz.errors import MhavizError, parameter
from mhaviz.models.pretrained.sizes import FileSizes
from mhaviz.models.pretrained.spread import Spread
from mhaviz.units import readable_bytes

_LARGE = 2**30
"""Bytes; of smaller models nobody asks how much memory they take."""


@dataclass(frozen=True)
class Forecast:
    """What loading a model takes.

    Attributes:
        needed: bytes of its parameters, as they will be in memory.
        free: bytes by device; None where nobody tells.
        is_spread: whether it may lie on all of them, and on the disk.
    """

    needed: int
    free: dict[str, int | None]
    is_spread: bool

    def notice(self, name: str) -> str | None:
        """A line about a large model; None of others."""
        if self.needed < _LARGE:
            return None
        known = [f"{readable_bytes(free)} on {place}" for place, free in self.free.items() if free is not None]
        there = f"; free: {', '.join(known)}" if known else ""
        return f"{name} needs about {readable_bytes(self.needed)} of memory{there}" + (
            ", and the disk" if self.is_spread else ""
        )

    def require_fit(self, name: str) -> None:
        """Raise MhavizError if a model for one device does not fit there; it says both numbers, and what to do."""
        if self.is_spread:
            return
        ((place, free),) = self.free.items()
        if free is None or self.needed <= free:
            return
        raise MhavizError(
            f"the model {name} needs about {readable_bytes(self.needed)} of memory on {place}, where "
            f"{readable_bytes(free)} are free; spread it over all devices and the disk by "
            f"{parameter('device_map')}, or take a smaller {parameter('dtype')}"
        )


def forecast(
    numbers: int,
    sizes: FileSizes,
    config: PreTrainedConfig,
    dtype: str,
    device: torch.device,
    spread: Spread | None,
    parts: int = 1,
) -> Forecast:
    """What a model takes whose files and configuration have been read.

    Args:
        numbers: parameters that it is built of.
        sizes: of its files.
        config: which says what type of numbers "auto" is.
        dtype: that was asked for.
        device: where it goes, if it is not spread.
        spread: how it is spread; None: it is not.
        parts: processes that share it.
    """
    own = config.dtype if isinstance(config.dtype, torch.dtype) else getattr(torch, sizes.dtype)
    needed = sizes.bytes if sizes.is_packed else numbers * (own if dtype == "auto" else getattr(torch, dtype)).itemsize
    free = {str(device): free_memory(device)} if spread is None else _free(spread)
    return Forecast(needed // parts, free, spread is not None)


def _free(spread: Spread) -> dict[str, int | None]:
    """By device, those that compute first, as far as each may be used."""
    gpus = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    places: dict[str | int, torch.device] = {i: torch.device("cuda", i) for i in gpus}
    if torch.backends.mps.is_available():
        places["mps"] = torch.device("mps")
    places["cpu"] = torch.device("cpu")
    free: dict[str, int | None] = {}
    for place, device in places.items():
        if spread.most is None or place in spread.most:
            there, most = free_memory(device), (spread.most or {}).get(place)
            free[str(device)] = there if most is None else most if there is None else min(there, most)
    return free
