"""What was measured of a piece of work: its time and its memory, or why neither was."""

from dataclasses import dataclass
from typing import Any

from mhaviz.units import readable_bytes, readable_seconds


@dataclass(frozen=True)
class Timing:
    """A piece of work at one length.

    Attributes:
        seconds: median time of one run; None: skipped.
        rounds: the runs that this is the median of.
        quartiles: between what half of these lie, in seconds; None: skipped.
        peak_bytes: the most memory held at once above the weights and the input, the output included; None where the
            device does not tell, or where there are too many allocations to be watched.
        would_take: of what was skipped because it takes too long, about how many seconds a run would take.
        would_need: of what was skipped because it does not fit into memory, about how many bytes it would need.
    """

    seconds: float | None = None
    rounds: int = 0
    peak_bytes: int | None = None
    would_take: float | None = None
    would_need: int | None = None
    quartiles: tuple[float, float] | None = None

    @property
    def skipped(self) -> bool:
        """Whether it was not measured."""
        return self.seconds is None

    @property
    def why_skipped(self) -> str:
        """ "would take about 40 s"; empty if it was measured."""
        if self.would_take is not None:
            return f"would take about {readable_seconds(self.would_take, 2)}"
        if self.would_need is not None:
            return f"would need about {readable_bytes(self.would_need)}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return vars(self) | {"skipped": self.why_skipped or None}
