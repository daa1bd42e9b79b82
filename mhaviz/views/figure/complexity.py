"""What attention costs, as a figure: operations, seconds and bytes against the length of the input."""

from collections.abc import Callable, Sequence

from mhaviz.records import Complexity
from mhaviz.units import readable_bytes, readable_count, readable_seconds
from mhaviz.views.figure.curves import COLOURS, MARKERS, Curve, Plot, draw_curves, mark, names_width
from mhaviz.views.figure.sheet import FOOT_LINE, INK, MARGIN, QUIET, SMALL, TITLE, Sheet, fit_text, foot_height
from mhaviz.views.look import Look
from mhaviz.views.measured import (
    PARAMETERS,
    PARTS,
    best_rate,
    crossover_text,
    longest_text,
    part_timings,
    rate_text,
    skipped_from_text,
    term_texts,
)

_ACROSS, _DOWN, _LEFT, _TOP = 2.75, 2.35, 0.6, 0.55  # inches
_ATTENTION, _FREE, _PROJECTIONS, _WHOLE = range(4)  # of the colours and markers
_DOTTED = ":"


def complexity_figure(complexity: Complexity, look: Look | None = None) -> Sheet:
    """Operations beside times; below them bytes, and beside these the terms and the places where curves cross."""
    c, look = complexity, look or Look()
    operations, times, sizes = _operations(c), _times(c), _sizes(c)
    across = _LEFT + _ACROSS + max(map(names_width, (operations, times, sizes))) + 0.15
    down = _DOWN + 0.85
    width = 2 * MARGIN + 2 * across
    height = MARGIN + _TOP + 2 * down - 0.3 + foot_height(width, c.source.footnote, "") + MARGIN
    sheet = Sheet(width, height, look.dpi)
    sheet.write(MARGIN, MARGIN + 0.1, "what attention costs: N²·d_model + N·d_model²", TITLE, bold=True)

    left, right, top, below = MARGIN + _LEFT, MARGIN + _LEFT + across, MARGIN + _TOP, MARGIN + _TOP + down
    plot = _draw(sheet, left, top, "operations, predicted", operations, c.lengths, readable_count)
    _mark_equal_operations(sheet, plot, c)
    plot = _draw(sheet, right, top, "time of one run, measured", times, c.lengths, readable_seconds)
    _mark_equal_times(sheet, plot, c)
    plot = _draw(sheet, left, below, "memory, predicted", sizes, c.lengths, readable_bytes, base=2)
    for longest in c.longest:
        if longest.tokens and longest.free_bytes:
            mark(sheet, plot, longest.tokens, longest.free_bytes, f"N = {longest.tokens:,}")
    _write_terms(sheet, right - _LEFT, below - 0.1, c)
    sheet.foot(c.source.footnote)
    return sheet


def _draw(
    sheet: Sheet,
    left: float,
    top: float,
    title: str,
    curves: Sequence[Curve],
    ticks: Sequence[int],
    unit: Callable[[float], str],
    base: int = 10,
) -> Plot:
    return draw_curves(sheet, (left, top, _ACROSS, _DOWN), title, curves, ticks, unit, base)


def _operations(c: Complexity) -> list[Curve]:
    bare = [
        Curve("N²·d_model", c.lengths, [N**2 * c.d_model for N in c.lengths], QUIET, style=_DOTTED),
        Curve("N·d_model²", c.lengths, [N * c.d_model**2 for N in c.lengths], QUIET, style=_DOTTED),
    ]
    parts = (c.flops("projections"), c.flops("attention"), c.flops())
    return bare + _parts(c, parts)


def _times(c: Complexity) -> list[Curve]:
    """Measured, and dotted what the predicted operations would take at the whole's best rate."""
    measured = [[timing.seconds for timing in timings] for timings in part_timings(c).values()]
    if not (rate := best_rate(c)):
        return _parts(c, measured)
    predicted = ((_PROJECTIONS, c.flops("projections")), (_ATTENTION, c.flops("attention")))
    ideal = [
        Curve("", c.lengths, [flops / rate for flops in at_lengths], COLOURS[i], style=_DOTTED)
        for i, at_lengths in predicted
    ]
    return ideal + _parts(c, measured)


def _parts(c: Complexity, values: Sequence[Sequence[float | None]]) -> list[Curve]:
    return [
        Curve(name, c.lengths, ys, COLOURS[i], MARKERS[i])
        for name, i, ys in zip(PARTS, (_PROJECTIONS, _ATTENTION, _WHOLE), values, strict=True)
    ]


def _sizes(c: Complexity) -> list[Curve]:
    """The weights grow up to the longest that fits; what does not grow with the input is level."""
    known = [(longest.tokens, longest.free_bytes) for longest in c.longest if longest.tokens and longest.free_bytes]
    grown = sorted({*zip(c.lengths, c.weight_bytes, strict=True), *known})
    xs = [x for x, _ in grown]
    ends = (xs[0], xs[-1])
    level = [
        Curve(f"free on {longest.device}", ends, [longest.free_bytes] * 2, COLOURS[_FREE], style="--")
        for longest in c.longest
        if longest.free_bytes
    ]
    return [
        *level,
        Curve("parameters", ends, [c.parameter_bytes] * 2, QUIET, style="--"),
        Curve("Q, K, V, H, O", c.lengths, c.feature_bytes, COLOURS[_PROJECTIONS], MARKERS[_PROJECTIONS]),
        Curve("weights of all heads", xs, [y for _, y in grown], COLOURS[_ATTENTION], MARKERS[_ATTENTION]),
    ]


def _mark_equal_operations(sheet: Sheet, plot: Plot, c: Complexity) -> None:
    d_model = c.d_model
    mark(sheet, plot, c.equal_terms, d_model**3, f"N = {c.equal_terms:,}")
    mark(sheet, plot, c.equal_operations, 16 * d_model**3, f"N = {c.equal_operations:,}")


def _mark_equal_times(sheet: Sheet, plot: Plot, c: Complexity) -> None:
    if c.equal_times is not None and c.equal_seconds is not None:
        mark(sheet, plot, c.equal_times, c.equal_seconds, f"N = {c.equal_times:,.0f}")


def _write_terms(sheet: Sheet, left: float, top: float, c: Complexity) -> None:
    """The terms as a table, and what follows from them, a line each."""
    columns = (left, left + 0.6, left + 1.6, left + 3.2)
    rows = [("result", "equation", "operations", "bytes"), *map(term_texts, c.terms), PARAMETERS]
    y = top
    for n, row in enumerate(rows):
        for x, text in zip(columns, row, strict=True):
            sheet.write(x, y, text, SMALL, bold=n == 0, colour=QUIET if n == 0 else INK)
        y += FOOT_LINE
    for group in (crossover_text(c), longest_text(c), _measured_text(c)):
        y += FOOT_LINE / 2
        for line in group:
            sheet.write(left, y, fit_text(line, sheet.width - MARGIN - left, SMALL), SMALL)
            y += FOOT_LINE


def _measured_text(c: Complexity) -> list[str]:
    rate = rate_text(c)
    dotted = [f"dotted: the predicted operations at {rate}, the whole layer's best"] if rate else []
    skipped = {name: skipped_from_text(c.lengths, timings) for name, timings in part_timings(c).items()}
    return dotted + [f"{name}: {text}" for name, text in skipped.items() if text]
