"""What is drawn in fewer steps looks as matplotlib itself would have drawn it."""

import io

import numpy as np
import pytest
from made import made_map
from matplotlib.image import AxesImage
from PIL import Image
from shown import heatmap_figure

from mhaviz.records.attention import Attention
from mhaviz.records.source import Source
from mhaviz.views.figure import sheet as module
from mhaviz.views.style import Style

WORDS = ["the", "quick", "antidisestablishmentarianism", "i", "WWWW", "ljq", "é", "漢字", "مرحبا", "$x$", "ab", "Ag"]


def attention(length, n_heads, layers, kind="self"):
    draw = np.random.default_rng(0)
    names = tuple(WORDS[i % len(WORDS)] for i in range(length))
    weights = draw.dirichlet(np.full(length, 0.3), size=(layers, n_heads, length)).astype(np.float32)
    if kind == "masked":
        weights = np.tril(weights)
    maps = tuple(made_map(names, names, w, kind, layer) for layer, w in enumerate(weights))
    return Attention(Source("made by a test"), maps)


def saved(sheet):
    stream = io.BytesIO()
    sheet.save(stream, "png")
    return Image.open(stream)


def as_matplotlib_does(drawn, style):
    """The same figure, every pixel of a cell drawn by matplotlib."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CellImage", AxesImage)
        return np.asarray(saved(heatmap_figure(drawn, style)), int)


SIZES = [(1, 1, 1, "self"), (3, 3, 2, "self"), (8, 5, 1, "masked"), (20, 2, 2, "self"), (60, 2, 1, "masked")]


# Large pages are slow at many dots: these have the coarsest, and those that pictures have where none are asked for.
@pytest.mark.parametrize(("length", "n_heads", "layers", "kind", "dpi"), [
    *((*size, dpi) for size in SIZES[:3] for dpi in (40, 233)), *((*size, 150) for size in SIZES[3:]),
])  # fmt: skip
def test_the_same_to_the_eye(length, n_heads, layers, kind, dpi):
    drawn, style = attention(length, n_heads, layers, kind), Style(dpi=dpi)
    ours = np.asarray(saved(heatmap_figure(drawn, style)), int)
    assert np.abs(ours - as_matplotlib_does(drawn, style)).max() <= 8  # of 255


def test_pngs_have_no_alpha_and_know_their_size():
    picture = saved(heatmap_figure(attention(3, 2, 1), Style(dpi=100)))
    assert picture.mode == "RGB"
    assert picture.info["dpi"] == pytest.approx((100, 100), abs=0.1)
