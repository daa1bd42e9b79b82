"""Benchmark: a layer with random weights and inputs, and the time and peak memory of functions as the input grows.

Work that would take too long is skipped. Functions that are compared take turns, and each round starts with another
one, so that a machine that slows down affects all of them alike. All lengths are measured in several passes, as runs
within a moment agree better than the machine does with itself.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhaviz.devices import free_memory, require_memory
from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.seeding import check_seed, seeded
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.results.timing import Timing

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Bench:
    """Layer with random weights, in eval mode, and random inputs of unit variance.

    Attributes:
        d_model, n_heads: sizes; n_heads must divide d_model.
        seed: seed of weights and inputs. They are drawn on the CPU, and are the same for every device.
        device: device of the layer and its inputs.

    Raises:
        ArgumentError: invalid sizes, or an invalid seed.
        MhavizError: the layer does not fit into memory.
    """

    d_model: int = 512
    n_heads: int = 8
    seed: int = 0
    device: torch.device = _CPU

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        copies = 8 * 4 * 4 * self.d_model**2  # bytes of 8 copies of the 4 projections, counted in float32
        require_memory(copies, self.device, "the layer")

    @cached_property
    def layer(self) -> MultiHeadAttention:
        """The layer. Its biases are random too; as zeros, as in a new layer, no comparison would notice them."""
        with seeded(self.seed), torch.no_grad():
            layer = MultiHeadAttention(self.d_model, self.n_heads).eval()
            for projection in (layer.Wq, layer.Wk, layer.Wv, layer.Wo):
                projection.bias.normal_(std=0.1)
        return layer.to(self.device)

    def input(self, length: int) -> Tensor:
        """Return random X, (1, length, d_model)."""
        with seeded(self.seed):
            return torch.randn(1, length, self.d_model).to(self.device)

    @property
    def source(self) -> Source:
        """Source of the measurements: the layer and the device."""
        threads = torch.get_num_threads()
        details = {
            "kind": RANDOM_WEIGHTS,
            "seed": self.seed,
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "threads": threads,
            "torch": torch.__version__,
            "d_model": self.d_model,
            "n_heads": self.n_heads,
        }
        where = details["device_name"] or f"{self.device}, {counted(threads, 'thread')}"
        heads = counted(self.n_heads, "head")
        text = f"random weights, seed {self.seed}, d_model {self.d_model}, {heads}, {where}, torch {torch.__version__}"
        return Source(text, {name: value for name, value in details.items() if value is not None})


try:  # these names of PyTorch are private: where one is missing, the peak on the CPU is not known
    from torch._C import _autograd as _untyped
    from torch._C._profiler import RecordScope
    from torch.autograd.profiler import profile
    from torch.autograd.profiler_util import MEMORY_EVENT_NAME

    _autograd: Any = _untyped  # its stubs lack parts of the profiler
    _CAN_WATCH = hasattr(_autograd, "_enable_profiler")
except ImportError:
    _CAN_WATCH = False

MOST_NOTES = 1_000_000
"""Largest number of allocations and releases of work whose memory is profiled: each event takes 2 KiB."""


def measure_peak(work: Callable[[], object], device: torch.device) -> tuple[int | None, int]:
    """Measure the peak memory of a function, in bytes, and the number of allocations and releases that were recorded.

    Exact on the CPU and on CUDA, except for memory that libraries below PyTorch allocate themselves; None on other
    devices. Memory that was in use before is not counted, the function's result is.
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
    """Return the largest running sum of all allocations (positive bytes) and releases (negative) in the profile.

    ``with profile(profile_memory=True)`` would also record each operation, which takes ten times as long for a loop
    over queries and keys. So the profiler is given a scope without any operations.
    """
    if not _CAN_WATCH:
        return None, 0
    profiler: Any = profile(profile_memory=True, use_kineto=True)
    config, activities = profiler.config(), profiler.kineto_activities
    with _silent_kineto():
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


@contextmanager
def _silent_kineto() -> Iterator[None]:
    """Keep the library below PyTorch's profiler from logging to standard error whenever it starts and stops.

    It reads its setting when the process first profiles; 6 is above all levels. After a profile of the program's own it
    logs as it did then.
    """
    name = "KINETO_LOG_LEVEL"
    is_users = name in os.environ
    os.environ.setdefault(name, "6")
    try:
        yield
    finally:
        if not is_users:
            del os.environ[name]


LONGEST = 10**12
"""Largest length, in tokens; beyond any computer of today."""

MOST_SECONDS = 5.0
"""Functions that would take longer than this in a single run are skipped, as each pass runs them again."""

PASSES = 5
"""Number of times that all lengths are measured, from the shortest to the longest."""

_MOST_ROUNDS, _ENOUGH_SECONDS = 10, 0.03  # of a function at a length in one pass
_RETRIES = 2  # further runs that must be as slow before a function is skipped

Work = Callable[[], object]
OnProgress = Callable[[float, str], None]
"""Callback with the share of all work that is done, from 0 to 1, and a description of what is next."""


@dataclass(frozen=True)
class _Cost:
    """Cost of one run: seconds, peak bytes, and the number of events that were recorded to measure these bytes."""

    length: int = 1
    seconds: float = 0.0
    bytes: int = 0
    notes: int = 0

    def at(self, length: int) -> "_Cost":
        """Bound the cost for a longer input: no cost of attention grows faster than the square of the length."""
        growth = (length / self.length) ** 2
        return _Cost(length, self.seconds * growth, int(self.bytes * growth), int(self.notes * growth))


def measure(
    works_at: Callable[[int], Mapping[str, Work]],
    lengths: Sequence[int],
    device: torch.device,
    on_progress: OnProgress = lambda done, what: None,
) -> dict[str, list[Timing]]:
    """Measure several functions, with one timing for each length.

    The cost of an input is estimated from one of at least half its length, so that doublings between the lengths are
    run as well. A single slow run skips nothing: the input of the estimate is run again, and each pass estimates anew.

    Args:
        works_at: returns the functions for an input of a given length, by name.
        lengths: increasing lengths in tokens; see ``check_lengths``.
        device: device of the functions.
        on_progress: called before the runs of each function at each length in each pass.
    """
    course = _Course(works_at, device)
    steps = [(0, length) for length in with_doublings(lengths)] + list(product(range(1, PASSES), lengths))
    for number, (turn, length) in enumerate(steps):
        running = course.names_at(length)
        for place, name in enumerate(running):
            on_progress((number + place / len(running)) / len(steps), f"N = {length:,}: {name}, pass {turn + 1}")
            course.measure_memory(name, length)
        course.run(_from(running, turn), length)
    on_progress(1, "")
    return {name: [course.timing(name, length) for length in lengths] for name in course.costs}


class _Course:
    """Runs of several functions at increasing lengths, again and again.

    Attributes:
        costs: least cost of each function at the largest length that it was run at.
    """

    def __init__(self, works_at: Callable[[int], Mapping[str, Work]], device: torch.device) -> None:
        self._works_at, self._device = works_at, device
        self._free = free_memory(device)
        self._works, self._length = works_at(1), 1
        self._skipped: dict[tuple[str, int], Timing] = {}
        self._peaks: dict[tuple[str, int], int | None] = {}
        self._seconds: dict[tuple[str, int], list[list[float]]] = {}  # of the runs in each pass
        self.costs = dict.fromkeys(self._works, _Cost())

    def _at(self, length: int) -> Mapping[str, Work]:
        """Return the functions for an input of this length."""
        if length != self._length:
            self._works, self._length = self._works_at(length), length
        return self._works

    def names_at(self, length: int) -> list[str]:
        """Return the functions that are run at a length; the others are skipped."""
        ended = {name for name, _ in self._skipped}
        for name, cost in self.costs.items():
            if (name, length) in self._peaks:
                continue
            for _ in range(0 if name in ended else _RETRIES):
                if cost.at(length).seconds > MOST_SECONDS:
                    again = run_seconds(self._at(cost.length)[name], self._device)
                    cost = self.costs[name] = replace(cost, seconds=min(cost.seconds, again))
            if reason := _skip(cost.at(length), self._free):
                self._skipped[name, length] = reason
            else:
                self._skipped.pop((name, length), None)
        return [name for name in self.costs if (name, length) not in self._skipped]

    def measure_memory(self, name: str, length: int) -> None:
        """Measure the peak memory of a function at a length, once. The run warms up caches and kernels, too."""
        if (name, length) in self._peaks:
            return
        expected = self.costs[name].at(length)
        is_watched = expected.notes <= MOST_NOTES
        peak, notes = measure_peak(self._at(length)[name], self._device) if is_watched else (None, expected.notes)
        self.costs[name] = replace(expected, bytes=expected.bytes if peak is None else peak, notes=notes)
        self._peaks[name, length] = peak

    def run(self, names: Sequence[str], length: int) -> None:
        """Run functions at a length, in turns, beginning with the first."""
        for name, seconds in _in_turns({name: self._at(length)[name] for name in names}, self._device).items():
            cost, passes = self.costs[name], self._seconds.setdefault((name, length), [])
            if length == cost.length:
                self.costs[name] = replace(cost, seconds=min([*seconds, *([cost.seconds] if passes else [])]))
            passes.append(seconds)

    def timing(self, name: str, length: int) -> Timing:
        """Return the timing of all runs of a function at a length, or the reason why there are none."""
        if (name, length) in self._skipped:
            return self._skipped[name, length]
        passes = self._seconds[name, length]
        runs = [seconds for one in passes for seconds in one]
        first, median, third = np.quantile(runs, (0.25, 0.5, 0.75)).tolist()  # of a single run, too
        medians = tuple(statistics.median(one) for one in passes)
        return Timing(median, len(runs), self._peaks[name, length], quartiles=(first, third), passes=medians)


def _skip(expected: _Cost, free: int | None) -> Timing | None:
    """Return the reason why a function is skipped, as a ``Timing``; None if it is run."""
    if expected.seconds > MOST_SECONDS:
        return Timing(would_take=expected.seconds)
    return Timing(would_need=expected.bytes) if free is not None and expected.bytes > free else None


def _in_turns(works: Mapping[str, Work], device: torch.device) -> dict[str, list[float]]:
    """Run functions in turns, and return the seconds of each run. A first one, which warms up, counts only where it is
    the only one."""
    names = list(works)
    seconds = {name: [run_seconds(work, device)] for name, work in works.items()}
    rounds = {name: min(int(_ENOUGH_SECONDS / max(first, 1e-9)), _MOST_ROUNDS) for name, (first,) in seconds.items()}
    fast = [name for name in names if rounds[name] > 1]
    seconds |= {name: [] for name in fast}
    for number in range(max(rounds.values(), default=0)):
        for name in _from(fast, number):
            if number < rounds[name]:
                seconds[name].append(run_seconds(works[name], device))
    return seconds


def _from(names: list[str], turn: int) -> list[str]:
    """Return the names from a place on, and then those before it."""
    first = turn % len(names) if names else 0
    return names[first:] + names[:first]


def run_seconds(work: Work, device: torch.device) -> float:
    """Measure the seconds of one run, until the device has finished it."""
    _wait_for(device)
    start = time.perf_counter()
    result = work()
    _wait_for(device)
    taken = time.perf_counter() - start
    del result  # freeing its memory is not timed
    return taken


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def with_doublings(lengths: Sequence[int]) -> list[int]:
    """Return the lengths and all powers of two up to the largest, so that none is more than twice the one before."""
    return sorted({*lengths, *(2**power for power in range(max(lengths).bit_length()))})


def check_lengths(lengths: Iterable[int]) -> tuple[int, ...]:
    """Return the lengths in increasing order, each once.

    Raises:
        ArgumentError: there is no length, or one is below 1 or above ``LONGEST``.
    """
    rising = tuple(sorted(set(lengths)))
    if not rising or rising[0] < 1 or rising[-1] > LONGEST:
        got = counted(rising[0] if rising[0] < 1 else rising[-1]) if rising else "none"
        raise ArgumentError(f"{parameter('lengths')}: expected tokens from 1 to {LONGEST:,}, got {got}")
    return rising
