"""A map made small enough for a picture, in which the strongest cells still show."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap, Cells
from mhaviz.records.cells import cell_edges, even_cells


def even_edges(length: int, most: int) -> NDArray[np.int64]:
    """Where each of at most so many cells begins, and where the last ends; they are those of ``even_cells``."""
    return cell_edges(length, even_cells(length, most))


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns), if that is fewer.

    Of weights it is the largest; scores have two signs. Hidden values, NaN, give way to any other.
    """
    return _strongest(values, lambda choose: _pool(choose, values, rows, columns))


def pool_map(attention_map: AttentionMap, rows: int, columns: int) -> AttentionMap:
    """The map in at most so many equally large cells, by its own rule; of single weights the largest stays.

    Of changes, which have two signs, the one farthest from 0.
    """
    m, cells = attention_map, pooled_cells(attention_map, rows, columns)
    if cells is m.edges:
        return m
    q_cells, k_cells = even_edges(m.weights.shape[1], rows)[:-1], even_edges(m.weights.shape[2], columns)[:-1]
    queries = np.diff(m.edges.query_edges)[:, None]

    def pool(weights: NDArray[np.float32]) -> NDArray[np.float32]:
        if cells.reduction == "max":
            return _strongest(weights, lambda choose: _reduce(choose, weights, q_cells, k_cells))
        of_keys = np.add.reduceat(weights, k_cells, axis=-1)
        means = np.add.reduceat(of_keys * queries, q_cells, axis=-2) / np.add.reduceat(queries, q_cells)
        return np.asarray(means, np.float32)

    return replace(m, weights=np.stack([pool(weights) for weights in m.weights]), cells=cells)


def _strongest(values: NDArray[np.float32], pool: Callable[[np.ufunc], NDArray[np.float32]]) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, where ``pool`` makes one of each by its rule."""
    highest = pool(np.fmax)
    if not (values < 0).any():
        return highest
    lowest = pool(np.fmin)
    return np.where(-lowest > highest, lowest, highest)


def pooled_cells(attention_map: AttentionMap, rows: int, columns: int) -> Cells:
    """Those of ``pool_map``: those of the map, or several of them in one."""
    cells = attention_map.edges
    n_rows, n_columns = attention_map.weights.shape[1:]
    if rows >= n_rows and columns >= n_columns:
        return cells
    return Cells(
        cells.query_edges[even_edges(n_rows, rows)],
        cells.key_edges[even_edges(n_columns, columns)],
        "max" if cells.are_tokens else cells.reduction,
    )


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
