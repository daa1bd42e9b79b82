"""What the layout decides, and the colours of the cells in the picture that comes out."""

import io
import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from drawn import inside
from hypothesis import given, settings
from hypothesis import strategies as st
from made import Edges, made_map
from matplotlib import image as mpl_image
from matplotlib.colors import ListedColormap
from shown import difference_figure, heatmap_figure, heatmap_view

from mhaviz.analyses.difference import compare
from mhaviz.errors import ArgumentError
from mhaviz.pages.panels import Scale
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.colours import colours, needs_dark_text, palette
from mhaviz.views.figure import fonts as fonts_module
from mhaviz.views.figure.artists import Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import FAINT, INK, MOST_PIXELS
from mhaviz.views.scales import weight_scale
from mhaviz.views.style import Style
from mhaviz.views.tiles.fit import Space, lay_out


def decode(sheet):
    """The PNG as pixels, (height, width, 3), 0 to 255."""
    stream = io.BytesIO()
    sheet.savefig(stream, format="png", dpi=sheet.dpi, pil_kwargs={"compress_level": 1})
    stream.seek(0)
    return np.round(mpl_image.imread(stream, format="png")[..., :3] * 255).astype(int)


def tiles(sheet):
    return [image for image in sheet.page.images if image.get_label().startswith("L0 H")]


def cell_pixels(sheet, tile, q_cells, k_cells, inset=0.2):
    """Where in the picture a spot near a corner of each cell is, clear of the number in the middle."""
    left, right, bottom, top = tile.get_extent()
    for row in range(q_cells):
        for column in range(k_cells):
            x = left + (column + inset) * (right - left) / k_cells
            y = top + (row + inset) * (bottom - top) / q_cells
            yield row, column, int(y * sheet.dpi), int(x * sheet.dpi)


def tokens(n):
    return [f"token{i}" for i in range(n)]


def laid_out(n_tiles, n_queries, n_keys):
    return lay_out(n_tiles, Axis.of(tokens(n_queries)), Axis.of(tokens(n_keys)), Space(Fonts(), 150))


@pytest.mark.parametrize("n_tokens", [1, 3, 12, 60, 300])
@pytest.mark.parametrize("n_heads", [1, 2, 8, 12, 16])
def test_every_size_gives_a_page(n_heads, n_tokens):
    layout = laid_out(n_heads, n_tokens, n_tokens)
    assert layout.columns * layout.rows >= n_heads
    assert layout.width < 25
    assert layout.width * 150 <= MOST_PIXELS
    pixels = layout.keys.cell * 150
    assert pixels == pytest.approx(round(pixels)), "cells are whole pixels"
    assert pixels >= 1
    assert (layout.value_size is not None) == (n_tokens <= 12)
    if n_tokens <= 60:
        assert len(layout.queries.marks) == len(layout.keys.marks) == n_tokens
        assert layout.label_size >= 5
    else:
        assert len(layout.queries.marks) <= 100
    labels_high = layout.label_size / 72 * len(layout.queries.marks)
    assert labels_high <= layout.tile_height * 1.1 + 0.1, "labels do not overlap"


def test_eight_heads_are_a_slide():
    layout = laid_out(8, 6, 6)
    assert (layout.columns, layout.rows) == (4, 2)


def test_many_heads_fill_the_grid():
    layout = laid_out(144, 32, 32)
    assert layout.columns * layout.rows == 144


def test_many_heads_without_room_for_labels_fill_the_width(random_map):
    sheet = heatmap_figure(random_map(144, [f"token{i}" for i in range(32)]).to_attention())
    boxes = [image.get_extent() for image in tiles(sheet)]
    assert max(box[1] for box in boxes) > 0.7 * sheet.width
    assert len({box[0] for box in boxes}) * len({box[2] for box in boxes}) == 144
    assert min(box[1] - box[0] for box in boxes) * sheet.pixels > 2 * 32 - 1, "two pixels a cell"


def test_columns_can_be_chosen(random_attention):
    sheet = heatmap_figure(random_attention(8), Style(columns=2))
    lefts = {round(tile.get_extent()[0], 3) for tile in tiles(sheet)}
    assert len(lefts) == 2


def in_colour(cmap, shares):
    """The colours of these shares of a scale, 0 to 255, as matplotlib chooses them."""
    chosen = ListedColormap(palette("ink") / 255) if cmap == "ink" else matplotlib.colormaps[cmap]
    return chosen(shares)[..., :3] * 255


@pytest.mark.parametrize(("q", "k", "cmap"), [(6, 6, "viridis"), (3, 5, "ink"), (1, 1, "ink"), (30, 30, "ink")])
def test_each_cell_of_the_picture_has_the_colour_of_its_weight(random_attention, q, k, cmap):
    attention = random_attention(3, tokens(q), tokens(k), kind="cross")
    sheet = heatmap_figure(attention, Style(cmap, vmax=1.0))
    picture = decode(sheet)
    for head, tile in enumerate(tiles(sheet)):
        assert tile.get_clim() == (0, 1)
        assert np.array_equal(tile.get_array(), attention.maps[0].weights[head])
        expected = in_colour(cmap, attention.maps[0].weights[head])
        for row, column, y, x in cell_pixels(sheet, tile, q, k):
            assert np.abs(picture[y, x] - expected[row, column]).max() <= 2, (head, row, column)


@pytest.mark.parametrize(("cmap", "zero", "one"), [("ink", (255,) * 3, (18, 29, 65)), ("bone", (0,) * 3, (255,) * 3)])
def test_zero_is_paper_and_one_is_the_darkest_ink_but_in_bone_black_and_white(cmap, zero, one):
    attention = Attention(Source("test"), (made_map(("a", "b"), ("a", "b"), np.eye(2, dtype=np.float32)[None]),))
    sheet = heatmap_figure(attention, Style(cmap))
    picture = decode(sheet)
    seen = {(row, column): tuple(picture[y, x]) for row, column, y, x in cell_pixels(sheet, tiles(sheet)[0], 2, 2)}
    assert seen == {(0, 0): one, (1, 1): one, (0, 1): zero, (1, 0): zero}


def darkest_from(weights):
    """The weight below which 70% of the attention lies, rounded up to 2 digits, or the largest if it is near."""
    ordered = np.sort(weights.astype(float), axis=None)
    end = ordered[np.searchsorted(ordered.cumsum(), 0.9 * ordered.sum())]
    step = 10 ** (np.floor(np.log10(end)) - 1)
    end = np.ceil(end / step) * step
    return end if end < 0.4 * ordered[-1] else ordered[-1]


@pytest.mark.parametrize(("vmax", "n_tokens"), [(0.25, 4), (None, 4), (None, 60)])
def test_the_end_of_the_scale_can_be_chosen(random_attention, show, vmax, n_tokens):
    attention = random_attention(2, tokens(n_tokens))
    weights = attention.maps[0].weights
    if n_tokens == 60:
        weights[:] = np.random.default_rng(0).dirichlet(np.ones(60), (2, 60))
        weights[0, 0] = np.eye(60)[0]  # one that is far above all others
    high = vmax or darkest_from(weights)
    assert vmax or (high < weights.max()) == (n_tokens == 60), "both kinds of end"
    sheet = heatmap_figure(attention, Style(vmax=vmax))
    picture = decode(sheet)
    for head, tile in enumerate(tiles(sheet)):
        assert tile.get_clim() == (0, pytest.approx(high))
        expected = in_colour("ink", weights[head] / high)
        for row, column, y, x in cell_pixels(sheet, tile, n_tokens, n_tokens):
            assert np.abs(picture[y, x] - expected[row, column]).max() <= 2
    open_end = "≥ " if weights.max() > high else ""
    assert f"{open_end}{high:.3g}" in [text.get_text() for text in sheet.page.texts]
    assert f"{open_end}{high:.3g}   rows" in show(heatmap_view(attention, Style(vmax=vmax)))


def test_numbers_in_the_cells_are_those_of_the_weights(random_attention):
    attention = random_attention(2, tokens(5))
    sheet = heatmap_figure(attention, Style(vmax=1.0))
    weights = attention.maps[0].weights
    drawn = {}
    for group in sheet.page.collections:
        if (group.get_label() or "").startswith("numbers "):
            ink = "black" if group.get_facecolor()[0][0] < 0.5 else "white"
            for place in group.get_offsets():
                drawn[tuple(np.round(place, 6))] = (group.get_label().removeprefix("numbers "), ink)
    written = np.vectorize("{:.2f}".format)(weights)
    assert len(drawn) == (written != "0.00").sum() < weights.size, "what rounds to 0 is not written"
    for head, tile in enumerate(tiles(sheet)):
        dark = needs_dark_text(colours(weights[head], Scale()))
        left, right, bottom, top = tile.get_extent()
        for row in range(5):
            for column in range(5):
                x = left + (column + 0.5) * (right - left) / 5
                y = top + (row + 0.5) * (bottom - top) / 5
                place, (number, ink) = min(drawn.items(), key=lambda d: abs(d[0][0] - x) + abs(d[0][1] - y))
                is_here = np.allclose(place, (x, y), atol=0.01)
                assert is_here == (written[head, row, column] != "0.00")
                if is_here:
                    assert number == written[head, row, column]
                    assert (ink == "black") == dark[row, column]


def test_a_lone_spike_among_three_thousand_tokens_is_in_the_picture():
    weights = np.zeros((1, 3000, 3000), np.float32)
    weights[0, :, 0] = 1e-4
    weights[0, 1234, 2345] = 1
    names = tuple(map(str, range(3000)))
    sheet = heatmap_figure(Attention(Source("test"), (made_map(names, names, weights),)))
    picture = decode(sheet)
    left, right, bottom, top = tiles(sheet)[0].get_extent()
    y, x = (
        int((top + (bottom - top) * 1234.5 / 3000) * sheet.dpi),
        int((left + (right - left) * 2345.5 / 3000) * sheet.dpi),
    )
    assert (picture[y - 1 : y + 2, x - 1 : x + 2] == (18, 29, 65)).all(axis=-1).any()
    assert (picture[y - 9 : y - 6, x - 9 : x - 6] == 255).all()


def test_no_number_is_written_where_the_mask_hides(random_map):
    causal = np.tri(4, dtype=np.float32)[None]
    masked = made_map(tuple("abcd"), tuple("abcd"), causal / causal.sum(-1, keepdims=True), "masked")
    sheet = heatmap_figure(Attention(Source("test"), (masked,)))
    drawn = sum(len(g.get_offsets()) for g in sheet.page.collections if (g.get_label() or "").startswith("numbers"))
    assert drawn == 10


@pytest.mark.parametrize(("q", "k"), [(5, 300), (300, 5), (1, 60)])
def test_a_map_far_from_square_is_still_seen(q, k):
    layout = laid_out(2, q, k)
    assert min(layout.tile_width, layout.tile_height) >= 0.5


def test_labels_of_pooled_maps_do_not_overlap():
    layout = laid_out(1, 2000, 2000)
    assert layout.is_turned
    assert len(layout.keys.marks) * layout.label_size / 72 < layout.tile_width * 1.1
    assert layout.pooled == "each cell is the strongest of up to 2 × 2"


def test_the_colour_bar_has_its_high_end_on_top(random_attention):
    sheet = heatmap_figure(random_attention(1, tokens(3)), Style(vmax=1.0))
    (bar,) = (image for image in sheet.page.images if image.get_label() == "scale of weight")
    _, _, bottom, top = bar.get_extent()
    gradient = np.asarray(bar.get_array())[:, 0]
    assert (gradient[0], gradient[-1]) == (1, 0)
    numbers = {t.get_text(): t.get_position()[1] for t in sheet.page.texts if t.get_text() in ("1", "0.5", "0")}
    assert numbers == {"1": pytest.approx(top), "0.5": pytest.approx((top + bottom) / 2), "0": pytest.approx(bottom)}


@pytest.mark.parametrize("n_tokens", [3, 20])
def test_labels_stand_at_the_middle_of_their_cells(random_attention, n_tokens):
    names = tokens(n_tokens)
    sheet = heatmap_figure(random_attention(1, names, [f"key{i}" for i in range(n_tokens)], kind="cross"))
    left, right, bottom, top = tiles(sheet)[0].get_extent()
    places = {text.get_text(): text.get_position() for text in sheet.page.texts}
    for i in range(n_tokens):
        assert places[f"key{i}"][0] == pytest.approx(left + (i + 0.5) * (right - left) / n_tokens)
        assert places[names[i]][1] == pytest.approx(top + (i + 0.5) * (bottom - top) / n_tokens)


def test_every_pooled_map_says_how(random_attention):
    lengths = (3, 1500, 600)
    maps = [random_attention(1, tuple(map(str, range(n))), layer=i).maps[0] for i, n in enumerate(lengths)]

    def remark(*maps):
        texts = [text.get_text() for text in heatmap_figure(Attention(Source("s"), maps), Style(dpi=40)).page.texts]
        return " ".join(texts[::-1])  # lines of the foot, the last first

    alone = [re.search(r"each cell is the strongest of up to (\d+) × \1 weights", remark(m)) for m in maps]
    assert alone[0] is None
    assert alone[1][0] != alone[2][0]
    assert f"; in long maps, {alone[1][0]}; in long maps, {alone[2][0]}" in remark(*maps)
    assert f"; {alone[1][0]}; {alone[2][0]}" in remark(*maps[1:])
    assert remark(maps[1], maps[1]).count("each cell") == 1


def test_a_pooled_picture_says_so(random_attention):
    texts = [text.get_text() for text in heatmap_figure(random_attention(1, tokens(2000))).page.texts]
    assert any("each cell is the strongest of up to" in text for text in texts)
    assert not any("sums to 1" in text for text in texts)


def test_labels_on_the_outer_edges_only(random_attention):
    sheet = heatmap_figure(random_attention(8, ("first", "second", "first")))
    texts = [text.get_text() for text in sheet.page.texts]
    assert texts.count("second") == 2 + 4, "two rows of tiles have it at their left, four columns below"
    assert texts.count("first₀") == texts.count("first₂") == 6
    assert [t for t in texts if t.startswith("L0 H")] == [f"L0 H{i}" for i in range(8)]


def test_keys_stand_under_the_lowest_tile_of_each_column(random_attention):
    sheet = heatmap_figure(random_attention(5, ("one", "two")), Style(columns=4))
    assert [text.get_text() for text in sheet.page.texts].count("one") == 2 + 4


def test_the_footnote_and_the_title(random_attention):
    sheet = heatmap_figure(random_attention(2, ("un", "chat"), ("a", "cat"), kind="cross"))
    texts = [text.get_text() for text in sheet.page.texts]
    assert "made by a test" in texts
    assert "source-target attention, made by a test; queries: un chat, keys: a cat" in texts


def test_several_sentences_on_one_sheet(random_map):
    maps = (random_map(2, ("a", "b"), sentence=0), random_map(2, ("c", "d", "e"), sentence=1))
    sheet = heatmap_figure(Attention(Source("test"), maps))
    assert len(tiles(sheet)) == 4
    assert tiles(sheet)[2].get_extent()[3] > tiles(sheet)[0].get_extent()[2], "the second below the first"


def test_maps_of_many_sentences_stand_abreast(random_map):
    maps = tuple(random_map(1, ("a",) * 3, sentence=i) for i in range(60))
    sheet = heatmap_figure(Attention(Source("test"), maps))
    inside(sheet)
    places = [tile.get_extent() for tile in tiles(sheet)]
    lefts = sorted({round(left, 3) for left, *_ in places})
    assert len(places) == 60
    assert len(lefts) == 3
    assert [round(left, 3) for left, *_ in places[: len(lefts)]] == lefts, "in the order in which one reads"
    assert sheet.width <= 10


def test_maps_that_have_no_room_abreast_stand_below_each_other(random_map):
    maps = tuple(random_map(8, tokens(23), sentence=i) for i in range(9))
    assert len(tiles(heatmap_figure(Attention(Source("test"), maps)))) == 72


def test_no_side_is_too_long(random_attention):
    sheet = heatmap_figure(random_attention(16, tokens(60)), Style(dpi=2000))
    assert max(sheet.get_size_inches() * sheet.dpi) <= MOST_PIXELS
    assert any("dpi instead of 2000" in notice for notice in sheet.notices)


@pytest.mark.slow
def test_too_many_sentences_for_a_picture(random_map):
    maps = tuple(random_map(1, ("a",) * 2, sentence=i) for i in range(600))
    with pytest.raises(ArgumentError, match="of 600 maps of up to 1 head; choose fewer sentences, layers or heads"):
        heatmap_figure(Attention(Source("test"), maps), Style(width=4))


@settings(max_examples=8)
@given(st.lists(st.text(st.characters(), max_size=20), min_size=1, max_size=4))
def test_any_token_can_be_drawn(names):
    weights = np.full((1, len(names), len(names)), 1 / len(names), np.float32)
    heatmap_figure(Attention(Source("t"), (made_map(tuple(names), tuple(names), weights),))).save(io.BytesIO(), "png")


def test_a_font_that_lacks_a_glyph_means_escapes_and_one_notice(monkeypatch, random_attention):
    monkeypatch.setattr(fonts_module, "_installed_fonts", tuple)
    sheet = heatmap_figure(random_attention(2, ("我", "cat", "我")))
    texts = [text.get_text() for text in sheet.page.texts]
    assert r"\u6211₀" in texts
    assert len(sheet.notices) == 1
    assert "我 (U+6211)" in sheet.notices[0]


def test_an_installed_font_that_has_the_glyph_is_used(monkeypatch):
    from matplotlib.font_manager import findfont

    monkeypatch.setattr(fonts_module, "_has_glyph", lambda font, c: font.fname.endswith("STIXGeneral.ttf"))
    stix = findfont("STIXGeneral")
    monkeypatch.setattr(fonts_module, "_installed_fonts", lambda: (("STIXGeneral", stix),))
    fonts = Fonts.covering(["Ж"])
    assert fonts.families == ("DejaVu Sans", "STIXGeneral")
    assert fonts.notice is None
    assert fonts.shown("Ж") == "Ж"


def test_characters_that_no_font_can_join_are_a_notice_at_most(random_attention):
    sheet = heatmap_figure(random_attention(1, ("@\u0a4b", "\u1a55", "我\u0a4b")))
    for suffix in ("png", "svg", "pdf"):
        sheet.save(io.BytesIO(), suffix)
    assert len(sheet.notices) <= 1


def test_the_font_of_last_resort_does_not_count():
    assert not [family for family, _ in fonts_module._installed_fonts() if "resort" in family.lower()]


def test_a_notebook_gets_a_png(random_attention):
    assert heatmap_figure(random_attention())._repr_png_().startswith(b"\x89PNG")


def test_hidden_keys_are_blank_outside_an_outline_that_visible_zeros_are_in(random_attention):
    attention = random_attention(queries=("a", "b", "c"), kind="masked")
    weights = np.tril(attention.maps[0].weights)
    weights[:, 1, 0] = 0
    attention = replace(attention, maps=(replace(attention.maps[0], weights=weights),))
    sheet = heatmap_figure(attention)
    (first, *_) = (image for image in sheet.page.images if image.get_label().startswith("L0 H"))
    drawn = np.ma.filled(first.get_array(), np.nan)
    assert np.isnan(drawn[np.triu_indices(3, 1)]).all()
    assert drawn[1, 0] == 0
    assert "outside the thin outline: later keys, hidden" in " ".join(text.get_text() for text in sheet.page.texts)
    picture = decode(sheet)
    for row, column, y, x in cell_pixels(sheet, first, 3, 3):
        if column > row or (row, column) == (1, 0):
            assert (picture[y, x] == 255).all()
    left, right, _, top = (side * sheet.dpi for side in first.get_extent())
    cell = (right - left) / 3

    def has_line(row, edge):
        """Whether there is one in this row at the left edge of this cell, which is paper beside it."""
        x, y = round(left + edge * cell), round(top + (row + 0.2) * cell)
        return (picture[y, x - 3 : x + 3].max(axis=-1) < 200).any()

    lines = [[has_line(row, edge) for edge in edges] for row, edges in enumerate([(2, 3), (0, 3), ()])]
    assert lines == [[False, False], [True, False], []], "around what is visible, and no frame"
    beyond = picture[round(top + 0.2 * cell), round(left + cell) : round(left + cell) + 3]
    assert (beyond.max(axis=-1) < 200).sum() == 1, "a line outside the first cell"


def test_the_first_row_of_a_masked_map_ends_no_logarithmic_scale(random_attention):
    """Its one key has all of the weight, whatever the others have."""
    attention = random_attention(queries=("a", "b", "c"), kind="masked")
    weights = np.array([[[1, 0, 0], [0.4, 0.6, 0], [0.39, 0.01, 0.6]]] * 2, np.float32)
    attention = replace(attention, maps=(replace(attention.maps[0], weights=weights),))
    assert weight_scale(Style(log=True), attention.maps).high == pytest.approx(0.6)


def test_a_title_shrinks_before_it_is_cut(random_attention):
    attention = random_attention(
        queries=("one", "two", "three", "four"), keys=("one", "two", "three", "four"), kind="masked"
    )
    texts = [text.get_text() for text in heatmap_figure(attention, Style(columns=1)).page.texts]
    assert "masked self-attention, made by a test: one two three four" in texts


def colours_of(sheet):
    """Text to the colours that it stands in."""
    found = {}
    for text in sheet.page.texts:
        found.setdefault(text.get_text(), set()).add(text.get_color())
    return found


def contrast_on_white(colour):
    """WCAG 2.2, relative luminance and contrast ratio."""
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


@pytest.mark.parametrize("cells", [None, Edges(np.arange(7, 12), np.arange(7, 12))], ids=["tokens", "a part"])
def test_special_tokens_are_faint_and_readable(random_attention, cells):
    names = ("[CLS]", "a", " cat", "[SEP]")
    sheet = heatmap_figure(random_attention(2, names, special_queries=(0, 3), special_keys=(0,), cells=cells))
    found = colours_of(sheet)
    assert found["a"] == found["cat"] == {INK}
    assert found["[CLS]"] == {FAINT}
    assert found["[SEP]"] == {FAINT, INK}, "of the queries, and of the keys"
    assert 3 <= contrast_on_white(FAINT) < contrast_on_white(INK)


def test_special_tokens_in_pictures_of_differences(random_attention):
    before, after = (
        random_attention(1, ("[CLS]", "a"), seed=i, special_queries=(0,), special_keys=(0,)) for i in (0, 1)
    )
    found = colours_of(difference_figure(compare(before, after)))
    assert (found["[CLS]"], found["a"]) == ({FAINT}, {INK})


@pytest.mark.parametrize("dpi", [150, 151.7, 40])
def test_cells_are_the_pixels_that_matplotlib_itself_would_draw(monkeypatch, dpi):
    rng = np.random.default_rng(0)
    weights = rng.random((2, 7, 9)).astype(np.float32)
    weights[:, 2, 4:] = 0.0
    weights /= weights.sum(axis=-1, keepdims=True)
    attention = Attention(Source("made"), (made_map(tuple("abcdefg"), tuple("ABCDEFGHI"), weights, "cross"),))

    def drawn():
        stream = io.BytesIO()
        heatmap_figure(attention).savefig(stream, format="png", dpi=dpi)
        stream.seek(0)
        return mpl_image.imread(stream, format="png")

    ours = drawn()
    monkeypatch.setattr(Cells, "draw", mpl_image.AxesImage.draw)
    np.testing.assert_array_equal(ours, drawn())


def test_many_cells_have_their_size_in_an_svg_whatever_its_dpi():
    rng = np.random.default_rng(0)
    weights = rng.random((36, 24, 24)).astype(np.float32)
    names = tuple(f"w{place}" for place in range(24))
    attention = Attention(
        Source("made"), (made_map(names, names, weights / weights.sum(axis=-1, keepdims=True), "cross"),)
    )
    stream = io.BytesIO()
    heatmap_figure(attention, Style(dpi=144)).savefig(stream, format="svg")
    widths = re.findall(r'<image .*?width="([\d.]+)"', stream.getvalue().decode(), flags=re.S)
    assert max(map(widths.count, widths)) >= 36


@pytest.mark.parametrize(("weights", "says"), [
    ([[0.996, 0.004], [0.5, 0.5]], True),
    ([[0.99, 0.01], [0.5, 0.5]], False),
    ([[1.0, 0.0], [0.5, 0.5]], False),
])  # fmt: skip
def test_the_foot_says_why_a_cell_that_is_not_hidden_has_no_number(weights, says):
    kind = "masked" if weights[0][1] == 0 else "self"  # the mask hides the cell
    m = made_map(("a", "b"), ("a", "b"), np.array([weights], np.float32), kind)
    sheet = heatmap_figure(Attention(Source("test"), (m,)))
    assert any("blank: below 0.005" in text.get_text() for text in sheet.page.texts) == says
