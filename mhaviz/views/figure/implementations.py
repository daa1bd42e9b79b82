"""Five ways to compute the same attention, as a figure: time and memory against the length of the input."""

from mhaviz.records import ImplementationComparison
from mhaviz.units import readable_bytes, readable_seconds
from mhaviz.views.figure.curves import COLOURS, MARKERS, STYLES, Curve, draw_curves, names_width
from mhaviz.views.figure.sheet import FOOT_LINE, INK, MARGIN, QUIET, SMALL, TITLE, Sheet, fit_text, foot_height
from mhaviz.views.look import Look
from mhaviz.views.measured import implementations_text, way_text

_ACROSS, _DOWN, _LEFT, _TOP, _GAP = 2.9, 2.7, 0.6, 0.55, 0.2  # inches


def implementations_figure(comparison: ImplementationComparison, look: Look | None = None) -> Sheet:
    """Two plots, and below them what the ways are, what was skipped, and how exact they are."""
    c, look = comparison, look or Look()
    times, memories = _curves(c, "seconds"), _curves(c, "peak_bytes")
    names = names_width(times)
    remarks = [(way.name, way_text(c, i)) for i, way in enumerate(c.implementations)]
    remarks += [("", line) for line in implementations_text(c)]
    width = 2 * MARGIN + 2 * (_LEFT + _ACROSS + names) + _GAP
    plots_bottom = MARGIN + _TOP + _DOWN + 0.5
    height = plots_bottom + FOOT_LINE * len(remarks) + 0.15 + foot_height(width, c.source.footnote, "") + MARGIN
    sheet = Sheet(width, height, look.dpi)
    sheet.write(MARGIN, MARGIN + 0.1, "the same attention, five ways", TITLE, bold=True)
    x = MARGIN + _LEFT
    for title, curves, unit, base in (
        ("time of one run", times, readable_seconds, 10),
        ("peak memory above the weights and the input", memories, readable_bytes, 2),
    ):
        draw_curves(sheet, (x, MARGIN + _TOP, _ACROSS, _DOWN), title, curves, c.lengths, unit, base)
        x += _ACROSS + names + _GAP + _LEFT
    for i, (head, text) in enumerate(remarks):
        y = plots_bottom + FOOT_LINE * (i + 0.5)
        sheet.write(MARGIN, y, head, SMALL, colour=COLOURS[i % len(COLOURS)])
        left = MARGIN + names + 0.1 if head else MARGIN
        sheet.write(left, y, fit_text(text, width - MARGIN - left, SMALL), SMALL, colour=INK if head else QUIET)
    sheet.foot(c.source.footnote)
    return sheet


def _curves(c: ImplementationComparison, what: str) -> list[Curve]:
    return [
        Curve(way.name, c.lengths, [getattr(timing, what) for timing in way.timings], COLOURS[i], MARKERS[i], STYLES[i])
        for i, way in enumerate(c.implementations)
    ]
