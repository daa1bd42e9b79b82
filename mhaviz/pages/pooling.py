"""Pooling of matrices and maps to the number of cells that a picture has room for."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import cell_edges


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Pool to the value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns).

    Sides that are short enough are not pooled. A cell is NaN only where all its values are.
    """
    if rows >= values.shape[-2] and columns >= values.shape[-1]:
        return values
    return _strongest(values, *_beginnings(values, rows, columns))


def pool_mass(weights: NDArray[np.float32], queries: NDArray[np.int64], rows: int, columns: int) -> NDArray[np.float32]:
    """Sum weights over the keys of each cell, and average the sums over its queries; sides as in ``pool_strongest``.

    ``queries``: number of queries of each row.
    """
    q_cells, k_cells = _beginnings(weights, rows, columns)
    queries = queries[:, None]
    of_keys = np.add.reduceat(weights, k_cells, axis=-1)
    means = np.add.reduceat(of_keys * queries, q_cells, axis=-2) / np.add.reduceat(queries, q_cells)
    return np.asarray(means, np.float32)


def pool_hidden(hidden: NDArray[np.bool_], rows: int, columns: int) -> NDArray[np.bool_]:
    """Return the cells of which all is hidden; sides as in ``pool_strongest``."""
    q_cells, k_cells = _beginnings(hidden, rows, columns)
    pooled: NDArray[np.bool_] = np.logical_and.reduceat(
        np.logical_and.reduceat(hidden, k_cells, axis=1), q_cells, axis=0
    )
    return pooled


def pool_map(attention_map: AttentionMap, rows: int, columns: int) -> AttentionMap:
    """Return a map pooled to at most ``rows`` × ``columns`` cells of about equal size.

    A map of all tokens is pooled to the number farthest from 0 in each cell, one that is pooled already by its own
    reduction.
    """
    m = attention_map
    if rows >= len(m.rows) and columns >= len(m.columns):
        return m
    cells = m.cells.pooled(rows, columns)
    size = len(cells.rows), len(cells.columns)
    queries = np.diff(m.rows.edges)
    pooled = [pool_mass(one, queries, *size) if m.are_sums else pool_strongest(one, *size) for one in m.weights]
    return replace(m, weights=np.stack(pooled), **cells._asdict())


def _beginnings(values: NDArray[Any], rows: int, columns: int) -> list[NDArray[np.int64]]:
    """Return the first row and the first column of each cell of values, (…, q_length, k_length)."""
    sides = zip(values.shape[-2:], (rows, columns), strict=True)
    return [cell_edges(length, min(length, most))[:-1] for length, most in sides]


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
