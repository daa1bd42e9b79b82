"""Every picture in a column of a paper and on a slide: nothing too small to be read, and no letters on others."""

import itertools
import re
from dataclasses import replace
from functools import cache

import matplotlib
import numpy as np
import pytest
from drawn import images, texts
from looking import attend, encoded, traced
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from shown import number_text

import mhaviz
from mhaviz.analyses.explanation import explain
from mhaviz.analyses.masking import masking
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.analyses.projections import compare_projections
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.pages.blocks import Column, Table, Title
from mhaviz.results.result import Source
from mhaviz.results.training import AlignmentErrors, Evaluation
from mhaviz.views.figure.artists import Numbers
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import text_width
from mhaviz.views.figure.sheet import Sheet, title_size
from mhaviz.views.figure.table import measure_table
from mhaviz.views.measures import BODY, TITLE
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style
from mhaviz.views.tiles.labels import LEAST_LABEL

SEEN = "the small black cat does not see my red car"
LONG = " ".join(f"word{i % 50}" for i in range(100))
RECORDS = ["trace", "matrices", "explanation", "masking", "heads", "map", "projections", "evaluation"]
ASIDE = 0.01  # inches that letters may reach into the room of others, which their boxes are larger than


@cache
def record(name):
    layer = RandomLayer(8, 4, device_name="cpu")
    return {
        "trace": lambda: traced(layer, WORKED_EXAMPLE),
        "matrices": lambda: layer_matrices(*encoded(layer, [WORKED_EXAMPLE[0]]), (0, 1)),
        "explanation": lambda: explain(*encoded(RandomLayer(16, 2), ["one two three two"]), 2, 0),
        "masking": lambda: masking(*encoded(RandomLayer(16, 2, causal=True), ["the cat sat", "a dog"]), [0]),
        "heads": lambda: attend(RandomLayer(16, 8), ["Donaudampfschifffahrt the the sat on the mat w12 <b>"]),
        "embeddings": lambda: mhaviz.load(d_model=64, n_heads=1, device="cpu").embeddings("the cat sat on the mat"),
        "projections": lambda: compare_projections(layer.projection_inputs(WORKED_EXAMPLE[0]), include_self=False),
        "evaluation": lambda: Evaluation(
            Source("a source"), "translation", "exact match", 0.9, 1.1, 500, True, AlignmentErrors((0.4, 0.1), 0.2, 9)
        ),
        "map": lambda: attend(RandomLayer(16, 1, causal=True), [LONG]),
        "image": lambda: attend(RandomLayer(16, 1), ["a b c d e"]).over_image(
            np.zeros((8, 8, 3), np.uint8), grid=(2, 2, 1)
        ),
    }[name]()


WIDER = [
    *(("matrices", 10.0, 12.0), ("heads", 10.0, 12.0), ("map", 10.0, 12.0), ("projections", 5.0, None)),
    ("image", 10.0, None),  # a scale from 1 to 2
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "width", "font_size"), [*((name, 3.3, None) for name in RECORDS), *WIDER])
def test_letters_can_be_read(name, width, font_size):
    sheet = figure_of(record(name), Style(width=width, font_size=font_size))
    assert sheet.get_figwidth() == pytest.approx(width, abs=0.02)
    with matplotlib.rc_context({"text.hinting": "none"}):
        renderer = FigureCanvasAgg(sheet).get_renderer()
        found = [text for text in sheet.findobj(Text) if text.get_text() and text.get_visible()]
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in found]
    sizes = [text.get_fontsize() for text in found]
    sizes += [one.font.get_size_in_points() for one in sheet.page.collections if isinstance(one, Numbers)]
    assert min(sizes) >= LEAST_LABEL - 1e-6
    inch, end = sheet.dpi, sheet.bbox
    for text, box in boxes:
        assert -1 <= box.x0 < box.x1 <= end.width + 1, text
        assert -1 <= box.y0 < box.y1 <= end.height + 1, text
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        lines = min(first.height, second.height, first.width, second.width)  # a line is less high than its box
        assert across <= ASIDE * inch or down <= max(ASIDE * inch, 0.25 * lines), (one, other)


def test_colour_bars_lie_above_what_they_explain():
    sheet = figure_of(record("projections"), Style(width=3.3))
    first = images(sheet, "stage 1")[0].get_extent()
    of_score, of_weight, of_heads = images(sheet, "scale of score") + images(sheet, "scale of weight")
    assert of_heads.get_extent()[2] < images(sheet, "L0 H0")[0].get_extent()[3]
    for bar in (of_score, of_weight):
        left, right, bottom, top = bar.get_extent()
        assert right - left > bottom - top
        assert bottom < first[3], "above"
    assert sheet.get_figheight() < 22


@pytest.mark.parametrize(("n_heads", "n_tokens", "columns"), [(3, 10, 2), (4, 10, 2), (8, 7, 3), (8, 4, 4)])
def test_small_heads_stand_side_by_side(n_heads, n_tokens, columns):
    attention = attend(RandomLayer(24, n_heads), [" ".join(f"word{i}" for i in range(n_tokens))])
    tiles = [tile.get_extent()[0] for tile in images(figure_of(attention, Style(width=3.3)), "L0 H")]
    assert len(set(tiles)) == columns


@pytest.mark.parametrize(("n_heads", "columns"), [(4, 2), (6, 3), (7, 4), (8, 4)])
def test_heads_without_all_labels_are_as_large_as_half_a_column_allows(n_heads, columns):
    sheet = figure_of(attend(RandomLayer(8 * n_heads, n_heads), [LONG]), Style(width=3.3))
    tiles = [tile.get_extent() for tile in images(sheet, "L0 H")]
    assert len({left for left, *_ in tiles}) == columns
    if n_heads % columns == 0:
        assert max(tile[2] for tile in tiles) - min(tile[3] for tile in tiles) < 4.2
    assert 1 < len({text for text in texts(sheet) if re.fullmatch(r"word\d+#\d+", text)}) < 100
    assert "some labels are left out" in " ".join(texts(sheet)[::-1])  # lines of the foot, the last first


def test_a_title_has_a_line_for_its_words_before_they_are_cut():
    attention = attend(RandomLayer(16, 2), [SEEN])
    title = "self-attention, random weights"
    assert f"{title}: {SEEN}" in texts(figure_of(attention, Style(width=10.0)))
    sheet = figure_of(attention, Style(width=3.3))
    first, second = (next(text for text in sheet.page.texts if text.get_text() == line) for line in (title, SEEN))
    assert first.get_fontsize() == second.get_fontsize() == BODY
    assert first.get_position()[1] < second.get_position()[1]


def test_titles_have_the_size_that_the_longest_has_room_for():
    words = [f"word{i}" for i in range(15)]
    titles = [Title("self-attention", (("", Tokens(tuple(words[:n]))),), "self") for n in range(2, 10)]
    longest = f"self-attention: {' '.join(words[:9])}"
    for room in (5.5, 6.0, 7.0, 9.0):
        size = title_size([(title, room) for title in titles], Fonts())
        assert size in (BODY, TITLE) or text_width(longest, size + 0.25, bold=True) > 0.97 * room
        sheet = Sheet(10, 1, 100, title_size=size)
        sheet.title(0.25, 0.5, titles[-1], room)
        assert texts(sheet) == [longest]


def test_titles_have_one_size_and_do_not_widen_the_picture():
    layer, words = RandomLayer(16, 1), "the cat sat on the mat"
    alone, both = (attend(layer, sentences) for sentences in ([words], [words, "a b"]))
    titled = {
        text.get_fontsize() for text in figure_of(both).page.texts if text.get_text().startswith("self-attention")
    }
    assert len(titled) == 1
    widths = [
        figure_of(replace(alone, maps=tuple(replace(m, sentence=sentence) for m in alone.maps))).width
        for sentence in (None, 10**20)
    ]
    assert len(set(widths)) == 1


@pytest.mark.parametrize("width", [None, 3.3])
@pytest.mark.parametrize("name", ["heads", "masking"])
def test_no_blank_band_is_above_the_foot(name, width):
    written = [
        (text.get_position()[1], text.get_text()) for text in figure_of(record(name), Style(width=width)).page.texts
    ]
    key = max(y for y, text in written if text == "key")
    assert 0.2 < min(y for y, _ in written if y > key) - key < 0.4


@pytest.mark.parametrize("name", ["explanation", "evaluation"])
def test_tables_are_whole(name):
    wide, narrow = (figure_of(record(name), Style(width=width)) for width in (10.0, 3.3))
    assert not narrow.notices
    headings = {
        "explanation": {"q·k", "weight", "strongest features", "‖a v‖"},
        "evaluation": {"weights of", "links that agree"},
    }
    assert headings[name] <= set(texts(narrow))
    assert len(narrow.page.patches) == len(wide.page.patches), "as many bars"


@pytest.mark.parametrize(
    ("name", "width", "titles"),
    [
        ("masking", 10.0, ["L0 H0: S = Q Kᵀ / √8", "S masked, hidden = −∞", "A = softmax(S masked)"] * 2),
        ("masking", 4.0, ["L0 H0: S", "S masked", "A"] * 2),
        ("embeddings", 6.5, ["E   (6, 64)", "PE   (6, 64)", "X   (6, 64)"]),
    ],
)
def test_titles_of_panels_are_all_whole_or_all_short_and_of_one_size(name, width, titles):
    sheet = figure_of(record(name), Style(width=width))
    found = [text for text in sheet.page.texts if text.get_text() in titles]
    assert [text.get_text() for text in found] == titles
    assert len({text.get_fontsize() for text in found}) == 1


def test_numbers_of_a_title_stand_beside_the_title_of_cells_without_room_for_them():
    inputs = RandomLayer(8, 4, device_name="cpu").projection_inputs(SEEN)
    c = compare_projections(inputs, include_self=False)
    there, back = (number_text(c.stages[2].scores[pair], ".1f") for pair in (c.pair, c.pair[::-1]))
    assert f"  {there}, {back}" in texts(figure_of(c, Style(width=3.3)))
    sheet = figure_of(c)
    assert {there, back} <= {one.number for one in sheet.page.collections if isinstance(one, Numbers)}
    assert f"  {there}, {back}" not in texts(sheet)


def test_the_heading_of_a_table_is_part_of_its_height():
    sheet = Sheet(4, 2, 100)
    part = measure_table(Table((Column("head"),), (("L0 H0",),), "no weight differs"), sheet.fonts).part()
    part.draw(sheet, 0.5, 0.5, 3.0)
    boxes = {text.get_text(): text.get_window_extent() for text in sheet.page.texts}
    heading, column = boxes["no weight differs"], boxes["head"]
    assert 200 - heading.y1 >= 50, "below the top of the table"
    assert column.y1 <= heading.y0
    assert 200 - boxes["L0 H0"].y0 <= 50 + 100 * part.height(3.0)
