"""Numbers along the sides of a map, against all weights, which PyTorch's kernel computes in float64."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from looking import GivenModel, attend
from rounding import rounding

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
    seen = np.tri(LENGTH) if kind == "masked" else np.ones((LENGTH, LENGTH))
    expected = []
    for first, end in zip(m.columns.edges[:-1], m.columns.edges[1:], strict=True):
        sums = [x[q0:q1, first:end].sum() for x in (weights, seen)]
        expected.append(sums[0] / sums[1] if sums[1] else np.nan)
    margin = key_margin(m)
    if window == (0, 9, 0, 50) and kind == "masked":  # which key the last query stands at is not known
        assert margin is None
    else:
        np.testing.assert_allclose(margin.values, expected, atol=CLOSE)
        assert margin.text == "mean weight over queries" + " that see the key" * (kind == "masked")
        received = weights[q0:q1, k0:k1].sum(axis=0)
        most = int(received.argmax()) + k0
        if margin.named:  # the table's sinks, as far as they are in the map
            of_all = np.argsort(-weights[q0:q1].sum(axis=0))[:2]
            assert margin.named == tuple((m.columns.cell_of(j), f"t{j}") for j in of_all if k0 <= j < k1)
            assert window is not None or margin.named[0][1] == f"t{most}"
    rows = zip(m.rows.edges[:-1], m.rows.edges[1:], strict=True)
    of_queries = entropies(weights)
    np.testing.assert_allclose(query_margin(m).values, [of_queries[a:b].mean() for a, b in rows], atol=CLOSE)


def test_margins_of_a_map_without_a_summary_and_of_what_is_no_weight():
    model, weights = model_of("masked")
    (m,) = attend(model, []).maps
    np.testing.assert_allclose(query_margin(m).values, entropies(weights), atol=CLOSE)
    np.testing.assert_allclose(key_margin(m).values, weights.sum(axis=0) / np.arange(LENGTH, 0, -1), atol=CLOSE)
    ratios = weights * np.arange(1, LENGTH + 1)[:, None]
    of_ratios = key_margin(m.times_uniform())
    np.testing.assert_allclose(of_ratios.values, ratios.sum(axis=0) / np.arange(LENGTH, 0, -1), rtol=1e-5)
    assert of_ratios.text == "mean ratio over queries that see the key"
    assert query_margin(m.times_uniform()) is None


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
