"""What a word looks at, beside transformers in float64 and beside loops."""

import io
import json
import re
import tracemalloc
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from animal import ANIMAL, GROUPS
from hypothesis import given
from hypothesis import strategies as st
from made import made_map
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle
from rich.cells import cell_len
from rich.console import Console

from mhaviz.errors import ArgumentError
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.answer import answer_page, mean_text, not_ranked_text, query_names, title_text
from mhaviz.pages.blocks import Bars, Drawn, Shaded
from mhaviz.pages.colormaps import SINK
from mhaviz.pages.labels import placed
from mhaviz.pages.registry import page_of
from mhaviz.results.answer import lacking_text, weights_of
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.views.colours import palette
from mhaviz.views.figure.sheet import QUIET
from mhaviz.views.showing import figures_of
from mhaviz.views.style import Style
from mhaviz.views.terminal.page import PageView

IT, TIRED = 8, 11
WORDS = ("[CLS]", "The", *(f" {word}" for word in ANIMAL[:-1].split()[1:]), ".", "[SEP]")
CLOSE = 1e-5


@pytest.mark.parametrize(("query", "word"), [("it", IT), ("#10", IT), (10, IT), ("didn't", 3), ("#4", 3), ("'", 3)])
def test_a_word_is_answered_as_transformers_has_it(animal, by_hand, query, word):
    (look,) = animal.answer(query).looks
    assert look.query == word
    np.testing.assert_allclose(look.mean, by_hand[:, :, word].mean((0, 1)), atol=CLOSE)
    of_words = by_hand[:, :, word].mean((0, 1))[1:-1]
    np.testing.assert_allclose(look.shares[1:-1], of_words / of_words.sum(), atol=CLOSE)
    assert look.aside.tolist() == [True, *[False] * 12, True]
    assert len(look.heads) == 72
    for one in look.heads:
        a = by_hand[one.layer, one.head]
        np.testing.assert_allclose(one.weights, a[word], atol=CLOSE)
        assert one.target == 1 + int(np.argmax([0 if j == word else a[word, j] for j in range(1, 13)]))
        others = [i for i in range(1, 13) if i != word]
        along = [a[i, i + one.target - word] for i in others if 1 <= i + one.target - word < 13]
        giving = [a[i, one.target] for i in others if i != one.target]
        assert (
            one.same_offset == pytest.approx(np.mean(along), abs=CLOSE) if len(along) >= 3 else one.same_offset is None
        )
        assert one.same_word == pytest.approx(np.mean(giving), abs=CLOSE)


def test_what_it_looks_at(animal):
    (look,) = animal.answer("it").looks
    assert title_text(look) == "“it” looks at “tired” (L2 H1 0.71) and “animal” (L3 H1 0.68)"
    assert mean_text(look) == (
        "mean of 72 heads, of the weight on words: “tired” 15%, “didn't” (3 pieces) 12%, “animal” 12%; [CLS] takes "
        "36%, [SEP] takes 3% of all their weight"
    )
    assert not_ranked_text(look) == (
        "not ranked: L0 H2 “because” 1.00 (previous word, usually 0.93), L1 H8 “was” 0.75 (next word, usually 0.58), "
        "L5 H11 “animal” 0.67 (other words give it 0.34)"
    )


def test_json_tells_indices_of_words_from_positions_of_tokens(animal):
    (document,) = animal.answer("it").to_dict()["answers"]
    assert document["queries"] == document["keys"] == WORDS
    assert document["query"] == WORDS[document["query_index"]] == " it"
    assert [WORDS[j] for j in document["aside_indices"]] == ["[CLS]", "[SEP]"]
    expected = tuple(((group[0], group[-1] + 1),) for group in GROUPS)
    assert document["query_token_ranges"] == document["key_token_ranges"] == expected
    best = document["heads"][0]
    assert best["looks_at"] == WORDS[best["looks_at_index"]] == " tired"
    assert best["weights"][best["looks_at_index"]] == best["weight"] == max(best["weights"])


@pytest.mark.parametrize("layer", range(6))
def test_a_title_says_of_no_head_what_another_denies(animal, by_hand, layer):
    attention = animal.select(layer=layer)
    for word in range(1, 13):
        largest = max(by_hand[layer, :, word, j].max() for j in range(1, 13) if j != word)
        title = title_text(attention.answer(GROUPS[word][0]).looks[0])
        if "at no other word strongly" in title:
            assert f"at most {largest:.2f}, at" in title
            assert largest < 0.3
        else:
            assert largest >= 0.3


def made(weights, keys="abcdefg", queries=None, kind="self", **more):
    weights = np.asarray(weights, np.float32)
    return made_map(queries or keys, keys, weights / weights.sum(-1, keepdims=True), kind, **more)


def result(*maps, **details):
    return Attention(Source("made", details), maps)


def answered(*maps, query="c", **details):
    return result(*maps, **details).answer(query)


def runs(data, n):
    """Texts of n tokens in words, and the words' tokens."""
    begins = [0, *sorted(data.draw(st.sets(st.integers(1, n - 1), min_size=n // 2)))]
    words = [range(i, j) for i, j in zip(begins, [*begins[1:], n], strict=True)]
    return [" " * (i in begins) + chr(97 + i) for i in range(n)], words


@given(st.data())
def test_what_others_give_is_a_mean_over_those_that_see_it(data):
    n, kind = data.draw(st.integers(8, 12)), data.draw(st.sampled_from(["self", "masked", "cross"]))
    tokens, words = runs(data, n)
    word = data.draw(st.integers(3 * (kind == "masked"), len(words) - 1))
    a = np.random.default_rng(data.draw(st.integers(0, 99))).dirichlet(np.full(n, 0.3), (2, n)) + 1e-3
    m = made(
        np.tril(a) if kind == "masked" else a, tokens, [t.upper() for t in tokens] if kind == "cross" else None, kind
    )
    (look,) = answered(m, query=words[word][0]).looks
    assert look.query == word
    numbers = range(len(words))
    for one in look.heads:
        w = m.weights[one.head].astype(float)
        sees = {(i, j) for i in numbers for j in numbers if kind != "masked" or words[j][0] <= words[i][-1]}
        of = {(i, j): sum(w[q, k] for q in words[i] for k in words[j]) / len(words[i]) for i, j in sees}
        own = {(i, i) for i in numbers if kind != "cross"}
        assert (word, one.target) in sees - own
        assert one.weight == pytest.approx(max(of[pair] for pair in sees - own if pair[0] == word))
        there = [of[pair] for pair in sees - own if pair[0] != word and pair[1] == one.target]
        pairs = {(i, i + one.target - word) for i in numbers if i != word and kind != "cross"} & sees
        known = [np.mean(x) for x in (there, [of[pair] for pair in pairs]) if len(x) >= 3]
        assert [x for x in (one.same_word, one.same_offset) if x is not None] == pytest.approx(known)
        assert one.is_ranked == (known != [] and one.weight > 2 * max(known))
    assert look.shares.sum() == pytest.approx(1)
    answer_page(answered(m, query=words[word][0]))


def test_what_too_few_words_give_is_unknown():
    answer = answered(made(np.ones((1, 4, 4)) + 9 * np.eye(4)[3], "abcd"))
    (one,) = answer.looks[0].heads
    assert (one.same_offset, one.same_word, one.is_ranked) == (None, None, False)
    page = answer_page(answer)
    assert page.title == "“c” looks at “d” (L0 H0 0.77); too few other words to compare it with"
    assert "–" in {bar.note for block in page.blocks if isinstance(block, Bars) for bar in block.bars}
    assert json.loads(json.dumps(answer.to_dict()["answers"][0]["heads"][0]["same_offset"])) is None


def test_a_word_with_a_piece_that_is_a_sink_is_a_word():
    keys = ["?", "a", " b", " c", " d", " e", " f"]
    sunk = FLAT + 50 * (np.arange(7) == 0)
    (look,) = answered(made(sunk, keys), query="c").looks
    assert look.keys.texts == ("?", "a", " b", " c", " d", " e", " f")
    assert look.aside.tolist() == [True, *[False] * 6]
    joined = ["d", "'", "a", " b", " c", " d", " e", " f"]
    (look,) = answered(made(np.ones((1, 8, 8)) + 50 * (np.arange(8) == 0), joined), query="c").looks
    assert look.keys.texts[0] == "d'a"
    assert not look.aside.any()


def test_an_answer_reads_what_it_needs():
    n = 600
    attention = Attention(Source("made"), (made(np.ones((2, n, n)), [f" w{i}" for i in range(n)]),))
    assert attention.sinks == (None,)
    tracemalloc.start()
    try:
        attention.answer("w300")
        assert tracemalloc.get_traced_memory()[1] < n * n * 4  # of a head in float32
    finally:
        tracemalloc.stop()


FLAT = np.ones((1, 7, 7))
WEAK = 1.5 * (np.arange(49).reshape(7, 7) == 2 * 7 + 5)  # c looks at f
STRONG = FLAT + 15 * WEAK


@pytest.mark.parametrize(
    ("weights", "details", "title"),
    [
        (STRONG, {}, "“c” looks at “f” (L0 H0 0.80)"),
        (STRONG, {"kind": RANDOM_WEIGHTS}, "“c” looks at “f” (L0 H0 0.80), by chance: the weights are random"),
        (FLAT, {}, "“c” looks at no other word strongly: at most 0.14, at “a” in L0 H0"),
        (
            np.concatenate([FLAT + WEAK, FLAT + 15 * (np.arange(7) == 4)]),
            {},
            "“c” looks strongly only where other words look, too: at “e” (L0 H1 0.73)",
        ),
        (FLAT + WEAK, {}, "“c” looks at no other word strongly: at most 0.29, at “f” in L0 H0"),
    ],
)
def test_titles(weights, details, title):
    assert answer_page(answered(made(weights), **details)).title == title


def test_words_that_occur_twice_have_their_positions():
    keys = ["He", " did", "n't", " see", " it", " but", " it", "."]
    strong = np.pad(STRONG, ((0, 0), (0, 1), (1, 0)), constant_values=1)  # of the second piece, 23.5 of 30.5 to "it"
    page = answer_page(answered(made(strong, keys), query="n't"))
    assert page.title == "“didn't” looks at “it #6” (L0 H0 0.45)"
    shaded = next(block for block in page.blocks if hasattr(block, "words"))
    assert [word.text for word in shaded.words] == ["He", "didn't", "see", "it", "but", "it #6", "."]


TWICE = ["[CLS]", "The", " la", "mp", ",", " the", " la", "mp", " of", " the", " house", ",", " #", "3", "[SEP]"]
FIRSTS = (0, 1, 2, 4, 5, 6, 8, 9, 10, 11)  # tokens of its first words


@pytest.mark.parametrize("by", [None, "word"])
def test_a_word_is_accepted_as_pictures_write_it(by):
    weights = np.random.default_rng(0).dirichlet(np.full(15, 0.3), (2, 15))
    given = result(made(weights, TWICE, special_keys=(0, 14), special_queries=(0, 14)))
    given = given.by(by) if by else given
    words = [" lamp", ",", " the", " lamp", " of", " the", " house", ","]
    for number, word in enumerate(words, 2):
        position = number if by else FIRSTS[number]
        (look,) = given.answer(position).looks
        written = query_names(look)[look.query]
        assert written == word.strip() + f" #{position}" * (words.count(word) > 1)
        for label in (written, f"“{written}”", placed(look.queries, look.has_spans, positions=True)[number]):
            assert given.answer(label).looks[0].query == number
        below = str(position).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
        assert given.answer(f"{word}{below} (2)").looks[0].query == number
        assert given.lines(written).texts[0].shown == (number,)
    with pytest.raises(ArgumentError, match=r"expected a word, .* got 'lamp #9'; try 'lamp'"):
        given.answer("lamp #9")


ODD = [
    "I",
    " paid",
    " 3",
    ".",
    "50",
    ",",
    " (",
    "me",
    "@",
    "ex",
    ".",
    "org",
    ")",
    " c",
    " c",
    "+",
    "+",
    " 🙂 [UNK]",
    "!",
]


@pytest.mark.parametrize(
    ("query", "word", "n_words"),
    [
        ("3.50", " 3.50", 17),
        ("“3.50” (3)", " 3.50", 17),
        ("me@ex.org", "me@ex.org", 15),
        ("Me@Ex.ORG", "me@ex.org", 15),
        ("(me@ex.org),", None, None),
        ("c++", " c++", 17),
        ("🙂", " 🙂 [UNK]", 19),
        ("🙂 [UNK]", " 🙂 [UNK]", 19),
        ("🙂!", " 🙂! [UNK]", 18),
        ("ex", "ex", 19),
        ("50", "50", 19),
        ("ex.org", None, None),
        ("#3", ".", 19),
    ],
)
def test_what_stands_between_blanks_is_a_word(query, word, n_words):
    given = result(made(np.random.default_rng(0).dirichlet(np.ones(19), (1, 19)), ODD))
    if word is None:
        with pytest.raises(ArgumentError, match="expected a word"):
            given.answer(query)
        return
    (look,) = given.answer(query).looks
    assert (look.word, len(look.queries), len(look.keys)) == (word, n_words, n_words)
    assert given.of_query("🙂").maps[0].queries == (" 🙂 [UNK]",)
    kept = weights_of(given, query).maps[0]
    assert (kept.queries, kept.weights.shape) == ((word,), (1, 1, n_words))
    start, end = look.queries.ranges[look.query][0]
    mean = given.maps[0].weights[0, start:end].mean(0)
    expected = [mean[slice(*of_key[0])].sum() for of_key in look.keys.ranges]
    np.testing.assert_allclose(look.heads[0].weights, expected, atol=CLOSE)
    np.testing.assert_allclose(kept.weights[0, 0], expected, atol=CLOSE)


def test_what_has_two_readings_is_refused_with_the_positions():
    keys = ["3", ".", "50", " a", " 3", ".", "50", " c", " c", "+", "+"]
    given = result(made(np.full((1, 11, 11), 1 / 11), keys))
    with pytest.raises(ArgumentError, match=r"'3.50' occurs 2 times; give a position: '3.50 #0', '3.50 #4'$"):
        given.answer("3.50")
    assert given.answer("3.50 #4").looks[0].queries.ranges[2] == ((4, 7),)
    with pytest.raises(ArgumentError, match=r"'c' occurs 2 times; give a position: '#7', '#8'$"):
        given.answer("c")
    pieces = "#0 '3', #1 '.', #2 '50', or #4 '3', #5 '.', #6 '50'; give one of these$"
    with pytest.raises(ArgumentError, match=f"expected a token, got '3.50', a word that occurs 2 times: {pieces}"):
        given.of_query("3.50")
    with pytest.raises(ArgumentError, match=f"expected a word, got '3.50', 3 words that occur 2 times: {pieces}"):
        given.by("word").answer("3.50")


def test_case_alone_tells_no_other_word_from_what_stands_between_blanks():
    keys = ["I", " like", " C", " code", " but", " C", "+", "+", " more", " than", " c"]
    given = result(made(np.full((1, 11, 11), 1 / 11), keys))
    assert given.answer("c++").looks[0].word == " C++"


@pytest.mark.parametrize("n_times", [1, 2, 3])
def test_what_stands_so_in_the_text_is_no_label(n_times):
    """However often the text has the same without its quotation marks."""
    keys = ["a", " b", " c", ' "', "3", ".", "50", '"', *[" 3", ".", "50"] * n_times]
    given = result(made(np.full((1, len(keys), len(keys)), 1 / len(keys)), keys))
    assert given.answer('"3.50"').looks[0].word == ' "3.50"'


def test_a_hint_is_of_the_text_that_has_the_word_otherwise():
    plain, split = (["a", " b", " c", *more, " d"] for more in ([" e", " f", " g"], [" 3", ".", "50"]))
    weights = np.full((1, 7, 7), 1 / 7)
    given = result(*(made(weights, keys, sentence=i) for i, keys in enumerate((plain, split))))
    with pytest.raises(ArgumentError, match=r"a word of 3: #3 '3', #4 '\.', #5 '50'"):
        given.of_query("3.50")
    queries = [list("uvwxyz7")] * 2
    sides = zip(queries, (plain, [*plain[:-1], " cat"]), strict=True)
    maps = (replace(made_map(rows, keys, weights, "cross"), sentence=i) for i, (rows, keys) in enumerate(sides))
    given = result(*maps)
    for ask in (given.answer, given.of_query):
        with pytest.raises(ArgumentError, match="got 'cat', which is a key; queries are #0 'u'"):
            ask("cat")


def test_a_text_without_a_number_is_counted_among_those_that_lack_a_word():
    keys = [list("abcdef"), list("abxdef")]
    weights = np.full((1, 6, 6), 1 / 6)
    given = result(*(made(weights, one, sentence=i) for one, i in zip(keys, (0, None), strict=True)))
    assert lacking_text(given, "c") == "`query`: 'c' is not in 1 of 2 texts"


def test_a_text_with_a_label_is_that_text():
    keys = ["lamp", " lamp", " lamp #1", " a", " b", " c", " d"]
    assert answered(made(STRONG, keys), query="lamp #1").looks[0].query == 2
    assert answered(made(STRONG, keys), query="lamp #0").looks[0].query == 0


def test_a_word_is_told_from_itself_and_the_same_words_from_each_other():
    (look,) = answered(made(STRONG, "abcbdcb"), query="#2").looks
    assert title_text(look) == "“c #2” looks at “c #5” (L0 H0 0.80)"
    assert mean_text(look).startswith("L0 H0, of the weight on words: “c #5” 80%, “a” 3%, “b #1” 3%")


def test_the_weights_of_an_answer_are_those_of_its_heads(animal, by_hand):
    of_word = weights_of(animal, "#4")  # the apostrophe of "didn't"
    assert [m.layer for m in of_word.maps] == list(range(6))
    for m in of_word.maps:
        assert (m.queries, m.keys) == ((" didn't",), WORDS)
        np.testing.assert_allclose(m.weights[:, 0], by_hand[m.layer, :, 3], atol=CLOSE)
    by_word = weights_of(animal.by("word"), "it")
    np.testing.assert_allclose(by_word.maps[2].weights[:, 0], by_hand[2, :, IT], atol=CLOSE)
    assert weights_of(result(made(FLAT, "我爱北京和上海")), "北").maps[0].keys == tuple("我爱北京和上海")


def test_each_text_that_has_the_word_is_answered():
    maps = (made(STRONG, sentence=0), made(STRONG, "tuvwxyz", sentence=1), made(STRONG, "abxcdef", sentence=2))
    answer = answered(*maps)
    assert [(look.sentence, look.query) for look in answer.looks] == [(0, 2), (2, 3)]
    for asked in (answered(*maps, query="v"), result(*maps).lines("v")):
        assert page_of(asked).title.startswith("“v” in sentence 1 looks ")
    passes = [made(STRONG, pass_number=n) for n in (0, 5)]
    assert answer_page(answered(*passes)).blocks[0].lines == ("pass 0: “c” looks at “f” (L0 H0 0.80)",)
    headings = [block.lines[0] for block in answer_page(answer).blocks if getattr(block, "style", "") == "heading"]
    assert headings[0] == "sentence 0: “c” looks at “f” (L0 H0 0.80)"
    assert len(headings) == 2


def test_texts_that_lack_the_word_are_said():
    maps = [made(STRONG, "abcdefg" if n in (1, 5) else "tuvwxyz", sentence=n) for n in range(7)]
    cross = made_map("ABCDEFG", "tuvwxyz", STRONG, "cross", sentence=0)
    assert lacking_text(result(*maps), "c") == "`query`: 'c' is not in sentences 0, 2 to 4, 6"
    assert lacking_text(result(*maps, cross), "c", by_word=False) == "`query`: 'c' is not in sentences 2 to 4, 6"
    assert lacking_text(result(*maps), 3) == lacking_text(result(*maps), "no") == ""
    passes = [replace(m, sentence=None, pass_number=m.sentence) for m in maps[:2]]
    assert lacking_text(result(*passes), "c") == "`query`: 'c' is not in pass 0"
    both = [replace(m, pass_number=n) for m in maps[:2] for n in range(3)]
    assert lacking_text(result(*both), "c") == "`query`: 'c' is not in 3 of 6 texts"


def test_a_word_that_a_text_has_twice_is_asked_for_in_this_text():
    given = result(made(STRONG, sentence=0), made(STRONG, "cbacdef", sentence=1))
    with pytest.raises(ArgumentError, match=r"'c' occurs 2 times in sentence 1; give a position: 'c #0', 'c #3'$"):
        given.answer("c")
    assert [(look.sentence, look.query) for look in given.answer("c #3").looks] == [(1, 3)]


def test_special_tokens_and_sinks_are_no_words():
    sunk = FLAT + 50 * (np.arange(7) == 0)
    (look,) = answered(made(sunk, special_keys=(6,), special_queries=(6,))).looks
    assert look.aside.tolist() == [True, *[False] * 5, True]
    assert mean_text(look).endswith("; “a” takes 89%, “g” takes 2% of all its weight")


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (lambda: answered(made(FLAT), query="z"), "expected a word, or a position from 0 to 6, got 'z'"),
        (lambda: answered(made(FLAT, "abcadef"), query="a"), "'a' occurs 2 times; give a position: '#0', '#3'"),
        (
            lambda: answered(
                made(np.ones((1, 8, 8)), ["He", " did", "n't", ",", " did", "n't", " he", "."]), query="didn't"
            ),
            "\"didn't\" occurs 2 times; give a position: '#1', '#4'",
        ),
        (lambda: answered(made(np.ones((1, 3, 3)), "abc")), "expected at least 4 words that the query sees, got 3"),
        (lambda: answered(made(FLAT).mean()), "expected weights of single heads, got other numbers"),
        (lambda: answered(made(FLAT).times_uniform()), "expected weights of single heads, got other numbers"),
        (lambda: answered(made(FLAT).of_query("c")), "expected the queries and keys of all tokens, got some of them"),
    ],
)
def test_what_has_no_answer(of, reason):
    with pytest.raises(ArgumentError, match="`query`") as refused:
        of()
    assert reason in str(refused.value)


@pytest.mark.parametrize(("of", "what"), [(Attention.answer, "word"), (Attention.of_query, "token")])
def test_a_key_is_told_from_a_query(of, what):
    given = result(made_map(["chat", *"BCDEFG"], ["cat", *"bcdefg"], STRONG, "cross"))
    with pytest.raises(ArgumentError, match=f"a {what}, .*, got 'cat', which is a key; queries are #0 'chat', #1 'B',"):
        of(given, "cat")


def causal(n):
    """Even weights of a head that sees no later key."""
    return np.tril(np.ones((1, n, n))) / np.arange(1, n + 1)[:, None]


@pytest.mark.parametrize("query", ["#0", "#2"])
def test_a_word_that_sees_few_words_has_no_answer(query):
    maps = made(causal(8), "abcdefgh", kind="masked")
    with pytest.raises(ArgumentError, match="at least 4 words that the query sees, got"):
        answered(maps, query=query)
    assert answered(maps, query="#3").looks
    with pytest.raises(ArgumentError, match="at least 4 words that the query sees, got 0"):
        answered(made_map("abcdefgh", "abcdefgh", np.zeros((1, 8, 8), np.float32), "other"), query=query)


def test_texts_that_cannot_tell_are_left_out_and_named():
    short, nan = made(np.ones((1, 3, 3)), "bcd", sentence=1), made(np.full_like(STRONG, np.nan), sentence=2)
    answer = answered(made(STRONG, sentence=0), short, nan)
    assert [look.sentence for look in answer.looks] == [0]
    reason = "expected at least 4 words that the query sees, got 3: of so few, each gets much weight"
    *_, first, second = (getattr(block, "lines", ()) for block in answer_page(answer).blocks)
    assert first == (f"left out: sentence 1: {reason}",)
    assert second == ("left out: sentence 2: expected weights, got NaN in every head",)
    assert answer.to_dict()["left_out"][0] == {"sentence": 1, "kind": "self", "reason": reason}
    kept = weights_of(result(made(STRONG, sentence=0), short, nan), "c").maps
    assert [(m.sentence, m.queries) for m in kept] == [(0, ("c",)), (1, ("c",)), (2, ("c",))]
    with pytest.raises(ArgumentError, match="`query`: sentence 1: expected at least 4 words"):
        answered(short, nan)


def test_sinks_are_no_words_that_a_query_sees():
    weights = np.tril(np.ones((1, 8, 8)) + 50 * (np.arange(8) == 0))
    with pytest.raises(ArgumentError, match="at least 4 words that the query sees, got 3"):
        answered(made(weights, "abcdefgh", kind="masked"), query="d")
    assert answered(made(causal(8), "abcdefgh", kind="masked"), query="d").looks


def test_heads_with_nan_are_left_out():
    weights = np.concatenate([STRONG, np.full_like(STRONG, np.nan), STRONG])
    (look,) = answered(made(weights)).looks
    assert [one.head for one in look.heads] == [0, 2]
    assert np.isfinite(look.shares).all()
    with pytest.raises(ArgumentError, match="NaN in every head"):
        answered(made(np.full_like(STRONG, np.nan)))


def test_what_is_aside_is_named_as_far_as_its_number_tells():
    weights = np.full((1, 7, 7), 0.05)
    weights[:, :, 0], weights[:, :, 6] = 0.7, 0.008
    weights = weights / weights.sum(-1, keepdims=True)
    keys = ["[CLS]", " a", " b", " c", " d", " e", "[SEP]"]
    (bars,) = (
        block
        for block in answer_page(answered(made(weights, keys, special_keys=(0, 6)), query="b")).blocks
        if isinstance(block, Bars)
    )
    assert bars.bars[0].slices[-1].name == "[CLS] + [SEP]"


def test_a_masked_answer_says_that_no_word_sees_a_later_one():
    weights = np.tril(np.random.default_rng(0).dirichlet(np.full(7, 0.3), (2, 7)))
    answer = answered(made(weights, kind="masked"), query="g")
    assert answer_page(answer).reading(Drawn()).endswith("; masked: no word sees a later one")
    assert "masked" not in answer_page(answered(made(STRONG), query="c")).reading(Drawn())


def test_a_mean_without_a_name_in_it_says_what_it_is_of():
    weights = np.full((2, 7, 7), 0.1)
    weights[:, :, 0] = 0.4
    keys = ["[CLS]", " street", " engineer", " c", " because", " bridge", " storm"]
    (sheet,) = figures_of(answered(made(weights, keys, special_keys=(0,)), query="c"), Style(width=3.3))
    (text,) = (text for text in sheet.page.texts if text.get_text() == "words 0.60")
    (dark,) = figures_of(answered(made(weights, keys, special_keys=(0,)), query="c"), Style(width=3.3, cmap="magma"))
    (light,) = (text for text in dark.page.texts if text.get_text() == "words 0.60")
    assert (text.get_color(), light.get_color()) == (QUIET, "white")


def test_tokens_beside_numbers_are_quoted():
    keys = [" in", " 2", " .", " 5", " or", " 6", "[SEP]"]
    look = answered(made(FLAT + 15 * (np.arange(7) == 1), keys, special_keys=(6,)), query="or").looks[0]
    assert mean_text(look) == (
        "L0 H0, of the weight on words: “2” 76%, “in” 5%, “.” 5%; [SEP] takes 5% of all its weight"
    )
    assert title_text(look).endswith("at “2” (L0 H0 0.73)")
    assert not not_ranked_text(look), "it has a bar, as no head is ranked"


def test_a_head_that_hardly_looks_there_is_shown_as_any_other():
    words = [f"w{i}" for i in range(30)]
    weights = np.ones((2, 30, 30))
    weights[0, 3, 7] = 2.6  # 0.08 of the row
    weights[1, :, 9] = 20  # of all rows
    found = answered(made(weights, words), query="w3")
    (ranked,) = found.looks[0].ranked
    assert ranked.head == 0
    assert 0.05 < ranked.weight < 0.1
    assert [one.head for one in found.looks[0].shown] == [1, 0]
    assert "no head gives its word 0.1 or more and more than 2 ×" in answer_page(found).reading(Drawn())


def test_the_key_of_shades_tells_that_the_word_is_beyond_it():
    page = answer_page(answered(made(FLAT + WEAK + 9 * np.eye(7))))
    (shaded,) = (block for block in page.blocks if isinstance(block, Shaded))
    assert max(word.share for word in shaded.words) == pytest.approx(10 / 17.5)
    assert shaded.ends == ("0", f"≥ {2.5 / 17.5:.0%}")


def test_bars_and_shades_are_as_large_as_weights(animal, by_hand):
    (sheet,) = figures_of(animal.answer("it"), Style())
    boxes = [p for p in sheet.page.patches if isinstance(p, Rectangle) and p.get_fill()]
    rows = [[box for box in boxes if box.get_y() == y] for y in dict.fromkeys(box.get_y() for box in boxes)]
    shaded, mean, *bars = rows
    of_words = by_hand[:, :, IT, 1:13].mean((0, 1))
    light = [sum(box.get_facecolor()[:3]) for box in shaded]
    assert np.argsort(light).tolist() == np.argsort(-of_words).tolist()
    (across,) = {round(row[-1].get_x() + row[-1].get_width() - row[0].get_x(), 4) for row in [mean, *bars]}
    assert mean[0].get_width() / across == pytest.approx(of_words.sum(), abs=CLOSE)
    assert mean[1].get_width() / across == pytest.approx(of_words.max(), abs=CLOSE)
    targets = {(2, 1): 11, (3, 1): 2, (2, 3): 11, (0, 5): 7, (2, 8): 11}
    for row, ((layer, head), target) in zip(bars, targets.items(), strict=True):
        w = by_hand[layer, head]
        widths = [box.get_width() / across for box in row]
        assert widths[0] == pytest.approx(w[IT, 1:13].sum(), abs=CLOSE)
        assert widths[1] == pytest.approx(w[IT, target], abs=CLOSE)
        assert widths[-1] == pytest.approx(w[IT, [0, 13]].sum(), abs=CLOSE)
        there = w[[i for i in range(1, 13) if i not in (IT, target)], target].mean()
        along = np.diagonal(w[1:13, 1:13], target - IT)
        along = np.delete(along, IT - 1 - max(IT - target, 0)).mean()
        note = next(
            text
            for text in sheet.page.texts
            if abs(text.get_position()[1] - row[0].get_y() - 0.09) < 0.01
            and text.get_position()[0] > max(box.get_x() + box.get_width() for box in row)
        )
        assert note.get_text() == f"{max(there, along):.2f}"
    assert len({box.get_facecolor() for box in [row[1] for row in bars]}) == 1
    assert len({box.get_facecolor() for row in [mean, *bars] for box in row[1:-1]}) == 3  # target, word, itself


@pytest.mark.parametrize("style", [{"room": "column"}, {"width": 2.0}, {"width": 4.0}, {}], ids=str)
@pytest.mark.parametrize("heads", [{}, {"layer": 2, "head": 1}, {"layer": 0, "head": [2, 5]}], ids=str)
def test_colours_of_bars_are_named_and_usual_weights_stand_beside_in_any_width(animal, style, heads):
    answer = animal.select(**heads).answer("it")
    (sheet,) = figures_of(answer, Style(**style))
    boxes = [patch for patch in sheet.page.patches if isinstance(patch, Rectangle)]
    grey = [box for box in boxes if np.allclose(box.get_facecolor()[:3], palette(SINK)[84] / 255)]
    assert len(grey) >= len(answer.looks[0].shown)
    end = max(box.get_x() + box.get_width() for box in grey)
    beside = [text.get_text() for text in sheet.page.texts if text.get_position()[0] > end]
    numbers = [text for text in beside if re.search(r"\.[0-9]+$", text)]
    assert numbers == [f"{one.others:.2f}" for one in answer.looks[0].shown]
    assert "usually" in beside
    names = [text.get_text() for text in sheet.page.texts]
    assert any(re.fullmatch(r"special tokens and sinks|\[CLS\].* 0\.[0-9]+", name) for name in names)
    assert "the rest" in names


def test_bars_too_narrow_for_numbers_beside_them_have_none(animal):
    (sheet,) = figures_of(animal.answer("it"), Style(width=1.6))
    boxes = [patch for patch in sheet.page.patches if isinstance(patch, Rectangle)]
    assert min(box.get_width() for box in boxes) > 0
    assert "usually" not in [text.get_text() for text in sheet.page.texts]


def test_chinese_is_answered_by_token():
    assert answered(made(STRONG, "我爱北京天安门"), query="北").looks[0].keys.texts == tuple("我爱北京天安门")


HOSTILE = [" a\x1b[31m", " \u202eb", " שלום", " " + "long" * 30, " 猫", " é" + "\u0301" * 9, " \n", " $x_1$", " c"]


def written(page, width=80, colours="truecolor"):
    console = Console(width=width, color_system=colours, force_terminal=True, file=io.StringIO(), legacy_windows=False)
    console.print(PageView(page, Style()))
    return re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())


@given(st.lists(st.text(min_size=1, max_size=30), min_size=4, max_size=8))
def test_any_text_is_written_without_what_acts_on_a_terminal(texts):
    words = [f" {i}{text}" for i, text in enumerate(texts)]
    text = written(answer_page(answered(made(np.eye(len(texts))[None] + 0.1, words), query=0)))
    assert not {unicodedata.category(c) for c in text.replace("\n", "")} & {"Cc", "Cs", "Cn"}
    assert max(map(cell_len, text.split("\n"))) <= 80


@pytest.mark.filterwarnings("ignore:no installed font has")
@pytest.mark.parametrize("room", [None, "slide", "column", "page"])
def test_any_text_is_inside_its_picture(room):
    n = len(HOSTILE)
    answer = answered(made(np.eye(n)[[1, 2, 3, 4, 5, 6, 7, 8, 0]][None] + 0.1, HOSTILE), query=8)
    for sheet in figures_of(answer, Style(room=room)):
        renderer = FigureCanvasAgg(sheet).get_renderer()
        extents = [text.get_window_extent(renderer) for text in sheet.page.texts if text.get_text()]
        assert min(extent.x0 for extent in extents) >= 0
        assert max(extent.x1 for extent in extents) <= sheet.bbox.width
        assert min(text.get_fontsize() for text in sheet.page.texts) >= 6


def test_the_terminal_shades_words_where_it_has_colours(animal):
    page = answer_page(animal.answer("it"))
    assert "The animal didn't cross the street because it was too tired.\n" in written(page)
    assert "The animal" not in written(page, colours=None)


def test_a_long_text_keeps_the_lines_with_the_word_and_the_largest_numbers():
    words = [f" word{i}" for i in range(400)]
    a = np.ones((1, 400, 400)) + 200 * np.eye(400)[[370] * 400] * (np.arange(400) == 200)[:, None]
    answer = answered(made(a, words), query="word200")
    (sheet,) = figures_of(answer, Style(room="column"))
    texts = {text.get_text() for text in sheet.page.texts}
    in_terminal = written(answer_page(answer)).split("looks at  ")[0].split()  # before the table
    for shown in texts, in_terminal:
        assert {"word200", "word370", "…"} < {*shown}
        assert "word399" not in shown


def test_patches_are_no_words_that_stand_before_others():
    tiles = (replace(PatchGrid.run(2, 2), name="thumbnail"), replace(PatchGrid.run(4, 4, 4), name="tiles"))
    labels = [label for grid in tiles for label in grid.labels().values()]
    axis = Axis(Tokens((*labels, "a", "black", "cat", "sits"), images=tiles))
    weights = np.random.default_rng(0).dirichlet(np.full(24, 0.2), (4, 24)).astype(np.float32)
    attention = Attention(Source(""), (AttentionMap(weights, axis, axis),))
    for ask in (lambda: attention.answer("cat"), attention.lines):
        with pytest.raises(ArgumentError, match="expected the words of a text, got patches of an image"):
            ask()
