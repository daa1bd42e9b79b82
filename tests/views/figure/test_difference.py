from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, texts
from made import Edges, made_map
from shown import difference_figure, number_text

from mhaviz.analyses.difference import compare
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.figure.sheet import INK
from mhaviz.views.style import Style

AUTO = Style("RdBu_r", vmax=None)


@pytest.fixture
def difference(random_map):
    def make(tokens=("a", "b", "c"), n_heads=2, n_maps=1, **more):
        sides = (
            tuple(random_map(n_heads, tokens, seed=seed + i, layer=i, **more) for i in range(n_maps)) for seed in (0, 7)
        )
        return compare(*(Attention(Source("where from"), side) for side in sides))

    return make


def pooled(cells, reduction="mass", each=5):
    edges, tokens = each * np.arange(cells + 1), tuple(f"w{i}" for i in range(each * cells))
    sides = []
    for seed in range(2):
        weights = np.random.default_rng(seed).dirichlet(np.ones(cells), size=(2, cells)).astype(np.float32)
        sides.append(Attention(Source("s"), (made_map(tokens, tokens, weights, cells=Edges(edges, edges, reduction)),)))
    return compare(*sides)


def test_every_head_on_one_scale_around_0(difference):
    d = difference(n_maps=2)
    drawn = images(difference_figure(d), "L")
    expected = [head for m in d.maps for head in m.change.weights]
    largest = max(np.abs(head).max() for head in expected)
    assert len(drawn) == 4
    for image, head in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(image.get_array(), head)
        assert image.get_clim() == pytest.approx((-largest, largest))
        assert image.get_cmap().name == "RdBu_r"


def test_numbers_have_their_sign(difference):
    d = difference(n_heads=1)
    drawn = {artist.get_label() for artist in difference_figure(d).page.collections}
    expected = {number_text(number, "+z.2f") for number in d.maps[0].change.weights.ravel()}
    written = {label.removeprefix("numbers ") for label in drawn if (label or "").startswith("numbers ")}
    assert written == {text for text in expected if text.strip("+0.")}


def test_a_divergence_has_one_ink_wherever_it_stands(difference):
    d = difference()
    written = [f"{head.divergence:.4f}" for head in d.ranking]
    texts = [text for text in difference_figure(d).page.texts if any(number in text.get_text() for number in written)]
    assert len(texts) >= 2 * len(written), "beside dots and over maps"
    assert {text.get_color() for text in texts} == {INK}


def test_changes_that_round_to_0_are_not_written():
    weights = [np.array([[[0.5, 0.5], [x, 1 - x]]], np.float32) for x in (0.5, 0.25)]
    d = compare(*(Attention(Source("s"), (made_map(("a", "b"), ("a", "b"), w),)) for w in weights))
    groups = [g for g in difference_figure(d).page.collections if (g.get_label() or "").startswith("numbers ")]
    assert {g.get_label(): len(g.get_offsets()) for g in groups} == {"numbers −0.25": 1, "numbers +0.25": 1}


def test_dots_of_the_heads_that_changed_most_stand_above_the_pictures(difference):
    d = difference(n_heads=4)
    sheet, bits = difference_figure(d), d.maps[0].divergence
    column = [t for t in sheet.page.texts if t.get_text() in {f"{x:.4f}" for x in bits}]
    assert [t.get_text() for t in sorted(column, key=lambda t: t.get_position()[1])] == [
        f"{x:.4f}" for x in sorted(bits, reverse=True)
    ]
    assert all(t.get_position()[1] < min(image.get_extent()[3] for image in sheet.page.images) for t in column)
    (dots,) = (line for line in sheet.page.lines if line.get_marker() == "o")
    xs = dots.get_xdata()
    np.testing.assert_allclose(
        (xs[1:] - xs[:-1]) / (xs[-1] - xs[0]), np.diff(sorted(bits)[::-1]) / (bits.min() - bits.max())
    )
    largest = d.ranking[0].largest
    assert f"{largest.query} {'abc'[largest.query]} → {largest.key} {'abc'[largest.key]}" in texts(sheet)
    assert "in bits" in " ".join(texts(sheet))
    assert "A: where from; B: where from" in texts(sheet)


def test_layers_by_heads_of_the_mean_over_sentences(random_map):
    sides = [
        tuple(random_map(2, seed=seed + 9 * s + i, layer=i, sentence=s) for s in range(3) for i in range(2))
        for seed in (0, 77)
    ]
    d = compare(*(Attention(Source("s"), side) for side in sides))
    sheet = difference_figure(d)
    expected = np.mean([[m.divergence for m in d.maps if m.change.sentence == s] for s in range(3)], axis=0)
    (image,) = images(sheet, "mean divergence, bits")
    np.testing.assert_allclose(image.get_array(), expected, rtol=1e-6)
    best = np.unravel_index(expected.argmax(), expected.shape)
    assert texts(sheet)[0] == f"s: A and B differ most in L{best[0]} H{best[1]}: {expected.max():.4f} bits"
    assert "whisker: from the least to the largest of the sentences" in " ".join(texts(sheet))


def test_the_divergence_of_each_head_stands_over_it(difference):
    d = difference(n_heads=2, n_maps=2)
    sheet = difference_figure(d)
    expected = [f"{x:.4f} bits" for m in d.maps for x in m.divergence]
    for image, number in zip(images(sheet, "L"), expected, strict=True):
        _, right, _, top = image.get_extent()
        (text,) = (t for t in sheet.page.texts if np.allclose(t.get_position(), (right, top - 0.04), atol=0.01))
        assert (text.get_text(), text.get_ha()) == (number, "right")


def test_no_divergence_where_it_would_stand_in_the_title_or_is_none(difference):
    narrow = difference_figure(difference(("a",), n_heads=3), AUTO)
    flawed = [np.array([[[x, 1.0]]], np.float32) for x in (0.0, 0.5)]
    none = compare(*(Attention(Source("s"), (made_map(("a",), ("a", "b"), w, "cross"),)) for w in flawed))
    for sheet in (narrow, difference_figure(none)):
        assert not any(text.endswith(" bits") for text in texts(sheet))


def test_what_the_mask_hides_is_blank():
    weights = [np.array([[[1, 0], [x, 1 - x]]], np.float32) for x in (0.5, 0.25)]
    d = compare(*(Attention(Source("s"), (made_map(("a", "b"), ("a", "b"), w, "masked"),)) for w in weights))
    (image,) = images(difference_figure(d), "L0 H0")
    assert np.isnan(np.asarray(image.get_array())).tolist() == [[False, True], [False, False]]
    assert tuple(image.get_cmap().get_bad()) == (1, 1, 1, 1)


def test_few_cells_of_a_long_map_may_be_beyond_the_scale():
    d = pooled(70)
    sheet = difference_figure(d)
    high = images(sheet, "L0 H0")[0].get_clim()[1]
    sizes = np.abs(d.maps[0].change.weights)
    assert 0 < (sizes > high).mean() < 0.006
    assert f"≥ {high:.3g}" in texts(sheet)


@pytest.mark.parametrize(("length", "n_heads"), [(1, 1), (1, 16), (12, 8), (60, 2), (300, 16)])
def test_any_size_stays_on_the_sheet(difference, length, n_heads):
    inside(difference_figure(difference(tuple(f"w{i}" for i in range(length)), n_heads), replace(AUTO, dpi=40)))


@pytest.mark.parametrize(("cells", "each", "reduction"), [
    (1, 9, "max"), (12, 1, "max"), (64, 7, "mass"), (400, 3, "mass"),
])  # fmt: skip
def test_pooled_maps_stay_on_the_sheet(cells, each, reduction):
    inside(difference_figure(pooled(cells, reduction, each), replace(AUTO, dpi=40)))


def test_cells_that_share_a_pixel(difference):
    sheet = difference_figure(difference(tuple(f"w{i}" for i in range(300)), 1), replace(AUTO, dpi=30))
    assert any("the change farthest from 0 of up to 2 × 2" in text for text in texts(sheet))
