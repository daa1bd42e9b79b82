"""Outline of the cells that a mask does not hide; hidden cells are blank."""

import numpy as np
from numpy.typing import NDArray

Bar = tuple[float, float, float, float]
"""A line as a rectangle: x, y, width and height in inches."""


def outline(visible: NDArray[np.bool_], cell: tuple[float, float], line: float) -> list[Bar]:
    """Return the lines around visible cells, from the top left corner of all cells, (0, 0).

    They are drawn outside the visible cells, which may be as thin as a line.

    Args:
        visible: whether each cell is visible, (rows, columns).
        cell: width and height of a cell.
        line: thickness of a line.
    """
    width, height = cell
    padded = np.pad(visible, 1).astype(np.int8)
    bars: list[Bar] = []
    for row, first, end, side in _runs(np.diff(padded, axis=0)[:, 1:-1]):
        bars.append((first * width, row * height - line * (side > 0), (end - first) * width, line))
    for column, first, end, side in _runs(np.diff(padded, axis=1)[1:-1].T):
        bars.append((column * width - line * (side > 0), first * height, line, (end - first) * height))
    return bars


def _runs(steps: NDArray[np.int8]) -> list[tuple[int, int, int, int]]:
    """Return runs of equal numbers in each row, without zeros, as (row, first, end, number).

    1: visible cells begin here; -1: they have ended.
    """
    found: list[tuple[int, int, int, int]] = []
    for side in (1, -1):
        changes = np.diff(np.pad(steps == side, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        rows, firsts = np.nonzero(changes == 1)
        ends = np.nonzero(changes == -1)[1]
        found += zip(rows.tolist(), firsts.tolist(), ends.tolist(), [side] * len(rows), strict=True)
    return found
