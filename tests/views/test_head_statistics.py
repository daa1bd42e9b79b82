import json
from dataclasses import fields, replace
from io import StringIO

import numpy as np

from mhaviz.pages.blocks import Dots, Matrices
from mhaviz.pages.head_numbers import Order
from mhaviz.pages.head_statistics import head_statistics_page
from mhaviz.views.data import document, write_json
from mhaviz.views.html.contents import contents_of
from mhaviz.views.style import Style


def parts(statistics):
    """The panels of each kind, by their titles."""
    blocks = [block for block in head_statistics_page(statistics).blocks if isinstance(block, Matrices)]
    return [{panel.title: panel for panel in block.panels} for block in blocks]


def test_each_number_has_a_scale_that_all_kinds_share(random_heads):
    statistics = random_heads(kinds=("self", "cross"))
    of_self, of_cross = parts(statistics)
    assert list(of_cross) == ["entropy", "first", "separators", "sink"]
    for name in of_self:
        kinds = statistics.kinds if name in of_cross else statistics.kinds[:1]
        scale = of_self[name].scale
        numbers = [one for kind in kinds for one in (kind.number(name).mean, kind.number(name).chance)]
        is_share = name not in ("entropy", "distance")
        assert (scale.low, scale.high) == (0.0, 1.0 if is_share else max(map(np.max, numbers)))
        assert name not in of_cross or of_cross[name].scale == scale
    np.testing.assert_array_equal(of_cross["first"].values, statistics.kinds[1].first.mean.astype(np.float32))


def test_heads_that_look_nowhere_else_have_a_scale(random_heads):
    statistics = random_heads()
    (kind,) = statistics.kinds
    zero = replace(kind.entropy, mean=np.zeros((2, 3)), chance=np.zeros((2, 3)))
    (panels,) = parts(replace(statistics, kinds=(replace(kind, entropy=zero),)))
    assert panels["entropy"].scale.high == 1.0


def test_data(random_heads):
    statistics = random_heads(kinds=("masked", "cross"), too_long=2)
    stream = StringIO()
    write_json(document(statistics), stream)
    data = json.loads(stream.getvalue())
    assert data["too_long"] == 2
    for kind, record in zip(data["kinds"], statistics.kinds, strict=True):
        assert (kind["kind"], kind["layers"]) == (record.kind, [0, 1])
        for name, numbers in kind["statistics"].items():
            for field in fields(record.number(name)):
                read = np.array(numbers[field.name], float)
                np.testing.assert_array_equal(read, getattr(record.number(name), field.name))
    assert data["kinds"][0]["statistics"]["next"]["mean"] == [[None] * 3] * 2


def test_a_page_for_the_browser_has_intervals_and_chance(random_heads):
    statistics = random_heads(kinds=("masked",))
    document = contents_of(statistics, Style()).document
    (averages,) = document["statistics"]
    assert [measure["name"] for measure in document["measures"]] == list(averages["means"])
    assert not {"next", "retrieval", "needle"} & set(averages["means"]), "of which nothing is known"
    for part in ("low", "high", "chance"):
        found = np.array(averages[f"{part}s"]["induction"])
        np.testing.assert_array_equal(found, getattr(statistics.kinds[0].induction, part))


def dots_of(statistics, *order):
    return next(block for block in head_statistics_page(statistics, *order).blocks if isinstance(block, Dots))


def test_dots_are_the_first_heads_with_their_intervals_and_chance(random_heads):
    statistics = random_heads(3, 4)
    dots = dots_of(statistics, Order("first", most=5))
    first = statistics.kinds[0].first
    places = np.argsort(-first.mean, axis=None)[:5]
    rows, columns = np.unravel_index(places, first.mean.shape)
    assert [dot.name for dot in dots.dots] == [f"L{row} H{column}" for row, column in zip(rows, columns, strict=True)]
    for name, numbers in (("value", first.mean), ("low", first.low), ("high", first.high), ("chance", first.chance)):
        assert [getattr(dot, name) for dot in dots.dots] == numbers[rows, columns].tolist()
    assert dots.table.heading == "heads by first, highest first: 5 of 12"
    assert dots.label == "first: weight on the first token"
    assert "bootstrap replicates over sentences; grey line: chance" in dots.notes


def test_dots_of_several_kinds_name_them(random_heads):
    names = [dot.name.split()[0] for dot in dots_of(random_heads(2, 2, ("self", "cross")), Order("entropy")).dots]
    assert (names.count("self"), names.count("cross")) == (4, 4)


def test_heads_without_the_number_have_no_dot(random_heads):
    assert len(dots_of(random_heads(2, 2, ("self", "cross")), Order("previous")).dots) == 4


def test_no_whisker_without_an_interval(random_heads):
    statistics = random_heads(1, 1)
    (kind,) = statistics.kinds
    nothing = np.full((1, 1), np.nan)
    without = replace(kind, entropy=replace(kind.entropy, low=nothing, high=nothing))
    dots = dots_of(replace(statistics, kinds=(without,)))
    assert np.isnan([dots.dots[0].low, dots.dots[0].high]).all()
    assert "whisker" not in dots.notes


def with_means(statistics, name, means):
    (kind,) = statistics.kinds
    return replace(statistics, kinds=(replace(kind, **{name: replace(kind.number(name), mean=np.array([means]))}),))


def title_of(statistics, name, means, n_heads=4):
    return head_statistics_page(with_means(statistics(1, n_heads), name, means), Order(name)).title


def test_titles_of_heads_that_are_alike(random_heads):
    ties = title_of(random_heads, "sink", [0.3, 1.0, 1.0, 1.0])
    assert ties == "made by a test: 3 of 4 heads have the highest sink: 1.00"
    assert title_of(random_heads, "sink", [0.0] * 4) == "made by a test: all 4 heads have the same sink: 0.00"
    first = title_of(random_heads, "sink", [0.0, 0.25, 0.1, 0.2])
    assert first == "made by a test: L0 H1 of 4 heads has the highest sink: 0.25"


def test_titles_of_one_head(random_heads):
    one = title_of(random_heads, "previous", [0.75], n_heads=1)
    assert one == "made by a test: L0 H0 puts most of its weight on the token before, where there is one"
    assert title_of(random_heads, "entropy", [1.25], n_heads=1) == "made by a test, L0 H0: entropy 1.25 nats"


def test_a_title_of_queries_that_have_a_copy(random_heads):
    copies = with_means(random_heads(1, 2), "copies", [0.25, 0.1])
    page = head_statistics_page(copies, Order("copies"))
    what = "weight on earlier copies of the query's token, where there are any"
    assert page.title == f"made by a test: L0 H0 of 2 heads has the highest {what}: 0.25"
    assert dots_of(copies, Order("copies")).label == f"copies: {what}"


def test_the_page_for_the_browser_has_the_title_of_all(random_heads):
    order, statistics = Order("first"), random_heads()
    document = contents_of(statistics, Style(), order=order).document
    assert document["title"] == head_statistics_page(statistics, order).title
    assert contents_of(statistics, Style(title="mine"), order=order).document["title"] == "mine"
