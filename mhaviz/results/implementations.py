"""The same attention computed in several ways, each in numbers."""

from dataclasses import dataclass
from typing import Any

from mhaviz.results.result import Result, Source
from mhaviz.results.timing import Timing


@dataclass(frozen=True)
class Implementation:
    """One way.

    Attributes:
        name: what it is called in tables and plots.
        code: what it is in code, in a few words.
        gives_weights: whether it hands out the weights, or only the output.
        timings: one a length.
        differences: at each length, the largest absolute difference of its output from the reference in float64; None
            where either was skipped.
        speedups: at each length, how many times faster it is than the first way; None where either was skipped.
    """

    name: str
    code: str
    gives_weights: bool
    timings: tuple[Timing, ...]
    differences: tuple[float | None, ...]
    speedups: tuple[float | None, ...]


@dataclass(frozen=True)
class ImplementationComparison(Result):
    """All ways at all lengths.

    Attributes:
        lengths: of the inputs in tokens, rising.
        implementations: the first is what speed-ups refer to.
        reference: what the outputs are compared with.
        most_seconds: what would have taken longer than this, once, was skipped.
    """

    source: Source
    lengths: tuple[int, ...]
    implementations: tuple[Implementation, ...]
    reference: str
    most_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; way by way, run by run."""
        ways = [
            {
                "name": way.name,
                "code": way.code,
                "gives_weights": way.gives_weights,
                "runs": [
                    {"length": length, **timing.to_dict(), "speedup": speedup, "difference": difference}
                    for length, timing, speedup, difference in zip(
                        self.lengths, way.timings, way.speedups, way.differences, strict=True
                    )
                ],
            }
            for way in self.implementations
        ]
        return super().to_dict() | {"implementations": ways}
