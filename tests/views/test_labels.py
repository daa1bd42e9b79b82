import unicodedata

import numpy as np
import pytest
from drawn import texts
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mhaviz.pages import labels
from mhaviz.pages.labels import cut_words
from mhaviz.results.axis import Axis
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style
from mhaviz.views.text import PLAIN
from mhaviz.views.tiles.labels import marks_of
from mhaviz.views.tiles.layout import Side

any_text = st.text(st.characters(), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u202eb", r"a\u202eb"),
        ("nul\x00", r"nul\x00"),
        ("two\nlines", r"two\x0alines"),
        ("\udcff", r"\udcff"),
        ("\U000e0001", r"\U000e0001"),
        ("\u2028", '"\\u2028"'),
        ("", '""'),
        (" ", '" "'),
        ("[bold]$x$<b>", "[bold]$x$<b>"),
        ("नमस्ते", "नमस्ते"),
        ("\u0301mark", "\u25cc\u0301mark"),
    ],
)
def test_visible(text, shown):
    assert labels.visible(text) == shown


@given(any_text)
def test_nothing_that_acts_is_left(text):
    shown = labels.visible(text)
    assert shown
    assert not any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in shown)
    assert labels.visible(shown) == shown


@given(any_text, st.integers(1, 30))
def test_a_cut_text_fits(text, width):
    shown = labels.visible(text)
    short = labels.cut(shown, width)
    assert cell_len(short) <= width
    if cell_len(shown) <= width and len(shown) <= width:
        assert short == shown


def test_a_text_is_cut_in_its_middle():
    assert labels.cut("antidisestablishmentarianism", 9) == "anti…nism"
    assert labels.cut("我喜欢学习", 5) == "我…习"
    assert labels.cut("abc", 1) == "…"


def test_a_pile_of_marks_is_cut_too():
    assert len(labels.cut("e" + "\u0301" * 500, 10)) < 60


def test_repeated_tokens_are_told_apart():
    tokens = ["the", "cat", "the", "mat"]
    assert labels.token_labels(tokens, 10) == ["the₀", "cat", "the₂", "mat"]


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" cat", "cat"),
        ("cat ", "cat"),
        ("izer", "izer"),
        ("  x", " x"),
        (" ", "␣"),
        ("  ", "␣␣"),
        (" \n", "␣\n"),
        ("\n", "\n"),
        ("", ""),
        ("␣", "\\u2423"),
        (" ␣", "␣\\u2423"),
        ("a␣b", "a␣b"),
    ],
)
def test_the_blank_of_a_token_is_not_shown(token, shown):
    assert labels.bare(token) == shown


def test_positions_are_counted_on_what_is_shown():
    assert labels.token_labels(["the", " cat", " the"], 10) == ["the₀", "cat", "the₂"]
    assert labels.token_labels([" ", "  ", " \n", " ␣"], 10) == ["␣", "␣␣", r"␣\x0a", r"␣\u2423"]
    assert labels.token_labels(list("a b ␣"), 10) == ["a", "␣₁", "b", "␣₃", r"\u2423"]


TITLES = [
    (["the", "cat"], (), "the cat"),
    (["<start>", "le", "chat"], (0,), "<start> le chat"),
    (["le", "chat", "<end>"], (2,), "le chat <end>"),
    (["[CLS]", "the", " token", "izer", ".", "[SEP]"], (0, 5), "[CLS] the tokenizer. [SEP]"),
    (["[CLS]", "izer", "s", "[SEP]"], (0, 3), "[CLS] izers [SEP]"),
    (["<s>", " the", " cat", "</s>", "</s>", "a", "s"], (0, 3, 4), "<s> the cat </s> </s> as"),
    ([" Hello", ",", "\n", "wor", "ld", "  two"], (), "Hello,\nworld  two"),
    (["我", "喜", "欢", " x"], (), "我喜欢 x"),
    (["a", " 😀 1/3", "😀 2/3", "😀 3/3", "b", "é 1/2", "é 2/2"], (), "a 😀bé"),
    ([" 1/2", " 1/3"], (), "1/2 1/3"),
    (["the", "cat", "½ 1/2", "sat"], (), "the cat ½ 1/2 sat"),
    (["the", "é 2/3", "é 3/3", "sat"], (), "the é 2/3 é 3/3 sat"),
    (["the", "é 1/2", "à 2/2", "é 2/2", "é 2/1", "é 1/1"], (), "the é 1/2 à 2/2 é 2/2 é 2/1 é"),
    ([" the", " ½ 1/2", " sat"], (), "the ½ 1/2 sat"),
    (["the", "é 1/2", "é 2/2", "sat"], (), "the é sat"),
    (["é 1/2", "é 2/2", "é 1/2", "é 2/2", " x"], (), "éé x"),
]


@pytest.mark.parametrize(("tokens", "special", "text"), TITLES)
def test_a_title_is_the_text(tokens, special, text):
    assert " ".join(labels.title_words(tokens, special, str)) == text


def test_pieces_of_a_character_where_a_title_is_cut():
    tokens = [" a"] * 199 + ["😀 1/3", "😀 2/3", "😀 3/3"] + ["b"] * 100 + ["é 1/2", "é 2/2"] + ["c"] * 199
    assert "".join(labels.title_words(tokens, shown=str)) == "a" * 199 + "😀" + "c" * 199


@given(st.lists(st.text(st.sampled_from("ab1. \n我"), min_size=1, max_size=4), min_size=1, max_size=500))
def test_tokens_that_bring_their_blanks_are_the_text_again(tokens):
    tokens = ["x", " y", *tokens, "z"]
    text = "".join(tokens if len(tokens) <= 400 else tokens[:200] + tokens[-200:])
    assert " ".join(labels.title_words(tokens, shown=str)) == text


def test_a_position_is_never_cut_off():
    tokens = ["antidisestablishmentarianism"] * 12
    assert labels.token_labels(tokens, 6)[11] == "an…m₁₁"


@given(st.lists(any_text, min_size=1, max_size=8), st.integers(1, 20))
def test_labels_fit(tokens, width):
    for label in labels.token_labels(tokens, width):
        assert cell_len(label) <= width


@pytest.mark.parametrize(
    ("n_labels", "n_fitting", "step"),
    [(5, 5, 1), (6, 5, 2), (60, 60, 1), (61, 60, 2), (300, 60, 5), (700, 60, 20), (9, 0, 10)],
)
def test_every(n_labels, n_fitting, step):
    assert labels.every(n_labels, n_fitting) == step


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_thinned_labels_fit(n_labels, n_fitting):
    step = labels.every(n_labels, n_fitting)
    assert -(-n_labels // step) <= n_fitting
    assert str(step).rstrip("0") in ("1", "2", "5")


def test_labels_of_spans_say_how_many_tokens_they_have():
    texts, counts = [" didn't", " it", " Rindfleischetikett", " didn't", " 9"], (3, 1, 6, 3, 2)
    wide = ["didn't₀ (3)", "it", "Rindfleischetikett (6)", "didn't₃ (3)", '"9" (2)']
    assert labels.token_labels(texts, 40, counts=counts) == wide
    narrow = ["didn't₀", "it", "Rin…tt (6)", "didn't₃", '"9" (2)']  # where there is room for a name beside it
    assert labels.token_labels(texts, 10, counts=counts) == narrow
    assert labels.token_labels(texts, 5, counts=counts)[1:3] == ["it", "Ri…tt"]


def test_nothing_is_lost_in_ascii():
    printed = "Q Kᵀ / √d_key → −∞, naïve 鯨 \udce9".encode("ascii", PLAIN)
    assert printed == b"Q K^T / sqrt d_key -> -inf, na\\xefve \\u9be8 \\udce9"


@given(
    st.lists(st.text(st.characters(categories=["L"]), min_size=1, max_size=8), min_size=1, max_size=12),
    st.integers(5, 60),
)
def test_sentences_are_cut_between_words(words, width):
    shown = cut_words(words, width)
    assert cell_len(shown) <= width
    if cell_len(" ".join(words)) <= width:
        assert shown == " ".join(words)
    elif " … " in shown or shown.endswith(" …"):
        head, _, tail = shown.partition("…")
        assert words[: len(head.split())] == head.split()
        assert not tail.split() or words[-len(tail.split()) :] == tail.split()


def test_a_sentence_that_is_cut():
    assert cut_words(["the", "small", "black", "cat", "sleeps"], 18) == "the small … sleeps"
    assert cut_words(["antidisestablishmentarianism"], 9) == "anti…nism"


def test_positions_of_a_part_are_those_of_the_whole():
    tokens = ("the", "cat", "the")
    assert labels.position_suffixes(tokens, start=15_000) == ["₁₅₀₀₀", "", "₁₅₀₀₂"]


def test_a_position_is_no_digit_of_its_token():
    assert labels.token_labels(["w12", "a", "w12", "a", "³", "³", "w1"], 20) == [
        "w12#0",
        "a₁",
        "w12#2",
        "a₃",
        "³#4",
        "³#5",
        "w1",
    ]


@pytest.mark.parametrize("lowered", [True, False])
@given(
    tokens=st.lists(
        st.sampled_from(["a", "a₀", "a₁", "a#1", "a#0", "a 0", "a #1", "a #0", "a1", "a #0 #1"]), max_size=8
    )
)
def test_no_token_reads_as_another_with_its_position(tokens, lowered):
    found = labels.token_labels(tokens, 99, lowered=lowered)
    assert len(set(found)) == len(found)


def test_a_number_beside_positions_is_no_position():
    assert labels.token_labels(["a", "5", "a", "25", "25"], 9) == ["a₀", '"5"', "a₂", "25#3", "25#4"]
    assert labels.token_labels(["a", "5", "a"], 9, positions=False) == ["a", "5", "a"]
    assert labels.token_labels(["a", "5", "b"], 9) == ["a", "5", "b"]


def test_positions_on_paper_are_as_large_as_the_token():
    tokens = ("the", "w12", "the", "w12")
    assert Fonts(on_paper=True).labels(tokens, 800) == ("the #800", "w12#801", "the #802", "w12#803")
    assert Fonts().labels(tokens, 800) == ("the₈₀₀", "w12#801", "the₈₀₂", "w12#803")


@pytest.mark.parametrize(("looks", "position"), [
    ({}, "the₄"), ({"room": "slide"}, "the #4"), ({"room": "column"}, "the #4"), ({"room": "page"}, "the #4"),
    ({"width": 3.3}, "the #4"),
])  # fmt: skip
def test_a_picture_writes_positions_in_one_way(random_map, looks, position):
    tokens = ("the", "cat", "sat", "on", "the", "mat")
    shown = texts(figure_of(random_map(2, tokens).to_attention(), Style(**looks)))
    first = position.translate(str.maketrans("4₄", "0₀"))
    assert {text for text in shown if text.startswith("the") and len(text) < 7} - {"the"} == {first, position}


def sides(*cells):
    return tuple(Side(n, cell, 0.0) for n, cell in cells)


def test_the_strongest_columns_are_named_where_not_all_have_room():
    rows, columns = Axis.of(("H0", "H1")), Axis.of("abcdefgh")
    strengths = np.array([0.1, 0.2, 0.3, 0.9, 0.8, 0.7, 0.4, 0.05], np.float32)
    half = 6.0 * 1.05 / 72 / 2
    down, across = marks_of((rows, columns), sides((2, 1.0), (8, half + 1e-6)), 6.0, Fonts(), strengths)
    assert [mark.text for mark in across] == ["b", "d", "f", "h"]
    assert [mark.text for mark in down] == ["H0", "H1"]
    _, all_of_them = marks_of((rows, columns), sides((2, 1.0), (8, 2 * half + 1e-6)), 6.0, Fonts(), strengths)
    assert [mark.text for mark in all_of_them] == list("abcdefgh")


def test_sides_of_the_same_axis_have_the_same_labels():
    positions, words = Axis.numbered(100), Axis.of(f"word{i}" for i in range(20))
    down, across = marks_of((positions, positions), sides((100, 0.04), (100, 0.04)), 7.0, Fonts())
    assert [mark.text for mark in down] == [mark.text for mark in across] == [str(10 * i) for i in range(10)]
    strengths = np.arange(20, dtype=np.float32)
    down, across = marks_of((words, words), sides((20, 0.06), (20, 0.06)), 6.0, Fonts(), strengths)
    assert down == across
    assert across[-1].text == "word19"
