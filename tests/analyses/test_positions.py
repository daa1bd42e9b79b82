"""The sinusoids without a text, against their formula in float64."""

import math

import numpy as np
import pytest
from rounding import rounding

import mhaviz
from mhaviz.errors import ArgumentError, MhavizError

CLOSE = rounding()


@pytest.mark.parametrize(("length", "d_model"), [(1, 1), (1, 2), (7, 5), (50, 128), (300, 64)])
def test_the_formula_of_the_paper(length, d_model):
    table = mhaviz.sinusoids(length, d_model)
    expected = [
        [(math.cos if k % 2 else math.sin)(p / 10000 ** (k // 2 * 2 / d_model)) for k in range(d_model)]
        for p in range(length)
    ]
    assert table.values.dtype == np.float32
    np.testing.assert_allclose(table.values, expected, atol=6e-8)


def test_how_alike_two_positions_are_depends_on_their_distance():
    """sin p sin q + cos p cos q = cos(p − q): so is the mean over the frequencies."""
    table = mhaviz.sinusoids(60, 32)
    distance = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    expected = np.mean([np.cos(distance / 10000 ** (2 * i / 32)) for i in range(16)], axis=0)
    np.testing.assert_allclose(table.cosines, expected, atol=CLOSE)
    np.testing.assert_allclose(table.values @ table.values.T * 2 / 32, table.cosines, atol=CLOSE)


def test_a_row_of_zeros_has_no_direction():
    assert np.isnan(mhaviz.sinusoids(2, 1).cosines).tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 4), ArgumentError, "`length`: expected at least 1, got 0"),
        ((4, -1), ArgumentError, "`d_model`: expected at least 1, got -1"),
        ((4097, 4), ArgumentError, "at most 4,096 positions, as every two of them are compared, got 4,097"),
        ((4, 10**12), MhavizError, "the table needs about"),
    ],
)
def test_sizes_that_cannot_be(sizes, error, message):
    with pytest.raises(error, match=message):
        mhaviz.sinusoids(*sizes)
