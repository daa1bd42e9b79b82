"""Weights by span beside uniform attention: the rule of the definition, in numpy's own sums."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import made_map, remade

from mhaviz.errors import ArgumentError
from mhaviz.inputs.spans import REST
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.results.saved_form import describe, restore
from mhaviz.results.sinks import sinks_at
from mhaviz.results.span_numbers import ApartKey
from mhaviz.views.data import write_json

WORDS = tuple(f" w{i}" for i in range(20))
SPANS = [
    {"name": "a", "tokens": [1, 4]},
    {"name": "b", "tokens": [[5, 8], [14, 15]]},
    {"name": "c", "tokens": [16, 20]},
]
OWNERS = np.array([-1, 0, 0, 0, -1, 1, 1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 2, 2, 2, 2])


def rows(n_heads=3, length=20, masked=True, seed=0, sink=0.0):
    """Random rows of weights, of which the first key takes a share from every query."""
    A = np.random.default_rng(seed).gamma(0.3, size=(n_heads, length, length)) + 1e-6
    A = np.tril(A) if masked else A
    A[:, :, 0] = 1e-6
    A /= A.sum(axis=2, keepdims=True)
    A *= 1 - sink
    A[:, :, 0] += sink
    return A


def by_definition(A, masked, sinks):
    """Mass and chance of the spans, as the docstring of ``SpanSums`` has them, one query at a time."""
    n_heads, length, _ = A.shape
    mass, chance = np.zeros((2, n_heads, 3, 3))
    free = ~np.isin(np.arange(length), sinks)
    for p in range(3):
        queries = np.flatnonzero(p == OWNERS)
        for i in queries:
            seen = free & ((np.arange(length) <= i) | (not masked))
            given_free = A[:, i, free].sum(axis=1)
            for t in range(3):
                keys = (t == OWNERS) & free
                mass[:, p, t] += A[:, i, keys].sum(axis=1) / len(queries)
                chance[:, p, t] += given_free * (keys & seen).sum() / seen.sum() / len(queries)
    return mass, chance


def attention_of(A, masked=True, **more):
    kind = "masked" if masked else "self"
    return Attention(Source(""), (made_map(WORDS, WORDS, A.astype(np.float32), kind, **more),))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("sink", [0.0, 0.6])
def test_mass_and_chance_are_those_of_the_definition(masked, sink):
    A = rows(masked=masked, sink=sink)
    (found,) = attention_of(A, masked).by(SPANS)
    mass, chance = by_definition(A, masked, [0] if sink else [])
    assert found.queries == ("a", "b", "c")
    assert found.keys == ("a", "b", "c", REST, *(WORDS[:1] if sink else ()))
    np.testing.assert_allclose(found.weights[..., :3], mass, atol=1e-6)
    np.testing.assert_allclose(found.chance[..., :3], chance, atol=1e-6)
    assert np.isnan(found.chance[..., 3:]).all()
    np.testing.assert_allclose(found.weights.sum(axis=2), 1, atol=1e-6)
    assert bool(found.sinks) == bool(sink)


@given(st.integers(0, 1000), st.booleans(), st.sampled_from([0.0, 0.4]))
def test_a_uniform_head_has_the_weight_of_chance_everywhere(seed, masked, sink):
    """However long a span is, how much of it is seen, and whatever the sink takes."""
    ends = sorted(np.random.default_rng(seed).choice(np.arange(2, 20), 3, replace=False).tolist())
    spans = [{"name": str(end), "tokens": [start, end]} for start, end in zip([1, *ends], ends, strict=False)]
    A = np.tril(np.ones((1, 20, 20))) if masked else np.ones((1, 20, 20))
    A[:, 1:, 0] = 1e-9
    A /= A.sum(axis=2, keepdims=True)
    A[:, 1:] *= 1 - sink
    A[:, 1:, 0] += sink
    m = made_map(WORDS, WORDS, A.astype(np.float32), "masked" if masked else "self", sinks=sinks_at([0]))
    found = m.by(spans)
    n = len(spans)
    np.testing.assert_allclose(found.weights[..., :n], found.chance[..., :n], atol=1e-6)


def test_the_lookback_ratio_is_that_of_the_paper():
    """Mean weight on the context / (the same + mean weight on the new tokens), for each new token."""
    A = rows(sink=0.5)
    (found,) = attention_of(A).by([{"name": "prompt", "tokens": [0, 15]}, {"name": "answer", "tokens": [15, 20]}])
    ratios = []
    for i in range(15, 20):
        context, new = A[:, i, :15].mean(axis=1), A[:, i, 15 : i + 1].mean(axis=1)
        ratios.append(context / (context + new))
    np.testing.assert_allclose(found.lookback[:, 1], np.mean(ratios, axis=0), atol=1e-6)
    assert np.isnan(found.lookback[:, 0]).all()  # nothing is before it
    (seen_by_all,) = attention_of(rows(masked=False), False).by(SPANS)
    assert np.isnan(seen_by_all.lookback).all()


def test_queries_of_a_decoder_with_a_cache_look_back_from_where_they_are():
    A = rows(sink=0.5)
    m = made_map(WORDS[15:], WORDS, A[:, 15:].astype(np.float32), "masked", sinks=sinks_at([0]))
    found = m.by([{"name": "all", "tokens": [15, 20]}])
    whole = attention_of(A).by([{"name": "all", "tokens": [15, 20]}])[0]
    np.testing.assert_allclose(found.lookback, whole.lookback, atol=1e-6)
    np.testing.assert_allclose(found.chance, whole.chance, atol=1e-6)
    with pytest.raises(ArgumentError, match="got those from token 15 on, which are in none"):
        m.by([{"name": "prompt", "tokens": [0, 15]}])


def test_a_span_that_begins_in_a_cache_looks_back_to_what_is_before_it():
    """The keys from 6 on have been written, though the queries are those from 10 on; some keys are sinks."""
    A = rows()
    A[:, 10:, 6] += 0.3
    A /= A.sum(axis=2, keepdims=True)
    m = made_map(WORDS[10:], WORDS, A[:, 10:].astype(np.float32), "masked", sinks=sinks_at([0, 6]))
    found = m.by([{"name": "prompt", "tokens": [0, 6]}, {"name": "answer", "tokens": [6, 20]}])
    ratios = []
    for i in range(10, 20):
        context, new = A[:, i, :6].mean(axis=1), A[:, i, 6 : i + 1].mean(axis=1)
        ratios.append(context / (context + new))
    np.testing.assert_allclose(found.lookback[:, 0], np.mean(ratios, axis=0), atol=1e-6)
    for tokens in ([[2, 5], [12, 20]], [0, 20]):  # two runs, of which one has the queries; nothing is before it
        assert np.isnan(m.by([{"name": "answer", "tokens": tokens}]).lookback).all()


def test_a_span_of_a_sink_alone_has_no_column():
    A = rows(sink=0.6)
    (found,) = attention_of(A).by([{"name": "begin", "tokens": [0, 1]}, *SPANS])
    assert found.queries == ("begin", "a", "b", "c")
    assert found.keys == ("a", "b", "c", REST, " w0")


def test_weights_that_may_be_hidden_are_refused():
    A = rows(masked=False)
    A[:, 7, 3] = 0
    with pytest.raises(ArgumentError, match="got none of query 7 on key 3, which a mask may hide"):
        attention_of(A, False).by(SPANS)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda a: a.times_uniform(), "sums of ratios to uniform attention have no meaning"),
        (lambda a: a.by(SPANS), "is of spans already"),
        (lambda a: a.of_query(3), "expected a map of all tokens"),
    ],
)
def test_what_has_no_spans(changed, reason):
    with pytest.raises(ArgumentError, match=reason):
        changed(attention_of(rows())).by(SPANS)


def test_a_rollout_is_not_shown_beside_uniform_attention():
    m = remade(attention_of(rows(1))[0], rollout=True)
    with pytest.raises(ArgumentError, match="expected weights, to show them beside those of uniform attention"):
        m.by(SPANS)


def test_spans_are_found_again_in_files():
    (found,) = attention_of(rows(sink=0.6)).by(SPANS)
    chosen = found.of_query("b")
    stream = io.StringIO()
    write_json(describe(chosen), stream)
    description = json.loads(stream.getvalue())
    again = restore(description, chosen.weights)
    np.testing.assert_array_equal(again.chance, chosen.chance)
    np.testing.assert_array_equal(again.lookback, chosen.lookback)
    assert again.apart == chosen.apart == tuple(ApartKey(column, (REST, 0)) for column in (3, 4))
    with pytest.raises(ValueError, match="apart: expected columns of"):
        restore({**description, "apart": [[99, None]]}, chosen.weights)
    for chance, reason in (([[[0.5]]], "expected shape"), ((-chosen.chance).tolist(), "expected weights from 0 on")):
        with pytest.raises(ValueError, match=f"chance: {reason}"):
            restore({**description, "chance": chance}, chosen.weights)


def test_tables_have_the_weight_of_uniform_attention():
    found = attention_of(rows(sink=0.6)).by(SPANS)
    frame = found.to_dataframe()
    assert [*frame.columns[-3:]] == ["key_tokens", "chance", "weight"]
    np.testing.assert_array_equal(frame["chance"], found[0].chance.ravel())
    chosen = found.select(head=1).of_query("c")[0]
    np.testing.assert_array_equal(chosen.chance[0, 0], found[0].chance[1, 2])
    np.testing.assert_array_equal(chosen.lookback, found[0].lookback[1:2, 2:])
