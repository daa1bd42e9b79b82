"""Tokens, heads, shapes and scaling on one page of A4."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.patches import FancyBboxPatch

from mhaviz.errors import ArgumentError
from mhaviz.pages.blocks import Drawn
from mhaviz.pages.map_words import map_title, reading_text
from mhaviz.pages.panels import head_panels, values_beyond
from mhaviz.pages.scaling import scaling_panels, scaling_scales
from mhaviz.records import AttentionMap, Axis, Report
from mhaviz.views.figure.flow import COMPACT, decide_flow, draw_flow
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import MosaicLayout, Space, decide_mosaic, draw_mosaic, draw_scale, largest_mosaic
from mhaviz.views.figure.scaling import TABLE_WIDTH, draw_statistics
from mhaviz.views.figure.sheet import BODY, MARGIN, QUIET, SMALL, Sheet, fit_text, text_width
from mhaviz.views.labels import bare, cut
from mhaviz.views.style import Style

WIDTH, HEIGHT = 8.27, 11.69  # A4
_HEADS_HEIGHT = 4.1  # inches
_LEAST_TILE, _MOST_COLUMNS = 0.12, 64
_TOKEN_LINES = 3
_TITLE, _HEADING = 13.0, 10.0  # font sizes in points


def report_figure(report: Report, style: Style | None = None) -> Sheet:
    """The page: how the sentence was cut, what each head attends to, the shapes, and what scaling does."""
    style = style or Style()
    (attention_map,) = report.attention.maps
    fonts = Fonts.covering({*attention_map.queries, *attention_map.keys, style.title or ""})
    sheet = Sheet(WIDTH, HEIGHT, style.dpi, fonts)
    room = WIDTH - 2 * MARGIN
    layer = "" if report.scaling.layer is None else f"layer {report.scaling.layer}"
    sheet.title(0.38, style.titled(map_title(attention_map, layer)), _TITLE)

    y = 0.68
    for tokens in dict.fromkeys((attention_map.queries, attention_map.keys)):
        y = _draw_tokens(sheet, MARGIN, y, room, tokens)

    weights = style.weight_scale([attention_map])
    panels = head_panels(attention_map, weights)
    layout = _fill(sheet, attention_map, room - 0.75, style.columns)
    reading = reading_text(report.attention, Drawn(pooled=(layout.pooled,)))
    _heading(sheet, MARGIN, y + 0.16, "What each head attends to", reading)
    y += 0.25
    draw_mosaic(sheet, MARGIN, y, layout, panels)
    bar = min(max(layout.tile_height, 0.6), 1.6)
    left, beyond = MARGIN + layout.width + 0.12, values_beyond(panels, weights)
    draw_scale(sheet, left, y + layout.tile(0)[1], bar, weights, "weight", beyond)
    y += layout.height + 0.3

    below = HEIGHT - MARGIN - 0.3 - y
    flow = decide_flow(report.trace.steps)
    flow_width, flow_height = flow.size(COMPACT)
    shrink = min(1.0, (below - 0.25) / flow_height)
    boxes = replace(
        COMPACT, height=COMPACT.height * shrink, below=COMPACT.below * shrink, size=COMPACT.size * (1 + shrink) / 2
    )
    sizes = {axis: size for step in report.trace.steps for axis, size in zip(step.axes, step.shape, strict=True)}
    remark = ", ".join(f"{axis} {sizes[axis]}" for axis in ("n_heads", "d_key", "q_length"))
    _heading(sheet, MARGIN, y, "The shapes on the way", remark, flow_width)
    draw_flow(sheet, MARGIN, y + 0.2, report.trace.steps, flow, boxes)

    left = MARGIN + flow_width + 0.3
    _draw_scaling(sheet, left, y, WIDTH - MARGIN - left, below, report, style.cmap)
    boxes_remark = "boxes: blue computed, yellow a copy, white a view; dashed strided"
    sheet.foot(*style.small_print(report.attention.source.footnote, boxes_remark))
    return sheet


def _heading(sheet: Sheet, x: float, y: float, text: str, remark: str = "", room: float = WIDTH) -> None:
    sheet.write(x, y, text, _HEADING, bold=True)
    left = text_width(text, _HEADING, bold=True) + 0.15
    sheet.write(x + left, y, fit_text(remark, room - left, SMALL), SMALL, colour=QUIET)


def _draw_tokens(sheet: Sheet, x: float, y: float, width: float, tokens: Sequence[str]) -> float:
    """Each token in a box with its position, in at most a few lines. Returns the y below them."""
    left, height, line = x, 0.2, 0
    for position, token in enumerate(tokens):
        shown = cut(sheet.fonts.shown(bare(token)), 24)
        number = text_width(str(position), SMALL)
        box = number + text_width(shown, BODY, sheet.fonts.families) + 0.2
        if left + box > x + width - 0.9 and line == _TOKEN_LINES - 1:
            sheet.write(left + 0.05, y + height / 2, f"… {len(tokens) - position} more", SMALL, colour=QUIET)
            break
        if left + box > x + width:
            left, y, line = x, y + height + 0.06, line + 1
        sheet.page.add_patch(
            FancyBboxPatch(
                (left, y), box, height, boxstyle="round,pad=0,rounding_size=0.04", facecolor="#f1f1f1", linewidth=0
            )
        )
        sheet.write(left + 0.06, y + height / 2, str(position), SMALL, colour=QUIET)
        sheet.write(left + 0.12 + number, y + height / 2, shown, BODY)
        left += box + 0.06
    return y + height + 0.1


def _fill(sheet: Sheet, m: AttentionMap, width: float, columns: int | None) -> MosaicLayout:
    """The mosaic with the largest tiles that fits its part of the page.

    Raises:
        ArgumentError: none fits.
    """
    n_tiles = len(m.heads)
    choices = [columns] if columns else range(1, min(n_tiles, _MOST_COLUMNS) + 1)
    space = Space(sheet.fonts, sheet.dpi, width=width, height=_HEADS_HEIGHT, least_tile=_LEAST_TILE)
    layout, fits = largest_mosaic(choices, n_tiles, Axis.of(m.queries), Axis.of(m.keys), space)
    if not fits:
        in_columns = f" in {columns} columns" if columns else ""
        raise ArgumentError(
            f"expected heads that fit on a page of A4, got {n_tiles}{in_columns}, {len(m.queries)} × {len(m.keys)} "
            f"tokens each; draw them with mhaviz heatmap"
        )
    return layout


def _draw_scaling(sheet: Sheet, x: float, y: float, width: float, height: float, report: Report, cmap: str) -> None:
    """Scores and softmax, unscaled over scaled, and the table of numbers below."""
    c = report.scaling
    _heading(sheet, x, y, f"Why the scores are scaled: head {c.heads[0]}")
    scores, weights = scaling_scales(c, cmap)
    panels = scaling_panels(c, 0, scores, weights)
    size = BODY * min(width / TABLE_WIDTH, 1.0)
    table_height = 1.5
    text_length = max(panel.text_length for panel in panels)
    space = Space(sheet.fonts, sheet.dpi, 2, width - 0.62, height - table_height - 0.2)
    layout = decide_mosaic(4, Axis.of(c.queries), Axis.of(c.keys), space, text_length)
    draw_mosaic(sheet, x, y + 0.12, layout, panels)
    for row, (scale, name) in enumerate(((scores, "score"), (weights, "weight"))):
        top = y + 0.12 + layout.tile(2 * row)[1]
        beyond, bar = values_beyond(panels[row::2], scale), min(max(layout.tile_height, 0.5), 1.3)
        draw_scale(sheet, x + layout.width + 0.17, top, bar, scale, name, beyond)
    draw_statistics(sheet, x, y + 0.12 + layout.height + 0.2, c, 0, size)
