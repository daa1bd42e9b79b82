"""What was measured, in words: the same on every page, and in data."""

from collections.abc import Sequence

from mhaviz.records.timing import Timing
from mhaviz.units import readable_bytes, readable_seconds


def time_text(timing: Timing) -> str:
    """ "12.3 ms", or "skipped"."""
    return "skipped" if timing.seconds is None else readable_seconds(timing.seconds)


def skip_text(timing: Timing) -> str:
    """Why it was not measured: "would take about 40 s". Empty if it was."""
    if timing.would_take is not None:
        return f"would take about {readable_seconds(timing.would_take, 2)}"
    if timing.would_need is not None:
        return f"would need about {readable_bytes(timing.would_need)}"
    return ""


def skipped_text(name: str, lengths: Sequence[int], timings: Sequence[Timing]) -> str:
    """At which lengths a piece of work was skipped, and why; empty if it was not."""
    reasons = [
        f"N = {length:,} {skip_text(timing)}" for length, timing in zip(lengths, timings, strict=True) if timing.skipped
    ]
    return f"{name}, skipped: {'; '.join(reasons)}" if reasons else ""


def skipped_from_text(lengths: Sequence[int], timings: Sequence[Timing]) -> str:
    """The same in few words: from which length on, and why there."""
    for length, timing in zip(lengths, timings, strict=True):
        if timing.skipped:
            return f"skipped from N = {length:,}, which {skip_text(timing)}"
    return ""
