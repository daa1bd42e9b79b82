"""Processes that ``torchrun`` or a scheduler has started together: which one this is, and how they communicate."""

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from mhaviz.errors import as_one_line

if TYPE_CHECKING:
    from torch import distributed

_T = TypeVar("_T")

_PATIENCE = timedelta(days=30)
"""How long a process waits for others, which may have far more to do. If one of them ends, torchrun ends all."""


@dataclass(frozen=True)
class Process:
    """One of several processes.

    Attributes:
        rank: number of the process among all, from 0.
        count: number of processes.
        local_rank: number of the process on its machine, from 0.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that shows and saves results."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is only one process."""
        return self.count == 1

    def device(self, name: str) -> str:
        """Return the device of this process for the name that the user has given.

        With several processes, "cuda" is the GPU with the number of the process on its machine, and "auto" the same if
        PyTorch finds it, else the CPU. Other names are unchanged.
        """
        if self.is_alone or name not in ("auto", "cuda"):
            return name

        import torch

        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return f"cuda:{self.local_rank}" if name == "cuda" or self.local_rank < there else "cpu"


def this_process() -> Process:
    """Return this process, according to the environment that ``torchrun`` sets; without it, a single process.

    Raises:
        MhavizError: RANK, WORLD_SIZE or LOCAL_RANK is not a number, or they contradict each other.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return Process()
    with as_one_line("RANK, WORLD_SIZE and LOCAL_RANK are not as torchrun sets them"):
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local_rank = int(os.environ.get("LOCAL_RANK", rank))
        if not 0 <= rank < count:
            raise ValueError(f"process {rank} of {count}")
    return Process(rank, count, local_rank)


def gathered(own: _T) -> list[_T] | None:
    """Gather an object from each process in the first one.

    All processes must call this, and none returns before all have. Objects are pickled, and come only from processes
    of this program.

    Returns:
        The objects in the order of ranks, in the first process; None in the others.

    Raises:
        MhavizError: the processes cannot reach each other, as when one has ended.
    """
    from torch import distributed

    process = this_process()
    if process.is_alone:
        return [own]
    group = connect()
    found: list[_T] | None = [own] * process.count if process.is_first else None
    with as_one_line("cannot reach the other processes", "see whether one of them has ended"):
        distributed.gather_object(own, found, group=group)
        distributed.barrier(group)  # no process ends before the first one has all
    return found


@cache
def connect() -> "distributed.ProcessGroup":
    """Connect the processes, unless they are connected: by gloo for main memory, by nccl for GPUs.

    Call this before the work. Then a process that waits for another one notices if that ends; else it waits forever.

    Returns:
        The group for data in main memory, which allows long waits.

    Raises:
        MhavizError: the other processes cannot be reached.
    """
    from torch import distributed

    with as_one_line("cannot reach the other processes", "start them with torchrun"):
        if not distributed.is_initialized():
            distributed.init_process_group()
        group: distributed.ProcessGroup = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        return group
