"""Masks, biases, soft-capping and sinks against the plain computation in float64, and against PyTorch's kernel."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import rounding

from mhaviz.attention import short_map, tiles
from mhaviz.attention.map import attention_map
from mhaviz.errors import ArgumentError

CLOSE = rounding(size=40, terms=16)


def tensors(q_length, k_length, n_heads=2, batch_size=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(batch_size, n_heads, n, 4, generator=generator) for n in (q_length, k_length))
    return 2 * query, key


def plain(query, key, causal=False, mask=None, softcap=None, sinks=None):
    """All weights in float64, by numpy."""
    q, k = query.double().numpy(), key.double().numpy()
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if mask is not None:
        mask = mask.numpy()
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        q_length, k_length = scores.shape[2:]
        scores = np.where(np.tri(q_length, k_length, k_length - q_length, dtype=bool), scores, -np.inf)
    extra = np.full((*scores.shape[:3], 1), -np.inf)
    if sinks is not None:
        extra = np.broadcast_to(sinks.double().numpy()[None, :, None, None], extra.shape)
    scores = np.concatenate([scores, extra], axis=-1)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
    return np.nan_to_num(weights)[..., :-1]


@st.composite
def rules(draw, q_length, k_length):
    shape = [draw(st.sampled_from([1, n])) for n in (2, 2, q_length, k_length)]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    numbers = torch.rand(shape[draw(st.integers(0, 3)) :] if shape[0] == shape[1] == 1 else shape, generator=generator)
    kind = draw(st.sampled_from(["none", "bool", "bias", "additive"]))
    masks = {
        "none": None,
        "bool": numbers > 0.4,
        "bias": 4 * numbers,
        "additive": torch.where(numbers > 0.4, 0.0, draw(st.sampled_from([-math.inf, torch.finfo(torch.float32).min]))),
    }
    return {
        "mask": masks[kind],
        "softcap": draw(st.sampled_from([None, 1.5, 30.0])),
        "sinks": draw(st.sampled_from([None, torch.tensor([0.5, -2.0])])),
        "causal": draw(st.booleans()),
    }


@given(st.data(), st.integers(1, 25), st.integers(1, 25))
@settings(max_examples=120)
def test_every_rule(monkeypatch, data, q_length, k_length):
    monkeypatch.setattr(tiles, "_TILE", (data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))))
    monkeypatch.setattr(tiles, "_QUERIES", (1, data.draw(st.integers(1, 30))))
    monkeypatch.setattr(tiles, "_WHOLE_ROWS", data.draw(st.sampled_from([0, 100])))
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", data.draw(st.sampled_from([0, 10**6])))
    rule = data.draw(rules(q_length, k_length))
    query, key = tensors(q_length, k_length)
    columns = data.draw(st.integers(1, 30))
    more = {"received": data.draw(st.booleans()), "reduce": data.draw(st.sampled_from(["mass", "both"]))}
    found = attention_map(query, key, columns=columns, entropy=True, top_keys=1, **more, **rule)
    weights = plain(query, key, **rule)
    columns = min(columns, k_length)
    edges = [i * k_length // columns for i in range(columns + 1)]
    cells = [weights[..., a:b] for a, b in pairwise(edges)]
    np.testing.assert_allclose(found.weights.numpy(), np.stack([c.sum(-1) for c in cells], -1), atol=CLOSE)
    if found.largest is not None:
        np.testing.assert_allclose(found.largest.numpy(), np.stack([c.max(-1) for c in cells], -1), atol=CLOSE)
    if found.received is not None:
        np.testing.assert_allclose(found.received.numpy(), weights.sum(axis=2), atol=CLOSE)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = weights / weights.sum(axis=-1, keepdims=True)  # of what a sink leaves
        entropy = -np.nansum(shares * np.log(shares), axis=-1)
    np.testing.assert_allclose(found.entropy.numpy(), entropy, atol=CLOSE)
    np.testing.assert_allclose(found.top_weights[..., 0].numpy(), weights.max(axis=-1), atol=CLOSE)


def test_a_bias_is_that_of_pytorchs_kernel():
    query, key = tensors(30, 40)
    bias = torch.randn(1, 2, 30, 40)
    value = torch.eye(40).expand(2, 2, 40, 40)  # with these values the output is the weights
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    torch.testing.assert_close(attention_map(query, key, mask=bias).weights, expected, atol=CLOSE, rtol=0)


def test_sinks_take_their_share():
    query, key = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 4, 4)
    found = attention_map(query, key, sinks=torch.tensor([0.0, math.log(4)]))
    assert found.weights.sum(dim=-1)[0, :, 0].tolist() == pytest.approx([4 / 5, 4 / 8])


QUERY, KEY = tensors(5, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": torch.ones(2, 2, 5, 7, dtype=torch.bool)}, "mask: expected axis k_length to be 6 or 1, got 7"),
        ({"mask": torch.ones(3, 1, 1, 6, dtype=torch.bool)}, "mask: expected axis batch_size to be 2 or 1, got 3"),
        ({"mask": torch.ones(1, 1, 1, 1, 6)}, "mask: expected at most 4 axes"),
        ({"mask": torch.ones(5, 6, dtype=torch.int64)}, "mask: expected bool, or numbers that are added"),
        ({"mask": torch.full((5, 6), math.nan)}, "mask: expected numbers below infinity"),
        ({"softcap": 0.0}, "softcap: expected a finite number above 0, got 0.0"),
        ({"softcap": math.inf}, "softcap: expected a finite number above 0, got inf"),
        ({"sinks": torch.full((2,), math.nan)}, "sinks: expected numbers below infinity"),
        ({"sinks": torch.zeros(1)}, r"sinks: expected \(n_heads\), which is \(2,\), got \(1,\)"),
        ({"value_norms": torch.ones(1, 1, 6)}, r"value_norms: expected \(batch_size, n_heads, k_length\), which is"),
        ({"top_keys": -1}, "top_keys: expected a number from 0 on, got -1"),
    ],
)
def test_rules_that_do_not_fit(options, message):
    with pytest.raises(ArgumentError, match=message):
        attention_map(QUERY, KEY, **options)


@pytest.mark.parametrize("tile", [2, 3, 7, 100])
def test_a_row_of_a_mask_that_hides_every_key_alike_is_uniform_in_tiles_of_any_size(monkeypatch, tile):
    """float32's least number, as in masks of transformers: the logarithm of a sum of keys is lost beside it."""
    monkeypatch.setattr(tiles, "_TILE", (1, tile))
    monkeypatch.setattr(tiles, "_WHOLE_ROWS", 0)
    monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)
    mask = torch.tensor([0.0, torch.finfo(torch.float32).min]).reshape(1, 2, 1, 1)
    query, key = tensors(4, 10)
    found = attention_map(query, key, mask=mask, columns=10)
    np.testing.assert_allclose(found.weights.numpy(), plain(query, key, mask=mask), atol=CLOSE)
