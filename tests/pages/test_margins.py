"""Numbers along the sides of a map, against all weights, which PyTorch's kernel computes in float64."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from looking import GivenModel, attend
from rounding import rounding

import mhaviz
from mhaviz.analyses.pooled_maps import SUMMED_UP, pooled_maps
from mhaviz.attention.call import AttentionCall
from mhaviz.pages.margins import key_margin, query_margin
from mhaviz.results.saved_form import describe, restore

LENGTH, CLOSE = 50, rounding()


def model_of(kind):
    """A model of one sentence and one head, and its weights: with these values the output is the weights."""
    generator = torch.Generator().manual_seed(0)
    query, key = (2 * torch.randn(1, 1, LENGTH, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    call = AttentionCall(query.float(), key.float(), key.float(), 0.5, kind == "masked")
    value = torch.eye(LENGTH, dtype=torch.float64)[None, None]
    attention = torch.nn.functional.scaled_dot_product_attention
    return GivenModel(kind, call), attention(query, key, value, is_causal=kind == "masked")[0, 0].numpy()


def map_of(model, size, window=None):
    pooling = replace(SUMMED_UP, size=size, window=window)
    return pooled_maps(model, model.encode(), pooling).maps[0]


def entropies(weights):
    return -np.sum(weights * np.log(np.where(weights > 0, weights, 1)), axis=1)


@pytest.mark.parametrize("kind", ["self", "masked"])
@pytest.mark.parametrize(("size", "window"), [(LENGTH, None), (8, None), (8, (10, 40, 0, 30)), (7, (0, 9, 0, 50))])
def test_margins_are_means_of_all_weights(kind, size, window):
    model, weights = model_of(kind)
    m = map_of(model, size, window)
    q0, q1, k0, k1 = window or (0, LENGTH, 0, LENGTH)
    cells = zip(m.columns.edges[:-1], m.columns.edges[1:], strict=True)
    margin = key_margin(m)
    np.testing.assert_allclose(margin.values, [weights[q0:q1, a:b].mean() for a, b in cells], atol=CLOSE)
    assert margin.text == f"mean weight over {q1 - q0} queries"
    received = weights[q0:q1, k0:k1].sum(axis=0)
    most = int(received.argmax()) + k0
    if margin.named:  # the table's sinks, as far as they are in the map
        of_all = np.argsort(-weights[q0:q1].sum(axis=0))[:2]
        assert margin.named == tuple((m.columns.cell_of(j), f"{j} t{j}") for j in of_all if k0 <= j < k1)
        assert window is not None or margin.named[0][1] == f"{most} t{most}"
    rows = zip(m.rows.edges[:-1], m.rows.edges[1:], strict=True)
    of_queries = entropies(weights)
    np.testing.assert_allclose(query_margin(m).values, [of_queries[a:b].mean() for a, b in rows], atol=CLOSE)


def test_margins_of_a_map_without_a_summary_and_of_what_is_no_weight():
    model, weights = model_of("masked")
    (m,) = attend(model, []).maps
    np.testing.assert_allclose(query_margin(m).values, entropies(weights), atol=CLOSE)
    np.testing.assert_allclose(key_margin(m).values, weights.mean(axis=0), atol=CLOSE)
    ratios = weights * np.arange(1, LENGTH + 1)[:, None]
    of_ratios = key_margin(m.times_uniform())
    np.testing.assert_allclose(of_ratios.values, ratios.mean(axis=0), rtol=1e-5)
    assert of_ratios.text == "mean ratio over 50 queries"
    assert query_margin(m.times_uniform()) is None


@pytest.mark.parametrize("mask", ["chunked", "global", "causal"])
def test_keys_of_a_recorded_mask_receive_what_its_weights_say(mask):
    """Chunks as in Llama 4; a first key that all queries see, besides a window of two, as in Longformer."""
    i, j = torch.arange(8)[:, None], torch.arange(8)
    visible = {"chunked": i // 4 == j // 4, "global": (j == 0) | (i - j < 2), "causal": j >= 0}[mask] & (j <= i)
    q, k, v = torch.randn(3, 1, 1, 8, 4, dtype=torch.float64)
    with mhaviz.record() as recording:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, visible)
    (m,) = recording.attention.maps
    scores = np.where(visible, (q @ k.mT)[0, 0] / 2, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    margin = key_margin(m)
    np.testing.assert_allclose(margin.values, weights.mean(axis=0), atol=CLOSE)
    assert margin.text == "mean weight over 8 queries"


def test_entropies_are_saved_where_no_query_of_a_row_sees_a_key():
    model, _ = model_of("self")
    m = map_of(model, 8)
    (head,) = m.summary.heads
    object.__setattr__(head, "entropies", (float("nan"), *head.entropies[1:]))
    saved = json.loads(json.dumps(describe(m)).replace("NaN", "null"))
    np.testing.assert_array_equal(query_margin(restore(saved, m.weights)).values, head.entropies)
    saved["summary"]["heads"][0]["entropies"].pop()
    with pytest.raises(ValueError, match=r"entropies: expected 8 for each head"):
        restore(saved, m.weights)
