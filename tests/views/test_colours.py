import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from mhaviz.errors import ArgumentError
from mhaviz.pages.panels import Scale
from mhaviz.views.colours import check_colormap, colours, needs_dark_text, palette


@pytest.mark.parametrize("name", ["bone", "viridis", "RdBu_r"])
def test_colours_are_matplotlibs(name):
    values = np.linspace(-3, 3, 1001, dtype=np.float32)
    expected = ScalarMappable(Normalize(-2, 2), matplotlib.colormaps[name]).to_rgba(values, bytes=True)[:, :3]
    assert np.abs(colours(values, Scale(name, -2, 2)).astype(int) - expected).max() <= 1


def test_ratios_have_the_colours_of_their_logarithms():
    """1 is in the middle, equal factors are equally far from it, and 0 has the first colour."""
    numbers = np.array([1, 2, 0.5, 8, 1 / 8, 0, 100], np.float32)
    places = [0.5, 2 / 3, 1 / 3, 1, 0, 0, 1]
    expected = np.round(matplotlib.colormaps["RdBu_r"](places)[:, :3] * 255)
    assert np.abs(colours(numbers, Scale.around_one("RdBu_r", 8)).astype(int) - expected).max() <= 3
    assert colours(numbers, Scale.around_one("RdBu_r", 8))[0].min() > 240


def test_ink_is_paper_at_zero_and_dark_at_one():
    assert colours(np.array([0, 1], np.float32), Scale()).tolist() == [[255, 255, 255], [18, 29, 65]]


def test_ink_gets_ever_darker():
    assert (np.diff(palette("ink").astype(int).sum(axis=1)) < 0).all()


def test_bone_is_white_at_one_and_black_at_zero():
    assert colours(np.array([0, 1], np.float32), Scale("bone")).tolist() == [[0, 0, 0], [255, 255, 255]]


@pytest.mark.parametrize("name", ["ink", "bone", "RdBu_r"])
def test_what_is_hidden_is_paper(name):
    assert colours(np.array([np.nan], np.float32), Scale(name)).tolist() == [[255, 255, 255]]


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_text_has_the_better_contrast(background):
    def luminance(colour):
        linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    with_black = (luminance(background) + 0.05) / 0.05
    with_white = 1.05 / (luminance(background) + 0.05)
    if abs(with_black - with_white) > 0.05:
        assert needs_dark_text(np.array(background, np.uint8)) == (with_black > with_white)


def test_an_unknown_colormap_names_near_ones():
    with pytest.raises(ArgumentError, match=r"got 'virdis'; try viridis"):
        check_colormap("virdis")
