"""What was measured, in words: the same in the terminal, in figures and in data."""

from collections.abc import Sequence

from mhaviz.records import Complexity, CostTerm, ImplementationComparison, Timing
from mhaviz.units import readable_bytes, readable_count, readable_factor, readable_seconds

NOTHING = "–"


def time_text(timing: Timing) -> str:
    """ "12.3 ms", or "skipped"."""
    return "skipped" if timing.seconds is None else readable_seconds(timing.seconds)


def memory_text(size: float | None) -> str:
    """ "1.5 KiB"; what was not measured is a dash."""
    return NOTHING if size is None else readable_bytes(size)


def factor_text(factor: float | None) -> str:
    """ "4.22 ×"; likewise."""
    return NOTHING if factor is None else readable_factor(factor)


def difference_text(difference: float | None) -> str:
    """ "7.3e-07"; likewise."""
    return NOTHING if difference is None else f"{difference:.1e}"


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


def way_text(comparison: ImplementationComparison, i: int) -> str:
    """What the i-th way is in code, and how it did, in a line."""
    c, way = comparison, comparison.implementations[i]
    parts = [way.code if way.gives_weights else f"{way.code}, gives no weights"]
    differences = [difference for difference in way.differences if difference is not None]
    if differences:
        parts.append(f"difference up to {difference_text(max(differences))}")
    compared = [n for n, speedup in enumerate(way.speedups) if speedup is not None]
    if i and compared:
        speedup, length = way.speedups[compared[-1]], c.lengths[compared[-1]]
        parts.append(f"speed-up {factor_text(speedup)} at N = {length:,}")
    return "; ".join(filter(None, [*parts, skipped_from_text(c.lengths, way.timings)]))


def implementations_text(comparison: ImplementationComparison) -> tuple[str, ...]:
    """How the numbers of the comparison are meant."""
    measured = [timing for way in comparison.implementations for timing in way.timings if not timing.skipped]
    unwatched = f"; {NOTHING} where it cannot be watched, as in a run of very many allocations"
    unwatched = unwatched if any(timing.peak_bytes is None for timing in measured) else ""
    return (
        f"difference: the largest of the output from {comparison.reference}",
        f"N: tokens; time: the median of one run; speed-up: against the {comparison.implementations[0].name}",
        "memory: the peak above the weights and the input" + unwatched,
    )


def ways_text(comparison: ImplementationComparison) -> tuple[str, ...]:
    """What each way is in code, a line each."""
    return tuple(
        f"{way.name}: {way.code}" + ("" if way.gives_weights else "; gives no weights")
        for way in comparison.implementations
    )


PARAMETERS = ("Wq … Wo", "the parameters", NOTHING, "16·d_model·(d_model+1)")
"""The last row of the table of terms."""


def term_texts(term: CostTerm) -> tuple[str, str, str, str]:
    """Result, equation, operations and bytes."""
    return term.name, term.equation, term.flops_formula, term.bytes_formula or NOTHING


def crossover_text(c: Complexity) -> tuple[str, ...]:
    """Where the cost of attention overtakes that of the projections: by the terms, by operations, by the clock."""
    lines = [
        f"N²·d_model = N·d_model² at N = d_model = {c.equal_terms:,}",
        f"2 products of N²·d_model = 4 of N·d_model² at N = 2·d_model = {c.equal_operations:,}",
    ]
    compared = sum(None not in (a.seconds, p.seconds) for a, p in zip(c.attention, c.projections, strict=True))
    if compared > 1:  # of one length alone there is nothing to say
        measured = "nowhere within these lengths" if c.equal_times is None else f"at N = {c.equal_times:,.0f}"
        lines.append(f"scores, softmax and mix take as long as the projections {measured}")
    return tuple(lines)


def longest_text(c: Complexity) -> tuple[str, ...]:
    """The longest inputs whose weights fit into memory, a line a device."""
    lines = []
    for longest in c.longest:
        if longest.free_bytes is None or longest.tokens is None:
            lines.append(f"{longest.device}: free memory cannot be told")
        else:
            lines.append(
                f"{longest.device}: {readable_bytes(longest.free_bytes)} are free now; the weights of "
                f"{longest.tokens:,} tokens fit"
            )
    return tuple(lines)


PARTS = ("projections", "scores, softmax, mix", "whole layer")
"""What is measured of the cost."""


def part_timings(c: Complexity) -> dict[str, tuple[Timing, ...]]:
    """What was measured of each of them, one a length."""
    return dict(zip(PARTS, (c.projections, c.attention, c.whole), strict=True))


def rate_text(c: Complexity) -> str:
    """How fast the whole layer got its operations done at its best; empty where nothing was measured."""
    rate = best_rate(c)
    return f"{readable_count(rate)}FLOP/s" if rate else ""


def best_rate(c: Complexity) -> float:
    """Operations a second, of the whole layer; 0 where nothing was measured."""
    return max((f / t.seconds for f, t in zip(c.flops(), c.whole, strict=True) if t.seconds), default=0.0)
