"""One query taken apart, as a figure: from products of features to weights, from weighted values to the output."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mhaviz.pages.explanation import (
    MOST_KEYS,
    heading,
    largest_contributions,
    lengths_of,
    number_text,
    others,
    output_heading,
    rest_text,
    rows_remark,
    scores_heading,
    strongest_text,
    visible_products,
)
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.panels import Scale
from mhaviz.pages.pooling import pool_strongest
from mhaviz.pages.words import rule_text, study_title
from mhaviz.records.explanation import Explanation
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import draw_scale, thinned_places, whole_pixels
from mhaviz.views.figure.sheet import (
    ACCENT,
    BODY,
    INK,
    MARGIN,
    QUIET,
    SMALL,
    Sheet,
    fit_text,
    foot_height,
    redraw_coarser,
    snap,
    text_width,
    wrap,
)
from mhaviz.views.labels import every, quoting
from mhaviz.views.style import Style

_HEADING = 10.0  # font size in points
_TITLE = 0.28  # inches for the title
_ROW, _STRIP = 0.27, 0.2  # inches, from row to row, and the height of a strip of features
_STRIPS, _FEATURE, _LEAST_STRIPS = 6.4, 0.3, 1.2  # inches, the most for all features, for one, the least
_NUMBER, _BAR = 0.62, 1.7  # inches
_SCALE_WIDTH, _LEAST_SCALE = 0.75, 0.9
_LABEL = 1.6  # inches, the most for a token


@dataclass(frozen=True)
class StripLayout:
    """Where the parts of a row go, in inches from the left edge of the sheet.

    Attributes:
        cells: of a strip; fewer than features where it is pooled.
        cell: width of a cell.
        position, label: where the number of a key and its token end.
        strip: where the features begin.
        numbers: where three columns of numbers end.
        bar: where the bar begins.
        end: where its number ends.
    """

    cells: int
    cell: float
    position: float
    label: float
    strip: float
    numbers: tuple[float, float, float]
    bar: float
    end: float

    @property
    def width(self) -> float:
        """Of a strip."""
        return self.cells * self.cell


def decide_strips(d_key: int, labels: Sequence[str], fonts: Fonts, dpi: float) -> StripLayout:
    """Lay out rows of ``d_key`` features, their cells on whole pixels."""
    cells, cell = whole_pixels(d_key, min(_FEATURE, _STRIPS / d_key), dpi)
    widest = max(text_width(label, BODY, fonts.families) for label in labels)
    position = MARGIN + 0.25
    label = position + 0.08 + min(widest, _LABEL)
    strip = snap(label + 0.08, dpi)
    first = strip + max(cells * cell, _LEAST_STRIPS) + _NUMBER
    numbers = (first, first + _NUMBER, first + 2 * _NUMBER)
    bar = numbers[2] + 0.2
    return StripLayout(cells, cell, position, label, strip, numbers, bar, bar + _BAR)


def explanation_figure(explanation: Explanation, style: Style | None = None) -> Sheet:
    """The query's features, their products with every key's, scores and weights; below, what each value contributes."""
    return redraw_coarser(lambda coarser: _Drawing(explanation, coarser).sheet(), style or Style())


class _Drawing:
    """One explanation on its way to paper."""

    def __init__(self, e: Explanation, style: Style) -> None:
        self._e, self._style = e, style
        self._fonts = Fonts.covering({*e.queries, *e.keys, style.title or ""})
        self._labels = self._fonts.labels(e.keys)
        self._keys, self._largest = e.heaviest(MOST_KEYS), largest_contributions(e)
        shown = {*self._keys, *self._largest}
        self._rest = others(e, self._keys)
        self._rest_values = [key for key in others(e, self._largest) if e.visible[key]]
        names = [*(self._labels[key] for key in shown), "= output", f"{len(self._rest_values)} more"]
        self._layout = decide_strips(e.d_key, names, self._fonts, style.dpi)

    def sheet(self) -> Sheet:
        e, layout = self._e, self._layout
        pooled = pooled_text(1, e.d_key, 1, layout.cells)
        remark = f"{pooled} features" if pooled else "columns are features, counted from 0; rows are keys"
        remark = "; ".join(filter(None, [remark, rows_remark(e)]))
        footnote, remark = self._style.small_print(e.source.footnote, remark)
        title = self._style.titled(study_title(e))
        top = MARGIN + (_TITLE if title else 0.0)
        width = layout.end + 0.3 + 2 * _SCALE_WIDTH + MARGIN
        room = width - layout.strip - MARGIN
        self._remarks = wrap(strongest_text(e, quoting(self._fonts.shown)), room, BODY, self._fonts.families)
        scores = max((len(self._keys) + bool(self._rest) + 2) * _ROW, _LEAST_SCALE) + 0.6 + 0.16 * len(self._remarks)
        values = max((len(self._largest) + bool(self._rest_values) + 1) * _ROW, _LEAST_SCALE) + 0.5
        height = top + 0.47 + scores + 0.25 + values + 0.2 + foot_height(width, footnote, remark) + MARGIN
        self._sheet = Sheet(snap(width, self._style.dpi), snap(height, self._style.dpi), self._style.dpi, self._fonts)
        self._sheet.title(MARGIN + 0.1, title)
        self._sheet.write(MARGIN, top + 0.1, heading(e, quoting(self._fonts.shown)), _HEADING)
        y = top + 0.47
        self._draw_scores(y)
        self._draw_values(y + scores + 0.25)
        self._sheet.foot(footnote, remark)
        return self._sheet

    def _draw_scores(self, top: float) -> None:
        e, layout, sheet = self._e, self._layout, self._sheet
        query, products = Scale.around_zero(e.query), Scale.around_zero(e.products[e.visible])
        y = self._head(top, scores_heading(e), ("", "q·k", rule_text(e), "weight"))
        first = y
        self._row(y, "", "q", e.query, query)
        y += _ROW * 1.2
        rows = visible_products(e)
        for key in self._keys:
            self._row(y, str(key), self._labels[key], rows[key], products)
            score = number_text(e.scores[key]) if e.visible[key] else "hidden"
            self._numbers(y, ("", number_text(e.similarities[key]), score))
            self._bar(y, float(e.weights[key]), f"{e.weights[key]:.2f}")
            y += _ROW
        step = every(e.d_key, int(layout.width / 0.25))
        for place, i in thinned_places(e.d_key, step, layout.cells):
            sheet.write(layout.strip + place * layout.cell, y - 0.02, str(i), SMALL, align="center", vertical="top")
        if self._rest:
            sheet.write(layout.end, y + 0.07, rest_text(e, self._rest), BODY, align="right", colour=QUIET)
            y += _ROW
        for row, line in enumerate(self._remarks):
            sheet.write(layout.strip, y + 0.27 + 0.16 * row, line, BODY, colour=QUIET)
        self._scales(first, y, ((query, "q"), (products, "q ∘ k")))

    def _draw_values(self, top: float) -> None:
        e = self._e
        sums = [e.contributions[self._rest_values].sum(axis=0)] if self._rest_values else []
        scale = Scale.around_zero(np.stack([*e.contributions[self._largest], *sums, e.output]))
        norms = lengths_of(e.value)
        first = y = self._head(top, output_heading(e), ("a", "‖v‖", "‖a v‖", "share of all ‖a v‖"))
        for key in self._largest:
            self._row(y, str(key), self._labels[key], e.contributions[key], scale)
            self._numbers(y, (f"{e.weights[key]:.2f}", number_text(norms[key]), number_text(e.sizes[key])))
            self._bar(y, float(e.shares[key]), f"{e.shares[key]:.0%}")
            y += _ROW
        if sums:
            rest = self._rest_values
            self._row(y, "", f"{len(rest)} more", sums[0], scale)
            self._numbers(y, (f"{e.weights[rest].sum():.2f}", "", number_text(float(lengths_of(sums[0])))))
            self._bar(y, float(e.shares[rest].sum()), f"{e.shares[rest].sum():.0%}")
            y += _ROW
        line = y - 0.02
        self._sheet.page.plot([self._layout.strip, self._layout.numbers[2]], [line, line], color=INK, linewidth=0.8)
        self._row(y + 0.04, "", "= output", e.output, scale, bold=True)
        self._numbers(y + 0.04, (f"{e.weights.sum():.2f}", "", number_text(float(lengths_of(e.output)))))
        self._scales(first, y + _ROW, ((scale, "a v, output"),))

    def _head(self, y: float, text: str, columns: tuple[str, str, str, str]) -> float:
        """A heading and the names of the columns. Returns the y of the first row."""
        layout, sheet = self._layout, self._sheet
        sheet.write(MARGIN, y, text, _HEADING, bold=True)
        for x, name in zip((*layout.numbers, layout.bar), columns, strict=True):
            sheet.write(x, y + 0.27, name, SMALL, colour=QUIET, align="left" if x == layout.bar else "right")
        return y + 0.4

    def _row(
        self, y: float, position: str, label: str, values: NDArray[np.float32], scale: Scale, bold: bool = False
    ) -> None:
        """A position, a token and a strip of features."""
        layout, sheet = self._layout, self._sheet
        top, middle = snap(y, sheet.dpi), y + _STRIP / 2
        label = fit_text(label, layout.label - layout.position, BODY, self._fonts.families)
        sheet.write(layout.position, middle, position, SMALL, colour=QUIET, align="right")
        sheet.write(layout.label, middle, label, BODY, align="right", bold=bold)
        strip = pool_strongest(values[None], 1, layout.cells)
        sheet.image(layout.strip, top, layout.width, snap(_STRIP, sheet.dpi), strip, scale).set_label(label)
        sheet.frames([(layout.strip, top, layout.width, snap(_STRIP, sheet.dpi))])

    def _numbers(self, y: float, texts: tuple[str, str, str]) -> None:
        for x, text in zip(self._layout.numbers, texts, strict=True):
            self._sheet.write(x, y + _STRIP / 2, text, BODY, align="right")

    def _bar(self, y: float, share: float, text: str) -> None:
        width = share * (_BAR - 0.4)
        self._sheet.page.add_patch(
            Rectangle((self._layout.bar, y + 0.03), width, _STRIP - 0.06, facecolor=ACCENT, linewidth=0)
        )
        self._sheet.write(self._layout.bar + width + 0.06, y + _STRIP / 2, text, BODY)

    def _scales(self, top: float, bottom: float, scales: Sequence[tuple[Scale, str]]) -> None:
        height = min(max(bottom - top, _LEAST_SCALE), 2.0)
        for i, (scale, name) in enumerate(scales):
            draw_scale(self._sheet, self._layout.end + 0.3 + i * _SCALE_WIDTH, top, height, scale, name)
