"""Places along a side of a matrix: which tokens or cells have labels, where there is no room for all."""

from collections.abc import Sequence

import numpy as np

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.labels import every
from mhaviz.results.axis import cell_edges


def row_starts(tokens: Tokens, least: float) -> tuple[int, ...] | None:
    """Return the first token, and the patches at the beginnings of rows of an image, at least ``least`` tokens apart.

    None where the tokens are not patches.
    """
    if tokens.grid is None:
        return None
    rows, columns = tokens.grid
    step = every(rows, int(rows * columns / least))
    starts = [tokens.patches[row * columns] for row in range(0, rows, step)]
    return (0, *(start for start in starts if start >= least))


def middles(length: int, cells: int, chosen: Sequence[int]) -> list[float]:
    """Return the middle of the cell of each of the ``chosen`` of ``length`` tokens, in cells from the first."""
    cell_of = np.searchsorted(cell_edges(length, cells), np.asarray(chosen), side="right") - 1
    return [float(cell) + 0.5 for cell in cell_of]
