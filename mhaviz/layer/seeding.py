"""Reproducible random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mhaviz.errors import ArgumentError, parameter


def check_seed(seed: int) -> None:
    """Raise ArgumentError unless PyTorch's generators accept this seed."""
    if not 0 <= seed < 2**63:
        raise ArgumentError(f"{parameter('seed')}: expected a number from 0 to 2^63 - 1, got {seed}")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers on the CPU from this seed, and restore the caller's random state afterwards.

    Numbers that are drawn on the CPU are the same for every device.
    """
    check_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
