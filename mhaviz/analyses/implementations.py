"""Compares five implementations of attention: the difference from the exact result, the time and the memory."""

import time
from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor

from mhaviz.analyses.bench import Bench
from mhaviz.analyses.timing import Laboratory, Work, check_lengths
from mhaviz.analyses.ways import WAYS, torch_twin
from mhaviz.devices import free_memory
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.memory import shortage
from mhaviz.records.implementations import Implementation, ImplementationComparison
from mhaviz.records.timing import Timing

REFERENCE = "torch.nn.MultiheadAttention in float64, on the CPU"


def compare_implementations(bench: Bench, laboratory: Laboratory, lengths: Sequence[int]) -> ImplementationComparison:
    """Run every way on the same input with the same weights, at every length that it can finish in time.

    Raises:
        ArgumentError: lengths that cannot be.
    """
    rising = check_lengths(lengths)
    functions = [way.of(bench.layer) for way in WAYS]
    reference = _Reference(bench.layer, laboratory.most_seconds)
    differences: dict[tuple[int, int], float | None] = {}

    def works_at(length: int) -> list[Work]:
        X = bench.input(length)
        reference.compute(X)
        return [partial(function, X) for function in functions]

    def look(length: int, i: int, output: object) -> None:
        assert isinstance(output, Tensor)
        differences[i, length] = reference.difference(output)

    def needed(length: int) -> list[int]:
        heads = {"none": 0, "one head": 1, "all heads": bench.n_heads}
        return [4 * heads[way.weights] * length**2 for way in WAYS]

    with torch.no_grad():
        timings = laboratory.measure(rising, [way.name for way in WAYS], works_at, look, needed)
    implementations = tuple(
        Implementation(
            name=way.name,
            code=way.code,
            gives_weights=way.gives_weights,
            timings=timings[i],
            differences=tuple(differences.get((i, length)) for length in rising),
            speedups=tuple(map(_speedup, timings[0], timings[i])),
        )
        for i, way in enumerate(WAYS)
    )
    return ImplementationComparison(bench.source, rising, implementations, REFERENCE, laboratory.most_seconds)


def _speedup(first: Timing, other: Timing) -> float | None:
    if first.seconds is None or other.seconds is None:
        return None
    return first.seconds / other.seconds if other.seconds else None


class _Reference:
    """The exact output, in float64. It is skipped where it would take too long or too much memory."""

    def __init__(self, layer: MultiHeadAttention, most_seconds: float) -> None:
        self._exact = torch_twin(deepcopy(layer).cpu().double())
        self._most_seconds = most_seconds
        self._length, self._seconds = 1, 0.0  # of the last one
        self._output: Tensor | None = None

    def compute(self, X: Tensor) -> None:
        """Its output for X, (1, N, d_model), if that can be had."""
        self._output = None
        needed = 10 * 8 * X.numel()  # X, Q, K, V, each also split into heads, H and O
        seconds = self._seconds * (X.shape[1] / self._length) ** 2
        if seconds > self._most_seconds or shortage(needed, free_memory(torch.device("cpu"))):
            return
        exact = X.cpu().double()
        start = time.perf_counter()
        self._output, _ = self._exact(exact, exact, exact, need_weights=False)
        self._length, self._seconds = X.shape[1], time.perf_counter() - start

    def difference(self, output: Tensor) -> float | None:
        """The largest absolute difference of an output, (1, N, d_model)."""
        if self._output is None:
            return None
        return (output.cpu().double() - self._output).abs().max().item()
