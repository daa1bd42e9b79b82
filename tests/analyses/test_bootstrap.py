import math

import numpy as np
import pytest
from scipy.stats import bootstrap, chisquare, poisson

from mhaviz.analyses.bootstrap import add_numbers, interval, number_shapes, poisson_weights
from mhaviz.analyses.sums import Sums


def counted(values, numbers=None, start=0, texts_apart=1):
    """Sums of one head with one number, whose values are these; NaN: a sentence lacks it."""
    sums = Sums(number_shapes(1, 1))
    numbers = range(start, start + len(values)) if numbers is None else numbers
    has = np.isfinite(values)[:, None]
    add_numbers(sums, np.asarray(values)[:, None, None], has, poisson_weights(numbers, texts_apart))
    return sums


def test_weights_are_poisson_numbers():
    weights = poisson_weights(range(300))
    counts = np.bincount(weights.astype(int).ravel(), minlength=7)
    expected = poisson.pmf(np.arange(7), 1) * weights.size
    expected[-1] += poisson.sf(6, 1) * weights.size
    assert chisquare([*counts[:6], counts[6:].sum()], expected).pvalue > 0.001
    across = np.corrcoef(weights)[np.triu_indices(300, 1)]
    assert np.abs(across).max() < 0.2, "sentences are drawn independently of each other"


def test_weights_are_of_the_number_alone():
    whole = poisson_weights(range(20))
    np.testing.assert_array_equal(poisson_weights([7, 3]), whole[[7, 3]])
    np.testing.assert_array_equal(poisson_weights([9, 10, 11], texts_apart=5)[[0, 1]], whole[[1, 2]])


def test_the_first_weights_never_change():
    """They must be the same on every machine, or parts of one corpus do not belong together."""
    weights = poisson_weights([0, 10**6])[:, :12]
    assert weights.astype(int).tolist() == [[0, 0, 0, 1, 1, 0, 3, 4, 0, 0, 1, 0], [2, 1, 1, 1, 2, 0, 1, 1, 0, 0, 1, 2]]


@pytest.mark.parametrize("draw", ["normal", "exponential", "beta"])
def test_intervals_beside_scipy(draw):
    random = np.random.default_rng(1)
    values = {
        "normal": random.normal(2, 1, 120),
        "exponential": random.exponential(3, 120),
        "beta": random.beta(0.3, 2, 120),
    }[draw]
    low, high = interval(counted(values), 0)
    theirs = bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=0).confidence_interval
    width = theirs.high - theirs.low
    assert low[0] == pytest.approx(theirs.low, abs=0.08 * width)
    assert high[0] == pytest.approx(theirs.high, abs=0.08 * width)


def test_intervals_hold_the_mean_as_often_as_they_say():
    random = np.random.default_rng(2)
    ends = [interval(counted(random.normal(size=40), start=40 * i), 0) for i in range(300)]
    share = np.mean([low[0] <= 0 <= high[0] for low, high in ends])
    assert 0.9 < share < 0.98, "those of 40 sentences are a little narrow, as percentile intervals are"


def test_parts_add_up():
    values = np.random.default_rng(0).normal(size=30)
    values[::4] = np.nan
    whole, joined = counted(values), Sums(number_shapes(1, 1))
    for part in (counted(values[20:], start=20), counted(values[:20])):
        joined.join(part)
    np.testing.assert_array_equal(joined["drawn"], whole["drawn"])
    np.testing.assert_allclose(joined["drawn_sums"], whole["drawn_sums"], atol=1e-14)


def test_a_sentence_without_the_number_changes_nothing():
    values = [float(number) for number in range(31)]
    some = counted([values[0], *values[2:]], [0, *range(2, 31)])
    all_ = counted([values[0], math.nan, *values[2:]])
    np.testing.assert_array_equal(some["drawn_sums"], all_["drawn_sums"])
    np.testing.assert_array_equal(interval(some, 0), interval(all_, 0))
    some["count"] -= 1
    assert np.isnan(interval(some, 0)).all(), "of fewer than 30 it would be too narrow"


def test_no_number_no_interval():
    assert np.isnan(interval(counted([math.nan] * 30), 0)).all()
    one_text = counted([1.0] * 40, texts_apart=2)
    assert np.isnan(interval(one_text, 0, texts_apart=2)).all(), "they are 20 texts"
