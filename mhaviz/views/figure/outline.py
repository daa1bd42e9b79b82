"""The outline of what a query may see: what is hidden is blank paper, and no number."""

import numpy as np
from numpy.typing import NDArray

Bar = tuple[float, float, float, float]
"""x, y, width, height of a line, which is so thick, in inches."""


def outline(visible: NDArray[np.bool_], cell: tuple[float, float], line: float) -> list[Bar]:
    """The lines around visible cells, each as long as it goes straight on; (0, 0) is the top left corner of all cells.

    They cover nothing that is visible, where a cell may be as thin as a line.

    Args:
        visible: (rows, columns).
        cell: width and height of one.
        line: how thick a line is.
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
    """Equal numbers beside each other in a row, zeros left out: (row, first, end, the number).

    1: what is visible begins here; -1: it has ended.
    """
    found: list[tuple[int, int, int, int]] = []
    for side in (1, -1):
        changes = np.diff(np.pad(steps == side, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        rows, firsts = np.nonzero(changes == 1)
        ends = np.nonzero(changes == -1)[1]
        found += zip(rows.tolist(), firsts.tolist(), ends.tolist(), [side] * len(rows), strict=True)
    return found
