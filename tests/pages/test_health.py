"""What the page of a training's health says."""

import numpy as np
import pytest

from mhaviz.pages.blocks import Curves, Table
from mhaviz.pages.health import collapse_lines
from mhaviz.pages.registry import page_of
from mhaviz.results.health import Collapse, Health, LayerHealth
from mhaviz.results.result import Source

PASSES = np.array([0, 50, 100])


def layer(number, entropies, kind="self", **others):
    """A layer with the entropies of two heads in three passes; uniform weights have 2 nats."""
    entropy = np.array(entropies, float)
    numbers = {"largest": 8 / entropy, "entropy": entropy, "uniform": np.full((3, 2), 2.0)}
    numbers |= {"sink": np.zeros((3, 2)), "one_hot": np.full((3, 2), 0.25)} | others
    return LayerHealth(kind, number, f"blocks.{number}", (0, 1), PASSES, np.ones(3, bool), **numbers)


def collapse(head, sign="entropy", number=50, kind="self", value=0.01):
    return Collapse(sign, kind, 0, head, number, value, 2.0, 1.5, 0)


def health(*collapses, layers=None):
    layers = layers or (layer(0, [[1.5, 1.6], [1.0, 0.01], [0.9, 0.005]]),)
    return Health(Source("watched: train.py"), 50, 120, layers, collapses)


@pytest.mark.parametrize(
    ("collapses", "title"),
    [
        ((), "None of 2 heads has collapsed in 120 passes"),
        ((collapse(1),), "L0 H1 collapses at pass 50: entropy 0.01 of 2 nats (1.5 at pass 0)"),
        ((collapse(0, number=100), collapse(1)), "L0 H1 collapses at pass 50, the first of 2 of 2 heads"),
        ((collapse(0), collapse(1)), "L0 H0 and L0 H1 collapse at pass 50"),
        ((collapse(0, "scores", 0), collapse(1)), "L0 H1 collapses at pass 50: entropy 0.01 of 2 nats (1.5 at pass 0)"),
        (
            (collapse(0, "scores"),),
            "Scores of L0 H0 grow without bound at pass 50: the largest is 0.01 (1.5 at pass 0)",
        ),
    ],
)
def test_the_title_says_which_head_collapses_when(collapses, title):
    assert page_of(health(*collapses)).title == title


def test_four_plots_name_the_worst_head_and_the_one_that_collapsed():
    _, curves, table = page_of(health(collapse(0))).blocks
    assert isinstance(curves, Curves)
    assert isinstance(table, Table)
    assert [[series.name for series in plot.series] for plot in curves.plots] == [
        ["median", "L0 H1", "L0 H0"],
        ["median", "uniform", "L0 H1", "L0 H0"],
        ["median", "L0 H0"],  # all heads are alike, and none is the worst
        ["median", "L0 H0"],
    ]
    entropy = curves.plots[1]
    assert entropy.series[0].band == ((1.5, 1.6), (0.01, 1.0), (0.005, 0.9))
    np.testing.assert_allclose(entropy.series[0].ys, [1.55, 0.505, 0.4525])
    assert entropy.marks == ((50.0, 0.01, "pass 50"),)
    assert curves.plots[0].y.log == 10  # scores of 5 to 1,600
    assert entropy.y.log is None
    assert table.rows == (("L0 H0", 50, 0.01, 2.0),)


def test_numbers_that_are_not_known_or_not_finite_leave_gaps():
    largest = np.array([[np.nan] * 2, [5.0, np.inf], [np.nan, 7.0]])
    of = health(layers=(layer(0, [[1.5, 1.6]] * 3, largest=largest),))
    scores = page_of(of).blocks[1].plots[0]
    assert [(series.name, series.xs, series.ys) for series in scores.series] == [
        ("median", (50.0, 100.0), (5.0, 7.0)),
        ("L0 H1", (50.0, 100.0), (None, 7.0)),
    ]
    unknown = health(layers=(layer(0, [[1.5, 1.6]] * 3, largest=np.full((3, 2), np.nan)),))
    assert all(not series.ys for series in page_of(unknown).blocks[1].plots[0].series)
    unknown.plot()


def test_heads_of_several_kinds_have_their_kind_in_their_names():
    layers = (layer(0, [[1.5, 1.6]] * 3), layer(0, [[1.0, 0.9]] * 3, kind="cross"))
    title = page_of(health(collapse(1, kind="cross"), layers=layers)).title
    assert title.startswith("cross L0 H1 collapses at pass 50")


def test_many_heads_that_collapse_at_once_are_one_line():
    lines = list(collapse_lines([collapse(head) for head in range(12)], 100, of_several_kinds=False))
    assert lines == ["pass 100: 12 heads have collapsed since pass 50: L0 H0, L0 H1, L0 H2, …"]
    (line,) = collapse_lines([collapse(3)], 100, of_several_kinds=True)
    assert line == "pass 100: self L0 H3 has collapsed since pass 50: entropy 0.01 of 2 nats (1.5 at pass 0)"


@pytest.mark.parametrize(
    ("largest", "number"),
    [
        (12.0, ""),  # of weights that are NaN
        (np.nan, ""),  # or not known
        (np.inf, ": the largest score is inf (1.5 at pass 0)"),
    ],
)
def test_of_what_is_not_finite_a_number_is_said_only_if_it_is_infinite(largest, number):
    of = collapse(1, "not finite", value=largest)
    assert list(collapse_lines([of], 50, of_several_kinds=False)) == [
        f"pass 50: weights or scores of L0 H1 are not finite{number}"
    ]
    assert page_of(health(of)).title == f"Weights or scores of L0 H1 are not finite at pass 50{number}"
    assert page_of(health(of)).blocks[-1].heading == "when weights or scores are not finite"
    both = health(of, collapse(0, "not finite", value=largest))
    assert page_of(both).title == "Weights or scores of L0 H1 and L0 H0 are not finite at pass 50"
