"""What is said of the sums of rows."""

import numpy as np
import pytest
from made import Edges, made_map
from shown import heatmap_figure, heatmap_view

from mhaviz.pages.blocks import Drawn
from mhaviz.pages.map_words import reading_text, sums_text
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.style import Style


def rows(*sums):
    return made_map(tuple("abcdefgh"[: len(sums)]), ("k", "l"), np.array([[[0, s] for s in sums]], np.float32), "cross")


@pytest.mark.parametrize(
    ("sums", "text"),
    [
        ((1, 1), "a row sums to 1"),
        ((1, 1 - 2**-9), "a row sums to 1"),
        ((1, 0, 0), "a row sums to 1, but 2 of 3 to 0"),
        ((2, 2), "rows sum to 2.00"),
        ((0.98, 2, 1), "rows sum to between 0.98 and 2.00"),
        ((1, 0.995), "rows sum to between 0.995 and 1.000"),
        ((0, 3), "rows sum to 3.00, but 1 of 2 to 0"),
        ((0, 0), "all weights are 0"),
    ],
)
def test_what_rows_sum_to(sums, text):
    assert sums_text([rows(*sums)]) == text
    assert reading_text(Attention(Source("s"), (rows(*sums),)), Drawn()).endswith(f"; {text}")


def test_the_ends_of_a_scale_are_those_of_all_weights_in_whatever_cells_they_are_drawn(show):
    weights = np.tile(np.float32([0.9, 1e-9, 0.05, 0.05]), (1, 600, 150))  # two or more share a cell of either view
    tokens = tuple(map(str, range(600)))
    attention = Attention(Source("s"), (made_map(tokens, tokens, weights),))
    style = Style(log=True, vmax=None, dpi=40)
    assert "≤ 9e−07" in show(heatmap_view(attention, style), 80)
    assert "≤ 9e−07" in [text.get_text() for text in heatmap_figure(attention, style).page.texts]


@pytest.mark.parametrize("rollout", [False, True])
def test_weights_below_a_logarithmic_scale(show, rollout):
    weights = np.full((1, 12, 12), 1 / 11, np.float32)
    weights[0, 3, 4] = 1e-9
    tokens = tuple("abcdefghijkl")
    attention = Attention(Source("s"), (made_map(tokens, tokens, weights, rollout=rollout),))
    for log, said in ((True, True), (False, False)):
        style = Style(log=log, vmax=None, dpi=40)
        assert ("≤" in show(heatmap_view(attention, style), 80)) == said
        assert any("≤" in text.get_text() for text in heatmap_figure(attention, style).page.texts) == said


def test_weights_below_the_scale_beside_cells(show):
    """Maps of cells and maps of tokens have a scale each in the terminal."""
    weights = np.full((1, 12, 12), 1 / 11, np.float32)
    weights[0, 3, 4] = 1e-9
    tokens, edges = tuple("abcdefghijkl"), np.arange(0, 13, 2)
    pooled = made_map(tokens, tokens, np.full((1, 6, 6), 1 / 6, np.float32), layer=1, cells=Edges(edges, edges))
    attention = Attention(Source("s"), (made_map(tokens, tokens, weights), pooled))
    assert show(heatmap_view(attention, Style(log=True, vmax=None)), 80).count("≤") == 1


def test_weights_above_the_scale(show):
    for weight, end in ((1.05, "≥"), (1 + 2**-22, ""), (0.5, "")):
        attention = Attention(Source("s"), (rows(weight),))
        texts = [text.get_text() for text in heatmap_figure(attention, Style(vmax=1.0)).page.texts]
        assert (f"{end} 1".strip() in texts, "≥ 1" in texts) == (True, bool(end))
        assert f" {end} 1   rows are".replace("  1", " 1") in show(heatmap_view(attention, Style(vmax=1.0)), 100)
