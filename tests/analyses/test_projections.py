"""Four stages of a head against F.scaled_dot_product_attention, and its heads against the layer."""

import dataclasses

import numpy as np
import pytest
import torch
from looking import attend
from rounding import rounding
from torch.nn.functional import kl_div, scaled_dot_product_attention

from mhaviz.analyses.projections import compare_projections
from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import RandomLayer

CLOSE = rounding()

SENTENCE = "I am going to deposit my money at the bank"


@pytest.fixture(scope="module")
def inputs():
    return RandomLayer(64, 4, device_name="cpu").projection_inputs(SENTENCE)


def operands(inputs):
    """(query, key, value) of each stage."""
    X, Q, K, V = (torch.from_numpy(x).double() for x in (inputs.embedded, inputs.query, inputs.key, inputs.value))
    return ((X, X, X), (Q, Q, X), (Q, K, X), (Q, K, V))


@pytest.mark.parametrize("include_self", [False, True])
def test_outputs_against_torch(inputs, include_self):
    mask = None if include_self else ~torch.eye(10, dtype=torch.bool)
    c = compare_projections(inputs, include_self)
    identity = torch.eye(10, dtype=torch.float64)
    for stage, (query, key, value) in zip(c.stages, operands(inputs), strict=True):
        output = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        weights = scaled_dot_product_attention(query, key, identity, attn_mask=mask)
        np.testing.assert_allclose(stage.outputs, output, atol=CLOSE)
        np.testing.assert_allclose(stage.weights, weights, atol=CLOSE)


@pytest.mark.parametrize("include_self", [False, True])
def test_symmetry_breaks_with_the_second_projection_and_averages_with_the_third(inputs, include_self):
    stages = compare_projections(inputs, include_self).stages
    assert [stage.asymmetry > 1e-12 for stage in stages] == [False, False, True, True]
    assert [stage.departure > 1e-12 for stage in stages] == [False, False, False, True]


def test_the_numbers_by_hand():
    inputs = RandomLayer(2, 1, device_name="cpu").projection_inputs("one two")
    one = np.array([[1, 0], [0, 1]], np.float32)
    turned = np.array([[0, 1], [-1, 0]], np.float32)
    c = compare_projections(dataclasses.replace(inputs, embedded=one, query=one, key=turned, value=3 * one), True)
    third = c.stages[2]
    # S = [[0, −1], [1, 0]] / √2, so S − Sᵀ = 2 S
    np.testing.assert_allclose(third.scores, np.array([[0, -1], [1, 0]]) / np.sqrt(2), rtol=CLOSE)
    assert third.asymmetry == pytest.approx(2)
    assert c.stages[3].departure == pytest.approx(2)  # ‖3 A X − A X‖ / ‖A X‖
    a = 1 / (1 + np.exp(-1 / np.sqrt(2)))
    assert third.self_weight == pytest.approx((a + 1 - a) / 2)
    assert c.stages[0].self_weight == pytest.approx(a)
    assert set(c.pair) == {0, 1}


def test_swapped_tokens_give_transposed_scores():
    """ "I deposit" and "deposit I": with the vectors of the two swapped, shared projections see no difference."""
    inputs = RandomLayer(64, 4, device_name="cpu").projection_inputs("I deposit money")
    order = [1, 0, 2]
    swapped = dataclasses.replace(
        inputs, **{name: getattr(inputs, name)[order] for name in ("embedded", "query", "key", "value")}
    )
    before, after = compare_projections(inputs).stages, compare_projections(swapped).stages
    for stage in (0, 1):
        assert after[stage].scores[0, 1] == pytest.approx(before[stage].scores[0, 1], rel=CLOSE)
        np.testing.assert_allclose(before[stage].scores, before[stage].scores.T, rtol=CLOSE)
        np.testing.assert_allclose(after[stage].scores, before[stage].scores[np.ix_(order, order)].T, rtol=CLOSE)
    assert after[2].scores[0, 1] != pytest.approx(before[2].scores[0, 1], rel=1e-2)
    np.testing.assert_allclose(after[2].scores, before[2].scores[np.ix_(order, order)], rtol=CLOSE)


@pytest.mark.parametrize("n_heads", [1, 4, 64])
def test_the_heads_are_those_of_the_layer(n_heads):
    layer = RandomLayer(64, n_heads, seed=3, device_name="cpu")
    c = compare_projections(layer.projection_inputs(SENTENCE), include_self=True)
    (attention_map,) = attend(layer, [SENTENCE]).maps
    np.testing.assert_allclose(c.heads, attention_map.weights, atol=CLOSE)
    assert c.tokens == attention_map.queries


def test_stages_do_not_depend_on_the_number_of_heads():
    one, four = (compare_projections(RandomLayer(64, n, device_name="cpu").projection_inputs(SENTENCE)) for n in (1, 4))
    for a, b in zip(one.stages, four.stages, strict=True):
        assert np.array_equal(a.scores, b.scores, equal_nan=True)
    np.testing.assert_allclose(one.heads[0], one.stages[2].weights, atol=CLOSE)


def test_divergence_is_the_mean_over_queries_and_pairs(inputs):
    c = compare_projections(inputs, include_self=True)
    A = torch.from_numpy(c.heads).double()
    for i in range(4):
        for j in range(4):
            m = (A[i] + A[j]) / 2
            nats = sum(kl_div(m.log(), A[k], reduction="none").sum(-1) for k in (i, j)) / 2
            assert c.divergence[i, j] == pytest.approx(
                nats.mean().item() / np.log(2), abs=1e-7
            )  # float32 sums to no more than nearly 1
    above = [c.divergence[i, j] for i in range(4) for j in range(i)]
    assert c.mean_divergence == pytest.approx(np.mean(above))


def test_a_query_left_out_of_its_own_sum(inputs):
    c = compare_projections(inputs)
    for stage in c.stages:
        assert np.isnan(np.diag(stage.scores)).all()
        assert (np.diag(stage.weights) == 0).all()
        np.testing.assert_allclose(stage.weights.sum(-1), 1, atol=CLOSE)
    assert (np.diagonal(c.heads, axis1=1, axis2=2) == 0).all()
    np.testing.assert_allclose(c.heads.sum(-1), 1, atol=CLOSE)


def test_one_word_that_is_left_out_leaves_nothing():
    with pytest.raises(ArgumentError, match=r"expected at least two words.*set `include_self`"):
        compare_projections(RandomLayer(8, 2, device_name="cpu").projection_inputs("one"))


def test_one_word_and_one_head():
    c = compare_projections(RandomLayer(8, 1, device_name="cpu").projection_inputs("one"), include_self=True)
    assert [stage.asymmetry for stage in c.stages] == [0] * 4
    assert [stage.departure > 0 for stage in c.stages] == [False, False, False, True]
    assert c.mean_divergence is None


def test_the_pair_is_the_most_unlike(inputs):
    c = compare_projections(inputs)
    scores = c.stages[2].scores
    assert abs(scores[c.pair] - scores[c.pair[::-1]]) == np.nanmax(np.abs(scores - scores.T))


def test_what_has_no_words():
    with pytest.raises(ArgumentError, match="at least one word"):
        RandomLayer(8, 2, device_name="cpu").projection_inputs("?!")
