"""Five ways to compute the same attention: time and memory against the length of the input, and how exact they are."""

from collections.abc import Callable

from mhaviz.pages.blocks import NOTHING, Column, Curves, Key, Page, Plot, PlotAxis, Series, Table, Text
from mhaviz.pages.registry import shown
from mhaviz.pages.timings import skipped_from_text, skipped_text, time_text
from mhaviz.results.implementations import ImplementationComparison
from mhaviz.units import readable_bytes, readable_factor, readable_seconds

_DASHED = 3  # the way whose curve may lie on another one


@shown(ImplementationComparison)
def implementations_page(c: ImplementationComparison) -> Page:
    """Two plots or one table, what was skipped, how the numbers are meant and what the ways are."""
    ways = c.implementations
    keys = tuple(Key(way.name, i, _remark(c, i)) for i, way in enumerate(ways))
    plots = (
        _plot(c, "time of one run", "seconds", PlotAxis(log=10, unit=readable_seconds)),
        _plot(c, "peak memory above the weights and the input", "peak_bytes", PlotAxis(log=2, unit=readable_bytes)),
    )
    skipped = (skipped_text(way.name, c.lengths, way.timings) for way in ways)
    code = (f"{way.name}: {way.code}" + ("" if way.gives_weights else "; gives no weights") for way in ways)
    blocks = (
        Curves(plots, columns=2, size=(2.9, 2.7), keys=keys),
        _numbers(c),
        Text(tuple(filter(None, skipped)), where="listed"),
        Text(_meanings(c), "quiet"),
        Text(tuple(code), "quiet", "listed"),
    )
    return Page("the same attention, five ways", blocks, c.source.footnote)


def _plot(c: ImplementationComparison, title: str, what: str, y: PlotAxis) -> Plot:
    series = tuple(
        Series(
            way.name,
            c.lengths,
            tuple(getattr(timing, what) for timing in way.timings),
            i,
            i,
            "dashed" if i == _DASHED else "solid",
        )
        for i, way in enumerate(c.implementations)
    )
    return Plot(title, series, PlotAxis("N, tokens", log=2, ticks=c.lengths), y)


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
    return Table(columns, rows, where="listed")


_difference_text: Callable[[float], str] = "{:.1e}".format


def _remark(c: ImplementationComparison, i: int) -> str:
    """What the i-th way is in code, and how it did, in a line."""
    way = c.implementations[i]
    parts = [way.code if way.gives_weights else f"{way.code}, gives no weights"]
    differences = [difference for difference in way.differences if difference is not None]
    if differences:
        parts.append(f"difference up to {_difference_text(max(differences))}")
    speedups = [(N, speedup) for N, speedup in zip(c.lengths, way.speedups, strict=True) if speedup is not None]
    if i and speedups:
        length, speedup = speedups[-1]
        parts.append(f"speed-up {readable_factor(speedup)} at N = {length:,}")
    return "; ".join(filter(None, [*parts, skipped_from_text(c.lengths, way.timings)]))


def _meanings(c: ImplementationComparison) -> tuple[str, ...]:
    """How the numbers of the comparison are meant."""
    measured = [timing for way in c.implementations for timing in way.timings if not timing.skipped]
    unwatched = f"; {NOTHING} where it cannot be watched, as in a run of very many allocations"
    unwatched = unwatched if any(timing.peak_bytes is None for timing in measured) else ""
    return (
        f"difference: the largest of the output from {c.reference}",
        f"N: tokens; time: the median of one run; speed-up: against the {c.implementations[0].name}",
        "memory: the peak above the weights and the input" + unwatched,
    )
