"""Sums for each key over a block of queries, beside those of numpy, one weight at a time."""

import numpy as np
import pytest
import torch

from mhaviz.analyses.key_sums import key_sums


@pytest.mark.parametrize("n_masks", [1, 3])
def test_sums_are_those_of_the_definition(n_masks):
    random = np.random.default_rng(0)
    sees = random.random((2, n_masks, 4, 5)) < 0.4
    A = np.where(sees, random.random((2, 3, 4, 5)), 0.0)
    expected = np.zeros((3, 2, 5))
    for b, i, j in np.ndindex(2, 4, 5):
        n_seen = sum(sees[b, :, i, other].any() for other in range(5))
        expected[:, b, j] += A[b, :, i, j].sum() * n_seen, A[b, :, i, j].sum(), sees[b, :, i, j].any()
    np.testing.assert_allclose(key_sums(torch.from_numpy(A), torch.from_numpy(sees)), expected)
