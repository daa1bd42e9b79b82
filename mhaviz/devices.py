"""Where the layer runs, and whether it will fit."""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.memory import free_main_memory, shortage


def resolve_device(name: str) -> torch.device:
    """The device of that name: "auto" (the fastest there is), "cpu", "cuda", "cuda:1", "mps".

    Raises:
        ArgumentError: there is no such name.
        MhavizError: the device is not there.
    """
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", name):
        raise ArgumentError(f"{parameter('device')}: expected auto, cpu, cuda, cuda:N or mps, got {name!r}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if gpus else "mps" if has_mps else "cpu")
    there = ["cpu"] + [f"cuda:{i}" for i in range(gpus)] + ["mps"] * has_mps
    if (name != "cuda" and name not in there) or (name == "cuda" and not gpus):
        raise MhavizError(f"device {name} is not there: PyTorch finds {', '.join(there)}; use one of these, or auto")
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class FreeCores:
    """Lets PyTorch compute with no more threads than other programs leave cores free, as long as the context lasts.

    After every step PyTorch's threads wait for the slowest of them. One that shares its core with another program
    makes all of them wait: short steps then take up to forty times as long as with a thread less. What is computed must
    not depend on the number of threads. PyTorch gives the number to Python threads that begin meanwhile, which keep
    it; so only the main thread adapts.

    Args:
        device: of the computation; only the CPU has threads.
        running: says how many threads run now on the cores of this process, ours among them; None where nobody tells.
        cores: that this process may use.
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
        """See how many cores are free, after a step of the computation, when none of our threads sleeps.

        From the second look on what counts is what two looks in a row have seen: many a program runs for a moment.
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
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_that_run(proc: Path = Path("/proc")) -> int | None:
    """How many threads run or want to run on this machine's cores, or on those that this process may use."""
    try:
        running = int((proc / "loadavg").read_text().split()[3].split("/")[0])
        return running * usable_cores() // (os.cpu_count() or 1)
    except (OSError, ValueError, IndexError):  # no Linux
        return None


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


def float_array(x: Tensor) -> NDArray[np.float32]:
    """A tensor of any device and precision as an array of float32, of the same shape."""
    return np.asarray(x.float().cpu().numpy())
