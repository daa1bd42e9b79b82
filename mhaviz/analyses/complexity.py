"""Complexity of attention, O(N²·d_model + N·d_model²), counted step by step and measured.

Each projection costs N·d_model², as every token is multiplied by every weight of a matrix. The scores Q Kᵀ and the
outputs A V cost N²·d_model each, as every token is combined with every other. Vaswani et al. 2017, "Attention Is All
You Need", section 4 and table 1.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from mhaviz.analyses.benchmark import Bench, OnProgress, Work, check_lengths, measure
from mhaviz.layer.attention import MultiHeadAttention, weigh
from mhaviz.results.complexity import Complexity, CostTerm, LongestInput, Part
from mhaviz.results.timing import Timing

FLOAT32 = 4  # bytes

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
    most_seconds: float,
    on_progress: OnProgress = lambda done, what: None,
) -> Complexity:
    """Predict the costs at each length, and measure the times where the layer finishes within ``most_seconds``.

    Args:
        bench: the layer.
        free: free bytes of each device by name; None: not known.
        lengths: in tokens.
        most_seconds, on_progress: see ``measure``.

    Raises:
        ArgumentError: invalid lengths or seconds.
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

    timings = {
        name: tuple(of_one)
        for name, of_one in measure(works_at, rising, bench.device, most_seconds, on_progress).items()
    }
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
        equal_times=crossovers(rising, timings["projections"], timings["attention"]),
        longest=tuple(longest_input(device, size, bench.n_heads) for device, size in free.items()),
        most_seconds=most_seconds,
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


def crossovers(
    lengths: Sequence[int], projections: Sequence[Timing], attention: Sequence[Timing]
) -> tuple[tuple[float, float] | None, ...]:
    """Return, for each pass, the least and the largest length at which attention takes as long as the projections.

    Times are interpolated by straight lines on logarithmic axes. None where attention does not take less time at the
    shortest length and more at the longest. Lengths that some pass has skipped are left out.
    """
    measured = list(zip(lengths, projections, attention, strict=True))
    n_passes = max(len(timing.passes) for timing in (*projections, *attention))
    both = [(N, p.passes, a.passes) for N, p, a in measured if len(p.passes) == len(a.passes) == n_passes > 0]
    if len(both) < 2:
        return ()
    known = [N for N, *_ in both]
    return tuple(_crossover(known, [(p[i], a[i]) for _, p, a in both]) for i in range(n_passes))


def _crossover(lengths: Sequence[int], seconds: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the first and the last crossing in one pass; ``seconds``: of the projections and of attention."""
    beyond = [math.log(attention / projections) for projections, attention in seconds]
    if not beyond[0] < 0 <= beyond[-1]:
        return None
    places = [math.log(N) for N in lengths]
    found = [
        math.exp(x0 + (x1 - x0) * y0 / (y0 - y1))
        for (x0, y0), (x1, y1) in pairwise(zip(places, beyond, strict=True))
        if (y0 < 0) != (y1 < 0)
    ]
    return found[0], found[-1]


def longest_input(device: str, free_bytes: int | None, n_heads: int) -> LongestInput:
    """Return the largest N whose n_heads · N² weights of float32 fit into memory: 4 · n_heads · N² ≤ free_bytes."""
    tokens = None if free_bytes is None else math.isqrt(free_bytes // (FLOAT32 * n_heads))
    return LongestInput(device, free_bytes, tokens)
