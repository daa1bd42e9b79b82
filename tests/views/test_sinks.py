"""Sinks stand apart, with a scale of their own, in every medium; without sinks, or with ``sinks="in"``, all is as it is
for keys like any others."""

import re
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, texts
from made import made_map
from matplotlib.figure import Figure
from shown import heatmap_figure, heatmap_view

import mhaviz
from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import matrices
from mhaviz.pages.panels import SINK_SCALE
from mhaviz.pages.weight_range import darkest_from
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, WEIGHT
from mhaviz.results.result import Source
from mhaviz.results.sinks import pooled_sinks
from mhaviz.views.figure.axes import draw_head
from mhaviz.views.html.contents import contents_of
from mhaviz.views.scales import resolve, resolve_maps
from mhaviz.views.style import Style

N, CLS = 20, 0.5


def attention_of(*maps):
    return Attention(Source("made by a test"), maps)


def bidirectional(n=N, heads=2, **more):
    """All queries give half of their weight to the first token, and the rest to others at random."""
    rest = np.random.default_rng(0).dirichlet(np.ones(n - 1), (heads, n)) * (1 - CLS)
    weights = np.concatenate([np.full((heads, n, 1), CLS), rest], axis=2).astype(np.float32)
    tokens = ["[CLS]", *(f"w{i}" for i in range(1, n))]
    return made_map(tokens, tokens, weights, special_queries=(0,), special_keys=(0,), **more)


def causal(n=N):
    """Queries give what they do not need to the first token, and to a full stop, once they see it."""
    weights = np.tril(np.full((2, n, n), 0.1 / n))
    weights[:, 9:, 9] = 0.3
    weights[:, :, 0] = 0
    weights[:, :, 0] = 1 - weights.sum(axis=2)
    tokens = [f"w{i}" if i != 9 else "." for i in range(n)]
    return made_map(tokens, tokens, weights.astype(np.float32), "masked")


def others_of(m, sinks):
    """The map without columns of sinks, for which nothing but the old rule decides a scale."""
    kept = [j for j in range(len(m.keys)) if j not in sinks]
    return made_map(m.queries, [m.keys[j] for j in kept], m.weights[:, :, kept], "other")


@pytest.mark.parametrize(
    ("m", "query", "sinks"), [(bidirectional(), 7, (0,)), (causal(), 12, (0, 9)), (causal(), 5, (0,))]
)
def test_the_heads_of_one_query_have_those_sinks_of_all_that_it_sees_apart(show, m, query, sinks):
    attention = attention_of(m).of_query(query)
    n_seen = N if m.kind == "self" else query + 1
    row = m.weights[:, query, :n_seen]
    sheet = heatmap_figure(attention, Style(width=6))
    (image,) = images(sheet, "layer 0")
    (greys,) = images(sheet, "sinks of layer 0")
    np.testing.assert_array_equal(image.get_array(), np.delete(row, sinks, axis=1))
    np.testing.assert_array_equal(greys.get_array(), row[:, sinks])
    assert image.get_clim()[1] < row[:, sinks].max()
    written = " ".join(texts(sheet))
    assert all(f"{m.keys[key]} {row[:, key].mean():.0%}" in written for key in sinks)
    assert "of the weight of all queries" in written
    assert "│" in show(heatmap_view(attention), 100)


def test_a_change_of_one_query_has_no_sinks():
    """Their column would be on a scale of weights, from 0 on."""
    before = bidirectional()
    after = replace(before, weights=before.weights[:, ::-1].copy())
    change = mhaviz.diff(*(attention_of(m).of_query(7) for m in (before, after))).maps[0].change
    assert change.sinks is None
    assert attention_of(change).with_sinks().maps[0].sinks is None


def test_sinks_of_each_kind_of_attention_of_one_query_are_said():
    cross = replace(bidirectional(), kind="cross")
    written = " ".join(texts(heatmap_figure(attention_of(causal(), cross).of_query(12), Style(width=9))))
    assert "masked, sinks: “w0”" in written
    assert "cross, sink: [CLS] 50% of the weight of all queries" in written


def test_sinks_of_one_query_are_never_guessed_from_it_alone():
    m = bidirectional()
    row = replace(m, weights=m.weights[:, 7:8], rows=Axis(m.rows.tokens[7:8], np.array([7, 8])))
    assert attention_of(row).sinks == (None,)


@pytest.mark.parametrize(("m", "sinks"), [(bidirectional(), (0,)), (causal(), (0, 9))])
def test_the_scale_is_that_of_the_other_columns_in_all_media(show, m, sinks):
    attention = attention_of(m)
    high = darkest_from([others_of(m, sinks)])
    sheet = heatmap_figure(attention, Style(dpi=40))
    for image, greys in zip(images(sheet, "L0 H"), images(sheet, "sinks of L0 H"), strict=True):
        np.testing.assert_allclose(image.get_clim(), (0, high), rtol=1e-6)
        assert greys.get_clim() == (0, 1)
        assert greys.get_array().shape == (N, len(sinks))
        assert image.get_array().shape == (N, N - len(sinks))
    first = images(sheet, "sinks of L0 H0")[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(first, np.nan)[9:], m.weights[0][9:, sinks])
    document = contents_of(attention, Style()).document
    assert document["scales"][0]["high"] == pytest.approx(high)
    assert [described["sinks"] for described in document["maps"]] == [list(sinks)]
    assert re.search(rf"█ (≥ )?{high:.3g}[ ,]", show(heatmap_view(attention), 100))


@pytest.mark.parametrize("style", [Style(), Style(log=True)])
def test_a_text_too_short_for_sinks_has_no_part_of_the_scale_for_what_is_a_sink_in_another(style):
    long, short = bidirectional(sentence=0), bidirectional(5, sentence=1)
    page = attention_page(attention_of(long, short))
    blocks = matrices(page.blocks)
    scale = resolve(page, {}, style).of(blocks[1].maps[0])
    alone = [
        resolve(attention_page(attention_of(m)), {}, style).of(m)
        for m in (others_of(long, (0,)), others_of(short, (0,)))
    ]
    assert scale.high == pytest.approx(max(one.high for one in alone))
    assert scale.above  # as the short text is drawn on it, with its [CLS]
    assert resolve(page, {}, style).of(blocks[0].maps[0]) == scale
    other = replace(short, columns=Axis.of(["w0", *short.keys[1:]]))  # the first of a text, as the sink is
    assert {*resolve(attention_page(attention_of(long, other)), {}, style).drawn.values()} == {scale}


@pytest.mark.parametrize("queries", [N, 4])
def test_a_text_that_is_known_to_have_no_sinks_has_all_its_weights_on_the_scale(queries):
    """Its [CLS] is a key like others, whose weights would be beyond a scale without them."""
    tokens = ["[CLS]", *(f"w{i}" for i in range(1, N))]
    weights = np.full((2, queries, N), 0.1 / (N - 2), np.float32)
    weights[..., :2] = 0.65, 0.25  # not 3 × another
    m = made_map(tokens[:queries], tokens, weights, "other", special_keys=(0,), sentence=1)
    alone = resolve(attention_page(attention_of(m)), {}, Style()).of(m)
    found = resolve(attention_page(attention_of(bidirectional(sentence=0), m)), {}, Style())
    assert attention_of(m).sinks == (None,)
    (scale,) = {one for one in found.drawn.values() if one.name}
    assert scale.high == pytest.approx(max(alone.high, darkest_from([others_of(bidirectional(), (0,))])))
    assert not scale.above


def test_shares_names_and_a_bar_say_what_grey_columns_are():
    sheet = heatmap_figure(attention_of(bidirectional()), Style(dpi=40))
    shown = texts(sheet)
    assert shown.count("[CLS] 50%") == 2
    assert shown.count("[CLS]") == 1 + sheet_columns(sheet)
    assert "sink" in shown
    assert any(
        re.search(r"sink: \[CLS\] 50% of the weight of 2 heads \(10\.0 × uniform; next: “w\d+” \d\.\d\)", text)
        for text in shown
    )


@pytest.mark.parametrize(
    ("chosen", "weight"),
    [
        (lambda a: a, "the weight of 4 heads"),
        (lambda a: a.select(layer=3, head=1), "the weight of L3 H1"),
        (lambda a: a.mean(), "the mean weight"),
    ],
)
def test_the_share_of_a_sink_is_of_the_heads_that_there_are(show, chosen, weight):
    attention = attention_of(bidirectional(layer=2), bidirectional(layer=3))
    assert f"sink: [CLS] 50% of {weight} (10.0 ×" in show(heatmap_view(chosen(attention)), 100)


def sheet_columns(sheet):
    """How many heads stand side by side."""
    return len({image.get_extent()[0] for image in images(sheet, "L0 H")})


@pytest.mark.parametrize(
    ("m", "style"),
    [
        (bidirectional(), Style(dpi=40, sinks="in")),
        (bidirectional(), Style(dpi=40, vmax=0.9)),
        (replace(bidirectional(), quantity=NORM), Style(dpi=40)),
        (bidirectional(to_special=np.zeros(2, np.float32)), Style(dpi=40)),
        (bidirectional(5), Style(dpi=40)),
        (made_map("abcdefgh", "abcdefgh", np.full((2, 8, 8), 1 / 8, np.float32)), Style(dpi=40)),
    ],
)
def test_else_all_columns_share_a_scale(show, m, style):
    sheet = heatmap_figure(attention_of(m), style)
    assert images(sheet, "sinks of") == []
    assert [image.get_array().shape for image in images(sheet, "L0 H")] == [m.weights[0].shape] * 2
    assert not any("sink" in text for text in texts(sheet))
    assert contents_of(attention_of(m), style).document["maps"][0]["sinks"] == []
    printed = show(heatmap_view(attention_of(m), style), 100)
    assert "│" not in printed
    assert "sink" not in printed


@pytest.mark.parametrize("style", [Style(), Style(sinks="in")])
def test_on_axes_of_the_user_sinks_are_grey_in_their_places(style):
    m = causal().select((1,))
    axes = Figure().add_subplot()
    image, _ = draw_head(attention_of(m), style, axes)
    values = np.ma.filled(image.get_array(), np.nan)
    np.testing.assert_array_equal(np.nan_to_num(values), m.weights[0])
    apart = style.has_sinks_apart
    high = darkest_from([others_of(m, (0, 9))]) if apart else resolve_maps([m], style).of(m).high
    np.testing.assert_allclose(image.get_clim(), (0, high), rtol=1e-6)
    assert len(axes.images) == 1 + apart
    if apart:
        greys = axes.images[1]
        assert (greys.get_clim(), greys.get_extent()) == ((0, 1), image.get_extent())
        shown = np.ma.filled(greys.get_array(), np.nan)
        np.testing.assert_array_equal(shown[:, [0, 9]], values[:, [0, 9]])
        assert np.isnan(np.delete(shown, [0, 9], axis=1)).all()
        assert greys.cmap(np.nan)[3] == 0, "the others are seen through it"
    assert ("in grey from 0 to 1" in axes.get_title()) == apart


@pytest.mark.parametrize(("rows", "columns"), [(20, 20), (10, 8), (7, 3)])
def test_a_pooled_panel_never_mixes_sinks_with_other_columns(rows, columns):
    page = attention_page(attention_of(causal()))
    (block,) = matrices(page.blocks)
    for panel in resolve(page, {}, Style()).panels(block):
        pooled = panel.pooled(rows, columns)
        assert (pooled.values.shape, pooled.apart) == ((rows, columns), (0, 1))
        starts = [row * N // rows for row in range(rows)]
        np.testing.assert_array_equal(pooled.values[:, 0], np.maximum.reduceat(panel.values[:, 0], starts))
        assert np.nanmax(pooled.values[:, 2:]) == np.float32(0.1 / N)
        assert [pooled.scale_of(column) == SINK_SCALE for column in range(3)] == [True, True, False]
        again = pooled.pooled(rows, columns)
        np.testing.assert_array_equal(again.values, pooled.values)


@pytest.mark.parametrize("colour", [None, "truecolor"])
@pytest.mark.parametrize("n", [10, N, 90])
def test_a_terminal_has_the_share_of_each_row_before_it(show, n, colour):
    printed = show(heatmap_view(attention_of(bidirectional(n, heads=1))), 100, colour)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    rows = [line for line in plain.splitlines() if "│" in line]
    assert len(rows) == (n if colour is None or n == 10 else -(-n // 2))
    assert all(re.search(r" 50%│", line) for line in rows)
    assert max(map(len, plain.splitlines())) <= 100
    assert re.search(
        rf"(?m)^sink: \[CLS\] 50% of the weight of L0 H0 \({n / 2:.1f} × uniform; next: “w\d+” \d\.\d\)$", plain
    )


def test_of_many_texts_a_line_says_where_there_are_sinks(show):
    maps = [bidirectional(sentence=i) for i in range(6)]
    printed = show(heatmap_view(attention_of(*maps[:2])), 100)
    assert "sentence 1, sink: [CLS] 50%" in printed
    printed = show(heatmap_view(attention_of(*maps)), 100)
    assert "sinks: [CLS] in 6 of 6 texts, 50% of the weight of 2 heads on average" in printed


def pooled(m, cells):
    """The map in cells of equal width: sums over keys, means over queries."""
    width = len(m.keys) // cells
    starts = np.arange(0, len(m.keys), width)
    weights = np.add.reduceat(np.add.reduceat(m.weights, starts, axis=2), starts, axis=1) / width
    edges = np.append(starts, len(m.keys))
    return replace(m, weights=weights, rows=Axis(m.rows.tokens, edges), columns=Axis(m.columns.tokens, edges))


def test_a_pooled_map_has_the_scale_of_columns_without_a_sink_and_says_so(show):
    whole = bidirectional(40)
    m = pooled(whole, 10)
    share = whole.weights[..., :4].sum(axis=2, dtype=np.float64).mean()
    line = f"sink: in the column of [CLS], {share:.0%} of the weight of 2 heads; pooled, so not apart"
    sheet = heatmap_figure(attention_of(m), Style(dpi=40))
    scale = resolve(attention_page(attention_of(m)), {}, Style()).of(m)
    assert scale.high == pytest.approx(darkest_from([replace(m, weights=m.weights * (np.arange(10) > 0))]))
    assert scale.above
    assert images(sheet, "sinks of") == []
    assert line[:40] in " ".join(texts(sheet))
    assert line in show(heatmap_view(attention_of(m)), 100)
    document = contents_of(attention_of(m), Style()).document
    assert line in document["reading"]
    assert document["scales"][0]["high"] == pytest.approx(scale.high)
    largest = resolve(attention_page(attention_of(m)), {}, Style(sinks="in")).of(m)
    assert largest.high == pytest.approx(m.weights.max())
    assert "sink" not in show(heatmap_view(attention_of(m), Style(sinks="in")), 100)


def test_each_column_of_a_pooled_map_with_a_sink_is_left_out_of_the_scale(show):
    """With [SEP] alone left out, [CLS] would set the scale."""
    n, cells, weights = 40, 10, np.full((1, 40, 40), 0.4 / 38, np.float32)
    weights[..., 0], weights[..., -1] = 0.25, 0.35
    tokens = ["[CLS]", *(f"w{i}" for i in range(1, n - 1)), "[SEP]"]
    m = pooled(made_map(tokens, tokens, weights, special_keys=(0, n - 1)), cells)
    ((first, last),) = pooled_sinks([m])
    assert (first.column, first.token, last.column, last.token) == (0, "[CLS]", cells - 1, "[SEP]")
    rest = 3 * 0.4 / 38
    assert (first.share, last.share) == pytest.approx((0.25 + rest, 0.35 + rest), abs=1e-6)
    scale = resolve(attention_page(attention_of(m)), {}, Style()).of(m)
    assert scale.high == pytest.approx(2 * 4 * 0.4 / 38, abs=1e-6)  # twice the even weight of the other columns
    printed = " ".join(show(heatmap_view(attention_of(m)), 100).split())
    assert "sinks: in the columns of [CLS], 28%, and [SEP], 38% of the weight of L0 H0; pooled, so not apart" in printed


def uniform(n):
    weights = np.tri(n, dtype=np.float32)
    words = [f"w{i}" for i in range(n)]
    return made_map(words, words, (weights / weights.sum(axis=1, keepdims=True))[None], "masked")


@pytest.mark.parametrize(
    "m",
    [
        pooled(uniform(40), 8),  # the first column of a causal map has much weight of even heads
        pooled(uniform(40), 20),
        replace(pooled(bidirectional(40), 10), quantity=replace(WEIGHT, reduction="max")),
        replace(pooled(bidirectional(40), 10), quantity=NORM),
    ],
)
def test_no_sink_of_a_pooled_map_is_where_none_is_known(show, m):
    assert pooled_sinks([m]) == ((),)
    assert "sink" not in show(heatmap_view(attention_of(m)), 100)


def test_in_a_column_fewer_heads_side_by_side_spare_the_pooling_that_sinks_would_need():
    sheet = heatmap_figure(attention_of(bidirectional(73, heads=12)), Style(width=3.3))
    assert {image.get_array().shape for image in images(sheet, "L0 H")} == {(73, 72)}
    assert {image.get_array().shape for image in images(sheet, "sinks of")} == {(73, 1)}
    assert 1 < sheet_columns(sheet) < 4
