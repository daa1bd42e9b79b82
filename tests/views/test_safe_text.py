"""Texts of users and files: nothing that leaves for the terminal or for a figure can act, whatever a view forgets."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile import ACTING, HOSTILE, acts, without_isolates
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text as Artist
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from shown import heatmap_figure

from mhaviz.pages.labels import harmless
from mhaviz.results.result import Source
from mhaviz.views.figure.measuring import text_width
from mhaviz.views.figure.sheet import Sheet

ANY_TEXT = st.text(st.characters())  # lone surrogates too


class Forgetful:
    """A view that writes a text as it is, in all the ways that rich has."""

    def __init__(self, text):
        self.text = text

    def __rich_console__(self, console, options):
        yield Text(self.text)
        yield Segment(self.text)
        table = Table(title=Text(self.text))
        table.add_column(Text(self.text))
        table.add_row(Text(self.text))
        yield Padding(table, 1)


@given(ANY_TEXT)
def test_what_a_view_forgets_is_escaped_by_the_console(show, text):
    assert not acts(show(Forgetful(text)))


def test_colours_are_no_text(show):
    assert show(Text("a\x1b[1mb", "red"), colour="truecolor") == "\x1b[31ma\\x1b[1mb\x1b[0m\n"


@pytest.fixture(scope="module")
def sheet():
    return Sheet(2, 2, 50)


@given(ANY_TEXT)
def test_a_sheet_measures_and_writes_any_text(sheet, text):
    assert text_width(text, 8) >= 0
    assert not acts(without_isolates(sheet.write(1, 1, text).get_text()))


def test_a_title_over_axes_is_read_literally(sheet):
    axes = sheet.plot_axes(0, 0, 1, 1, f"$x^2${ACTING}")
    (title,) = (artist for artist in axes.findobj(Artist) if "x^2" in artist.get_text())
    assert not acts(title.get_text())
    assert not title.get_parse_math()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_hostile_source_in_every_format(random_attention, suffix):
    attention = replace(random_attention(queries=HOSTILE), source=Source(ACTING + "\udcff我", {}, "\udcff" + ACTING))
    content = io.BytesIO()
    sheet = heatmap_figure(attention)
    sheet.save(content, suffix)
    assert max(sheet.get_size_inches()) < 100
    if suffix == "svg":
        assert not acts(without_isolates(content.getvalue().decode()))
        assert b"<script" not in content.getvalue()


def test_there_is_one_way_out():
    """No view writes beside the places that make texts safe; ruff's T20 sees to ``print``."""
    package = Path(__file__).parents[2] / "mhaviz"
    found = {
        (path.name, way)
        for path in package.rglob("*.py")
        for way in re.findall(
            r"\b(?:Safe)?Console\(|\.text\(\s*x|\.(?:set_title|suptitle|annotate)\(", path.read_text()
        )
    }
    assert found == {
        ("safe_console.py", "SafeConsole("),
        ("console.py", "SafeConsole("),
        ("sheet.py", ".text(\n            x"),
        ("sheet.py", ".set_title("),
        ("axes.py", ".set_title("),  # which holds no text of a user's
    }


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_every_text_of_a_file_is_shown_safely(mhaviz, tmp_path, suffix):
    attention = {
        "mhaviz": ACTING,
        "source": {"footnote": ACTING, "remark": ACTING, ACTING: ACTING},
        "maps": [{"layer": 0, "kind": "self", "queries": [ACTING] * 2, "keys": [ACTING] * 2}],
    }
    path = tmp_path / f"\x1b[31m\udcff{suffix}"
    weights = np.full((1, 2, 2), 0.5, np.float32)
    if suffix == ".json":
        attention["maps"][0]["weights"] = weights.tolist()
        path.write_text(json.dumps(attention))
    else:
        from safetensors.numpy import save

        path.write_bytes(save({"layer.0.self": weights}, {"mhaviz": json.dumps(attention)}))
    pictures = [f"{tmp_path}/\x1b\udcff.png"]
    shown = mhaviz("show", str(path), *(f"-o{picture}" for picture in pictures))
    assert shown.status == 0
    assert acts(shown.out + shown.err) == []
    assert shown.out.count(harmless("\x1b[31mred")) >= 2  # footnote and remark
    assert all(Path(picture).stat().st_size for picture in pictures)
    both = mhaviz("diff", str(path), str(path), f"-o{pictures[0]}")
    assert (both.status, acts(both.out + both.err)) == (0, [])
    data = mhaviz("show", str(path), "--json")
    assert (data.status, acts(data.out)) == (0, [])
    assert json.loads(data.out)["source"] == attention["source"]
