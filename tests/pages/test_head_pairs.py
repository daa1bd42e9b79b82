"""Which of many heads stands out, and what its page says of it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mhaviz.analyses.averages import averages
from mhaviz.inputs.pairs import WordPair
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Table
from mhaviz.pages.head_pairs import head_pairs_page
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_pairs import HeadPairs, PairLook, PairsOfKind
from mhaviz.results.result import Source
from mhaviz.views.showing import view_of

WORDS = Tokens(("one", " two", " three", " four"))
PICKED = 0.25


@pytest.fixture
def made():
    """Pairs with given weights, (n_pairs, n_heads), in one layer, on the key or if negative on another word."""

    def make(weights, usual=0.05, **more):
        looks = tuple(
            PairLook(
                WordPair(f"text {i}", "four", "one"),
                WORDS,
                3,
                0,
                np.maximum(row, 0)[None],
                np.full((1, len(row)), usual),
                np.where(row > 0, 0, 1)[None],
                abs(row)[None],
            )
            for i, row in enumerate(np.array(weights, float))
        )
        values = np.array([[look.weights, look.found, look.weights > 0.5, look.usual] for look in looks])
        values = values[:, :, 0].transpose(0, 2, 1).astype(float)
        has = np.ones((len(looks), 4), bool)
        has[:, [1, 3]] = np.isfinite(usual)
        means = averages(values[:, None], has[:, None], "abcd", "bc")
        chance = np.full((1, len(weights[0])), 0.1)
        numbers = [AverageOfFew(**mean, chance=chance) for mean in means.values()]
        kind = PairsOfKind("self", (3,), *numbers, np.array([PICKED]), looks)
        return HeadPairs(Source("net: a model", {"model": "net"}), (kind,), **more)

    return make


RANDOM = np.random.default_rng(0)
NOISE = RANDOM.uniform(-0.02, 0.02, (20, 1))
STRONG = np.full((20, 1), 0.6) + NOISE
WEAK = np.full((20, 3), 0.11) + RANDOM.uniform(-0.02, 0.02, (20, 3))


def with_misses(weights, n):
    weights = weights.copy()
    weights[:n] *= -1
    return weights


TITLES = [
    ([WEAK, STRONG], "net: L3 H3 of 4 heads finds the key of 20 of 20 pairs"),
    ([with_misses(STRONG, 3), WEAK], "net: L3 H0 of 4 heads finds the key of 17 of 20 pairs"),
    (
        [STRONG, STRONG[::-1] - 1e-4, WEAK[:, :1]],
        "net: L3 H0 of 3 heads finds the key of 20 of 20 pairs; L3 H1 (20) may be as strong",
    ),
    (
        [STRONG, STRONG[::-1] - 1e-4, np.roll(STRONG, 5) - 2e-4, np.roll(STRONG, 7) - 3e-4],
        "net: L3 H0 of 4 heads finds the key of 20 of 20 pairs; L3 H1 (20), L3 H2 (20) and 1 other may be as strong",
    ),
    (
        [with_misses(STRONG, 11), WEAK[:, :1] / 9],
        "net: no head of 2 stands out: L3 H0 finds the key of 9 of 20 pairs, as the best may by luck",
    ),
    (
        [with_misses(STRONG, 10)],
        "net: no head of 1 finds the key of most pairs; L3 H0, the strongest, finds 10 of 20 pairs",
    ),
    (
        [STRONG[:2], WEAK[:2]],
        "net: no head of 4 stands out: L3 H0 finds the key of 2 of 2 pairs, as the best may by luck",
    ),
    (
        [STRONG[:1], WEAK[:1]],
        "net: no head of 4 stands out: L3 H0 finds the key of 1 of 1 pair, as the best may by luck",
    ),
]


@pytest.mark.parametrize(("columns", "title"), TITLES, ids=[title for _, title in TITLES])
def test_titles(made, columns, title):
    assert head_pairs_page(made(np.hstack(columns))).title == title


def test_the_strongest_head_may_find_nothing(made, monkeypatch):
    """Where each pair has another word with more weight."""
    pairs = made(np.hstack([STRONG, WEAK]))
    best = replace(pairs.kinds[0].best, n_found=0, by_luck=True)
    monkeypatch.setattr(type(pairs.kinds[0]), "best", property(lambda kind: best))
    title = head_pairs_page(pairs).title
    assert title == "net: no head of 4 stands out: L3 H0, the strongest, finds the key of no pair"


def test_no_title_for_what_is_usual_or_unknown(made):
    weights = np.hstack([STRONG, WEAK])
    assert head_pairs_page(made(weights, usual=0.5)).title == (
        "net: no head of 4 gives keys more than 2 × what other words give them"
    )
    assert head_pairs_page(made(weights, usual=np.nan)).title == "net: too few other words to tell what a head finds"


def test_luck_and_ties_beside_scipy(made):
    random = np.random.default_rng(1)
    for n_found in range(3, 15):
        weights = random.uniform(0.2, 0.9, (20, 5))
        (kind,) = made(with_misses(weights, 20 - n_found), usual=0.01).kinds
        best, of = kind.best, np.maximum(with_misses(weights, 20 - n_found), 0)
        assert best.column == of.mean(axis=0).argmax()
        assert best.by_luck == (5 * stats.binom.sf(n_found - 1, 20, PICKED) >= 0.05)
        lows = stats.ttest_rel(of[:, [best.column]], of).confidence_interval(0.95).low
        assert best.ties == tuple((0, j) for j in range(5) if j != best.column and lows[j] <= 0)


def test_missed_pairs_are_listed_with_what_the_head_looks_at(made):
    weights = np.hstack([STRONG, WEAK])
    weights[[4, 7], 0] = -0.3, 0.08
    found = made(weights, too_long=1)
    page = head_pairs_page(found)
    table = next(block for block in page.blocks if isinstance(block, Table))
    assert table.heading == "L3 H0 misses 2 of 20 pairs"
    assert table.texts() == [
        ("four → one", "0.00", "0.05", "“two”", "0.30", "text 4"),
        ("four → one", "0.08", "0.05", "the key", "0.08", "text 7"),
    ]
    assert "1 pair left out: texts longer than the model can read" in str(page.blocks)
    (document,) = found.to_dict()["kinds"]
    assert document["best"]["missed"] == [4, 7]
    assert document["pairs"][4] | {
        "weights": None,
        "usual": None,
        "looks_at_indices": None,
        "looks_at_weights": None,
    } == {
        "text": "text 4",
        "query": " four",
        "query_index": 3,
        "key": "one",
        "key_index": 0,
        "words": WORDS.texts,
        "weights": None,
        "usual": None,
        "looks_at_indices": None,
        "looks_at_weights": None,
    }
    assert [row["number"] for row in found.rows()][:4] == ["weight", "found", "half", "usual"]


def test_in_the_terminal(made, show):
    text = show(view_of(made(np.hstack([STRONG, WEAK]))))
    assert "L3 H0   0.60±0.01  0.59–0.61  20 of 20  20 of 20" in text
    assert "95%: of Student's distribution around the mean over pairs" in " ".join(text.split())


def test_whose_usual_weight_is_unknown(made, show):
    text = " ".join(show(view_of(made(np.hstack([STRONG, WEAK]), usual=np.nan))).split())
    assert "usual weights are known of 0: in the others the query sees fewer than 4 words" in text
    assert "nan" not in text
