"""How a head comes about, as a figure: four stages side by side, then the heads and how unlike they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mhaviz.pages.map_words import READING
from mhaviz.pages.panels import Scale, values_beyond
from mhaviz.pages.projections import OUTLINED, StageText, divergence_text, projections_title, split_text, stage_texts
from mhaviz.records.axis import Axis
from mhaviz.records.projections import ProjectionComparison
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import (
    MosaicLayout,
    Side,
    Space,
    decide_mosaic,
    draw_mosaic,
    draw_scale,
    largest_mosaic,
    whole_pixels,
)
from mhaviz.views.figure.sheet import (
    BODY,
    INK,
    MARGIN,
    QUIET,
    Sheet,
    fit_text,
    foot_height,
    redraw_coarser,
    snap,
    wrap,
)
from mhaviz.views.labels import every
from mhaviz.views.projection_panels import (
    MOST_FEATURES,
    divergence_panel,
    head_weight_panels,
    output_panel,
    output_scale,
    score_panel,
    score_scale,
    shown_pair,
    weight_panel,
    weight_scale,
)
from mhaviz.views.style import Style

_HEADING = 10.0  # font size in points
_LINE = 0.16  # inches, of body text
_PITCH, _BESIDE = 2.95, 0.3  # inches: the least for a stage, and between two of them
_MOST_STAGE = 3.3  # inches, width of a stage's map
_LEAST_HEADS, _MOST_HEADS = 6.0, 6.2  # inches, least width and most height of all the heads' maps
_MOST_COLUMNS = 32
_SCALE_WIDTH = 0.7
_GAP = 0.3
_OVER_OUTPUTS = 0.08  # inches, between the keys of the weights and the title of the outputs
_LEAST_OUTPUTS = 1.2  # inches, width
_FEATURE_PITCH, _FEATURE_ROOM = 0.2, 0.2  # inches between the numbers of two features, and for them
_MARK, _HALO = 1.4, 3.2  # points, the line around the pair and the paper around this line


@dataclass(frozen=True)
class _Parts:
    """What was decided: the texts, broken into lines, the four mosaics, and the two words that are outlined."""

    texts: Sequence[StageText]
    remarks: Sequence[Sequence[str]]
    stages: MosaicLayout
    outputs: MosaicLayout
    heads: MosaicLayout
    divergence: MosaicLayout
    pair: tuple[int, int] | None

    @property
    def room(self) -> float:
        """Inches for the text of a stage."""
        return _room(self.stages)

    @property
    def right(self) -> float:
        """Inches from the left edge of the stages to the end of the last one's text."""
        return self.stages.tile(3)[0] + self.room

    @property
    def over(self) -> float:
        """Inches that names, formulas and remarks take over the stages."""
        return 0.5 + _LINE * max(map(len, self.remarks))

    @property
    def under(self) -> float:
        """Inches that the numbers take under the stages."""
        return 0.12 + _LINE * max(len(text.numbers) for text in self.texts)

    @property
    def high(self) -> float:
        """Inches of all maps of the stages, the outputs below the weights."""
        return self.stages.height + _OVER_OUTPUTS + self.outputs.height

    @property
    def below(self) -> float:
        """Inches that the heads and their divergence take."""
        return max(self.heads.height, self.divergence.height)


def _room(stages: MosaicLayout) -> float:
    return stages.tile_width + stages.gap - _BESIDE


def projections_figure(comparison: ProjectionComparison, style: Style | None = None) -> Sheet:
    """The scores, weights and outputs of each stage with its formula and its numbers; below, the heads and how unlike.

    Outlined: the two scores of the pair of words that the third stage scores most unlike.
    """
    return redraw_coarser(lambda coarser: _projections_sheet(comparison, coarser), style or Style())


def _projections_sheet(c: ProjectionComparison, style: Style) -> Sheet:
    fonts = Fonts.covering([*c.tokens, style.title or ""])
    parts = _decide(c, fonts, style)
    across = parts.heads.width + _GAP + parts.divergence.width + _SCALE_WIDTH
    width = 2 * MARGIN + max(parts.right + 0.2 + _SCALE_WIDTH, across)
    title = style.titled(projections_title(c))
    footnote, remark = style.small_print(c.source.footnote, _remark(parts))
    foot = foot_height(width, footnote, remark)
    top = MARGIN + (0.4 if title else 0.0)
    height = top + MARGIN + parts.over + parts.high + parts.under + 0.75 + parts.below + 0.3 + foot
    sheet = Sheet(snap(width, style.dpi), snap(height, style.dpi), style.dpi, fonts)
    sheet.title(MARGIN + 0.1, title)
    y = _draw_stages(sheet, top, c, parts, weight_scale(c, style))
    _draw_heads(sheet, y + 0.3, c, parts, weight_scale(c, style))
    sheet.foot(footnote, remark)
    return sheet


def _decide(c: ProjectionComparison, fonts: Fonts, style: Style) -> _Parts:
    panels = [score_panel(stage, score_scale(c)) for stage in c.stages]
    tokens, numbers = Axis.of(c.tokens), Axis.of(str(i) for i in range(len(c.heads)))
    space = Space(fonts, style.dpi, 4, 4 * _MOST_STAGE)
    stages = decide_mosaic(8, tokens, tokens, space, max(panel.text_length for panel in panels))
    stages = stages.spread(max(_PITCH, stages.tile_width + _BESIDE))
    texts = stage_texts(c, shown_pair(c, fonts.shown))
    remarks = [wrap(text.remark, _room(stages), BODY, fonts.families) for text in texts]
    divergence = decide_mosaic(
        1, numbers, numbers, Space(fonts, style.dpi, width=4.0, height=4.0, names=("head", "head"))
    )
    beside = stages.tile(3)[0] + _room(stages) - divergence.width - _GAP
    room = Space(fonts, style.dpi, width=max(beside, _LEAST_HEADS), height=_MOST_HEADS)
    choices = range(1, min(len(c.heads), _MOST_COLUMNS) + 1)
    heads, _ = largest_mosaic(choices, len(c.heads), tokens, tokens, room)
    outputs, pair = _decide_outputs(stages, c, style.dpi), None if stages.pooled else c.pair
    return _Parts(texts, remarks, stages, outputs, heads, divergence, pair)


def _decide_outputs(stages: MosaicLayout, c: ProjectionComparison, dpi: float) -> MosaicLayout:
    """Rows that line up with those of the scores, columns of whole pixels that fill the width of a stage."""
    n_features = min(c.d_model, MOST_FEATURES)
    n_cells, cell = whole_pixels(n_features, max(stages.tile_width, _LEAST_OUTPUTS) / n_features, dpi)
    step = every(n_features, int(n_features * cell / _FEATURE_PITCH))
    features = Side(n_cells, cell, _FEATURE_ROOM, tuple(map(str, range(n_features))), every=step)
    pitch = stages.tile_width + stages.gap
    layout = replace(stages, rows=1, keys=features, turned=False, value_size=None, names=("", ""))
    return replace(layout, gap=pitch - layout.tile_width)


def _remark(parts: _Parts) -> str:
    pooled = parts.stages.pooled or parts.heads.pooled
    reading = f"rows are queries, columns keys; {pooled} values" if pooled else READING
    return f"{reading}; {OUTLINED}" if parts.pair else reading


def _draw_stages(sheet: Sheet, y: float, c: ProjectionComparison, parts: _Parts, weights: Scale) -> float:
    """All that belongs to the four stages. Returns the y below it."""
    layout, scores = parts.stages, score_scale(c)
    top = y + parts.over
    panels = [score_panel(stage, scores) for stage in c.stages] + [weight_panel(stage, weights) for stage in c.stages]
    draw_mosaic(sheet, MARGIN, top, layout, panels)
    if parts.pair:
        _mark_pair(sheet, MARGIN, top, layout, parts.pair)
    below, features = top + layout.height + _OVER_OUTPUTS, output_scale(c)
    draw_mosaic(sheet, MARGIN, below, parts.outputs, [output_panel(stage, features) for stage in c.stages])
    under = top + parts.high + 0.12
    for i, (text, lines) in enumerate(zip(parts.texts, parts.remarks, strict=True)):
        x = MARGIN + layout.tile(i)[0]
        sheet.write(x, y + 0.08, text.name, _HEADING, bold=True)
        sheet.write(x, y + 0.28, fit_text(text.formula, parts.room, BODY), BODY)
        for row, line in enumerate(lines):
            sheet.write(x, y + 0.5 + row * _LINE, line, BODY, colour=QUIET)
        for row, (name, number) in enumerate(text.numbers):
            middle = under + (row + 0.5) * _LINE
            sheet.write(x, middle, name, BODY)
            sheet.write(x + min(parts.room, _PITCH - _BESIDE), middle, number, BODY, align="right")
    x, bar = MARGIN + parts.right + 0.2, layout.bar
    draw_scale(sheet, x, top + layout.tile(0)[1], bar, scores, "score", values_beyond(panels[:4], scores))
    draw_scale(sheet, x, top + layout.tile(4)[1], bar, weights, "weight")
    draw_scale(sheet, x, below + parts.outputs.tile(0)[1], parts.outputs.bar, features, "output")
    return top + parts.high + parts.under


def _mark_pair(sheet: Sheet, x: float, y: float, layout: MosaicLayout, pair: tuple[int, int]) -> None:
    """A line around the two scores of the pair in each stage, with paper around it: on some colours it is not seen."""
    width, height = layout.keys.cell, layout.queries.cell
    cells = []
    for left, top in map(layout.tile, range(4)):
        for row, column in (pair, pair[::-1]):
            cells.append((x + left + column * width, y + top + row * height, width, height))
    sheet.frames(cells, "white", _HALO)
    sheet.frames(cells, INK, _MARK)


def _draw_heads(sheet: Sheet, y: float, c: ProjectionComparison, parts: _Parts, weights: Scale) -> None:
    left, right = MARGIN, MARGIN + parts.heads.width + _GAP
    sheet.write(left + parts.heads.queries.room, y, split_text(c), _HEADING, bold=True)
    sheet.write(left + parts.heads.queries.room, y + 0.2, divergence_text(c), BODY, colour=QUIET)
    y += 0.35
    draw_mosaic(sheet, left, y, parts.heads, head_weight_panels(c, weights))
    if len(c.heads) == 1:
        return
    panel = divergence_panel(c)
    draw_mosaic(sheet, right, y, parts.divergence, [panel])
    bar = max(parts.divergence.tile_height, 0.6)
    x, top = right + parts.divergence.width + 0.15, y + parts.divergence.tile(0)[1]
    draw_scale(sheet, x, top, bar, panel.scale, "divergence")
