"""Weights between spans on a sheet: what has room, and the colours and numbers of the picture that comes out."""

import io
import itertools
from functools import cache

import matplotlib
import numpy as np
import pytest
from drawn import images, inside, texts
from made import span_map
from matplotlib import image as mpl_image
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection

from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.colours import needs_dark_text
from mhaviz.views.figure.artists import Cells, Numbers
from mhaviz.views.figure.measuring import text_width
from mhaviz.views.figure.sheet import INK
from mhaviz.views.showing import figure_of, figures_of
from mhaviz.views.style import Style

APART = ("(rest)", "<s>")
NAMES = ("system", "document 1", "document 2", "question", "answer")


@cache
def attention(n_layers, n_heads, names=NAMES, query=None, seed=0):
    """Maps of random weights, some of them all on one span, in which spans do not see later ones."""
    random = np.random.default_rng(seed)
    n, maps = len(names), []
    for layer in range(n_layers):
        seen = np.pad(np.tri(n), [(0, 0), (0, len(APART))], constant_values=1)
        mass = random.gamma(0.4, size=(n_heads, n, n + len(APART))) * seen
        mass[::3, -1] = np.eye(n + len(APART))[0] + 1e-9 * seen[-1]
        mass /= mass.sum(axis=2, keepdims=True)
        chance = np.tri(n) / np.arange(1, n + 1)[:, None]
        maps.append(span_map(names, mass, chance, apart=APART, layer=layer))
    made = Attention(Source("made by a test"), tuple(maps))
    return made if query is None else made.of_query(query)


def cells(sheet):
    return [image for image in sheet.page.images if type(image) is Cells and "scale" not in image.get_label()]


def boxes(sheet):
    """Extents of texts with letters, and of numbers in cells, in pixels: (text, x0, y0, x1, y1)."""
    with matplotlib.rc_context({"text.hinting": "none"}):
        renderer = FigureCanvasAgg(sheet).get_renderer()
        found = [
            (t.get_text(), t.get_window_extent(renderer).extents) for t in sheet.page.texts if t.get_text().strip()
        ]
    inches = sheet.dpi / sheet.zoom
    for numbers in (one for one in sheet.page.collections if isinstance(one, Numbers)):
        width = text_width(numbers.number, numbers.font.get_size_in_points(), ("DejaVu Sans",)) * inches
        for x, y in sheet.page.transData.transform(numbers.places):
            found.append((numbers.number, np.array([x - width / 2, y - 2, x + width / 2, y + 2])))
    return found


def overlapping(found, aside=1.0):
    """Pairs of texts that lie on each other by more than ``aside`` pixels."""
    x0, y0, x1, y1 = np.array([box for _, box in found]).T
    across = np.minimum(x1[:, None], x1) - np.maximum(x0[:, None], x0)
    down = np.minimum(y1[:, None], y1) - np.maximum(y0[:, None], y0)
    pairs = np.argwhere(np.triu((across > aside) & (down > aside), 1))
    return [(found[i][0], found[j][0]) for i, j in pairs]


WIDEST = text_width("100", 6.5, ("DejaVu Sans",))
LOOKS = {"3.3": {"width": 3.3}, "5": {"width": 5}, "7": {"width": 7}, "slide": {"room": "slide"}}


@pytest.mark.parametrize(
    ("look", "n_layers", "n_heads"),
    [("3.3", 4, 64), ("3.3", 32, 12), ("5", 4, 12), ("5", 8, 32), ("7", 4, 64), ("7", 6, 12), ("slide", 4, 64),
     ("slide", 12, 12)],
)  # fmt: skip
def test_panels_of_heads_have_room(look, n_layers, n_heads):
    sheets = figures_of(attention(n_layers, n_heads, query="answer"), Style(dpi=100, **LOOKS[look]))
    n_cells, are_of_spans = n_layers * n_heads * 7, n_layers > 8
    drawn = sum(len(cells(sheet)) for sheet in sheets)
    assert drawn == (7 if are_of_spans else 2 * n_layers), "of each its spans, and what is apart; or of each span"
    for sheet in sheets:
        inside(sheet)
        assert not overlapping(boxes(sheet))
        panels = cells(sheet)
        if not panels:  # the table has a sheet of its own
            continue
        places = [image.get_extent() for image in panels]
        assert max(right for _, right, _, _ in places) <= sheet.width - 0.1
        assert max(bottom for *_, bottom, _ in places) < sheet.height
        assert not any(
            min(a[1], b[1]) - max(a[0], b[0]) > 1e-6 and min(a[2], b[2]) - max(a[3], b[3]) > 1e-6
            for a, b in itertools.combinations(places, 2)
        ), "no panel lies on another"
        drawn = sum(len(one.places) for one in sheet.page.collections if isinstance(one, Numbers))
        left, right, *_ = places[0]
        assert drawn in (0, sum(image.get_array().size for image in panels))
        assert bool(drawn) == ((right - left) / n_heads > WIDEST and n_cells <= 1500), "numbers, if they have room"


@pytest.mark.parametrize(("look", "n_spans"), [("3.3", 5), ("3.3", 30), ("7", 2), ("7", 30)])
def test_spans_by_spans_have_room(look, n_spans):
    names = tuple(f"a sentence with number {i}" for i in range(n_spans))
    sheet = figure_of(attention(2, 8, names), Style(dpi=100, **LOOKS[look]))
    panels = cells(sheet)
    assert max(image.get_extent()[1] for image in panels) <= sheet.width - 0.1
    inside(sheet)
    assert not overlapping(boxes(sheet))
    assert {f"a sentence with number {i}" for i in range(n_spans)} <= {*texts(sheet)} or look == "3.3"


def decode(sheet):
    stream = io.BytesIO()
    sheet.savefig(stream, format="png", dpi=sheet.dpi)
    stream.seek(0)
    return np.round(mpl_image.imread(stream, format="png")[..., :3] * 255).astype(int)


def in_colour(ratio):
    """The colour of a ratio on a scale from 1/8 to 8 of RdBu reversed, as matplotlib has it."""
    place = np.clip((np.log2(ratio) + 3) / 6, 0, 1)
    return np.array(matplotlib.colormaps["RdBu_r"](place)[:3]) * 255


def corners(image, rows, columns):
    """Places near the corners of cells, which are clear of numbers, in inches: (row, column, x, y)."""
    left, right, bottom, top = image.get_extent()
    for i, j in itertools.product(range(rows), range(columns)):
        yield i, j, left + (j + 0.2) * (right - left) / columns, top + (i + 0.2) * (bottom - top) / rows


def numbers_at(sheet):
    """The numbers in cells, with their ink, and the middle of each."""
    drawn = [one for one in sheet.page.collections if isinstance(one, Numbers)]
    found = [((one.number, one.colour), place) for one in drawn for place in one.places]
    return [number for number, _ in found], np.array([place for _, place in found])


@pytest.mark.parametrize("query", [None, "question"])
def test_each_cell_has_the_colour_of_its_ratio_and_the_number_of_its_weight(query):
    given = attention(1, 4, query=query)
    sheet = figure_of(given, Style(dpi=200))
    picture, (drawn, middles) = decode(sheet), numbers_at(sheet)
    n, seen = len(NAMES), 0
    for image in (one for one in sheet.page.images if isinstance(one, Cells)):
        rows, columns = image.get_array().shape[:2]
        is_apart = (rows if query else columns) == len(APART)
        left, right, bottom, top = image.get_extent()
        for i, j, x, y in corners(image, rows, columns):
            place = (j, 0, i + n * is_apart) if query else (int(image.get_label()[-1]), i, j + n * is_apart)
            share, chance = (float(numbers[place]) for numbers in (given[0].weights, given[0].chance))
            pixel = picture[int(y * sheet.dpi), int(x * sheet.dpi)]
            middle = left + (j + 0.5) * (right - left) / columns, top + (i + 0.5) * (bottom - top) / rows
            here = np.flatnonzero(np.abs(middles - middle).max(axis=1) < 0.01)
            if chance == 0:
                assert pixel.tolist() == [255, 255, 255], "unseen"
                assert not here.size
                continue
            seen += 1
            if not is_apart:
                assert np.abs(pixel - in_colour(share / chance)).max() <= 3, (image.get_label(), i, j)
            else:
                assert np.ptp(pixel) < 25, "grey"
            (number, ink) = drawn[here[0]]
            assert number == f"{100 * share:.0f}"
            assert (ink == INK) == bool(needs_dark_text(pixel.astype(np.uint8)))
    assert seen == len(drawn) == (4 * (4 + 2) if query else 4 * (15 + 5 * 2))


def test_what_is_apart_is_darker_for_more_weight():
    sheet = figure_of(attention(1, 12, query="answer"), Style(dpi=200))
    picture, m = decode(sheet), attention(1, 12, query="answer")[0]
    (apart,) = [one for one in images(sheet, "apart of layer 0") if one.get_array().shape[0] == len(APART)]
    light = {}
    for i, j, x, y in corners(apart, len(APART), 12):
        light[float(m.weights[j, 0, len(NAMES) + i])] = picture[int(y * sheet.dpi), int(x * sheet.dpi)].sum()
    ordered = [light[weight] for weight in sorted(light)]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] > ordered[-1]


def test_the_strongest_head_is_outlined_in_its_place():
    given = attention(3, 6, query="answer")
    sheet = figure_of(given, Style(dpi=100))
    frames = [one for one in sheet.page.collections if isinstance(one, LineCollection) and len(one.get_segments()) == 1]
    outlined = {tuple(np.round(one.get_segments()[0].mean(axis=0), 2)) for one in frames if one.get_linewidth()[0] > 1}
    ratios = np.stack([np.where(m.weights >= 0.05, m.weights / m.chance, 0)[:, 0, :4] for m in given])
    layer, head, span = np.unravel_index(np.nanargmax(ratios), ratios.shape)
    (panel,) = [one for one in images(sheet, f"layer {layer}") if one.get_array().shape[0] == len(NAMES)]
    left, right, bottom, top = panel.get_extent()
    middle = left + (head + 0.5) * (right - left) / 6, top + (span + 0.5) * (bottom - top) / len(NAMES)
    assert any(np.hypot(x - middle[0], y - middle[1]) < 0.06 for x, y in outlined), (middle, outlined)


def test_the_key_tells_that_numbers_are_beyond_it():
    written = texts(figure_of(attention(3, 6, query="answer"), Style(dpi=50)))
    assert {"≤ 1/8", "1", "numbers: % of the weight"} <= {*written}
    assert "1/8" not in written
