"""How much memory a piece of work holds at its peak."""

import os
from collections.abc import Callable

import torch
from torch._C._profiler import RecordScope
from torch.autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch.autograd.profiler import MEMORY_EVENT_NAME, profile

# The library below PyTorch's profiler announces on standard error that it begins and ends; 6 is above all it says.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")


def peak_bytes(work: Callable[[], object], device: torch.device) -> int | None:
    """The most bytes of tensors that the work holds at once, above what is there before it; its result included.

    To the byte on the CPU and on CUDA, where PyTorch hands out all memory but what libraries below it keep for
    themselves. None on devices that do not tell.
    """
    if device.type == "cpu":
        return _peak_on_cpu(work)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    return None


def _peak_on_cpu(work: Callable[[], object]) -> int:
    """The highest running sum of all allocations (bytes above 0) and releases (below 0) that the profiler saw.

    ``with profile(profile_memory=True)`` would also note every operation, which for a loop over queries and keys takes
    ten times as long and gigabytes of notes. So the profiler is asked for the scope of which there is nothing.
    """
    profiler = profile(profile_memory=True, use_kineto=True)
    config = profiler.config()
    _prepare_profiler(config, profiler.kineto_activities)
    _enable_profiler(config, profiler.kineto_activities, {RecordScope.USER_SCOPE})
    try:
        result = work()
    finally:
        recorded = _disable_profiler()
    del result
    held = peak = 0
    for event in recorded.events():
        if event.name() == MEMORY_EVENT_NAME:
            held += event.nbytes()
            peak = max(peak, held)
    return peak
