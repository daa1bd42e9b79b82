"""What the page of embeddings has decided before anybody draws it."""

from dataclasses import replace

import numpy as np
import pytest

import mhaviz
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Drawn, Matrices, Text, leaves
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.embeddings import embeddings_page, position_table_page
from mhaviz.results.embeddings import EmbeddedText, InputPart
from mhaviz.results.result import Source

RNG = np.random.default_rng(0)


def part(symbol, size=1.0, shape=(3, 4), equation=None):
    return InputPart(symbol, equation or f"{symbol} = made", (size * RNG.normal(size=shape)).astype(np.float32))


def embedded(*parts, ids=(5, 6, 5), **fields):
    tokens = Tokens(("the", "cat", "the"), (), ids)
    return EmbeddedText(Source("made by hand"), tokens, parts, **fields)


def panels(e):
    return [block for block in embeddings_page(e).blocks if isinstance(block, Matrices)]


def words(e):
    (text,) = (block for block in embeddings_page(e).blocks if isinstance(block, Text))
    return " ".join(text.lines)


def test_parts_and_x_share_one_scale_with_zero_in_its_middle():
    e = embedded(part("E"), part("PE", 0.1), part("X"))
    features, cosines = panels(e)
    (scale,) = {panel.scale for panel in features.panels}
    largest = max(np.abs(one.values).max() for one in e.parts)
    assert (scale.colormap, scale.low) == (DIVERGING, -scale.high)
    assert largest <= scale.high <= 1.1 * largest
    assert [scale.name for scale in features.scales] == ["E, PE, X"]
    assert [panel.title for panel in features.panels] == [
        "E = made   (3, 4)",
        "PE = made   (3, 4)",
        "X = made   (3, 4)",
    ]
    assert (cosines.panels[0].scale.low, cosines.panels[0].scale.high) == (-1, 1)
    for panel, one in zip(cosines.panels, e.parts, strict=True):
        np.testing.assert_array_equal(panel.values, one.cosines)


def test_x_of_another_size_has_a_scale_of_its_own():
    features, _ = panels(embedded(part("E", 0.05), part("PE", 0.05), part("X", 2.0)))
    assert [scale.name for scale in features.scales] == ["E, PE", "X"]
    assert features.panels[0].scale == features.panels[1].scale != features.panels[2].scale


def test_of_many_numbers_a_few_may_lie_beyond_the_scale():
    e = embedded(part("E", shape=(3, 1000)), part("X", shape=(3, 1000)))
    e.parts[0].values[1, 7] = 100
    assert panels(e)[0].panels[0].scale.high < 4
    assert panels(embedded(replace(e.parts[0], values=np.zeros((3, 4), np.float32))))[0].panels[0].scale.high == 1


def test_other_widths_are_another_block():
    e = embedded(part("E", shape=(3, 4)), part("PE", shape=(3, 4)), part("X", shape=(3, 6)))
    first, second, _ = panels(e)
    assert [len(block.columns) for block in (first, second)] == [4, 6]
    assert second.title == "the same in 6 features"


def test_a_row_that_all_tokens_share_is_named_and_not_drawn():
    same = InputPart("T", "T = types(ids)", np.ones((3, 4), np.float32))
    e = embedded(part("E"), part("PE"), same, part("X"))
    assert all(len(block.panels) == 3 for block in panels(e))
    assert "T = types(ids): the same row for every token, which is not drawn." in words(e)
    other = replace(same, values=same.values * np.arange(3, dtype=np.float32)[:, None])
    assert all(len(block.panels) == 4 for block in panels(embedded(part("E"), part("PE"), other, part("X"))))


@pytest.mark.parametrize(
    ("symbols", "fields", "said"),
    [
        (["E", "PE", "X"], {"added": "sinusoids"}, "Positions are sines and cosines that are added to E"),
        (["E", "PE", "X"], {}, "X is what the first layer reads; how the model computes it is not shown."),
        (["E", "X"], {"within": ("distance",)}, " The attention adds a learned number for each distance"),
        (["X"], {"within": ("rotary",)}, "No position is added: each attention rotates its queries and keys"),
        (["X"], {"within": ("alibi",)}, "No position is added: the attention subtracts a penalty"),
        (["X"], {}, "No position is added: if the model knows positions, it is through its attention."),
    ],
)
def test_what_is_said_of_positions(symbols, fields, said):
    text = words(embedded(*map(part, symbols), **fields))
    assert said in text
    is_known = symbols == ["X"] or "added" in fields
    assert ("is added" in text or "are added" in text) == is_known, "nothing is said of what is not known"


def test_a_word_that_comes_twice_has_the_cosine_of_its_rows_of_x():
    E = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    e = embedded(InputPart("E", "E", E), InputPart("X", "X", E + np.array([[0, 0], [0, 0], [0, 1]], np.float32)))
    assert "rows of X have the cosine 0.71." in words(e)
    same = embedded(InputPart("X", "X = E", E))
    assert "“the” at 0 and “the” at 2 have the same row of E, and of X." in words(same)
    assert "the same row of E" not in words(embedded(part("E"), part("X"), ids=(5, 6, 7)))


def test_a_single_feature_has_no_cosine_by_distance():
    page = position_table_page(mhaviz.sinusoids(10, 1))
    assert [type(block).__name__ for block in leaves(page.blocks)] == ["Matrices", "Matrices", "Text"]


def test_the_table_of_positions():
    page = position_table_page(mhaviz.sinusoids(10, 6))
    features, cosines, by_distance, words = leaves(page.blocks)
    (curve,) = by_distance.plots[0].series
    np.testing.assert_allclose(curve.ys, [np.cos(p / 10000 ** (np.arange(3) / 3)).mean() for p in curve.xs], atol=1e-6)
    assert features.panels[0].title.endswith("(10, 6)")
    np.testing.assert_array_equal(cosines.panels[0].values, mhaviz.sinusoids(10, 6).cosines)
    assert "the last once in 2,916" in words.lines[0]  # 2π · 10000^(4/6)
    assert "depends on their distance alone" in words.lines[1]
    assert (
        len([*leaves(position_table_page(mhaviz.sinusoids(10, 5)).blocks)][-1].lines) == 1
    )  # no cosine beside the last sine
    assert (
        page.remark(Drawn(pooled=("a", "a")))
        == "rows are positions, columns features; in cosines both are positions; a"
    )
