"""NaN and infinity are no weights: an error names the heads; what padding and hidden keys hold is nobody's business."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rounding import rounding

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.soundness import require_numbers
from mhaviz.errors import ArgumentError, MhavizError

CLOSE = rounding()

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def call():
    """4 heads that share the keys and values of 2, for 2 inputs of 5 tokens."""
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, heads, 5, 8, generator=random) for heads in (4, 2, 2))
    return AttentionCall(query, key, value, 8**-0.5, causal=True)


def check(call, **more):
    require_numbers(call, "x", "mend it", **more)


def changed(call, name, place, number):
    x = getattr(call, name).clone()
    x[place] = number
    return replace(call, **{name: x})


@pytest.mark.parametrize("number", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("query", (1, 2, 3, 0), "x: expected queries that are numbers, got NaN or infinity in L0 H2; mend it"),
        ("key", (0, 1, 2, 7), "keys that are numbers, got NaN or infinity in L0 H2, L0 H3"),
        ("value", (1, 0, 0, 0), "values that are numbers, got NaN or infinity in L0 H0, L0 H1"),
        ("query", (0, slice(None), 1, 0), "queries that are numbers, got NaN or infinity in all heads"),
    ],
)
def test_one_number_is_none(call, name, place, message, number):
    check(call)
    with pytest.raises(MhavizError, match=message) as error:
        check(changed(call, name, place, number))
    assert not isinstance(error.value, ArgumentError)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_padding_may_hold_anything(call, name):
    there = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    padded = changed(call, name, (1, 0, 4, 0), NAN)
    check(padded, is_query=there, is_key=there)
    with pytest.raises(MhavizError):
        check(padded)


def test_products_that_are_too_large(call):
    """1e20 · 1e20 is more than float32 can hold, and their softmax NaN."""
    large = changed(changed(call, "query", (0, 1, 2, 0), 1e20), "key", (0, 0, 1, 0), 1e20)
    with pytest.raises(MhavizError, match="weights that are numbers, got NaN or infinity in L0 H1;"):
        check(large)
    check(changed(changed(call, "query", (0, 1, 2, 0), 1e20), "key", (0, 0, 1, 0), 1e10))


def test_masks_and_sinks(call):
    bias = torch.zeros(1, 4, 5, 5)
    bias[0, 3, 2, 1] = NAN
    with pytest.raises(MhavizError, match="L0 H3;"):
        check(replace(call, mask=bias))
    with pytest.raises(MhavizError, match="L0 H2;"):
        check(replace(call, sinks=torch.tensor([0.0, 0.0, NAN, 0.0])))
    check(replace(call, mask=bias.nan_to_num(nan=-INF)))


def test_what_a_model_itself_has_made(call):
    output = call.output()
    check(call, output=output)
    output[1, 3, 2, 0] = NAN
    with pytest.raises(MhavizError, match="outputs that are numbers, got NaN or infinity in L0 H3;"):
        check(call, output=output)
    blind = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    blind[0, 0, 2] = False  # this query sees no key
    with pytest.raises(MhavizError, match="outputs that are numbers"):
        check(replace(call, mask=blind), output=output)


def test_a_query_that_sees_nothing_has_no_weights_and_a_score_of_nan_has_no_weight():
    scores = torch.tensor([[[[1.0, 2.0, -INF], [-INF, -INF, -INF], [1.0, NAN, -INF]]]])
    nothing = torch.zeros(1, 1, 3, 1)
    call = AttentionCall(nothing, nothing, nothing, 1.0, mask=scores)
    e = np.exp(1)
    np.testing.assert_allclose(call.weigh(scores)[0, 0, :2], [[1 / (1 + e), e / (1 + e), 0], [0, 0, 0]], rtol=CLOSE)
    assert bool(call.weigh(scores)[0, 0, 2].isnan().any())


def test_weights_alone():
    weights = torch.full((1, 3, 2, 2), 0.5)
    check(AttentionWeights(weights))
    weights[0, 1, 0, 0] = NAN
    with pytest.raises(MhavizError, match="x: expected weights that are numbers, got NaN or infinity in L0 H1; mend"):
        check(AttentionWeights(weights))
