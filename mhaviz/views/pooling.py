"""A map made small enough for a picture, in which the strongest cells still show."""

import numpy as np
from numpy.typing import NDArray


def cell_edges(length: int, cells: int) -> NDArray[np.intp]:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells)."""
    return np.arange(cells + 1, dtype=np.intp) * length // cells


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns), if that is fewer.

    Of weights it is the largest; scores have two signs. Hidden values, NaN, give way to any other.
    """
    highest = _pool(np.fmax, values, rows, columns)
    if not (values < 0).any():
        return highest
    lowest = _pool(np.fmin, values, rows, columns)
    return np.where(-lowest > highest, lowest, highest)


def _pool(choose: np.ufunc, values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    for axis, cells in ((-2, rows), (-1, columns)):
        if values.shape[axis] > cells:
            values = choose.reduceat(values, cell_edges(values.shape[axis], cells)[:-1], axis=axis)
    return values
