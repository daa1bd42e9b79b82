"""A map made small enough for a picture, in which the strongest weights still show."""

import numpy as np
from numpy.typing import NDArray


def cell_edges(length: int, cells: int) -> NDArray[np.intp]:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells)."""
    return np.arange(cells + 1, dtype=np.intp) * length // cells


def pool_largest(weights: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """The largest weight of each cell: (…, q_length, k_length) → (…, rows, columns), or as it is if that is no more."""
    for axis, cells in ((-2, rows), (-1, columns)):
        if weights.shape[axis] > cells:
            weights = np.maximum.reduceat(weights, cell_edges(weights.shape[axis], cells)[:-1], axis=axis)
    return weights
