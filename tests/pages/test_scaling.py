"""What the title of compared scores concludes, from numbers given by hand."""

import numpy as np
import pytest
from made import made_map

from mhaviz.pages.blocks import Text, leaves
from mhaviz.pages.report import report_page
from mhaviz.pages.scaling import scaling_page
from mhaviz.results.attention import Attention
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.results.scaling import Scaling, ScalingComparison, ScoreStatistics
from mhaviz.results.trace import ShapeTrace

TOKENS = tuple("abcdefgh")
RANDOM = Source("random weights, seed 0", {"kind": "random weights"})
LEARNT = Source("minilm: BertModel", {"kind": "transformers model", "name": "minilm"})


def compared(source, unscaled, scaled):
    """One head of eight queries, of which these numbers of rows are saturated."""
    values = np.full((1, 8, 8), 1 / 8, np.float32)
    unscaled, scaled = (
        Scaling(values, values, (ScoreStatistics(1, 0, 1, 1, 1 / 8, rows / 8, 0),)) for rows in (unscaled, scaled)
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
    assert ("not why it is needed" in page.remark) == (source is LEARNT)
    attention = Attention(source, (made_map(TOKENS, TOKENS, c.scaled.weights),))
    report = report_page(Report(attention, ShapeTrace(source, ()), c))
    assert any(f"L0 H0: {title}" in words(block) for block in leaves(report.blocks))


def words(block):
    return block.lines if isinstance(block, Text) else (getattr(block, "title", ""),)
