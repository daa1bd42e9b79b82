"""What the solver decides about matrices of each kind, without a picture of them."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from mhaviz.pages.blocks import Matrices
from mhaviz.pages.panels import Panel, Scale, head_panels
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.room import Room
from mhaviz.views.tiles.solve import solve


@dataclass(frozen=True)
class Typewriter:
    """A ruler whose letters all have the same width."""

    def width(self, text, size, bold=False):
        return 0.6 * size / 72 * len(text)

    def wrap(self, text, width, size):
        per_line = max(int(width / self.width("x", size)), 1)
        return [text[i : i + per_line] for i in range(0, len(text), per_line)]

    def labels(self, tokens, start=0, counts=()):
        return tuple(tokens)


def room(**looks):
    more = {name: looks.pop(name) for name in ("of_numbers", "taken") if name in looks}
    return Room(Typewriter(), LayoutStyle(**({"dpi": 100} | looks)), **more)


def words(n):
    return Axis.of([f"w{i}" for i in range(n)])


def heads(n_heads, n, layers=1):
    weights = np.random.default_rng(0).dirichlet(np.ones(n), (layers, n_heads, n)).astype(np.float32)
    maps = tuple(AttentionMap(of_layer, words(n), words(n), layer=i) for i, of_layer in enumerate(weights))
    panels = tuple(panel for m in maps for panel in head_panels(m))
    by_layer = tuple(Matrices("", head_panels(m), words(n), words(n), maps=(m,)) for m in maps) if layers > 1 else ()
    across = n_heads if layers > 1 else None
    return Matrices("", panels, words(n), words(n), across, ("query", "key"), maps=maps, by_layer=by_layer)


def panels(n, rows, columns, scale=None, across=None):
    of_one = np.random.default_rng(0).standard_normal((n, len(rows), len(columns))).astype(np.float32)
    scale = scale or Scale.around_zero(of_one, name="score")
    return Matrices("", tuple(Panel(f"M{i}", x, scale) for i, x in enumerate(of_one)), rows, columns, across)


KINDS = {
    "heads": heads(8, 6),
    "long": heads(12, 200),
    "layers": heads(12, 16, layers=6),
    "panels": panels(4, words(6), words(6)),
    "features": panels(3, words(6), Axis.numbered(64)),
    "numbers": panels(10, Axis.numbered(6), Axis.numbered(12), Scale(decimals=2)),
}


def test_no_decision_needs_matplotlib():
    code = "import sys, mhaviz.views.tiles.solve; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("width", [3.3, 6.5, None])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_every_kind_are_as_wide_as_the_page_at_most_with_cells_of_whole_pixels(kind, width):
    block = KINDS[kind]
    counts = [len(block.panels)] if block.are_numbers else []
    layout = solve(block, room(width=width, of_numbers=counts))
    for one in (layout, layout.enlarged.layout) if layout.enlarged else (layout,):
        for side in (one.queries, one.keys):
            assert side.cell * 100 == pytest.approx(max(round(side.cell * 100), 1), abs=1e-6)
    assert layout.columns * layout.rows >= len(block.panels)
    if width is not None:
        assert layout.width <= width - 0.5 + 0.02
    for side in (layout.queries, layout.keys):
        places = [mark.place for mark in side.marks]
        assert places == sorted(places)
        assert all(0 <= place <= side.length for place in places)


def test_heads_of_a_page_have_labels_numbers_and_a_shape():
    layout = solve(KINDS["heads"], room())
    assert (layout.columns, layout.rows) == (4, 2)
    assert [mark.text for mark in layout.keys.marks] == [f"w{i}" for i in range(6)]
    assert layout.value_size >= 6
    assert layout.enlarged is None


def test_cells_of_a_long_map_are_pooled_by_equally_many():
    layout = solve(KINDS["long"], room(width=3.3))
    together = -(-200 // layout.cells[0])
    assert together > 1
    assert layout.cells == (-(-200 // together),) * 2
    assert f"{together} × {together}" in layout.pooled


def test_of_many_layers_one_head_is_enlarged():
    layout = solve(KINDS["layers"], room(width=13.3))
    block, peaks = KINDS["layers"], [panel.values[:, 1:].max(axis=1).mean() for panel in KINDS["layers"].panels]
    assert layout.enlarged.number == int(np.argmax(peaks))
    assert layout.enlarged.is_beside
    assert not layout.keys.marks
    assert len(layout.enlarged.layout.keys.marks) == 16
    assert not solve(block, room(width=6.5)).enlarged.is_beside


def test_rows_of_numbers_and_of_panels_have_few_empty_places():
    numbers = solve(KINDS["numbers"], room(of_numbers=[10]))
    assert numbers.columns * numbers.rows == 10
    narrow = solve(KINDS["panels"], room(width=3.3))
    assert (narrow.columns, narrow.rows) == (2, 2)
