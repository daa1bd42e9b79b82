"""What the title of compared scores concludes, from numbers given by hand."""

import numpy as np
import pytest
from looking import encoded
from made import made_map

from mhaviz.analyses.scaling import compare_scaling, sweep_scaling
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.blocks import Drawn, Table, Text, leaves
from mhaviz.pages.report import report_page
from mhaviz.pages.scaling import scaling_page, sweep_page
from mhaviz.results.attention import Attention
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.results.scaling import Scaling, ScalingComparison, ScoreStatistics
from mhaviz.results.trace import ShapeTrace

TOKENS = tuple("abcdefgh")
RANDOM = Source("random weights, seed 0", {"kind": "random weights"})
LEARNT = Source("minilm: BertModel", {"kind": "transformers model", "name": "minilm"})


def compared(source, unscaled, scaled, n_rows=8):
    """One head of eight queries, of which so many have a choice of keys, and these numbers of rows are saturated."""
    values = np.full((1, 8, 8), 1 / 8, np.float32)
    unscaled, scaled = (
        Scaling(values, values, (ScoreStatistics(1, 0, 1, 1, 1 / 8, rows / n_rows, 0, n_rows),))
        for rows in (unscaled, scaled)
    )
    return ScalingComparison(source, TOKENS, TOKENS, (0,), 64, unscaled, scaled, "self", "/ √64")


@pytest.mark.parametrize(
    ("source", "rows", "title"),
    [
        (RANDOM, (3, 1), "Unscaled scores saturate 3 of 8 rows of the softmax, scaled ones 1"),
        (RANDOM, (1, 1), "What scaling the scores does to the softmax"),
        (LEARNT, (3, 1), "Without their scale the scores would saturate 3 of 8 rows of the softmax, with it 1"),
        (LEARNT, (1, 3), "Without their scale the scores would saturate 1 of 8 rows of the softmax, with it 3"),
        (LEARNT, (0, 0), "What the softmax would be without the scale of its scores"),
    ],
)
def test_only_random_weights_show_what_scaling_is_for(source, rows, title):
    c = compared(source, *rows)
    page = scaling_page(c)
    assert page.title == title
    assert ("not why it is needed" in page.reading(Drawn())) == (source is LEARNT)
    attention = Attention(source, (made_map(TOKENS, TOKENS, c.scaled.weights),))
    report = report_page(Report(attention, ShapeTrace(source, ()), c))
    assert any(f"L0 H0: {title}" in words(block) for block in leaves(report.blocks))


def test_rows_without_a_choice_of_keys_are_neither_saturated_nor_counted():
    page = scaling_page(compared(RANDOM, 3, 1, n_rows=7))
    assert page.title == "Unscaled scores saturate 3 of 7 rows of the softmax, scaled ones 1"
    assert table_of(page).notes == "rows that count: 7 of 8, those with a choice of keys"
    assert table_of(scaling_page(compared(RANDOM, 3, 1))).notes == ""


def test_numbers_of_no_rows_are_not_known():
    page = scaling_page(compare_scaling(*encoded(RandomLayer(8, 2), ["one"]), [0]))
    assert page.title == "What scaling the scores does to the softmax"
    assert [row[1:] for row in table_of(page).texts()][2:] == [("–", "–")] * 4
    (curves, *_) = sweep_page(sweep_scaling(["one"], 0, (2, 4), draws=2)).blocks
    assert [row[5:] for row in curves.table.texts()] == [("–",) * 4] * 4
    assert {y for plot in curves.plots[2:] for series in plot.series for y in series.ys} == {None}


def table_of(page):
    return next(block for block in page.blocks if isinstance(block, Table))


def words(block):
    return block.lines if isinstance(block, Text) else (getattr(block, "title", ""),)
