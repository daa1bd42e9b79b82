"""A map made small enough for a picture, in which the strongest cells still show."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap
from mhaviz.records.axis import cell_edges, even_edges


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns), if that is fewer.

    Of weights it is the largest; scores have two signs. Hidden values, NaN, give way to any other.
    """
    return _strongest(values, lambda choose: _pool(choose, values, rows, columns))


def pool_map(attention_map: AttentionMap, rows: int, columns: int) -> AttentionMap:
    """The map in at most so many equally large cells, by its own rule; of single weights the largest stays.

    Of changes, which have two signs, the one farthest from 0.
    """
    m = attention_map
    if rows >= len(m.rows) and columns >= len(m.columns):
        return m
    cells = m.cells.pooled(rows, columns)
    q_cells, k_cells = even_edges(m.weights.shape[1], rows)[:-1], even_edges(m.weights.shape[2], columns)[:-1]
    queries = np.diff(m.rows.edges)[:, None]

    def pool(weights: NDArray[np.float32]) -> NDArray[np.float32]:
        if cells.quantity.reduction == "max":
            return _strongest(weights, lambda choose: _reduce(choose, weights, q_cells, k_cells))
        of_keys = np.add.reduceat(weights, k_cells, axis=-1)
        means = np.add.reduceat(of_keys * queries, q_cells, axis=-2) / np.add.reduceat(queries, q_cells)
        return np.asarray(means, np.float32)

    return replace(m, weights=np.stack([pool(weights) for weights in m.weights]), **cells._asdict())


def _strongest(values: NDArray[np.float32], pool: Callable[[np.ufunc], NDArray[np.float32]]) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, where ``pool`` makes one of each by its rule."""
    highest = pool(np.fmax)
    if not (values < 0).any():
        return highest
    lowest = pool(np.fmin)
    return np.where(-lowest > highest, lowest, highest)


def _reduce(
    choose: np.ufunc, values: NDArray[np.float32], q_cells: NDArray[np.intp], k_cells: NDArray[np.intp]
) -> NDArray[np.float32]:
    reduced: NDArray[np.float32] = choose.reduceat(choose.reduceat(values, q_cells, axis=-2), k_cells, axis=-1)
    return reduced


def _pool(choose: np.ufunc, values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    for axis, cells in ((-2, rows), (-1, columns)):
        if values.shape[axis] > cells:
            values = choose.reduceat(values, cell_edges(values.shape[axis], cells)[:-1], axis=axis)
    return values
