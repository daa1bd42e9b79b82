"""Every scale rises or falls evenly where it is shown: as littleCMS measures colours, and letters by their ink."""

import colorsys
import io
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.axis import Axis
from mhaviz.views.terminal.cells import ramp_characters, terminal_colours, xterm_numbers
from mhaviz.views.terminal.grid import Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar
from mhaviz.views.text import PLAIN

SEQUENTIAL = {"ink": -1, "bone": 1, "viridis": 1, "Blues": -1, "Greys": -1, "magma": 1}  # lighter or darker
DIVERGING = ["RdBu_r", "PuOr", "bwr"]
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
TWO_SIGNS = Scale("RdBu_r", -2.0, 2.0)


def shown(colormap, colours):
    """The colours, (256, 3), as the terminal's own table has them."""
    return np.array([colour.get_truecolor() for colour in terminal_colours(colormap, colours)], np.uint8)


def lightness(colours):
    to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    lab = ImageCms.applyTransform(Image.fromarray(colours[None]), to_lab)
    return np.asarray(lab)[0, :, 0].astype(float) * 100 / 255


FEW_COLOURS = 3.0  # of lightness, where xterm has no colours between
ROUNDING = 0.5  # of lightness, which littleCMS gives in 256 steps


@pytest.mark.parametrize("colours", ["256", "truecolor"])
@pytest.mark.parametrize("colormap", SEQUENTIAL)
def test_lightness_goes_one_way(colormap, colours):
    steps = np.diff(lightness(shown(colormap, colours))) * SEQUENTIAL[colormap]
    assert steps.min() >= -(ROUNDING if colours == "truecolor" or colormap in ("ink", "bone") else FEW_COLOURS)


@pytest.mark.parametrize("colours", ["256", "truecolor"])
@pytest.mark.parametrize("colormap", DIVERGING)
def test_lightness_falls_from_the_middle_outwards(colormap, colours):
    L = lightness(shown(colormap, colours))
    top = int(L.argmax())
    assert 120 <= top <= 135
    most = ROUNDING if colours == "truecolor" or colormap == "RdBu_r" else FEW_COLOURS
    assert np.diff(L[: top + 1]).min() >= -most
    assert np.diff(L[top:]).max() <= most
    assert L[top] > 95


@pytest.mark.parametrize("colormap", [*SEQUENTIAL, *DIVERGING])
def test_256_colours_are_near_those_that_are_meant(colormap):
    there = shown(colormap, "256")
    assert np.abs(lightness(there) - lightness(shown(colormap, "truecolor"))).max() < 25
    assert len(np.unique(there, axis=0)) >= 9
    assert (xterm_numbers(colormap) >= 16).all(), "the first sixteen are whatever the user has made them"


def hues(colours):
    """In degrees, of those that are no greys: red 0, yellow 60, blue 240."""
    several = [colorsys.rgb_to_hsv(*(colour / 255)) for colour in colours]
    return np.array([360 * hue for hue, strength, _ in several if strength > 0.1])


def test_differences_are_blue_and_red_and_never_yellow():
    there = shown("RdBu_r", "256")
    below, above = hues(there[:128]), hues(there[128:])
    assert ((below > 175) & (below < 260)).all()
    assert ((above < 40) | (above > 330)).all()
    assert len(below) > 60
    assert len(above) > 60


def test_ink_is_of_one_hue():
    there = hues(shown("ink", "256"))
    assert ((there > 170) & (there < 260)).all()


@pytest.mark.parametrize("colormap", ["ink", "RdBu_r"])
def test_a_hue_does_not_come_and_go(colormap):
    """Greys, blues and dark greys; or blues, greys and reds."""
    are_greys = np.ptp(shown(colormap, "256").astype(int), axis=1) == 0
    assert np.diff(are_greys.astype(int)).astype(bool).sum() == 2


def ink_of(character):
    """How much of its place a character fills."""
    image = Image.new("L", (120, 240))
    ImageDraw.Draw(image).text((0, 0), character, fill=255, font=ImageFont.truetype(FONT, 200))
    return np.asarray(image).mean()


def printed(values, scale, encoding):
    return list("".join(ramp_characters(values, scale)).encode(encoding, PLAIN).decode(encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_characters_get_fuller(encoding):
    values = np.linspace(0, 1, 201, dtype=np.float32)
    *ramp, huge, hidden = printed(np.array([*values, 1e30, np.nan]), Scale(), encoding)
    assert (ramp[0], huge) == (" ", ramp[-1])
    assert hidden not in ramp, "what is hidden is not the lowest value"
    inks = [ink_of(character) for character in dict.fromkeys(ramp)]
    assert len(inks) >= 8
    assert (np.diff(inks) > 0).all()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_characters_below_and_above_0_are_others(encoding):
    values = np.linspace(-2, 2, 401, dtype=np.float32)
    characters = printed(values, TWO_SIGNS, encoding)
    below, above = list(dict.fromkeys(characters[:200][::-1])), list(dict.fromkeys(characters[201:]))
    assert characters[200] == below[0] == above[0] == " ", "0, and what is nearly 0"
    assert not set(below[1:]) & set(above[1:])
    for side in (below, above):
        assert len(side) == 4
        assert (np.diff([ink_of(character) for character in side]) > 0).all()
    # A number and its negative are equally strong, also beyond the scale.
    numbers = np.array([0.1, 0.5, 1.1, 1.9, 1e9], np.float32)
    strong = [[side.index(c) for c in printed(sign * numbers, TWO_SIGNS, encoding)]
              for sign, side in ((-1, below), (1, above))]  # fmt: skip
    assert strong[0] == strong[1] == [0, 1, 2, 3, 3]


def test_the_bar_says_what_is_below_and_above_0(show):
    assert show(ScaleBar(TWO_SIGNS), 80) == "−2 ▓▓▒▒░░░  ▂▂▂▅▅██ 2\n"
    assert show(ScaleBar(TWO_SIGNS), 80, encoding="ascii") == "-2 &&;;,,,  ___==@@ 2\n"


def test_windows_of_old_have_sixteen_colours():
    """They are no scale."""
    for system, colours in (("windows", None), ("standard", None), ("256", "256"), ("truecolor", "truecolor")):
        console = Console(file=io.StringIO(), force_terminal=True, color_system=system, _environ={})
        assert Abilities.of(console, console.options).colours == colours


def luminance(rgb):
    linear = np.where(rgb / 255 <= 0.04045, rgb / 255 / 12.92, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("colours", ["256", "truecolor"])
def test_numbers_are_read_on_every_colour(show, colours):
    """By the contrast of WCAG 2: 4.5 is what it asks for."""
    values = np.linspace(0.01, 1, 16, dtype=np.float32)[None]
    heat = HeatGrid([Panel("", values, Scale())], Axis.of("q"), Axis.of("abcdefghijklmnop"))
    line = Text.from_ansi(show(heat, 120, colours).splitlines()[2])
    pairs = [(span.style.color.get_truecolor(), span.style.bgcolor.get_truecolor()) for span in line.spans]
    assert len(pairs) == 16
    low, high = np.sort(luminance(np.array(pairs, float)), axis=1).T
    assert ((high + 0.05) / (low + 0.05)).min() > 4.5
