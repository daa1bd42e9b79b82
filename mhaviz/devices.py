"""Where the layer runs, and whether it will fit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.memory import free_main_memory, shortage


def resolve_device(name: str) -> torch.device:
    """The device of that name: "auto" (the fastest there is), "cpu", "cuda", "cuda:1", "mps".

    Raises:
        ArgumentError: there is no such name.
        MhavizError: the device is not there.
    """
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", name):
        raise ArgumentError(f"device: expected auto, cpu, cuda, cuda:N or mps, got {name!r}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if gpus else "mps" if has_mps else "cpu")
    there = ["cpu"] + [f"cuda:{i}" for i in range(gpus)] + ["mps"] * has_mps
    if (name != "cuda" and name not in there) or (name == "cuda" and not gpus):
        raise MhavizError(f"device {name} is not there: PyTorch finds {', '.join(there)}; use one of these, or auto")
    return torch.device(name)


@contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def require_memory(needed: int, device: torch.device, what: str) -> None:
    """Stop before starting when ``needed`` bytes are more than the device has free.

    Raises:
        MhavizError: it says both numbers. Nothing is raised where the free memory cannot be told.
    """
    if short := shortage(needed, free_memory(device), str(device)):
        raise MhavizError(f"{what} needs {short}; use a shorter input, a smaller d_model or fewer heads")


def free_memory(device: torch.device) -> int | None:
    """Bytes that can be had on the device, or None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_main_memory()
