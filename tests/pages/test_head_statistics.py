from dataclasses import replace

import numpy as np
import pytest

from mhaviz.pages.blocks import Dots, Text
from mhaviz.pages.head_numbers import Order, Ranking
from mhaviz.pages.head_statistics import MEASURES, counts_text, head_statistics_page
from mhaviz.results.head_statistics import STATISTICS


def ranked(statistics, order):
    return Ranking(statistics.kinds, order, MEASURES, "").heads


def ranking_heading(statistics, order):
    return Ranking(statistics.kinds, order, MEASURES, "").heading


def texts_of(statistics):
    return (block for block in head_statistics_page(statistics).blocks if isinstance(block, Text))


def ranking_table(statistics, order):
    """The table of the page."""
    return next(block for block in head_statistics_page(statistics, order).blocks if isinstance(block, Dots)).table


def places(heads):
    return [(head.of.kind, head.row, head.column) for head in heads]


def test_a_measure_for_every_number():
    assert tuple(column.name for column in MEASURES) == STATISTICS


@pytest.mark.parametrize("name", ["entropy", "previous"])
def test_ranked(random_heads, name):
    statistics = random_heads(4, 5)
    means = statistics.kinds[0].number(name).mean
    lowest_first = name == "entropy"
    order = np.argsort(means if lowest_first else -means, axis=None)
    expected = [("self", *map(int, np.unravel_index(i, means.shape))) for i in order]
    assert places(ranked(statistics, Order(name))) == expected
    assert ranking_heading(statistics, Order(name, 3)) == (
        f"heads by {name}, {'lowest' if lowest_first else 'highest'} first: 3 of 20"
    )


def test_heads_without_the_number_stand_last(random_heads):
    statistics = random_heads(1, 2, ("self", "masked", "cross"))
    ranks = places(ranked(statistics, Order("next")))
    assert [kind for kind, _, _ in ranks[:2]] == ["self"] * 2
    assert ranks[2:] == [("masked", 0, 0), ("masked", 0, 1), ("cross", 0, 0), ("cross", 0, 1)]


def test_a_number_that_no_head_has(random_heads):
    statistics, order = random_heads(1, 2, ("masked",)), Order("next", most=1)
    assert places(ranked(statistics, order)) == [("masked", 0, 0), ("masked", 0, 1)]
    assert ranking_heading(statistics, order) == (
        "heads in the order of the model, as no head has a number for next: 1 of 2"
    )


def test_rows(random_heads):
    statistics = random_heads(2, 2, ("self", "cross"))
    order = Order("first", most=3)
    assert ranking_table(statistics, order).headings()[:5] == ("kind", "head", "first", "95%", "entropy")
    rows = ranking_table(statistics, order).texts()
    assert len(rows) == 3 + 2
    for head, row in zip(ranked(statistics, order), rows[:3], strict=False):
        first = head.of.first
        at = head.row, head.column
        assert row[:4] == (
            head.of.kind,
            f"L{head.row} H{head.column}",
            f"{first.mean[at]:.2f}±{first.spread[at]:.2f}",
            f"{first.low[at]:.2f}–{first.high[at]:.2f}",
        )
    for kind, row in zip(statistics.kinds, rows[3:], strict=True):
        assert row[:4] == (kind.kind, "chance", f"{kind.first.chance[0, 0]:.2f}", "")
    _, cross = statistics.kinds
    every = ranking_table(statistics, Order("distance"))
    distance = every.headings().index("distance")
    assert every.texts()[-3][distance] == "–", f"no distance of {cross.kind}"


def test_no_spread_of_one_sentence(random_heads):
    statistics = random_heads(sentences=1)
    (kind,) = statistics.kinds
    assert ranking_table(statistics, Order("itself")).texts()[0][1] == f"{kind.itself.mean.max():.2f}"


def test_layers_by_their_numbers(random_heads):
    statistics = random_heads(2, 1)
    chosen = replace(statistics, kinds=(replace(statistics.kinds[0], layers=(4, 9)),))
    assert {row[0] for row in ranking_table(chosen, Order("entropy")).texts()} == {"L4 H0", "L9 H0", "chance"}


def test_a_column_of_which_nothing_is_known_is_not_there(random_heads):
    assert "next" not in ranking_table(random_heads(kinds=("masked",)), Order("entropy")).headings()
    assert ranking_table(random_heads(kinds=("cross",)), Order("entropy")).headings() == (
        "head",
        "entropy",
        "95%",
        "first",
        "separators",
        "sink",
    )


def test_how_many_tokens_have_an_earlier_copy(random_heads):
    assert counts_text(random_heads()) == "copies, induction: of 50 tokens in 10 sentences that have an earlier copy"
    assert counts_text(random_heads(kinds=("cross",))) == ""
    statistics = random_heads(kinds=("self", "masked"))
    few = replace(statistics.kinds[1].copies, sentences=0, queries=0)
    mixed = replace(statistics, kinds=(statistics.kinds[0], replace(statistics.kinds[1], copies=few)))
    assert counts_text(mixed).endswith("an earlier copy; masked, no token has an earlier copy")
