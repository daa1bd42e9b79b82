"""A layer with random weights and inputs to measure; the time and peak memory of functions at rising input lengths.

What would take too long is skipped. Functions that are compared take turns, and another one begins each round, so that
a machine that slows down slows all.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mhaviz.devices import free_memory, require_memory
from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.layer.attention import MultiHeadAttention, check_heads
from mhaviz.layer.seeding import check_seed, seeded
from mhaviz.results.result import Source
from mhaviz.results.timing import Timing

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Bench:
    """A layer with random weights, in eval mode, and random inputs of unit variance.

    Attributes:
        d_model, n_heads: sizes; n_heads must divide d_model.
        seed: of weights and inputs. They are drawn on the CPU, the same for every device.
        device: where they are.

    Raises:
        ArgumentError: sizes or a seed that cannot be.
        MhavizError: the layer does not fit into memory.
    """

    d_model: int = 512
    n_heads: int = 8
    seed: int = 0
    device: torch.device = _CPU

    def __post_init__(self) -> None:
        check_heads(self.d_model, self.n_heads)
        check_seed(self.seed)
        copies = 8 * 4 * 4 * self.d_model**2  # of the projections, in float32, some of them in float64
        require_memory(copies, self.device, "the layer")

    @cached_property
    def layer(self) -> MultiHeadAttention:
        """The layer. Its biases, which a new layer has at zero, are drawn too, or no comparison would notice them."""
        with seeded(self.seed), torch.no_grad():
            layer = MultiHeadAttention(self.d_model, self.n_heads).eval()
            for projection in (layer.Wq, layer.Wk, layer.Wv, layer.Wo):
                projection.bias.normal_(std=0.1)
        return layer.to(self.device)

    def input(self, length: int) -> Tensor:
        """X, (1, length, d_model)."""
        with seeded(self.seed):
            return torch.randn(1, length, self.d_model).to(self.device)

    @property
    def source(self) -> Source:
        """What is measured, on what."""
        threads = torch.get_num_threads()
        details = {
            "kind": "random weights",
            "seed": self.seed,
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "threads": threads,
            "torch": torch.__version__,
            "d_model": self.d_model,
            "n_heads": self.n_heads,
        }
        heads = f"{self.n_heads} head{'s' * (self.n_heads != 1)}"
        where = details["device_name"] or f"{self.device}, {threads} thread{'s' * (threads != 1)}"
        text = f"random weights, seed {self.seed}, d_model {self.d_model}, {heads}, {where}, torch {torch.__version__}"
        return Source(text, {name: value for name, value in details.items() if value is not None})


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


LONGEST = 10**12
"""Tokens; whatever runs at such a length is no computer of today."""

_LEAST_ROUNDS, _MOST_ROUNDS, _ENOUGH_SECONDS = 3, 50, 0.15

Work = Callable[[], object]
OnProgress = Callable[[float, str], None]
"""Is called with how much of everything is done, from 0 to 1, and what comes next."""


@dataclass(frozen=True)
class _Cost:
    """Of one run: its seconds, the bytes that it held, and the notes that were taken to know these."""

    length: int = 1
    seconds: float = 0.0
    bytes: int = 0
    notes: int = 0

    def at(self, length: int) -> "_Cost":
        """At a longer input. Nothing in attention grows faster than with the square of the length."""
        growth = (length / self.length) ** 2
        return _Cost(length, self.seconds * growth, int(self.bytes * growth), int(self.notes * growth))


def measure(
    works_at: Callable[[int], Mapping[str, Work]],
    lengths: Sequence[int],
    device: torch.device,
    most_seconds: float,
    on_progress: OnProgress = lambda done, what: None,
) -> dict[str, list[Timing]]:
    """The timings of several functions, one a length.

    What an input costs is estimated from one half as long, so that all doublings between the lengths run as well.

    Args:
        works_at: makes the functions for an input of a length, by their names.
        lengths: rising; see ``check_lengths``.
        device: where they run.
        most_seconds: what would take longer than this, once, is skipped.
        on_progress: is called before each runs first.

    Raises:
        ArgumentError: most_seconds is not above 0.
    """
    if not most_seconds > 0:
        raise ArgumentError(f"{parameter('most_seconds')}: expected a number above 0, got {most_seconds:g}")
    free = free_memory(device)
    costs = dict.fromkeys(works_at(1), _Cost())
    timings: dict[str, list[Timing]] = {name: [] for name in costs}
    steps = with_doublings(lengths)
    for number, length in enumerate(steps):
        expected = {name: cost.at(length) for name, cost in costs.items()}
        skipped = {name: _skip(cost, most_seconds, free) for name, cost in expected.items()}
        running = [name for name, reason in skipped.items() if reason is None]
        works = works_at(length) if running else {}
        rounds, peaks = {}, {}
        for turn, name in enumerate(running):
            on_progress((number + turn / len(running)) / len(steps), f"N = {length:,}: {name}")
            first = run_seconds(works[name], device)  # warms up caches and kernels
            fast = int(_ENOUGH_SECONDS / max(first, 1e-9)) if length in lengths else 0
            rounds[name] = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, fast))
            is_watched = expected[name].notes <= MOST_NOTES
            peaks[name] = measure_peak(works[name], device) if is_watched else (None, expected[name].notes)
        for name, seconds in _in_turns(works, rounds, device).items():
            peak, notes = peaks[name]
            held = expected[name].bytes if peak is None else peak
            costs[name] = _Cost(length, statistics.median(seconds), held, notes)
            first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
            skipped[name] = Timing(costs[name].seconds, len(seconds), peak, quartiles=(first, third))
        if length in lengths:
            for name, timing in skipped.items():
                assert timing is not None
                timings[name].append(timing)
    on_progress(1, "")
    return timings


def _skip(expected: _Cost, most_seconds: float, free: int | None) -> Timing | None:
    """Why a function is not tried; None if it is."""
    if expected.seconds > most_seconds:
        return Timing(would_take=expected.seconds)
    return Timing(would_need=expected.bytes) if free is not None and expected.bytes > free else None


def _in_turns(works: Mapping[str, Work], rounds: Mapping[str, int], device: torch.device) -> dict[str, list[float]]:
    """The seconds of each run."""
    seconds: dict[str, list[float]] = {name: [] for name in rounds}
    names = list(rounds)
    for number in range(max(rounds.values(), default=0)):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if number < rounds[name]:
                seconds[name].append(run_seconds(works[name], device))
    return seconds


def run_seconds(work: Work, device: torch.device) -> float:
    """The seconds of one run, until the device has done all of it."""
    _wait_for(device)
    start = time.perf_counter()
    result = work()
    _wait_for(device)
    taken = time.perf_counter() - start
    del result  # giving its memory back is not timed
    return taken


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def with_doublings(lengths: Sequence[int]) -> list[int]:
    """The lengths, and between them as many others that none is more than twice the one before."""
    return sorted({*lengths, *(2**power for power in range(max(lengths).bit_length()))})


def check_lengths(lengths: Iterable[int]) -> tuple[int, ...]:
    """The lengths, each once and rising.

    Raises:
        ArgumentError: there is none, or one is below 1 or beyond all computers.
    """
    rising = tuple(sorted(set(lengths)))
    if not rising or rising[0] < 1 or rising[-1] > LONGEST:
        got = counted(rising[0] if rising[0] < 1 else rising[-1]) if rising else "none"
        raise ArgumentError(f"{parameter('lengths')}: expected tokens from 1 to {LONGEST:,}, got {got}")
    return rising
