"""Pooling of matrices and maps to the number of cells that a picture has room for."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import cell_edges, even_edges


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Pool to the value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns).

    Sides that are short enough are not pooled. A cell is NaN only where all its values are.
    """
    lengths = values.shape[-2:]
    if rows >= lengths[0] and columns >= lengths[1]:
        return values
    cells = (cell_edges(length, min(length, most))[:-1] for length, most in zip(lengths, (rows, columns), strict=True))
    return _strongest(values, *cells)


def pool_map(attention_map: AttentionMap, rows: int, columns: int) -> AttentionMap:
    """Return a map pooled to at most ``rows`` × ``columns`` cells of about equal size.

    A map of all tokens is pooled to the number farthest from 0 in each cell, one that is pooled already by its own
    reduction.
    """
    m = attention_map
    if rows >= len(m.rows) and columns >= len(m.columns):
        return m
    cells = m.cells.pooled(rows, columns)
    q_cells, k_cells = even_edges(len(m.rows), rows)[:-1], even_edges(len(m.columns), columns)[:-1]
    queries = np.diff(m.rows.edges)

    def pool(weights: NDArray[np.float32]) -> NDArray[np.float32]:
        if cells.quantity.reduction == "max":
            return _strongest(weights, q_cells, k_cells)
        return pool_mass(weights, queries, q_cells, k_cells)

    weights = np.stack([pool(weights) for weights in m.weights])
    return replace(m, weights=weights, **cells._asdict())


def pool_mass(
    weights: NDArray[np.float32], queries: NDArray[np.int64], q_cells: NDArray[np.int64], k_cells: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Sum weights over the keys of each cell, and average the sums over its queries.

    Args:
        weights: (…, rows, columns).
        queries: number of queries of each row, (rows,).
        q_cells, k_cells: first row and first column of each cell.
    """
    queries = queries[:, None]
    of_keys = np.add.reduceat(weights, k_cells, axis=-1)
    means = np.add.reduceat(of_keys * queries, q_cells, axis=-2) / np.add.reduceat(queries, q_cells)
    return np.asarray(means, np.float32)


def _strongest(
    values: NDArray[np.float32], q_cells: NDArray[np.int64], k_cells: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the value farthest from 0 in each of the cells that begin at these rows and columns."""

    def pool(choose: np.ufunc) -> NDArray[np.float32]:
        pooled = values
        for axis, cells in ((-2, q_cells), (-1, k_cells)):
            if len(cells) < values.shape[axis]:
                pooled = choose.reduceat(pooled, cells, axis=axis)
        return pooled

    highest = pool(np.fmax)
    if not (values < 0).any():
        return highest
    lowest = pool(np.fmin)
    return np.where(-lowest > highest, lowest, highest)
