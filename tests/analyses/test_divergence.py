"""The Jensen–Shannon divergence against torch.nn.functional.kl_div, scipy and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import rel_entr

from mhaviz.analyses import difference


def jensen_shannon(p, q):
    return difference.jensen_shannon(np.asarray(p, np.float64), np.asarray(q, np.float64))


ROWS = hnp.arrays(np.float64, (3, 4), elements=st.floats(0, 1, allow_subnormal=False)).map(
    lambda x: x / np.where(x.sum(-1, keepdims=True) > 0, x.sum(-1, keepdims=True), 1)
)


def test_against_torch():
    p, q = (torch.softmax(torch.randn(5, 7, generator=torch.Generator().manual_seed(s)), -1).double() for s in (0, 1))
    m = (p + q) / 2
    kl = [torch.nn.functional.kl_div(m.log(), x, reduction="none").sum(-1) for x in (p, q)]
    expected = (kl[0] + kl[1]) / 2 / math.log(2)
    np.testing.assert_allclose(jensen_shannon(p.numpy(), q.numpy()), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ([1, 0], [1, 0], 0),
        ([1, 0], [0, 1], 1),
        ([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], 1),
        # m = (3/4, 1/4): ½ log₂ 4/3 + ½ (½ log₂ 2/3 + ½ log₂ 2) = 3/2 − ¾ log₂ 3
        ([1, 0], [0.5, 0.5], 1.5 - 0.75 * math.log2(3)),
        ([0, 0], [0, 0], 0),
        ([0, 0], [1, 0], 1),
        ([0, 1], [0, 0], 1),
    ],
)
def test_by_hand(p, q, expected):
    assert jensen_shannon(p, q) == pytest.approx(expected, abs=1e-12)


@given(ROWS, ROWS)
def test_against_scipy(p, q):
    """Whose relative entropy is in nats; rows of zeros are no distributions to it. Its ``jensenshannon`` is the square
    root, and warns where rounding makes the number of equal rows less than 0.
    """
    for ours, a, b in zip(jensen_shannon(p, q), p, q, strict=True):
        if a.any() and b.any():
            m = (a + b) / 2
            expected = (rel_entr(a, m) + rel_entr(b, m)).sum() / 2 / math.log(2)
            assert ours == pytest.approx(expected, abs=1e-9)


@given(ROWS, ROWS)
def test_symmetric_and_from_0_to_1(p, q):
    divergence = jensen_shannon(p, q)
    assert divergence.shape == (3,)
    assert (jensen_shannon(q, p) == divergence).all()
    assert ((divergence >= 0) & (divergence <= 1)).all()
    assert (jensen_shannon(p, p) == 0).all()


def test_rows_broadcast():
    rows = np.eye(3)
    assert (jensen_shannon(rows[:, None], rows[None]) == 1 - np.eye(3)).all()
