"""Which fonts are chosen, and what is said where there is none."""

import pytest
from matplotlib.font_manager import FontEntry, findfont, fontManager

from mhaviz.results.axis import Axis
from mhaviz.views.figure import fonts as fonts_module
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import DEFAULT_FAMILY, fit_text
from mhaviz.views.tiles.fit import Space, lay_out

DEFAULT = findfont(DEFAULT_FAMILY)
FAMILY = "👨\u200d👩\u200d👧"


@pytest.fixture
def installed(monkeypatch):
    """Say which fonts there are beside the default one: pairs of a family and a weight."""

    def install(*entries):
        known = [FontEntry(f"{name}-{weight}", 0, name, weight=weight) for name, weight in entries]
        known += [entry for entry in fontManager.ttflist if entry.name == DEFAULT_FAMILY]
        monkeypatch.setattr(fontManager, "ttflist", known)
        monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
        fonts_module._installed_fonts.cache_clear()

    yield install
    fonts_module._installed_fonts.cache_clear()


def test_no_text_fits_in_no_room():
    assert fit_text("", -0.5, 7.0) == ""
    assert fit_text("ab", -0.5, 7.0) == "…"


def test_the_plainest_font_of_every_family(installed):
    installed(("Zen Hei", 500), ("Sans", 700), ("Sans", 400), ("Sans", 200), ("Thin", "light"))
    fonts = [font for font in fonts_module._installed_fonts() if font[0] != DEFAULT_FAMILY]
    assert fonts == [("Sans", "Sans-400"), ("Thin", "Thin-light"), ("Zen Hei", "Zen Hei-500")]


def test_a_joined_emoji_is_its_parts_where_a_font_has_them():
    assert Fonts().shown(FAMILY) == "👨👩👧"
    assert Fonts(missing=frozenset("👩")).shown(FAMILY) == "👨\\u200d\\U0001f469\\u200d👧"
    assert Fonts().shown("a\u200db") == "a\\u200db", "joins nothing that is seen"


@pytest.mark.parametrize(
    ("text", "packages"),
    [("小猫", "fonts-noto-cjk"), ("ꯀ", "fonts-noto-core"), ("가ꯀ", "fonts-noto-cjk and fonts-noto-core")],
)
def test_escapes_in_a_picture_are_said_even_quietly(mhaviz, installed, tmp_path, text, packages):
    installed()
    sizes = ("--d-model", "4", "--n-heads", "1")
    ran = mhaviz("heatmap", text, *sizes, "-q", "-o", str(tmp_path / "x.svg"))
    assert ran.err.endswith(f"install a font that has, such as the package {packages}\n")
    assert ran.err.startswith("mhaviz: no installed font has ")
    assert not ran.out


def layout_of(tokens):
    axis = Axis.of(tokens)
    return lay_out(1, axis, axis, Space(Fonts(), 150))


def test_labels_are_rather_small_than_turned():
    layout = layout_of([3 * chr(ord("一") + i) for i in range(6)])
    assert not layout.is_turned
    assert 6 <= layout.label_size < 8
    assert layout_of(["我" * 20, *"abcdefghijk"]).is_turned
    assert layout_of(["wonderful", *"abcdefghijk"]).is_turned
