"""Titles, shades and tables of relevance, from numbers that are given."""

import math

import numpy as np
import pytest
from hostile import HOSTILE

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Shaded, Table, Text
from mhaviz.pages.relevance import relevance_page, title_text
from mhaviz.results.relevance import Explained, Relevance, WordRelevance, rank_correlation
from mhaviz.results.result import Source

LABEL = Explained("label", "NEGATIVE")


def side(words, relevance, falls=None, without=None, special=()):
    tokens = Tokens(tuple(words), special, ranges=tuple(((i, i + 1),) for i in range(len(words))))
    falls = [math.nan] * len(words) if falls is None else falls
    without = ("",) * len(words) if without is None else without
    aside = np.isin(np.arange(len(words)), special)
    return WordRelevance(tokens, np.array(relevance, float), aside, np.array(falls, float), tuple(without))


def of(text, y=6.3, explained=LABEL, chosen="NEGATIVE", **more):
    return Relevance(Source("a model"), explained, y, chosen, text, **more)


WORDS = ("the", " plot", " was", " terrible")
SAME = "NEGATIVE"


def made(relevance, falls, without=(SAME,) * 4, **more):
    return of(side(WORDS, relevance, falls, without), **more)


@pytest.mark.parametrize(
    ("relevance", "falls", "without", "title"),
    [
        (
            (0, 0.1, 0.1, 0.8),
            (0.1, 0.2, 0, 5.1),
            (SAME, SAME, SAME, "POSITIVE"),
            "“terrible” decides: without it the logit of NEGATIVE falls from 6.30 to 1.20",
        ),
        (
            (0, 0.1, 0.1, 0.8),
            (0.1, 0.2, 0, 3.1),
            (SAME,) * 4,
            "“terrible” counts most: without it the logit of NEGATIVE falls from 6.30 to 3.20",
        ),
        (
            (0, 0.7, 0, 0.8),
            (0, 4.3, 0, 5.3),
            (SAME, "POSITIVE", SAME, "POSITIVE"),
            "“terrible” and “plot” decide: without either one of them the logit of NEGATIVE falls from 6.30 to between "
            "1.00 and 2.00",
        ),
        (
            (0, 0.1, 0.1, 0.8),
            (0.1, 0.2, 0, 0.21),
            (SAME,) * 4,
            "no single word decides: without “terrible” the logit of NEGATIVE falls from 6.30 to 6.09",
        ),
        (
            (0, 0.1, 0.1, 0.8),
            (0, 5.3, 0, 0.3),
            (SAME,) * 4,
            "removal contradicts the estimate: “terrible” has the most relevance, but without “plot” the logit of "
            "NEGATIVE falls from 6.30 to 1.00, and without “terrible” to 6.00",
        ),
        (
            (0, 0.6, 0.1, 0.8),
            (0, 5.3, 0, 0.3),
            (SAME, "POSITIVE", SAME, SAME),
            "“plot” decides: without it the logit of NEGATIVE falls from 6.30 to 1.00",
        ),
        (
            (0, 0.1, 0.1, 0.8),
            (0, 0, 0, -0.5),
            (SAME, SAME, SAME, "POSITIVE"),
            "“terrible” decides: without it the model predicts POSITIVE, though the logit of NEGATIVE rises from 6.30 "
            "to 6.80",
        ),
        (
            (0, 0.1, 0.1, 0.8),
            (0, -1, -2, -3),
            (SAME,) * 4,
            "removal contradicts the estimate: without “terrible” the logit of NEGATIVE rises from 6.30 to 9.30, and "
            "no removal lowers it much",
        ),
    ],
)
def test_the_title_says_what_both_say(relevance, falls, without, title):
    assert title_text(made(relevance, falls, without)) == title


@pytest.mark.parametrize(
    ("falls", "title"),
    [
        ((0.1, 0.05), "no single word of the 2 most relevant decides: without “terrible” the logit of NEGATIVE falls"),
        ((-0.01, -0.01), "no single word of the 2 most relevant decides: without “"),
        ((3, 0.05), "“terrible” counts most of the 2 most relevant: without it the logit of NEGATIVE falls"),
    ],
)
def test_words_that_were_not_removed_are_not_spoken_of(falls, title):
    falls = (math.nan, math.nan, falls[1], falls[0])
    assert title_text(made((0, 0.1, 0.2, 0.8), falls)).startswith(title)


@pytest.mark.parametrize(
    ("explained", "named"),
    [
        (Explained("token", " Paris"), "the logit of “ Paris”"),
        (Explained("written", " le chat"), "the mean logit of what is written"),
        (Explained("function", "margin"), "margin"),
    ],
)
def test_the_title_names_what_is_explained(explained, named):
    title = title_text(made((0, 0, 0, 1), (0, 0, 0, 5), ("",) * 4, explained=explained, chosen=""))
    assert title == f"“terrible” counts most: without it {named} falls from 6.30 to 1.30"


@pytest.mark.parametrize(
    ("relevance", "title"),
    [
        ((1, 1, 1, 1), "no word stands out: “the” has 25% of the relevance for the logit of NEGATIVE"),
        ((0, 0, 0, 0), "no word has relevance for the logit of NEGATIVE"),
        ((0, 0, 0, 2), "“terrible” has all of the relevance for the logit of NEGATIVE, 100%"),
        ((1, 1, 1, 2.5), "“terrible” has the largest part of the relevance for the logit of NEGATIVE, 45%"),
    ],
)
def test_a_recording_speaks_of_shares(relevance, title):
    assert title_text(of(side(WORDS, relevance), removal="none")) == title


def test_a_logit_near_zero_has_a_scale_nevertheless():
    title = title_text(made((0, 0, 0, 1), (0, 0, 0, 0.01), y=0.001))
    assert title.startswith("no single word decides")


def test_random_weights_decide_by_chance():
    source = Source("random", {"kind": "random weights"})
    found = Relevance(source, LABEL, 6.3, SAME, side(WORDS, (0, 0, 0, 1), (0, 0, 0, 5), (SAME,) * 4))
    assert title_text(found).endswith(", by chance: the weights are random")


def test_a_label_that_is_not_chosen_is_changed_by_no_word():
    title = title_text(made((0, 0, 0, 1), (0, 0, 0, 5), ("POSITIVE",) * 4, chosen="POSITIVE"))
    assert title.startswith("“terrible” counts most")


def test_a_recording_says_that_nothing_was_removed():
    page = relevance_page(of(side(WORDS, (0, 1, 0, 3)), removal="none"))
    assert page.title == "“terrible” has most of the relevance for the logit of NEGATIVE, 75%"
    assert "what y is without a word was not computed" in page.remark
    (table,) = (block for block in page.blocks if isinstance(block, Table))
    assert [column.heading for column in table.columns] == ["word", "relevance", ""]


def test_special_tokens_are_listed_and_set_no_scale():
    words = ("[CLS]", "a", " b", "[SEP]")
    page = relevance_page(of(side(words, (6, 1, 3, 0), (math.nan, 0.5, 2, math.nan), ("",) * 4, special=(0, 3))))
    (shaded,) = (block for block in page.blocks if isinstance(block, Shaded))
    assert [(word.text, word.share) for word in shaded.words] == [("a", 0.25), ("b", 0.75)]
    assert shaded.scale.high == 0.75
    assert "not in the scale: [CLS] 60% of all relevance" in [
        line for block in page.blocks if isinstance(block, Text) for line in block.lines
    ]


def test_all_removals_shade_the_text_a_second_time():
    page = relevance_page(made((0, 0.1, 0.1, 0.8), (0.1, -0.2, 0, 5.1), removal="all"))
    relevance, falls = (block for block in page.blocks if isinstance(block, Shaded))
    assert [word.share for word in falls.words] == [0.1, 0.0, 0.0, 5.1]
    assert falls.ends == ("≤ 0", "5.10")
    assert relevance.ends[0] == "0"


def test_a_text_without_words_has_a_page():
    page = relevance_page(of(side(("[CLS]",), (1,), special=(0,))))
    assert page.title == "nothing has relevance for the logit of NEGATIVE; no word can be removed"


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_are_escaped(word):
    found = of(side((word, " b"), (3, 1), (2, 1), ("\x1b[1m", "<b>")), explained=Explained("token", word), chosen="x")
    page = relevance_page(found)
    texts = [str(page.title), *(text for block in page.blocks for text in block.texts_of_users())]
    assert all("\x1b" not in text and "\n" not in text and "\u202e" not in text for text in texts)


def test_ranks_correlate_as_in_scipy():
    from scipy.stats import spearmanr

    random = np.random.default_rng(0)
    for _ in range(50):
        x, y = random.integers(0, 4, (2, 6)).astype(float)
        expected = spearmanr(x, y).statistic if len({*x}) > 1 and len({*y}) > 1 else None
        assert rank_correlation(x, y) == (expected if expected is None else pytest.approx(expected))
    assert rank_correlation(np.zeros(2), np.ones(2)) is None
