"""The numbers of compare-scaling against torch.distributions, torch.autograd and theory."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from looking import attend, encoded, given_model
from rounding import rounding

from mhaviz.analyses import scaling
from mhaviz.analyses.scaling import _scaling_of, compare_scaling, sweep_scaling
from mhaviz.api.loaded import load
from mhaviz.attention.call import AttentionCall
from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import RandomLayer

CLOSE = rounding()

SENTENCE = "I wonder what will come next!"


@pytest.fixture(scope="module")
def comparison():
    return compare_scaling(*encoded(RandomLayer(512, 8), [SENTENCE]), range(8))


def test_scaled_is_what_the_layer_computes(comparison):
    (attention_map,) = attend(RandomLayer(512, 8), [SENTENCE]).maps
    np.testing.assert_allclose(comparison.scaled.weights, attention_map.weights, atol=CLOSE)
    np.testing.assert_allclose(comparison.unscaled.scores, comparison.scaled.scores * 8, rtol=CLOSE)
    assert comparison.d_key == 64


@pytest.mark.parametrize("which", ["unscaled", "scaled"])
def test_numbers_against_torch(comparison, which):
    scaling = getattr(comparison, which)
    for head in range(8):
        scores = torch.from_numpy(scaling.scores[head]).double()
        statistics = scaling.statistics[head]
        rows = torch.distributions.Categorical(logits=scores)
        jacobians = [torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), row) for row in scores]
        assert statistics.score_std == pytest.approx(scores.std(correction=0).item(), rel=CLOSE)
        assert (statistics.score_min, statistics.score_max) == (scores.min(), scores.max())
        assert statistics.entropy == pytest.approx(rows.entropy().mean().item(), abs=CLOSE)
        assert statistics.largest_weight == pytest.approx(rows.probs.amax(-1).mean().item(), rel=CLOSE)
        assert statistics.saturated == pytest.approx((rows.probs.amax(-1) > 0.99).double().mean().item())
        norms = [torch.linalg.matrix_norm(jacobian).item() for jacobian in jacobians]
        assert statistics.jacobian == pytest.approx(np.mean(norms), abs=CLOSE)


def test_unscaled_saturates(comparison):
    for unscaled, scaled in zip(comparison.unscaled.statistics, comparison.scaled.statistics, strict=True):
        assert unscaled.entropy < scaled.entropy
        assert unscaled.jacobian < scaled.jacobian
        assert unscaled.saturated >= scaled.saturated
    assert np.mean([statistics.saturated for statistics in comparison.unscaled.statistics]) > 0.3


def test_hidden_keys_do_not_count():
    comparison = compare_scaling(*encoded(RandomLayer(64, 2, causal=True), [SENTENCE]), [1])
    visible = np.tri(6, dtype=bool)
    scores = comparison.unscaled.scores[0]
    assert np.isnan(scores[~visible]).all()
    assert (comparison.unscaled.weights[0][~visible] == 0).all()
    assert comparison.unscaled.statistics[0].score_std == pytest.approx(scores[visible].std(), rel=CLOSE)


def test_rows_without_a_choice_of_keys_do_not_count():
    """The first row of causal attention, all of whose weight is on its single key."""
    comparison = compare_scaling(*encoded(RandomLayer(64, 2, causal=True), [SENTENCE]), [1])
    for side in (comparison.unscaled, comparison.scaled):
        (statistics,) = side.statistics
        rows = side.weights[0, 1:].astype(float)
        assert statistics.rows == 5
        assert statistics.saturated_rows == (rows.max(axis=1) > 0.99).sum()
        assert statistics.saturated == statistics.saturated_rows / 5
        assert statistics.largest_weight == pytest.approx(rows.max(axis=1).mean(), rel=CLOSE)
        entropies = -(rows * np.log(rows, where=rows > 0, out=np.zeros_like(rows))).sum(axis=1)
        assert statistics.entropy == pytest.approx(entropies.mean(), rel=CLOSE)
        jacobians = [np.linalg.norm(np.diag(a) - np.outer(a, a)) for a in rows]
        assert statistics.jacobian == pytest.approx(np.mean(jacobians), rel=CLOSE)


def test_a_key_beside_a_sink_is_a_choice():
    """Weights of a single key are 1 / (1 + e^(sink − score)), and less than 1."""
    call = AttentionCall(*(torch.ones(1, 1, 3, 4) for _ in range(3)), scale=0.5, causal=True, sinks=torch.zeros(1))
    (statistics,) = _scaling_of(call).statistics
    assert statistics.rows == 3
    assert statistics.largest_weight == pytest.approx(np.mean([1 / (n + math.exp(-2)) for n in (1, 2, 3)]), rel=CLOSE)


def test_one_token_has_nothing_to_choose():
    comparison = compare_scaling(*encoded(RandomLayer(8, 2), ["one"]), [0])
    for statistics in (*comparison.scaled.statistics, *sweep_scaling(["one"], 0, (2,), draws=2).unscaled):
        assert (statistics.rows, statistics.saturated_rows) == (0, 0)
        assert np.isnan([statistics.entropy, statistics.jacobian, statistics.largest_weight]).all()


def test_known_scores():
    query, key = (
        np.array([[[2.0, 0, 0, 0]]], np.float32),
        np.array([[[math.log(3), 0, 0, 0], [0, 1, 0, 0]]], np.float32),
    )
    comparison = compare_scaling(*encoded(given_model(query, key, kind="cross"), []), [0])
    np.testing.assert_allclose(comparison.unscaled.weights, [[[0.9, 0.1]]], rtol=CLOSE)  # e^(2 ln 3) = 9 against 1
    np.testing.assert_allclose(comparison.scaled.weights, [[[0.75, 0.25]]], rtol=CLOSE)  # halved by √4: 3 against 1
    assert comparison.scaled.statistics[0].jacobian == pytest.approx(0.375)  # ‖[[.1875, −.1875], [−.1875, .1875]]‖


def test_a_head_that_is_not_there():
    with pytest.raises(ArgumentError, match="head from 0 to 1, got 2"):
        compare_scaling(*encoded(RandomLayer(8, 2), ["one"]), [2])


@pytest.mark.slow
def test_the_sweep_follows_theory():
    sweep = sweep_scaling([f"w{i}" for i in range(12)], seed=0)
    assert sweep.d_keys[0] == 2
    assert sweep.d_keys[-1] == 1024
    for d_key, theory, unscaled, scaled in zip(sweep.d_keys, sweep.theory, sweep.unscaled, sweep.scaled, strict=True):
        assert theory == math.sqrt(d_key)
        assert unscaled.score_std == pytest.approx(math.sqrt(d_key), rel=0.2)
        assert scaled.score_std == pytest.approx(1, rel=0.2)
    assert sweep.unscaled[-1].jacobian < 0.3 * sweep.unscaled[0].jacobian
    assert sweep.scaled[-1].jacobian == pytest.approx(sweep.scaled[0].jacobian, rel=0.15)
    assert "d_model = d_key from 2 to 1024" in sweep.source.footnote


def test_a_sweep_is_repeatable():
    first, again, other = (sweep_scaling(["a", "b"], seed, (2, 8), draws=3) for seed in (0, 0, 1))
    assert first == again
    assert first.unscaled != other.unscaled


@pytest.mark.parametrize(
    ("options", "texts", "message"),
    [
        ({"n_heads": 2}, "a b", "leave out all but the sentence, `seed` and `keep_case`"),
        ({"model": "translation"}, "a cat", "leave out all but the sentence, `seed` and `keep_case`"),
        ({}, ["a", "b"], "reads one sentence, got 2"),
    ],
)
def test_a_sweep_varies_what_a_model_fixes(options, texts, message):
    with pytest.raises(ArgumentError, match=message):
        load(**options).sweep_scaling(texts)


def test_the_sweep_has_a_seed(monkeypatch):
    monkeypatch.setattr(scaling, "sweep_scaling", partial(sweep_scaling, d_keys=(2, 8), draws=2))
    first, other = (load(seed=seed).sweep_scaling("a b").unscaled[0].score_std for seed in (0, 1))
    assert first != other
