"""Pictures for a slide, a column and a page: their size, their letters, what they leave out, and their files."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from drawn import images, inside, letters, texts
from looking import attend, encoded, traced
from made import made_map
from PIL import Image
from pypdf import PdfReader

from mhaviz.analyses.explanation import explain
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.analyses.projections import compare_projections
from mhaviz.analyses.scaling import compare_scaling
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.pages.pooling import pool_map
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.showing import figure_of, figures_of
from mhaviz.views.style import Style

pytestmark = pytest.mark.slow

SIZES = {"slide": (13.3, 7.5), "column": (3.3, 9.0), "page": (6.5, 9.0)}  # inches
LONG = " ".join(f"Wort{i}teil" for i in range(40))


@cache
def record(name):
    layer = RandomLayer(8, 4, device_name="cpu")
    return {
        "1": lambda: attend(RandomLayer(8, 1), ["the cat sat"]),
        "12": lambda: attend(RandomLayer(24, 12), ["the cat sat on the mat"]),
        "72": lambda: attend(RandomLayer(72, 72), ["the cat sat on the mat"]),
        "long": lambda: attend(RandomLayer(16, 8), [LONG]),
        "sentences": lambda: attend(RandomLayer(16, 4), [f"{word} sat on the mat" for word in "abcdefg"]),
        "trace": lambda: traced(layer, WORKED_EXAMPLE),
        "matrices": lambda: layer_matrices(*encoded(layer, WORKED_EXAMPLE[:1], "ce paragraphe est un exemple"), (0, 1)),
        "explanation": lambda: explain(*encoded(RandomLayer(16, 2), ["one two three two"]), 2, 0),
        "scaling": lambda: compare_scaling(*encoded(RandomLayer(64, 4), ["a b c d e f"]), (0,)),
        "projections": lambda: compare_projections(layer.projection_inputs(WORKED_EXAMPLE[0]), include_self=False),
    }[name]()


@cache
def drawn(name, room):
    return figures_of(record(name), Style(room=room, dpi=50))


@pytest.mark.parametrize(
    ("name", "room", "n_files"),
    [
        *((name, room, 1) for name in ("1", "12") for room in SIZES),
        ("72", "slide", 1), ("72", "column", 1), ("long", "slide", 1), ("long", "column", 1),
        ("sentences", "column", 2),
        *(("trace", room, 1) for room in SIZES), ("matrices", "page", 3),
        ("explanation", "column", 2), ("projections", "column", 3),
    ],
)  # fmt: skip
def test_a_picture_fits_its_room(name, room, n_files):
    sheets = drawn(name, room)
    width, height = SIZES[room]
    for sheet in sheets:
        across, down = sheet.get_size_inches()
        assert across == pytest.approx(width, abs=0.03)
        assert down <= height + 0.03
        assert min(letters(sheet)) >= 6 - 1e-6
        assert max(text.get_fontsize() for text in sheet.page.texts) <= sheet.title_size * sheet.zoom, (
            "no heading is larger than the title"
        )
        inside(sheet)
    assert len(sheets) == n_files
    said = [re.findall(r"part \d+ of \d+", " ".join(texts(sheet))) for sheet in sheets]
    assert said == ([[f"part {i} of {n_files}"] for i in range(1, n_files + 1)] if n_files > 1 else [[]])


@pytest.mark.parametrize(
    ("name", "room", "text", "scale"),
    [
        ("projections", "slide", "a row of a softmax sums to 1", "weight"),
        ("projections", "column", "with their scores in or above the cells", "score"),
        ("matrices", "page", "in Kᵀ features", "S"),
    ],
)
def test_a_sheet_explains_what_it_shows(name, room, text, scale):
    sheets = drawn(name, room)
    labels = {f"scale of {one}" for one in (scale if isinstance(scale, tuple) else (scale,))}
    shown = [any(image.get_label() in labels for image in sheet.page.images) for sheet in sheets]
    assert [text in " ".join(texts(sheet)) for sheet in sheets] == shown
    assert set(shown) == {True, False}


def test_a_part_says_what_the_next_has():
    first, *_, last = drawn("matrices", "page")
    assert "part 1 of 3, next: score, weigh, mix" in " ".join(texts(first)[::-1])
    assert "next: " not in " ".join(texts(last))


def test_matrices_stand_in_a_row_rather_than_on_several_slides():
    scaling = compare_scaling(*encoded(RandomLayer(64, 4), ["i wonder what will come next after all of this"]), (0,))
    (sheet,) = figures_of(scaling, Style(room="slide", dpi=50))
    assert len({image.get_extent()[2] for image in sheet.page.images if "scale" not in image.get_label()}) == 1


@pytest.mark.parametrize("room", SIZES)
def test_pictures_stand_with_their_heading_and_together_where_they_fit(room):
    """All of a head is on one sheet, below its heading."""
    seen = []
    for sheet in drawn("matrices", room):
        titles = "\n".join(texts(sheet))
        names = re.findall(r"^(Kᵀ|[VQSAH])(?: = [^W\n]*)? \(\d × [^8]\)$", titles, re.M)
        headings = re.findall(r"^L0 H\d", titles, re.M)
        assert sorted(names) == sorted(["Kᵀ", "V", "Q", "S", "A", "H"] * len(headings))
        seen += names
    assert len(seen) == 2 * 6


def only_words(sheet):
    """Whether a sheet has neither a picture nor a mark."""
    return not (sheet.page.images or sheet.page.patches or len(sheet.axes) > 1)


@pytest.mark.parametrize("room", SIZES)
@pytest.mark.parametrize("name", ["explanation", "projections", "scaling", "trace"])
def test_no_sheet_has_only_words(name, room):
    assert not any(map(only_words, drawn(name, room)))


def test_a_table_without_room_below_a_picture_stands_beside_it():
    (sheet,) = figures_of(record("scaling"), Style(room="slide", dpi=50, font_size=8))
    right = max(image.get_extent()[1] for image in sheet.page.images)
    cells = [
        text.get_position()[0] for text in sheet.page.texts if text.get_text() in ("unscaled", "range of the scores")
    ]
    assert len(cells) == 2
    assert min(cells) > right
    (untitled,) = figures_of(record("scaling"), Style(room="slide", dpi=50, font_size=8, title=""))
    assert set(texts(sheet)) - set(texts(untitled)) == {sheet.heading, "self-attention, random weights: a b c d e f"}


def test_what_a_room_has_no_room_for_is_squeezed_before_it_is_divided():
    """Rows and gaps are lower than usual, and no number is left out for it."""
    explanation = explain(*encoded(RandomLayer(512, 8), ["i am going to deposit my money at the bank"]), 4, 2)
    (sheet,) = figures_of(explanation, Style(room="slide", dpi=100, font_size=8))
    usual = figure_of(explanation, Style(dpi=100))
    extents = [images(one, "q ∘ k")[0].get_extent() for one in (sheet, usual)]
    heights = [bottom - top for _, _, bottom, top in extents]
    assert 0.6 * heights[1] < heights[0] < 0.95 * heights[1]
    assert sorted(filter(is_number, texts(sheet))) == sorted(filter(is_number, texts(usual)))


def is_number(text):
    return re.fullmatch(r"-?\d+\.\d+%?", text)


def test_the_heads_of_a_room_are_the_strongest():
    attention = record("72")
    (sheet,) = drawn("72", "column")
    shown = {int(re.sub(r".*H", "", image.get_label())) for image in images(sheet, "L0 H")}
    peaks = attention.maps[0].weights[:, :, 1:].max(axis=2).mean(axis=1)  # the first key aside
    assert shown == set(np.argsort(-peaks)[: len(shown)].tolist())
    assert 4 <= len(shown) < 72
    assert f"the {len(shown)} strongest of 72 heads" in " ".join(texts(sheet)[::-1])


def test_two_sentences_have_the_same_heads_in_a_room_and_all_their_labels():
    tokens, rng = ["[CLS]", *(f"w{i}" for i in range(7))], np.random.default_rng(0)
    maps = []
    for i in range(2):
        weights = rng.dirichlet(np.full(8, 0.3), (72, 8))
        weights[:, :, 0] += 3 * weights.sum(axis=2)  # a sink
        weights /= weights.sum(axis=2, keepdims=True)
        maps.append(replace(made_map(tokens, tokens, weights.astype(np.float32)), sentence=i))
    (sheet,) = figures_of(Attention(Source("made by a test"), tuple(maps)).with_sinks(), Style(room="column", dpi=60))
    drawn = [int(image.get_label().removeprefix("L0 H")) for image in images(sheet, "L0 H")]
    half = len(drawn) // 2
    peaks = sum(m.weights[:, :, 1:].max(axis=2).mean(axis=1) for m in maps)
    assert drawn[:half] == drawn[half:] == sorted(np.argsort(-peaks)[:half].tolist())
    assert set(tokens) <= set(texts(sheet))


def spread_over_files(n_tokens, n_cells=None):
    """Maps of seven sentences, of which the first has weights far above the others'."""
    tokens, rng = [f"w{i}" for i in range(n_tokens)], np.random.default_rng(0)
    shares = (rng.dirichlet(np.full(n_tokens, 0.2 if i == 0 else 9.0), (4, n_tokens)) for i in range(7))
    maps = [replace(made_map(tokens, tokens, s.astype(np.float32)), sentence=i) for i, s in enumerate(shares)]
    return Attention(Source("made by a test"), tuple(pool_map(m, n_cells, n_cells) if n_cells else m for m in maps))


@pytest.mark.parametrize("shape", [(6,), (300, 200)])
def test_all_files_have_one_scale(shape):
    attention, style = spread_over_files(*shape), Style(room="column", dpi=50)
    sheets = figures_of(attention, style)
    ends = {image.get_clim() for sheet in sheets for image in images(sheet, "L0 H")}
    assert len(sheets) > 1
    assert len(ends) == 1
    if len(shape) == 1:  # sums grow with the cells, which are larger in a room
        assert ends == {image.get_clim() for image in images(figure_of(attention, Style(dpi=50)), "L0 H")}
    assert len({tuple(text for text in texts(sheet) if re.fullmatch(r"[≤≥]? ?[\d.]+", text)) for sheet in sheets}) == 1


@pytest.mark.parametrize(("layers", "n_heads"), [(1, 12), (3, 12)])
def test_the_scale_of_sums_is_that_of_all_heads_where_the_strongest_alone_are_drawn(layers, n_heads):
    tokens, edges, rng = [f"w{i}" for i in range(240)], np.arange(0, 241, 4), np.random.default_rng(0)
    heads = [rng.dirichlet(np.full(60, 0.02 if i < 2 else 9.0), 60).astype(np.float32) for i in range(n_heads)]
    maps = [
        made_map(tokens, tokens, some, layer=i, cells=(edges, edges, "mass"))
        for i, some in enumerate(np.split(np.array(heads), layers))
    ]
    attention = Attention(Source("made by a test"), tuple(maps))
    (sheet,) = figures_of(attention, Style(room="column", dpi=50))
    assert 0 < len(images(sheet, "L")) < n_heads
    assert {image.get_array().shape for image in images(sheet, "L")} == {(60, 60)}
    usual = images(figure_of(attention, Style(dpi=50)), "L")
    assert [image.get_array().shape for image in usual] == [(60, 60)] * n_heads
    assert {image.get_clim() for image in images(sheet, "L")} == {image.get_clim() for image in usual}


def test_every_part_is_in_one_of_the_files():
    trace = record("trace")
    sheets = figures_of(trace, Style(room="column", dpi=50, font_size=11))
    assert len(sheets) > 1
    steps = [text for sheet in sheets for text in labelled(sheet)]
    assert steps == [f"step {step.name}" for step in trace.steps]
    sentences = [image for sheet in drawn("sentences", "column")
                 for image in images(sheet, "L0 H")]  # fmt: skip
    assert len(sentences) == 7 * 4


def labelled(sheet):
    return [text.get_label() for text in sheet.page.texts if text.get_label().startswith("step ")]


def test_files_are_numbered_and_written_together(tmp_path):
    record("trace").save(
        tmp_path / "t.png", tmp_path / "t.svg", tmp_path / "t.json", room="column", dpi=50, font_size=11
    )
    names = ["t-2.png", "t-2.svg", "t-3.png", "t-3.svg", "t.json", "t.png", "t.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    with Image.open(tmp_path / "t-2.png") as image:
        assert image.size[0] / image.info["dpi"][0] == pytest.approx(3.3, abs=0.03)
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "t-2.png").mkdir()
    with pytest.raises(MhavizError, match=r"cannot write .*t-2.png: it is a folder"):
        record("trace").save(tmp_path / "t.png", room="column", dpi=50, font_size=11)
    assert [path.name for path in tmp_path.iterdir()] == ["t-2.png"]


def test_a_pdf_has_a_page_for_each_part(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")  # which matplotlib reads
    explanation, path = record("explanation"), tmp_path / "t.pdf"
    explanation.save(path, room="column", dpi=50)
    sheets = drawn("explanation", "column")
    assert [found.name for found in tmp_path.iterdir()] == ["t.pdf"]
    pdf = PdfReader(path)
    assert "/CreationDate" not in pdf.metadata
    assert pdf.metadata.title == sheets[0].heading
    for page, sheet in zip(pdf.pages, sheets, strict=True):
        assert [float(side) / 72 for side in page.mediabox[2:]] == pytest.approx(sheet.get_size_inches(), abs=0.01)
        assert all(text in page.extract_text() for text in texts(sheet)[:2])
        fonts = [font.get_object() for font in page["/Resources"]["/Font"].get_object().values()]
        assert {font["/Subtype"] for font in fonts} == {"/Type0"}  # TrueType; matplotlib's other is /Type3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"room": "poster"}, "`room`: expected slide, column, page, got 'poster'"),
        ({"room": "slide", "width": 3.3}, "`room` has a width; leave out `width`"),
    ],
)
def test_rooms_that_are_none(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        Style(**wrong)


@pytest.mark.parametrize("name", ["long", "72", "matrices", "explanation", "projections"])
def test_a_picture_without_a_room_is_no_wider_than_a_slide(name):
    sheet = figure_of(record(name), Style(dpi=50))
    assert sheet.get_figwidth() <= 10 + 1e-6
    assert min(letters(sheet)) >= 6 - 1e-6
    is_high = sheet.get_figheight() > 14
    assert any("inches high" in notice for notice in sheet.notices) == is_high


@pytest.mark.parametrize(
    ("room", "n_heads", "n", "columns"), [("column", 4, 9, 2), ("column", 4, 6, 2), ("page", 6, 6, 2)]
)
def test_heads_of_a_narrow_room_are_in_whole_rows(room, n_heads, n, columns):
    weights = np.random.default_rng(0).dirichlet(np.ones(n), (n_heads, n)).astype(np.float32)
    m = made_map([f"token{i}" for i in range(n)], [f"token{i}" for i in range(n)], weights)
    sheet = figure_of(Attention(Source("test"), (m,)), Style(room=room))
    lefts = [round(image.get_extent()[0], 2) for image in images(sheet, "L0")]
    assert len(lefts) == n_heads
    assert [lefts.count(left) for left in dict.fromkeys(lefts)] == [n_heads // columns] * columns


@pytest.mark.parametrize(("room", "is_beside"), [("slide", True), ("page", False), ("column", False)])
def test_the_small_maps_of_many_layers_have_the_width_of_a_page(random_map, room, is_beside):
    tokens = tuple(f"token{i}" for i in range(16))
    maps = tuple(random_map(12, tokens, layer=layer) for layer in range(6))
    sheet = figure_of(Attention(Source("test"), maps), Style(room=room))
    *small, enlarged = images(sheet, "L")
    right, bottom = max(image.get_extent()[1] for image in small), max(image.get_extent()[2] for image in small)
    left, _, _, top = enlarged.get_extent()
    assert (left > right) == is_beside
    assert is_beside or top > bottom


@pytest.mark.parametrize(("n_heads", "room", "larger"), [(4, "slide", True), (4, "page", False), (12, "slide", True)])
def test_letters_of_a_slide_are_the_largest_that_have_room(n_heads, room, larger):
    weights = np.random.default_rng(0).dirichlet(np.ones(6), (n_heads, 6)).astype(np.float32)
    tokens = [f"token{i}" for i in range(6)]
    attention = Attention(Source("test"), (made_map(tokens, tokens, weights),))
    (sheet,), (usual,) = (figures_of(attention, Style(room=room, font_size=size)) for size in (None, 8))
    labels = [
        max(text.get_fontsize() for text in one.page.texts if text.get_text() in tokens) for one in (sheet, usual)
    ]
    assert (labels[0] > 1.1 * labels[1]) == larger
    assert sorted(texts(sheet)) == sorted(texts(usual))
    assert len(letters(sheet)) == len(letters(usual)), "no number is lost"
    inside(sheet)


@pytest.mark.parametrize(("name", "zoom"), [("sentences", 1.25), ("matrices", 1.125)])
@pytest.mark.slow
def test_slides_are_at_most_twice_as_many_for_letters_that_are_read_from_afar(name, zoom):
    """They lose no number of a cell, and no label."""
    slides, usual = (figures_of(record(name), Style(room="slide", dpi=50, font_size=size)) for size in (None, 8))
    assert [sheet.zoom for sheet in slides] == [zoom] * len(slides)
    assert len(usual) < len(slides) <= 2 * len(usual)
    assert set(numbers(usual)) <= set(numbers(slides))
    assert "some labels are left out" not in " ".join(all_texts(slides))


def test_what_larger_letters_would_leave_out_has_the_usual_ones():
    (slide,), (larger,) = (figures_of(record("72"), Style(room="slide", dpi=50, font_size=size)) for size in (None, 9))
    assert slide.zoom == 1
    assert len(images(larger, "L0")) < len(images(slide, "L0"))


@pytest.mark.parametrize(("n_heads", "n"), [(1, 60), (4, 40)])
def test_larger_letters_leave_out_no_label_of_those_that_have_room(n_heads, n):
    tokens = [f"token{i}" for i in range(n)]
    weights = np.random.default_rng(0).dirichlet(np.ones(n), (n_heads, n)).astype(np.float32)
    attention = Attention(Source("test"), (made_map(tokens, tokens, weights),))
    (slide,), (usual,) = (figures_of(attention, Style(room="slide", font_size=size)) for size in (None, 8))
    labels = [[text for text in texts(one) if text in tokens] for one in (slide, usual)]
    assert len(labels[0]) >= len(labels[1])


def numbers(sheets):
    """Numbers in cells."""
    labels = (text.get_label() or "" for sheet in sheets for text in sheet.page.collections)
    return sorted(label for label in labels if label.startswith("numbers "))


def all_texts(sheets):
    return [text for sheet in sheets for text in texts(sheet)]


@pytest.mark.parametrize(("looks", "dpi"), [
    ({}, 150), ({"room": "slide"}, 150), ({"room": "column"}, 300), ({"room": "page"}, 300),
    ({"room": "column", "dpi": 150}, 150),
])  # fmt: skip
def test_what_is_printed_has_the_pixels_that_journals_ask_for(looks, dpi):
    (sheet,) = figures_of(record("1"), Style(**looks))
    assert sheet.dpi == pytest.approx(dpi, rel=0.01)
