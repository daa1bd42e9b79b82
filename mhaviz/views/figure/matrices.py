"""The matrices of one layer, as a figure: each product stands between its factors, and lines up with them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.matrices import (
    JOIN,
    PRODUCTS,
    PROJECT,
    MatrixScales,
    head_title,
    hidden_text,
    left_out_text,
    marked_text,
    matrices_title,
    others_text,
    output_text,
    score_text,
    scores_title,
    titled,
    weights_of,
    whole_title,
)
from mhaviz.pages.panels import Panel, Scale
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.matrices import LayerMatrices, Matrix
from mhaviz.records.tokens import Tokens
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import Side, draw_scale, label_size, thinned_places, whole_pixels
from mhaviz.views.figure.outline import outline
from mhaviz.views.figure.sheet import (
    ACCENT,
    BODY,
    DRAWN_WIDER,
    INK,
    MARGIN,
    POINTS,
    QUIET,
    SECOND,
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
_BOLDER = 0.82  # of the width of bold letters is that of others, or more
_LINE = 0.16  # inches, of body text
_NUMBERS_UP_TO = 10  # tokens, or features; of more, cells are too small for numbers
_NUMBER_CELL = (0.4, 0.22)  # inches, width and height of a cell with a number
_NUMBER = 7.0  # its font size in points
_TOKEN, _MANY_TOKENS, _FEW_INCHES = 0.2, (3.2, 2.4), 1.8  # inches: of a token; of many, of one head and of several
_MOST_LABEL = 1.2  # inches
_LABELS_UP_TO = 16  # tokens of the size of a label
_FEATURE, _FEATURES, _WHOLE = 0.05, 1.2, 2.7  # inches, of a feature, the most for those of a head, and of all heads
_LEAST = 0.25  # inches, of a matrix of few features
_TITLE = 0.2  # inches over a matrix
_GAP = 0.3  # inches between two matrices that are not factor and product
_NEAR = 0.12  # between factor and product
_SECTION, _HEAD = 0.34, 0.26  # inches that a heading takes
_BETWEEN = 0.25
_SCALE = (0.78, 1.3)  # inches, width and height of a scale with its numbers
_MARKED = ("orange", "blue")
_MARK, _FINE, _HALO = 1.3, 0.6, 2.8  # points: the line of a mark, around small cells, and with the paper around it
_LARGE, _SMALL_CELL = 0.15, 0.04  # inches of cells that have room for that, and that are small
_WIDEST = 18.0  # inches that the heads may take, side by side
_LEAST_WIDTH = 7.5
_LEAST_LABEL = 6.0  # points; labels under a matrix that need be smaller stand upright
_HEAD_LABEL = 0.42  # inches: from one head's number to the next


@dataclass(frozen=True)
class Sides:
    """How long the sides of the matrices are, the same for all, so that what belongs together lines up.

    Attributes:
        rows: of the queries, down, in S, A, Q and H; keys_across: of the keys in S, A and Kᵀ; keys_down: in V.
        whole_rows, whole_keys: of queries and keys in matrices of all heads.
        turned: whether the labels of ``keys_across`` stand upright.
        features_across, features_down: of the queries and keys of a head; values_across: of its values.
        label_size, across_size: font sizes of tokens beside and under a matrix, in points.
    """

    rows: Side
    keys_down: Side
    whole_rows: Side
    whole_keys: Side
    keys_across: Side
    turned: bool
    features_across: Side
    features_down: Side
    values_across: Side
    label_size: float
    across_size: float


def _decide_sides(m: LayerMatrices, fonts: Fonts, dpi: float) -> Sides:
    """Cells on whole pixels; square, unless there is a number in them."""
    longest = max(len(m.queries), len(m.keys))
    width, height = _NUMBER_CELL
    if longest > _NUMBERS_UP_TO:
        width = height = _TOKEN
    low = height
    if longest > _LABELS_UP_TO:  # what need not line up with S is low, so that the page is not too high
        width = height = _MANY_TOKENS[len(m.heads) > 1] / longest
        low = _FEW_INCHES / longest
    size = label_size(low)

    def tokens(side: Tokens, cell: float) -> tuple[Side, float]:
        """A side, and the inches that its labels need, across as well as down."""
        cells, cell = whole_pixels(len(side), cell, dpi)
        labels = fonts.labels(side.texts)
        labels = tuple(fit_text(label, _MOST_LABEL, size, fonts.families) for label in labels)
        widest = max(text_width(label, size, fonts.families) for label in labels) + 0.08
        pitch = cells * cell / len(side)
        step = every(len(side), int(len(side) * pitch * POINTS / (size * 1.05)))
        return Side(cells, cell, widest, labels, frozenset(side.special), step), widest / (pitch * step)

    def features(number: int, down: bool = False) -> Side:
        cell = _NUMBER_CELL[down] if number <= _NUMBERS_UP_TO else min(_FEATURE, _FEATURES / number)
        if number <= _NUMBERS_UP_TO < longest:
            cell = _FEATURE * 2
        return Side(*whole_pixels(number, max(cell, _LEAST / number), dpi), 0.0)

    across, needed = tokens(m.keys, width)
    smaller = size / max(needed, 1.0)
    turned = smaller < _LEAST_LABEL
    if not turned:
        across = replace(across, room=smaller * 1.2 / POINTS + 0.06)
    return Sides(
        tokens(m.queries, height)[0],
        tokens(m.keys, low)[0],
        tokens(m.queries, low)[0],
        tokens(m.keys, low)[0],
        across,
        turned,
        features(m.heads[0].query.shape[1]),
        features(m.heads[0].key.shape[1], down=True),
        features(m.heads[0].value.shape[1]),
        size,
        size if turned else smaller,
    )


def matrices_figure(matrices: LayerMatrices, style: Style | None = None) -> Sheet:
    """X, Q, K and V; S between Q and Kᵀ, H between A and V for each head; the heads' H side by side, and O."""
    return redraw_coarser(lambda coarser: _Drawing(matrices, coarser).sheet(), style or Style())


class _Drawing:
    """The matrices of one layer on their way to paper."""

    def __init__(self, m: LayerMatrices, style: Style) -> None:
        self._m, self._style = m, style
        self._fonts = Fonts.covering({*m.queries.texts, *m.keys.texts})
        self._sides = _decide_sides(m, self._fonts, style.dpi)
        self._scales = MatrixScales.of(m)
        weights = np.stack([head.weights for head in m.heads])
        self._weights = style.weight_scale([AttentionMap(weights, Axis(m.queries), Axis(m.keys), m.kind)])
        self._weights = replace(self._weights, zeros=True)
        self._exceeds = bool(weights.max() > self._weights.high)
        self._quote = quoting(self._fonts.shown)
        s = self._sides
        self._left, self._right = s.rows.room, max(s.rows.room, s.keys_down.room)
        first = m.heads[0]
        width = s.features_across.length + _NEAR
        scores = max(s.keys_across.length + _GAP, _title_width(scores_title(m, first)))
        weighed = max(s.keys_across.length + _NEAR, _title_width(titled("A", "softmax(S)", first.weights)))
        self._places = (0.0, max(width, _title_width(titled("Q", "", first.query)))), scores, weighed
        values = max(s.values_across.length, _title_width(titled("H", "A V", first.output)) - self._right)
        self._band_width = self._left + self._places[0][1] + scores + weighed + values + self._right
        room = self._band_width - values - self._right - 0.2
        self._texts = [
            [
                line
                for text in (score_text(m, head, self._quote), output_text(m, head, self._quote))
                for line in wrap(text, room, BODY, self._fonts.families)
            ]
            for head in m.heads
        ]
        self._text_height = _LINE * max(map(len, self._texts)) + 0.08
        above = max(s.keys_down.length, self._text_height + _TITLE + s.features_down.length)
        self._above = _TITLE + above + _NEAR + _TITLE  # over the rows of Q, S, A and H
        self._band_height = _HEAD + self._above + s.rows.length + s.keys_across.room
        fitting = max(int((_WIDEST + _GAP) / (self._band_width + _GAP)), 1)
        self._across = -(-len(m.heads) // -(-len(m.heads) // fitting))  # rows that are equally long

    def sheet(self) -> Sheet:
        """The figure."""
        m, dpi = self._m, self._style.dpi
        projected, joined = self._row_places(m.projected), self._row_places(self._joined)
        bands = -(-len(m.heads) // self._across)
        scales = self._all_scales()
        bars = joined[1] + _BETWEEN + len(scales) * _SCALE[0]
        width = max(self._across * (self._band_width + _GAP) - _GAP, projected[1], bars, _LEAST_WIDTH) + 2 * MARGIN
        intro = wrap(marked_text(m, self._quote, _MARKED), width - 2 * MARGIN, BODY, self._fonts.families)
        title = self._style.titled(matrices_title(m))
        footnote, remark = self._style.small_print(m.source.footnote, self._remark())
        over = 0.3 if title else 0.0
        products = wrap(PRODUCTS, (width - 2 * MARGIN) * _BOLDER, _HEADING)
        rows = self._row_height
        height = 2 * MARGIN + over + _LINE * len(intro) + 0.12
        height += _SECTION + max(rows(m.projected), 0.0) + _BETWEEN
        height += _SECTION + 0.18 * (len(products) - 1) + bands * (self._band_height + _BETWEEN)
        height += _SECTION + max(rows(self._joined), _TITLE + _SCALE[1]) + 0.15
        height += foot_height(width, footnote, remark)
        self._sheet = sheet = Sheet(snap(width, dpi), snap(height, dpi), dpi, self._fonts)
        sheet.title(MARGIN + 0.1, title)
        y = MARGIN + over
        for line in intro:
            sheet.write(MARGIN, y + _LINE / 2, line, BODY, colour=QUIET)
            y += _LINE
        y += 0.12
        y = self._draw_row(self._heading(y, [PROJECT]), m.projected, projected[0]) + _BETWEEN
        y = self._heading(y, products)
        for i in range(len(m.heads)):
            down, across = divmod(i, self._across)
            left = MARGIN + across * (self._band_width + _GAP)
            self._draw_head(left, y + down * (self._band_height + _BETWEEN), i)
        y = self._heading(y + bands * (self._band_height + _BETWEEN), [JOIN])
        self._draw_row(y, self._joined, joined[0])
        for i, (scale, name) in enumerate(scales):
            beyond = (False, scale is self._weights and self._exceeds)
            draw_scale(sheet, MARGIN + joined[1] + _BETWEEN + i * _SCALE[0], y + _TITLE, _SCALE[1], scale, name, beyond)
        sheet.foot(footnote, remark)
        return sheet

    @property
    def _joined(self) -> tuple[Matrix, ...]:
        return (self._m.joined, *([self._m.output] if self._m.output else []))

    def _all_scales(self) -> list[tuple[Scale, str]]:
        s, m = self._scales, self._m
        return [
            *([(s.inputs, "X")] if m.input else []),
            (s.projected, "Q, K"),
            (s.scores, "S"),
            (self._weights, "A"),
            (s.values, "V, H"),
            *([(s.output, "O")] if m.output else []),
        ]

    def _remark(self) -> str:
        m, s = self._m, self._sides
        rows, columns = s.rows, s.keys_across
        pooled = pooled_text(len(m.queries), len(m.keys), rows.cells, columns.cells)
        widest = max(x.values.shape[1] for x in (*m.projected, *self._joined))
        cells = self._whole_side(widest).cells
        if not pooled and cells < widest:
            pooled = f"{pooled_text(1, widest, 1, cells)} features"
        parts = ["rows are tokens; columns of S and A are keys, of the others features", pooled, hidden_text(m)]
        return "; ".join(filter(None, [*parts, others_text(m), left_out_text(m), m.source.remark]))

    def _whole_side(self, features: int) -> Side:
        """Across a matrix of all heads."""
        cell = _NUMBER_CELL[0] if self._has_numbers(1, features) else min(_FEATURE, _WHOLE / features)
        if features <= _NUMBERS_UP_TO and not self._has_numbers(1, features):
            cell = _FEATURE * 2
        return Side(*whole_pixels(features, max(cell, 4 * _LEAST / features), self._style.dpi), 0.0)

    def _has_numbers(self, rows: int, columns: int) -> bool:
        longest = max(len(self._m.queries), len(self._m.keys))
        return max(rows, columns, longest) <= _NUMBERS_UP_TO

    def _row_places(self, several: Sequence[Matrix]) -> tuple[list[float], float]:
        """Where matrices of the whole layer begin, side by side, in inches from the left; where they end."""
        places, x, before = [], 0.0, None
        for matrix in several:
            side = self._down(matrix)
            if side is not before:  # tokens of their own
                x += side.room
            places.append(x)
            end = x + self._whole_side(matrix.values.shape[1]).length
            x = max(end + _GAP, x + _title_width(whole_title(matrix)))
            before = side
        return places, x - _GAP

    def _down(self, matrix: Matrix) -> Side:
        """The tokens of its rows."""
        is_of_keys = matrix.name in ("K", "V") or matrix is self._m.memory
        is_other = self._m.memory is not None or self._m.queries.texts != self._m.keys.texts
        return self._sides.whole_keys if is_of_keys and is_other else self._sides.whole_rows

    def _row_height(self, several: Sequence[Matrix]) -> float:
        return _TITLE + max(self._down(matrix).length for matrix in several) + 0.22

    def _heading(self, y: float, lines: Sequence[str]) -> float:
        for i, line in enumerate(lines):
            self._sheet.write(MARGIN, y + 0.08 + 0.18 * i, line, _HEADING, bold=True)
        return y + _SECTION + 0.18 * (len(lines) - 1)

    def _draw_row(self, y: float, several: Sequence[Matrix], places: Sequence[float]) -> float:
        """Matrices of the whole layer, side by side. Returns the y below them."""
        m, before = self._m, None
        for matrix, place in zip(several, places, strict=True):
            x, top = snap(MARGIN + place, self._style.dpi), snap(y + _TITLE, self._style.dpi)
            down, across = self._down(matrix), self._whole_side(matrix.values.shape[1])
            self._draw(x, top, whole_title(matrix), matrix.values, self._scales.of_whole(matrix), down, across)
            if down is not before:
                self._label_rows(x, top, down)
            before = down
            if matrix.name not in ("O", "X", "X target", "X source"):
                n_heads = m.n_key_heads if matrix.name in ("K", "V") else m.n_heads
                self._divide(x, top, down.length, across.length, n_heads, matrix.name in ("K", "V"))
            of_keys, of_queries = matrix.name in ("K", "V"), matrix.name in ("Q", "concat", "O")
            if of_queries or matrix is m.input:
                self._mark_row(x, top, down, m.position, len(m.queries), across.length, ACCENT)
            if of_keys or matrix is m.memory or (matrix is m.input and m.memory is None and m.kind != "cross"):
                self._mark_row(x, top, down, m.key_position, len(m.keys), across.length, SECOND)
        return y + self._row_height(several)

    def _divide(self, x: float, y: float, height: float, width: float, n_heads: int, are_key_heads: bool) -> None:
        """Lines between the heads' columns, and their numbers under them; those that are drawn below are dark."""
        each = width / n_heads
        edges = [snap(x + each * i, self._style.dpi) for i in range(1, n_heads)]
        self._sheet.ticks([(edge, y, edge, y + height + 0.04) for edge in edges], INK)
        chosen = {head.key_head if are_key_heads else head.head for head in self._m.heads}
        step = every(n_heads, int(width / (_HEAD_LABEL if each >= _HEAD_LABEL else 0.16)))
        for head in range(0, n_heads, step):
            text = f"head {head}" if each >= _HEAD_LABEL else str(head)
            colour = INK if head in chosen else QUIET
            bold = head in chosen and len(chosen) < n_heads
            middle = x + each * (head + 0.5)
            self._sheet.write(middle, y + height + 0.11, text, SMALL, align="center", colour=colour, bold=bold)

    def _draw_head(self, left: float, y: float, number: int) -> None:
        """One head: S between Q and Kᵀ, then H between A and V, all with the same rows."""
        m, s, sheet = self._m, self._sides, self._sheet
        head, dpi, scales = m.heads[number], self._style.dpi, self._scales
        sheet.write(left, y + 0.08, head_title(m, head), _HEADING, bold=True)
        for i, line in enumerate(self._texts[number]):
            sheet.write(left, y + _HEAD + _LINE * (i + 0.5), line, BODY)
        (_, q_pitch), s_pitch, a_pitch = self._places
        top = snap(y + _HEAD + self._above, dpi)
        q_x = snap(left + self._left, dpi)
        s_x, a_x = snap(q_x + q_pitch, dpi), snap(q_x + q_pitch + s_pitch, dpi)
        h_x = snap(a_x + a_pitch, dpi)
        over = top - _TITLE - _NEAR
        k_y, v_y = snap(over - s.features_down.length, dpi), snap(over - s.keys_down.length, dpi)

        self._draw(q_x, top, titled("Q", "", head.query), head.query, scales.projected, s.rows, s.features_across)
        key = head.key.T
        self._draw(s_x, k_y, titled("Kᵀ", "", key), key, scales.projected, s.features_down, s.keys_across)
        self._draw(s_x, top, scores_title(m, head), head.scores, scales.scores, s.rows, s.keys_across)
        weights = weights_of(head)
        self._draw(a_x, top, titled("A", "softmax(S)", weights), weights, self._weights, s.rows, s.keys_across)
        self._draw(h_x, v_y, titled("V", "", head.value), head.value, scales.values, s.keys_down, s.values_across)
        self._draw(h_x, top, titled("H", "A V", head.output), head.output, scales.values, s.rows, s.values_across)

        self._label_rows(q_x, top, s.rows)
        self._label_rows(h_x, v_y, s.keys_down, after=s.values_across.length)
        self._label_rows(h_x, top, s.rows, after=s.values_across.length)
        for x in (s_x, a_x):
            self._label_columns(x, top + s.rows.length)

        n_queries, n_keys = len(m.queries), len(m.keys)
        for x in (s_x, a_x):
            self._mark_column(x, top, s.rows.length, n_keys)
        self._mark_column(s_x, k_y, s.features_down.length, n_keys)
        self._mark_row(h_x, v_y, s.keys_down, m.key_position, n_keys, s.values_across.length, SECOND)
        widths = ((q_x, s.features_across), (s_x, s.keys_across), (a_x, s.keys_across), (h_x, s.values_across))
        for x, across in widths:
            self._mark_row(x, top, s.rows, m.position, n_queries, across.length, ACCENT)

    def _draw(
        self, x: float, y: float, title: str, values: NDArray[np.float32], scale: Scale, down: Side, across: Side
    ) -> None:
        """One matrix with its title and, if its cells have room, its numbers; (x, y): of its first cell."""
        sheet, panel = self._sheet, Panel(title, values, scale)
        drawn = panel.pooled(down.cells, across.cells).values
        sheet.image(x, y, across.length, down.length, drawn, scale).set_label(title)
        seen = ~np.isnan(drawn)
        if seen.all():
            sheet.frames([(x, y, across.length, down.length)])
        elif seen.any():
            sheet.fill(outline(seen, (across.cell, down.cell), sheet.thin_line), [(x, y)])
        sheet.write(x, y - 0.04, title, SMALL, vertical="bottom", bold=True)
        if across.cell < _NUMBER_CELL[0] - 0.02 or down.cell < _NUMBER_CELL[1] - 0.02:
            return
        rows, columns = np.indices(values.shape)
        places = np.stack([x + (columns + 0.5) * across.cell, y + (rows + 0.5) * down.cell], axis=-1).reshape(-1, 2)
        texts = [panel.text(row, column) for row, column in np.ndindex(values.shape)]
        inks = ["black" if dark else "white" for dark in needs_dark_text(colours(values, scale)).ravel()]
        written = [i for i, text in enumerate(texts) if text]
        sheet.numbers([texts[i] for i in written], places[written], [inks[i] for i in written], _NUMBER)

    def _label_rows(self, x: float, y: float, side: Side, after: float | None = None) -> None:
        """The tokens left of a matrix that begins at (x, y), or right of one that is ``after`` inches wide."""
        for _, label, place, colour in side.written():
            if after is None:
                self._sheet.write(x - 0.05, y + place, label, self._sides.label_size, align="right", colour=colour)
            else:
                self._sheet.write(x + after + 0.06, y + place, label, self._sides.label_size, colour=colour)

    def _label_columns(self, x: float, y: float) -> None:
        for _, label, place, colour in self._sides.keys_across.written():
            size = self._sides.across_size
            if self._sides.turned:
                self._sheet.write(x + place, y + 0.05, label, size, align="right", rotation=90, colour=colour)
            else:
                self._sheet.write(x + place, y + 0.05, label, size, align="center", vertical="top", colour=colour)

    def _mark_row(self, x: float, y: float, side: Side, position: int, length: int, width: float, colour: str) -> None:
        cell, _ = thinned_places(length, 1, side.cells)[position]
        self._mark((x, y + (cell - 0.5) * side.cell, width, side.cell), colour)

    def _mark_column(self, x: float, y: float, height: float, length: int) -> None:
        side = self._sides.keys_across
        cell, _ = thinned_places(length, 1, side.cells)[self._m.key_position]
        self._mark((x + (cell - 0.5) * side.cell, y, side.cell, height), SECOND)

    def _mark(self, rectangle: tuple[float, float, float, float], colour: str) -> None:
        """A line around a row or a column: of large cells with paper on both sides, so that it is seen on any colour,
        of small ones outside, so that they are seen."""
        x, y, width, height = rectangle
        if min(width, height) >= _LARGE:
            self._sheet.frames([rectangle], "white", _HALO)
            self._sheet.frames([rectangle], colour, _MARK)
            return
        line = _MARK if min(width, height) >= _SMALL_CELL else _FINE
        out = line / 2 / POINTS
        self._sheet.frames([(x - out, y - out, width + 2 * out, height + 2 * out)], colour, line)


def _title_width(title: str) -> float:
    """With what is left free beside it."""
    return text_width(title, SMALL, bold=True) * DRAWN_WIDER + 0.15
