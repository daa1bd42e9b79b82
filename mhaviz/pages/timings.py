"""Texts of timings, the same on every page."""

from collections.abc import Sequence

from mhaviz.results.timing import Timing
from mhaviz.units import readable_seconds

SPREAD = "the median of one run ± half the range of the middle half of all runs"
"""Explanation of ``time_text``."""

BAND = "band: the middle half of the runs, of several passes over all lengths"


def time_text(timing: Timing) -> str:
    """Return "12.3 ms ± 4%", or "skipped"."""
    if timing.seconds is None or timing.quartiles is None:
        return "skipped"
    first, third = timing.quartiles
    return f"{readable_seconds(timing.seconds)} ± {(third - first) / 2 / timing.seconds:.0%}"


def skipped_text(name: str, lengths: Sequence[int], timings: Sequence[Timing]) -> str:
    """Return the lengths at which a measurement was skipped, and why; "" if it was not."""
    reasons = "; ".join(f"N = {length:,} {why}" for length, why in _skipped(lengths, timings))
    return f"{name}, skipped: {reasons}" if reasons else ""


def skipped_from_text(lengths: Sequence[int], timings: Sequence[Timing]) -> str:
    """Return the first length at which a measurement was skipped, and why; "" if it was not."""
    return next((f"skipped from N = {length:,}, which {why}" for length, why in _skipped(lengths, timings)), "")


def _skipped(lengths: Sequence[int], timings: Sequence[Timing]) -> list[tuple[int, str]]:
    return [(length, timing.why_skipped) for length, timing in zip(lengths, timings, strict=True) if timing.skipped]
