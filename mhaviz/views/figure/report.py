"""Tokens, heads, shapes and scaling on one page."""

from collections.abc import Sequence

from matplotlib.patches import FancyBboxPatch

from mhaviz.pages.blocks import Drawn
from mhaviz.pages.map_words import map_title, reading_text
from mhaviz.pages.panels import head_panels, values_beyond
from mhaviz.pages.scaling import scaling_panels, scaling_scales
from mhaviz.records.axis import Axis
from mhaviz.records.report import Report
from mhaviz.views.figure.flow import COMPACT, decide_flow, draw_flow
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import Space, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.scaling import TABLE_HEIGHT, TABLE_WIDTH, draw_statistics
from mhaviz.views.figure.sheet import (
    BODY,
    MARGIN,
    QUIET,
    SMALL,
    Sheet,
    fit_text,
    foot_height,
    redraw_coarser,
    snap,
    text_width,
)
from mhaviz.views.labels import bare, cut
from mhaviz.views.style import Style

_ROOM = 7.4  # inches from side to side, as on a page of paper
_LEAST_HEADS = 0.5  # inches of a tile
_TOKEN_LINES, _TOKEN = 3, 0.2  # lines of tokens; inches of one
_TITLE, _HEADING, _OVER = 13.0, 10.0, 0.2  # font sizes in points; inches from a heading to what it is over
_AROUND_SCALE = 0.75  # inches
_BETWEEN, _UNDER_TOKENS = 0.3, 0.08


def report_figure(report: Report, style: Style | None = None) -> Sheet:
    """How the sentence was cut, what each head attends to, the shapes, and what scaling does."""
    return redraw_coarser(lambda coarser: _sheet(report, coarser), style or Style())


def _sheet(report: Report, style: Style) -> Sheet:
    (m,), c, steps = report.attention.maps, report.scaling, report.trace.steps
    title = style.titled(map_title(m, "" if c.layer is None else f"layer {c.layer}"))
    fonts = Fonts.covering({*m.queries, *m.keys, style.title or ""})
    tokens = [_lines(fonts, side) for side in dict.fromkeys((m.queries, m.keys))]
    space = Space(fonts, style.dpi, style.columns, _ROOM - _AROUND_SCALE, least_tile=_LEAST_HEADS)
    heads = decide_mosaic(len(m.heads), m.rows, m.columns, space)
    flow = decide_flow(steps)
    flow_width, flow_height = flow.size(COMPACT)
    room = _ROOM - flow_width - _BETWEEN
    scores, weights = scaling_scales(c, style.cmap)
    scaling = scaling_panels(c, 0, scores, weights)
    space = Space(fonts, style.dpi, 2, room - 0.62)
    maps = decide_mosaic(4, Axis.of(c.queries), Axis.of(c.keys), space, max(panel.text_length for panel in scaling))
    remark = "boxes: blue = computed, yellow = a copy, white = a view, dashed = strided"
    footnote, remark = style.small_print(report.attention.source.footnote, remark)

    below = max(flow_height, maps.height + TABLE_HEIGHT)
    top = MARGIN + (0.3 if title else 0.0)
    width = max(_ROOM, heads.width + _AROUND_SCALE, flow_width + _BETWEEN + maps.width + 0.62) + 2 * MARGIN
    height = top + sum(len(lines) * (_TOKEN + 0.06) + 0.04 for lines in tokens) + _UNDER_TOKENS + 2 * (_OVER + _BETWEEN)
    height += heads.height + below + foot_height(width, footnote, remark) + MARGIN
    sheet = Sheet(snap(width, style.dpi), snap(height, style.dpi), style.dpi, fonts)
    sheet.title(MARGIN + 0.05, title, _TITLE)
    y = top
    for lines in tokens:
        y = _draw_tokens(sheet, MARGIN, y, lines) + 0.04
    y += _UNDER_TOKENS

    scale = style.weight_scale([m])
    panels = head_panels(m, scale)
    reading = reading_text(report.attention, Drawn(pooled=(heads.pooled,)))
    _heading(sheet, MARGIN, y + 0.1, "What each head attends to", reading, width - 2 * MARGIN)
    y += _OVER
    draw_mosaic(sheet, MARGIN, y, heads, panels)
    beyond = values_beyond(panels, scale)
    draw_scale(sheet, MARGIN + heads.width + 0.12, y + heads.tile(0)[1], heads.bar, scale, "weight", beyond)
    y += heads.height + _BETWEEN

    sizes = {axis: size for step in steps for axis, size in zip(step.axes, step.shape, strict=True)}
    shapes = ", ".join(f"{axis} {sizes[axis]}" for axis in ("n_heads", "d_key", "q_length"))
    _heading(sheet, MARGIN, y, "The shapes on the way", shapes, flow_width)
    draw_flow(sheet, MARGIN, y + _OVER, steps, flow, COMPACT)
    x = MARGIN + flow_width + _BETWEEN
    _heading(sheet, x, y, f"Why the scores are scaled: head {c.heads[0]}")
    draw_mosaic(sheet, x, y + _OVER, maps, scaling)
    for row, (one, name) in enumerate(((scores, "score"), (weights, "weight"))):
        where = y + _OVER + maps.tile(2 * row)[1]
        draw_scale(sheet, x + maps.width + 0.17, where, maps.bar, one, name, values_beyond(scaling[row::2], one))
    draw_statistics(sheet, x, y + _OVER + maps.height, c, 0, BODY * min(room / TABLE_WIDTH, 1.0))
    sheet.foot(footnote, remark)
    return sheet


def _heading(sheet: Sheet, x: float, y: float, text: str, remark: str = "", room: float = _ROOM) -> None:
    sheet.write(x, y, text, _HEADING, bold=True)
    left = text_width(text, _HEADING, bold=True) + 0.15
    sheet.write(x + left, y, fit_text(remark, room - left, SMALL), SMALL, colour=QUIET)


def _lines(fonts: Fonts, tokens: Sequence[str]) -> list[list[tuple[str, str, float]]]:
    """Of each token its position, what is shown of it, and the inches of its box: at most a few lines."""
    lines: list[list[tuple[str, str, float]]] = [[]]
    left = 0.0
    for position, token in enumerate(tokens):
        shown = cut(fonts.shown(bare(token)), 24)
        box = text_width(str(position), SMALL) + text_width(shown, BODY, fonts.families) + 0.2
        is_last = len(lines) == _TOKEN_LINES
        if left + box > _ROOM - 0.9 * is_last:
            if is_last:
                lines[-1].append(("", f"… {len(tokens) - position} more", 0.0))
                break
            lines.append([])
            left = 0.0
        lines[-1].append((str(position), shown, box))
        left += box + 0.06
    return lines


def _draw_tokens(sheet: Sheet, x: float, y: float, lines: Sequence[Sequence[tuple[str, str, float]]]) -> float:
    """Each token in a box with its position. Returns the y below them."""
    for line in lines:
        left, middle = x, y + _TOKEN / 2
        for position, shown, box in line:
            if not position:
                sheet.write(left + 0.05, middle, shown, SMALL, colour=QUIET)
                continue
            style = "round,pad=0,rounding_size=0.04"
            sheet.page.add_patch(FancyBboxPatch((left, y), box, _TOKEN, style, facecolor="#f1f1f1", linewidth=0))
            sheet.write(left + 0.06, middle, position, SMALL, colour=QUIET)
            sheet.write(left + 0.12 + text_width(position, SMALL), middle, shown, BODY)
            left += box + 0.06
        y += _TOKEN + 0.06
    return y
