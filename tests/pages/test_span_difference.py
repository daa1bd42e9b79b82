"""What is said of two texts by span, from numbers worked out by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from made import span_map

import mhaviz
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Dots, SpanGrid, Table
from mhaviz.pages.difference import difference_page
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.results.span_changes import SpanChanges
from mhaviz.results.span_numbers import ApartKey

NAN = float("nan")
WITH = {"system": (0.1, 0.05), "user": (0.6, 0.6), "answer": (0.1, 0.05), "<s>": (0.2, NAN)}
WITHOUT = {"user": (0.66, 0.66), "answer": (0.14, 0.07), "<s>": (0.2, NAN)}


def text(columns, spread=0.0, name="a"):
    """The answer's weights and those of uniform attention, in two heads that are ``spread`` around the mean on "user"
    and "answer"."""
    numbers = np.array([*columns.values()], np.float32).T[:, None, None]  # mass and chance, 1, 1, columns
    mass, chance = (np.repeat(of, 2, axis=0) for of in numbers)
    for head, sign in ((0, 1), (1, -1)):
        mass[head, 0, [*columns].index("user")] += sign * spread
        mass[head, 0, [*columns].index("answer")] -= sign * spread
    ends = np.arange(len(columns) + 1) * 10
    ranges = tuple(((int(start), int(end)),) for start, end in pairwise(ends))
    rows = Tokens(("answer",), ranges=(ranges[[*columns].index("answer")],))
    m = AttentionMap(
        mass,
        Axis(rows),
        Axis(Tokens(tuple(columns), ranges=ranges)),
        "masked",
        layer=1,
        chance=chance,
        lookback=np.full((2, 1), NAN, np.float32),
    )
    return Attention(Source(name, {"name": name}), (m,))


def page(before, after):
    return difference_page(mhaviz.diff(before, after))


def block(of_page, kind):
    return next(one for one in of_page.blocks if isinstance(one, kind))


@pytest.mark.parametrize(
    ("before", "after", "title"),
    [
        (
            text(WITH),
            text(WITHOUT),
            "Without “system”, which had 10%, “answer” gives “user” 66% of its weight, 60% before (1.0 × uniform, as "
            "before)",
        ),
        (
            text(WITHOUT),
            text(WITH),
            "With “system”, which gets 10%, “answer” gives “user” 60% of its weight, 66% before (1.0 × uniform, as "
            "before)",
        ),
        (
            text(WITHOUT),
            text({"user": (0.44, 0.66), "answer": (0.4, 0.07), "<s>": (0.16, NAN)}, name="b"),
            "a → b: “answer” gives itself 40% of its weight, 14% before (5.7 × uniform, 2.0 × before)",
        ),
        (
            text(WITHOUT),
            text({"user": (0.46, 0.66), "answer": (0.14, 0.07), "<s>": (0.4, NAN)}),
            "a: “answer” gives “user” 46% of its weight, 66% before (0.7 × uniform, 1.0 × before)",
        ),
        (
            text(WITH),
            text({"user": (0.6, 0.6), "answer": (0.1, 0.05), "<s>": (0.3, NAN)}),
            "Without “system”, which had 10%, “answer” gives <s> 30% of its weight, 20% before",
        ),
        (text(WITHOUT), text(WITHOUT), "a: “answer” gives all spans the same weight as before"),
        (
            text(WITHOUT),
            text(WITHOUT, 0.1),
            "a: “answer” looks at all spans as before: none gets 0.5% more or less weight on average",
        ),
        (
            text(WITH),
            text(WITHOUT | {"system 2": (0.0, 0.1)}),
            "With “system 2” (0%) in place of “system” (10%), “answer” gives “user” 66% of its weight, 60% before (1.0 "
            "× uniform, as before)",
        ),
    ],
)
def test_the_title_says_what_has_changed(before, after, title):
    assert page(before, after).title == title


def test_weights_stand_beside_those_of_uniform_attention():
    found = page(text(WITH), text(WITHOUT, 0.04))
    table = block(found, Table)
    assert table.headings() == ("span", "before", "after", "change", "× before", "× after", "most in")
    assert table.texts() == [
        ("system", "10%", "–", "−10.0", "2.0", "–", "L1 H0: 10% → 0%"),
        ("user", "60%", "66%", "+6.0", "1.0", "1.0", "L1 H0: 60% → 70%"),
        ("itself", "10%", "14%", "+4.0", "2.0", "2.0", "L1 H1: 10% → 18%"),
        ("<s>", "20%", "20%", "0.0", "–", "–", "–"),
    ]
    assert block(found, SpanGrid).panels[0].outlined == ((1, 0),)
    assert "only in the first: “system”" in found.remark


def test_changes_are_in_points_around_0():
    grid = block(page(text(WITH), text(WITHOUT, 0.04)), SpanGrid)
    (panel,) = grid.panels
    texts = [[grid.text(panel, row, head) for head in range(2)] for row in range(4)]
    assert texts == [["−10", "−10"], ["+10", "+2"], ["0", "+8"], ["0", "0"]]
    assert grid.scale.low == -grid.scale.high <= -10
    np.testing.assert_allclose(panel.colours[:, 0], [-10, 10, 0, 0], atol=1e-5)
    assert not grid.is_grey(panel, 3, 0), "what sinks get or lose has the colours of all changes"


def test_nothing_is_drawn_of_what_has_not_changed():
    found = page(text(WITHOUT), text(WITHOUT))
    assert not [one for one in found.blocks if isinstance(one, SpanGrid)]
    assert {row[-1] for row in block(found, Table).texts()} == {"–"}
    assert not [one for one in found.blocks if isinstance(one, Dots)]
    m = span_map(["a", "b"], [[[1, 0], [0.7, 0.3]]], [[1, 0], [0.5, 0.5]])
    found = page(*[Attention(Source("a", {"name": "a"}), (m,))] * 2)
    assert not [one for one in found.blocks if isinstance(one, Table | Dots)]


@pytest.mark.parametrize("lengths", [[10, 10, 10], [10, 5, 15]])
@pytest.mark.parametrize(("step", "of_title", "of_head"), [(1, "itself", "itself"), (-1, "“#0 user”", "user")])
def test_a_head_looks_at_itself_where_the_rows_do(lengths, step, of_title, of_head):
    """By its place among spans of one name, also of texts of other lengths."""
    names, sides = ["user", "answer", "user"], []
    for last, of_text in (([0.2, 0.3, 0.5], [10, 10, 10]), ([0.1, 0.0, 0.9], lengths)):
        mass = [[[1, 0, 0], [0.5, 0.5, 0], last[::step]]]
        m = span_map(names, mass, np.full((3, 3), 0.3), lengths=of_text)
        sides.append(Attention(Source("a", {"name": "a"}), (m,)))
    found = page(*sides)
    assert found.title.startswith(f"a: “#2 user” gives {of_title} 90% of its weight, 50% before")
    assert block(found, Dots).dots[0].note == f"user → {of_head}: 50% → 90%"


def test_names_that_look_alike_are_told_apart():
    long = [f"A sentence {'that goes on ' * 4}{middle} and ends alike in both." for middle in ("here", "there")]
    both = dict.fromkeys(long, (0.1, 0.1)) | WITHOUT
    names = [row[0] for row in block(page(text(both), text(WITHOUT)), Table).texts()]
    assert [name[:5] for name in names[:2]] == ["#0 A ", "#1 A "]


def test_many_layers_have_a_panel_for_each_span():
    before, after = (
        Attention(Source("a", {"name": "a"}), tuple(replace(side[0], layer=layer) for layer in range(9)))
        for side in (text(WITH), text(WITHOUT, 0.04))
    )
    grid = block(page(before, after), SpanGrid)
    assert [panel.title for panel in grid.panels] == ["system", "user", "answer", "<s>"]
    assert grid.rows == tuple("012345678")
    assert [panel.outlined for panel in grid.panels] == [(), ((0, 0),), (), ()]


def test_of_many_spans_those_that_change_most_are_shown():
    many = {f"s{i}": (0.01 + (i % 2) / 1000, 0.02) for i in range(30)}
    sides = ({**many, "user": (0.5 + shift, 0.3), "answer": (0.2 - shift, 0.1)} for shift in (0, 0.1))
    table = block(page(*map(text, sides)), Table)
    assert [row[0] for row in table.texts()[-3:-1]] == ["user", "itself"]
    assert table.texts()[-1] == ("16 other spans", "17%", "17%", "0.0", "–", "–", "–")
    assert len(table.rows) == 17


def test_what_changes_most_is_shown_among_many_spans_that_are_gone():
    gone = {f"s{i}": (0.02, 0.02) for i in range(20)}
    before = text(gone | {"user": (0.4, 0.3), "answer": (0.2, 0.1)})
    grid = block(page(before, text({"user": (0.41, 0.3), "answer": (0.2, 0.1)})), SpanGrid)
    (panel,) = grid.panels
    assert [grid.rows[row] for row, _ in panel.outlined] == ["user"]


def test_weights_are_drawn_where_uniform_attention_is_not_known():
    """As it is in a text in which a sink is part of its span again."""
    chance = np.tril(np.full((2, 2), 0.4))
    apart = (ApartKey(2, ("a", 0)),)
    one = span_map(["a", "b"], [[[0.5, 0, 0.5], [0.3, 0.3, 0.4]]], chance, apart=["."])
    two = span_map(["a", "b"], [[[1, 0], [0.7, 0.3]]], chance)
    found = page(*(Attention(Source("a", {"name": "a"}), (m,)) for m in (replace(one, apart=apart), two)))
    assert found.title == "a: every span gives all spans the same weight as before"
    of_sink = "a sink in the first alone, and so part of its span or of the rest: “.”; × is not known in the first"
    assert found.remark.endswith(of_sink)
    sides = [
        Attention(Source("a", {"name": "a"}), (replace(m, kind="self"),)) for m in (replace(one, apart=apart), two)
    ]
    assert "not known" in page(*sides).remark, "as its numbers are not those of queries that see all keys"
    for panel in block(found, SpanGrid).panels:
        np.testing.assert_allclose(panel.shares, [[1, NAN], [0.7, 0.3]], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "title"), [(0.0, "every span gives all other"), (0.002, "the spans look at all other")]
)
def test_a_title_on_all_spans_has_no_weight_of_one_alone(change, title):
    chance = [[1, 0, 0], [0.5, 0.5, 0], [0.3, 0.3, 0.3]]
    before = span_map(["system", "user", "answer"], [[[1, 0, 0], [0.5, 0.5, 0], [0.04, 0.48, 0.48]]], chance)
    after = span_map(["user", "answer"], [[[0.5 + change, 0], [0.48, 0.48]]], [[1, 0], [0.5, 0.5]])
    sides = [Attention(Source("a", {"name": "a"}), (m,)) for m in (before, after)]
    assert page(*sides).title.startswith(f"Without “system”, {title} spans")
    assert page(*reversed(sides)).title.startswith(f"With “system”, {title} spans")


def test_of_many_pairs_the_rows_of_the_largest_changes_are_made(monkeypatch):
    n = 40
    mass, chance = np.tril(np.full((n, n), 0.01)), np.tril(np.full((n, n), 0.02))
    names = [f"s{i}" for i in range(n)]
    more = mass + np.tril(np.arange(n * n).reshape(n, n)) * 1e-5
    sides = [Attention(Source("a", {"name": "a"}), (span_map(names, [x], chance),)) for x in (mass, more)]
    asked = []
    monkeypatch.setattr(SpanChanges, "means", lambda _, *pair: asked.append(pair) or (None, None))
    table = block(page(*sides), Table)
    assert table.heading == "the 12 largest of 819 changes, L0 H0"  # the first pair, 0 on 0, does not change
    assert [row[:2] for row in table.texts()[:2]] == [("s39", "itself"), ("s39", "s38")]
    assert len(asked) < 2 * len(table.rows)
