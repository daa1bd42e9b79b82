"""Maps by span of two texts with other spans: numpy's own sums over all weights."""

from dataclasses import replace

import numpy as np
import pytest
from made import made_map
from rounding import rounding

import mhaviz
from mhaviz.analyses.difference import compare
from mhaviz.errors import MhavizError
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.results.sinks import sinks_at
from mhaviz.results.span_columns import SpansOfOne

CLOSE = rounding()
BEFORE = [("system", 1, 5), ("user", 5, 9), ("answer", 9, 12)]
AFTER = [("user", 1, 5), ("context", 5, 7), ("answer", 8, 10)]


def weights(length, seed, n_heads=3):
    A = np.tril(np.random.default_rng(seed).gamma(0.5, size=(n_heads, length, length)) + 1e-3)
    return (A / A.sum(axis=2, keepdims=True)).astype(np.float32)


def text(spans, seed, sinks=(0,)):
    """A text of the length of its spans, by span; the first token is a sink."""
    length = spans[-1][-1]
    words = tuple(f"w{i}" for i in range(length))
    m = made_map(words, words, weights(length, seed), "masked")
    by = SpanChoice.of([{"name": name, "tokens": [start, end]} for name, start, end in spans])
    return Attention(Source("s"), (replace(m, sinks=sinks_at(sinks)).by(by),))


def renamed(axis, **names):
    return Axis(Tokens(tuple(names.get(name, name) for name in axis.tokens.texts), ranges=axis.tokens.ranges))


def sums(spans, seed, query):
    """Weight of the queries of a span on each other span, from all weights."""
    A = weights(spans[-1][-1], seed).astype(np.float64)
    _, begin, end = next(span for span in spans if span[0] == query)
    rows = A[:, begin:end].mean(axis=1)
    named = {name: rows[:, start:stop].sum(axis=1) for name, start, stop in spans}
    return {**named, "(rest)": rows[:, 1:].sum(axis=1) - sum(named.values()), "w0": rows[:, 0]}


def divergence(p, q):
    m = (p + q) / 2
    terms = [np.where(x > 0, x * np.log2(np.where(x > 0, x, 1) / m), 0).sum(axis=0) / 2 for x in (p, q)]
    return sum(terms)


@pytest.mark.parametrize("query", ["answer", None])
def test_spans_are_matched_by_name(query):
    sides = [text(BEFORE, 0), text(AFTER, 1)]
    before, after = (side.of_query(query) if query else side for side in sides)
    (m,) = mhaviz.diff(before, after).maps
    assert m.change.keys == ("system", "user", "context", "answer", "(rest)", "w0")
    rows = ("answer",) if query else ("user", "answer")
    assert m.change.queries == rows
    bits = []
    for row, name in enumerate(rows):
        a, b = (sums(spans, seed, name) for spans, seed in ((BEFORE, 0), (AFTER, 1)))
        p, q = (np.array([of.get(key, np.zeros(3)) for key in m.change.keys]).clip(1e-300) for of in (a, b))
        np.testing.assert_allclose(m.change.weights[:, row], (q - p).T, atol=CLOSE)
        bits.append(divergence(p, q))
    np.testing.assert_allclose(m.divergence, np.mean(bits, axis=0), atol=1e-5)
    own = () if query else ("system",)
    assert m.only == (
        SpansOfOne(own, ("system",), ()),
        SpansOfOne(() if query else ("context",), ("context",), ("(rest)",)),
    )


def test_uniform_attention_gives_nothing_to_a_span_that_is_not_there():
    before, after = text(BEFORE, 0), text(AFTER, 1)
    (m,) = compare(before, after).maps
    for side, whole, absent in zip(m.sides, (before[0], after[0]), (2, 0), strict=True):
        assert not side.chance[..., absent].any()
        assert np.isnan(side.chance[..., 4:]).all(), "of the rest and sinks it is not known, here or there"
        for name in ("user", "answer"):
            row, own = m.change.queries.index(name), whole.queries.index(name)
            for key in (j for j in range(4) if j != absent):
                place = whole.keys.index(side.keys[key])
                np.testing.assert_array_equal(side.chance[:, row, key], whole.chance[:, own, place])
                np.testing.assert_array_equal(side.weights[:, row, key], whole.weights[:, own, place])
        assert side.columns.tokens.counts[absent] == 0


def test_a_sink_of_one_text_alone_is_part_of_its_span_in_both():
    before, after = text(BEFORE, 0), text(BEFORE, 0, (0, 6))
    (m,) = compare(before, after).maps
    assert m.only == (SpansOfOne((), (), ()), SpansOfOne((), (), ("w6",)))
    assert m.change.keys == ("system", "user", "answer", "w0")
    np.testing.assert_allclose(m.change.weights, 0, atol=CLOSE)
    np.testing.assert_allclose(m.divergence, 0, atol=CLOSE)
    np.testing.assert_array_equal(m.sides[0].chance, before[0].chance)
    are_seen = before[0].weights[..., :3] > 0
    assert np.isnan(m.sides[1].chance[..., :3][are_seen]).all(), "as a mask hides other keys from each query"
    assert not m.sides[1].chance[..., :3][~are_seen].any()
    assert m.sides[1].are_apart.tolist() == [False, False, False, True]


@pytest.mark.parametrize("sinks", [(0, 5), (0, 8), (0, 6, 7), (6,), (0, 12), (0, 9, 10, 11)])
def test_uniform_attention_over_a_sink_that_is_part_of_its_span(sinks):
    """Also at the end of a span, in the rest, and of a span that is nothing but sinks."""
    A = weights(14, 0) + weights(14, 1).swapaxes(1, 2)
    A /= A.sum(axis=2, keepdims=True)
    words = tuple(f"w{i}" for i in range(14))
    whole, by = made_map(words, words, A, "self"), [{"name": name, "tokens": [*ends]} for name, *ends in BEFORE]
    one, other = (Attention(Source("s"), (replace(whole, sinks=sinks_at(keys)).by(by),)) for keys in (sinks, (0,)))
    (m,) = compare(one, other).maps
    common = [0] if 0 in sinks else []
    spans = {name: range(start, end) for name, start, end in BEFORE}
    keys = [*spans.values(), [i for i in (0, 12, 13) if i not in common], *[common] * bool(common)]
    assert m.change.keys == (*spans, "(rest)", *["w0"] * bool(common))
    for row, queries in enumerate(spans.values()):
        given = A[:, queries].astype(np.float64).mean(axis=1)
        free = 1 - given[:, common].sum(axis=1)
        for side in m.sides:
            mass = np.stack([given[:, list(those)].sum(axis=1) for those in keys], axis=1)
            np.testing.assert_allclose(side.weights[:, row], mass, atol=CLOSE)
            even = np.outer(free, [len(those) for those in spans.values()]) / (14 - len(common))
            np.testing.assert_allclose(side.chance[:, row, :3], even, rtol=1e-5)


@pytest.mark.parametrize(("sinks", "others", "common"), [((6,), (7,), ()), ((6, 7), (7,), (7,)), ((5,), (5,), (5,))])
def test_sinks_of_one_name_are_told_apart_by_their_places(sinks, others, common):
    sides = []
    for keys in (sinks, others):
        m = made_map(("w",) * 12, ("w",) * 12, weights(12, 0), "masked")
        by = [{"name": name, "tokens": [*ends]} for name, *ends in BEFORE]
        sides.append(Attention(Source("s"), (replace(m, sinks=sinks_at(keys)).by(by),)))
    (m,) = compare(*sides).maps
    assert m.change.keys == (*(name for name, *_ in BEFORE), "(rest)", *["w"] * len(common))
    np.testing.assert_allclose(m.change.weights, 0, atol=CLOSE)


def test_a_file_that_does_not_tell_the_span_of_a_sink():
    def older(attention):
        return replace(attention, maps=tuple(replace(m, apart=None) for m in attention.maps))

    (m,) = compare(text(BEFORE, 0), older(text(BEFORE, 0, (0, 6, 7)))).maps
    np.testing.assert_allclose(m.change.weights, 0, atol=CLOSE)
    with pytest.raises(
        MhavizError, match="got 'w5', a sink in one text alone, and it is not known which span it is in"
    ):
        compare(text(BEFORE, 0), older(text(BEFORE, 0, (0, 5))))


def test_two_models_over_one_text():
    before, after = text(BEFORE, 0), text(BEFORE, 1)
    (m,) = compare(before, after, fail_above=1.0).maps
    np.testing.assert_array_equal(m.change.weights, after[0].weights - before[0].weights)
    assert m.only == (SpansOfOne((), (), ()),) * 2


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        (AFTER, "query 0 is 'system' of 4 tokens in the first and 'user' of 4 tokens in the second"),
        ([*BEFORE[:2], ("answer", 9, 13)], "query 2 is 'answer' of 3 tokens in the first and 'answer' of 4 tokens"),
    ],
)
def test_a_limit_is_for_the_same_spans(after, difference):
    with pytest.raises(
        MhavizError, match=f"expected the same spans and sinks, as a limit is for one text, but {difference}"
    ):
        compare(text(BEFORE, 0), text(after, 1), fail_above=1.0)


def test_no_row_in_both():
    with pytest.raises(MhavizError, match="a span of queries that both have, got 'answer' in the first and 'user' in"):
        compare(text(BEFORE, 0).of_query("answer"), text(AFTER, 1).of_query("user"))


def test_long_names_are_cut_within_their_quotes():
    (m,) = text(BEFORE, 0)
    names = {name: f"{name}: {'the c in the second; ' * 9}" for name in ("system", "user", "answer")}
    long = Attention(Source("s"), (replace(m, rows=renamed(m.rows, **names), columns=renamed(m.columns, **names)),))
    with pytest.raises(MhavizError) as error:
        compare(long, text(AFTER, 1))
    assert "got 'system: the c in the second; …" in str(error.value)
    assert str(error.value).count("'") == 12


def test_a_map_of_one_query_is_compared_with_that_of_all():
    """Of the same text, so that nothing is in one of them alone."""
    whole = text(BEFORE, 0)
    for sides in ((whole, whole.of_query("user")), (whole.of_query("user"), whole)):
        (m,) = compare(*sides).maps
        assert m.change.queries == ("user",)
        assert m.spans_of_one(0) == m.spans_of_one(1) == ()


def test_which_of_several_spans_of_one_name_is_not_known():
    (m,) = text(BEFORE, 0)
    rows, columns = (renamed(axis, system="user") for axis in (m.rows, m.columns))
    twice = Attention(Source("s"), (replace(m, rows=rows, columns=columns),))
    with pytest.raises(MhavizError, match="got 'user' 2 times in the first and 1 in the second; name the spans"):
        compare(twice, text(AFTER, 1))
    (same,) = compare(twice, twice).maps
    assert same.change.keys[:3] == ("user", "user", "answer")
    assert not same.change.weights.any()


def test_sinks_of_one_name_are_summed_in_a_mean_over_texts():
    """Each has its column where all texts have the same; none is lost where they have others."""
    (m,), (other,) = text(BEFORE, 0, (0, 6, 7)), text(BEFORE, 1)
    texts = (
        replace(m, columns=renamed(m.columns, w6=".", w7="."), sentence=0),
        replace(other, sentence=1),
    )
    mean = Attention(Source("s"), texts).mean("sentences")[0]
    assert mean.keys == ("system", "user", "answer", "w0", ".")
    np.testing.assert_allclose(mean.row_sums, 1, atol=CLOSE)
