"""Predicted operations against torch's own counter, and crossovers by arithmetic."""

import math
from collections import Counter
from itertools import pairwise, product
from statistics import median

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from mhaviz.analyses import benchmark
from mhaviz.analyses.benchmark import Bench
from mhaviz.analyses.complexity import attend, longest_input, measure_complexity, predict, project, time_order
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.models.single_layer import RandomLayer
from mhaviz.results.timing import Timing

CPU = torch.device("cpu")


def measured(lengths=(2, 8), d_model=16, n_heads=4, free=None):
    return measure_complexity(Bench(d_model, n_heads, 0, CPU), free or {"cpu": 2**30}, lengths)


def counted(work):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        work()
    return counter.get_total_flops()


def products(terms, d_model, n_heads, N):
    """Without what is not a matrix product: biases, the scale, the softmax."""
    others = {"Q, K, V": 3 * N * d_model, "S": N * d_model, "A": 5 * n_heads * N**2, "O": N * d_model}
    return {term.name: term.flops[0] - others.get(term.name, 0) for term in terms}


@settings(max_examples=25)
@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 6))
def test_operations_are_those_that_torch_counts(N, n_heads, d_key):
    d_model = n_heads * d_key
    layer = MultiHeadAttention(d_model, n_heads).eval()
    X = torch.zeros(1, N, d_model)
    Q, K, V = layer.project(X, X, X)
    predicted = products(predict([N], d_model, n_heads), d_model, n_heads, N)
    assert predicted.pop("A") == 0
    assert sum(predicted.values()) == counted(lambda: layer(X, X, X))
    assert predicted["Q, K, V"] + predicted["O"] == counted(lambda: project(layer, X))
    assert predicted["S"] + predicted["H"] == counted(lambda: attend(Q, K, V))


@pytest.mark.parametrize(("N", "d_model", "n_heads"), [(6, 8, 4), (100_000, 512, 8), (3, 7, 1)])
def test_all_operations_are_those_of_the_trace(N, d_model, n_heads):
    trace = RandomLayer(d_model, n_heads).trace_sizes(1, N)
    terms = {term.name: term for term in predict([N], d_model, n_heads)}
    for name in ("S", "A", "H", "O"):
        assert terms[name].flops == (trace.step(name).flops,)
    assert terms["Q, K, V"].flops == (sum(trace.step(name).flops for name in "QKV"),)
    for name in ("A", "H", "O"):
        assert terms[name].bytes == (trace.step(name).bytes,)
    assert terms["Q, K, V"].bytes == (3 * trace.step("Q").bytes,)


def test_parts_together_are_the_layer():
    bench = Bench(16, 4, 0, CPU)
    layer, X = bench.layer, bench.input(5)
    with torch.no_grad():
        H = attend(*layer.project(X, X, X))
        output = layer.Wo(H.transpose(1, 2).flatten(2))
        torch.testing.assert_close(output, layer(X, X, X)[0])


def test_crossovers_by_terms_and_by_operations():
    c = measured(d_model=16, n_heads=4)
    assert c.equal_terms == 16
    assert 16**2 * c.d_model == 16 * c.d_model**2
    at_crossing = products(predict([c.equal_operations], 16, 4), 16, 4, c.equal_operations)
    assert at_crossing["S"] + at_crossing["H"] == at_crossing["Q, K, V"] + at_crossing["O"]
    assert c.parameter_bytes == sum(p.numel() * 4 for p in MultiHeadAttention(16, 4).parameters())


def timings(*passes):
    return [Timing(of_length[0], 3, passes=of_length) if all(of_length) else Timing(would_take=9.0)
            for of_length in zip(*passes, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("projections", "attention", "verdict", "crossover"),
    [
        ((1, 10, 100), (0.1, 10**0.5, 1000), "crosses", (10 ** (4 / 3), 10 ** (4 / 3))),
        ((4, 4, 4), (1, 2, 8), "crosses", (10**1.5, 10**1.5)),
        ((4, 4, 4), (1, 4, 16), "crosses", (10, 10)),
        ((4, 4, 4), (1, 2, 3), "less", None),
        ((1, 1, 1), (2, 4, 8), "more", None),
        ((4, 4, None), (1, 16, None), "crosses", (10**0.5, 10**0.5)),
        ((4, None), (1, None), "less", None),
        ((None, None, None), (None, None, None), "unmeasured", None),
        ((4, 4, 4), (8, 2, 8), "mixed", None),  # dearer at the shortest length, too
        ((4, 4, 4), (8, 8, 2), "mixed", None),
        ((4, 4, 4, 4), (1, 16, 1, 16), "crosses", (10**0.5, 10**2.5)),  # back and forth: the range
    ],
)
def test_which_part_takes_more_time(projections, attention, verdict, crossover):
    lengths = [10**i for i in range(len(projections))]
    order = time_order(lengths, timings(projections), timings(attention))
    assert order.verdict == verdict
    assert order.lengths == tuple(N for N, seconds in zip(lengths, projections, strict=True) if seconds)
    assert order.crossover == (None if crossover is None else pytest.approx(crossover))


def test_a_length_that_some_pass_has_skipped_is_left_out():
    whole, part = Timing(4, 3, passes=(4, 4)), Timing(9, 3, passes=(9,))
    order = time_order((1, 10, 100), [Timing(5, 3, passes=(5, 5))] * 3, [whole, whole, part])
    assert (order.verdict, order.lengths) == ("less", (1, 10))


def of_passes(*attention):
    """The verdict and crossover of passes in which the projections always take 4 s."""
    order = time_order((1, 10, 100), timings(*[(4, 4, 4)] * len(attention)), timings(*attention))
    return order.verdict, order.crossover


def test_the_range_is_that_of_the_passes_but_for_a_stalled_one():
    early, late = (1, 16, 64), (1, 2, 8)
    for passes, low, high in (
        ((early, early, early, late, late), 10**0.5, 10**1.5),
        ((early, early, early, early, early), 10**0.5, 10**0.5),
        ((early, early, early, early, (900, 16, 64)), 10**0.5, 10**0.5),
    ):
        assert of_passes(*passes) == ("crosses", pytest.approx((low, high)))
    # dearer in a third of all samples
    assert of_passes(early, early, early, (900, 16, 64), (900, 16, 64)) == ("unclear", None)
    assert of_passes((1, 2, 8), (1, 2, 3)) == ("unclear", None)


def order_of_each_sample(lengths, projections, attention):
    """What ``time_order`` gives, by a loop over every sample; projections, attention: [pass][length]."""
    samples = list(product(range(len(attention)), repeat=len(attention)))
    said, firsts, lasts = Counter(), [], []
    for sample in samples:
        logs = (
            [median(math.log(of_part[i][n]) for i in sample) for n in range(len(lengths))]
            for of_part in (projections, attention)
        )
        ahead = [of_attention - of_projections for of_projections, of_attention in zip(*logs, strict=True)]
        if all(x < 0 for x in ahead) or all(x > 0 for x in ahead):
            said["less" if ahead[0] < 0 else "more"] += 1
        elif ahead[0] > 0 or ahead[-1] < 0:
            said["mixed"] += 1
        else:
            said["crosses"] += 1
            ends = zip(pairwise(lengths), pairwise(ahead), strict=True)
            met = [N * (M / N) ** (low / (low - high)) for (N, M), (low, high) in ends if low * high < 0]
            firsts.append(math.log(met[0]))
            lasts.append(math.log(met[-1]))
    ((verdict, count),) = said.most_common(1)
    if count < 0.9 * len(samples):
        return "unclear", None
    range_of = (np.quantile(firsts, 0.05), np.quantile(lasts, 0.95)) if verdict == "crosses" else None
    return verdict, range_of and pytest.approx(np.exp(range_of), rel=1e-12)


def test_samples_are_counted_as_often_as_they_are_drawn():
    random, verdicts = np.random.default_rng(0), set()
    for n_passes, spread in product((1, 2, 3, 4), (0.1, 0.3, 0.6, 1.2)):
        lengths, shift = (3, 20, 50, 400), random.choice([-2, 0, 2])
        projections = np.exp(random.normal(0, spread, (n_passes, 4)))
        attention = np.exp(random.normal([-1 + shift, -0.2 + shift, 0.1 + shift, 1 + shift], spread, (n_passes, 4)))
        found = time_order(lengths, timings(*projections), timings(*attention))
        assert (found.verdict, found.crossover) == order_of_each_sample(lengths, projections, attention)
        verdicts.add(found.verdict)
    assert verdicts >= {"less", "more", "crosses", "unclear"}


@given(st.integers(0, 2**60), st.integers(1, 1000))
def test_the_longest_input_fits_and_one_more_does_not(free, n_heads):
    tokens = longest_input("cpu", free, n_heads).tokens
    assert 4 * n_heads * tokens**2 <= free < 4 * n_heads * (tokens + 1) ** 2


def test_longest_inputs():
    c = measured(n_heads=4, free={"cpu": 2**30, "cuda": None})
    assert [(x.device, x.free_bytes, x.tokens) for x in c.longest] == [("cpu", 2**30, 2**13), ("cuda", None, None)]


def test_predictions_stand_where_nothing_was_measured(monkeypatch):
    monkeypatch.setattr(benchmark, "MOST_SECONDS", 0.01)
    c = measured([4, 10**12])
    assert not c.whole[0].skipped
    assert c.whole[1].skipped
    assert c.flops()[1] == sum(term.flops[1] for term in c.terms) > 4 * 10**24 * 16
    assert c.weight_bytes[1] == 4 * 4 * 10**24
    assert c.time_order.lengths == (4,)
