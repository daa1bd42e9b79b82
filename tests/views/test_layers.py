import io
import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from drawn import inside
from made import Edges, remade
from PIL import Image
from shown import heatmap_figure, heatmap_view

from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.pages.attention import attention_page, by_attention
from mhaviz.pages.blocks import Matrices
from mhaviz.pages.labels import title_text
from mhaviz.pages.peaks import most_peaked
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.module_names import common_name
from mhaviz.results.quantity import NORM, WEIGHT
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.views.scales import weight_scale
from mhaviz.views.style import Style

TOKENS = ("the", "cat", "sat")


@pytest.fixture
def layers(random_map):
    """Of these numbers, each with two heads of its own weights."""

    def make(*numbers, **more):
        return tuple(random_map(2, TOKENS, seed=number, layer=number, **more) for number in numbers)

    return make


def heads_of(maps):
    blocks = attention_page(Attention(Source("test"), tuple(maps))).blocks
    return [block for block in blocks if isinstance(block, Matrices)]


def test_layers_of_one_attention_are_one_picture(layers):
    maps = layers(0, 1, 2)
    (heads,) = heads_of(maps)
    assert heads.maps == maps
    assert heads.across == 2
    assert [panel.title for panel in heads.panels[:3]] == ["L0 H0", "L0 H1", "L1 H0"]
    assert heads.title.head == "self-attention, test, layers 0 to 2"
    assert [one.title.head for one in heads.by_layer] == [f"self-attention, test, layer {i}" for i in range(3)]


def test_the_terminal_keeps_the_order_of_the_record(layers, show):
    """Encoder–decoders have masked and cross attention in each layer."""
    maps = [m for pair in zip(layers(0, 1, kind="masked"), layers(0, 1, kind="cross"), strict=True) for m in pair]
    shown = show(heatmap_view(Attention(Source("test"), tuple(maps))), 100)
    titles = re.findall(r"^(masked|source-target).*?layer (\d)", shown, re.MULTILINE)
    assert titles == [("masked", "0"), ("source-target", "0"), ("masked", "1"), ("source-target", "1")]


def test_titles_of_two_texts_name_their_layer_at_any_width(layers, show):
    attention = Attention(Source("test"), layers(0, 1, kind="cross"))
    for width in range(40, 120, 5):
        titles = [line for line in show(heatmap_view(attention), width).splitlines() if "layer" in line]
        assert len(titles) == 2
        assert ["layer 0" in titles[0], "layer 1" in titles[1]] == [True, True], width


def test_each_layer_has_its_summary_in_the_terminal(layers, show):
    link = Link(0, "the", 1, "cat", 0.5)
    head = HeadSummary(1.0, 2.0, (Sink(0, "the", 1.0),), 0.3, link, link)
    summary = MapSummary((head, head), 3, 32, 0.1)
    maps = tuple(replace(m, summary=summary) for m in layers(0, 1))
    assert show(heatmap_view(Attention(Source("test"), maps)), 120).count("mean entropy") == 2


def test_layers_that_are_not_neighbours_are_listed(layers):
    (heads,) = heads_of(layers(1, 4, 5))
    assert heads.title.head == "self-attention, test, layers 1, 4, 5"


def test_a_single_map_stays_what_it_is(layers):
    (heads,) = heads_of(layers(3))
    assert ([panel.title for panel in heads.panels], heads.across) == (["L3 H0", "L3 H1"], None)
    assert title_text(heads.title, 80) == "self-attention, test: the cat sat"


def test_what_differs_in_more_than_its_layer_stays_apart(layers):
    first, second = layers(0, 1)
    cells = Edges(np.array([5, 6, 7, 8]), np.array([0, 1, 2, 3]))
    others = (
        replace(second, kind="masked"),
        replace(second, sentence=1),
        replace(second, heads=(0, 5)),
        remade(second, keys=("the", "cat", "ran")),
        remade(second, cells=cells),
        replace(second, layer=0),
    )
    for other in others:
        assert len(by_attention([first, other])) == 2
    encoder, cross = layers(0, 1), layers(0, 1, kind="cross")
    mixed = [encoder[0], cross[0], encoder[1], cross[1]]
    assert [next(iter(maps.values())).kind for maps in by_attention(mixed)] == ["self", "cross"]


@pytest.mark.parametrize("module", ["", "blocks.{}.attn"])
def test_many_layers_take_no_longer_each(layers, monkeypatch, module):
    compared = []

    def counted(names):
        compared.append(len(names))
        return common_name(names)

    monkeypatch.setattr("mhaviz.pages.attention.common_name", counted)
    maps = [replace(m, module=module.format(m.layer)) for m in layers(*range(100))]
    assert [list(group) for group in by_attention(maps)] == [list(range(100))]
    assert by_attention([*maps, replace(maps[0], layer=100, module="other")])[1].keys() == {100}
    assert max(compared) <= 3


def test_a_picture_has_a_row_a_layer_and_a_column_a_head(layers):
    maps = layers(0, 1, 2)
    sheet = heatmap_figure(Attention(Source("test"), maps), Style("bone", vmax=1.0))
    images = [image for image in sheet.page.images if image.get_label().startswith("L")]
    assert [image.get_label() for image in images] == [f"L{i} H{h}" for i in range(3) for h in range(2)]
    lefts, tops = ([round(image.get_extent()[side], 3) for image in images] for side in (0, 3))
    assert len(set(lefts)) == 2
    assert len(set(tops)) == 3
    assert any("self-attention, test, layers 0 to 2" in text.get_text() for text in sheet.page.texts)
    stream = io.BytesIO()
    sheet.save(stream, "png")
    pixels = np.asarray(Image.open(stream).convert("RGB"), float)
    for image, weights in zip(images, np.concatenate([m.weights for m in maps]), strict=True):
        left, right, bottom, top = (side * sheet.dpi for side in image.get_extent())
        for row in range(3):
            for column in range(3):
                # a quarter into the cell: a number stands in its middle
                y, x = top + (row + 0.1) * (bottom - top) / 3, left + (column + 0.1) * (right - left) / 3
                expected = np.array(matplotlib.colormaps["bone"](float(weights[row, column]))[:3]) * 255
                assert np.abs(pixels[int(y), int(x)] - expected).max() <= 3


def overview(random_map, n_layers=4, n_heads=12, tokens=TOKENS, width=None, **more):
    """Maps of layers × heads, and their picture."""
    maps = tuple(random_map(n_heads, tokens, seed=layer, layer=layer, **more) for layer in range(n_layers))
    return maps, heatmap_figure(Attention(Source("test"), maps), Style(width=width))


def written(sheet):
    return [text.get_text() for text in sheet.page.texts]


def test_many_heads_are_numbered_once_and_one_is_enlarged(random_map):
    maps, sheet = overview(random_map)
    images = [image for image in sheet.page.images if not image.get_label().startswith("scale of")]
    *small, enlarged = images
    assert [image.get_label() for image in small] == [f"L{layer} H{head}" for layer in range(4) for head in range(12)]
    weights = np.concatenate([m.weights for m in maps])
    peaked = int(weights[:, :, 1:].max(axis=2).mean(axis=1).argmax())
    assert enlarged.get_label() == f"L{peaked // 12} H{peaked % 12}"
    for image, expected in zip(images, (*weights, weights[peaked]), strict=True):
        np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), expected)
    assert len({image.get_clim() for image in sheet.page.images}) == 1
    left = enlarged.get_extent()[0]
    of_sides = [text.get_text() for text in sheet.page.texts if text.get_position()[0] < left]
    numbers = [text for text in of_sides if text.isdigit()]
    assert sorted(numbers) == sorted([*map(str, range(12)), *map(str, range(4))])
    for token in TOKENS:
        assert written(sheet).count(token) == 2, "once a side of the enlarged map"
    assert written(sheet).count("head") == written(sheet).count("layer") == 1
    why = [text for text in written(sheet) if text.startswith("outlined")]
    assert len(why) == 1
    assert left > max(image.get_extent()[1] for image in small)


@pytest.mark.parametrize(("size", "length", "width"), [
    ((12, 12), 16, 3.3), ((24, 16), 5, 7.0), ((24, 16), 5, None), ((2, 40), 30, 3.3), ((2, 40), 30, None),
    ((13, 2), 90, 7.0),
])  # fmt: skip
def test_an_overview_has_the_width_of_the_page_and_no_small_letters(random_map, size, length, width):
    _, sheet = overview(random_map, *size, tuple(f"token{i}" for i in range(length)), width)
    assert sheet.get_size_inches()[0] <= (width or 10.05) + 0.01
    inside(sheet)
    assert min(text.get_size() for text in sheet.page.texts) >= 6


def test_what_the_rest_of_a_head_gets_does_not_count(random_map):
    """Weight on [CLS], [SEP] and the first key is what a head does not need."""
    maps = [random_map(7, ("[CLS]", "a", "b", "[SEP]"), layer=layer) for layer in range(2)]
    tokens = Axis(replace(maps[0].columns.tokens, special=(0, 3)))
    weights = np.full((7, 4, 4), 0.25, np.float32)
    weights[2], weights[3], weights[5] = np.eye(4)[0], np.eye(4)[3], (0.4, 0.6, 0, 0)
    maps = [
        replace(m, rows=tokens, columns=tokens, weights=w) for m, w in zip(maps, (weights, weights / 2), strict=True)
    ]
    assert most_peaked(maps) == 5


WORDS = tuple("abcd")
FIRST, SPECIAL, BOTH = "key, the first aside", "key, special ones aside", "key, first and special ones aside"


@pytest.mark.parametrize(("columns", "to_special", "wins", "why"), [
    (Axis(Tokens(WORDS)), None, False, FIRST),
    (Axis(Tokens(WORDS), np.arange(100, 105)), None, True, "key"),  # a window
    (Axis(Tokens(WORDS), np.arange(5)), None, False, FIRST),
    (Axis(Tokens(WORDS), np.arange(1, 6)), 0.1, True, "key"),  # without [CLS]
    (Axis(Tokens(WORDS), np.arange(5)), 0.1, False, FIRST),  # without </s>
    (Axis(Tokens(WORDS)), 0.1, True, "key"),  # without [CLS], [SEP] and [SEP]
    (Axis(Tokens(WORDS, (0, 3))), None, False, BOTH),
    (Axis(Tokens(WORDS, (0,)), np.arange(100, 105)), None, False, SPECIAL),
    (Axis(Tokens(WORDS * 2), np.arange(0, 9, 2)), None, False, FIRST.replace("key", "cell")),
    (Axis(Tokens(WORDS * 2), np.arange(100, 109, 2)), None, True, "cell"),
    (Axis(Tokens(WORDS * 2, (1,)), np.arange(100, 109, 2)), None, False, SPECIAL.replace("key", "cell")),
    (Axis(Tokens(WORDS * 2, (0, 2, 4, 6)), np.arange(100, 109, 2)), None, True, "cell"),  # no others are left
    (Axis(patch_tokens(2, 2)), None, True, "key"),
    (Axis(patch_tokens(2, 3)[:4], np.arange(5)), None, True, "key"),
    (Axis(patch_tokens(1, 3, 1)), None, False, BOTH),
])  # fmt: skip
def test_the_first_key_is_that_of_the_text(columns, to_special, wins, why):
    """Its columns may begin later, hold more than one key, or be patches of an image."""
    weights = np.full((2, 7, 4, 4), 0.05, np.float32)
    weights[0, 3, :, 0], weights[1, 2, :, 1] = 0.85, 0.6
    shares = None if to_special is None else np.full(7, to_special, np.float32)
    maps = [AttentionMap(w, columns, columns, layer=i, to_special=shares) for i, w in enumerate(weights)]
    assert most_peaked(maps) == (3 if wins else 9)
    texts = written(heatmap_figure(Attention(Source("test"), tuple(maps)), Style(width=14)))
    assert f"outlined, and enlarged: the head whose queries each give most to one {why}" in " ".join(
        text for text in texts if text not in WORDS
    )


def test_a_share_of_what_is_shown_is_no_weight(random_map):
    """In a window, a head may give nearly nothing, but all of it to one key."""
    window = Edges(np.arange(100, 105), np.arange(100, 105))
    m = random_map(2, WORDS, cells=window)
    weights = np.full((2, 4, 4), 0.05, np.float32)
    weights[0] = 0
    weights[:, :, 2] = [[0.02], [0.85]]
    assert most_peaked([replace(m, weights=weights)]) == 1


def test_the_enlarged_head_of_norms_has_the_longest(random_map):
    """A head that gives all it has to one key may give next to nothing: norms are lengths, no shares."""
    m = random_map(2, TOKENS)
    weights = np.stack([np.array([(0, 0.1, 0)] * 3), np.array([(1, 2, 1)] * 3)]).astype(np.float32)
    assert most_peaked([replace(m, weights=weights)]) == 0
    assert most_peaked([replace(m, weights=weights, quantity=NORM)]) == 1


def test_heads_without_weights_are_drawn(random_map):
    maps = tuple(random_map(7, TOKENS, layer=layer) for layer in range(2))
    maps = (replace(maps[0], weights=np.full_like(maps[0].weights, np.nan)), maps[1])
    assert most_peaked(maps) >= 7
    heatmap_figure(Attention(Source("test"), maps))


def test_columns_that_are_asked_for_are_drawn_with_titles(random_map):
    maps = tuple(random_map(12, TOKENS, layer=layer) for layer in range(2))
    sheet = heatmap_figure(Attention(Source("test"), maps), Style(columns=12, width=7.0))
    titles = [text.get_text() for text in sheet.page.texts if text.get_weight() == "bold"][1:]
    assert titles == [f"L{layer} H{head}" for layer in range(2) for head in range(12)]


def windows(random_map, kind="self", reaches=(None, 1, None)):
    """A layer for each reach."""
    maps = [random_map(2, TOKENS, kind=kind, seed=i, layer=i, reach=reach) for i, reach in enumerate(reaches)]
    hidden = [np.zeros((3, 3), bool) if m.hidden is None else m.hidden for m in maps]
    return tuple(replace(m, weights=np.where(h, 0, m.weights)) for m, h in zip(maps, hidden, strict=True)), hidden


@pytest.mark.parametrize("kind", ["self", "masked"])
@pytest.mark.parametrize("cells", [None, Edges(np.arange(4), np.arange(4))], ids=["tokens", "cells"])
def test_every_layer_hides_what_its_own_window_hides(random_map, kind, cells):
    maps, hidden = windows(random_map, kind)
    attention = Attention(Source("test"), tuple(remade(m, cells=cells) for m in maps))
    sheet = heatmap_figure(attention)
    images = [image for image in sheet.page.images if image.get_label().startswith("L")]
    assert len(images) == 6
    for i, image in enumerate(images):
        assert (np.isnan(np.ma.filled(image.get_array(), np.nan)) == hidden[i // 2]).all()
    where = "outside the thin outline: hidden keys," + " later, or" * (kind == "masked")
    drawn = " ".join(text.get_text() for text in sheet.page.texts[::-1])  # lines of the foot, from the last up
    assert f"{where} more than 1 position away in layer 1" in drawn


def test_the_terminal_hides_what_the_window_of_a_layer_hides(show, random_map):
    maps, hidden = windows(random_map)
    shown = show(heatmap_view(Attention(Source("test"), maps)), width=60).splitlines()
    titles = [i for i, line in enumerate(shown) if line.startswith("self-attention, test, layer")]
    for top, mask, m in zip(titles, hidden, maps, strict=True):
        for i, (line, row) in enumerate(zip(shown[top + 3 : top + 6], mask, strict=True)):
            numbers = re.findall(r"\d\.\d\d", line)
            written = [f"{weight:.2f}" for head in m.weights for weight in head[i][~row]]
            assert numbers == [number for number in written if number != "0.00"], line
            assert line.count("·") == 2 * row.sum(), line
    assert "; ·: hidden keys, more than 1 position away in layer 1" in " ".join(" ".join(shown).split())


def test_the_terminal_hides_in_each_mean_what_its_own_window_hides(show, random_map):
    maps, hidden = windows(random_map)
    means = (replace(m.select((0,)), quantity=replace(WEIGHT, of_all_heads=True)) for m in maps)
    shown = show(heatmap_view(Attention(Source("test"), tuple(means))), width=100)
    assert shown.count("·") == sum(map(np.sum, hidden)) + 1, "and one in the remark"


def rollouts(random_map, n, **more):
    return tuple(random_map(1, TOKENS, seed=i, layer=i, rollout=True, **more) for i in range(n))


@pytest.mark.parametrize(("log", "scale"), [(False, "share"), (True, "share, log")])
def test_the_layers_of_a_rollout_stand_side_by_side(random_map, log, scale):
    sheet = heatmap_figure(Attention(Source("test"), rollouts(random_map, 6)), Style(log=log))
    images = [image for image in sheet.page.images if image.get_label().startswith("layer")]
    assert [image.get_label() for image in images] == [f"layer {i}" for i in range(6)]
    assert len({round(image.get_extent()[0], 3) for image in images}) == 3
    texts = [text.get_text() for text in sheet.page.texts]
    assert "rollout of self-attention, test, layers 0 to 5: the cat sat" in texts
    assert scale in texts
    assert not any("head" in text or "weight" in text for text in texts)


def test_one_layer_of_a_rollout(random_map, show):
    attention = Attention(Source("test"), rollouts(random_map, 4)[3:])
    texts = [text.get_text() for text in heatmap_figure(attention).page.texts]
    assert {"rollout of self-attention, test: the cat sat", "layer 3"} <= set(texts)
    shown = show(heatmap_view(attention))
    assert shown.startswith("rollout of self-attention, test: the cat sat\n")
    assert "layer 3" in shown


@pytest.mark.parametrize("cells", [None, Edges(np.array([0, 2, 3]), np.array([0, 2, 3]), "max")])
def test_a_rollout_in_the_terminal(show, random_map, cells):
    maps = rollouts(random_map, 4)
    if cells is not None:
        maps = tuple(remade(m, weights=m.weights[:, :2, :2], cells=cells) for m in maps)
    shown = show(heatmap_view(Attention(Source("test"), (*maps, random_map(2, TOKENS)))), width=120)
    assert shown.count("rollout of self-attention, test, layers 0 to 3") == 1
    assert re.search(r"layer 0 +layer 1 +layer 2 +layer 3", shown)
    assert "self-attention, test, layer 0: the cat sat" in shown
    assert "L0 H1" in shown
    if cells is not None:
        assert "largest shares" in shown
        assert "each cell is the largest of up to 2 × 2 shares" in shown


def test_a_rollout_is_never_one_picture_with_weights(random_map):
    one, weights = rollouts(random_map, 1)[0], random_map(1, TOKENS, layer=1)
    assert [next(iter(maps.values())).quantity.through_layers for maps in by_attention([one, weights])] == [True, False]


def test_a_rollout_has_a_logarithmic_scale_only_if_it_is_asked_for_as_weights_have(random_map):
    one, weights = rollouts(random_map, 1)[0], random_map(1, TOKENS)
    for m in (one, weights):
        assert weight_scale(Style(log=True), [m]).log
        assert not weight_scale(Style(log=False), [m]).log
        assert not weight_scale(Style(), [m]).log


def test_the_first_row_of_a_window_counts(random_map):
    """It sees more than one key, unlike that of a causal mask."""
    weights = np.array([[[0.9, 0.1, 0], [0.2, 0.5, 0.3], [0, 0.4, 0.6]]], np.float32)
    m = replace(random_map(1, TOKENS), weights=weights, reach=1)
    assert weight_scale(Style(log=True), [m]).high == pytest.approx(0.9)


def test_columns_can_be_chosen(layers):
    sheet = heatmap_figure(Attention(Source("test"), layers(0, 1)), Style(columns=4))
    assert (
        len({round(image.get_extent()[3], 3) for image in sheet.page.images if image.get_label().startswith("L")}) == 1
    )


def test_the_terminal_says_the_layer_where_there_are_several(show, layers):
    several, one = (show(heatmap_view(Attention(Source("test"), maps))) for maps in (layers(0, 1), layers(1)))
    assert "self-attention, test, layer 0: the cat sat" in several
    assert "self-attention, test, layer 1: the cat sat" in several
    assert "layer" not in one
