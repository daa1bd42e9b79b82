"""Every view at fixed widths: goldens for a reader, and what must be in them."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from looking import attend, encoded, traced
from made import made_map
from rich.cells import cell_len
from shown import heatmap_view, number_text

from mhaviz.analyses.scaling import compare_scaling, sweep_scaling
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.pages.pooling import pool_map
from mhaviz.results.attention import Attention
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.results.trace import follow_element
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

FOOTNOTE = "random weights, seed 0, d_model 16, 2 heads, cpu"


@pytest.fixture(scope="module")
def layer():
    return RandomLayer(16, 2, device_name="cpu")


@pytest.fixture
def known_attention():
    """Weights that anybody can check by looking."""
    weights = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]], [[0, 0, 1], [0, 1, 0], [1, 0, 0]]], np.float32)
    tokens = ("the", "cat", "the")
    return Attention(Source("weights made by hand"), (made_map(tokens, tokens, weights),))


@pytest.mark.parametrize("width", [40, 80])
def test_heatmap(show, golden, known_attention, width):
    golden(f"heatmap-{width}.txt", show(heatmap_view(known_attention), width))


def test_heatmap_in_ascii(show, golden, known_attention):
    golden("heatmap-ascii.txt", show(heatmap_view(known_attention), 80, encoding="ascii"))


@pytest.mark.parametrize("width", [60, 160])
def test_trace(show, golden, width):
    trace = traced(RandomLayer(8, 4), WORKED_EXAMPLE)
    golden(f"trace-{width}.txt", show(view_of(replace(trace, followed=follow_element(trace, (0, 2, 5)))), width))


def test_trace_in_ascii(show, golden):
    golden(
        "trace-ascii.txt", show(view_of(traced(RandomLayer(8, 4, causal=True), WORKED_EXAMPLE)), 80, encoding="ascii")
    )


@pytest.mark.parametrize("width", [40, 60, 100])
def test_the_numbers_of_the_worked_example_take_a_few_screens(show, width):
    trace = traced(RandomLayer(8, 4, device_name="cpu"), WORKED_EXAMPLE, values=True)
    lines = show(view_of(trace), width, None).splitlines()
    numbers = lines[next(i for i, line in enumerate(lines) if line.startswith("E = ")) :]
    assert len(numbers) <= (100 if width == 100 else 220)
    assert max(map(len, lines)) <= width
    for step in ("X", "S", "O"):
        for number in trace.step(step).values[0].ravel():
            assert number_text(number, "z.2f") in " ".join(numbers)


def test_trace_shows_small_values_and_not_large_ones(show):
    trace = traced(RandomLayer(8, 4, device_name="cpu"), ["one two"], values=True)
    shown = show(view_of(trace), 100)
    for number in trace.step("S").values.ravel():
        assert number_text(number, ".2f") in shown
    large = traced(RandomLayer(64, 4, device_name="cpu"), [" ".join("abcdefghij")], values=True)
    assert large.step("Q").values is None
    assert large.step("A").values.shape == (1, 4, 10, 10)


@pytest.mark.parametrize("width", [60, 100, 160])
def test_scaling(show, layer, width):
    comparison = compare_scaling(layer, layer.encode(["one two three"]), [0, 1])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", show(view_of(comparison), width))
    assert max(cell_len(line) for line in shown.splitlines()) <= width
    assert FOOTNOTE in shown
    for scaling in (comparison.unscaled, comparison.scaled):
        for statistics in scaling.statistics:
            assert f"{statistics.score_std:.2f}" in shown
            assert f"{statistics.jacobian:.3f}" in shown
        for score in scaling.scores.ravel():
            assert number_text(score, "z.1f") in shown


@pytest.mark.parametrize("width", [44, 80, 120])
def test_sweep(show, width):
    sweep = sweep_scaling(["one", "two"], 0, (2, 1024), draws=2)
    shown = show(view_of(sweep), width)
    assert max(cell_len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= width
    assert "32.00" in shown, "theory at 1024"
    assert f"{sweep.unscaled[1].score_std:.2f}" in shown
    assert "…" not in shown


def test_report_shows_all_parts(show, layer):
    sentence = ["one two three"]
    comparison = compare_scaling(layer, layer.encode(sentence), [1])
    shown = show(view_of(Report(attend(layer, sentence), layer.trace(layer.encode(sentence)), comparison)), 100)
    for part in (
        "self-attention, random weights: one two three",
        "L0 H0",
        "concat",
        "standard deviation of the scores",
        FOOTNOTE,
    ):
        assert part in shown


def test_several_sentences_stand_below_each_other(show, layer):
    shown = show(heatmap_view(attend(layer, ["one two", "three"])), 80)
    assert shown.index("self-attention, random weights: one two") < shown.index("self-attention, random weights: three")


def test_scaled_stands_in_the_column_of_scaled(show, layer):
    comparison = compare_scaling(layer, layer.encode(["one two three"]), [0])
    (line,) = (line for line in show(view_of(comparison), 100).splitlines() if "standard deviation" in line)
    unscaled, scaled = comparison.unscaled.statistics[0], comparison.scaled.statistics[0]
    assert line.split()[-2:] == [f"{unscaled.score_std:.2f}", f"{scaled.score_std:.2f}"]


def test_the_sweep_has_both_tables(show):
    sweep = sweep_scaling(["one", "two"], 0, (2, 1024), draws=2)
    shown = show(view_of(sweep), 120)
    for results in (sweep.unscaled, sweep.scaled):
        assert f"{number_text(results[1].score_min, '.1f')} to {results[1].score_max:.1f}" in shown


@pytest.mark.parametrize("n", [4, 30, 120])
def test_hidden_keys_are_not_the_lowest_weight(show, n):
    """Up to 16 tokens have numbers; more have two rows a line where there is colour."""
    tokens = tuple(f"{i}" for i in range(n))
    m = made_map(tokens, tokens, np.eye(n, dtype=np.float32)[None], "masked")
    view = heatmap_view(Attention(Source("s"), (m,)))
    cells, legend = show(view, 140).split("; ·: later keys, hidden")
    assert cells.count("·") == n * (n - 1) // 2
    assert "·" not in legend
    assert "blank" not in cells + legend
    cells, legend = show(view, 140, "truecolor").split("; ·: later keys, hidden")
    is_halved = n > 16
    both_hidden = sum(range(n - 2, 0, -2)) if is_halved else n * (n - 1) // 2
    assert re.sub(r"\d+·\d+", "", cells).count("·") == both_hidden, "two row labels share a line"
    assert cells.count("▄") == (n // 2 if is_halved else 0), "the last key of every other query"
    assert not re.search(r"\x1b\[[^m]*8;2;[^m]*m *·", cells), "what is hidden has no colour"
    assert "blank" not in cells + legend


def test_the_cells_of_long_maps_that_are_hidden(show):
    tokens = tuple(f"{i}" for i in range(400))
    m = made_map(tokens, tokens, np.eye(400, dtype=np.float32)[None], "masked")
    pooled = pool_map(m, 40, 40)
    shown = show(heatmap_view(Attention(Source("s"), (pooled,))), 60)
    rows = [line.rsplit(" ", 1)[-1] for line in shown.splitlines() if line.endswith("·")]
    assert len(rows) == 19, "two rows of cells a line, and no key is hidden from the last"
    assert [line.count("·") for line in rows] == sorted((line.count("·") for line in rows), reverse=True)
    assert "·: later keys, hidden" in " ".join(shown.split())


@pytest.mark.parametrize("colour", [None, "truecolor"])
def test_hidden_keys_have_a_mark_and_no_number(show, colour):
    """Of scores as of weights, in four panels: 2, 1 and 0 keys are hidden from a query."""
    comparison = compare_scaling(*encoded(RandomLayer(16, 2, causal=True), ["one two three"]), [0])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", show(view_of(comparison), 120, colour))
    rows = [line for line in shown.splitlines() if line.split()[:1] in (["one"], ["two"], ["three"])]
    assert [line.split().count("·") for line in rows] == [4, 2, 0] * 2, "under the tokens of the columns"
    assert not re.search(r"\s-\s", shown)


def test_many_heads_are_shown_without_numbers(show):
    """Else a model of 72 heads would be a thousand lines."""
    names = tuple("abcdefgh")
    draw = np.random.default_rng(0)

    def lines(n_layers):
        weights = draw.dirichlet(np.ones(8), size=(n_layers, 12, 8)).astype(np.float32)
        maps = tuple(made_map(names, names, w, layer=layer) for layer, w in enumerate(weights))
        return show(heatmap_view(Attention(Source("made by a test"), maps)), 100).splitlines()

    assert any("0.1" in line for line in lines(2))
    many = lines(3)
    assert not any("0.1" in line for line in many)
    assert len(many) < len(lines(2))
    assert sum(" H11" in line for line in many) == 3


@pytest.mark.parametrize("log", [False, True])
def test_a_large_map_is_shown_without_copies_of_it(show, monkeypatch, log):
    """The colours of many weights go by all of them."""
    monkeypatch.setattr("mhaviz.pages.weight_range._AT_ONCE", 2**16)
    weights = np.full((1, 1500, 1500), 1 / 1500, np.float32)
    positions = tuple(map(str, range(1500)))
    attention = Attention(Source("s"), (made_map(positions, positions, weights),))
    tracemalloc.start()
    try:
        show(heatmap_view(attention, Style(log=log)), 80)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.75 * weights.nbytes
