"""Comparison of several implementations of the same attention."""

from dataclasses import dataclass
from typing import Any

from mhaviz.results.result import Result, Source
from mhaviz.results.timing import Timing


@dataclass(frozen=True)
class Implementation:
    """One implementation of attention.

    Attributes:
        name: name in tables and plots.
        code: short summary of its code.
        gives_weights: whether it returns the weights, not only the output.
        timings: time and memory, one for each length.
        differences: largest absolute difference of its output from the reference in float64, for each length; None:
            either was skipped.
        speedups: time of the first implementation divided by its own time, for each length; None: either was skipped.
    """

    name: str
    code: str
    gives_weights: bool
    timings: tuple[Timing, ...]
    differences: tuple[float | None, ...]
    speedups: tuple[float | None, ...]


@dataclass(frozen=True)
class ImplementationComparison(Result):
    """Comparison of implementations at several lengths of the input.

    Attributes:
        lengths: number of tokens of each input, increasing.
        implementations: speed-ups are relative to the first.
        reference: name of the implementation that outputs are compared with.
    """

    source: Source
    lengths: tuple[int, ...]
    implementations: tuple[Implementation, ...]
    reference: str

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; one entry for each implementation, with its runs."""
        implementations = [
            {
                "name": one.name,
                "code": one.code,
                "gives_weights": one.gives_weights,
                "runs": [
                    {"length": length, **timing.to_dict(), "speedup": speedup, "difference": difference}
                    for length, timing, speedup, difference in zip(
                        self.lengths, one.timings, one.speedups, one.differences, strict=True
                    )
                ],
            }
            for one in self.implementations
        ]
        return super().to_dict() | {"implementations": implementations}
