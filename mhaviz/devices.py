"""Devices: their names, their free memory, and the threads of the CPU."""

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.memory import free_main_memory, shortage


def resolve_device(name: str) -> torch.device:
    """Return the device of this name: "auto" (the fastest available one), "cpu", "cuda", "cuda:1" or "mps".

    Raises:
        ArgumentError: the name is none of these.
        MhavizError: the device is not available.
    """
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", name):
        raise ArgumentError(f"{parameter('device')}: expected auto, cpu, cuda, cuda:N or mps, got {name!r}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if gpus else "mps" if has_mps else "cpu")
    there = ["cpu"] + [f"cuda:{i}" for i in range(gpus)] + ["mps"] * has_mps
    if (name != "cuda" and name not in there) or (name == "cuda" and not gpus):
        raise MhavizError(f"device {name} is missing: PyTorch finds {', '.join(there)}; use one of these, or auto")
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread inside this block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class FreeCores:
    """Context in which PyTorch uses only as many threads as there are cores that other programs leave free.

    After every step, PyTorch's threads wait for the slowest one. If one shares its core with another program, all of
    them wait, and short steps take up to forty times as long as with one thread less. Results must not depend on the
    number of threads. Python threads that start meanwhile get this number and keep it, so only the main thread adapts.

    Args:
        device: device of the computation; only the CPU has threads.
        running: returns how many threads run now on the cores of this process, including ours; None: not known.
        cores: number of cores that this process may use.
    """

    def __init__(
        self,
        device: torch.device,
        running: Callable[[], int | None] | None = None,
        cores: int | None = None,
    ) -> None:
        adapts = device.type == "cpu" and threading.current_thread() is threading.main_thread()
        self._running = (running or threads_that_run) if adapts else lambda: None
        self._cores = cores or usable_cores()

    def __enter__(self) -> "FreeCores":
        self._all = self._used = torch.get_num_threads()
        self._others = self._cores
        return self

    def look(self) -> None:
        """Adapt to the number of free cores. Call this after a step of the computation, when all threads are awake.

        After the first call, a core counts as taken only if it was taken in two calls in a row, as many programs run
        only for a moment.
        """
        running = self._running() if self._all > 1 else None
        if running is not None:
            others = max(running - self._used, 0)
            used = max(min(self._all, self._cores - min(others, self._others)), 1)
            self._others = others
            if used != self._used:
                self._used = used
                torch.set_num_threads(used)

    def __exit__(self, *_: object) -> None:
        if self._used != self._all:
            torch.set_num_threads(self._all)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_that_run(proc: Path = Path("/proc")) -> int | None:
    """Return how many threads are running or waiting on the cores of this process, estimated from the whole machine.

    None: not known, as only Linux tells.
    """
    try:
        running = int((proc / "loadavg").read_text().split()[3].split("/")[0])
        return running * usable_cores() // (os.cpu_count() or 1)
    except (OSError, ValueError, IndexError):  # not Linux
        return None


def require_memory(needed: int, device: torch.device, what: str) -> None:
    """Check that ``needed`` bytes are free on the device, as far as that is known. ``what`` begins the message.

    Raises:
        MhavizError: fewer bytes are free.
    """
    if short := shortage(needed, free_memory(device), str(device)):
        raise MhavizError(f"{what} needs {short}; use a shorter input, a smaller d_model or fewer heads")


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of the device; None: not known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_main_memory()


def held_bytes(arrays: Iterable[NDArray[Any]]) -> int:
    """Return the bytes of memory that arrays keep alive: a view keeps all that it is a view of, which counts once."""
    held: dict[int, int] = {}
    for array in arrays:
        while isinstance(array.base, np.ndarray):
            array = array.base
        if isinstance(array.base, Tensor):
            storage = array.base.untyped_storage()
            held[storage.data_ptr()] = storage.nbytes()
        else:
            held[id(array)] = array.nbytes
    return sum(held.values())


def float_array(x: Tensor) -> NDArray[np.float32]:
    """Convert a tensor of any device and precision to an array of float32 of the same shape."""
    return np.asarray(x.float().cpu().numpy())
