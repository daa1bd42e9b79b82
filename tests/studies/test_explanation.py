"""One query taken apart: its parts put together again by torch."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from mhaviz.errors import ArgumentError
from mhaviz.records import HeadInputs, LayerInputs, Source
from mhaviz.sources.random_layer import RandomLayer
from mhaviz.studies.explanation import explain

SENTENCE = "I am going to deposit my money at the bank"


@pytest.mark.parametrize(
    ("causal", "target", "position"), [(False, None, 4), (True, None, 4), (True, None, 0), (False, "le chat noir", 2)]
)
def test_against_torch(causal, target, position):
    layer = RandomLayer(64, 4, device="cpu", causal=causal)
    inputs = layer.head_inputs([SENTENCE], target)
    (head,) = inputs.inputs
    e = explain(inputs, position, 2)
    q, k, v = (torch.from_numpy(x[2]) for x in (head.query, head.key, head.value))
    visible = torch.from_numpy(head.visible)
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)[position]
    np.testing.assert_allclose(e.output, output, atol=1e-5)
    np.testing.assert_allclose(e.weights, layer.attend([SENTENCE], target).maps[0].weights[2, position], atol=1e-6)
    np.testing.assert_allclose(e.similarities, k @ q[position], atol=1e-4)
    assert np.array_equal(e.visible, head.visible[position])
    assert np.array_equal(np.isnan(e.scores), ~e.visible)


def test_the_parts_sum_to_the_whole():
    e = explain(RandomLayer(64, 4, device="cpu").head_inputs([SENTENCE]), 4, 1)
    np.testing.assert_allclose(e.products.sum(-1), e.similarities, atol=1e-5)
    np.testing.assert_allclose(e.scores, e.similarities / math.sqrt(16), rtol=1e-6)
    np.testing.assert_allclose(e.contributions.sum(0), e.output, atol=1e-6)
    np.testing.assert_allclose(e.sizes, np.sqrt((e.contributions.astype(np.float64) ** 2).sum(-1)), rtol=1e-5)
    assert e.shares.sum() == pytest.approx(1)
    assert (e.token, e.d_key) == ("deposit", 16)


@pytest.fixture
def by_hand():
    """q = (2, 0, 1, 0); k of a and b; √4 = 2, so that the scores are ln 3 and 0, the weights ¾ and ¼."""
    query = np.array([[[2, 0, 1, 0]]], np.float32)
    key = np.array([[[math.log(3) + 1, 5, -2, 0], [1, 5, -2, 0]]], np.float32)
    value = np.array([[[0, 4, 0, 3], [4, 0, 0, 0]]], np.float32)
    visible = np.ones((1, 2), bool)
    return LayerInputs(Source("test"), (HeadInputs(("q",), ("a", "b"), query, key, value, visible, "cross"),))


def test_by_hand(by_hand):
    e = explain(by_hand, 0, 0)
    np.testing.assert_allclose(e.products[1], [2, 0, -2, 0])
    np.testing.assert_allclose(e.weights, [0.75, 0.25], rtol=1e-6)
    np.testing.assert_allclose(e.contributions, [[0, 3, 0, 2.25], [1, 0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(e.sizes, [3.75, 1], rtol=1e-6)
    np.testing.assert_allclose(e.shares, [3.75 / 4.75, 1 / 4.75], rtol=1e-6)
    assert e.strongest_features(0, 2) == [0, 2]
    assert e.heaviest(1) == [0]


def test_a_query_that_sees_nothing(by_hand):
    (head,) = by_hand.inputs
    blind = dataclasses.replace(by_hand, inputs=(dataclasses.replace(head, visible=np.zeros((1, 2), bool)),))
    e = explain(blind, 0, 0)
    for zeros in (e.weights, e.contributions, e.sizes, e.shares, e.output):
        assert (zeros == 0).all()


@pytest.mark.parametrize(
    ("position", "head", "sentence", "message"),
    [
        (1, 0, 0, "a position from 0 to 0, got 1"),
        (-1, 0, 0, "a position from 0 to 0, got -1"),
        (0, 1, 0, "a head from 0 to 0, got 1"),
        (0, 0, 1, "a sentence from 0 to 0, got 1"),
    ],
)
def test_what_is_not_there(by_hand, position, head, sentence, message):
    with pytest.raises(ArgumentError, match=message):
        explain(by_hand, position, head, sentence)
