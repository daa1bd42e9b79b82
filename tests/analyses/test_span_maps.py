"""Maps by span of any length, beside group sums of all weights in float64."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from looking import GivenModel, encoded
from rounding import rounding

from mhaviz.analyses.span_maps import span_maps, span_outline
from mhaviz.attention import map as maps_of_any_length
from mhaviz.attention.call import AttentionCall
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.spans import Span
from mhaviz.inputs.tokens import Text
from mhaviz.results.axis import even_edges
from mhaviz.results.quantity import NORM

CLOSE = rounding()


def call(q_length=130, k_length=130, n_heads=2, causal=False, **more):
    generator = np.random.default_rng(0)
    query, key = (
        torch.from_numpy(generator.normal(size=(1, n_heads, n, 4)).astype(np.float32)) for n in (q_length, k_length)
    )
    return AttentionCall(3 * query, key, key, 0.5, causal, **more)


def all_weights(given):
    """Of every head, in float64, by PyTorch's kernel: with these values the output is the weights."""
    query, key = given.query.double(), given.key.double()
    value = torch.eye(key.shape[2], dtype=torch.float64).expand(1, len(query[0]), -1, -1)
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(query, key, value, is_causal=given.causal)[0].numpy()


def runs(length, widest=20):
    """Spans of 1 to ``widest`` tokens, one after the other."""
    ends = np.random.default_rng(length).integers(1, widest + 1, length).cumsum()
    edges = [0, *ends[ends < length].tolist(), length]
    return [range(*pair) for pair in pairwise(edges)]


def apart(length):
    """Spans of several runs, with a rest that is in none."""
    return [[*range(3, 9), *range(20, 50)], [*range(50, 51)], [*range(9, 20), *range(length - 7, length - 2)]]


def spans_of(found):
    """Finds the spans of these tokens, as ranges."""

    def find(tokens):
        return tuple(
            Span(f"s{i}", tuple((place, place + 1) for place in places)) for i, places in enumerate(found(len(tokens)))
        )

    return find


def grouped(A, queries, keys):
    sums = np.stack([A[:, :, list(k)].sum(axis=2) for k in keys], axis=2)
    return np.stack([sums[:, list(q)].mean(axis=1) for q in queries], axis=1)


@pytest.fixture(params=["at once", "tile by tile"])
def engine(request, monkeypatch):
    if request.param == "tile by tile":
        monkeypatch.setattr(maps_of_any_length, "is_short", lambda call, memory: False)


@pytest.mark.parametrize("at_once", [2**22, 200])
@pytest.mark.parametrize("kind", ["self", "masked", "cross"])
@pytest.mark.parametrize("found", [runs, apart])
def test_spans_of_every_kind(engine, monkeypatch, kind, found, at_once):
    """Also with the queries in blocks, of which some begin in the middle of a span of several runs."""
    monkeypatch.setattr("mhaviz.analyses.span_maps._AT_ONCE", at_once)
    given = call(130, 90 if kind == "cross" else 130, causal=kind == "masked")
    (m,) = span_maps(*encoded(GivenModel(kind, given), []), spans_of(found), 512).maps
    expected = grouped(all_weights(given), *map(found, given.shape[2:]))
    np.testing.assert_allclose(m.weights, expected, atol=CLOSE)
    assert m.queries == tuple(f"s{i}" for i in range(expected.shape[1]))
    assert m.kind == kind
    if found is runs:
        np.testing.assert_allclose(m.row_sums, 1, atol=CLOSE)


def test_norms_are_summed(engine):
    norms = torch.rand(1, 2, 130, generator=torch.Generator().manual_seed(0))
    given = call(value_norms=norms)
    (m,) = span_maps(*encoded(GivenModel("self", given), []), spans_of(runs), 512).maps
    A = all_weights(given) * norms[0, :, None].double().numpy()
    np.testing.assert_allclose(m.weights, grouped(A, runs(130), runs(130)), atol=CLOSE)
    assert m.quantity is NORM


def test_more_spans_than_cells_are_pooled_by_mass(engine):
    given = call()
    (m,) = span_maps(*encoded(GivenModel("self", given), []), spans_of(runs), 5).maps
    of_spans = grouped(all_weights(given), runs(130), runs(130))
    edges = even_edges(of_spans.shape[1], 5)
    of_keys = np.add.reduceat(of_spans, edges[:-1], axis=2)
    expected = np.add.reduceat(of_keys, edges[:-1], axis=1) / np.diff(edges)[:, None]
    np.testing.assert_allclose(m.weights, expected, atol=CLOSE)
    assert m.is_pooled
    assert m.columns.edges.tolist() == edges.tolist()


class WithSpecial(GivenModel):
    """Its first two and its last token are special."""

    def encode(self, sentences=(), target=None):
        inputs = super().encode(sentences, target)
        n = len(inputs.texts[0].source)
        return replace(inputs, texts=tuple(Text(replace(one.source, special=(0, 1, n - 1))) for one in inputs.texts))


def special_apart(length):
    return [range(1), range(1, 2), *(range(place, min(place + 9, length - 1)) for place in range(2, length - 1, 9)),
            range(length - 1, length)]  # fmt: skip


@pytest.mark.parametrize("most", [512, 4])
def test_hidden_special_tokens_are_the_rest(most):
    given = call()
    model = WithSpecial("self", given)
    (m,) = span_maps(*encoded(model, []), spans_of(special_apart), most, hide_special=True).maps
    shown = special_apart(130)[2:-1]
    A = all_weights(given)
    expected = grouped(A, shown, shown)
    np.testing.assert_allclose(m.to_special, 1 - expected.sum(axis=2).mean(axis=1), atol=CLOSE)
    if most > len(shown):
        np.testing.assert_allclose(m.weights, expected, atol=CLOSE)
        assert m.rows.start == 2
    else:
        assert m.weights.shape == (2, 4, 4)
    outlined = span_outline(*encoded(model, []), spans_of(special_apart), most, hide_special=True).maps[0]
    assert outlined.rows.is_same(m.rows)


@pytest.mark.slow
def test_of_a_long_input_no_more_is_made_than_its_spans(monkeypatch):
    """16,384 tokens, of which all weights of a head take 1 GiB. The weights of some rows are the oracle."""
    given, made = call(16_384, 16_384, n_heads=1, causal=True), []
    pool = maps_of_any_length.pool
    monkeypatch.setattr("mhaviz.analyses.span_maps.pool", lambda *a, **k: made.append(pool(*a, **k)) or made[0])
    (m,) = span_maps(*encoded(GivenModel("masked", given), []), spans_of(lambda n: runs(n, 90)), 512).maps
    spans = runs(16_384, 90)
    assert made[0].weights.shape == m.weights[None].shape == (1, 1, len(spans), len(spans))
    assert len(made) == 1
    query, key = (x[0, 0].double().numpy() for x in (given.query, given.key))
    for chosen in (0, 7, len(spans) // 2, len(spans) - 1):
        rows = np.array(spans[chosen])
        S = np.where(np.arange(len(key)) <= rows[:, None], given.scale * query[rows] @ key.T, -np.inf)
        A = np.exp(S - S.max(axis=1, keepdims=True))
        A /= A.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(m.weights[0, chosen], [A[:, list(k)].sum(axis=1).mean() for k in spans], atol=1e-6)
    assert m.hidden is not None
    assert m.hidden.sum() == math.comb(len(spans), 2)


def test_sums_that_do_not_fit_into_memory(monkeypatch):
    monkeypatch.setattr("mhaviz.devices.free_memory", lambda device: 1000)
    with pytest.raises(MhavizError, match="the map needs"):
        span_maps(*encoded(GivenModel("self", call()), []), spans_of(runs), 512)


def test_spans_that_overlap():
    with pytest.raises(ArgumentError, match="each in one of them"):
        span_maps(*encoded(GivenModel("self", call()), []), spans_of(lambda n: [range(5), range(4, n)]), 512)
