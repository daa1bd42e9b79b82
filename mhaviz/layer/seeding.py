"""Random numbers that are the same every time."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mhaviz.errors import ArgumentError, parameter


def check_seed(seed: int) -> None:
    """Raise ArgumentError unless PyTorch's generators take this seed."""
    if not 0 <= seed < 2**63:
        raise ArgumentError(f"{parameter('seed')}: expected a number from 0 to 2^63 - 1, got {seed}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw on the CPU, the same for every device, from this seed; afterwards the caller's draws go on as they were."""
    check_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
