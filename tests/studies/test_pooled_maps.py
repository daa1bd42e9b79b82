"""Pooled maps of a source's queries and keys, and their summaries, against all weights in float64."""

import math

import numpy as np
import pytest
import torch

from mhaviz.errors import ArgumentError
from mhaviz.records import MapInputs, QueriesAndKeys, Source
from mhaviz.studies.pooled_maps import (
    NEAR,
    SINKS,
    STRONG,
    Pooling,
    bytes_needed,
    cells_of,
    pooled_maps,
    scores_needed,
    seconds_needed,
)


def inputs(length=100, n_heads=3, kind="self", k_length=None, seed=0, sharpness=3.0, sentence=None):
    generator = np.random.default_rng(seed)
    k_length = k_length or length
    query, key = (generator.normal(size=(n_heads, n, 4)).astype(np.float32) for n in (length, k_length))
    queries, keys = (tuple(f"{side}{i}" for i in range(n)) for side, n in (("q", length), ("k", k_length)))
    return QueriesAndKeys(queries, keys, sharpness * query, key, tuple(range(n_heads)), kind, sentence)


def of(*some):
    return MapInputs.of(Source("made by a test"), some)


def all_weights(one):
    """Of every head, in float64, by PyTorch's kernel: with these values the output is the weights."""
    query, key = (torch.from_numpy(x).double()[None] for x in (one.query, one.key))
    value = torch.eye(key.shape[2], dtype=torch.float64).expand(1, len(query[0]), -1, -1)
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(query, key, value, is_causal=one.kind == "masked")[0].numpy()


def test_cells_tokens_and_weights():
    one = inputs(sentence=4)
    (found,) = pooled_maps(of(one), Pooling(10)).maps
    expected = all_weights(one).reshape(3, 10, 10, 10, 10).sum(axis=4).mean(axis=2)
    np.testing.assert_allclose(found.weights, expected, atol=1e-6)
    assert found.is_pooled
    assert found.cells.reduction == "mass"
    assert found.cells.query_edges.tolist() == found.cells.key_edges.tolist() == list(range(0, 101, 10))
    assert (found.queries, found.keys, found.sentence) == (one.query_tokens, one.key_tokens, 4)


def test_both_reductions_are_two_maps_and_one_summary():
    one = inputs()
    mass, largest = pooled_maps(of(one), Pooling(10, "both")).maps
    assert (mass.cells.reduction, largest.cells.reduction) == ("mass", "max")
    np.testing.assert_allclose(largest.weights, all_weights(one).reshape(3, 10, 10, 10, 10).max(axis=(2, 4)), atol=1e-6)
    assert mass.summary
    assert largest.summary is None
    (alone,) = pooled_maps(of(one), Pooling(10, "max")).maps
    assert np.array_equal(alone.weights, largest.weights)
    assert alone.cells.reduction == "max"


@pytest.mark.parametrize("reduce", ["mass", "max", "both"])
def test_what_is_not_pooled_is_the_weights(reduce):
    one = inputs(20, kind="masked")
    (found,) = pooled_maps(of(one), Pooling(20, reduce)).maps
    np.testing.assert_allclose(found.weights, all_weights(one), atol=1e-6)
    assert found.cells is None
    assert found.summary
    assert cells_of(one.outline, Pooling(20, reduce)) == ()


def test_a_window_with_open_ends():
    one = inputs(30, k_length=50, kind="cross")
    (found,) = pooled_maps(of(one), Pooling(window=(None, 7, 45, None))).maps
    np.testing.assert_allclose(found.weights, all_weights(one)[:, :7, 45:], atol=1e-6)
    assert found.queries == one.query_tokens[:7]
    assert found.keys == one.key_tokens[45:]
    assert found.cells.key_edges.tolist() == [45, 46, 47, 48, 49, 50]


@pytest.mark.parametrize("window", [(0, 31, 0, 5), (5, 5, 0, 5), (9, 5, 0, 5), (0, 5, 60, None)])
def test_a_window_outside_the_map(window):
    one = inputs(30)
    for ask in (
        lambda: pooled_maps(of(one), Pooling(window=window)),
        lambda: cells_of(one.outline, Pooling(window=window)),
    ):
        with pytest.raises(ArgumentError, match=r"window: expected (query|key) positions that go up.*self attention"):
            ask()


def test_announced_cells_are_those_of_the_map():
    one = inputs(103, k_length=77, kind="cross")
    pooling = Pooling(10, "both", (3, 99, None, None))
    for announced, found in zip(cells_of(one.outline, pooling), pooled_maps(of(one), pooling).maps, strict=True):
        assert announced.query_edges.tolist() == found.cells.query_edges.tolist()
        assert announced.key_edges.tolist() == found.cells.key_edges.tolist()
        assert announced.reduction == found.cells.reduction


@pytest.mark.parametrize("kind", ["self", "masked"])
@pytest.mark.parametrize("window", [None, (20, 90, 0, 10)])
def test_the_summary_is_that_of_all_weights(kind, window):
    one = inputs(100, kind=kind)
    (found,) = pooled_maps(of(one), Pooling(10, window=window)).maps
    first, end = window[:2] if window else (0, 100)
    queries = np.arange(first, end)
    distance = np.abs(queries[:, None] - np.arange(100))
    assert (found.summary.queries, found.summary.near, found.summary.strong) == (end - first, NEAR, STRONG)
    for summary, weights in zip(found.summary.heads, all_weights(one)[:, first:end], strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(weights * np.log(weights), axis=-1)
        assert summary.entropy == pytest.approx(entropy.mean(), abs=1e-5)
        seen = queries + 1 if kind == "masked" else np.full(len(queries), 100)
        assert summary.uniform_entropy == pytest.approx(np.log(seen).mean())
        assert summary.local == pytest.approx((weights * (distance <= NEAR)).sum(axis=-1).mean(), abs=1e-6)
        received = weights.sum(axis=0)
        assert [sink.key for sink in summary.sinks] == np.argsort(-received)[:SINKS].tolist()
        assert [sink.token for sink in summary.sinks] == [f"k{sink.key}" for sink in summary.sinks]
        assert (summary.strongest.query_token, summary.strongest.key_token) == (
            f"q{summary.strongest.query}", f"k{summary.strongest.key}",
        )  # fmt: skip
        assert summary.sinks[0].received == pytest.approx(received.max(), abs=1e-5)
        best = weights.argmax(axis=-1)
        choosing = np.where(seen > 1, weights.max(axis=-1), 0)  # a query that sees one key gives it all
        q = int(choosing.argmax())
        assert (summary.strongest.query, summary.strongest.key) == (queries[q], best[q])
        assert summary.strongest.weight == pytest.approx(choosing.max(), abs=1e-6)
        strong = weights.max(axis=-1) >= STRONG
        farthest = np.abs(queries - best)[strong].max()
        assert abs(summary.farthest.query - summary.farthest.key) == farthest
        assert summary.farthest.weight == pytest.approx(
            weights[summary.farthest.query - first, summary.farthest.key], abs=1e-6
        )


def test_keys_that_nobody_sees_are_no_sinks():
    (found,) = pooled_maps(of(inputs(30, kind="masked")), Pooling(10, window=(0, 2, 0, 30))).maps
    assert [len(head.sinks) for head in found.summary.heads] == [2, 2, 2]


def test_without_strong_links_and_without_distances():
    (even,) = pooled_maps(of(inputs(100, sharpness=0.01)), Pooling(10)).maps
    assert all(head.farthest is None for head in even.summary.heads)
    assert all(head.local == pytest.approx(0.55, abs=0.1) for head in even.summary.heads)
    (cross,) = pooled_maps(of(inputs(30, k_length=40, kind="cross")), Pooling(10)).maps
    assert all(head.local is None and head.farthest is None for head in cross.summary.heads)
    assert cross.summary.heads[0].uniform_entropy == pytest.approx(math.log(40))
    assert pooled_maps(of(inputs(30)), Pooling(10, summary=False)).maps[0].summary is None


def test_chosen_heads_and_several_sentences_with_progress():
    told = []
    some = inputs(40, sentence=0), inputs(60, sentence=1)
    found = pooled_maps(of(*some), Pooling(10), told.append)
    assert [m.sentence for m in found.maps] == [0, 1]
    assert told[-1] == pytest.approx(1)
    assert told == sorted(told)
    assert found.select((2,)).maps[0].summary.heads == (found.maps[0].summary.heads[2],)


def test_what_a_run_takes_is_known_before():
    one = inputs(2000)
    few, many = (of(*[one] * n) for n in (1, 3))
    assert scores_needed(many, Pooling()) == 3 * scores_needed(few, Pooling()) == 3 * 3 * 2000**2
    assert bytes_needed(few, Pooling()) > one.query.nbytes + one.key.nbytes + 3 * 512**2 * 4
    assert bytes_needed(few, Pooling(memory=2**16)) < bytes_needed(few, Pooling())
    assert 0 < seconds_needed(few, Pooling()) < 60
    assert scores_needed(few, Pooling(window=(0, 20, 0, 20))) == 3 * 20 * 2000
