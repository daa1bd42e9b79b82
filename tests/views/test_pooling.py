import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import Edges, made_map
from rounding import rounding

from mhaviz.pages.pooling import pool_map, pool_strongest
from mhaviz.results.axis import cell_edges, even_cells, even_edges

CLOSE = rounding()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 45), st.integers(1, 45), st.integers(0, 1000))
def test_each_cell_is_its_largest_weight(q_length, k_length, rows, columns, seed):
    weights = np.random.default_rng(seed).random((2, q_length, k_length), dtype=np.float32)
    pooled = pool_strongest(weights, rows, columns)
    rows, columns = min(rows, q_length), min(columns, k_length)
    assert pooled.shape == (2, rows, columns)
    for i in range(rows):
        for j in range(columns):
            q0, q1 = i * q_length // rows, (i + 1) * q_length // rows
            k0, k1 = j * k_length // columns, (j + 1) * k_length // columns
            assert (pooled[:, i, j] == weights[:, q0:q1, k0:k1].max(axis=(1, 2))).all()


def test_edges():
    assert cell_edges(10, 4).tolist() == [0, 2, 5, 7, 10]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_scores_keep_their_sign_and_hidden_ones_give_way(q_length, k_length, rows, columns, seed):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(1, q_length, k_length)).astype(np.float32)
    scores[random.random(scores.shape) < 0.3] = np.nan
    pooled = pool_strongest(scores, rows, columns)[0]
    for i in range(pooled.shape[0]):
        for j in range(pooled.shape[1]):
            q0, q1 = i * q_length // pooled.shape[0], (i + 1) * q_length // pooled.shape[0]
            k0, k1 = j * k_length // pooled.shape[1], (j + 1) * k_length // pooled.shape[1]
            cell = scores[0, q0:q1, k0:k1].ravel()
            cell = cell[~np.isnan(cell)]
            if len(cell):
                assert abs(pooled[i, j]) == np.abs(cell).max()
                assert pooled[i, j] in cell
            else:
                assert np.isnan(pooled[i, j])


@pytest.mark.parametrize("reduction", ["mass", "max"])
def test_a_map_is_pooled_by_its_own_rule(reduction):
    """Cells of one and two queries, two and three keys, by hand."""
    cells = Edges(np.array([10, 11, 13, 14]), np.array([0, 2, 5, 7]), reduction)
    assert (even_cells(3, 2), even_edges(3, 2).tolist()) == (2, [0, 1, 3])
    weights = np.array([[[0.5, 0.25, 0.25], [0.125, 0.5, 0.375], [1, 0, 0]]], np.float32)
    pooled = pool_map(made_map(("q",) * 4, ("k",) * 7, weights, cells=cells), 2, 2)
    assert pooled.rows.edges.tolist() == [10, 11, 14]
    assert pooled.columns.edges.tolist() == [0, 2, 7]
    assert pooled.quantity.reduction == reduction
    expected = {"mass": [[0.5, 0.5], [(2 * 0.125 + 1) / 3, (2 * 0.875 + 0) / 3]], "max": [[0.5, 0.25], [1, 0.5]]}
    assert np.allclose(pooled.weights[0], expected[reduction], rtol=CLOSE)


@pytest.mark.parametrize(
    ("length", "most", "cells"),
    [(3077, 64, 64), (100_000, 512, 512), (600, 512, 300), (513, 512, 257), (512, 64, 64), (5, 9, 5), (3, 2, 2)],
)
def test_as_many_cells_as_asked_for_where_one_token_more_is_not_seen(length, most, cells):
    assert even_cells(length, most) == cells


@given(st.integers(1, 20_000), st.integers(1, 600))
def test_cells_are_as_good_as_equally_wide(length, most):
    """They differ by little, or but for a few they are all as wide as the widest."""
    cells = even_cells(length, most)
    widths = np.diff(cell_edges(length, cells))
    assert 1 <= cells <= max(most, 1)
    assert widths.max() <= 1.04 * widths.min() or (widths < widths.max()).sum() < widths.max()


def test_of_single_weights_the_largest_stays():
    tokens = ("a", "b", "c")
    m = made_map(tokens, tokens, np.array([np.eye(3)], np.float32), cells=Edges(np.arange(4), np.arange(4)))
    pooled = pool_map(m, 1, 3)
    assert pooled.weights.tolist() == [[[1, 1, 1]]]
    assert pooled.quantity.reduction == "max"


def test_a_map_that_fits_stays_as_it_is():
    m = made_map(("a",) * 4, ("b",) * 4, np.ones((1, 2, 2), np.float32), cells=Edges(*[np.array([0, 2, 4])] * 2))
    assert pool_map(m, 2, 9).weights.tolist() == m.weights.tolist()
    assert pool_map(m, 2, 9).columns.edges.tolist() == [0, 2, 4]
