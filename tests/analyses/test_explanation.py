"""One query taken apart: its parts put together again by torch."""

import math

import numpy as np
import pytest
import torch
from looking import attend, calls, encoded, given_model
from rounding import rounding

from mhaviz.analyses.explanation import explain
from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import RandomLayer

CLOSE = rounding()

SENTENCE = "I am going to deposit my money at the bank"


@pytest.mark.parametrize(
    ("causal", "target", "position"), [(False, None, 4), (True, None, 4), (True, None, 0), (False, "le chat noir", 2)]
)
def test_against_torch(causal, target, position):
    layer = RandomLayer(64, 4, device_name="cpu", causal=causal)
    e = explain(*encoded(layer, [SENTENCE], target), position, 2)
    (seen,) = calls(layer, [SENTENCE], target)
    q, k, v = (x[0, 2] for x in (seen.call.query, seen.call.key, seen.call.value))
    visible = torch.ones(len(q), len(k), dtype=torch.bool)
    visible = visible.tril() if causal else visible
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)[position]
    np.testing.assert_allclose(e.output, output, atol=CLOSE)
    np.testing.assert_allclose(e.weights, attend(layer, [SENTENCE], target).maps[0].weights[2, position], atol=CLOSE)
    np.testing.assert_allclose(e.similarities, k @ q[position], atol=1e-4)
    assert e.visible.tolist() == visible[position].tolist()
    assert np.array_equal(np.isnan(e.scores), ~e.visible)


def test_the_parts_sum_to_the_whole():
    e = explain(*encoded(RandomLayer(64, 4, device_name="cpu"), [SENTENCE]), 4, 1)
    np.testing.assert_allclose(e.products.sum(-1), e.similarities, atol=CLOSE)
    np.testing.assert_allclose(e.scores, e.similarities / math.sqrt(16), rtol=CLOSE)
    np.testing.assert_allclose(e.contributions.sum(0), e.output, atol=CLOSE)
    np.testing.assert_allclose(e.sizes, np.sqrt((e.contributions.astype(np.float64) ** 2).sum(-1)), rtol=CLOSE)
    assert e.shares.sum() == pytest.approx(1)
    assert (e.token, e.d_key) == ("deposit", 16)


@pytest.fixture
def by_hand():
    """q = (2, 0, 1, 0); k of a and b; √4 = 2, so that the scores are ln 3 and 0, the weights ¾ and ¼."""
    query = np.array([[[2, 0, 1, 0]]], np.float32)
    key = np.array([[[math.log(3) + 1, 5, -2, 0], [1, 5, -2, 0]]], np.float32)
    value = np.array([[[0, 4, 0, 3], [4, 0, 0, 0]]], np.float32)
    return query, key, value


def test_by_hand(by_hand):
    e = explain(*encoded(given_model(*by_hand, kind="cross"), []), 0, 0)
    np.testing.assert_allclose(e.products[1], [2, 0, -2, 0])
    np.testing.assert_allclose(e.weights, [0.75, 0.25], rtol=CLOSE)
    np.testing.assert_allclose(e.contributions, [[0, 3, 0, 2.25], [1, 0, 0, 0]], rtol=CLOSE)
    np.testing.assert_allclose(e.sizes, [3.75, 1], rtol=CLOSE)
    np.testing.assert_allclose(e.shares, [3.75 / 4.75, 1 / 4.75], rtol=CLOSE)
    assert e.strongest_features(0) == [0, 2, 1]
    assert e.heaviest(1) == [0]


def test_a_query_that_sees_nothing(by_hand):
    blind = given_model(*by_hand, kind="cross", mask=torch.zeros(1, 1, 1, 2, dtype=torch.bool))
    e = explain(*encoded(blind, []), 0, 0)
    for zeros in (e.weights, e.contributions, e.sizes, e.shares, e.output):
        assert (zeros == 0).all()


@pytest.mark.parametrize(
    ("position", "head", "message"),
    [
        (1, 0, "a position from 0 to 0, got 1"),
        (-1, 0, "a position from 0 to 0, got -1"),
        (0, 1, "a head from 0 to 0, got 1"),
        (0, -1, "a head from 0 to 0, got -1"),
    ],
)
def test_what_is_not_there(by_hand, position, head, message):
    with pytest.raises(ArgumentError, match=message):
        explain(*encoded(given_model(*by_hand, kind="cross"), []), position, head)
