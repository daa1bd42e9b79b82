"""Which of several processes this is, that ``torchrun`` or a scheduler has started to do one thing together."""

import os
from dataclasses import dataclass

from mhaviz.errors import ArgumentError, quoted


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
        ArgumentError: RANK, WORLD_SIZE or LOCAL_RANK is no number, or they contradict each other.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return Process()
    rank, count = _number("RANK"), _number("WORLD_SIZE")
    local_rank = _number("LOCAL_RANK") if "LOCAL_RANK" in os.environ else rank
    if not 0 <= rank < max(count, 1):
        raise ArgumentError(f"RANK: expected a number below WORLD_SIZE, {count}, got {rank}; start it with torchrun")
    return Process(rank, count, local_rank)


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ArgumentError(f"{name}: expected a number in the environment, as torchrun sets it, got {quoted(text)}")
    return int(text)
