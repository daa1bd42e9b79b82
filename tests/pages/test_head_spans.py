"""What the page of spans over many texts says, of numbers that are made by hand."""

import numpy as np
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.pages.blocks import Dots, SpanGrid, Text
from mhaviz.pages.head_spans import head_spans_page
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_spans import HeadSpans, SpansOfKind
from mhaviz.results.result import Source

NOTHING = np.full((2, 2), np.nan)


def number(mean, chance, n=5):
    mean, chance = np.array(mean, float), np.full((2, 2), chance)
    return AverageOfFew(mean, mean / 9, mean * 0.8, mean * 1.2, n, chance, np.array([n, n]))


def found(user, lookback=NOTHING, query="answer", names=("user", "answer"), texts=5, rare=(), **more):
    """Two layers of two heads whose answers give so much to the user, and the rest to themselves."""
    spans = {names[0]: number(user, 0.25, texts), names[1]: number(1 - np.array(user), 0.5, texts)}
    for name, mean, n in rare:
        spans[name] = number(mean, 0.05, n)
    look = AverageOfFew(lookback, NOTHING, NOTHING, NOTHING, 5, np.full((2, 2), 0.5), np.array([5, 5]))
    kind = SpansOfKind("masked", (0, 3), query, texts, spans, np.full((2, 2), 0.01), np.full((2, 2), 0.3), look)
    return HeadSpans(Source("net: a model", {"model": "net"}), (kind,), query, **more)


def block(page, kind):
    (one,) = (block for block in page.blocks if isinstance(block, kind))
    return one


@pytest.mark.parametrize(
    ("user", "title"),
    [
        ([[0.1, 0.2], [0.6, 0.3]],
         "net: “answer” looks at “user” in L3 H0: 60% of its weight, 2.4 × uniform, over 5 texts"),
        (
            [[0.1, 0.2], [0.3, 0.49]],
            "net: no head turns “answer” to another span: at most 1.96 × uniform, to “user” in L3 H1, over 5 texts",
        ),
        ([[0.01, 0.02], [0.0, 0.03]], "net: no head gives 5% of the weight of “answer” to another span, over 5 texts"),
    ],
)  # fmt: skip
def test_a_head_turns_at_twice_uniform(user, title):
    assert head_spans_page(found(user)).title == title


ODD = [[0.2, 0.2], [0.2, 0.9]]


@pytest.mark.parametrize(
    ("user", "odd", "title", "ranked"),
    [
        (
            [[0.1, 0.2], [0.6, 0.3]],
            5,
            "looks at “user” in L3 H0: 60% of its weight, 2.4 × uniform, over 12 texts",
            "user",
        ),
        (
            [[0.1, 0.2], [0.6, 0.3]],
            6,
            "looks at “odd” in L3 H1: 90% of its weight, 18.0 × uniform, over the 6 of 12 texts with both",
            "odd",
        ),
        (
            [[0.1, 0.2], [0.3, 0.4]],
            1,
            "to another span that half of the texts have: at most 1.6 × uniform, to “user” in L3 H1, over 12 texts",
            "user",
        ),
        ([[0.01, 0.02], [0.0, 0.03]], 1, "to another span that half of the texts have, over 12 texts", "user"),
    ],
)
def test_a_title_is_of_a_span_that_half_of_the_texts_have(user, odd, title, ranked):
    page = head_spans_page(found(user, texts=12, rare=[("odd", ODD, odd)]))
    assert page.title.endswith(f" {title}")
    assert block(page, Dots).table.heading == f"heads by {ranked}, highest first"
    assert f"“odd” is in {odd} of 12 texts" in page.remark


def test_whiskers_are_those_of_the_texts_that_have_the_span():
    page = head_spans_page(found(ODD, names=("odd", "answer"), texts=35, rare=[("few", ODD, 20)]))
    assert "“few” in L3 H1" in page.title
    assert "Student" in block(page, Dots).notes
    assert "bootstrap" not in block(page, Dots).notes


def test_panels_have_the_numbers_of_all_heads():
    user = [[0.1, 0.2], [0.6, 0.3]]
    grid = block(head_spans_page(found(user)), SpanGrid)
    assert (grid.rows, grid.columns, grid.apart) == (("user", "answer", "(rest)", "sinks"), ("0", "1"), (2, 0))
    assert [panel.title for panel in grid.panels] == ["layer 0", "layer 3"]
    assert [panel.outlined for panel in grid.panels] == [(), ((0, 0),)]
    np.testing.assert_allclose(grid.panels[1].shares, [[0.6, 0.3], [0.4, 0.7], [0.01, 0.01], [0.3, 0.3]])
    np.testing.assert_allclose(grid.panels[1].colours[:2], [[2.4, 1.2], [0.8, 1.4]])
    assert np.isnan(grid.panels[1].colours[2:]).all()


def test_heads_are_ranked_by_what_they_give_the_span_of_the_title():
    dots = block(head_spans_page(found([[0.1, 0.2], [0.6, 0.3]])), Dots)
    assert [dot.name for dot in dots.dots] == ["L3 H0", "L3 H1", "L0 H1", "L0 H0"]
    assert dots.table.heading == "heads by user, highest first"
    assert "95% of Student's distribution" in dots.notes
    assert "bootstrap" in block(head_spans_page(found([[0.1, 0.2], [0.6, 0.3]], texts=30)), Dots).notes


def test_what_is_left_out_and_what_looks_back_is_said():
    page = head_spans_page(found([[0.1, 0.2], [0.6, 0.3]], np.array([[0.2, 0.4], [0.9, 0.5]]), without=2, too_long=1))
    (line,) = block(page, Text).lines
    assert line == "masked self-attention: 4 heads, means over 5 texts; lookback ratio 0.50, 0.20 to 0.90 by head"
    assert "1 text left out: longer than the model can read; 2 texts left out: without such a span" in page.remark
    (line,) = block(head_spans_page(found([[0.1, 0.2], [0.6, 0.3]])), Text).lines
    assert "lookback" not in line


def test_names_that_are_cut_are_told_apart():
    long = [f"{'a document of many words ' * 2}and {end}" for end in ("this", "that")]
    page = head_spans_page(found([[0.1, 0.2], [0.6, 0.3]], query=long[1], names=long))
    grid = block(page, SpanGrid)
    assert [name[:6] for name in grid.rows] == ["#0 a d", "#1 a d", "(rest)", "sinks"]
    assert page.title.startswith(f"net: “{grid.rows[1]}” looks at “{grid.rows[0]}” in L3 H0")
    assert block(page, Dots).table.heading == f"heads by {grid.rows[0]}, highest first"


def test_a_page_for_the_browser_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"expected a name ending in \.png, \.svg, \.pdf, \.json, \.csv$"):
        found([[0.1, 0.2], [0.6, 0.3]]).save(tmp_path / "a.html")
    assert not [*tmp_path.iterdir()]
