"""Maps of cells in the terminal. The oracle is the whole matrix of weights in float64."""

import io
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hostile import HOSTILE
from made import Edges, made_map
from rich.cells import cell_len
from rich.console import Console
from shown import heatmap_view

from mhaviz.pages.panels import Scale
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import Quantity
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import Abilities, long_layout
from mhaviz.views.terminal.legend import ScaleBar

COLOUR, PLAIN = Abilities("truecolor"), Abilities(None)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
HALF_BLOCK = re.compile(r"\x1b\[38;2;(\d+;\d+;\d+)(?:;48;2;(\d+;\d+;\d+))?m([▀▄])\x1b\[0m|·")
AUTO, LOG = Style(), Style("bone", log=True)
LENGTH, CELLS = 600, 200  # three tokens a cell, so that cells of cells are cells of whole tokens


def weights_of(length, n_heads=1, kind="self", seed=0):
    """(n_heads, length, length), float64; rows sum to 1."""
    scores = np.random.default_rng(seed).normal(size=(n_heads, length, length), scale=2)
    if kind == "masked":
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def reduced(weights, query_edges, key_edges, reduction):
    """Each cell by itself."""
    cells = np.empty((len(weights), len(query_edges) - 1, len(key_edges) - 1))
    for row, (q0, q1) in enumerate(pairwise(query_edges)):
        for column, (k0, k1) in enumerate(pairwise(key_edges)):
            part = weights[:, q0:q1, k0:k1]
            cells[:, row, column] = part.sum(-1).mean(-1) if reduction == "mass" else part.max((-1, -2))
    return cells


def edges_of(length, cells, start=0):
    return start + np.arange(cells + 1) * length // cells


def equal_edges(n, cells=CELLS):
    """Of n cells on the screen."""
    return np.arange(n + 1) * cells // n


def long_map(weights, reduction="mass", cells=CELLS, tokens=None, kind="self", **more):
    length = weights.shape[-1]
    edges = edges_of(length, cells)
    tokens = tuple(f"t{i}" for i in range(length)) if tokens is None else tokens
    values = reduced(weights, edges, edges, reduction).astype(np.float32)
    return made_map(tokens, tokens, values, kind, cells=Edges(edges, edges, reduction), **more)


def uniform_map(n_heads=1, length=20_000, cells=512, start=0, **more):
    tokens = more.pop("tokens", None) or tuple(f"t{i}" for i in range(start, start + length))
    edges = edges_of(length, cells, start)
    values = np.full((n_heads, cells, cells), 1 / cells, np.float32)
    return made_map(tokens, tokens, values, cells=Edges(edges, edges), **more)


def view(*maps, style=AUTO):
    return heatmap_view(Attention(Source("made by a test"), maps), style)


def words(shown):
    """Without colours and line breaks."""
    return " ".join(ANSI.sub("", shown).split())


def plain_lines(shown):
    return ANSI.sub("", shown).splitlines()


def drawn(shown):
    """The colours of one panel's cells, (rows, columns, 3); NaN where a hidden one has none."""
    rows = []
    for line in shown.splitlines():
        label = re.match(r".*?(?=\x1b\[38;2;[\d;]*m[▀▄])", line)  # the first key is hidden from no query
        if label:
            cells = HALF_BLOCK.findall(line, label.end())
            lower = [front if block == "▄" else back for front, back, block in cells]
            rows.append(["" if block == "▄" else front for front, _, block in cells])
            rows += [lower] * bool(lower[0])
    return np.array([[[float(c) for c in (cell or "nan;nan;nan").split(";")] for cell in row] for row in rows])


@cache
def drawn_map(kind, reduction):
    return long_map(weights_of(LENGTH, kind=kind), reduction, kind=kind)


@pytest.mark.parametrize(("width", "kind", "reduction"), [
    (40, "self", "mass"), (80, "self", "max"), (80, "masked", "mass"), (160, "masked", "max"),
])  # fmt: skip
def test_half_blocks_are_cells_of_the_whole_matrix(show, width, kind, reduction):
    weights = weights_of(LENGTH, kind=kind)
    shown = show(view(drawn_map(kind, reduction), style=replace(LOG, vmax=0.5)), width, "truecolor")
    colours = drawn(shown)
    rows, columns = colours.shape[:2]
    query_edges, key_edges = (3 * equal_edges(n) for n in (rows, columns))
    expected = reduced(weights, query_edges, key_edges, reduction)[0]
    visible = key_edges[:-1] <= query_edges[1:, None] - 1 if kind == "masked" else np.ones_like(expected, bool)
    whole = drawn_map(kind, reduction).weights[0]  # the largest of cells has the scale of the whole, their sum its own
    palest = np.quantile(whole[whole > 0] if reduction == "max" else expected[visible & (expected > 0)], 0.01)
    low = 0.5 * (palest / 0.5) ** (6 / 5)  # a sixth of the scale lies below it
    shares = np.clip((np.log(np.maximum(expected, low)) - np.log(low)) / (np.log(0.5) - np.log(low)), 0, 1)
    bone = matplotlib.colormaps["bone"](shares)[..., :3] * 255
    assert np.abs(colours - bone)[visible].max() <= 3
    if kind == "masked":
        assert np.isnan(colours[~visible]).all(), "what is hidden has no colour"
    q, k = np.diff(query_edges).max(), np.diff(key_edges).max()
    sentence = {
        "mass": f"each cell is the mean over up to {q} queries of their weight on up to {k} keys",
        "max": f"each cell is the largest of up to {q} × {k} weights",
    }[reduction]
    assert words(shown).count("each cell is") == 1
    assert sentence in words(shown)


def test_the_scale_is_that_of_the_cells_on_the_screen(show):
    weights = weights_of(LENGTH)
    shown = show(view(long_map(weights), style=LOG), 40, "truecolor")
    rows, columns = drawn(shown).shape[:2]
    expected = reduced(weights, *(3 * equal_edges(n) for n in (rows, columns)), "mass")
    assert f" {expected.max():.3g}, logarithmic" in words(shown)


def test_most_of_the_attention_on_the_screen_lies_below_the_end_of_the_scale(show):
    weights = weights_of(LENGTH)
    shown = show(view(long_map(weights)), 40, "truecolor")
    colours = drawn(shown)
    cells = np.sort(reduced(weights, *(3 * equal_edges(n) for n in colours.shape[:2]), "mass"), axis=None)
    beyond, end = re.search(r"((?:≥ )?)([\d.]+) each cell", words(shown)).groups()
    end, below = float(end), cells[np.searchsorted(cells.cumsum(), 0.9 * cells.sum())]
    if beyond:
        assert below <= end <= below * 1.01 + 10.0 ** (np.floor(np.log10(below)) - 1), "rounded up to 2 digits"
    else:
        assert end == pytest.approx(cells[-1], rel=5e-3)
        assert below * 1.12 >= 0.4 * end
    assert "logarithmic" not in words(shown)
    is_darkest = (colours == (18, 29, 65)).all(axis=-1)
    assert is_darkest.sum() == (cells >= end * 255 / 256).sum(), "the last of 256 colours"


def test_each_reduction_has_its_own_scale(show):
    weights = weights_of(LENGTH)
    mass, largest = long_map(weights), long_map(weights, "max")
    both, alone = (words(show(view(*maps, style=LOG), 80)) for maps in ((mass, largest), (largest,)))
    bars = re.findall(r"([\d.e-]+) [ ▁-█]+ ([\d.e-]+), logarithmic each cell is the (mean|largest)", both)
    assert [bar[2] for bar in bars] == ["mean", "largest"]
    assert bars[0][:2] != bars[1][:2]
    assert bars[1][:2] == re.findall(r"([\d.e-]+) [ ▁-█]+ ([\d.e-]+), log", alone)[0]
    assert both.count("rows are queries, columns keys") == 1


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("start", [0, 15_000])
def test_positions_stand_where_they_are(show, width, start):
    attention_map = uniform_map(length=3000, cells=300, start=start)
    layout = long_layout(attention_map, width, None, PLAIN)
    shown = plain_lines(show(view(attention_map), width))
    (top,) = (i for i, line in enumerate(shown) if line.strip() == "L0 H0")
    margin = layout.label_width + 1
    columns = [(found.start() - margin, found.group()) for found in re.finditer(r"[\d,]+", shown[top + 1])]
    lines = [(i, line[:margin].strip()) for i, line in enumerate(shown[top + 2 : top + 2 + layout.rows])]
    for cells, labels in ((layout.columns, columns), (layout.rows, [label for label in lines if label[1]])):
        assert len(labels) >= 2
        assert labels[0] == (0, f"{start:,}")
        for place, label in labels:
            position = int(label.replace(",", "")) - start
            assert place == next(c for c in reversed(range(cells)) if 10 * equal_edges(cells, 300)[c] <= position)
            assert position % 100 == 0
    assert f"queries and keys: {start:,} t{start} … {start + 2999:,} t{start + 2999}" in " ".join(shown)


def test_queries_and_keys_of_a_window_have_their_own_ends(show):
    edges = (np.array([1000, 1010, 1020]), np.array([0, 50, 100]))
    m = made_map(("a",) * 20, ("b",) * 100, np.full((1, 2, 2), 0.5, np.float32), cells=Edges(*edges))
    shown = plain_lines(show(view(m), 80))
    assert "queries: 1,000 a … 1,019 a" in shown
    assert "keys: 0 b … 99 b" in shown


@pytest.mark.parametrize(("width", "per_line"), [(40, 1), (80, 2), (100, 2), (134, 4), (160, 4), (400, 8)])
def test_heads_side_by_side(width, per_line):
    layout = long_layout(uniform_map(8), width, None, COLOUR)
    assert layout.per_line == per_line
    assert layout.columns >= 29
    assert abs(layout.rows - layout.columns) <= 4
    assert layout.label_width + 1 + per_line * (layout.columns + 2) - 2 <= width


def test_a_screen_holds_a_panel():
    low, high = (long_layout(uniform_map(), 80, height, COLOUR) for height in (24, 60))
    assert low.rows == 35  # of 15 cells each; there is room for 36
    assert low.columns <= 2 * (24 - 6) * 2
    assert (high.rows, high.columns) == (64, 64)
    assert long_layout(uniform_map(), 80, 24, PLAIN).rows == 18


@pytest.mark.parametrize("on_screen", [True, False])
def test_only_a_screen_has_a_height(on_screen):
    stream = io.StringIO()
    stream.isatty = lambda: on_screen
    Console(file=stream, width=80, height=24, force_terminal=True, color_system="truecolor", _environ={}).print(
        view(uniform_map())
    )
    assert len(drawn(stream.getvalue())) == (35 if on_screen else 64)


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_uniform_weights_have_no_stripes(show, width):
    """Columns with unlike numbers of keys would look like keys that get more weight."""
    layout = long_layout(uniform_map(), width, None, COLOUR)
    keys = np.diff(equal_edges(layout.columns, 512))
    assert keys.min() >= keys.max() - 1
    assert (keys < keys.max()).sum() < keys.max()
    assert layout.columns >= (width - 8) * 0.75
    largest = replace(uniform_map(), quantity=Quantity(reduction="max"))
    assert long_layout(largest, width, None, COLOUR) == layout, "so that both can be compared"


def test_ascii_and_no_colour(show):
    weights = weights_of(LENGTH, kind="masked")
    weights[0, 500, 100] = 30  # a lone spike
    attention_map = long_map(weights, kind="masked", tokens=("naïve", *("x",) * 598, "鯨"))
    shown = show(view(attention_map, style=LOG), 80, encoding="ascii")
    assert shown.isascii()
    assert "\x1b[3" not in shown
    assert "queries and keys: 0 na\\xefve ... 599 \\u9be8" in shown
    lines = [line[4:] for line in shown.splitlines() if line.count("@") or line.count("#") > 5]
    assert any("@" in line for line in lines)
    assert "█" in show(view(attention_map, style=LOG), 80)
    assert "logarithmic" in shown


def test_the_scale_of_logarithms_says_so(show):
    assert show(ScaleBar(Scale(low=1e-4, high=0.5, log=True)), 80).startswith("0.0001 ")
    assert show(ScaleBar(Scale(low=1e-4, high=0.5, log=True)), 80).endswith(" 0.5, logarithmic\n")
    assert "logarithmic" not in show(ScaleBar(Scale()), 80)


def test_no_work_a_token(show, monkeypatch):
    def never(*_, **__):
        raise AssertionError("labels for all tokens")

    monkeypatch.setattr("mhaviz.views.terminal.grid.token_labels", never)
    assert "99,999 t99999" in show(view(uniform_map(length=100_000)), 80)


def window(length, start=15_000, tokens=("the", "cat")):
    tokens = tuple(tokens[i % len(tokens)] for i in range(length))
    edges = [np.arange(first, first + length + 1) for first in (start, start - 7)]
    weights = weights_of(length).astype(np.float32)
    return made_map(tokens, tokens, weights, cells=Edges(*edges))


def test_windows_of_tokens_have_the_labels_of_the_whole_input(show):
    shown = show(view(window(4)), 80)
    for position, token in zip(range(15_000, 15_004), ("the", "cat", "the", "cat"), strict=True):
        assert token + str(position).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) in shown
    assert "₁₄₉₉₃" in shown, "of the first key"
    assert "logarithmic" not in shown
    assert "each cell" not in shown
    for weight in window(4).weights.ravel():
        assert f"{weight:.2f}" in shown


def test_larger_windows_of_tokens_have_numbers_and_a_legend(show):
    shown = words(show(view(window(40)), 80))
    assert "14993 14" not in shown, "no label runs into the next"
    assert "keys: 14993 the 14994 cat" in shown
    narrow = words(show(view(window(60)), 40))
    assert "queries: 15000 the 15001 cat" in narrow
    assert "each cell is the strongest of" in narrow


def test_windows_of_more_tokens_than_a_legend_holds(show):
    weights = weights_of(120)
    shown = show(view(window(120), style=Style("bone", vmax=0.5)), 80, "truecolor")
    rows, columns = drawn(shown).shape[:2]
    expected = reduced(weights, edges_of(120, rows), edges_of(120, columns), "max")[0]
    bone = matplotlib.colormaps["bone"](expected / 0.5)[..., :3] * 255
    assert np.abs(drawn(shown) - bone).max() <= 3, "exact weights have a linear scale, however narrow the terminal"
    assert "queries: 15,000 the … 15,119 cat" in words(shown)
    assert "keys: 14,993 the … 15,112 cat" in words(shown)
    assert "the₁₅₀₀₀·cat₁₅₀₀₁ ▀" in ANSI.sub("", show(view(window(120)), 160, "truecolor")), "where there is room"


def head_summary(tokens, strongest=1.0, local=0.25, farthest=None):
    sinks = tuple(Sink(key, tokens[key], received) for key, received in ((0, 50.0), (99, 0.02), (7, 0.01)))
    return HeadSummary(2.5, 5.0, sinks, local, Link(3, tokens[3], 0, tokens[0], strongest), farthest)


def summed_up(n_heads=2, tokens=None, **more):
    tokens = tokens or tuple(f"t{i}" for i in range(100))
    far = Link(99, tokens[99], 1, tokens[1], 0.123)
    heads = tuple(head_summary(tokens, farthest=far if i else None, **more) for i in range(n_heads))
    return uniform_map(n_heads, 100, 20, tokens=tokens, summary=MapSummary(heads, 100, 32, 0.1))


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_a_summary_of_every_head(show, width):
    shown = show(view(summed_up()), width)
    assert max(map(cell_len, plain_lines(shown))) <= width
    text = re.sub(r"[|+-]{2,}|[|]", " ", words(shown))
    for part in ("2.50 (50%)", "25.0%", "0 t0 (50.0%)", "99 t99 (0.02%)", "none"):
        assert part in text
    assert "means over 100 queries" in text
    for link in ("3 t3 → 0 t0 (1)", "99 t99 → 1 t1 (0.12)"):
        for part in link.split(" → "):  # on a narrow screen the two stand in lines of their own
            assert part in text
    if width == 160:
        assert "3 t3 → 0 t0 (1)" in text


def test_source_target_attention_has_no_distances(show):
    text = words(show(view(summed_up(1, local=None)), 160))
    assert "2.50 (50%) – 0 t0" in text
    assert re.search(r"0 t0 \(1\) – ", text)


@pytest.mark.parametrize(("width", "colour"), [(40, "truecolor"), (160, None)])
def test_hostile_tokens(show, width, colour):
    for i in range(0, len(HOSTILE), 4):
        tokens = ["x"] * 100
        for place, token in zip((0, 1, 3, 99), HOSTILE[i : i + 4], strict=False):  # those that are named
            tokens[place] = token
        shown = ANSI.sub("", show(view(summed_up(tokens=tuple(tokens))), width, colour))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u200d\u2028\ue000\udcff]", shown)
        assert max(cell_len(line) for line in shown.split("\n")) <= width
