"""Page of the costs of attention: formulas, predicted and measured costs at each length, and where they cross."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mhaviz.errors import counted
from mhaviz.pages.blocks import NOTHING, Block, Column, Curves, Page, Plot, PlotAxis, Series, Stacks, Table, Text
from mhaviz.pages.registry import shown
from mhaviz.pages.timings import BAND, SPREAD, skipped_text, time_text
from mhaviz.results.complexity import SHARE, Complexity, TimeOrder
from mhaviz.units import readable_bytes, readable_count, readable_seconds

_PARTS = ("projections", "attention", "whole layer")
_ATTENTION, _FEATURES, _PROJECTIONS, _WHOLE, _WEIGHTS = range(5)  # numbers of colours and markers
_MEANING = "attention: scores, softmax and mix"
_RINGS = "ring: where two curves cross"
_MEETING = f"upright band: where attention begins to take more time, the middle {SHARE:.0%} of resampled passes"
_TOKENS = PlotAxis("N, tokens", log=2)
_COLOURED = tuple(zip((_PROJECTIONS, _ATTENTION, _WHOLE), _PARTS, strict=True))


@shown(Complexity)
def complexity_page(c: Complexity) -> Page:
    """Return the page: operations, times and bytes against the length; their formulas, and what follows from them."""
    timings = dict(zip(_PARTS, (c.projections, c.attention, c.whole), strict=True))
    skipped = [text for name in _PARTS if (text := skipped_text(name, c.lengths, timings[name]))]
    rate = _best_rate(c)
    notes = [
        f"proj: the projections; attn: scores, softmax and mix; ops: operations, predicted; times: measured, {SPREAD}",
        f"parameters: {readable_bytes(c.parameter_bytes)}",
        *([f"the whole layer does up to {readable_count(rate)}FLOP/s"] if rate else []),
    ]
    blocks: tuple[Block, ...] = (
        Curves((_operations(c), _times(c), _sizes(c)), _numbers(c, "\n".join(notes))),
        *([Text(tuple(skipped))] if skipped else []),
        Stacks((_terms(c),), (Text(_crossings(c)), Text(_longest(c)))),
    )
    return Page(_lesson(c), blocks, c.source.footnote)


def _lesson(c: Complexity) -> str:
    """Return the title: the lengths at which attention costs more than its projections, predicted and measured."""
    operations = f"Attention takes more operations than its projections beyond N = {c.equal_operations:,} tokens"
    return f"{operations}, {times}" if (times := _time_text(c.time_order)) else operations


def _time_text(order: TimeOrder) -> str:
    """Return where attention takes more time than the projections, "more time beyond N = 570 to 950"; "" if no pass
    has measured it."""
    if order.crossover is not None:
        return f"more time beyond N = {_range_text(*order.crossover)}"
    if order.verdict in ("less", "more"):
        first, last = order.lengths[0], order.lengths[-1]
        at = f"N = {first:,}" if first == last else f"all N measured from {first:,} to {last:,}"
        return f"{order.verdict} time at {at}"
    if order.verdict == "mixed":
        return "more time at some lengths and less at others"
    return "" if order.verdict == "unmeasured" else "whether more time is not known: passes disagree"


def _range_text(low: float, high: float) -> str:
    """Return "570 to 950": both rounded outwards, by at most 2%."""
    ends = []
    for end, rounded in ((low, math.floor), (high, math.ceil)):
        step = 10 ** max(math.floor(math.log10(end / 50)), 0)
        ends.append(f"{rounded(end / step) * step:,}")
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _terms(c: Complexity) -> Table:
    headings = ("result", "equation", "operations", "bytes")
    columns = tuple(Column(heading, align="left", is_key=heading == "result") for heading in headings)
    rows = [(term.name, term.equation, term.flops_formula, term.bytes_formula or NOTHING) for term in c.terms]
    rows.append(("Wq … Wo", "the parameters", NOTHING, "16·d_model·(d_model+1)"))
    return Table(columns, tuple(rows))


def _numbers(c: Complexity, notes: str) -> Table:
    columns = (
        Column("N", "{:,}".format, is_key=True),
        *(Column(name, readable_count) for name in ("ops proj", "ops attn")),
        *(Column(name, time_text) for name in ("time proj", "time attn", "whole")),
        *(Column(name, readable_bytes) for name in ("Q K V H O", "weights")),
    )
    flops = c.flops("projections"), c.flops("attention")
    measured = c.projections, c.attention, c.whole
    rows = zip(c.lengths, *flops, *measured, c.feature_bytes, c.weight_bytes, strict=True)
    return Table(columns, tuple(rows), notes=notes)


def _operations(c: Complexity) -> Plot:
    series = (
        Series("N²·d_model", c.lengths, tuple(N**2 * c.d_model for N in c.lengths), line="dotted"),
        Series("N·d_model²", c.lengths, tuple(N * c.d_model**2 for N in c.lengths), line="dashed"),
        *_parts(c, (c.flops("projections"), c.flops("attention"), c.flops())),
    )
    marks = [(c.equal_terms, c.d_model**3), (c.equal_operations, 16 * c.d_model**3)]
    y = PlotAxis(log=10, unit=readable_count)
    return Plot("operations, predicted", series, _TOKENS, y, _marked(marks), notes=(_MEANING, _RINGS))


def _times(c: Complexity) -> Plot:
    """Plot measured times with the middle half of the runs, the range in which two of them meet, and dotted the times
    of the predicted operations at the best rate of the whole layer."""
    measured = c.projections, c.attention, c.whole
    parts = _parts(c, [tuple(timing.seconds for timing in timings) for timings in measured])
    banded = (
        replace(series, band=tuple(timing.quartiles for timing in timings))
        for series, timings in zip(parts, measured, strict=True)
    )
    predicted = [(_PROJECTIONS, c.flops("projections")), (_ATTENTION, c.flops("attention"))]
    rate = _best_rate(c)
    ideal = [
        Series("predicted", c.lengths, tuple(f / rate for f in flops), colour, line="dotted")
        for colour, flops in (predicted if rate else [])
    ]
    meeting = c.time_order.crossover
    spans = () if meeting is None else ((*meeting, f"N = {_range_text(*meeting)}"),)
    y = PlotAxis(log=10, unit=readable_seconds)
    predictions = f"predicted: the operations of the curve of the same colour at {readable_count(rate)}FLOP/s"
    notes = (*((_MEANING, predictions, BAND) if rate else ()), *[_MEETING] * bool(spans))
    return Plot("time of one run, measured", (*ideal, *banded), _TOKENS, y, spans=spans, notes=notes)


def _sizes(c: Complexity) -> Plot:
    """Plot predicted memory up to the longest input that fits, and constant sizes as level lines."""
    known = [(longest.tokens, longest.free_bytes) for longest in c.longest if longest.tokens and longest.free_bytes]
    xs, ys = zip(*sorted({*zip(c.lengths, c.weight_bytes, strict=True), *known}), strict=True)
    features = tuple(c.feature_bytes[-1] * x / c.lengths[-1] for x in xs)  # they grow with N
    ends = xs[0], xs[-1]
    free = [(f"free on {one.device}", one.free_bytes) for one in c.longest if one.free_bytes]
    series = (
        *(Series(name, ends, (size, size), line="dash-dotted") for name, size in free),
        Series("parameters", ends, (c.parameter_bytes,) * 2),
        Series("Q, K, V, H, O", xs, features, _FEATURES, _FEATURES),
        Series("weights A", xs, ys, _WEIGHTS, _WEIGHTS),
    )
    return Plot(
        "memory, predicted",
        series,
        _TOKENS,
        PlotAxis(log=2, unit=readable_bytes),
        _marked(known),
        notes=(_RINGS,) * bool(known),
    )


def _parts(c: Complexity, values: Sequence[tuple[float | None, ...]]) -> list[Series]:
    return [Series(name, c.lengths, ys, i, i) for (i, name), ys in zip(_COLOURED, values, strict=True)]


def _marked(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float, str], ...]:
    return tuple((x, y, f"N = {x:,.0f}") for x, y in points)


def _crossings(c: Complexity) -> tuple[str, ...]:
    """Return the lengths where attention costs as much as the projections: by formulas, operations and times."""
    lines = [
        f"N²·d_model = N·d_model² at N = d_model = {c.equal_terms:,}",
        f"2 products of N²·d_model = 4 of N·d_model² at N = 2·d_model = {c.equal_operations:,}",
    ]
    if times := _time_text(c.time_order):
        passes = counted(max(len(timing.passes) for timing in c.attention), "pass")
        lines.append(f"scores, softmax and mix beside the projections: {times} ({passes}, resampled)")
    both = zip(c.lengths, c.projections, c.attention, strict=True)
    timed = [N for N, projections, attention in both if not projections.skipped and not attention.skipped]
    if left_out := [f"{N:,}" for N in timed if N not in c.time_order.lengths]:
        lines.append(f"left out there, as some passes skipped it: N = {', '.join(left_out)}")
    return tuple(lines)


def _longest(c: Complexity) -> tuple[str, ...]:
    """Return the longest input whose weights fit into the memory of each device, one line a device."""
    lines = []
    for longest in c.longest:
        if longest.free_bytes is None or longest.tokens is None:
            lines.append(f"{longest.device}: free memory is unknown")
        else:
            lines.append(
                f"{longest.device}: {readable_bytes(longest.free_bytes)} are free now; the weights of "
                f"{longest.tokens:,} tokens fit"
            )
    return tuple(lines)


def _best_rate(c: Complexity) -> float:
    """Return the most operations a second of the whole layer; 0 where nothing was measured."""
    return max((f / t.seconds for f, t in zip(c.flops(), c.whole, strict=True) if t.seconds), default=0.0)
