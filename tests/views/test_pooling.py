import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.views.pooling import cell_edges, pool_strongest


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
