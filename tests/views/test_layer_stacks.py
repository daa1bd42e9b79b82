import io
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from PIL import Image

from mhaviz.records import Attention, Cells, Source
from mhaviz.views.figure.heatmap import heatmap_figure
from mhaviz.views.layer_stacks import stack_layers
from mhaviz.views.look import Look
from mhaviz.views.terminal.heatmap import HeatmapView

TOKENS = ("the", "cat", "sat")


@pytest.fixture
def layers(random_map):
    """Of these numbers, each with two heads of its own weights."""

    def make(*numbers, **more):
        return tuple(random_map(2, TOKENS, seed=number, layer=number, **more) for number in numbers)

    return make


def test_layers_of_one_attention_are_one_map(layers):
    maps = layers(0, 1, 2)
    (stack,) = stack_layers(maps)
    assert np.array_equal(stack.map.weights, np.concatenate([m.weights for m in maps]))
    assert stack.columns == 2
    assert stack.titles[:3] == ("layer 0 · head 0", "layer 0 · head 1", "layer 1 · head 0")
    assert stack.part == ", layers 0 to 2"


def test_layers_that_are_not_neighbours_are_listed(layers):
    (stack,) = stack_layers(layers(1, 4, 5))
    assert stack.part == ", layers 1, 4, 5"


def test_a_single_map_stays_what_it_is(layers):
    (m,) = layers(3)
    (stack,) = stack_layers([m])
    assert stack.map is m
    assert (stack.titles, stack.columns, stack.part) == (("head 0", "head 1"), None, "")


def test_what_differs_in_more_than_its_layer_stays_apart(layers):
    first, second = layers(0, 1)
    cells = Cells(np.array([5, 6, 7, 8]), np.array([0, 1, 2, 3]))
    others = (
        replace(second, kind="masked"),
        replace(second, sentence=1),
        replace(second, heads=(0, 5)),
        replace(second, keys=("the", "cat", "ran")),
        replace(second, cells=cells),
        replace(second, layer=0),
    )
    for other in others:
        assert len(stack_layers([first, other])) == 2
    encoder, cross = layers(0, 1), layers(0, 1, kind="cross")
    mixed = [encoder[0], cross[0], encoder[1], cross[1]]
    assert [stack.map.kind for stack in stack_layers(mixed)] == ["self", "cross"]


def test_a_picture_has_a_row_a_layer_and_a_column_a_head(layers):
    maps = layers(0, 1, 2)
    sheet = heatmap_figure(Attention(Source("test"), maps))
    images = [image for image in sheet.page.images if image.get_label().startswith("layer")]
    assert [image.get_label() for image in images] == [f"layer {i} · head {h}" for i in range(3) for h in range(2)]
    lefts, tops = ([round(image.get_extent()[side], 3) for image in images] for side in (0, 3))
    assert len(set(lefts)) == 2
    assert len(set(tops)) == 3
    assert any("self-attention, layers 0 to 2" in text.get_text() for text in sheet.page.texts)
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


def test_columns_can_be_chosen(layers):
    sheet = heatmap_figure(Attention(Source("test"), layers(0, 1)), Look(columns=4))
    assert len({round(image.get_extent()[3], 3) for image in sheet.page.images if "layer" in image.get_label()}) == 1


def test_the_terminal_says_the_layer_where_there_are_several(show, layers):
    several, one = (show(HeatmapView(Attention(Source("test"), maps))) for maps in (layers(0, 1), layers(1)))
    assert "self-attention, layer 0: the cat sat" in several
    assert "self-attention, layer 1: the cat sat" in several
    assert "layer" not in one
