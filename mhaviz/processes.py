"""Which of several processes this is, that ``torchrun`` or a scheduler has started to do one thing together."""

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
"""A process may wait for others that have far more to do; if one of them ends, torchrun ends all."""


@dataclass(frozen=True)
class Process:
    """One of several processes.

    Attributes:
        rank: its number, from 0, on all machines.
        count: how many there are.
        local_rank: its number on its machine, from 0.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it is the one that shows and saves."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is no other."""
        return self.count == 1

    def device(self, name: str) -> str:
        """The device of this process, where the user has named "auto" or "cuda": each has a GPU of its own.

        With several processes "auto" is a GPU wherever PyTorch finds as many as there are processes on a machine.
        """
        if self.is_alone or name not in ("auto", "cuda"):
            return name

        import torch

        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return f"cuda:{self.local_rank}" if name == "cuda" or self.local_rank < there else "cpu"


def this_process() -> Process:
    """Which one this is, by the environment that ``torchrun`` makes; alone without it.

    Raises:
        MhavizError: RANK, WORLD_SIZE or LOCAL_RANK is no number, or they contradict each other.
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
    """What each process has, in the order of their ranks, in the first one; None in the others.

    All processes must call it. What is sent is pickled by the program's own other processes.

    Raises:
        MhavizError: another process has ended.
    """
    from torch import distributed

    process = this_process()
    if process.is_alone:
        return [own]
    group = connect()
    found: list[_T] | None = [own] * process.count if process.is_first else None
    with as_one_line("another process has ended"):
        distributed.gather_object(own, found, group=group)
        distributed.barrier(group)  # nobody ends before the first has all
    return found


def wait_for_others() -> None:
    """Wait until each process has come here; all must. Raises MhavizError if another has ended."""
    from torch import distributed

    group = connect()
    with as_one_line("another process has ended"):
        distributed.barrier(group)


@cache
def connect() -> "distributed.ProcessGroup":
    """Connect with the other processes, by gloo for main memory and nccl for GPUs, if that has not been done.

    To be called before the work: who waits for a process that ends later sees it, and else would wait for ever.

    Returns:
        The group for what is in main memory, in which one may wait long for another.

    Raises:
        MhavizError: they cannot be reached.
    """
    from torch import distributed

    with as_one_line("cannot reach the other processes", "start them with torchrun"):
        if not distributed.is_initialized():
            distributed.init_process_group()
        group: distributed.ProcessGroup = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        return group
