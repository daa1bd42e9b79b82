from collections import Counter

import numpy as np
import pytest
from drawn import texts
from looking import encoded
from rounding import rounding
from shown import number_text

from mhaviz.analyses.explanation import explain
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.explanation import MOST_KEYS
from mhaviz.pages.registry import page_of
from mhaviz.views.figure import page, parts
from mhaviz.views.figure.sheet import ACCENT
from mhaviz.views.showing import figure_of, figures_of
from mhaviz.views.style import Style

CLOSE = rounding()


def explanation(sentence="one two three two", position=2, d_model=16, n_heads=2, **options):
    return explain(*encoded(RandomLayer(d_model, n_heads, device_name="cpu", **options), [sentence]), position, 0)


def strips(sheet):
    """(label, values) of the rows of all pictures, from top to bottom."""
    found = []
    for image in sorted(sheet.page.images, key=lambda image: image.get_extent()[3]):
        if not image.get_label().startswith("scale of"):
            left, _, bottom, top = image.get_extent()
            places = [(*text.get_position(), text.get_text()) for text in sheet.page.texts]
            beside = sorted((y, label) for x, y, label in places if x < left and top < y < bottom)
            found += zip([label for _, label in beside], np.asarray(image.get_array(), float), strict=True)
    return found


def test_strips_read_like_the_equation():
    e = explanation()
    found = strips(figure_of(e))
    largest = np.argsort(-e.sizes)
    names = ("0 one", "1 two", "2 three", "3 two")
    assert [name for name, _ in found] == ["q", *names, *(names[key] for key in largest), "= output"]
    expected = [e.query, *e.products, *e.contributions[largest], e.output]
    for (_, values), row in zip(found, expected, strict=True):
        np.testing.assert_array_equal(values, row.astype(float))


@pytest.mark.parametrize(("d_key", "width"), [(16, None), (64, None), (16, 3.3)])
def test_features_stand_below_each_other_and_rows_beside_their_numbers(d_key, width):
    e = explanation(d_model=2 * d_key)
    sheet = figure_of(e, Style(width=width))
    pictures = (image for image in sheet.page.images if not image.get_label().startswith("scale of"))
    query, products, _ = sorted((image.get_extent() for image in pictures), key=lambda extent: extent[3])
    assert query[:2] == products[:2], "q over q ∘ k"
    _, right, bottom, top = products
    rows = {text.get_text(): text.get_position()[1] for text in sheet.page.texts if text.get_position()[0] > right}
    middles = [top + (key + 0.5) * (bottom - top) / 4 for key in range(4)]
    scores = [rows.get(number_text(e.similarities[key], "z.2f")) for key in range(4)]
    if width is None:
        assert scores == pytest.approx(middles, abs=0.02)
    else:
        assert scores == [None] * 4, "the table is below"
    bold = [text.get_text() for text in sheet.page.texts if text.get_weight() == "bold"]
    assert " ".join(text for text in bold if len(text) > 5) == page_of(e).title, "one heading"


def test_zero_is_in_the_middle_of_every_scale():
    e = explanation()
    sheet = figure_of(e)
    limits = {image.get_clim() for image in sheet.page.images}
    assert all(low == -high for low, high in limits)
    contributions = max(np.abs(e.contributions).max(), np.abs(e.output).max())
    assert {high for _, high in limits} == {np.abs(e.query).max(), np.abs(e.products).max(), contributions}


def test_bars_are_as_long_as_weights_and_shares():
    e = explanation()
    sheet = figure_of(e)
    bars = [patch for patch in sheet.page.patches if patch.get_facecolor()[:3] == _rgb(ACCENT)]
    widths = np.array([patch.get_width() for patch in sorted(bars, key=lambda patch: patch.get_y())])
    expected = np.array([*e.weights, *np.sort(e.shares)[::-1], 0])
    np.testing.assert_allclose(widths / widths.max(), expected / expected.max(), rtol=CLOSE)


def _rgb(colour):
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def test_numbers_and_words():
    e = explanation()
    shown = texts(figure_of(e))
    for key in range(4):
        for number in (e.similarities[key], e.scores[key], e.sizes[key]):
            assert number_text(number, "z.2f") in shown
    key = int(np.argmax(e.weights))
    assert f"at position {key} weighs most" in " ".join(shown)
    assert shown[0].startswith("L0 H0: “three” at position 2 looks most at ")  # the title, then what is studied
    assert "/ √8" in shown
    assert e.source.footnote in shown


def test_hidden_keys():
    sheet = figure_of(explanation(causal=True, position=1))
    assert texts(sheet).count("hidden") == 2
    found = strips(sheet)
    assert [bool(np.isnan(values).all()) for _, values in found[1:5]] == [False, False, True, True]
    assert [name for name, _ in found[5:]] in (["0 one", "1 two", "= output"], ["1 two", "0 one", "= output"])


def test_of_many_keys_the_heaviest():
    e = explanation(" ".join(f"w{i}" for i in range(300)), 7)
    sheet = figure_of(e)
    heaviest = sorted(np.argsort(-e.weights)[:MOST_KEYS])
    assert [name for name, _ in strips(sheet)[1 : MOST_KEYS + 1]] == [f"{key} w{key}" for key in heaviest]
    together = 1 - e.weights[heaviest].sum()
    assert f"and {300 - MOST_KEYS} more, together {together:.2f}" in texts(sheet)
    name, rest = strips(sheet)[-2]
    shown = np.argsort(-e.sizes)[:MOST_KEYS]
    assert name == f"{300 - MOST_KEYS} more"
    np.testing.assert_allclose(rest + e.contributions[shown].sum(0), e.output, atol=CLOSE)


@pytest.mark.parametrize(
    ("d_key", "length", "dpi"), [(1, 1, 20), (1, 17, 150), (64, 1, 150), (512, 17, 20), (512, 17, 150)]
)
def test_any_size_stays_on_the_sheet(d_key, length, dpi):
    e = explanation(" ".join(f"w{i}" for i in range(length)), 0, d_key, 1)
    sheet = figure_of(e, Style(dpi=dpi))
    renderer = sheet.canvas.get_renderer()
    for text in sheet.page.texts:
        extent = text.get_window_extent(renderer)
        assert extent.x0 >= -1, text
        assert extent.x1 <= sheet.width * sheet.dpi + 2, text
        assert extent.y1 <= sheet.height * sheet.dpi + 2, text
    pooled = d_key == 512 and dpi == 20
    assert any("strongest of up to" in text for text in texts(sheet)) == pooled
    for image in (one for one in sheet.page.images if not one.get_label().startswith("scale of")):
        left, right, _, _ = image.get_extent()
        assert image.get_array().shape[1] <= (right - left) * sheet.dpi + 1, "no more cells than pixels"


@pytest.mark.parametrize("style", [Style(), Style(room="slide")])
def test_a_table_is_measured_once_for_each_layout_of_the_page(monkeypatch, style):
    """Beside pictures, whose room it leaves, and alone."""
    tables, counts = [], []

    def plan(*arguments):
        tables.clear()
        planned = lay_out(*arguments)
        counts.extend(Counter(map(id, tables)).values())
        return planned

    lay_out, measure = page._plan, parts.measure_table
    monkeypatch.setattr(page, "_plan", plan)
    monkeypatch.setattr(parts, "measure_table", lambda table, *a, **b: tables.append(table) or measure(table, *a, **b))
    figures_of(explanation(), style)
    assert set(counts) == {1}
