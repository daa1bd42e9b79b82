import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mhaviz.analyses.sums import Study, Sums

# Numbers of a size that weights and entropies have.
VALUES = hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(2), st.just(3)), elements=st.floats(-9, 9))


MEAN = {"mean": (2, 3), "count": (1, 3), "deviations": (2, 3)}


class Means(Study):
    def shapes(self, n_heads):
        return MEAN | {"mean": (n_heads, 3), "deviations": (n_heads, 3)}

    def read(self, *batch):
        raise NotImplementedError

    def result(self, source, too_long=0):
        return None


def of(values, cuts=(), has=None):
    """The sums of (n, 2, 3), added in batches that begin at these places."""
    sums = Sums(MEAN)
    edges = sorted({0, len(values), *(cut % len(values) for cut in cuts)})
    has = np.ones((len(values), 1, 3), bool) if has is None else has
    for start, end in itertools.pairwise(edges):
        sums.add_values(values[start:end], has[start:end])
    return sums


@given(values=VALUES, cuts=st.lists(st.integers(0, 29)), seed=st.integers(0, 99))
def test_against_numpy(values, cuts, seed):
    has = np.random.default_rng(seed).random((len(values), 1, 3)) < 0.7
    sums = of(np.where(has, values, np.nan), cuts, has)
    for place in range(3):
        there = values[has[:, 0, place], :, place]
        assert sums["count"][0, place] == len(there)
        mean = there.mean(axis=0) if len(there) else [np.nan] * 2
        spread = there.std(axis=0, ddof=1) if len(there) > 1 else [np.nan] * 2
        np.testing.assert_allclose(sums.mean()[:, place], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sums.spread[:, place], spread, rtol=1e-9, atol=1e-7)


@given(values=VALUES, cuts=st.lists(st.integers(0, 29)))
def test_parts_are_joined(values, cuts):
    whole, joined = of(values), Sums(MEAN)
    edges = sorted({0, len(values), *(cut % len(values) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        joined.join(of(values[start:end]))
    for name in MEAN:
        np.testing.assert_allclose(joined[name], whole[name], rtol=1e-12, atol=1e-12)


@given(values=VALUES)
def test_joined_to_nothing_no_bit_changes(values):
    study, joined = Means(), Means()
    study.sums["self", 0] = of(values, [3, 7])
    joined.join(study.arrays())
    for name, array in study.arrays().items():
        assert joined.arrays()[name].tobytes() == array.tobytes(), name


def test_a_spread_that_is_tiny_beside_the_mean():
    sums = Sums(dict.fromkeys(MEAN, (1,)))
    for number in range(1000):
        sums.add_values(np.array([[1e6 + number % 2]]), np.ones((1, 1), bool))
    assert sums.spread == pytest.approx(np.sqrt(1000 / 999) / 2, rel=1e-12)


def test_none():
    assert np.isnan(Sums(MEAN).mean()).all()
    assert np.isnan(Sums(MEAN).spread).all()
    with pytest.raises(ValueError, match=r"mean: expected numbers of shape \(2, 3\), got \(1, 3\)"):
        Sums(MEAN).join(Sums(MEAN | {"mean": (1, 3)}))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("mean", None, "there is no self.0.mean"),
        ("mean", np.ones((2, 3), np.float32), "mean: expected float64 of shape"),
        ("mean", np.full((2, 3), np.nan), "mean: expected numbers from -1e"),
        ("mean", np.array(1.0), "mean: expected float64 of shape"),
        ("count", np.full((1, 3), -1.0), "count: expected numbers from 0 to 1e"),
        ("count", np.ones((5, 3)), r"count: expected float64 of shape \(1, 3\), got float64 of \(5, 3\)"),
        ("deviations", np.ones((1, 3)), "deviations: expected float64 of shape"),
    ],
)
def test_arrays_of_anybody(name, array, message):
    arrays = {f"self.0.{own}": a for own, a in (of(np.ones((2, 2, 3))) | {name: array}).items() if a is not None}
    with pytest.raises(ValueError, match=message):
        Means().join(arrays)
