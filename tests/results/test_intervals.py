"""Intervals and probabilities beside those of SciPy."""

import pytest
from scipy import stats

from mhaviz.results.intervals import at_least, student, wilson


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 19, 28, 29, 1000, 1001])
def test_student(freedom):
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


@pytest.mark.parametrize(("count", "n"), [(0, 1), (1, 1), (0, 20), (14, 20), (20, 20), (500, 1000)])
def test_wilson(count, n):
    expected = stats.binomtest(count, n).proportion_ci(method="wilson")
    assert wilson(count / n, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("count", "n", "chance"),
    [(0, 0, 0.5), (0, 3, 0.0), (2, 2, 0.0), (5, 10, 1.0), (13, 20, 0.1), (20, 20, 0.9), (600, 5000, 0.1)],
)
def test_at_least(count, n, chance):
    expected = stats.binom.sf(count - 1, n, chance) if n else 1.0
    assert at_least(count, n, chance) == pytest.approx(expected, rel=1e-9)
