"""Pooled maps of a source's queries and keys, and their summaries, against all weights in float64."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from looking import GivenModel, encoded
from rounding import rounding

from mhaviz.analyses.pooled_maps import (
    NEAR,
    SINKS,
    STRONG,
    SUMMED_UP,
    bytes_needed,
    cells_of,
    map_sizes,
    outline,
    pooled_maps,
    scores_needed,
    seconds_needed,
)
from mhaviz.analyses.weights import attention_weights
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import ArgumentError
from mhaviz.models.load import load_model

CLOSE = rounding()


def call(length=100, n_heads=3, k_length=None, seed=0, sharpness=3.0, causal=False):
    generator = np.random.default_rng(seed)
    query, key = (
        torch.from_numpy(generator.normal(size=(1, n_heads, n, 4)).astype(np.float32))
        for n in (length, k_length or length)
    )
    return AttentionCall(sharpness * query, key, key, 0.5, causal)


def model_of(length=100, kind="self", **options):
    """A model of one sentence."""
    return GivenModel(kind, call(length, causal=kind == "masked", **options))


def pooled(model, pooling, *more):
    return pooled_maps(*encoded(model, []), pooling, None, False, *more).maps


def sizes(model):
    return map_sizes(*encoded(model, []))


def all_weights(one):
    """Of every head, in float64, by PyTorch's kernel: with these values the output is the weights."""
    (given,) = one.given
    query, key = given.query.double(), given.key.double()
    value = torch.eye(key.shape[2], dtype=torch.float64).expand(1, len(query[0]), -1, -1)
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(query, key, value, is_causal=given.causal)[0].numpy()


def test_cells_tokens_and_weights():
    one = model_of()
    (found,) = pooled(one, replace(SUMMED_UP, size=10))
    expected = all_weights(one).reshape(3, 10, 10, 10, 10).sum(axis=4).mean(axis=2)
    np.testing.assert_allclose(found.weights, expected, atol=CLOSE)
    assert found.is_pooled
    assert found.quantity.reduction == "mass"
    assert found.rows.edges.tolist() == found.columns.edges.tolist() == list(range(0, 101, 10))
    assert found.queries == found.keys == tuple(f"t{i}" for i in range(100))
    assert found.sentence is None


def test_largest_weights():
    one = model_of()
    (largest,) = pooled(one, replace(SUMMED_UP, size=10, reduce="max"))
    assert largest.quantity.reduction == "max"
    np.testing.assert_allclose(
        largest.weights, all_weights(one).reshape(3, 10, 10, 10, 10).max(axis=(2, 4)), atol=CLOSE
    )
    assert largest.summary


@pytest.mark.parametrize("reduce", ["mass", "max"])
def test_what_is_not_pooled_is_the_weights(reduce):
    one = model_of(20, kind="masked")
    (found,) = pooled(one, replace(SUMMED_UP, size=20, reduce=reduce))
    np.testing.assert_allclose(found.weights, all_weights(one), atol=CLOSE)
    assert found.is_whole
    assert found.summary
    assert cells_of(*sizes(one), replace(SUMMED_UP, size=20, reduce=reduce)) is None


def test_a_window_with_open_ends():
    one = model_of(30, k_length=50, kind="cross")
    (found,) = pooled(one, replace(SUMMED_UP, window=(None, 7, 45, None)))
    np.testing.assert_allclose(found.weights, all_weights(one)[:, :7, 45:], atol=CLOSE)
    assert found.queries == tuple(f"q{i}" for i in range(7))
    assert found.keys == tuple(f"k{i}" for i in range(45, 50))
    assert found.columns.edges.tolist() == [45, 46, 47, 48, 49, 50]


@pytest.mark.parametrize("window", [(0, 31, 0, 5), (5, 5, 0, 5), (9, 5, 0, 5), (0, 5, 60, None)])
def test_a_window_outside_the_map(window):
    one = model_of(30)
    for ask in (
        lambda: pooled(one, replace(SUMMED_UP, window=window)),
        lambda: cells_of(*sizes(one), replace(SUMMED_UP, window=window)),
    ):
        with pytest.raises(ArgumentError, match=r"`window`: expected (query|key) positions that go up.*self-attention"):
            ask()


def test_announced_cells_are_those_of_the_map():
    one = model_of(103, k_length=77, kind="cross")
    pooling = replace(SUMMED_UP, size=10, reduce="max", window=(3, 99, None, None))
    announced, (found,) = cells_of(*sizes(one), pooling), pooled(one, pooling)
    assert announced.rows.edges.tolist() == found.rows.edges.tolist()
    assert announced.columns.edges.tolist() == found.columns.edges.tolist()
    assert announced.quantity.reduction == found.quantity.reduction


POOLINGS = [
    *(None, Pooling(), Pooling(size=2), Pooling(size=2, reduce="mass"), Pooling(size=(1, 9), reduce="max")),
    *(Pooling(window=(0, 3, None, 2)), Pooling(size=2, window=(0, 3, 0, 2))),
]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_the_outline_has_the_axes_of_the_maps(model_folder, name):
    """One map of each kind of attention, before the model runs."""
    model = load_model(str(model_folder(name)))
    inputs = model.encode(["a b", "a b c a"])
    for pooling, hides in product(POOLINGS, (False, True)):
        if pooling is None:
            maps = attention_weights(model, inputs, None, hides)
        else:
            maps = pooled_maps(model, inputs, pooling, None, hides)
        first = {}
        for m in maps:
            first.setdefault((m.sentence, m.kind, m.quantity), m)
        for drawn, m in zip(outline(model, inputs, pooling, hides), first.values(), strict=True):
            assert (drawn.name, drawn.is_whole) == (m.name, m.is_whole), pooling
            assert drawn.rows.is_same(m.rows), pooling
            assert drawn.columns.is_same(m.columns), pooling


@pytest.mark.parametrize("kind", ["self", "masked"])
@pytest.mark.parametrize("window", [None, (20, 90, 0, 10)])
def test_the_summary_is_that_of_all_weights(kind, window):
    one = model_of(100, kind=kind)
    (found,) = pooled(one, replace(SUMMED_UP, size=10, window=window))
    first, end = window[:2] if window else (0, 100)
    queries = np.arange(first, end)
    distance = np.abs(queries[:, None] - np.arange(100))
    assert (found.summary.queries, found.summary.near, found.summary.strong) == (end - first, NEAR, STRONG)
    for summary, weights in zip(found.summary.heads, all_weights(one)[:, first:end], strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nansum(weights * np.log(weights), axis=-1)
        assert summary.entropy == pytest.approx(entropy.mean(), abs=CLOSE)
        seen = queries + 1 if kind == "masked" else np.full(len(queries), 100)
        assert summary.uniform_entropy == pytest.approx(np.log(seen).mean())
        assert summary.local == pytest.approx((weights * (distance <= NEAR)).sum(axis=-1).mean(), abs=CLOSE)
        received = weights.sum(axis=0)
        assert [sink.key for sink in summary.sinks] == np.argsort(-received)[:SINKS].tolist()
        assert [sink.token for sink in summary.sinks] == [f"t{sink.key}" for sink in summary.sinks]
        assert (summary.strongest.query_token, summary.strongest.key_token) == (
            f"t{summary.strongest.query}", f"t{summary.strongest.key}",
        )  # fmt: skip
        assert summary.sinks[0].received == pytest.approx(received.max(), abs=CLOSE)
        best = weights.argmax(axis=-1)
        choosing = np.where(seen > 1, weights.max(axis=-1), 0)  # a query that sees one key gives it all
        q = int(choosing.argmax())
        assert (summary.strongest.query, summary.strongest.key) == (queries[q], best[q])
        assert summary.strongest.weight == pytest.approx(choosing.max(), abs=CLOSE)
        strong = weights.max(axis=-1) >= STRONG
        farthest = np.abs(queries - best)[strong].max()
        assert abs(summary.farthest.query - summary.farthest.key) == farthest
        assert summary.farthest.weight == pytest.approx(
            weights[summary.farthest.query - first, summary.farthest.key], abs=CLOSE
        )


def test_keys_that_nobody_sees_are_no_sinks():
    (found,) = pooled(model_of(30, kind="masked"), replace(SUMMED_UP, size=10, window=(0, 2, 0, 30)))
    assert [len(head.sinks) for head in found.summary.heads] == [2, 2, 2]


def test_without_strong_links_and_without_distances():
    (even,) = pooled(model_of(100, sharpness=0.01), replace(SUMMED_UP, size=10))
    assert all(head.farthest is None for head in even.summary.heads)
    assert all(head.local == pytest.approx(0.55, abs=0.1) for head in even.summary.heads)
    (cross,) = pooled(model_of(30, k_length=40, kind="cross"), replace(SUMMED_UP, size=10))
    assert all(head.local is None and head.farthest is None for head in cross.summary.heads)
    assert cross.summary.heads[0].uniform_entropy == pytest.approx(math.log(40))
    assert pooled(model_of(30), Pooling(10))[0].summary is None


def test_chosen_heads_and_several_sentences_with_progress():
    told, wanted = [], replace(SUMMED_UP, size=10)
    model = GivenModel("self", call(40), call(60))
    found = pooled_maps(*encoded(model, []), wanted, (0, 2), False, lambda *done: told.append(done))
    assert [m.sentence for m in found.maps] == [0, 1]
    assert told[-1] == (pytest.approx(1), "map 2 of 2")
    assert told == sorted(told)
    assert found.maps[0].heads == (0, 2)
    assert found.select((2,)).maps[0].summary.heads == (found.maps[0].summary.heads[1],)


def test_what_a_run_takes_is_known_before():
    one, cpu = model_of(2000), torch.device("cpu")
    few, many = sizes(one), sizes(one) * 3
    inputs = 3 * one.given[0].query.nbytes
    assert scores_needed(many, SUMMED_UP) == 3 * scores_needed(few, SUMMED_UP) == 3 * 3 * 2000**2
    assert bytes_needed(few, SUMMED_UP, cpu) > inputs + 3 * 512**2 * 4
    assert 0 < seconds_needed(few, SUMMED_UP, cpu) < 60
    assert scores_needed(few, replace(SUMMED_UP, window=(0, 20, 0, 20))) == 3 * 20 * 2000
