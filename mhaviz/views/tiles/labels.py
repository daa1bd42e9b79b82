"""Labels along the sides of matrices, and numbers in their cells: how large they are, and which have room."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.labels import every
from mhaviz.results.axis import Axis
from mhaviz.views.measures import POINTS
from mhaviz.views.tiles.layout import GAP, Mark
from mhaviz.views.tiles.places import row_starts, thinned_places

LABELS_UP_TO = 60  # most tokens of an axis with a label each
LEAST_LABEL, MOST_LABEL = 6.0, 8.0  # font sizes in points; labels without room for the least are left out or cut
BESIDE_LABEL = 0.06  # inches between a label and its cells or the next label
_LINE = 0.22  # inches from one position to the next, down
_MOST_POSITIONS = 20  # most positions along a side
_MOST_VALUE, _OF_HEIGHT = 9.0, 0.5  # largest font size of numbers; their height / that of their cell


class Ruler(Protocol):
    """Measures texts as a medium writes them."""

    def width(self, text: str, size: float, bold: bool = False) -> float:
        """Return the width of a line of text in inches; ``size``: font size in points."""

    def wrap(self, text: str, width: float, size: float) -> list[str]:
        """Return the text as lines of at most ``width`` inches, broken between words."""

    def labels(self, tokens: Sequence[str], start: int = 0) -> tuple[str, ...]:
        """Return a label for each token, of which the first has the position ``start``."""


def widest(ruler: Ruler, labels: Sequence[str], size: float) -> float:
    """Return the room for the widest of these labels, in inches."""
    return max(ruler.width(label, size) for label in labels) + BESIDE_LABEL


def label_size(pitch: float, least: float) -> float:
    """Return the font size, at least ``least`` points, of labels that are ``pitch`` inches apart."""
    return min(max(pitch * POINTS * 0.8, least), MOST_LABEL)


def number_size(width: float, height: float, text_length: int) -> float:
    """Return the font size of numbers of ``text_length`` characters in cells of this width and height, in inches.

    Numbers leave a third of a cell's width blank; the smallest leave a fifth before they are left out.
    """
    most = min(height * POINTS * _OF_HEIGHT, _MOST_VALUE)
    wide = width * POINTS / max(text_length, 4)
    return min(max(1.08 * wide, min(1.35 * wide, LEAST_LABEL)), most)


def has_labels(axis: Axis) -> bool:
    """Return whether an axis is labelled by its tokens rather than by positions."""
    is_short = len(axis.tokens) == len(axis) <= LABELS_UP_TO
    return (axis.cells is None or is_short) and not axis.are_positions


def side_marks(axis: Axis, cells: int, cell: float, size: float, ruler: Ruler, upright: bool) -> tuple[Mark, ...]:
    """Return the labels along one side, as many as there is room for: tokens or round positions.

    Args:
        axis: the tokens.
        cells: number of cells drawn.
        cell: inches of a cell.
        size: font size of the labels, in points.
        ruler: measures the labels.
        upright: whether the side is that of the queries.
    """
    line = size * 1.05 / POINTS
    if not has_labels(axis):
        return _position_marks(axis.pooled(cells).edges, cell, size, ruler, upright)
    labels, length = ruler.labels(axis.tokens.texts, axis.start), len(axis.tokens)
    step, special = every(length, int(cells * cell / line)), set(axis.tokens.special)
    chosen = row_starts(axis.tokens, length * line / (cells * cell)) if step > 1 else None
    places = thinned_places(length, step, cells, chosen)
    return tuple(Mark(place * cell, labels[i], i in special) for place, i in places)


def _position_marks(
    edges: NDArray[np.int64], cell: float, size: float, ruler: Ruler, upright: bool
) -> tuple[Mark, ...]:
    """Return round positions as labels, none of which extends into the next tile."""
    start, end, length = int(edges[0]), int(edges[-1]), (len(edges) - 1) * cell
    apart = _LINE if upright else ruler.width(f"{end - 1:,}", size) + BESIDE_LABEL
    if end - start <= _MOST_POSITIONS and upright:  # all, such as those of layers, rather than round ones
        apart = min(apart, max(length / (end - start), size * 1.05 / POINTS))
    step = every(end - start, min(int(length / apart + 1e-6), _MOST_POSITIONS))
    positions = np.array(range(-(-start // step) * step, end, step) or [start])
    places = (np.interp(positions + 0.5, edges, np.arange(len(edges))) * cell).tolist()
    marks = tuple(Mark(place, f"{position:,}") for place, position in zip(places, positions, strict=True))
    if upright:
        return marks
    beyond = [ruler.width(text, size) / 2 - min(place, length - place) for place, text, _ in marks]
    return tuple(mark for mark, more in zip(marks, beyond, strict=True) if more <= GAP / 2)
