"""What goes to special tokens stands right of a map, in greys, where a page says that it does."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made import Edges, made_map
from rich.cells import cell_len
from shown import heatmap_view

from mhaviz.records import Attention, Source, SpecialKeys

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def with_column(n_tokens, n_heads=2, cells=None):
    tokens = tuple(f"t{i}" for i in range(n_tokens))
    rows = n_tokens if cells is None else len(cells.query_edges) - 1
    rest = np.linspace(0.125, 1, rows, dtype=np.float32)
    weights = np.repeat(((1 - rest) / rows)[:, None], rows, axis=1)[None].repeat(n_heads, axis=0)
    special = SpecialKeys(rest[None].repeat(n_heads, axis=0), ("[CLS]", "[SEP]"))
    m = replace(made_map(tokens, tokens, weights, cells=cells), special=special)
    return Attention(Source("made by a test"), (m,))


@pytest.mark.parametrize("colour", [None, "256", "truecolor"])
def test_its_numbers_stand_in_the_rows(show, colour):
    attention = with_column(5)
    lines = ANSI.sub("", show(heatmap_view(attention), 100, colour)).splitlines()[3:8]
    for line, weight, special in zip(
        lines, attention.maps[0].weights[0], attention.maps[0].special.weights[0], strict=True
    ):
        of_map, of_column = f"{weight[0]:.2f}", f"{special:.2f}"
        numbers = re.findall(r"\d\.\d\d", line)
        per_head = [of_map] * 5 * (float(of_map) > 0) + [of_column]
        assert numbers == per_head * 2


@pytest.mark.parametrize("n_tokens", [1, 3, 12, 40, 128])
@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("colour", [None, "256", "truecolor"])
def test_it_has_room(show, n_tokens, width, colour):
    shown = ANSI.sub("", show(heatmap_view(with_column(n_tokens)), width, colour))
    assert max(map(cell_len, shown.splitlines())) <= width
    assert "the column beside" in " ".join(shown.split())


def test_pooled_maps_have_it_too(show):
    edges = 10 * np.arange(101)
    shown = show(heatmap_view(with_column(1000, 1, Edges(edges, edges))), 80, "truecolor")
    last = [line for line in shown.splitlines() if "▀" in line][-1]
    colours = re.findall(r"38;2;(\d+);(\d+);(\d+)", last)
    assert max(map(cell_len, ANSI.sub("", shown).splitlines())) <= 80
    assert len(set(colours[-1])) == 1, "grey"
    assert int(colours[-1][0]) < 160, "nearly all of the last rows' weight"
    assert {len(set(colour)) for colour in colours[:-1]} == {3}, "the map keeps its colours"
