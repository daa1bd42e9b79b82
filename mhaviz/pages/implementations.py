"""Page of implementations of attention: time, memory and exactness of each against the length of the input."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from mhaviz.pages.blocks import Column, Curves, Page, Plot, PlotAxis, Series, Table
from mhaviz.pages.registry import shown
from mhaviz.pages.timings import BAND, SPREAD, skipped_from_text, skipped_text, time_text
from mhaviz.results.implementations import ImplementationComparison
from mhaviz.results.timing import Timing
from mhaviz.units import readable_bytes, readable_factor, readable_seconds, with_minus

Point = tuple[float | None, tuple[float, float] | None]
"""A number and its interval; None: unknown."""


@shown(ImplementationComparison)
def implementations_page(c: ImplementationComparison) -> Page:
    """Return the page: plots with their numbers, and what the numbers and names mean."""
    plots = (
        _ratios(c),
        _plot(c, "time of one run", lambda _, t: (t.seconds, t.quartiles), PlotAxis(log=10, unit=readable_seconds)),
        _plot(c, "peak memory", lambda _, t: (t.peak_bytes, None), PlotAxis(log=2, unit=readable_bytes)),
    )
    return Page(_lesson(c), (Curves(plots, _numbers(c)), _summary(c)), c.source.footnote)


def _lesson(c: ImplementationComparison) -> str:
    """Return the title: which implementations are best at the longest input that several could do, as far as the
    spread of their runs tells."""
    title = "The same attention, five ways"
    for n, length in reversed(list(enumerate(c.lengths))):
        times = {one.name: one.timings[n] for one in c.implementations if one.timings[n].quartiles is not None}
        peaks = {one.name: peak for one in c.implementations if (peak := one.timings[n].peak_bytes) is not None}
        if len(times) > 1:
            fastest = _fastest(times)
            smallest = _smallest(peaks) if len(peaks) == len(times) else ""
            least, *others = sorted(s for one in c.implementations if (s := one.timings[n].seconds) is not None)
            ahead = f", {readable_factor(others[0] / least)} ahead" if len(fastest) == 1 and least else ""
            of_fastest = "," * bool(ahead) + " and holds least memory"
            memory = of_fastest if fastest == [smallest] else f"; {smallest} holds least memory"
            return f"{title}: at N = {length:,} {_fastest_text(fastest)}{ahead}{memory * bool(smallest)}"
    return title


def _fastest(times: Mapping[str, Timing]) -> list[str]:
    """Return the implementations whose middle half of the runs is not beyond that of another, and those with a
    smaller median than one of them."""
    spreads = {name: timing.quartiles for name, timing in times.items() if timing.quartiles}
    medians = {name: timing.seconds for name, timing in times.items() if timing.seconds is not None}
    least = min(third for _, third in spreads.values())
    within = {name for name, (first, _) in spreads.items() if first <= least}
    slowest = max(medians[name] for name in within)
    return [_called(name) for name in spreads if name in within or medians[name] < slowest]


def _fastest_text(fastest: Sequence[str]) -> str:
    """Return "the fused kernel is fastest", or which are that the spread of their runs does not tell apart."""
    if len(fastest) == 1:
        return f"{fastest[0]} is fastest"
    return f"{', '.join(fastest[:-1])} and {fastest[-1]} are fastest, with overlapping spreads"


def _smallest(peaks: Mapping[str, int]) -> str:
    """Return the implementation that holds least memory; "" if several do."""
    least = [name for name, peak in peaks.items() if peak == min(peaks.values())]
    return _called(least[0]) if len(least) == 1 else ""


def _called(name: str) -> str:
    """Return the name with an article where it is not somebody's."""
    return name if "'" in name else f"the {name}"


def _plot(c: ImplementationComparison, title: str, points: Callable[[int, Timing], Point], y: PlotAxis) -> Plot:
    """Return a plot; ``points``: maps the index of a length, and a timing there, to a number and its interval."""
    series = []
    for i, one in enumerate(c.implementations):
        ys, band = zip(*(points(n, timing) for n, timing in enumerate(one.timings)), strict=True)
        series.append(Series(one.name, c.lengths, ys, i, i, band if any(band) else ()))
    notes = (BAND,) if any(one.band for one in series) else ()
    series.sort(key=lambda one: one.ys.count(None))  # a curve that ends early is seen on those that go on
    return Plot(title, tuple(series), PlotAxis("N, tokens", log=2), y, notes=notes)


def _ratios(c: ImplementationComparison) -> Plot:
    """Return the plot of how many times longer than the fastest each takes at each length. The first, which takes so
    long that no other could be told apart, is a remark."""
    times = [[timing.seconds for timing in one.timings] for one in c.implementations]
    least = [min((s for s in at if s is not None), default=None) for at in zip(*times, strict=True)]
    ratios = [[s / t if s is not None and t else None for s, t in zip(of_one, least, strict=True)] for of_one in times]
    series = [
        Series(one.name, c.lengths, tuple(ratios[i]), i, i)
        for i, one in enumerate(c.implementations)
        if i or len(c.implementations) == 1
    ]
    first, known = c.implementations[0].name, [ratio for ratio in ratios[0] if ratio is not None]
    ends = [readable_factor(end) for end in (min(known), max(known))] if len(series) < len(ratios) and known else []
    notes = (f"{first}: {' to '.join(dict.fromkeys(ends))} the time of the fastest, not drawn",) if ends else ()
    y = PlotAxis(unit="{:g} ×".format)
    return Plot("time ÷ that of the fastest", tuple(series), PlotAxis("N, tokens", log=2), y, notes=notes)


def _numbers(c: ImplementationComparison) -> Table:
    columns = (
        Column("N", "{:,}".format, is_key=True),
        Column("implementation", align="left", is_key=True),
        Column("time", time_text),
        Column("speed-up", readable_factor),
        Column("memory", readable_bytes),
        Column("difference", _difference_text),
    )
    rows = tuple(
        (length, one.name, one.timings[n], one.speedups[n], one.timings[n].peak_bytes, one.differences[n])
        for n, length in enumerate(c.lengths)
        for one in c.implementations
    )
    skipped = [skipped_text(one.name, c.lengths, one.timings) for one in c.implementations]
    return Table(columns, rows, notes="\n".join(filter(None, [*skipped, f"time: {SPREAD}"])))


def _difference_text(difference: float) -> str:
    return with_minus(f"{difference:.1e}")


def _summary(c: ImplementationComparison) -> Table:
    """Return the table of the code of each implementation, its largest difference, and its speed-up at the longest
    input that the first could do."""
    last = max((n for n, speedup in enumerate(c.implementations[0].speedups) if speedup is not None), default=None)
    columns = (
        Column("implementation", align="left", is_key=True),
        Column("computed by", align="left"),
        Column("difference", _difference_text),
        Column("speed-up", readable_factor),
    )
    rows = [
        (
            one.name,
            one.code,
            max((difference for difference in one.differences if difference is not None), default=None),
            None if last is None else one.speedups[last],
        )
        for one in c.implementations
    ]
    return Table(columns, tuple(rows), notes="\n".join(_meanings(c, last)))


def _meanings(c: ImplementationComparison, compared: int | None) -> Iterator[str]:
    """Yield what was left out, and what the numbers of the comparison mean; ``compared``: the index of the length of
    the speed-ups."""
    for one in c.implementations:
        remarks = "gives no weights" * (not one.gives_weights), skipped_from_text(c.lengths, one.timings)
        if remark := "; ".join(filter(None, remarks)):
            yield f"{one.name}: {remark}"
    measured = [timing for one in c.implementations for timing in one.timings if not timing.skipped]
    is_known = all(timing.peak_bytes is not None for timing in measured)
    unknown = "" if is_known else "; unknown where it cannot be measured, as in a run of very many allocations"
    yield f"difference: the largest of the output from {c.reference}, at any N"
    if compared is not None:
        yield f"speed-up: against the {c.implementations[0].name}, at N = {c.lengths[compared]:,}"
    yield f"memory: the peak above the weights and the input{unknown}"
