"""One scale for all media: the same ends, in the same words, however many cells each has room for."""

import re
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, texts
from looking import attend
from made import made_map
from matplotlib.figure import Figure
from shown import heatmap_figure, heatmap_view

from mhaviz.analyses.difference import compare
from mhaviz.analyses.scaling import compare_scaling
from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Shaded, matrices
from mhaviz.pages.registry import page_of
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import NORM, UNIFORM
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.views.html.contents import contents_of
from mhaviz.views.scales import resolve, resolve_maps
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style


def attention_of(*maps):
    return Attention(Source("made by a test"), maps)


def peaked(n_heads, n, seed=0):
    """Weights of which a few are far above all others: a scale up to the largest would leave the rest pale."""
    weights = np.random.default_rng(seed).dirichlet(np.full(n, 0.2), (n_heads, n)).astype(np.float32)
    tokens = [f"w{i}" for i in range(n)]
    return made_map(tokens, tokens, weights)


@pytest.mark.parametrize(("n_heads", "n"), [(1, 32), (1, 100), (1, 300)])
def test_colours_of_a_figure_a_page_and_a_terminal_end_at_the_same_weight(show, n_heads, n):
    attention = attention_of(peaked(n_heads, n))
    sheet = heatmap_figure(attention, Style(dpi=20))
    (tops,) = {image.get_clim() for image in images(sheet, "L0 H")}
    (scale,) = contents_of(attention, Style()).document["scales"]
    assert (scale["low"], scale["high"]) == tops
    low, high = scale["ends"]
    assert {low, high} <= set(texts(sheet))
    assert re.search(f"█ {high}[ ,]", show(heatmap_view(attention), 100))


def test_of_many_heads_a_page_has_the_scale_of_their_weights_and_not_of_its_thumbnails():
    attention = attention_of(peaked(144, 100))
    (scale,) = contents_of(attention, Style()).document["scales"]
    ordered = np.sort(attention.maps[0].weights, axis=None).astype(np.float64)
    below = ordered[np.searchsorted(ordered.cumsum(), 0.9 * ordered.sum())]
    assert below <= scale["high"] <= 1.12 * below or scale["high"] == ordered[-1]
    painted = resolve(page_of(attention), {}, Style()).of(attention.maps[0])  # to draw 144 heads takes seconds
    assert (painted.high, painted.ends) == (scale["high"], scale["ends"])


def ratios(*rows):
    return attention_of(replace(made_map("ab", "ab", np.float32([rows])), quantity=UNIFORM))


def changed(*values):
    """The difference of weights that are 0.5 everywhere, and those with these changes."""
    halves = np.full((1, 2, 2), 0.5, np.float32)
    changes = np.array([[[value, -value] for value in values]], np.float32)
    sides = (attention_of(made_map("ab", "ab", weights)) for weights in (halves, halves + changes))
    return compare(*sides)


@pytest.mark.parametrize(
    ("result", "style", "ends"),
    [
        (attention_of(made_map("ab", "ab", np.float32([[[0.1256, 0.01], [0, 0.01]]]))), Style(), ("0", "0.126")),
        (attention_of(made_map("ab", "ab", np.float32([[[0.5, 0.5], [1, 0]]]))), Style(vmax=0.1256), ("0", "≥ 0.126")),
        (attention_of(made_map("ab", "ab", np.float32([[[0.5, 0.5], [1, 1e-9]]]))), Style(log=True), ("≤ 1e−06", "1")),
        (changed(0.25, 0.1), Style(vmax=0.12), ("≤ −0.12", "≥ 0.12")),
        (changed(0.00123, 0), Style(), ("−0.00123", "0.00123")),
        (attention_of(replace(made_map("a", "ab", np.float32([[[1234, 3]]])), quantity=NORM)), Style(), ("0", "1230")),
        (ratios([4.0, 0.5], [1, 0]), Style(), ("≤ 1/4", "4")),
        (ratios([1.02, 0.98], [1, 1]), Style(), ("1/2", "2")),
        (ratios([4.0, 0.5], [1, 1]), Style(vmax=3), ("1/3", "≥ 3")),
    ],
    ids=["digits", "above", "log", "changes", "small changes", "norms", "ratios", "equal ratios", "ratios above"],
)
def test_three_media_write_the_same_ends(show, result, style, ends):
    low, high = ends
    assert set(ends) <= set(texts(figure_of(result, style)))
    lines = show(view_of(result, style), 120).splitlines()
    assert any(line.startswith(f"{low} ") and f" {high}" in line for line in lines)
    scale = contents_of(result, style).document["scales"][-1]
    assert scale["logEnds" if style.log else "ends"] == ends


@pytest.mark.parametrize(("weights", "end"), [
    (np.full((1, 3, 8), 1 / 8), 0.25), (np.full((1, 1, 2), 0.5), 1.0), (np.ones((2, 3, 1)), 1.0),
    (np.array([[[0.4, 0.3, 0.3]]]), 2 / 3), (np.array([[[0.9, 0.05, 0.05]]]), 0.9),
])  # fmt: skip
def test_weights_that_are_nearly_equal_are_not_dark(weights, end):
    """They have the middle of the scale, as none stands out; a scale up to the largest would make all navy."""
    _, rows, columns = weights.shape
    m = made_map([f"q{i}" for i in range(rows)], [f"k{i}" for i in range(columns)], weights.astype(np.float32))
    assert resolve_maps([m], Style()).of(m).high == pytest.approx(end)


def test_numbers_in_the_cells_of_a_page_have_the_decimals_of_a_figure():
    """Changes below 0.005 had numbers in a figure, and none in a page."""
    d = changed(0.00123, 0.0004)
    (image,) = images(figure_of(d), "L0 H0")
    scale = contents_of(d, Style()).document["scales"][-1]
    assert (scale["decimals"], scale["signed"]) == (4, True)
    numbers = {one.number for one in figure_of(d).page.collections if hasattr(one, "number")}
    assert numbers == {"+0.0012", "−0.0012", "+0.0004", "−0.0004"}
    assert image.get_clim()[1] == scale["high"]


def test_ratios_end_above_1():
    with pytest.raises(ArgumentError, match=r"expected more than 1, .* got 0\.5"):
        heatmap_figure(ratios([4.0, 0.5], [1, 0]), Style(vmax=0.5))


def test_missing_numbers_are_on_no_scale():
    m = peaked(1, 4)
    m.weights[0, 2] = np.nan
    without = replace(m, weights=np.nan_to_num(m.weights))
    tops = [heatmap_figure(attention_of(one)).page.images[0].get_clim() for one in (m, without)]
    assert tops[0] == tops[1]
    assert attention_of(m).plot(ax=Figure().subplots()).get_clim() == tops[0]


def test_weights_beside_heads_are_on_the_scale_of_the_heads():
    """The same head would be darker in one of them."""
    layer = RandomLayer(16, 2, device_name="cpu")
    inputs = layer.encode(["a b c"])
    report = Report(attend(layer, ["a b c"]), layer.trace(inputs), compare_scaling(layer, inputs, [0]))
    page = page_of(report)
    scales = resolve(page, {}, Style())
    heads, panels = (
        page.blocks[0],
        next(block for block in matrices(page.blocks) if not block.maps),
    )
    ((of_heads,), (of_panels,)) = map(scales.beside, (heads, panels))
    assert {panel.scale for panel in scales.panels(panels)} == {of_panels}
    assert (of_panels.low, of_panels.high) == (of_heads.low, of_heads.high)
    assert of_heads.high >= report.scaling.unscaled.weights.max() > attend(layer, ["a b c"]).maps[0].weights.max()
    assert not of_heads.above
    assert not of_panels.above
    tops = {image.get_clim() for image in figure_of(report).page.images}
    assert tops == {(0, of_heads.high)}


def test_a_scale_stands_beside_the_first_block_that_has_it():
    first, second = peaked(2, 8), replace(peaked(2, 8, seed=1), sentence=1)
    page = attention_page(attention_of(first, second))
    scales = resolve(page, {}, Style())
    assert [len(scales.beside(block)) for block in page.blocks] == [1, 0]


def test_only_cells_that_are_sums_have_a_scale_of_their_size():
    whole = peaked(2, 64)
    edges = np.arange(0, 65, 2)
    for reduction, moves in (("mass", True), ("max", False)):
        m = made_map(whole.queries, whole.keys, whole.weights[:, ::2, ::2], cells=(edges, edges, reduction))
        page = attention_page(attention_of(m))
        tops = [resolve(page, cells, Style()).of(m).high for cells in ({}, {id(page.blocks[0].maps[0]): (8, 8)})]
        assert (tops[0] != tops[1]) == moves
    page = attention_page(attention_of(whole))
    assert resolve(page, {}, Style()) == resolve(page, {id(page.blocks[0].maps[0]): (8, 8)}, Style())


def test_a_shaded_text_has_its_scale_from_the_page_as_matrices_have():
    answer = attention_of(made_map("abcde", "abcde", peaked(2, 5).weights)).answer("c")
    page = page_of(answer)
    (shaded,) = (block for block in page.blocks if isinstance(block, Shaded))
    scales = resolve(page, {}, Style(cmap="bone"))
    assert scales.shaded(shaded).scale == replace(shaded.scale, colormap="bone")
    assert scales.bars == ()  # it has a key
