"""Pages of very many heads: how many pixels and how much memory they take, whatever their files are."""

import base64
import io
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from made import Edges, made_map
from matplotlib import image as mpl_image
from PIL import Image
from shown import heatmap_figure

from mhaviz.limits import MOST_CELLS
from mhaviz.results.attention import Attention
from mhaviz.results.axis import cell_edges, even_cells
from mhaviz.results.result import Source
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.sheet import MOST_AREA, MOST_PIXELS
from mhaviz.views.scales import weight_scale
from mhaviz.views.style import Style
from mhaviz.views.tiles.fit import MOST_WIDTH, Space, lay_out


def layers_of(layers, heads, tokens, size=None, kind="self"):
    """Maps whose heads all are one head in memory, pooled as they are by default or to so many cells."""
    names = tuple(f"w{i % 7}" for i in range(tokens))
    cells = None
    if size is not None or tokens > MOST_CELLS:
        edges = cell_edges(tokens, even_cells(tokens, size or MOST_CELLS))
        cells = Edges(edges, edges)
    side = tokens if cells is None else len(edges) - 1
    head = np.random.default_rng(0).random((side, side), np.float32) / side
    if kind == "masked":
        head = np.tril(head)
    weights = np.broadcast_to(head, (heads, side, side))
    maps = tuple(made_map(names, names, weights, kind, layer, cells=cells) for layer in range(layers))
    return Attention(Source("test"), maps)


def laid_out(attention, columns=None, dpi=150):
    """As ``heatmap_figure`` lays out the tiles of all layers."""
    m, n_tiles = attention.maps[0], sum(len(m.heads) for m in attention.maps)
    return lay_out(n_tiles, m.rows, m.columns, Space(Fonts(), dpi, columns))


def test_a_page_of_a_thousand_heads_in_few_cells_is_as_wide_as_paper():
    layout = laid_out(layers_of(1, 1024, 512, 64), 32)
    assert layout.width <= MOST_WIDTH
    assert layout.cells == (64, 64)


@pytest.mark.parametrize(
    ("heads", "tokens", "size", "columns"), [(512, 2000, None, 64), (900, 2000, 500, None), (1024, 3077, None, 32)]
)
def test_pages_have_a_largest_number_of_pixels(heads, tokens, size, columns):
    """Cells share pixels before a page is made coarser."""
    layout = laid_out(layers_of(1, heads, tokens, size), columns)
    assert layout.width * layout.height * 150**2 <= MOST_AREA
    assert max(layout.width, layout.height) * 150 <= MOST_PIXELS
    assert layout.queries.cells >= 32


def test_what_is_asked_for_beyond_it_is_drawn_more_coarsely_and_said():
    drawn = heatmap_figure(layers_of(2, 12, 200), Style(dpi=2000, columns=12))
    assert drawn.width * drawn.height * drawn.dpi**2 <= MOST_AREA
    assert drawn.dpi * max(drawn.width, drawn.height) <= MOST_PIXELS
    assert re.fullmatch(
        r"drawn at \d+ dpi instead of 2000: a picture has at most 16,384 pixels a side and 50 million in all",
        drawn.notices[-1],
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tokens", "size"), [("masked", 512, None), ("self", 2000, 512)])
def test_the_memory_of_a_page_is_that_of_its_pixels_not_of_the_weights(kind, tokens, size):
    attention = layers_of(4, 16, tokens, size, kind)
    heatmap_figure(layers_of(1, 2, 12))  # what is loaded and remembered once
    tracemalloc.start()
    sheet = heatmap_figure(attention)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pixels = sum(image.get_array().size for image in sheet.page.images)
    assert peak < 10 * pixels + 2**24
    assert peak < 0.7 * sum(4 * m.weights.size for m in attention.maps)


@pytest.mark.parametrize("kind", ["self", "masked"])
def test_the_palest_weight_of_a_logarithmic_scale_is_that_of_a_sorted_copy(kind):
    attention = layers_of(2, 3, 200, kind=kind)
    spread = np.random.default_rng(1).lognormal(-6, 1, (3, 200, 200)).astype(np.float32)
    maps = [replace(m, weights=np.minimum(spread, 1) * (m.weights > 0)) for m in attention.maps]
    seen = np.sort(np.concatenate([m.weights[m.weights > 0] for m in maps]))
    largest, palest = float(seen[-1]), float(np.quantile(seen, 0.01))
    scale = weight_scale(Style(log=True, vmax=largest), maps)
    assert scale.value(1 / 6) == pytest.approx(palest, rel=0.01), "the palest hundredth has the palest sixth"
    nothing = [replace(m, weights=np.zeros_like(m.weights)) for m in maps]
    assert weight_scale(Style(log=True), nothing).high == 1


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_vector_files_take_a_tile_at_a_time(monkeypatch, suffix):
    """matplotlib would make a page of pixels for every tile, and lay them one on the other."""
    sheet = heatmap_figure(layers_of(3, 4, 100))
    composed = []
    monkeypatch.setattr(mpl_image, "composite_images", lambda *of, **how: composed.append(how))
    stream = io.BytesIO()
    sheet.save(stream, suffix)
    assert not composed
    assert stream.getvalue().count(b"<image" if suffix == "svg" else b"/Subtype /Image") >= 13


def test_tiles_in_an_svg_have_the_pixels_of_the_png():
    sheet = heatmap_figure(layers_of(2, 2, 72, kind="masked"))  # so many cells that they are no shapes
    png, svg = io.BytesIO(), io.BytesIO()
    sheet.save(png, "png")
    sheet.save(svg, "svg")
    page = np.asarray(Image.open(png).convert("RGB"), int)
    found = re.findall(r'<image xlink:href="data:image/png;base64,([^"]*)"', svg.getvalue().decode())
    images = [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB"), int) for one in found]
    assert len(images) == len(sheet.page.images) == 5
    inner = slice(2, -2)  # the outline covers the edge
    for image, drawn in zip(images[:4], sheet.page.images, strict=False):
        left, right, bottom, top = (round(side * sheet.dpi) for side in drawn.get_extent())
        assert image.shape[:2] == (bottom - top, right - left)
        pixels = np.arange(bottom - top) * 72 // (bottom - top)
        visible = (pixels <= pixels[:, None])[inner, inner]
        clear = (pixels[3:-1] <= pixels[1:-3, None]) & visible  # of the outline, which is a little wider than a pixel
        ours, theirs = page[top:bottom, left:right][inner, inner], image[::-1][inner, inner]
        assert (ours[clear] == theirs[clear]).all(), "its first row is last"
        assert np.abs(ours[visible] - theirs[visible]).max() <= 5, "the outline lies outside"
        assert (theirs[~visible] == 255).all()
        outlined = (ours[~visible] != 255).any(axis=-1)
        assert 0 < outlined.mean() < 0.05
