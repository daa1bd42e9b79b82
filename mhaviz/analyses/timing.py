"""Measures the time and memory of functions at rising input lengths, and skips what would take too long.

Functions that are compared take turns, and another one begins each round, so that a machine that slows down slows all.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from mhaviz.analyses.memory import MOST_NOTES, UNWATCHED, Peak, measure_peak
from mhaviz.devices import free_memory
from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.records.timing import Timing

LONGEST = 10**12
"""Tokens; whatever runs at such a length is no computer of today."""

_TELLING = 1024  # tokens; with fewer, a run is mostly preparation
_LEAST_ROUNDS, _MOST_ROUNDS, _ENOUGH_SECONDS = 3, 50, 0.15

Work = Callable[[], object]
Stopwatch = Callable[[Work], float]
OnProgress = Callable[[float, str], None]
"""Is called with how much of everything is done, from 0 to 1, and what comes next."""


def stopwatch(device: torch.device) -> Stopwatch:
    """Measures the seconds of one run, until the device has done all of it."""

    def seconds(work: Work) -> float:
        _wait_for(device)
        start = time.perf_counter()
        result = work()
        _wait_for(device)
        taken = time.perf_counter() - start
        del result  # giving its memory back is not timed
        return taken

    return seconds


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def no_progress(done: float, what: str) -> None:
    """No-op progress callback."""


@dataclass(frozen=True)
class Laboratory:
    """Measures time and memory on a device.

    Attributes:
        device: where the work runs.
        most_seconds: what would take longer than this, once, is skipped.
        on_progress: is called while it measures.
        seconds: how one run is timed; None: by the clock.

    Raises:
        ArgumentError: most_seconds is not above 0.
    """

    device: torch.device
    most_seconds: float
    on_progress: OnProgress = no_progress
    seconds: Stopwatch | None = None

    def __post_init__(self) -> None:
        if not self.most_seconds > 0:
            raise ArgumentError(f"{parameter('most_seconds')}: expected a number above 0, got {self.most_seconds:g}")

    def measure(
        self,
        lengths: Sequence[int],
        names: Sequence[str],
        works_at: Callable[[int], Sequence[Work]],
        look: Callable[[int, int, object], None] = lambda length, i, result: None,
        needed: Callable[[int], Sequence[int]] | None = None,
    ) -> list[tuple[Timing, ...]]:
        """For each of several pieces of work, its timing at each length.

        Args:
            lengths: rising; see ``check_lengths``.
            names: of the pieces.
            works_at: makes all pieces for an input of this length; asked only for lengths at which one of them runs.
            look: is shown the length, the number of the piece, and what it gave.
            needed: bytes that each piece needs at least at a length, for devices that do not tell what was needed.
        """
        pieces = [Known() for _ in names]
        free = free_memory(self.device)
        timings: list[list[Timing]] = [[] for _ in names]
        for rung in rungs(lengths):
            wanted, asked = rung in lengths, next(length for length in lengths if length >= rung)
            least = needed(rung) if needed else [0] * len(pieces)
            skipped = [
                piece.skip(rung, asked, self.most_seconds, free, size)
                for piece, size in zip(pieces, least, strict=True)
            ]
            running = [i for i, reason in enumerate(skipped) if reason is None]
            works = works_at(rung) if running else ()
            firsts: dict[int, float] = {}
            peaks: dict[int, int | None] = {}
            for turn, i in enumerate(running):
                done = sum(length < rung for length in lengths) + wanted * turn / len(running)
                self.on_progress(done / len(lengths), f"N = {rung:,}: {names[i]}")
                firsts[i] = self._first_run(works[i], partial(look, rung, i))
                peak, peaks[i] = pieces[i].expected(rung), None
                if peak.notes <= MOST_NOTES:
                    peak = measure_peak(works[i], self.device)
                    peaks[i] = peak.bytes
                pieces[i].learn(rung, firsts[i], peak)
                if not wanted and pieces[i].skip(2 * rung, asked, self.most_seconds, None):  # one run may be slow
                    again = (self._clock(works[i]) for _ in range(_LEAST_ROUNDS - 1))
                    pieces[i].learn(rung, min(firsts[i], *again), peak)
            if wanted:
                medians = self._take_turns({i: works[i] for i in running}, firsts)
                for i in running:  # the first run warmed up, and may have been slow for that
                    pieces[i].learn(rung, min(firsts[i], medians[i][0]), pieces[i].peak)
                for i, reason in enumerate(skipped):
                    timings[i].append(reason or Timing(*medians[i], peak_bytes=peaks[i]))
        self.on_progress(1, "")
        return [tuple(of_one) for of_one in timings]

    def _first_run(self, work: Work, look: Callable[[object], None]) -> float:
        """Time a run that warms up caches and kernels, and show what it gives."""
        results: list[object] = []
        seconds = self._clock(lambda: results.append(work()))
        look(results.pop())
        return seconds

    def _take_turns(self, works: dict[int, Work], firsts: dict[int, float]) -> dict[int, tuple[float, int]]:
        """Median and number of rounds: at least 3, and more of what is fast."""
        wanted = {i: _rounds(first) for i, first in firsts.items()}
        times: dict[int, list[float]] = {i: [] for i in works}
        order = list(works)
        for round_number in range(max(wanted.values(), default=0)):
            for i in _rotated(order, round_number):
                if round_number < wanted[i]:
                    times[i].append(self._clock(works[i]))
        return {i: (statistics.median(of_one), len(of_one)) for i, of_one in times.items()}

    @property
    def _clock(self) -> Stopwatch:
        return self.seconds or stopwatch(self.device)


@dataclass
class Known:
    """The time and memory of one function at the longest input so far, from which those of the next are estimated."""

    length: int = 0
    seconds: float = 0.0
    peak: Peak = UNWATCHED

    def learn(self, length: int, seconds: float, peak: Peak) -> None:
        """Take note of a run."""
        self.length, self.seconds, self.peak = length, seconds, peak

    def skip(self, length: int, asked: int, most_seconds: float, free: int | None, least: int = 0) -> Timing | None:
        """Why an input of this length is not tried; None if it is.

        ``asked``: the length that somebody wants to know of, if this one is only on the way to it. Nothing grows more
        slowly than with the length: where even that takes far too long, there is no use in going on. ``least``: bytes.
        """
        seconds = self.seconds * self._growth(length) ** 2
        hopeless = self.length >= _TELLING and self.seconds * self._growth(asked) > 4 * most_seconds
        if seconds > most_seconds or hopeless:
            return Timing(would_take=seconds)
        needed = max(self.expected(length).bytes or 0, least)
        return Timing(would_need=needed) if free is not None and needed > free else None

    def expected(self, length: int) -> Peak:
        """At a longer input. Nothing in attention grows faster than with the square of the length."""
        growth = self._growth(length) ** 2
        size = None if self.peak.bytes is None else int(self.peak.bytes * growth)
        return Peak(size, int(self.peak.notes * growth))

    def _growth(self, length: int) -> float:
        return length / self.length if self.length else 0.0


def _rounds(first: float) -> int:
    return max(_LEAST_ROUNDS, min(_MOST_ROUNDS, int(_ENOUGH_SECONDS / max(first, 1e-9))))


def _rotated(order: Sequence[int], by: int) -> Iterator[int]:
    for turn in range(len(order)):
        yield order[(turn + by) % len(order)]


def rungs(lengths: Sequence[int]) -> list[int]:
    """The lengths, and between them as many others that none is more than twice the one before.

    What a length will cost is worked out from the one before, as it cannot be from one far below.
    """
    doublings = (2**power for power in range(max(lengths).bit_length()))
    return sorted({*lengths, *doublings})


def check_lengths(lengths: Iterable[int]) -> tuple[int, ...]:
    """The lengths, each once and rising.

    Raises:
        ArgumentError: there is none, or one is below 1 or beyond all computers.
    """
    rising = tuple(sorted(set(lengths)))
    if not rising:
        raise ArgumentError(f"{parameter('lengths')}: expected at least one, got none")
    for length in (rising[0], rising[-1]):
        if not 1 <= length <= LONGEST:
            raise ArgumentError(f"{parameter('lengths')}: expected tokens from 1 to {LONGEST:,}, got {counted(length)}")
    return rising
