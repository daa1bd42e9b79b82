"""A map made small enough for a picture, in which the strongest cells still show."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap, Cells


def cell_edges(length: int, cells: int) -> NDArray[np.intp]:
    """Where each of ``cells`` cells begins, and where the last one ends: floor(i · length / cells)."""
    return np.arange(cells + 1, dtype=np.intp) * length // cells


def even_count(length: int, most: int) -> int:
    """The largest number of cells, at most ``most``, that are as good as equally wide.

    In a map by mass, columns that are not are stripes: more keys have more weight. As many cells as are needed when
    each is as wide as the widest must be: then few are narrower, by one.
    """
    return -(-length // -(-length // max(most, 1)))


def even_edges(length: int, most: int) -> NDArray[np.intp]:
    """Where each of these cells begins, and where the last ends."""
    return cell_edges(length, even_count(length, most))


def pool_strongest(values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """The value farthest from 0 in each cell, (…, q_length, k_length) → (…, rows, columns), if that is fewer.

    Of weights it is the largest; scores have two signs. Hidden values, NaN, give way to any other.
    """
    highest = _pool(np.fmax, values, rows, columns)
    if not (values < 0).any():
        return highest
    lowest = _pool(np.fmin, values, rows, columns)
    return np.where(-lowest > highest, lowest, highest)


def pool_mass(weights: NDArray[np.float32], heights: NDArray[np.int64], rows: int, columns: int) -> NDArray[np.float32]:
    """The mean over the queries of each cell of the weight that goes to its keys, if that is fewer cells.

    weights (…, rows of cells, columns of cells), heights: how many queries each row stands for; rows, columns: see
    ``even_edges``. A cell of which all is hidden, NaN, stays so.
    """
    shown: NDArray[Any] = np.nan_to_num(weights)
    hidden = np.isnan(weights)
    if weights.shape[-1] > columns:
        edges = even_edges(weights.shape[-1], columns)[:-1]
        shown = np.add.reduceat(shown, edges, axis=-1)
        hidden = np.logical_and.reduceat(hidden, edges, axis=-1)
    if weights.shape[-2] > rows:
        edges = even_edges(weights.shape[-2], rows)[:-1]
        queries = np.add.reduceat(heights, edges)
        shown = np.add.reduceat(shown * heights[:, None], edges, axis=-2) / queries[:, None]
        hidden = np.logical_and.reduceat(hidden, edges, axis=-2)
    return np.where(hidden, np.float32(np.nan), shown).astype(np.float32)


def pool_map(attention_map: AttentionMap, rows: int, columns: int) -> AttentionMap:
    """The map in at most so many equally large cells, by its own rule; of single weights the largest stays."""
    weights, cells = attention_map.weights, attention_map.edges
    q_cells, k_cells = even_edges(weights.shape[1], rows), even_edges(weights.shape[2], columns)
    if cells.reduction == "mass" and not cells.are_tokens:
        pooled = pool_mass(weights, np.diff(cells.query_edges), rows, columns)
    else:
        pooled = np.maximum.reduceat(weights, q_cells[:-1], axis=-2)
        pooled, cells = np.maximum.reduceat(pooled, k_cells[:-1], axis=-1), replace(cells, reduction="max")
    edges = Cells(cells.query_edges[q_cells], cells.key_edges[k_cells], cells.reduction)
    return replace(attention_map, weights=pooled, cells=edges)


def _pool(choose: np.ufunc, values: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    for axis, cells in ((-2, rows), (-1, columns)):
        if values.shape[axis] > cells:
            values = choose.reduceat(values, cell_edges(values.shape[axis], cells)[:-1], axis=axis)
    return values
