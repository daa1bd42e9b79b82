"""Where the layer runs, and whether it will fit."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.units import readable_bytes


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
    free = free_memory(device)
    if free is not None and needed > free:
        raise MhavizError(
            f"{what} needs about {readable_bytes(needed)} of memory on {device}, where {readable_bytes(free)} are "
            f"free; use a shorter input, a smaller d_model or fewer heads"
        )


def free_memory(device: torch.device) -> int | None:
    """Bytes that can be had on the device, or None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [_meminfo_available(), _cgroup_free()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else _physical_memory()


def _meminfo_available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":") for line in lines)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _cgroup_free() -> int | None:
    """What a container (cgroup v2) may still take."""
    try:
        most, current = (
            int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
        statistics = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").split()
        cache = int(dict(zip(statistics[::2], statistics[1::2], strict=True)).get("inactive_file", 0))
        return max(most - current + cache, 0)
    except (OSError, ValueError):  # no container, or "max": no limit
        return None


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
