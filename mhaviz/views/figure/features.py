"""Matrices of features side by side: a row a token, as high as its label, a column a feature, as narrow as need be."""

from dataclasses import replace

from mhaviz.records.axis import Axis, even_cells
from mhaviz.views.figure.mosaic import VALUES_UP_TO, MosaicLayout, Side, Space, label_size
from mhaviz.views.figure.sheet import POINTS, SMALL, snap, text_width
from mhaviz.views.labels import every

_WIDEST = {1: 6.84, 2: 4.5, 3: 3.42}  # inches of one of so many; 3.42 are 512 pixels of the usual ones
_NARROWEST = 2.6  # of one of more
_HIGHEST, _ALONE = 3.6, 4.8  # inches of one, and of one that stands alone
_ROW, _FEATURE = 0.2, 0.2  # inches, the most of a cell without a number
_NUMBERED_ROW, _NUMBERED = 0.27, 0.42  # of one with a number
_APART = 0.12  # inches between the numbers of two features
_LINE = 0.22  # inches between two of rows
_LETTERS = 0.27 * 4  # of a cell's width, four characters of a number


def widest(n_tiles: int) -> float:
    """Inches of one of so many matrices that stand side by side, at most."""
    return _WIDEST.get(n_tiles, _NARROWEST)


def highest(n_tiles: int) -> float:
    """Inches from the first row of one to the last, at most."""
    return _ALONE if n_tiles == 1 else _HIGHEST


def decide_features(n_tiles: int, rows: Axis, columns: Axis, space: Space, text_length: int) -> MosaicLayout:
    """Lay out matrices (length, features) side by side, their cells on whole pixels.

    Labels are thinned where they have no room. Where tokens or features are more than pixels, some have no cell.

    Args:
        n_tiles: matrices.
        rows, columns: the tokens, and the features, which are known by their numbers.
        space: fonts and pixels.
        text_length: characters of the longest number in a cell.
    """
    with_values = max(len(rows), len(columns)) <= VALUES_UP_TO
    height, width = (_NUMBERED_ROW, _NUMBERED) if with_values else (_ROW, _FEATURE)
    q_cells, height = _cells(len(rows), height, highest(n_tiles), space.dpi)
    k_cells, width = _cells(len(columns), width, widest(n_tiles), space.dpi)
    pitch = q_cells * height / len(rows)
    size = label_size(pitch)
    labels = space.fonts.labels(rows.tokens.texts, rows.start)
    numbers = tuple(columns.tokens.texts)
    room = max(text_width(number, size) for number in numbers[-1:]) + _APART
    return MosaicLayout(
        n_tiles,
        1,
        Side(
            q_cells,
            height,
            snap(space.widest(labels, size), space.dpi),
            labels,
            frozenset(rows.tokens.special),
            every(len(rows), int(len(rows) * pitch * POINTS / (size * 1.05))),
        ),
        Side(
            k_cells,
            width,
            snap(size * 1.2 / POINTS + 0.06, space.dpi),
            numbers,
            every=every(len(columns), int(k_cells * width / room)),
        ),
        size,
        turned=False,
        value_size=width * POINTS * _LETTERS / max(text_length, 4) if with_values else None,
    )


def with_few_numbers(layout: MosaicLayout, rows: Axis, columns: Axis, space: Space) -> MosaicLayout:
    """The same, but along axes whose tokens are nothing but their positions numbers stand far from each other."""
    if not (rows.are_positions and columns.are_positions):
        return layout
    size = SMALL
    queries, keys = layout.queries, layout.keys
    apart = text_width(keys.labels[-1], size) + _APART
    return replace(
        layout,
        queries=replace(
            queries,
            room=snap(space.widest(queries.labels, size), space.dpi),
            every=every(len(rows), int(queries.length / _LINE)),
        ),
        keys=replace(
            keys,
            room=snap(size * 1.2 / POINTS + 0.06, space.dpi),
            every=every(len(columns), int(keys.length / apart)),
        ),
        label_size=size,
        turned=False,
    )


def _cells(length: int, cell: float, most: float, dpi: float) -> tuple[int, float]:
    """How many cells, and of how many inches: whole pixels, as large as ``cell`` and, all together, ``most`` allow."""
    pixels = int(min(cell, most / length) * dpi + 1e-6)
    return (length, pixels / dpi) if pixels else (even_cells(length, int(most * dpi)), 1 / dpi)
