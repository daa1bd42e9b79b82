"""Complexity of attention, O(N²·d_model + N·d_model²), counted step by step and measured.

Each projection costs N·d_model², as every token is multiplied by every weight of a matrix. The scores Q Kᵀ and the
outputs A V cost N²·d_model each, as every token is combined with every other. Vaswani et al. 2017, "Attention Is All
You Need", section 4 and table 1.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.benchmark import Bench, OnProgress, Work, check_lengths, measure
from mhaviz.layer.attention import MultiHeadAttention, weigh
from mhaviz.results.complexity import SHARE, Complexity, CostTerm, LongestInput, Part, TimeOrder, Verdict
from mhaviz.results.timing import Timing

FLOAT32 = 4  # bytes

_OF_SAMPLES: tuple[Verdict, ...] = ("less", "more", "crosses", "mixed")
"""What a sample of passes may say."""

_STEPS: tuple[tuple[str, str, Part, str, str], ...] = (
    # The second term of a projection adds the biases.
    ("Q, K, V", "X Wq, X Wk, X Wv", "projections", "6·N·d_model² + 3·N·d_model", "12·N·d_model"),
    # The second term is Q / √d_key; A overwrites S.
    ("S", "Q Kᵀ / √d_key", "attention", "2·N²·d_model + N·d_model", ""),
    # Five operations for each weight: compare, subtract, exponentiate, add, divide.
    ("A", "softmax(S)", "attention", "5·n_heads·N²", "4·n_heads·N²"),
    ("H", "A V", "attention", "2·N²·d_model", "4·N·d_model"),
    ("O", "concat(H) Wo", "projections", "2·N·d_model² + N·d_model", "4·N·d_model"),
)
"""Name, equation, part, operations and bytes of each step."""


def predict(lengths: Sequence[int], d_model: int, n_heads: int) -> tuple[CostTerm, ...]:
    """Predict the operations and bytes of each step of the layer at the lengths N, for one sentence without a mask."""

    def numbers(formula: str) -> tuple[int, ...]:
        code = compile(formula.replace("·", "*").replace("²", "**2") or "0", formula, "eval")
        return tuple(eval(code, {"N": N, "d_model": d_model, "n_heads": n_heads}) for N in lengths)

    return tuple(CostTerm(*step, numbers(step[-2]), numbers(step[-1])) for step in _STEPS)


@torch.no_grad()
def measure_complexity(
    bench: Bench,
    free: Mapping[str, int | None],
    lengths: Sequence[int],
    on_progress: OnProgress = lambda done, what: None,
) -> Complexity:
    """Predict the costs at each length, and measure the times where the layer finishes in time.

    Args:
        bench: the layer.
        free: free bytes of each device by name; None: not known.
        lengths: in tokens.
        on_progress: see ``measure``.

    Raises:
        ArgumentError: invalid lengths.
    """
    rising, layer = check_lengths(lengths), bench.layer

    def works_at(length: int) -> dict[str, Work]:
        X = bench.input(length)
        Q, K, V = layer.project(X, X, X)
        return {
            "projections": lambda: project(layer, X),
            "attention": lambda: attend(Q, K, V),
            "whole": lambda: layer(X, X, X),
        }

    timings = {name: tuple(of_one) for name, of_one in measure(works_at, rising, bench.device, on_progress).items()}
    return Complexity(
        source=bench.source,
        d_model=bench.d_model,
        n_heads=bench.n_heads,
        lengths=rising,
        terms=predict(rising, bench.d_model, bench.n_heads),
        parameter_bytes=FLOAT32 * 4 * bench.d_model * (bench.d_model + 1),
        **timings,
        equal_terms=bench.d_model,  # N²·d_model = N·d_model²
        equal_operations=2 * bench.d_model,  # 2 · 2·N²·d_model = 4 · 2·N·d_model²
        time_order=time_order(rising, timings["projections"], timings["attention"]),
        longest=tuple(longest_input(device, size, bench.n_heads) for device, size in free.items()),
    )


def project(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """Compute Q = X Wq, K = X Wk, V = X Wv and O = H Wo, with X, (1, N, d_model), in place of H of the same shape."""
    layer.project(X, X, X)
    O: Tensor = layer.Wo(X)
    return O


def attend(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Compute S = Q Kᵀ / √d_key, A = softmax(S), H = A V as in the layer; Q, K, V and H are (1, n_heads, N, d_key)."""
    S = Q / math.sqrt(Q.shape[-1]) @ K.mT  # 1 n_heads N N
    H: Tensor = weigh(S, overwrite=True) @ V
    return H


def time_order(lengths: Sequence[int], projections: Sequence[Timing], attention: Sequence[Timing]) -> TimeOrder:
    """Return which part takes more time, at the lengths that no pass has skipped.

    Passes are resampled with replacement (Efron 1979, Annals of Statistics 7), and each sample compares median times.
    The verdict is what at least ``SHARE`` of all samples say. Where it is that times cross, each sample that says so
    gives the first and the last length at which straight lines on logarithmic axes meet, and the crossover holds the
    middle ``SHARE`` of these lengths.
    """
    n_passes = max(len(timing.passes) for timing in (*projections, *attention))
    measured = zip(lengths, projections, attention, strict=True)
    both = [(N, p.passes, a.passes) for N, p, a in measured if len(p.passes) == len(a.passes) == n_passes > 0]
    if not both:
        return TimeOrder("unmeasured", ())
    compared, of_projections, of_attention = zip(*both, strict=True)
    # Samples that differ in their order alone have the same medians: each stands for all of its orders.
    samples = list(combinations_with_replacement(range(n_passes), n_passes))
    orders = np.array([_orders(sample) for sample in samples])
    beyond = _log_medians(of_attention, samples) - _log_medians(of_projections, samples)  # samples lengths
    is_more = beyond >= 0
    crosses = ~is_more[:, 0] & is_more[:, -1]
    said = np.select([~is_more.any(axis=1), is_more.all(axis=1), crosses], [0, 1, 2], 3)
    counts = np.bincount(said, orders)
    verdict = _OF_SAMPLES[counts.argmax()] if counts.max() >= SHARE * counts.sum() else "unclear"
    if verdict != "crosses":
        return TimeOrder(verdict, compared)
    ends = np.repeat(_crossings(np.log(compared), beyond[crosses]), orders[crosses], axis=0)
    tail = (1 - SHARE) / 2
    low, high = np.exp([np.quantile(ends[:, 0], tail), np.quantile(ends[:, 1], 1 - tail)])
    return TimeOrder(verdict, compared, (float(low), float(high)))


def _orders(sample: Sequence[int]) -> int:
    """Return the number of distinct orders of a sample: n! / (n₁! n₂! …) for numbers that occur nᵢ times."""
    return math.factorial(len(sample)) // math.prod(math.factorial(sample.count(i)) for i in set(sample))


def _log_medians(passes: Sequence[Sequence[float]], samples: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return the logarithm of the median time of each sample of passes, (samples, lengths)."""
    medians: NDArray[np.float64] = np.median(np.log(passes)[:, samples], axis=-1).T
    return medians


def _crossings(places: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first and the last place where each line crosses 0, (lines, 2); heights: (lines, places)."""
    changes = (heights[:, :-1] < 0) != (heights[:, 1:] < 0)
    first, last = changes.argmax(axis=1), changes.shape[1] - 1 - changes[:, ::-1].argmax(axis=1)
    before = np.stack([first, last], axis=1)
    low, high = (np.take_along_axis(heights, at, axis=1) for at in (before, before + 1))
    crossings: NDArray[np.float64] = places[before] + low / (low - high) * (places[before + 1] - places[before])
    return crossings


def longest_input(device: str, free_bytes: int | None, n_heads: int) -> LongestInput:
    """Return the largest N whose n_heads · N² weights of float32 fit into memory: 4 · n_heads · N² ≤ free_bytes."""
    tokens = None if free_bytes is None else math.isqrt(free_bytes // (FLOAT32 * n_heads))
    return LongestInput(device, free_bytes, tokens)
