"""What scaling does, as a figure: scores and weights, unscaled beside scaled, and the numbers."""

from mhaviz.pages.panels import values_beyond
from mhaviz.pages.scaling import STATISTICS, scaling_panels, scaling_scales, statistics_table
from mhaviz.pages.words import rule_text, study_title
from mhaviz.records.axis import Axis
from mhaviz.records.scaling import ScalingComparison
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import Space, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import (
    ACCENT,
    BODY,
    MARGIN,
    SECOND,
    Sheet,
    foot_height,
    redraw_coarser,
    snap,
)
from mhaviz.views.style import Style

_NAMES, _NUMBER = 2.05, 0.95  # inches, the columns of the table of numbers
TABLE_WIDTH, TABLE_HEIGHT = _NAMES + 2 * _NUMBER, 0.19 * (len(STATISTICS) + 1)
_SCALE_WIDTH = 0.6


def scaling_figure(comparison: ScalingComparison, style: Style | None = None) -> Sheet:
    """The comparison drawn at the style's dpi, or at as many as a picture of allowed size has.

    See ``_scaling_sheet``.
    """
    return redraw_coarser(lambda coarser: _scaling_sheet(comparison, coarser), style or Style())


def _scaling_sheet(comparison: ScalingComparison, style: Style) -> Sheet:
    """Scores and their softmax, unscaled beside scaled, with a table of numbers.

    One head: scores over weights, the table below, no wider than a page. Several: a row for each.
    """
    c, alone = comparison, len(comparison.heads) == 1
    title = style.titled(study_title(c))
    fonts = Fonts.covering({*c.queries, *c.keys, style.title or ""})
    scores, weights = scaling_scales(c, style.cmap)
    panels = [p for i, head in enumerate(c.heads) for p in scaling_panels(c, i, scores, weights, f"head {head}: ")]
    if alone:
        panels = [panels[i] for i in (0, 2, 1, 3)]
    text_length = max(panel.text_length for panel in panels)
    columns = 2 if alone else 4
    space = Space(fonts, style.dpi, columns, 4.0 * columns)
    layout = decide_mosaic(len(panels), Axis.of(c.queries), Axis.of(c.keys), space, text_length)
    with_bars = layout.width + 0.2 + 2 * _SCALE_WIDTH
    remark = f"rows are queries, columns keys{'; ' if layout.pooled else ''}{layout.pooled}"

    footnote, remark = style.small_print(c.source.footnote, remark)
    title_height = 0.35 if title else 0.0
    width = 2 * MARGIN + (max(with_bars, TABLE_WIDTH) if alone else with_bars + 0.2 + TABLE_WIDTH)
    height = 2 * MARGIN + title_height + layout.height + 0.3 + foot_height(width, footnote, remark)
    height += TABLE_HEIGHT + 0.2 if alone else 0
    sheet = Sheet(snap(width, style.dpi), snap(height, style.dpi), style.dpi, fonts)
    sheet.title(MARGIN + 0.1, title)
    top = MARGIN + title_height
    draw_mosaic(sheet, MARGIN, top, layout, panels)
    x, y = MARGIN + layout.width + 0.2, top + layout.tile(0)[1]
    draw_scale(sheet, x, y, layout.bar, scores, "score")
    beyond = values_beyond(panels[2:] if alone else panels[1::2], weights)
    draw_scale(sheet, x + _SCALE_WIDTH, y, layout.bar, weights, "weight", beyond)
    if alone:
        draw_statistics(sheet, MARGIN, top + layout.height + 0.2, c, 0)
    else:
        for i in range(len(c.heads)):
            draw_statistics(sheet, x + 2 * _SCALE_WIDTH + 0.2, top + layout.tile(columns * i)[1], c, i)
    sheet.foot(footnote, remark)
    return sheet


def draw_statistics(sheet: Sheet, x: float, y: float, c: ScalingComparison, i: int, size: float = BODY) -> None:
    """The i-th head's numbers as a table with its top left corner at (x, y)."""
    step = 0.19 * size / BODY
    first, second = x + (_NAMES + _NUMBER) * size / BODY, x + TABLE_WIDTH * size / BODY
    sheet.write(first, y + step / 2, "unscaled", size, align="right", bold=True, colour=ACCENT)
    sheet.write(second, y + step / 2, rule_text(c), size, align="right", bold=True, colour=SECOND)
    for row, (name, unscaled, scaled) in enumerate(statistics_table(c, i, rule_text(c)).texts(), start=1):
        middle = y + (row + 0.5) * step
        sheet.write(x, middle, name, size)
        sheet.write(first, middle, unscaled, size, align="right")
        sheet.write(second, middle, scaled, size, align="right")
