"""Page of implementations of attention: time, memory and exactness of each against the length of the input."""

from collections.abc import Callable, Mapping
from typing import Literal

from mhaviz.pages.blocks import NOTHING, Column, Curves, Key, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.registry import shown
from mhaviz.pages.timings import skipped_from_text, skipped_text, time_text
from mhaviz.results.implementations import Implementation, ImplementationComparison
from mhaviz.results.timing import Timing
from mhaviz.units import readable_bytes, readable_factor, readable_seconds

_DASHED = 3  # index of the implementation whose curve may lie on another one

Point = tuple[float | None, tuple[float, float] | None]
"""A number and its interval; None: unknown."""


@shown(ImplementationComparison)
def implementations_page(c: ImplementationComparison) -> Page:
    """Return the page: plots, or a table in the terminal; what was skipped; and what the numbers and names mean."""
    ways = c.implementations
    keys = tuple(Key(way.name, _remark(c, i)) for i, way in enumerate(ways))
    plots = (
        _plot(c, "time of one run", _seconds, PlotAxis(log=10, unit=readable_seconds)),
        _plot(c, f"time ÷ that of the {ways[-1].name}", _ratio(c), PlotAxis(log=10, unit="{:g} ×".format)),
        _plot(c, "peak memory", _bytes, PlotAxis(log=2, unit=readable_bytes)),
    )
    blocks = Curves(plots, _numbers(c), columns=3, keys=keys), Text(_meanings(c), "quiet")
    return Page(_lesson(c), blocks, c.source.footnote)


def _lesson(c: ImplementationComparison) -> str:
    """Return the title: which implementation is best at the longest input that several could do."""
    title = "The same attention, five ways"
    for n, length in reversed(list(enumerate(c.lengths))):
        times = {way.name: time for way in c.implementations if (time := way.timings[n].seconds) is not None}
        peaks = {way.name: peak for way in c.implementations if (peak := way.timings[n].peak_bytes) is not None}
        if len(times) > 1:
            fastest, smallest = _least(times), _least(peaks) if len(peaks) == len(times) else ""
            memory = (
                " and holds least memory" if smallest == fastest else smallest and f", {smallest} holds least memory"
            )
            return f"{title}: at N = {length:,} {fastest} is fastest{memory}"
    return title


def _least(costs: Mapping[str, float]) -> str:
    """Return the name of the least, with an article where it is not somebody's."""
    name = min(costs, key=costs.__getitem__)
    return name if "'" in name else f"the {name}"


def _plot(c: ImplementationComparison, title: str, points: Callable[[int, Timing], Point], y: PlotAxis) -> Plot:
    """Return a plot; ``points``: maps the index of a length, and a timing there, to a number and its interval."""
    series = []
    for i, way in enumerate(c.implementations):
        ys, band = zip(*(points(n, timing) for n, timing in enumerate(way.timings)), strict=True)
        line: Literal["dashed", "solid"] = "dashed" if i == _DASHED else "solid"
        series.append(Series(way.name, c.lengths, ys, i, i, band if any(band) else (), line))
    return Plot(title, tuple(series), PlotAxis("N, tokens", log=2), y)


def _seconds(_: int, timing: Timing) -> Point:
    return timing.seconds, timing.quartiles


def _bytes(_: int, timing: Timing) -> Point:
    return timing.peak_bytes, None


def _ratio(c: ImplementationComparison) -> Callable[[int, Timing], Point]:
    """Return the function that divides times by the median of the last implementation."""

    def ratio(n: int, timing: Timing) -> Point:
        base = c.implementations[-1].timings[n].seconds
        if base is None or timing.seconds is None:
            return None, None
        ends = timing.quartiles and (timing.quartiles[0] / base, timing.quartiles[1] / base)
        return timing.seconds / base, ends

    return ratio


def _numbers(c: ImplementationComparison) -> Table:
    columns = (
        Column("N", "{:,}".format, is_key=True),
        Column("way", align="left", is_key=True),
        Column("time", time_text),
        Column("speed-up", readable_factor),
        Column("memory", readable_bytes),
        Column("difference", _difference_text),
    )
    rows = tuple(
        (length, way.name, way.timings[n], way.speedups[n], way.timings[n].peak_bytes, way.differences[n])
        for n, length in enumerate(c.lengths)
        for way in c.implementations
    )
    skipped = [skipped_text(way.name, c.lengths, way.timings) for way in c.implementations]
    code = [f"{way.name}: {_code(way)}" for way in c.implementations]
    return Table(columns, rows, notes="\n".join(filter(None, [*skipped, *code])))


def _code(way: Implementation) -> str:
    return way.code if way.gives_weights else f"{way.code}, gives no weights"


_difference_text: Callable[[float], str] = "{:.1e}".format


def _remark(c: ImplementationComparison, i: int) -> str:
    """Return the code of the i-th implementation and its results in one line."""
    way = c.implementations[i]
    parts = [_code(way)]
    differences = [difference for difference in way.differences if difference is not None]
    if differences:
        parts.append(f"difference up to {_difference_text(max(differences))}")
    speedups = [(N, speedup) for N, speedup in zip(c.lengths, way.speedups, strict=True) if speedup is not None]
    if i and speedups:
        length, speedup = speedups[-1]
        parts.append(f"speed-up {readable_factor(speedup)} at N = {length:,}")
    return "; ".join(filter(None, [*parts, skipped_from_text(c.lengths, way.timings)]))


def _meanings(c: ImplementationComparison) -> tuple[str, ...]:
    """Return what the numbers of the comparison mean."""
    measured = [timing for way in c.implementations for timing in way.timings if not timing.skipped]
    unwatched = f"; {NOTHING} where it cannot be measured, as in a run of very many allocations"
    unwatched = unwatched if any(timing.peak_bytes is None for timing in measured) else ""
    return (
        f"difference: the largest deviation of the output from {c.reference}",
        "band: the middle half of the runs",
        f"N: tokens; time: the median of one run; speed-up: against the {c.implementations[0].name}",
        "memory: the peak above the weights and the input" + unwatched,
    )
