import re

import numpy as np
import pytest
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.labels import token_labels
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.axis import Axis
from mhaviz.views.colours import colours
from mhaviz.views.terminal.grid import Abilities, HeatGrid

COLOUR, PLAIN = Abilities("truecolor"), Abilities(None)


def grid(n_panels, q_length, k_length=None, seed=0):
    k_length = q_length if k_length is None else k_length
    values = np.random.default_rng(seed).random((n_panels, q_length, k_length), dtype=np.float32)
    panels = [Panel(f"head {i}", v, Scale()) for i, v in enumerate(values)]
    return HeatGrid(panels, Axis.of(f"q{i}" for i in range(q_length)), Axis.of(f"k{i}" for i in range(k_length)))


def one_panel(values, tokens):
    return HeatGrid([Panel("head 0", values, Scale())], Axis.of(tokens), Axis.of(tokens))


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def backgrounds(line):
    """(character, foreground, background) of every cell of a line."""
    text = Text.from_ansi(line)
    cells = []
    for i, character in enumerate(text.plain):
        cells.append((character, *_style_at(text, i)))
    return cells


def _style_at(text, i):
    front = back = None
    for span in text.spans:
        if span.start <= i < span.end:
            front = span.style.color.triplet if span.style.color and span.style.color.triplet else front
            back = span.style.bgcolor.triplet if span.style.bgcolor and span.style.bgcolor.triplet else back
    return front, back


@pytest.mark.parametrize(
    ("n_panels", "length", "width", "cells", "per_line"),
    [
        (8, 6, 120, "values", 3),
        (8, 6, 80, "values", 2),
        (8, 6, 40, "values", 1),
        (8, 12, 80, "values", 1),
        (8, 12, 40, "half-blocks", 2),
        (8, 60, 80, "half-blocks", 1),
        (8, 60, 160, "half-blocks", 2),
        (2, 1, 40, "values", 2),
        (2, 17, 200, "half-blocks", 2),
    ],
)
def test_numbers_while_there_is_room(n_panels, length, width, cells, per_line):
    layout = grid(n_panels, length).decide(width, COLOUR)
    assert layout.cells == cells
    assert layout.per_line == per_line
    assert (layout.rows, layout.columns) == (length, length)


def test_without_colour_a_line_a_row():
    assert grid(1, 30).decide(80, PLAIN).cells == "lines"


def test_long_maps_are_pooled_to_the_width():
    layout = grid(1, 300).decide(80, COLOUR)
    assert layout.columns == 80 - 3 - 1
    assert layout.rows == layout.columns


def test_small_maps_without_numbers_stand_side_by_side():
    heat = grid(8, 6)
    assert heat.decide(80, COLOUR).cells == "values"
    small = HeatGrid(heat.panels, heat.queries, heat.keys, with_values=False)
    assert small.decide(80, COLOUR).cells == "half-blocks"
    assert small.decide(80, COLOUR).per_line > heat.decide(80, COLOUR).per_line


def test_numbered_columns_are_pooled_alone_and_have_no_legend(show):
    heat = grid(1, 3, 200)
    numbered = HeatGrid(heat.panels, heat.queries, Axis.of(map(str, range(200))))
    layout = numbered.decide(80, PLAIN)
    assert (layout.labels, layout.rows, layout.columns) == ("tokens", 3, 80 - 2 - 1)
    shown = show(numbered, 80)
    assert [line[:2] for line in shown.splitlines()[2:5]] == ["q0", "q1", "q2"]
    assert "each cell is the strongest of up to 3 values\n" in shown
    assert "k0" not in shown


@given(
    q_length=st.integers(1, 40),
    k_length=st.integers(1, 100),
    n_panels=st.integers(1, 5),
    width=st.integers(20, 200),
    colour=st.sampled_from([None, "256", "truecolor"]),
)
def test_no_line_is_wider_than_the_terminal(show, q_length, k_length, n_panels, width, colour):
    shown = plain(show(grid(n_panels, q_length, k_length), width, colour))
    assert max(cell_len(line) for line in shown.splitlines()) <= width


def test_cells_have_the_colour_of_their_value(show):
    heat = grid(1, 3)
    lines = show(heat, 60, "truecolor").splitlines()[2:]
    for row, line in enumerate(lines):
        cells = [cell for cell in backgrounds(line) if cell[2] is not None]
        width = len(cells) // 3
        for column in range(3):
            value = heat.panels[0].values[row, column]
            expected = tuple(int(c) for c in colours(value[None], Scale())[0])
            inside = cells[column * width : (column + 1) * width]
            assert {cell[2] for cell in inside} == {expected}
            assert "".join(cell[0] for cell in inside).strip() == f"{value:.2f}"


def test_half_blocks_have_two_rows_a_line(show):
    heat = grid(1, 21)
    lines = show(heat, 36, "truecolor").splitlines()[2:13]
    for line_number, line in enumerate(lines):
        cells = [cell for cell in backgrounds(line) if cell[0] == "▀"]
        assert len(cells) == 21
        for column, (_, front, back) in enumerate(cells):
            upper = heat.panels[0].values[2 * line_number, column]
            assert front == tuple(int(c) for c in colours(upper[None], Scale())[0])
            if line_number < 10:
                lower = heat.panels[0].values[2 * line_number + 1, column]
                assert back == tuple(int(c) for c in colours(lower[None], Scale())[0])


def test_a_lone_spike_is_seen_after_pooling(show):
    values = np.zeros((500, 500), np.float32)
    values[321, 77] = 1
    heat = HeatGrid([Panel("head 0", values, Scale())], Axis.of(map(str, range(500))), Axis.of(map(str, range(500))))
    assert "8;2;18;29;65" in show(heat, 80, "truecolor"), "in front or behind, as the darkest ink"
    assert "█" in show(heat, 80)
    assert "@" in show(heat, 80, encoding="ascii")
    assert "strongest of up to" in show(heat, 80)


def test_without_colour_every_number_is_still_there(show):
    heat = grid(2, 4)
    shown = show(heat, 80)
    assert "\x1b[4" not in shown
    for panel in heat.panels:
        for value in panel.values.ravel():
            assert (f"{value:.2f}" in shown) == (value >= 0.005), "what rounds to 0 is not written"


def test_sixteen_colours_are_no_scale(show):
    shown = show(grid(1, 4), 80, "standard")
    assert not re.search(r"\x1b\[[0-9;]*(?:3|4|9|10)[0-7]m", shown)


def test_labels_are_visible_and_do_not_act(show):
    tokens = [*HOSTILE, *HOSTILE]
    values = np.full((len(tokens), len(tokens)), 1 / len(tokens), np.float32)
    for width in (40, 80, 200):
        for colour in (None, "truecolor"):
            shown = plain(show(one_panel(values, tokens), width, colour))
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u200d\u2028\ue000]", shown)
            assert max(cell_len(line) for line in shown.split("\n")) <= width


@given(st.lists(st.text(st.characters(), max_size=30), min_size=1, max_size=6), st.integers(20, 120))
def test_any_token_in_any_width(show, tokens, width):
    values = np.full((len(tokens), len(tokens)), 1 / len(tokens), np.float32)
    shown = plain(show(one_panel(values, tokens), width, "truecolor"))
    assert "\x1b" not in shown
    assert max(cell_len(line) for line in shown.split("\n")) <= width


@pytest.mark.parametrize("width", [40, 60, 77, 80, 100])
def test_positions_over_the_columns_are_whole(show, width):
    heat = grid(1, 600)
    edges = {str(edge) for edge in np.linspace(0, 600, heat.decide(width, PLAIN).columns + 1).astype(int)}
    header = show(heat, width).splitlines()[1].split()
    assert len(header) > 5
    assert [int(label) for label in header] == sorted(int(label) for label in header)
    assert {int(label) for label in header} <= {int(edge) + i for edge in edges for i in (-1, 0, 1)}


def over_columns(lines, layout):
    """What is written above each column of the first panel, line by line."""
    columns, at = [""] * layout.columns, layout.label_width + 1
    for line in lines:
        for i, character in enumerate(line):
            if 0 <= (cells := cell_len(line[:i]) - at) < layout.columns * layout.cell_width:
                columns[cells // layout.cell_width] += character
    return [re.sub(r"\s", "", text) for text in columns]


@pytest.mark.parametrize("colour", [None, "truecolor"])
@pytest.mark.parametrize(
    ("n_panels", "width", "cell_width", "above"),
    [(1, 80, 4, 1), (1, 74, 2, 3), (2, 160, 4, 1), (2, 120, 2, 3), (4, 80, 1, 1)],
)
def test_words_stand_over_columns_that_have_room_beside_as_many_panels(
    show, n_panels, width, cell_width, above, colour
):
    heat, abilities = grid(n_panels, 18), Abilities(colour)
    layout = heat.decide(width, abilities)
    positions = HeatGrid(heat.panels, Axis.of(map(str, range(18))), Axis.of(map(str, range(18))))
    assert layout.per_line == positions.decide(width, abilities).per_line
    assert (layout.cell_width, layout.above) == (cell_width, above)
    lines = plain(show(heat, width, colour)).splitlines()
    assert (over_columns(lines[1 : 1 + above], layout) == [f"k{i}" for i in range(18)]) == (cell_width > 1)
    assert ("keys:" in "".join(lines)) == (cell_width == 1)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) == heat.height(width, abilities)


UGLY = (
    "中文字",
    "e\u0301te\u0301",
    "שלום",
    "internationalization",
    "😀",
    "a\u202eb",
    "[bold]",
    "日本",
    "\n",
    "한국어",
    "ok",
)


@pytest.mark.parametrize("width", [60, 100, 150])
@pytest.mark.parametrize("length", [11, 22])
def test_a_word_stands_over_its_column_and_is_below_if_it_is_cut(show, width, length):
    keys = (UGLY * 2)[:length]
    heat = HeatGrid(grid(1, 3, length).panels, Axis.of("abc"), Axis.of(keys))
    layout = heat.decide(width, PLAIN)
    _, *lines = re.sub("[\u2068\u2069]", "", show(heat, width)).split("\n")
    assert layout.cell_width > 1 or width < 3 * length
    columns = over_columns(lines[: layout.above], layout) if layout.cell_width > 1 else [""] * length
    if layout.cell_width > 1:
        assert columns == token_labels(keys, 8 if layout.above > 1 else layout.cell_width - 1)
    pairs = zip(columns, token_labels(keys, 99), strict=True)
    cut = [re.sub("[₀-₉]+$", "", text) for label, text in pairs if label != text]
    assert all(f" {text}" in "\n".join(lines[layout.above :]) for text in cut)


def test_labels_that_are_positions_have_no_legend(show):
    heat = grid(1, 30)
    positions = HeatGrid(heat.panels, Axis.of(map(str, range(30))), Axis.of(map(str, range(30))))
    assert "keys:" in show(heat, 60)
    assert "keys:" not in show(positions, 60)


def dim(text):
    """What is written in dim characters."""
    return re.findall(r"\x1b\[2m(.*?)\x1b\[0m", text)


@pytest.mark.parametrize("special", [(), (0, 3)])
@pytest.mark.parametrize("with_values", [True, False])
def test_special_tokens_are_dim(show, special, with_values):
    tokens = ("[CLS]", "a", " cat", "[SEP]")
    panel = grid(1, 4).panels[0]
    axis = Axis(Tokens(tokens, special))
    heat = HeatGrid([panel], axis, axis, with_values)
    lines = show(heat, 80, "truecolor").splitlines()
    header, rows = lines[1], lines[2:6] if with_values else lines[2:4]
    of_rows = [text.strip() for line in rows for text in dim(line)]
    assert of_rows == (["[CLS]", "[SEP]"] if special else [])
    assert "".join(dim(header)).split() == (["[CLS]", "[SEP]"] if special else ["[CLS]", "a", "cat", "[SEP]"])
    without = show(HeatGrid([panel], Axis.of(tokens), Axis.of(tokens), with_values), 80, "truecolor")
    assert plain("\n".join(lines)) == plain("\n".join(without.splitlines()))


@pytest.mark.parametrize("colour", ["truecolor", None])
def test_heads_keep_their_names_where_keys_are_pooled(show, colour):
    names = [f"H{i}" for i in range(12)]
    wide = HeatGrid([Panel("layer 0", np.full((12, 83), 0.5, np.float32), Scale())], Axis.of(names), grid(1, 83).keys)
    layout = wide.decide(60, Abilities(colour))
    assert (layout.columns < 83, layout.labels) == (True, "tokens")
    lines = [plain(line) for line in show(wide, 60, colour).splitlines()]
    assert [name for line in lines[2:] for name in re.findall(r"H\d+", line)] == names
    text = " ".join(lines)
    assert "each cell is the strongest of up to 2 values" in text
    assert not re.search("queries:|labels are positions", text)
