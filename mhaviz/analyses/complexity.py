"""What attention costs: O(N²·d_model + N·d_model²), counted step by step and measured.

The projections cost N·d_model² each, as every token meets every weight; scores and mix cost N²·d_model each, as every
token meets every other. Vaswani et al. 2017, "Attention Is All You Need", section 4 and table 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from mhaviz.analyses.bench import Bench
from mhaviz.analyses.timing import Laboratory, Work, check_lengths
from mhaviz.layer.attention import MultiHeadAttention, weigh
from mhaviz.records.complexity import Complexity, CostTerm, LongestInput, Part
from mhaviz.records.timing import Timing

FLOAT32 = 4  # bytes


def predict(lengths: Sequence[int], d_model: int, n_heads: int) -> tuple[CostTerm, ...]:
    """Operations and bytes of every step of the layer at these lengths N, for one sentence, without a mask."""
    d, h = d_model, n_heads

    def term(
        name: str,
        equation: str,
        part: Part,
        flops_formula: str,
        flops: Callable[[int], int],
        bytes_formula: str = "",
        numbers: Callable[[int], int] = lambda N: 0,
    ) -> CostTerm:
        sizes = tuple(FLOAT32 * numbers(N) for N in lengths)
        return CostTerm(name, equation, part, flops_formula, bytes_formula, tuple(map(flops, lengths)), sizes)

    return (
        # Of a projection, the second term adds the biases.
        term(
            "Q, K, V",
            "X Wq, X Wk, X Wv",
            "projections",
            "6·N·d_model² + 3·N·d_model",
            lambda N: 6 * N * d**2 + 3 * N * d,
            "12·N·d_model",
            lambda N: 3 * N * d,
        ),
        # The second term is Q / √d_key; A takes the place of S.
        term("S", "Q Kᵀ / √d_key", "attention", "2·N²·d_model + N·d_model", lambda N: 2 * N**2 * d + N * d),
        # A weight: compare, subtract, exponentiate, add, divide.
        term(
            "A", "softmax(S)", "attention", "5·n_heads·N²", lambda N: 5 * h * N**2, "4·n_heads·N²", lambda N: h * N**2
        ),
        term("H", "A V", "attention", "2·N²·d_model", lambda N: 2 * N**2 * d, "4·N·d_model", lambda N: N * d),
        term(
            "O",
            "concat(H) Wo",
            "projections",
            "2·N·d_model² + N·d_model",
            lambda N: 2 * N * d**2 + N * d,
            "4·N·d_model",
            lambda N: N * d,
        ),
    )


def measure_complexity(
    bench: Bench, laboratory: Laboratory, free: Mapping[str, int | None], lengths: Sequence[int]
) -> Complexity:
    """The costs predicted at every length, and the times measured wherever the layer can finish in time.

    Args:
        bench: the layer.
        laboratory: where it is measured.
        free: bytes that each device has free, by its name; None where nobody tells.
        lengths: in tokens.

    Raises:
        ArgumentError: lengths that cannot be.
    """
    rising, layer = check_lengths(lengths), bench.layer

    def works_at(length: int) -> list[Work]:
        X = bench.input(length)
        Q, K, V = layer.project(X, X, X)
        return [lambda: project(layer, X), lambda: attend(Q, K, V), lambda: layer(X, X, X)]

    def needed(length: int) -> list[int]:
        weights = FLOAT32 * bench.n_heads * length**2
        return [0, weights, weights]

    with torch.no_grad():
        parts = ("projections", "attention", "whole")
        projections, attention, whole = laboratory.measure(rising, parts, works_at, needed=needed)
    equal_times, equal_seconds = crossover(rising, projections, attention) or (None, None)
    return Complexity(
        source=bench.source,
        d_model=bench.d_model,
        n_heads=bench.n_heads,
        lengths=rising,
        terms=predict(rising, bench.d_model, bench.n_heads),
        parameter_bytes=FLOAT32 * 4 * bench.d_model * (bench.d_model + 1),
        projections=projections,
        attention=attention,
        whole=whole,
        equal_terms=bench.d_model,  # N²·d_model = N·d_model²
        equal_operations=2 * bench.d_model,  # 2 · 2·N²·d_model = 4 · 2·N·d_model²
        equal_times=equal_times,
        equal_seconds=equal_seconds,
        longest=tuple(longest_input(device, size, bench.n_heads) for device, size in free.items()),
        most_seconds=laboratory.most_seconds,
    )


def project(layer: MultiHeadAttention, X: Tensor) -> Tensor:
    """Q = X Wq, K = X Wk, V = X Wv and O = H Wo, with X, (1, N, d_model), in the place of H, which has its shape."""
    layer.project(X, X, X)
    O: Tensor = layer.Wo(X)
    return O


def attend(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """S = Q Kᵀ / √d_key, A = softmax(S), H = A V, as the layer does it; all are (1, n_heads, N, d_key)."""
    S = Q / math.sqrt(Q.shape[-1]) @ K.mT  # 1 n_heads N N
    H: Tensor = weigh(S, overwrite=True) @ V
    return H


def crossover(
    lengths: Sequence[int], projections: Sequence[Timing], attention: Sequence[Timing]
) -> tuple[float, float] | None:
    """The length from which on attention takes longer than the projections, and the seconds that both take there.

    Between two lengths, both are taken to be straight lines on logarithmic axes. None if they do not cross there.
    """
    points = [
        (math.log(N), math.log(p.seconds), math.log(a.seconds))
        for N, p, a in zip(lengths, projections, attention, strict=True)
        if a.seconds and p.seconds
    ]
    found = None
    for (x0, p0, a0), (x1, p1, a1) in pairwise(points):
        if a0 < p0 and a1 >= p1:
            share = (p0 - a0) / ((p0 - a0) + (a1 - p1))
            found = math.exp(x0 + share * (x1 - x0)), math.exp(p0 + share * (p1 - p0))
    return found


def longest_input(device: str, free_bytes: int | None, n_heads: int) -> LongestInput:
    """The largest N with n_heads · N² weights of float32 in so many bytes: 4 · n_heads · N² ≤ bytes."""
    tokens = None if free_bytes is None else math.isqrt(free_bytes // (FLOAT32 * n_heads))
    return LongestInput(device, free_bytes, tokens)
