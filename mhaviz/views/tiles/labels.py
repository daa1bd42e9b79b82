"""Labels along the sides of matrices, and numbers in their cells: how large they are, and which have room."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.labels import every
from mhaviz.results.axis import Axis
from mhaviz.views.measures import POINTS
from mhaviz.views.tiles.layout import GAP, Mark, Side
from mhaviz.views.tiles.places import row_starts

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

    def labels(self, tokens: Sequence[str], start: int = 0, counts: Sequence[int] = ()) -> tuple[str, ...]:
        """Return a label for each token, of which the first has the position ``start``.

        ``counts``: number of tokens of each span, where the tokens are spans.
        """


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


def lacks_labels(axis: Axis, side: Side) -> bool:
    """Return whether some tokens of a side are without labels that it has for others."""
    return has_labels(axis) and axis.tokens.grid is None and 0 < len(side.marks) < len(axis.tokens)


def marks_of(
    axes: tuple[Axis, Axis],
    sides: tuple[Side, Side],
    size: float,
    ruler: Ruler,
    strengths: NDArray[np.float32] | None = None,
) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
    """Return the labels of the rows and of the columns, as many as there is room for: tokens or round positions.

    Two sides of the same axis have the same labels.

    Args:
        axes: the tokens of both sides.
        sides: their cells.
        size: font size of the labels, in points.
        ruler: measures the labels.
        strengths: number of each column, (columns,), of which the largest have labels first; None: every so many have.
    """
    rows = _chosen(axes[0], sides[0], size, ruler, True)
    columns = _chosen(axes[1], sides[1], size, ruler, False, strengths)
    if axes[0].is_same(axes[1]):
        rows = columns = rows if len(rows) < len(columns) else columns
    columns = _naming_apart(columns, axes[1], sides[1], size)
    return (
        _marks(axes[0], sides[0], size, ruler, rows),
        _within(_marks(axes[1], sides[1], size, ruler, columns), axes[1], sides[1], size, ruler),
    )


def _chosen(
    axis: Axis, side: Side, size: float, ruler: Ruler, upright: bool, strengths: NDArray[np.float32] | None = None
) -> Sequence[int]:
    """Return which tokens of a side, or which positions, have labels."""
    line, length = size * 1.05 / POINTS, len(axis.tokens)
    if not has_labels(axis):
        return _round_positions(axis.pooled(side.cells).edges, side.length, size, ruler, upright)
    step = every(length, int(side.length / line))
    starts = row_starts(axis.tokens, length * line / side.length) if step > 1 else None
    if starts is not None:
        return starts
    if step == 1 or strengths is None or length > LABELS_UP_TO:
        return range(0, length, step)
    places = np.array(side.middles(range(length), length))
    chosen: list[int] = []
    for i in np.argsort(-strengths, kind="stable").tolist():
        if all(abs(places[i] - places[j]) >= line for j in chosen):
            chosen.append(i)
    return sorted(chosen)


def _round_positions(edges: NDArray[np.int64], length: float, size: float, ruler: Ruler, upright: bool) -> range:
    """Return the positions between ``edges`` that have labels on a side of ``length`` inches."""
    start, end = int(edges[0]), int(edges[-1])
    apart = _LINE if upright else ruler.width(f"{end - 1:,}", size) + BESIDE_LABEL
    if end - start <= _MOST_POSITIONS and upright:  # all, such as those of layers, rather than round ones
        apart = min(apart, max(length / (end - start), size * 1.05 / POINTS))
    step = every(end - start, min(int(length / apart + 1e-6), _MOST_POSITIONS))
    return range(-(-start // step) * step, end, step) or range(start, start + 1)


def _naming_apart(chosen: Sequence[int], axis: Axis, side: Side, size: float) -> Sequence[int]:
    """Return the chosen columns with all that stand apart, in the order of the page, and none too near to them."""
    if not side.apart:
        return chosen
    line, length = size * 1.05 / POINTS, len(axis.tokens)
    places = dict(zip(range(length), side.middles(range(length), length), strict=True))
    named = list[int]()
    for i in (*side.apart, *(i for i in chosen if i not in side.apart)):
        if not named or places[i] - places[named[-1]] >= line - 1e-6:
            named.append(i)
    return named


def _marks(axis: Axis, side: Side, size: float, ruler: Ruler, chosen: Sequence[int]) -> tuple[Mark, ...]:
    """Return the labels of the ``chosen`` tokens or positions."""
    if has_labels(axis):
        labels = ruler.labels(axis.tokens.texts, axis.start, axis.tokens.counts)
        places, special = side.middles(chosen, len(axis.tokens)), set(axis.tokens.special)
        return tuple(Mark(at, labels[i], i in special) for at, i in zip(places, chosen, strict=True))
    edges = axis.pooled(side.cells).edges
    if side.apart:
        return tuple(Mark(at, f"{i:,}") for at, i in zip(side.middles(chosen, len(axis.tokens)), chosen, strict=True))
    places = (np.interp(np.asarray(chosen) + 0.5, edges, np.arange(len(edges))) * side.cell).tolist()
    return tuple(Mark(place, f"{i:,}") for place, i in zip(places, chosen, strict=True))


def _within(marks: tuple[Mark, ...], axis: Axis, side: Side, size: float, ruler: Ruler) -> tuple[Mark, ...]:
    """Return the labels of the columns, without positions that would reach into the next tile."""
    if has_labels(axis):
        return marks
    beyond = [ruler.width(text, size) / 2 - min(place, side.length - place) for place, text, _ in marks]
    return tuple(mark for mark, more in zip(marks, beyond, strict=True) if more <= GAP / 2)
