"""Measured time and memory of some work, or the reason why it was skipped."""

from dataclasses import dataclass
from typing import Any

from mhaviz.units import readable_bytes, readable_seconds


@dataclass(frozen=True)
class Timing:
    """Time and memory of some work at one length of the input.

    Attributes:
        seconds: median time of one run; None: skipped.
        rounds: number of runs that were timed.
        quartiles: first and third quartile of their times, in seconds; None: skipped.
        passes: median time in each pass over all lengths, in seconds; empty: skipped.
        peak_bytes: peak memory, the output included but not the weights and the input; None: the device does not
            report it, or there are too many allocations to be counted.
        would_take: estimated seconds of one run that was skipped because it takes too long; else None.
        would_need: estimated bytes of a run that was skipped because it does not fit into memory; else None.
    """

    seconds: float | None = None
    rounds: int = 0
    peak_bytes: int | None = None
    would_take: float | None = None
    would_need: int | None = None
    quartiles: tuple[float, float] | None = None
    passes: tuple[float, ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the work was skipped."""
        return self.seconds is None

    @property
    def why_skipped(self) -> str:
        """Reason why the work was skipped, such as "would take about 40 s"; empty if it was measured."""
        if self.would_take is not None:
            return f"would take about {readable_seconds(self.would_take, 2)}"
        if self.would_need is not None:
            return f"would need about {readable_bytes(self.would_need)}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the reason why it was skipped, as plain JSON values."""
        return vars(self) | {"skipped": self.why_skipped or None}
