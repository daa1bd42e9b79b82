import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mhaviz.analyses.moments import Moments

# Numbers of a size that weights and entropies have.
VALUES = hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(2), st.just(3)), elements=st.floats(-9, 9))


def of(values, cuts=(), has=None):
    """The moments of (n, 2, 3), added in batches that begin at these places."""
    moments = Moments.none((2, 3), (1, 3))
    edges = sorted({0, len(values), *(cut % len(values) for cut in cuts)})
    has = np.ones((len(values), 1, 3), bool) if has is None else has
    for start, end in itertools.pairwise(edges):
        moments.add(values[start:end], has[start:end])
    return moments


@given(values=VALUES, cuts=st.lists(st.integers(0, 29)), seed=st.integers(0, 99))
def test_against_numpy(values, cuts, seed):
    has = np.random.default_rng(seed).random((len(values), 1, 3)) < 0.7
    moments = of(np.where(has, values, np.nan), cuts, has)
    for place in range(3):
        there = values[has[:, 0, place], :, place]
        assert moments.count[0, place] == len(there)
        mean = there.mean(axis=0) if len(there) else [np.nan] * 2
        spread = there.std(axis=0, ddof=1) if len(there) > 1 else [np.nan] * 2
        np.testing.assert_allclose(moments.known_mean[:, place], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.spread[:, place], spread, rtol=1e-9, atol=1e-7)


@given(values=VALUES, cuts=st.lists(st.integers(0, 29)))
def test_parts_are_joined(values, cuts):
    whole, joined = of(values), Moments.none((2, 3), (1, 3))
    edges = sorted({0, len(values), *(cut % len(values) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        joined.join(of(values[start:end]))
    np.testing.assert_array_equal(joined.count, whole.count)
    np.testing.assert_allclose(joined.mean, whole.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(joined.deviations, whole.deviations, rtol=1e-12, atol=1e-12)


@given(values=VALUES)
def test_joined_to_nothing_no_bit_changes(values):
    moments, joined = of(values, [3, 7]), Moments.none((2, 3), (1, 3))
    joined.join(Moments.of_arrays(moments.arrays("a."), "a."))
    for name, array in moments.arrays("").items():
        assert joined.arrays("")[name].tobytes() == array.tobytes(), name


def test_a_spread_that_is_tiny_beside_the_mean():
    moments = Moments.none(())
    for number in range(1000):
        moments.add(np.array([1e6 + number % 2]))
    assert moments.spread == pytest.approx(np.sqrt(1000 / 999) / 2, rel=1e-12)


def test_none():
    assert np.isnan(Moments.none((2,)).known_mean).all()
    assert np.isnan(Moments.none((2,)).spread).all()
    with pytest.raises(ValueError, match=r"expected numbers of shape \(2,\), got \(3,\)"):
        Moments.none((2,)).join(Moments.none((3,)))


GOOD = of(np.ones((2, 2, 3))).arrays("")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": None}, "there is no mean"),
        ({"mean": np.ones((2, 3), np.float32)}, "mean: expected float64, got float32"),
        ({"mean": np.full((2, 3), np.nan)}, "expected numbers, got NaN or infinity"),
        ({"count": np.full((1, 3), -1)}, "expected none below 0"),
        ({"deviations": np.full((2, 3), -1.0)}, "expected none below 0"),
        ({"count": np.ones((5, 3), np.int64)}, r"shapes that go together, got \(5, 3\), \(2, 3\), \(2, 3\)"),
        ({"deviations": np.ones((1, 3))}, "shapes that go together"),
    ],
)
def test_arrays_of_anybody(changes, message):
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    with pytest.raises(ValueError, match=message):
        Moments.of_arrays(arrays, "")
