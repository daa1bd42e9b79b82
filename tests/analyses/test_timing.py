"""The laboratory, with a clock that the test sets: what is skipped, how often the rest runs, and who takes turns."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.analyses import timing
from mhaviz.analyses.memory import measure_peak
from mhaviz.analyses.timing import Laboratory, check_lengths, rungs
from mhaviz.errors import ArgumentError

CPU = torch.device("cpu")


class Pieces:
    """Work that does nothing and is said to take ``cost(length)`` seconds; it notes who ran."""

    def __init__(self, *costs, most_seconds=5.0):
        self.costs, self.runs, self.asked = costs, [], []
        self.laboratory = Laboratory(CPU, most_seconds, seconds=self.seconds)
        self.last = 0.0

    def works_at(self, length):
        self.asked.append(length)
        return [lambda i=i: self.run(i, length) for i in range(len(self.costs))]

    def run(self, i, length):
        self.runs.append((i, length))
        self.last = self.costs[i](length)
        return i, length

    def seconds(self, work):
        work()
        return self.last

    def measure(self, *lengths, **options):
        return self.laboratory.measure(lengths, list("abcd"[: len(self.costs)]), self.works_at, **options)


def test_what_takes_too_long_is_skipped_and_said_to_be():
    pieces = Pieces(lambda n: n**2 / 1e4, lambda n: n / 1e6)
    slow, fast = pieces.measure(16, 64, 256, 1024)
    assert [t.skipped for t in slow] == [False, False, True, True]
    assert slow[1].seconds == pytest.approx(0.4096)
    assert slow[2].would_take == pytest.approx(6.5536), "from 128 tokens, by the square"
    assert slow[3].would_take == pytest.approx(104.8576)
    assert [t.seconds for t in fast] == pytest.approx([16e-6, 64e-6, 256e-6, 1024e-6])
    assert max(length for i, length in pieces.runs if i == 0) == 128


def test_one_slow_run_on_the_way_is_not_believed():
    slow_once = iter([4.0])
    pieces = Pieces(lambda n: next(slow_once, 1e-3) if n == 32 else 1e-3)
    ((small, large),) = pieces.measure(16, 64)
    assert (small.seconds, large.seconds) == (1e-3, 1e-3)


def test_absurd_lengths_cost_nothing(monkeypatch):
    pieces = Pieces(lambda n: n**2 / 1e8)
    ((timing_of_it,),) = pieces.measure(10**12)
    assert timing_of_it.would_take == pytest.approx(1e16)
    assert max(pieces.asked) <= 2048


def test_what_does_not_fit_is_skipped(monkeypatch):
    monkeypatch.setattr(timing, "free_memory", lambda device: 100 * 1000)
    monkeypatch.setattr(timing, "measure_peak", lambda work, device: timing.Peak(work()[1] ** 2))
    ((small, large, larger),) = Pieces(lambda n: 1e-6).measure(200, 400, 800)
    assert (small.peak_bytes, large.peak_bytes) == (40_000, None)
    assert (large.would_need, larger.would_need) == (160_000, 640_000)


def test_memory_that_would_take_too_many_notes_is_left_out(monkeypatch):
    monkeypatch.setattr(timing, "measure_peak", lambda work, device: timing.Peak(8, notes=work()[1] ** 2))
    ((few, many),) = Pieces(lambda n: 1e-6).measure(1000, 1024)
    assert (few.peak_bytes, many.peak_bytes) == (8, None)
    assert many.seconds == 1e-6


def test_at_least_three_rounds_and_more_of_what_is_fast():
    slow, fast = Pieces(lambda n: 4.0 if n == 8 else 0.0, lambda n: 0.01).measure(8)
    assert slow[0].rounds == 3
    assert fast[0].rounds == 15


def test_the_median_is_not_the_mean():
    times = iter([0.2, 0.1, 0.1, 0.9])
    laboratory = Laboratory(CPU, 5.0, seconds=lambda work: (work(), next(times))[1])
    ((of_one,),) = laboratory.measure([1], ["a"], lambda length: [lambda: None])
    assert (of_one.seconds, of_one.rounds) == (0.1, 3)


def test_ways_take_turns():
    pieces = Pieces(lambda n: 1.0, lambda n: 1.0)
    pieces.measure(1)
    assert [i for i, _ in pieces.runs][-6:] == [0, 1, 1, 0, 0, 1]


def test_results_are_shown_and_progress_is_told():
    seen, told = [], []
    pieces = Pieces(lambda n: 0.0, lambda n: 0.0)
    object.__setattr__(pieces.laboratory, "on_progress", lambda done, what: told.append((done, what)))
    pieces.measure(1, 2, look=lambda length, i, result: seen.append((length, i, result)))
    assert seen == [(1, 0, (0, 1)), (1, 1, (1, 1)), (2, 0, (0, 2)), (2, 1, (1, 2))]
    assert told == [(0, "N = 1: a"), (0.25, "N = 1: b"), (0.5, "N = 2: a"), (0.75, "N = 2: b"), (1, "")]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=5))
def test_no_step_is_more_than_a_doubling(lengths):
    steps = rungs(check_lengths(lengths))
    assert set(lengths) <= set(steps)
    assert steps[0] == 1
    assert all(low < high <= 2 * low for low, high in pairwise(steps))


def test_lengths_rise_and_come_once():
    assert check_lengths([64, 16, 64]) == (16, 64)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [([], "got none"), ([4, 0], "from 1 to 1,000,000,000,000, got 0"), ([-3], "got -3"), ([10**13], "got 10,000")],
)
def test_lengths_that_cannot_be(lengths, message):
    with pytest.raises(ArgumentError, match=message):
        check_lengths(lengths)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_budget_that_cannot_be(seconds):
    with pytest.raises(ArgumentError, match="`most_seconds`: expected a number above 0"):
        Laboratory(CPU, seconds)


def test_the_clock_runs():
    assert 0 < timing.stopwatch(CPU)(lambda: torch.ones(1000).sum()) < 60


@pytest.mark.parametrize("numbers", [1, 1000, 10**6])
def test_the_peak_of_known_allocations(numbers):
    def work():
        first = torch.empty(numbers)
        second = torch.empty(2 * numbers)
        del first
        third = torch.empty(numbers)
        return second, third

    size = 4 * numbers
    assert measure_peak(lambda: torch.empty(numbers), CPU).bytes == size
    assert measure_peak(lambda: torch.empty(numbers).add_(1).sum(), CPU).bytes >= size + 4
    peak = measure_peak(work, CPU)
    assert (peak.bytes, peak.notes) == (3 * size, 4)


def test_what_was_there_before_does_not_count():
    held = torch.empty(10**6)
    assert measure_peak(lambda: None, CPU).bytes == 0
    assert measure_peak(lambda: held[:1000].clone(), CPU).bytes == 4000


def test_watching_says_nothing(capfd):
    measure_peak(lambda: torch.empty(3), CPU)
    assert capfd.readouterr() == ("", "")


def test_what_is_known_to_be_needed_is_heeded_where_the_device_does_not_tell(monkeypatch):
    monkeypatch.setattr(timing, "free_memory", lambda device: 1000)
    monkeypatch.setattr(timing, "measure_peak", lambda work, device: timing.UNWATCHED)
    ((small, large),) = Pieces(lambda n: 1e-6).measure(10, 40, needed=lambda length: [length**2])
    assert (small.skipped, small.peak_bytes) == (False, None)
    assert large.would_need == 1600


def test_on_a_gpu_the_clock_waits_and_the_peak_is_that_of_its_allocator(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 350)
    cuda = torch.device("cuda")
    timing.stopwatch(cuda)(lambda: calls.append("work"))
    assert calls == ["wait", "work", "wait"]
    calls.clear()
    assert measure_peak(lambda: calls.append("work"), cuda).bytes == 250
    assert calls == ["wait", "reset", "work", "wait"]
    assert measure_peak(lambda: None, torch.device("meta")).bytes is None
