"""Maps by span: sums over keys and means over queries, beside numpy's own."""

from dataclasses import replace

import numpy as np
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.spans import Span, words
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, ROLLOUT, UNIFORM
from mhaviz.results.result import Source
from mhaviz.results.saved_form import describe, restore
from mhaviz.results.spans import SpanSide

TEXTS = ("[CLS]", " un", "done", " cats", " 😀 1/3", " 😀 2/3", " 😀 3/3", " r", "a", "n", ".", "[SEP]")
RUNS = ((0,), (1, 2), (3,), (4, 5, 6), (7, 8, 9), (10,), (11,))
TOKENS = Tokens(TEXTS, (0, 11))


def weights(seed=0, seen=None):
    A = np.random.default_rng(seed).random((2, len(TEXTS), len(TEXTS)))
    A = A if seen is None else A * seen
    return (A / A.sum(axis=2, keepdims=True)).astype(np.float32)


def grouped(A, runs=RUNS):
    """Sums over keys, means over queries, cell by cell in float64."""
    return np.array(
        [[[head[np.ix_(q, k)].sum(axis=1, dtype=np.float64).mean() for k in runs] for q in runs] for head in A]
    )


@pytest.fixture
def by_token():
    return AttentionMap(weights(), Axis(TOKENS), Axis(TOKENS))


def test_sums_over_keys_and_means_over_queries(by_token):
    found = by_token.by("word")
    np.testing.assert_allclose(found.weights, grouped(by_token.weights), atol=1e-7)
    np.testing.assert_allclose(found.row_sums, 1, atol=1e-6)
    assert found.queries == ("[CLS]", " undone", " cats", " 😀", " ran", ".", "[SEP]")
    assert found.columns.tokens.special == (0, 6)
    assert found.columns.tokens.counts == tuple(map(len, RUNS))
    assert found.has_spans
    assert found.is_whole
    assert not found.is_pooled


@pytest.mark.parametrize("quantity", [NORM, ROLLOUT])
def test_other_numbers_that_are_sums(by_token, quantity):
    A = by_token.weights if quantity is NORM else by_token.weights[:1]
    m = replace(by_token, weights=A, heads=(), quantity=quantity)
    np.testing.assert_allclose(m.by("word").weights, grouped(A), atol=1e-7)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: replace(m, quantity=UNIFORM), "sums of ratios to uniform attention have no meaning"),
        (lambda m: m.by("word"), "layer 0, self is of spans already, such as words; leave this out"),
        (lambda m: m.of_query("."), "expected a map of all tokens, to sum their weights, got some of them"),
        (
            lambda m: replace(m, weights=m.weights[:, :1, :1], rows=CELL, columns=CELL),
            "expected a map of all tokens, to sum their weights, got cells of several",
        ),
    ],
)
def test_sums_without_a_meaning(by_token, change, reason):
    with pytest.raises(ArgumentError, match=reason):
        change(by_token).by("word")


CELL = Axis(TOKENS, np.array([0, len(TEXTS)]))


def test_ratios_of_words_are_refused(by_token):
    with pytest.raises(ArgumentError, match="expected single tokens, got spans, such as words"):
        by_token.by("word").times_uniform()


def test_a_word_is_hidden_only_where_all_of_it_is():
    length = len(TEXTS)
    places = np.arange(length)
    window = (places <= places[:, None]) & (places > places[:, None] - 4)
    m = AttentionMap(weights(seen=window), Axis(TOKENS), Axis(TOKENS), "masked", reach=3)
    found = m.by("word")
    expected = np.array([[not window[np.ix_(q, k)].any() for k in RUNS] for q in RUNS])
    assert found.hidden is not None
    assert np.array_equal(found.hidden, expected)
    assert expected[3].tolist() == [True] + [False] * 3 + [True] * 3  # " undone" is seen in part by one of " 😀"


def test_fewer_queries_than_keys_are_the_last_ones():
    A = weights()[:, -5:]
    m = AttentionMap(
        A * np.tri(5, len(TEXTS), len(TEXTS) - 5, dtype=np.float32), Axis(TOKENS[7:]), Axis(TOKENS), "masked"
    )
    found = m.by("word")
    assert found.queries == (" ran", ".", "[SEP]")
    assert found.hidden.tolist() == [[False] * 5 + [True, True], [False] * 6 + [True], [False] * 7]


def test_a_choice_of_queries_and_heads(by_token):
    found = by_token.by("word").select((1,))
    one = found.of_query("ran")
    np.testing.assert_allclose(one.weights[0, 0], grouped(by_token.weights)[1, 4], atol=1e-7)
    assert one.rows.tokens.ranges == (((7, 10),),)
    np.testing.assert_allclose(by_token.mean().by("word").weights, by_token.by("word").mean().weights, atol=1e-7)


def test_files_say_which_tokens_are_a_word(by_token):
    tokens = replace(TOKENS, continued=(9,))
    m = replace(by_token, rows=Axis(tokens), columns=Axis(tokens))
    saved = describe(m)
    assert saved["continued_keys"] == (9,)
    assert restore(saved, m.weights).columns.tokens == tokens
    found = m.by("word")
    described = describe(found)
    assert described["key_token_ranges"] == tuple(((run[0], run[-1] + 1),) for run in RUNS)
    again = restore(described, found.weights)
    assert (again.rows.tokens, again.columns.tokens) == (found.rows.tokens, found.columns.tokens)
    assert not {"key_token_ranges", "continued_keys"} & set(describe(by_token))
    before = {name: value for name, value in described.items() if "token_ranges" not in name}
    assert len(before) == len(described) - 2
    assert restore(before, found.weights).keys == found.keys  # as an older version reads it


@pytest.mark.parametrize(
    "spans",
    [
        [[[0, 1]]],
        [[]] * 7,
        [[[2, 1]]] * 7,
        [[[0, 2], [1, 3]]] * 7,
        [[[-1, 1]]] * 7,
        [[[0.5, 1]]] * 7,
        [[[0, 2**40]]] * 7,
        3,
        [3] * 7,
    ],
)
def test_spans_that_cannot_be(by_token, spans):
    found = by_token.by("word")
    with pytest.raises(ValueError, match=r"token_ranges|Expected"):
        restore({**describe(found), "key_token_ranges": spans}, found.weights)


def test_tables_say_how_many_tokens_a_word_has(by_token):
    table = Attention(Source("s"), (by_token.by("word"),)).to_dataframe()
    assert list(table.columns[-4:]) == ["reduction", "query_tokens", "key_tokens", "weight"]
    row = table[(table["head"] == 1) & (table["query"] == " ran") & (table["key"] == " 😀")].iloc[0]
    assert (row.query_tokens, row.key_tokens, row.key_position) == (3, 3, 3)
    assert row.weight == pytest.approx(grouped(by_token.weights)[1, 4, 3])
    plain = Attention(Source("s"), (by_token,)).to_dataframe()
    assert not {"query_tokens", "key_tokens"} & set(plain.columns)


def spans_of_two_runs(tokens):
    return Span("ends", ((0, 2), (10, 12))), Span("middle", ((4, 7),))


def test_spans_of_several_runs_with_a_rest():
    side = SpanSide.of(TOKENS, spans_of_two_runs)
    x = weights()
    runs = (0, 1, 10, 11), (4, 5, 6)
    expected = grouped(x, runs)
    np.testing.assert_allclose(side.means(side.sums(x)), expected, atol=1e-7)
    cut = np.add.reduceat(x, side.edges[:-1], axis=2)
    rows = np.add.reduceat(side.runs.sums(cut), side.edges[:-1], axis=1) / np.diff(side.edges)[:, None]
    np.testing.assert_allclose(side.runs.sums(rows * side.shares[:, None], axis=1), expected, atol=1e-7)


@pytest.mark.parametrize("ranges", [((0, 2), (1, 3)), ((0, 13),), ((3, 3),)])
def test_spans_that_share_tokens_or_have_none(ranges):
    with pytest.raises(ArgumentError, match="expected spans of 12 tokens, each in one of them"):
        SpanSide.of(TOKENS, lambda tokens: tuple(Span("x", (one,)) for one in ranges))


def test_words_are_all_tokens():
    side = SpanSide.of(TOKENS, words)
    assert side.owners.tolist() == [i for i, run in enumerate(RUNS) for _ in run]
    assert SpanSide.of(TOKENS, words, hide_special=True).owners.tolist() == [-1, 0, 0, 1, 2, 2, 2, 3, 3, 3, 4, -1]
