"""Weights between spans in the terminal, at fixed widths, with and without colour."""

import re

import matplotlib
import numpy as np
import pytest
from made import span_map
from rich.cells import cell_len
from rich.text import Text

from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

NAMES, APART = ("system", "document one", "answer"), ("(rest)", "<s>")
MASS = np.array([[[0.5, 0, 0, 0.1, 0.4], [0.08, 0.62, 0, 0.1, 0.2], [0.75, 0.04, 0.2, 0, 0.01]]])
CHANCE = np.array([[[0.5, 0, 0], [0.2, 0.5, 0], [0.25, 0.4, 0.1]]])


def attention(mass=MASS, names=NAMES, chance=CHANCE, apart=APART):
    return Attention(Source("made by a test"), (span_map(names, mass, chance, apart=apart),))


def grid_of(shown):
    """The lines of the panel, from its title on."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("L0 H0"))
    return lines[start : lines.index("", start)]


WIDE = """\
L0 H0
                    system document one       answer       (rest)          <s>
system                  50                                     10           40
document one             8           62                        10           20
answer                  75            4           20            0            1
numbers: % of the weight"""
NARROW = """\
L0 H0
              sy…em do…ne an…er (r…t)   <s>
system           50                10    40
document one      8    62          10    20
answer           75     4    20     0     1
numbers: % of the weight"""


@pytest.mark.parametrize(("width", "expected"), [(120, WIDE), (80, WIDE), (45, NARROW)])
def test_numbers_stand_below_the_names_of_their_columns(show, width, expected):
    assert [line.rstrip() for line in grid_of(show(view_of(attention()), width))] == expected.split("\n")


MANY = tuple(f"a sentence that is number {i}" for i in range(9))


def of_many():
    random = np.random.default_rng(0)
    return attention(random.dirichlet(np.ones(11), (1, 9)), MANY, random.uniform(0.1, 1, (1, 9, 9)))


@pytest.mark.parametrize("colour", [None, "truecolor"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(show, width, colour):
    shown = show(view_of(of_many()), width, colour)
    assert max(cell_len(Text.from_ansi(line).plain) for line in shown.split("\n")) <= width
    assert ("48;2;" in shown) == (colour is not None and width > 40)
    assert ("numbers: % of the weight" in shown) == (width > 40), "where there is room for nine columns"


@pytest.mark.parametrize("colour", [None, "truecolor"])
def test_in_ascii_all_numbers_are_there_without_colours(show, colour):
    """Marks of what is cut are three characters there."""
    shown = show(view_of(of_many()), 80, colour, "ascii")
    assert shown.isascii()
    assert "48;2;" not in shown
    (m,) = of_many()
    rows = [line for line in shown.split("\n") if re.match(r"(?:\x1b\[[0-9;]*m)?a sen.*[0-9]( +[0-9]+){11}\s*$", line)]
    for line, of_row in zip(rows, m.weights[0], strict=True):
        assert line.split()[-11:] == [f"{100 * weight:.0f}" for weight in of_row]


def test_cells_have_the_colours_of_their_ratios(show):
    shown = show(view_of(attention()), 80, "truecolor")
    line = next(line for line in shown.split("\n") if Text.from_ansi(line).plain.startswith("answer "))
    text = Text.from_ansi(line)
    grounds = {}
    for span in text.spans:
        if span.style.bgcolor is not None:
            grounds[text.plain[span.start : span.end].strip()] = np.array(span.style.bgcolor.triplet)
    for number, ratio in (("75", 3), ("4", 0.1), ("20", 2)):
        place = np.clip((np.log2(ratio) + 3) / 6, 0, 1)
        expected = np.array(matplotlib.colormaps["RdBu_r"](place)[:3]) * 255
        assert np.abs(grounds[number] - expected).max() <= 8, number
    assert np.ptp(grounds["1"]) < 25, "grey"
    first = next(line for line in shown.split("\n") if Text.from_ansi(line).plain.startswith("system "))
    unseen = [span for span in Text.from_ansi(first).spans if span.style.bgcolor is not None]
    assert len(unseen) == 3, "what is not seen has no colour"
    said = " ".join(Text.from_ansi(shown).plain.split())
    assert "numbers: % of the weight; colours: ≤ 1/8–8 × uniform: the weight / what uniform attention" in said


def test_without_colours_nothing_is_said_of_them(show):
    shown = show(view_of(attention(), Style()), 80)
    assert "colours" not in shown
    assert not re.search(r"\x1b\[[34]8", shown)


def test_several_panels_are_left_to_the_tables(show):
    two = show(view_of(attention(np.concatenate([MASS, MASS]), chance=np.concatenate([CHANCE, CHANCE]))), 80)
    assert "from span to another, mean of 2 heads" in two
    assert "numbers: %" not in two
