"""Measures the peak memory of a function call."""

import os
from collections.abc import Callable
from typing import Any

import torch

try:  # PyTorch promises none of these names: where one is missing, the peak on the CPU cannot be told
    from torch._C import _autograd as _untyped
    from torch._C._profiler import RecordScope
    from torch.autograd.profiler import profile
    from torch.autograd.profiler_util import MEMORY_EVENT_NAME

    _autograd: Any = _untyped  # its stubs know less of the profiler than there is
    _CAN_WATCH = hasattr(_autograd, "_enable_profiler")
except ImportError:
    _CAN_WATCH = False

# The library below PyTorch's profiler announces on standard error that it begins and ends; 6 is above all it says.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

MOST_NOTES = 1_000_000
"""Work that allocates and releases more often than this should not be watched: the notes take 2 KiB each."""


def measure_peak(work: Callable[[], object], device: torch.device) -> tuple[int | None, int]:
    """The most bytes of tensors that a function holds at once, and how many allocations and releases were noted.

    To the byte on the CPU and on CUDA, where PyTorch hands out all memory but what libraries below it keep for
    themselves; None elsewhere. What was there before does not count, the result does.
    """
    if device.type == "cpu":
        return _peak_on_cpu(work)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before, 0
    return None, 0


def _peak_on_cpu(work: Callable[[], object]) -> tuple[int | None, int]:
    """The highest running sum of all allocations (bytes above 0) and releases (below 0) that the profiler saw.

    ``with profile(profile_memory=True)`` would also note every operation, which for a loop over queries and keys takes
    ten times as long. So the profiler is asked for the scope of which there is nothing.
    """
    if not _CAN_WATCH:
        return None, 0
    profiler: Any = profile(profile_memory=True, use_kineto=True)
    config, activities = profiler.config(), profiler.kineto_activities
    _autograd._prepare_profiler(config, activities)
    _autograd._enable_profiler(config, activities, {RecordScope.USER_SCOPE})
    try:
        result = work()
    finally:
        recorded = _autograd._disable_profiler()
    del result
    held = peak = notes = 0
    for event in recorded.events():
        if event.name() == MEMORY_EVENT_NAME:
            held += event.nbytes()
            peak = max(peak, held)
            notes += 1
    return peak, notes
