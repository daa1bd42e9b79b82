"""What a picture and the terminal show of masks, padding and dropout, each told apart without colour."""

import numpy as np
import pytest
from drawn import images, inside, texts
from looking import encoded
from rich.cells import cell_len

from mhaviz.analyses.masking import masking
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views.data import document
from mhaviz.views.figure.sheet import INK
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style

BATCH = ["the cat sat on the mat", "a dog barks"]


def made(sentences=BATCH, heads=(0,), dropout=0.3, causal=True, n_heads=2, target=None):
    layer = RandomLayer(8, n_heads, device_name="cpu", causal=causal)
    return masking(*encoded(layer, sentences, target), heads, dropout)


def values(image):
    return np.ma.filled(image.get_array().astype(float), np.nan)


def crosses(sheet):
    """Where the middle of each cross is."""
    found = []
    for artist in sheet.page.collections:
        if len(artist.get_edgecolor()) and tuple(artist.get_edgecolor()[0][:3]) == _rgb(INK):
            ends = [path.vertices.mean(axis=0) for path in artist.get_paths() if len(path.vertices) == 2]
            found += ends[::2]
    return found


def _rgb(colour):
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def test_each_matrix_shows_its_numbers():
    m = made()
    sheet = figure_of(m)
    for name, of in (("L0 H0: S = ", "scores"), ("A = ", "weights"), ("dropout", "kept")):
        for image, one in zip(images(sheet, name), m.sentences, strict=True):
            blank = np.zeros_like(one.padding) if of == "scores" else one.hidden[0] | one.padding
            expected = np.where(blank, np.nan, getattr(one, of)[0].astype(float))
            np.testing.assert_array_equal(values(image), expected)
    scores = {image.get_clim() for image in (*images(sheet, "L0 H0: S "), *images(sheet, "S masked"))}
    assert len(scores) == 1
    assert len({image.get_clim() for image in (*images(sheet, "A "), *images(sheet, "dropout"))}) == 1


@pytest.mark.parametrize(("heads", "causal", "hides"), [
    ((0,), True, "hides 18 of 72 scores, padding leaves out 27 more"),
    ((0, 1), True, "hides 36 of 144 scores, padding leaves out 54 more"),
    ((0,), False, "hides nothing, padding leaves out 27 of 72 scores"),
])  # fmt: skip
def test_the_title_counts_the_cells_that_are_drawn_and_why_some_are_blank(heads, causal, hides):
    m = made(heads=heads, causal=causal)
    sheet = figure_of(m)
    assert sheet.heading.endswith(f"the mask {hides}, dropout with p = 0.3")
    drawn, masked = ([values(image) for image in images(sheet, name)] for name in ("L0 H", "S masked"))
    blank = sum(int(np.isnan(cells).sum()) for cells in masked)
    counts = document(m)["counts"]
    assert counts["scores"] == sum(cells.size for cells in drawn if np.isfinite(cells).all())
    assert counts["masked"] + counts["padding"] == blank


def test_padding_is_not_called_hidden_by_the_mask():
    assert any("hidden by the mask, −∞, unless it is padding" in text for text in texts(figure_of(made())))
    assert not any("hidden by the mask" in text for text in texts(figure_of(made(causal=False))))


def test_a_cross_for_each_weight_that_is_dropped():
    m = made()
    sheet = figure_of(m)
    places = crosses(sheet)
    expected = []
    for image, one in zip(images(sheet, "dropout"), m.sentences, strict=True):
        left, right, bottom, top = image.get_extent()
        for i, j in np.argwhere(one.dropped[0] & ~one.hidden[0] & ~one.padding):
            expected.append((left + (j + 0.5) * (right - left) / 6, top + (i + 0.5) * (bottom - top) / 6))
    assert expected
    np.testing.assert_allclose(places, expected, atol=0.01)


def test_padding_is_labelled_and_said_only_where_there_is_some():
    shown = texts(figure_of(made()))
    assert "sentence 1, 3 of 6 tokens, the others are padding: a dog barks" in shown
    assert {"pad₃", "pad₄", "pad₅"} <= set(shown)
    assert "pad: padding, hidden as a key; as a query it is left out" in shown
    alone = texts(figure_of(made(BATCH[:1], dropout=None)))
    assert not any(text.startswith(("×", "pad")) for text in alone)
    assert any(text.endswith("outside the thin outline: hidden by the mask, −∞") for text in alone)
    assert any("the mask hides 15 of 36 scores" in text for text in alone)
    assert any("the mask hides nothing" in text for text in texts(figure_of(made(BATCH[:1], causal=False))))


@pytest.mark.parametrize(("length", "dropout"), [(1, 0.2), (3, None), (13, 0.2), (13, None), (128, 0.2)])
def test_any_size_stays_on_the_sheet(length, dropout):
    m = made([" ".join(f"w{i}" for i in range(length)), "a"], (0, 1), dropout)
    sheet = figure_of(m, Style(dpi=60))
    inside(sheet)
    titles = [
        text for text in sheet.page.texts if text.get_text().startswith(("S masked", "A = ", "head", "score", "weight"))
    ]
    renderer = sheet.canvas.get_renderer()
    boxes = [title.get_window_extent(renderer) for title in titles]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


@pytest.mark.parametrize("width", [60, 120])
def test_the_terminal_tells_them_apart_without_colour(show, width):
    m = made()
    lines = show(view_of(m), width, None).splitlines()
    assert max(map(cell_len, lines)) <= width
    cells = " ".join(
        line for line in lines if line.split() and line.split()[0] in "the₀ cat sat on the₄ mat a dog barks pad₃"
    )
    seen = [~one.hidden[0] & ~one.padding for one in m.sentences]
    n_dropped = sum(int((one.dropped[0] & of).sum()) for one, of in zip(m.sentences, seen, strict=True))
    assert n_dropped
    assert sum(line.split().count("×") for line in lines[5:]) == n_dropped
    assert " pad " in cells
    assert " · " in cells


@pytest.mark.parametrize("width", [None, 3.3])
def test_sentences_have_cells_and_labels_of_one_size(width):
    m = made()
    sheet = figure_of(m, Style(width=width))
    tiles = [image.get_extent() for name in ("L0 H0: S", "A = ") for image in images(sheet, name)]
    assert len({round(right - left, 3) for left, right, *_ in tiles}) == 1
    words = {word for sentence in BATCH for word in sentence.split() if word not in ("the", "a")}
    labels = [text for text in sheet.page.texts if text.get_text() in words]
    assert {text.get_text() for text in labels} == words
    assert len({text.get_fontsize() for text in labels}) == 1
