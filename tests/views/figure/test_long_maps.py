"""Pictures of long maps: their cells, their axes, their scales, and each head in a few numbers."""

import io
import itertools
from dataclasses import replace
from functools import partial

import matplotlib
import numpy as np
import pytest
from drawn import texts
from hostile import HOSTILE
from made import Edges, hiding, made_map
from matplotlib import image as mpl_image
from matplotlib.patches import StepPatch
from rounding import rounding
from shown import heatmap_figure

from mhaviz.results.attention import Attention
from mhaviz.results.quantity import Quantity
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.showing import figures_of
from mhaviz.views.style import Style
from mhaviz.views.tiles.fit import MOST_WIDTH, Space, lay_out

pytestmark = pytest.mark.slow

CLOSE = rounding()

AUTO = Style()
LOG = Style(log=True)


def edges(start, end, cells):
    return start + np.arange(cells + 1, dtype=np.int64) * (end - start) // cells


def long_map(
    heads=1,
    queries=(0, 5000),
    keys=(0, 5000),
    cells=(100, 100),
    kind="self",
    reduction="mass",
    words=("the", "whale"),
    summary=False,
):
    """A map of so many cells whose weights differ by orders of magnitude."""
    (q0, q1), (k0, k1) = queries, keys
    q_edges, k_edges = edges(q0, q1, min(cells[0], q1 - q0)), edges(k0, k1, min(cells[1], k1 - k0))
    random = np.random.default_rng(0)
    weights = np.exp(random.normal(-6, 2, (heads, len(q_edges) - 1, len(k_edges) - 1)))
    weights = np.minimum(weights, 1).astype(np.float32)
    names = [tuple(words[i % len(words)] for i in range(a, b)) for a, b in (queries, keys)]
    attention_map = made_map(*names, weights, kind, cells=Edges(q_edges, k_edges, reduction))
    hidden = attention_map.hidden
    if hidden is not None:
        attention_map = replace(attention_map, weights=np.where(hidden, np.float32(0), weights))
    if summary:
        sinks = (Sink(k0, names[1][0], 500.0), Sink(k1 - 1, names[1][-1], 3.0))
        link = Link(q1 - 1, names[0][-1], k0, names[1][0], 0.5)
        head = HeadSummary(4.0, 8.0, sinks, None if kind == "cross" else 0.25, link, link)
        attention_map = replace(attention_map, summary=MapSummary((head,) * heads, q1 - q0, 32, 0.1))
    return attention_map


def figure(*maps, style=AUTO):
    return heatmap_figure(Attention(Source("test"), maps), style)


def test_larger_letters_of_a_slide_leave_a_map_its_inches():
    attention = Attention(Source("test"), (long_map(1, (0, 469), (0, 469), (235, 235), summary=True),))
    (slide,), (usual,) = (figures_of(attention, Style(room="slide", font_size=size)) for size in (None, 8))
    ends = [tiles(one)[0].get_extent()[:2] for one in (slide, usual)]
    wide, most = (np.ptp(end) * one.zoom for end, one in zip(ends, (slide, usual), strict=True))
    assert wide > most - 1  # inches


def tiles(sheet):
    return [image for image in sheet.page.images if image.get_label().startswith("L0 H")]


def decode(sheet):
    """The PNG as pixels, (height, width, 3), 0 to 255."""
    stream = io.BytesIO()
    sheet.save(stream, "png")
    stream.seek(0)
    return np.round(mpl_image.imread(stream, format="png")[..., :3] * 255).astype(int)


def boxes(sheet):
    """(text, its box in pixels) of everything that is written."""
    renderer = sheet.canvas.get_renderer()
    return [(t.get_text(), t.get_window_extent(renderer)) for t in sheet.page.texts if t.get_text()]


SHAPES = {
    "one": partial(long_map, summary=True),
    "one of the smallest cells": partial(long_map, cells=(16, 16), summary=True),
    "eight": partial(long_map, 8, (0, 20_000), (0, 20_000), (512, 512), summary=True),
    "sixteen": partial(long_map, 16, cells=(64, 64), summary=True),
    "many": partial(long_map, 40, cells=(16, 16), summary=True),
    "a million tokens": partial(long_map, 3, (10**6 - 5000, 10**6), (10**6 - 5000, 10**6), (16, 16), summary=True),
    "rectangle": partial(long_map, 4, (1000, 1300), (0, 3000), (300, 512), "masked", summary=True),
    "flat": partial(long_map, 3, (77, 80), (0, 5000), (512, 512), summary=True),
    "one query": partial(long_map, 2, (77, 78), (0, 5000), (512, 512), summary=True),
    "narrow": partial(long_map, 8, (0, 5000), (70, 73), (512, 512), summary=True),
    "one key": partial(long_map, 8, (0, 5000), (70, 71), (100, 100), summary=True),
    "two cells": partial(long_map, 2, (0, 5000), (0, 200), (100, 2), summary=True),
    "one cell": partial(long_map, 2, (0, 5000), (0, 200), (1, 1), summary=True),
    "a window of tokens": partial(long_map, 2, (4000, 4030), (3000, 3030), (512, 512), summary=True),
    "a large window of tokens": partial(long_map, 3, (4000, 4200), (3000, 3200), (512, 512), summary=True),
    "long tokens": partial(long_map, 8, words=("antidisestablishmentarianism" * 3,), cells=(16, 16), summary=True),
    "wide tokens": partial(long_map, 8, words=("鯨" * 30,), cells=(16, 16), summary=True),
    "cross": partial(long_map, 2, (0, 900), (0, 5000), (90, 512), "cross", summary=True),
}


def assert_readable(sheet):
    """No text overlaps another or leaves the sheet."""
    width, height = sheet.width * sheet.dpi, sheet.height * sheet.dpi
    written = boxes(sheet)
    for text, box in written:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for (one, a), (other, b) in itertools.combinations(written, 2):
        across, up = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0 or up <= 0.02 * sheet.dpi, (one, other)


@pytest.mark.parametrize("name", SHAPES)
def test_no_text_overlaps_another_or_leaves_the_sheet(name):
    assert_readable(figure(SHAPES[name]()))


@pytest.mark.parametrize(("dpi", "log"), [(100, False), (300, True)])
def test_other_resolutions_have_room_as_well(dpi, log):
    assert_readable(figure(SHAPES["rectangle"](), style=Style(dpi=dpi, log=log)))


@pytest.mark.parametrize("name", ["one", "rectangle", "one query", "one cell"])
def test_no_text_overlaps_another_or_leaves_the_sheet_on_a_logarithmic_scale_either(name):
    assert_readable(figure(SHAPES[name](), style=LOG))


def test_positions_stand_along_the_axes():
    sheet = figure(long_map(queries=(0, 20_000), keys=(0, 20_000)))
    left, right, bottom, top = tiles(sheet)[0].get_extent()
    places = {}
    for text in sheet.page.texts:
        if text.get_position()[0] <= right:  # what is right of it belongs to the scale
            places.setdefault(text.get_text(), []).append(text.get_position())
    assert len(places["0"]) == len(places["10,000"]) == 2
    (query_x, query_y), (key_x, key_y) = places["10,000"]
    assert query_y == pytest.approx(top + (bottom - top) * 10_000.5 / 20_000)
    assert key_x == pytest.approx(left + (right - left) * 10_000.5 / 20_000)
    assert query_x < left
    assert key_y > bottom


def test_a_window_says_where_it_is():
    sheet = figure(long_map(2, (1000, 1300), (4000, 7000), (300, 512)))
    shown = texts(sheet)
    assert {"1,000", "1,100", "1,200", "5,000", "6,000"} <= set(shown)
    assert any("queries 1,000 to 1,299, keys 4,000 to 6,999" in text for text in shown)


def test_a_small_window_has_labels_that_count_from_the_beginning_of_the_input():
    shown = texts(figure(long_map(1, (4000, 4003), (700, 702), words=("the",))))
    assert {"the #4000", "the #4002", "the #700", "the #701"} <= set(shown)
    assert not {"the₀", "the #0"} & set(shown)


def laid_out(m):
    return lay_out(len(m.heads), m.rows, m.columns, Space(Fonts(), 150))


def test_an_axis_of_few_tokens_has_labels_beside_one_of_positions():
    layout = laid_out(long_map(2, (0, 5000), (100, 108)))
    assert [text for _, text, _ in layout.keys.marks][:2] == ["the₁₀₀", "whale₁₀₁"]
    assert [text for _, text, _ in layout.queries.marks][:3] == ["0", "500", "1,000"]


def test_labels_are_not_made_for_tokens_that_are_not_shown(monkeypatch):
    seen = []
    monkeypatch.setattr(Fonts, "shown", lambda self, text: seen.append(text) or text)
    m = long_map(8, (0, 20_000), (0, 20_000), words=[f"w{i}" for i in range(20_000)], summary=True)
    figure(m)
    assert len(set(seen)) < 1000


@pytest.mark.parametrize(
    ("heads", "cells", "inches"),
    [(1, 512, 1024 / 150), (2, 512, 1024 / 150), (8, 512, 512 / 150), (1, 1024, 1024 / 150), (8, 1024, 1024 / 150)],
)
def test_cells_are_whole_pixels(heads, cells, inches):
    m = long_map(1, (0, 20_000), (0, 20_000), (cells, cells))
    layout = lay_out(heads, m.rows, m.columns, Space(Fonts(), 150))
    assert layout.cells == (cells, cells)
    assert layout.tile_width == layout.tile_height == pytest.approx(inches)
    assert layout.width <= MOST_WIDTH
    assert layout.keys.cell * 150 == pytest.approx(round(layout.keys.cell * 150))


def test_eight_heads_are_a_slide_and_no_page_is_a_tower():
    layouts = [laid_out(long_map(8, cells=(n, n))) for n in (512, 1024)]
    assert [(layout.columns, layout.rows) for layout in layouts] == [(4, 2), (3, 3)]


@pytest.mark.parametrize("reduction", ["mass", "max"])
def test_where_a_page_has_no_room_equally_many_cells_share_a_pixel(reduction):
    m = long_map(4, (0, 8192), (0, 8192), (1024, 1024), reduction=reduction)
    sheet = figure(m, style=replace(AUTO, columns=4))
    drawn = np.asarray(tiles(sheet)[2].get_array())
    blocks = m.weights[2].reshape(256, 4, 256, 4)
    expected = blocks.sum(axis=3).mean(axis=1) if reduction == "mass" else blocks.max(axis=(1, 3))
    np.testing.assert_allclose(drawn, expected, rtol=CLOSE)
    says = {
        "mass": "the mean over up to 32 queries of their weight on up to 32 keys",
        "max": "the largest of up to 32 × 32",
    }
    assert any(says[reduction] in text for text in texts(sheet))


@pytest.mark.parametrize(("cmap", "kind", "reduction"), [
    ("bone", "masked", "max"), ("viridis", "self", "mass"),
])  # fmt: skip
def test_each_cell_of_the_picture_has_the_colour_of_the_logarithm_of_its_weight(cmap, kind, reduction):
    m = hiding(long_map(3, (0, 3000), (0, 3000), (40, 40), kind, reduction))
    sheet = figure(m, style=replace(LOG, cmap=cmap))
    picture = decode(sheet)
    for weights, tile in zip(m.weights, tiles(sheet), strict=True):
        low, high = tile.get_clim()
        left, right, bottom, top = tile.get_extent()
        x = ((left + (np.arange(40) + 0.5) * (right - left) / 40) * sheet.dpi).astype(int)
        y = ((top + (np.arange(40) + 0.5) * (bottom - top) / 40) * sheet.dpi).astype(int)
        share = np.clip(np.log(np.maximum(weights, 1e-30) / low) / np.log(high / low), 0, 1)
        expected = matplotlib.colormaps[cmap](share)[..., :3] * 255
        if kind == "masked":
            expected[np.triu_indices(40, 1)] = 255
        assert np.abs(picture[np.ix_(y, x)] - expected).max() <= 6  # two of 256 colours where the map is steepest


def test_mass_and_largest_weights_have_a_scale_each():
    mass = long_map(2)
    largest = replace(mass, weights=mass.weights / 50, quantity=Quantity(reduction="max"))
    sheet = figure(mass, largest, style=LOG)
    clims = [tile.get_clim() for tile in tiles(sheet)]
    assert clims[0] == clims[1]
    assert clims[2] == clims[3]
    assert clims[2][1] == pytest.approx(clims[0][1] / 50, rel=CLOSE)
    assert len([image for image in sheet.page.images if image.get_label().startswith("scale")]) == 2
    assert tiles(sheet)[2].get_extent()[3] > tiles(sheet)[0].get_extent()[2], "one above the other"
    assert any("largest weights, tokens 0 to 4,999" in text for text in texts(sheet))


def test_a_logarithmic_scale_says_so_and_is_labelled_at_powers_of_ten():
    m = long_map()
    weights = np.full_like(m.weights, 1e-9)
    weights[0, :, :50] = 1e-3
    weights[0, 3, 3] = 1
    sheet = figure(replace(m, weights=weights), style=LOG)
    low, high = tiles(sheet)[0].get_clim()
    assert (low, high) == (pytest.approx(1e-6), 1)
    (bar,) = (image for image in sheet.page.images if image.get_label().startswith("scale"))
    _, _, bottom, top = bar.get_extent()
    places = {text.get_text(): text.get_position()[1] for text in sheet.page.texts}
    assert "weight, log" in places
    assert places["≤ 1e−06"] == pytest.approx(bottom)
    for power, text in ((2, "0.01"), (4, "0.0001"), (3, "0.001")):
        assert places[text] == pytest.approx(top + (bottom - top) * power / 6)


def test_a_lone_spike_is_dark_and_does_not_make_the_rest_white():
    m = long_map(1, (0, 10_000), (0, 10_000), (512, 512), reduction="max")
    weights = np.full_like(m.weights, 1e-5)
    weights[0, 300, 400] = 0.9
    sheet = figure(replace(m, weights=weights), style=LOG)
    picture = decode(sheet)
    left, right, bottom, top = tiles(sheet)[0].get_extent()
    y, x = (
        int((top + (bottom - top) * 300.5 / 512) * sheet.dpi),
        int((left + (right - left) * 400.5 / 512) * sheet.dpi),
    )
    assert np.abs(picture[y, x] - (18, 29, 65)).max() <= 5
    assert 155 < picture[y + 50, x + 50].min() < 235


def test_a_sink_at_the_first_key_is_not_covered_by_the_frame():
    m = long_map(8, (0, 20_000), (0, 20_000), (512, 512))
    weights = np.full_like(m.weights, 1e-4)
    weights[..., 0] = 0.95
    sheet = figure(replace(m, weights=weights), style=replace(AUTO, sinks="in"))
    picture = decode(sheet)
    for tile in tiles(sheet):
        left, right, bottom, top = tile.get_extent()
        y, x = round((top + bottom) / 2 * sheet.dpi), round(left * sheet.dpi)
        assert np.abs(picture[y, x] - (18, 29, 65)).max() <= 5
        frame = [picture[y, x - 1], picture[y, round(right * sheet.dpi)]]
        assert all((pixel > 90).all() and (pixel < 160).all() for pixel in frame), "grey on both sides"
        assert (picture[y, [x + 1, round(right * sheet.dpi) - 1]] > 230).all(), "nearly nothing, nearly white"


@pytest.mark.parametrize(("queries", "high"), [((0, 5000), 0.3), ((2000, 3000), 0.9)])
def test_the_first_row_of_a_masked_map_ends_the_scale_only_if_it_sees_more_than_a_cell(queries, high):
    m = long_map(1, queries, (0, 5000), (50, 50), "masked")
    weights = np.where(m.beyond, 0, np.full_like(m.weights, 0.001))
    weights[0, 0, 0], weights[0, 20, 0] = 0.9, 0.3
    sheet = figure(replace(m, weights=weights), style=LOG)
    assert tiles(sheet)[0].get_clim()[1] == pytest.approx(high)
    assert ("≥ 0.3" in texts(sheet)) == (high == 0.3)


def test_equal_weights_are_in_the_middle_of_a_linear_scale():
    m = long_map(2)
    sheet = figure(replace(m, weights=np.full_like(m.weights, 0.01)))
    assert tiles(sheet)[0].get_clim() == (0, pytest.approx(0.02))
    assert "≥ 0.02" not in texts(sheet)


def test_equal_weights_are_in_the_middle_of_a_logarithmic_scale():
    m = long_map(2)
    sheet = figure(replace(m, weights=np.full_like(m.weights, 0.01)), style=LOG)
    low, high = tiles(sheet)[0].get_clim()
    assert 0.3 < np.log(0.01 / low) / np.log(high / low) < 0.7


def test_weights_that_are_all_nothing_can_be_drawn():
    m = long_map(2)
    figure(replace(m, weights=np.zeros_like(m.weights))).save(io.BytesIO(), "png")


def test_the_summary_is_a_table_under_several_heads():
    sheet = figure(long_map(3, summary=True))
    places = {text.get_text(): text.get_position() for text in sheet.page.texts}
    _, _, bottom, _ = tiles(sheet)[2].get_extent()
    assert {"head", "mean entropy", "strongest sinks"} <= set(places)
    assert places["mean entropy"][1] > bottom
    assert texts(sheet).count("4.00 (50%)") == 3
    assert texts(sheet).count("0 the (10.0%), 4,999 whale (0.06%)") == 3
    assert texts(sheet).count("4,999 whale → 0 the (0.5)") == 6
    assert any(text.startswith("means over 5,000 queries") for text in texts(sheet))


def test_the_summary_of_one_head_stands_beside_it():
    sheet = figure(long_map(1, summary=True), style=replace(AUTO, width=12))
    places = {text.get_text(): text.get_position() for text in sheet.page.texts}
    _, right, bottom, top = tiles(sheet)[0].get_extent()
    x, y = places["mean entropy"]
    assert x > right
    assert top < y < bottom
    assert places["4.00 (50%)"][1] == y


def test_heads_beyond_the_table_are_counted():
    sheet = figure(long_map(32 + 8, cells=(16, 16), summary=True))
    assert texts(sheet).count("4.00 (50%)") == 32
    assert "and 8 more; .json has all" in texts(sheet)


def test_hostile_tokens_stand_in_the_table_and_are_read_literally():
    m = long_map(len(HOSTILE), words=HOSTILE, cells=(4, 4), summary=True)
    heads = tuple(
        replace(head, strongest=Link(i, HOSTILE[i], i, HOSTILE[i], 0.5)) for i, head in enumerate(m.summary.heads)
    )
    sheet = figure(replace(m, summary=replace(m.summary, heads=heads)), style=replace(AUTO, dpi=40))
    written = texts(sheet)
    assert "0 $x^2$ → 0 $x^2$ (0.5)" in written
    assert r"10 two\x0alines → 10 two\x0alines (0.5)" in written
    assert not any(text.get_parse_math() for text in sheet.page.texts)
    assert not any(c in text for text in written for c in "\x1b\x00\n\u202e\udcff")
    stream = io.BytesIO()
    sheet.save(stream, "svg")
    assert b"<script" not in stream.getvalue()


@pytest.mark.parametrize("token", ["$x^2$", "\x1b[31mred", "x" * 5000], ids=lambda t: ascii(t)[:9])
def test_hostile_tokens_at_the_ends_stay_within_their_room(token):
    assert_readable(figure(long_map(2, words=(token,), cells=(16, 16))))


def test_every_character_of_the_ends_is_looked_for_in_the_fonts(monkeypatch):
    asked = []
    monkeypatch.setattr(Fonts, "covering", classmethod(lambda cls, words: asked.extend(words) or cls()))
    figure(long_map(2, words=["a"] * 300 + ["鯨"] + ["b"] * 4698 + ["海"], summary=True))
    assert "海" in asked
    assert "鯨" not in asked


def test_a_tiny_part_of_a_map_has_no_numbers_that_are_all_nothing():
    m = long_map(1, (4000, 4004), (4000, 4004))
    for factor, numbers in ((1, True), (1e-3, False)):
        sheet = figure(replace(m, weights=np.full_like(m.weights, 0.5 * factor)))
        groups = [group.get_label() or "" for group in sheet.page.collections]
        assert any(label.startswith("numbers") for label in groups) == numbers


def areas(sheet):
    """What is filled, as (left, top, right, bottom) in inches."""
    return [
        (*patch.get_path().vertices.min(axis=0), *patch.get_path().vertices.max(axis=0))
        for patch in sheet.page.patches
        if isinstance(patch, StepPatch)
    ]


def test_numbers_stand_along_the_sides_of_a_single_large_map_alone():
    m = long_map(summary=True)
    head = replace(m.summary.heads[0], entropies=tuple(np.linspace(1, 4, 100)))
    m = replace(m, summary=replace(m.summary, heads=(head,)))
    sheet = figure(m)
    left, right, bottom, top = tiles(sheet)[0].get_extent()
    of_keys, of_queries = areas(sheet)
    assert (of_keys[0], of_keys[2]) == pytest.approx((left, right))
    assert of_keys[3] < top
    assert (of_queries[1], of_queries[3]) == pytest.approx((top, bottom))
    assert of_queries[0] > right
    assert {"mean weight over 5,000 queries", "entropy", "4", "0 the", "4,999 whale"} <= set(texts(sheet))
    assert not areas(figure(m, style=Style(width=3.3)))
    assert not areas(figure(long_map(heads=2)))
    assert len(areas(figure(long_map()))) == 1
    assert not areas(figure(long_map(reduction="max")))


def test_eight_long_maps_are_a_slide():
    sheet = figure(long_map(heads=8), style=Style(width=10.0))
    assert len({tile.get_extent()[0] for tile in tiles(sheet)}) == 4
    assert sheet.get_figheight() < 7


def test_the_numbers_of_a_head_fit_a_column_of_a_paper():
    sheet = figure(long_map(summary=True, words=("seventy", "ninety")), style=Style(width=3.3))
    assert "0 seventy (10.0%), 4,999 ninety (0.06%)" in texts(sheet)
    assert not sheet.notices
