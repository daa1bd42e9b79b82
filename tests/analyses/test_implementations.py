"""The five implementations against torch.nn.MultiheadAttention in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import rounding
from torch import nn

from mhaviz.analyses import benchmark, implementations
from mhaviz.analyses.benchmark import Bench
from mhaviz.analyses.implementations import IMPLEMENTATIONS, compare_implementations, fused_kernel, torch_twin
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.pages.implementations import implementations_page

CLOSE = rounding()

CPU = torch.device("cpu")


def exact_output(layer, X):
    """By torch, in float64, from the layer's weights."""
    twin = nn.MultiheadAttention(layer.d_model, layer.n_heads, batch_first=True, dtype=torch.float64).eval()
    state = {
        "in_proj_weight": torch.cat([layer.Wq.weight, layer.Wk.weight, layer.Wv.weight]),
        "in_proj_bias": torch.cat([layer.Wq.bias, layer.Wk.bias, layer.Wv.bias]),
        "out_proj.weight": layer.Wo.weight,
        "out_proj.bias": layer.Wo.bias,
    }
    twin.load_state_dict(state)
    X = X.double()
    return twin(X, X, X)[0]


@pytest.fixture(autouse=True)
def _no_more_rounds_than_must_be(monkeypatch):
    monkeypatch.setattr(benchmark, "run_seconds", lambda work, device: (work(), 0.1)[1])


def compare(lengths, d_model=16, n_heads=2):
    return compare_implementations(Bench(d_model, n_heads, 0, CPU), lengths)


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_all_agree(length, n_heads, d_key, seed):
    bench = Bench(n_heads * d_key, n_heads, seed, CPU)
    X = bench.input(length)
    with torch.no_grad():
        expected = exact_output(bench.layer, X)
        for way in IMPLEMENTATIONS:
            output = way.of(bench.layer)(X)
            assert output.shape == (1, length, n_heads * d_key), way.name
            torch.testing.assert_close(output.double(), expected, rtol=0, atol=CLOSE)


def test_the_biases_are_not_zero():
    layer = Bench(16, 2, 0, CPU).layer
    assert all((projection.bias != 0).all() for projection in (layer.Wq, layer.Wk, layer.Wv, layer.Wo))


def test_the_twin_is_a_copy():
    layer = MultiHeadAttention(8, 2).double().eval()
    twin = torch_twin(layer)
    assert twin.in_proj_weight.dtype == torch.float64
    assert not twin.training
    X = torch.randn(1, 3, 8, dtype=torch.float64)
    torch.testing.assert_close(twin(X, X, X)[0], layer(X, X, X)[0])


def test_differences_are_small_and_those_of_the_outputs():
    comparison = compare([3, 7])
    bench = Bench(16, 2, 0, CPU)
    for way, implementation in zip(IMPLEMENTATIONS, comparison.implementations, strict=True):
        for length, difference in zip((3, 7), implementation.differences, strict=True):
            with torch.no_grad():
                X = bench.input(length)
                expected = (way.of(bench.layer)(X).double() - exact_output(bench.layer, X)).abs().max().item()
            assert difference == pytest.approx(expected, rel=0.01, abs=1e-9)
            assert difference < CLOSE


def test_a_broken_way_is_seen(monkeypatch):
    def unscaled(layer, X):
        Q, K, V = layer.project(X, X, X)
        return layer.Wo((torch.softmax(Q @ K.mT, -1) @ V).transpose(1, 2).flatten(2))

    broken = IMPLEMENTATIONS[1]._replace(of=lambda layer: lambda X: unscaled(layer, X))
    monkeypatch.setattr(implementations, "IMPLEMENTATIONS", (IMPLEMENTATIONS[0], broken, *IMPLEMENTATIONS[2:]))
    differences = [way.differences[0] for way in compare([5]).implementations]
    assert differences[1] > 0.01
    assert max(differences[:1] + differences[2:]) < CLOSE


def test_slow_ways_are_skipped_and_have_no_speedup(monkeypatch):
    shares = {name: 1.0 if name == IMPLEMENTATIONS[0].name else 0.01 for name in (way.name for way in IMPLEMENTATIONS)}
    taken = []

    def slowly(layer, X, name):
        taken.append(shares[name] * X.shape[1] ** 2 / 64)
        return fused_kernel(layer, X)

    monkeypatch.setattr(
        implementations,
        "IMPLEMENTATIONS",
        [way._replace(of=lambda layer, name=way.name: lambda X: slowly(layer, X, name)) for way in IMPLEMENTATIONS],
    )
    monkeypatch.setattr(benchmark, "run_seconds", lambda work, device: (work(), taken[-1])[1])
    comparison = compare([8, 16, 32])
    loops, *others = comparison.implementations
    assert [timing.skipped for timing in loops.timings] == [False, False, True]
    assert loops.timings[2].would_take == pytest.approx(16)
    assert loops.differences[2] is None
    for other in others:
        assert other.speedups == (pytest.approx(100), pytest.approx(100), None)
        assert not other.timings[2].skipped


@pytest.mark.slow
def test_memory_of_the_weights_is_seen():
    comparison = compare([32], d_model=16, n_heads=8)
    peaks = {way.name: way.timings[0].peak_bytes for way in comparison.implementations}
    all_heads, one_head = 4 * 8 * 32**2, 4 * 32**2
    assert peaks["mhaviz's layer"] > all_heads
    assert peaks["PyTorch's layer"] > all_heads
    assert one_head < peaks["loop over heads"] < all_heads
    assert peaks["nested loops"] < all_heads


def test_a_long_input_has_no_reference(monkeypatch):
    monkeypatch.setattr(implementations, "_LONGEST_COMPARED", 8)
    assert all(way.differences[0] and way.differences[1] is None for way in compare([8, 16]).implementations)


def test_the_same_seed_gives_the_same_numbers():
    first, again, other = (Bench(16, 2, seed, CPU).input(3) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("d_model", "n_heads", "seed", "error", "message"),
    [
        (10, 3, 0, ArgumentError, "divide d_model"),
        (8, 2, -1, ArgumentError, "`seed`: expected a number from 0"),
        (2**40, 2, 0, MhavizError, "of memory on cpu"),
    ],
)
def test_a_bench_that_cannot_be(d_model, n_heads, seed, error, message):
    with pytest.raises(error, match=message):
        Bench(d_model, n_heads, seed, CPU)


def test_sources_say_where():
    source = Bench(16, 1, 3, CPU).source
    assert source.footnote.startswith("random weights, seed 3, d_model 16, 1 head, cpu, ")
    assert torch.__version__ in source.footnote
    assert source.details["threads"] == torch.get_num_threads()


def test_the_first_plot_has_times_over_the_least_at_each_length_without_the_slowest_way():
    c = compare([4, 8])
    plot = implementations_page(c).blocks[0].plots[0]
    least = [min(one.timings[n].seconds for one in c.implementations) for n in range(2)]
    assert [series.name for series in plot.series] == [one.name for one in c.implementations[1:]]
    for series, one in zip(plot.series, c.implementations[1:], strict=True):
        assert series.ys == tuple(t.seconds / s for t, s in zip(one.timings, least, strict=True))
    assert plot.notes[0].startswith(c.implementations[0].name)
