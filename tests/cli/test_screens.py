"""What the terminal shows is no longer than a few screens, and what is left out is counted."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from mhaviz.cli.shared.console import SCREENS, SCREENS_BESIDE_FILES, print_view
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.files.maps import read_maps
from mhaviz.pages.head_numbers import Order
from mhaviz.pages.panels import Panel
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

SCREEN = 40  # lines, of a pipe
PICTURES, BESIDE_FILES = SCREENS * SCREEN, SCREENS_BESIDE_FILES * SCREEN
MORE = re.compile(r"^and .* more: .*$", re.MULTILINE)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """Write so many layers, heads and tokens as an array; return the file's name."""
    monkeypatch.chdir(tmp_path)

    def write(n_layers, n_heads, length, name="w.npy", seed=0):
        draw = np.random.default_rng(seed).dirichlet(np.ones(length), size=(n_layers, n_heads, length))
        np.save(name, draw.astype(np.float32))
        return name

    return write


def lines(result):
    assert result.status == 0, result.err
    return len(result.out.splitlines())


@pytest.mark.parametrize(("shape", "more"), [
    ((2, 4, 5), None),
    ((1, 400, 3), "and 360 heads more: -o page.png has all"),
    ((30, 4, 6), "and 24 maps more: -o page.png has all"),
    ((3, 70, 60), "and 67 heads and 2 maps more: -o page.png has all"),
    ((2, 9, 300), "and 8 heads and 1 map more: -o page.png has all"),
])  # fmt: skip
def test_the_rest_is_counted(mhaviz, weights, shape, more):
    """The oracle is what is there: heads and layers by their titles, and those that are said to be left out."""
    result = mhaviz("show", weights(*shape))
    assert lines(result) <= PICTURES + 10
    said = MORE.findall(result.out)
    assert bool(said) == bool(more)
    heads, layers = len(re.findall(r"\bL\d+ H\d", result.out)), result.out.count("self-attention")
    left = [int(number) for number in re.findall(r"(\d+) (?:heads?|maps?)\b", said[0])] if said else [0]
    if more and "heads" in more:
        assert heads == shape[1] - left[0]
        assert layers == 1
        assert left[1:] == [shape[0] - 1] * (shape[0] > 1)
    else:
        assert heads == shape[1] * layers
        assert layers == shape[0] - left[0]
    assert re.sub(r"\d+", "N", said[0] if said else "") == re.sub(r"\d+", "N", more or "")


def test_maps_of_sentences_are_counted(mhaviz, tmp_path):
    (tmp_path / "s.txt").write_text("one two three\n" * 90)
    result = mhaviz("heatmap", "--file", str(tmp_path / "s.txt"), "--n-heads", "2")
    shown = result.out.count("self-attention")
    assert lines(result) <= PICTURES + 10
    assert MORE.findall(result.out) == [f"and {90 - shown} maps more: -o page.png has all"]


def test_a_map_that_fits_is_shown_beside_the_file(mhaviz, weights):
    name = weights(1, 4, 5)
    alone, saved = mhaviz("show", name), mhaviz("show", name, "-o", "a.png")
    assert lines(alone) <= BESIDE_FILES
    assert (saved.out, saved.err) == (alone.out, "mhaviz: saved a.png\n")


@pytest.mark.parametrize("file", ["a.png", "a.json"])
def test_a_long_one_is_not(mhaviz, weights, file):
    saved = mhaviz("show", weights(9, 9, 5), "-o", file)
    assert lines(saved) == 0
    assert saved.err == (
        f"mhaviz: saved {file}\n"
        "mhaviz: pictures of more than 2 screens are not shown in the terminal; without -o they are\n"
    )
    assert mhaviz("show", "w.npy", "-qo", file).err == ""


def test_of_a_long_difference_the_table_stays(mhaviz, weights):
    one, other = weights(4, 9, 5, "a.npy"), weights(4, 9, 5, "b.npy", seed=1)
    saved = mhaviz("diff", one, other, "-o", "a.png")
    assert "divergence" in saved.out
    assert "self-attention" not in saved.out
    assert lines(saved) <= SCREEN
    assert "without -o they are" in saved.err
    alone = mhaviz("diff", one, other)
    assert alone.out.startswith(saved.out.rpartition("A: ")[0])
    assert "B − A" not in saved.out
    assert "self-attention" in alone.out


@pytest.mark.parametrize("most", [16, None])
def test_a_table_that_is_asked_for_is_shown(random_heads, capsys, tmp_path, most):
    """As with --top all: beside a file, too, but without its pictures."""
    statistics, path = random_heads(n_layers=4, n_heads=10, too_long=3), tmp_path / "heads.json"
    for paths in ([], [path]):
        Delivery(paths).deliver(statistics, Style(), order=Order("entropy", most=most))
        shown = capsys.readouterr().out
        assert len(set(re.findall(r"^ *(L\d+ H\d+) +\d\.\d\d", shown, re.MULTILINE))) == (most or 40)
        assert ("rows are layers" in shown) == (not paths or most == 16)
        assert "3 sentences were left out" in shown


def test_what_is_not_shown_is_not_made(mhaviz, weights, monkeypatch):
    made = []
    real = Panel.pooled
    monkeypatch.setattr(Panel, "pooled", lambda panel, *cells: made.append(panel.title) or real(panel, *cells))
    result = mhaviz("show", weights(5, 16, 300))
    assert lines(result) <= PICTURES + 10
    assert len(set(made)) <= 2


def test_a_screen_has_its_own_height(weights, monkeypatch):
    """A terminal of 20 lines gets three times as many, of pictures."""
    attention = read_maps(Path(weights(40, 2, 5))).attention
    heights = {}
    for height in (20, 60):
        monkeypatch.setenv("LINES", str(height))
        monkeypatch.setenv("COLUMNS", "80")
        stream = io.StringIO()
        stream.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", stream)
        assert print_view(view_of(attention))
        heights[height] = len(stream.getvalue().splitlines())
    assert SCREENS * 20 - 15 < heights[20] <= SCREENS * 20 + 10
    assert SCREENS * 60 - 15 < heights[60] <= SCREENS * 60 + 10
