"""Relevance over an image: its title, its picture by decoded pixels, its lines in the terminal, from given numbers."""

import io
import math

import numpy as np
import pytest
from drawn import images, inside, texts
from hostile import KINDS, acts
from PIL import Image

from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens, patch_names
from mhaviz.pages.blocks import Table
from mhaviz.pages.overlays import Overlays
from mhaviz.pages.registry import page_of
from mhaviz.pages.relevance import title_text
from mhaviz.results.image_relevance import ImageRelevance, relevance_over
from mhaviz.results.relevance import Explained, Together, WordRelevance
from mhaviz.results.result import Source
from mhaviz.views.lab import to_lab
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style
from mhaviz.views.terminal.safe_console import SafeConsole

PHOTO = np.full((60, 80, 3), (200, 100, 0), np.uint8)
SOURCE = Source("a model")


def of(relevance, falls, without=(), together=(0.0, "cat"), y=6.3, label="cat", chosen="cat", columns=4, **more):
    """Relevance of a class token, 1, and of patches in rows, of which the first by relevance were removed."""
    n = len(relevance)
    names, images = patch_names(n // columns, columns), (PatchGrid.run(n // columns, columns, 1),)
    tokens = Tokens(("cls_token", *names), (0,), images=images, ranges=tuple(((i, i + 1),) for i in range(n + 1)))
    numbers = np.array([1.0, *relevance])
    side = WordRelevance(tokens, numbers, np.arange(n + 1) == 0, np.full(n + 1, math.nan), ("",) * (n + 1))
    choices = [""] * (n + 1)
    for place, fall, choice in zip(side.ranked, falls, without or (chosen,) * len(falls), strict=False):
        side.falls[place], choices[place] = fall, choice
    side = WordRelevance(tokens, numbers, side.aside, side.falls, tuple(choices))
    return ImageRelevance(
        SOURCE,
        Explained("label", label),
        y,
        chosen,
        side,
        together=Together(5, *together),
        over=relevance_over(SOURCE, side, PHOTO),
        blank="processor",
        **more,
    )


PEAKED = (1, 1, 1, 1, 1, 1, 40, 8, 1, 1, 1, 1, 1, 1, 4, 2)


@pytest.mark.parametrize(
    ("falls", "without", "together", "title"),
    [
        (
            (5.1, 0, 0, 0, 0),
            ("dog", *("cat",) * 4),
            (5, "dog"),
            "patch 1,2 decides: without it the logit of cat falls from 6.30 to 1.20",
        ),
        (
            (0.1, 0.2, 0, 0, 0),
            (),
            (5.1, "dog"),
            "no single patch of the 5 most relevant decides, but they do together: without them the logit of cat falls "
            "from 6.30 to 1.20",
        ),
        (
            (0.1, 0.2, 0, 0, 0),
            (),
            (0.3, "cat"),
            "no single patch of the 5 most relevant decides, nor do they together: without them the logit of cat falls "
            "from 6.30 to 6.00",
        ),
        (
            (0.001, 0, 0, 0, 0),
            (),
            (0.002, "cat"),
            "no single patch of the 5 most relevant decides, nor do they together: without them the logit of cat "
            "stays 6.30",
        ),
        (
            (0.1, 0.2, 0, 0, 0),
            (),
            (2.3, "cat"),
            "no single patch of the 5 most relevant decides; they count together: without them the logit of cat falls "
            "from 6.30 to 4.00",
        ),
        (
            (2.3, 0.2, 0, 0, 0),
            (),
            (2.3, "cat"),
            "patch 1,2 counts most of the 5 most relevant: without it the logit of cat falls from 6.30 to 4.00",
        ),
        (
            (0.1, 2.3, 0, 0, 0),
            (),
            (2.3, "cat"),
            "removal contradicts the estimate: patch 1,2 has the most relevance, but without patch 1,3 the logit of "
            "cat falls from 6.30 to 4.00, and without patch 1,2 to 6.20",
        ),
        (
            (-1, -1, -1, -1, -1),
            (),
            (-1, "cat"),
            "removal contradicts the estimate: without patch 1,2 the logit of cat rises from 6.30 to 7.30, and no "
            "removal lowers it much",
        ),
        (
            (5, 5.1, 0, 0, 0),
            ("dog", "dog", *("cat",) * 3),
            (6, "dog"),
            "patch 1,3 and patch 1,2 decide: without either one of them the logit of cat falls from 6.30 to between "
            "1.20 and 1.30",
        ),
    ],
)
def test_the_title_says_what_both_say(falls, without, together, title):
    assert title_text(of(PEAKED, falls, without, together)) == title


def middles(image, sheet, rows, columns):
    """Colour in the middle of each patch in the decoded PNG, (rows, columns, 3)."""
    stream = io.BytesIO()
    sheet.save(stream, "png")
    pixels = np.asarray(Image.open(io.BytesIO(stream.getvalue())).convert("RGB"))
    left, right, bottom, top = (inches * sheet.dpi for inches in image.get_extent())
    ys = np.round(top + (np.arange(rows) + 0.5) * (bottom - top) / rows).astype(int)
    xs = np.round(left + (np.arange(columns) + 0.5) * (right - left) / columns).astype(int)
    return pixels[ys][:, xs]


def test_colours_are_in_the_order_of_relevance():
    relevance = np.random.default_rng(0).permutation(np.geomspace(0.5, 30, 16))
    sheet = figure_of(of(relevance, (1, 1, 1, 1, 1)))
    (cells,) = images(sheet, "relevance")
    seen = to_lab(middles(cells, sheet, 4, 4).reshape(16, 3))[:, 0]
    is_above = relevance > relevance.mean()  # darker above the mean as below it
    for side, sign in ((is_above, -1), (~is_above, 1)):
        order = np.argsort(relevance[side])
        assert (np.diff(sign * seen[side][order]) > -0.6).all()
    assert seen[relevance.argmax()] == seen[is_above].min()


def test_the_photo_is_lit_where_half_of_the_relevance_is():
    sheet = figure_of(of(PEAKED, (5, 0, 0, 0, 0)))
    (photo,) = images(sheet, "photo of relevance")
    lit = (middles(photo, sheet, 4, 4) == PHOTO[0, 0]).all(axis=-1)
    assert lit.tolist() == [[False] * 4, [False, False, True, False], [False] * 4, [False] * 4]


def test_the_patch_with_the_largest_fall_has_a_frame_unless_it_is_small():
    for falls, query in (((0.1, 0, 3.0, 0, 0), (3, 2)), ((0.1, 0, 0.2, 0, 0), None), ((-1,) * 5, None)):
        page = page_of(of(PEAKED, falls))
        (block,) = (block for block in page.blocks if isinstance(block, Overlays))
        assert block.heads[0].pictures[0].query == query
        assert ("cyan: the largest fall" in block.marks) == (query is not None)


def test_the_class_token_sets_no_scale_and_is_listed():
    found = of(PEAKED, (5, 0, 0, 0, 0))
    assert found.over.maps[0].times_uniform(0)[0][1, 2] == pytest.approx(40 / np.mean(PEAKED))
    assert "not in the scale: the class token 1% of all relevance" in texts(figure_of(found))


def test_the_table_lists_what_was_removed():
    page = page_of(of(PEAKED, (5, 0, 0, 0, 0), ("dog", *("cat",) * 4), (4.2, "bird")))
    (table,) = (block for block in page.blocks if isinstance(block, Table))
    assert [column.heading for column in table.columns] == ["patch", "relevance", "", "y falls by", "it then predicts"]
    rows = list(table.texts())
    assert [row[0] for row in rows] == [
        *("1,2", "1,3", "3,2", "3,3", "0,0"),
        "first 5 together",
    ]
    assert [row[-1] for row in rows] == ["dog", *["cat"] * 4, "bird"]
    assert rows[-1][1] == "83%"  # 55 of 66


def test_the_small_print_says_what_removal_is():
    for blank, what in (("processor", "the mean colour of the image processor"), ("image", "the mean colour of what")):
        found = of(PEAKED, (5, 0, 0, 0, 0))
        page = page_of(ImageRelevance(**{**vars(found), "blank": blank}))
        assert f"the pixels of the patch are set to {what}" in page.remark
        assert "it proves no cause" in page.remark


def test_the_terminal_answers_in_its_first_lines():
    lines = shown(of(PEAKED, (5.1, 0, 0, 0, 0), ("dog", *("cat",) * 4)))
    assert lines[0] == "patch 1,2 decides: without it the logit of cat falls from 6.30 to 1.20"
    assert lines[1] == "y is the logit of cat, 6.30, its top prediction"
    assert "relevance: most: 1,2; at most 9.7 × the mean" in lines


def shown(found):
    stream = io.StringIO()
    SafeConsole(file=stream, width=100, color_system=None).print(view_of(found, Style()))
    return [line.rstrip() for line in stream.getvalue().split("\n")]


@pytest.mark.parametrize("label", KINDS)
def test_hostile_labels_are_escaped(label):
    found = of(PEAKED, (5.1, 0, 0, 0, 0), ("dog", *(label,) * 4), (0.1, label), label=label, chosen=label)
    assert not acts("\n".join(shown(found)))
    assert not acts("\n".join(texts(figure_of(found))))


def test_no_relevance_at_all_is_drawn():
    found = of((0,) * 16, (0,) * 5)
    assert title_text(found).endswith("nor do they together: without them the logit of cat stays 6.30")
    inside(figure_of(found))
