import json
from dataclasses import fields, replace
from io import StringIO

import numpy as np
import pytest

from mhaviz.records import STATISTICS
from mhaviz.views.data import document, write_json
from mhaviz.views.head_statistics import (
    COLUMNS,
    Head,
    Order,
    counts_text,
    named_scales,
    panels,
    ranked,
    ranking_heading,
    ranking_headings,
    ranking_rows,
    scales,
)


def places(heads):
    return [(head.averages.kind, head.row, head.column) for head in heads]


def test_a_column_for_every_number():
    assert tuple(column.name for column in COLUMNS) == STATISTICS
    assert len({column.short for column in COLUMNS}) == len(COLUMNS)


@pytest.mark.parametrize(("name", "reverse"), [("entropy", False), ("entropy", True), ("previous", False)])
def test_ranked(random_heads, name, reverse):
    statistics = random_heads(4, 5)
    means = statistics.kinds[0].average(name).mean
    lowest_first = (name == "entropy") != reverse
    order = np.argsort(means if lowest_first else -means, axis=None)
    expected = [("self", *map(int, np.unravel_index(i, means.shape))) for i in order]
    assert places(ranked(statistics, Order(name, reverse))) == expected
    assert ranking_heading(statistics, Order(name, reverse, 3)) == (
        f"heads by {name}, {'lowest' if lowest_first else 'highest'} first: 3 of 20"
    )


def test_heads_without_the_number_stand_last(random_heads):
    statistics = random_heads(1, 2, ("self", "masked", "cross"))
    for reverse in (False, True):
        ranks = places(ranked(statistics, Order("next", reverse)))
        assert [kind for kind, _, _ in ranks[:2]] == ["self"] * 2
        assert ranks[2:] == [("masked", 0, 0), ("masked", 0, 1), ("cross", 0, 0), ("cross", 0, 1)]


def test_in_the_order_of_the_model(random_heads):
    statistics = random_heads(2, 2, ("self", "cross"))
    everywhere = [(kind, row, column) for kind in ("self", "cross") for row in range(2) for column in range(2)]
    assert places(ranked(statistics, Order("layer"))) == everywhere
    assert places(ranked(statistics, Order("layer", reverse=True))) == everywhere[::-1]


def test_a_number_that_no_head_has(random_heads):
    statistics, order = random_heads(1, 2, ("masked",)), Order("next", most=1)
    assert places(ranked(statistics, order)) == [("masked", 0, 0), ("masked", 0, 1)]
    assert ranking_heading(statistics, order) == (
        "heads in the order of the model, as no head has a number for next: 1 of 2"
    )


def test_rows(random_heads):
    statistics = random_heads(2, 2, ("self", "cross"))
    order = Order("first", most=3)
    assert ranking_headings(statistics, order)[:5] == ("kind", "layer", "head", "first", "entropy")
    assert ranking_headings(statistics, order, short=True)[3:5] == ("first", "entr")
    rows = ranking_rows(statistics, order)
    assert len(rows) == 3
    for head, row in zip(ranked(statistics, order), rows, strict=False):
        first = head.averages.first
        at = head.row, head.column
        assert row[:4] == (
            head.averages.kind,
            str(head.row),
            str(head.column),
            f"{first.mean[at]:.2f} ± {first.spread[at]:.2f}",
        )
    self_, cross = statistics.kinds
    assert Head(cross, 0, 0).text(COLUMNS[1]) == "–"
    assert Head(self_, 0, 0).text(COLUMNS[1], stacked=True) == (
        f"{self_.distance.mean[0, 0]:.1f}\n±{self_.distance.spread[0, 0]:.1f}"
    )


def test_no_spread_of_one_sentence(random_heads):
    (kind,) = random_heads(sentences=1).kinds
    assert Head(kind, 0, 0).text(COLUMNS[2]) == f"{kind.itself.mean[0, 0]:.2f}"


def test_layers_by_their_numbers(random_heads):
    statistics = random_heads(2, 1)
    chosen = replace(statistics, kinds=(replace(statistics.kinds[0], layers=(4, 9)),))
    assert {row[0] for row in ranking_rows(chosen, Order())} == {"4", "9"}


def test_a_column_of_which_nothing_is_known_is_not_there(random_heads):
    assert "next" not in ranking_headings(random_heads(kinds=("masked",)), Order())
    assert ranking_headings(random_heads(kinds=("cross",)), Order()) == (
        "layer",
        "head",
        "entropy",
        "first",
        "separators",
    )


def test_scales(random_heads):
    statistics = random_heads(kinds=("self", "cross"))
    every = scales(statistics, "magma")
    assert {(every[name].low, every[name].high) for name in STATISTICS[2:]} == {(0.0, 1.0)}
    for name, kinds in (("entropy", statistics.kinds), ("distance", statistics.kinds[:1])):
        assert every[name].high == max(kind.average(name).mean.max() for kind in kinds)
    assert list(named_scales(statistics)) == ["weight", "entropy, nats", "distance, tokens"]
    assert list(named_scales(random_heads(kinds=("cross",)))) == ["weight", "entropy, nats"]
    shown = panels(statistics.kinds[1], COLUMNS, every)
    assert [panel.title for panel in shown] == ["entropy", "first", "separators"]
    np.testing.assert_array_equal(shown[1].values, statistics.kinds[1].first.mean.astype(np.float32))


def test_heads_that_look_nowhere_else_have_a_scale(random_heads):
    statistics = random_heads()
    (kind,) = statistics.kinds
    zero = replace(kind.entropy, mean=np.zeros((2, 3)))
    assert scales(replace(statistics, kinds=(replace(kind, entropy=zero),)))["entropy"].high == 1.0


def test_how_many_tokens_have_an_earlier_copy(random_heads):
    assert counts_text(random_heads()) == "copies, induction: of 50 tokens in 10 sentences that have an earlier copy"
    assert counts_text(random_heads(kinds=("cross",))) == ""
    statistics = random_heads(kinds=("self", "masked"))
    few = replace(statistics.kinds[1].copies, sentences=0, queries=0)
    mixed = replace(statistics, kinds=(statistics.kinds[0], replace(statistics.kinds[1], copies=few)))
    assert counts_text(mixed).endswith("an earlier copy; masked, no token has an earlier copy")


def test_data(random_heads):
    statistics = random_heads(kinds=("masked", "cross"), too_long=2)
    stream = StringIO()
    write_json(document(statistics), stream)
    data = json.loads(stream.getvalue())
    assert data["too_long"] == 2
    for kind, record in zip(data["kinds"], statistics.kinds, strict=True):
        assert (kind["kind"], kind["layers"]) == (record.kind, [0, 1])
        for name, numbers in kind["statistics"].items():
            for field in fields(record.average(name)):
                read = np.array(numbers[field.name], float)
                np.testing.assert_array_equal(read, getattr(record.average(name), field.name))
    assert data["kinds"][0]["statistics"]["next"]["mean"] == [[None] * 3] * 2
