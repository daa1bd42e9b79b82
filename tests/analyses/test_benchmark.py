"""With a clock that the test sets: what is skipped, how often the rest runs, and who takes turns."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.analyses import benchmark
from mhaviz.analyses.benchmark import check_lengths, measure, measure_peak, with_doublings
from mhaviz.errors import ArgumentError

CPU = torch.device("cpu")


@pytest.fixture
def timed(monkeypatch):
    """Measures works a, b, … that do nothing and are said to take ``cost(length)`` seconds; notes who ran."""

    def measured(*costs, lengths, **options):
        def works_at(length):
            return {name: lambda name=name, cost=cost: (name, length, cost) for name, cost in zip("abcd", costs)}  # noqa: B905

        def seconds(work, device):
            name, length, cost = work()
            measured.runs.append((name, length))
            return cost(length)

        monkeypatch.setattr(benchmark, "run_seconds", seconds)
        return tuple(measure(works_at, lengths, CPU, **options).values())

    measured.runs = []
    return measured


def test_what_takes_too_long_is_skipped_and_said_to_be(timed):
    slow, fast = timed(lambda n: n**2 / 1e4, lambda n: n / 1e6, lengths=[16, 64, 256, 1024])
    assert [t.skipped for t in slow] == [False, False, True, True]
    assert slow[1].seconds == pytest.approx(0.4096)
    assert slow[2].would_take == pytest.approx(6.5536), "from 128 tokens, by the square"
    assert slow[3].would_take == pytest.approx(104.8576)
    assert [t.seconds for t in fast] == pytest.approx([16e-6, 64e-6, 256e-6, 1024e-6])
    assert max(length for name, length in timed.runs if name == "a") == 128


@pytest.mark.parametrize("usual", [1e-3, 1.0])
@pytest.mark.parametrize(("lengths", "slow"), [([16, 64], 1), ([16, 64], 2), ([16, 32, 64], 4), ([16, 32, 64], 5)])
def test_stalled_runs_end_no_curve(timed, usual, lengths, slow):
    """Of 32 tokens the first runs stall: by them, 64 tokens would take 16 s of 5."""
    runs = iter([4.0] * slow)
    (found,) = timed(lambda n: next(runs, usual) if n == 32 else usual, lengths=lengths)
    assert [t.skipped for t in found] == [False] * len(lengths)
    assert [found[0].seconds, found[-1].seconds] == [usual, usual]


@pytest.mark.parametrize(("slow", "usual", "n_passes"), [(4, 0.1, benchmark.PASSES - 2), (6, 1.0, 1)])
def test_a_length_that_some_pass_skips_has_fewer_passes(timed, slow, usual, n_passes):
    runs = iter([4.0] * slow)
    ((_, of_64, of_128),) = timed(lambda n: next(runs, usual) if n == 32 else usual, lengths=[32, 64, 128])
    assert len(of_64.passes) == len(of_128.passes) == n_passes
    assert of_64.quartiles == (usual, usual)


def test_what_is_slow_again_and_again_is_run_no_more(timed):
    ((_, slow, slower),) = timed(lambda n: n**2 / 100, lengths=[16, 32, 64])
    assert slow.would_take == pytest.approx(10.24)
    assert slower.would_take == pytest.approx(40.96)
    of_16 = sum(length == 16 for _, length in timed.runs)
    assert of_16 == benchmark.PASSES + 2, "and two that confirm that 32 would take too long"


def test_passes_go_over_all_lengths_again(timed):
    times = iter(range(1, 1000))
    ((short, long),) = timed(lambda n: next(times) if n > 2 else 0.5, lengths=[4, 5])
    assert short.passes == (1, 3, 5, 7, 9), "a machine that slows down does so at all lengths"
    assert long.passes == (2, 4, 6, 8, 10)
    assert (short.seconds, short.quartiles) == (5, (3, 7))


def test_what_does_not_fit_is_skipped(timed, monkeypatch):
    monkeypatch.setattr(benchmark, "free_memory", lambda device: 100 * 1000)
    monkeypatch.setattr(benchmark, "measure_peak", lambda work, device: (work()[1] ** 2, 0))
    ((small, large, larger),) = timed(lambda n: 1e-6, lengths=[200, 400, 800])
    assert (small.peak_bytes, large.peak_bytes) == (40_000, None)
    assert (large.would_need, larger.would_need) == (160_000, 640_000)


def test_memory_that_would_take_too_many_notes_is_left_out(timed, monkeypatch):
    monkeypatch.setattr(benchmark, "measure_peak", lambda work, device: (8, work()[1] ** 2))
    ((few, many),) = timed(lambda n: 1e-6, lengths=[1000, 1024])
    assert (few.peak_bytes, many.peak_bytes) == (8, None)
    assert many.seconds == 1e-6


def test_memory_is_foreseen_from_the_last_that_was_measured(timed, monkeypatch):
    peaks = {200: (40_000, 0)}
    monkeypatch.setattr(benchmark, "free_memory", lambda device: 200 * 1000)
    monkeypatch.setattr(benchmark, "measure_peak", lambda work, device: peaks.get(work()[1], (None, 0)))
    ((_, unmeasured, large),) = timed(lambda n: 1e-6, lengths=[200, 400, 800])
    assert (unmeasured.peak_bytes, large.would_need) == (None, 640_000)


def test_one_round_a_pass_and_more_of_what_is_fast(timed):
    slow, fast = timed(lambda n: 4.0 if n == 8 else 0.0, lambda n: 0.01, lengths=[8])
    assert slow[0].rounds == benchmark.PASSES
    assert fast[0].rounds == 3 * benchmark.PASSES


def test_the_median_is_not_the_mean_and_the_first_run_does_not_count(timed):
    times = iter([0.009, 0.001, 0.001, 0.002] * benchmark.PASSES)
    ((of_one,),) = timed(lambda n: next(times), lengths=[1])
    assert (of_one.seconds, of_one.rounds) == (0.001, 3 * benchmark.PASSES)


def test_they_take_turns(timed):
    timed(lambda n: 1.0, lambda n: 1.0, lengths=[1])
    assert "".join(name for name, _ in timed.runs) == "abbaabbaab"


def test_progress_is_told(timed):
    told = []
    timed(lambda n: 0.0, lambda n: 0.0, lengths=[1, 2], on_progress=lambda *what: told.append(what))
    of_first = [(0, "N = 1: a, pass 1"), (0.05, "N = 1: b, pass 1"), (0.1, "N = 2: a, pass 1")]
    of_last = [(0.9, "N = 2: a, pass 5"), (0.95, "N = 2: b, pass 5"), (1, "")]
    assert [told[:3], told[-3:]] == [of_first, of_last]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=5))
def test_no_step_is_more_than_a_doubling(lengths):
    steps = with_doublings(check_lengths(lengths))
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


def test_the_clock_runs():
    assert 0 < benchmark.run_seconds(lambda: torch.ones(1000).sum(), CPU) < 60


@pytest.mark.parametrize("numbers", [1, 1000, 10**6])
def test_the_peak_of_known_allocations(numbers):
    def work():
        first = torch.empty(numbers)
        second = torch.empty(2 * numbers)
        del first
        third = torch.empty(numbers)
        return second, third

    size = 4 * numbers
    assert measure_peak(lambda: torch.empty(numbers), CPU)[0] == size
    assert measure_peak(lambda: torch.empty(numbers).add_(1).sum(), CPU)[0] >= size + 4
    assert measure_peak(work, CPU) == (3 * size, 4)


def test_what_was_there_before_does_not_count():
    held = torch.empty(10**6)
    assert measure_peak(lambda: None, CPU)[0] == 0
    assert measure_peak(lambda: held[:1000].clone(), CPU)[0] == 4000


def test_watching_says_nothing(capfd):
    measure_peak(lambda: torch.empty(3), CPU)
    assert capfd.readouterr() == ("", "")


def test_on_a_gpu_the_clock_waits_and_the_peak_is_that_of_its_allocator(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("wait"))
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 350)
    cuda = torch.device("cuda")
    benchmark.run_seconds(lambda: calls.append("work"), cuda)
    assert calls == ["wait", "work", "wait"]
    calls.clear()
    assert measure_peak(lambda: calls.append("work"), cuda) == (250, 0)
    assert calls == ["wait", "reset", "work", "wait"]
    assert measure_peak(lambda: None, torch.device("meta")) == (None, 0)
