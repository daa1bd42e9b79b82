import itertools
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, texts

import mhaviz
from mhaviz.results.embeddings import InputPart
from mhaviz.views.figure.sheet import MOST_PIXELS
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style


def embedded(text="the cat sat the", d_model=8):
    return mhaviz.load(d_model=d_model, n_heads=1, device="cpu").embeddings(text)


def drawn(sheet):
    return [image for image in sheet.page.images if not image.get_label().startswith("scale of")]


def test_matrices_and_their_cosines():
    e = embedded()
    sheet = figure_of(e)
    expected = [*(one.values for one in e.parts), *(one.cosines for one in e.parts)]
    assert len(drawn(sheet)) == len(expected)
    for image, values in zip(drawn(sheet), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(image.get_array(), np.float32), values)
        assert image.get_clim()[0] == -image.get_clim()[1]
    features, cosines = drawn(sheet)[:3], drawn(sheet)[3:]
    assert len({image.get_clim() for image in features}) == 1
    assert {image.get_clim() for image in cosines} == {(-1, 1)}
    assert len(images(sheet, "scale of E, PE, X")) == len(images(sheet, "scale of cosine")) == 1
    for above, below in zip(features, cosines, strict=True):  # each has its cosines below
        assert above.get_extent()[0] == below.get_extent()[0]
    there = texts(sheet)
    assert ["E = lookup(ids) · √d_model   (4, 8)" in there, "X = E + PE   (4, 8)" in there] == [True, True]
    assert all(str(number) in there for number in e.tokens.ids)
    inside(sheet)


def test_a_shortened_equation_is_not_another():
    written = texts(figure_of(mhaviz.load("random").embeddings("a b c"), Style(width=3.3)))
    assert not any("lookup" in text and not text.startswith("E = lookup") for text in written)


def test_positions_and_their_cosines_one_below_the_other():
    table = mhaviz.sinusoids(40, 16)
    sheet = figure_of(table)
    of_PE, cosines = sorted(drawn(sheet), key=lambda image: image.get_extent()[3])
    np.testing.assert_array_equal(np.asarray(of_PE.get_array(), np.float32), table.values)
    np.testing.assert_array_equal(np.asarray(cosines.get_array(), np.float32), table.cosines)
    assert of_PE.get_extent()[0] == cosines.get_extent()[0]
    assert of_PE.get_extent()[2] < cosines.get_extent()[3]
    inside(sheet)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "d_model"), [(1, 1), (2, 4096), (40, 64), (700, 768)])
def test_every_size_has_room(length, d_model):
    words = " ".join(f"w{i}" for i in range(length))
    sheet = figure_of(embedded(words, d_model))
    inside(sheet)
    assert max(sheet.width, sheet.height) * sheet.dpi < MOST_PIXELS / 2
    shown = [image.get_array().shape[1] for image in drawn(sheet)[:3]]
    said = [text for text in texts(sheet) if "strongest of up to" in text]
    assert shown == [min(d_model, 64)] * 3, "sines and cosines each have a column"
    assert bool(said) == (length == 700)
    assert any(f"first 64 of {d_model:,}" in text for text in texts(sheet)) == (d_model > 64)


def test_labels_do_not_overlap():
    sheet = figure_of(embedded(" ".join(f"word{i}" for i in range(50)), 512))
    renderer = sheet.canvas.get_renderer()
    labels = [text for text in sheet.page.texts if text.get_text().startswith("word") and not text.get_rotation()]
    boxes = sorted((text.get_window_extent(renderer) for text in labels), key=lambda box: (box.x1, box.y0))
    for one, other in itertools.pairwise(boxes):
        assert one.x1 != other.x1 or one.y1 <= other.y0 + 2


def test_parts_of_other_widths_and_on_other_scales():
    e = embedded()
    X = InputPart("X", "X = Linear(E)", np.full((4, 5), 50, np.float32))
    sheet = figure_of(replace(e, parts=(*e.parts[:2], X)))
    shapes = [image.get_array().shape for image in drawn(sheet)]
    assert shapes == [(4, 8), (4, 8), (4, 5), *[(4, 4)] * 3]
    assert [len(images(sheet, f"scale of {name}")) for name in ("E, PE", "X")] == [1, 1]
    inside(sheet)
