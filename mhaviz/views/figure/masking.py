"""What a mask and dropout do, as a figure: scores, masked scores, weights and what dropout leaves, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mhaviz.pages.blocks import Title
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.masking import (
    PAD,
    PADDING_WORDS,
    axes_of,
    dropped_words,
    exceeds,
    has_hidden,
    has_padding,
    hidden_words,
    masking_panels,
    masking_title,
    score_scale,
    sentence_title,
    weight_maps,
)
from mhaviz.records.masking import MaskedSentence, Masking
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.mosaic import GAP, MosaicLayout, Space, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import (
    BODY,
    DRAWN_WIDER,
    INK,
    MARGIN,
    QUIET,
    SMALL,
    Sheet,
    foot_height,
    foot_width,
    redraw_coarser,
    snap,
    text_width,
)
from mhaviz.views.style import Style

_HEADING = 10.0  # font size in points
_TITLE, _SENTENCE, _BETWEEN = 0.34, 0.26, 0.22  # inches: of the title, of a sentence's heading, between sentences
_KEY = 0.22  # inches, a line of the key and the side of its cell
_TILE = 3.2  # inches, the most for one matrix
_SCALE = 0.72
_PITCH = 0.07  # inches between the lines of a hatch
_HATCH = "#b4b4b4"
_LEAST_CROSS, _INSET = 0.05, 0.3  # inches of a cell that has room for a cross, and the share that it leaves free


@dataclass(frozen=True)
class _Row:
    """One sentence, laid out."""

    one: MaskedSentence
    title: Title
    layout: MosaicLayout


def masking_figure(masking: Masking, style: Style | None = None) -> Sheet:
    """A row for each head of each sentence. Hidden is blank, padding hatched, and what is dropped crossed out."""
    return redraw_coarser(lambda coarser: _masking_sheet(masking, coarser), style or Style())


def _masking_sheet(m: Masking, style: Style) -> Sheet:
    title = style.titled(masking_title(m))
    tokens = {token for one in m.sentences for token in (*one.queries.texts, *one.keys.texts)}
    fonts = Fonts.covering({PAD, style.title or "", *tokens})
    scores, weights = score_scale(m), replace(style.weight_scale(weight_maps(m)), zeros=True)
    n_columns = 3 if m.dropout is None else 4
    rows = []
    for number, one in enumerate(m.sentences):
        panels = masking_panels(m, one, scores, weights)
        space = Space(fonts, style.dpi, n_columns, n_columns * _TILE)
        length = max(panel.text_length for panel in panels)
        layout = decide_mosaic(len(panels), *axes_of(one), space, length)
        longest = max(text_width(panel.title, SMALL, bold=True) for panel in panels)
        pitch = longest * DRAWN_WIDER + GAP
        layout = layout.spread(pitch)
        rows.append(_Row(one, sentence_title(m, number), layout))

    room = max(row.layout.queries.room for row in rows)  # all sentences line up
    rows = [replace(row, layout=_with_room(row.layout, room)) for row in rows]
    key = [("hidden" if has_hidden(m) else "", hidden_words(m))]
    key += [("padding", PADDING_WORDS)] if has_padding(m) else []
    if m.dropout is not None:
        has_crosses = any(min(_cell(row)) >= _LEAST_CROSS for row in rows)
        key.append(("dropped" if has_crosses else "", dropped_words(m)))
    across = max(max(row.layout.width, row.layout.tile(n_columns - 1)[0] + pitch) for row in rows)
    remark = "; ".join(filter(None, ["rows are queries, columns keys", _pooled(rows), m.source.remark]))
    footnote, remark = style.small_print(m.source.footnote, remark)
    over = _TITLE if title else 0.0
    width = 2 * MARGIN + max(
        across + 0.2 + 2 * _SCALE,
        *(text_width(text, BODY) * DRAWN_WIDER + 0.4 for _, text in key),
        text_width(masking_title(m), 11.0, bold=True) * DRAWN_WIDER,
        min(foot_width(footnote), across + 2 * _SCALE),
    )
    height = 2 * MARGIN + over + _KEY * len(key) + 0.16
    height += sum(_SENTENCE + row.layout.height + _BETWEEN for row in rows)
    height += foot_height(width, footnote, remark)
    sheet = Sheet(snap(width, style.dpi), snap(height, style.dpi), style.dpi, fonts)
    sheet.title(MARGIN + 0.1, title)
    y = MARGIN + over
    for kind, text in key:
        _draw_key(sheet, y, kind, text)
        y += _KEY
    y += 0.16
    top = y + _SENTENCE + rows[0].layout.tile(0)[1]
    for row in rows:
        sheet.title(y + 0.08, row.title, _HEADING)
        panels = masking_panels(m, row.one, scores, weights, ("", ""))
        draw_mosaic(sheet, MARGIN, y + _SENTENCE, row.layout, panels)
        _draw_marks(sheet, y + _SENTENCE, row, n_columns)
        y += _SENTENCE + row.layout.height + _BETWEEN
    bar = rows[0].layout.bar
    for i, (scale, name) in enumerate(((scores, "score"), (weights, "weight"))):
        beyond = (False, scale is weights and exceeds(m, weights))
        draw_scale(sheet, MARGIN + across + 0.2 + i * _SCALE, top, bar, scale, name, beyond)
    sheet.foot(footnote, remark)
    return sheet


def _cell(row: _Row) -> tuple[float, float]:
    """Height and width of a token, in inches."""
    q_length, k_length = row.one.scores.shape[1:]
    return row.layout.tile_height / q_length, row.layout.tile_width / k_length


def _with_room(layout: MosaicLayout, room: float) -> MosaicLayout:
    return replace(layout, queries=replace(layout.queries, room=room))


def _pooled(rows: Sequence[_Row]) -> str:
    lengths = (row.one.scores.shape[1:] + row.layout.cells for row in rows)
    return next(filter(None, (pooled_text(*sizes) for sizes in lengths)), "")


def _draw_key(sheet: Sheet, y: float, kind: str, text: str) -> None:
    """A cell as the picture has it, and what it says."""
    side = _KEY - 0.07
    x, top = snap(MARGIN, sheet.dpi), snap(y, sheet.dpi)
    if kind == "padding":
        _hatch(sheet, (x, top, side, side))
    elif kind:
        sheet.frames([(x, top, side, side)], _HATCH)
    if kind == "dropped":
        _cross(sheet, [(x, top)], side, side)
    sheet.write(x + side + 0.1 if kind else x, top + side / 2, text, BODY, colour=QUIET)


def _draw_marks(sheet: Sheet, y: float, row: _Row, n_columns: int) -> None:
    """The hatch over padding in all matrices but the first, and a cross in each cell that is dropped."""
    one, layout = row.one, row.layout
    n_heads, q_length, k_length = one.scores.shape
    down, across = _cell(row)
    for head, column in product(range(n_heads), range(1, n_columns)):
        dx, dy = layout.tile(head * n_columns + column)
        left, top = snap(MARGIN + dx, sheet.dpi), snap(y + dy, sheet.dpi)
        n_queries, n_keys = len(one.queries), len(one.keys)
        right = left + n_keys * across
        if n_keys < k_length:
            _hatch(sheet, (right, top, layout.tile_width - n_keys * across, layout.tile_height))
        if n_queries < q_length:
            bottom = top + n_queries * down
            _hatch(sheet, (left, bottom, n_keys * across, layout.tile_height - n_queries * down))
        if column == 3 and one.dropped is not None and min(across, down) >= _LEAST_CROSS:
            gone = np.argwhere(one.dropped[head] & ~one.hidden[head] & ~one.padding)
            _cross(sheet, [(left + j * across, top + i * down) for i, j in gone.tolist()], across, down)


def _cross(sheet: Sheet, corners: Sequence[tuple[float, float]], width: float, height: float) -> None:
    """Two lines through each cell, whose top left corners are given."""
    side = min(width, height) * (1 - 2 * _INSET)
    lines = []
    for x, y in corners:
        left, top = x + (width - side) / 2, y + (height - side) / 2
        lines += [(left, top, left + side, top + side), (left, top + side, left + side, top)]
    sheet.ticks(lines, INK)


def _hatch(sheet: Sheet, rectangle: tuple[float, float, float, float]) -> None:
    """Parallel lines that rise to the right, all over a rectangle, (x, y, width, height)."""
    x, y, width, height = rectangle
    lines = []
    for place in np.arange(_PITCH / 2, width + height, _PITCH).tolist():  # where a line meets the left or lower side
        start, end = max(place - height, 0.0), min(place, width)
        lines.append((x + start, y + place - start, x + end, y + place - end))
    sheet.ticks(lines, _HATCH)
