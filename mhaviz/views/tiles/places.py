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


def thinned_places(length: int, step: int, cells: int, chosen: Sequence[int] | None = None) -> list[tuple[float, int]]:
    """Return (middle of the cell, in cells; index) of every ``step``-th token, or of the ``chosen`` ones."""
    edges, numbers = cell_edges(length, cells), range(0, length, step) if chosen is None else chosen
    cell_of = np.searchsorted(edges, np.asarray(numbers), side="right") - 1
    return [(float(cell) + 0.5, i) for cell, i in zip(cell_of, numbers, strict=True)]
