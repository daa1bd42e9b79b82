"""Which fonts are chosen, and what is said where there is none."""

import numpy as np
import pytest
from made import made_map
from matplotlib.font_manager import FontEntry, findfont, fontManager
from shown import heatmap_figure

from mhaviz.records.attention import Attention
from mhaviz.records.axis import Axis
from mhaviz.records.source import Source
from mhaviz.views.figure import fonts as fonts_module
from mhaviz.views.figure.fonts import DEFAULT_FAMILY, Fonts
from mhaviz.views.figure.mosaic import Space, decide_mosaic
from mhaviz.views.figure.sheet import Sheet, fit_text

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
        for cached in (fonts_module._installed_fonts, fonts_module._has_bold):
            cached.cache_clear()

    yield install
    for cached in (fonts_module._installed_fonts, fonts_module._has_bold):
        cached.cache_clear()


def test_no_text_fits_in_no_room():
    assert fit_text("", -0.5, 7.0) == ""
    assert fit_text("ab", -0.5, 7.0) == "…"


def test_the_plainest_font_of_every_family(installed):
    installed(("Zen Hei", 500), ("Sans", 700), ("Sans", 400), ("Sans", 200), ("Thin", "light"))
    fonts = [font for font in fonts_module._installed_fonts() if font[0] != DEFAULT_FAMILY]
    assert fonts == [("Sans", "Sans-400"), ("Thin", "Thin-light"), ("Zen Hei", "Zen Hei-500")]


def test_a_title_is_bold_if_all_of_it_can_be(installed):
    installed(("Zen Hei", 500), ("Hei Bold", 400), ("Hei Bold", 700))
    for other, text, weight in (
        ("Zen Hei", "self-attention: 我", "normal"),
        ("Hei Bold", "self-attention: 我", "bold"),
        ("Zen Hei", "café: الانتباه", "bold"),
        ("Zen Hei", "head 0", "bold"),
    ):
        sheet = Sheet(4, 1, 72, Fonts((DEFAULT_FAMILY, other)))
        assert sheet.write(0, 0, text, bold=True).get_fontweight() == weight


def test_a_joined_emoji_is_its_parts_where_a_font_has_them():
    assert Fonts().shown(FAMILY) == "👨👩👧"
    assert Fonts(missing=frozenset("👩")).shown(FAMILY) == "👨\\u200d\\U0001f469\\u200d👧"
    assert Fonts().shown("a\u200db") == "a\\u200db", "joins nothing that is seen"


def layout_of(tokens):
    axis = Axis.of(tokens)
    return decide_mosaic(1, axis, axis, Space(Fonts(), 150))


def test_chinese_labels_are_rather_small_than_turned():
    layout = layout_of([3 * chr(ord("一") + i) for i in range(12)])
    assert not layout.turned
    assert 5 <= layout.label_size < 8
    assert layout_of(["我" * 20, *"abcdefghijk"]).turned
    assert layout_of(["wonderful", *"abcdefghijk"]).turned


def test_a_chinese_label_that_fits_stands_upright_among_turned_ones(monkeypatch):
    monkeypatch.setattr(fonts_module, "_installed_fonts", lambda: (("Any", DEFAULT),))
    monkeypatch.setattr(fonts_module, "_glyphs", lambda path, characters: set(characters))
    tokens = ("我", "internationalization", *"abcdefghij")
    m = made_map(tokens, tokens, np.full((1, 12, 12), 1 / 12, np.float32))
    rotations = {}
    for text in heatmap_figure(Attention(Source("s"), (m,))).page.texts:
        if text.get_text() in tokens:
            rotations.setdefault(text.get_text(), []).append(text.get_rotation())
    assert rotations.pop("我") == [0, 0]
    assert all(both == [0, 90] for both in rotations.values())
