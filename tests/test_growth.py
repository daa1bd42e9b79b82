"""What grows with a text, counted instead of timed: nothing faster than the text itself."""

import io
import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from looking import attend, traced
from matplotlib.figure import Figure
from rich.cells import cell_len

from mhaviz.analyses.scaling import compare_scaling
from mhaviz.cli.shared.console import progress
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages import labels
from mhaviz.results.report import Report
from mhaviz.views.figure import measuring
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit, wrap
from mhaviz.views.showing import figure_of


@pytest.fixture
def measured(monkeypatch):
    """The lengths of all texts whose cells were counted."""
    lengths = []
    monkeypatch.setattr(labels, "cell_len", lambda text: lengths.append(len(text)) or cell_len(text))
    return lengths


@pytest.mark.parametrize("text", ["x" * 20_000, "鯨" * 20_000, "a" + "\u0301" * 20_000, "👩\u200d" * 10_000])
@pytest.mark.parametrize("width", [10, 400, 9000])
def test_a_long_text_is_cut_without_trying_every_length(measured, text, width):
    labels.cut(text, width)
    assert sum(measured) <= 10 * len(text)


@given(st.text(st.sampled_from("ab我\u0301\u200d\ufe0f☺👩漢 "), max_size=80), st.integers(1, 30))
def test_a_cut_text_begins_with_as_much_as_fits(text, width):
    def width_of(part):
        return max(cell_len(part), len(part) // 4)

    taken = ""
    for character in text:
        if width_of(taken + character) > width:
            break
        taken += character
    assert labels._take(text, width) == taken


@pytest.fixture
def tried(monkeypatch):
    """The texts that were measured: each letter is a tenth of an inch wide."""
    tried = []
    monkeypatch.setattr(measuring, "text_width", lambda text, *_: tried.append(text) or len(text) / 10)
    return tried


@pytest.mark.parametrize("inches", [0.1, 1, 3, 30, 300])
def test_a_text_is_fitted_in_a_few_trials_and_as_if_all_were_tried(tried, inches):
    found = fit(lambda cells: "x" * cells, 5000, inches, 8.0, ("DejaVu Sans",))
    assert len(found) == max(cells for cells in range(1, 5001) if cells / 10 <= max(inches, 0.1) + 0.02)
    assert len(tried) <= 15


@pytest.mark.parametrize("inches", [1, 3, 8, 30, 300])
def test_a_text_is_wrapped_in_a_few_trials_and_as_by_the_standard_library(tried, inches):
    text = " ".join("x" * (1 + i * i % 9) for i in range(200))
    lines = wrap(text, inches, 8.0)
    assert lines == textwrap.wrap(text, 10 * inches)
    assert len(tried) <= 1 + 6 * len(lines)


def test_shapes_alone_are_traced_without_a_draw_for_every_word(monkeypatch):
    drawn, draw = [], torch.Tensor.normal_
    monkeypatch.setattr(torch.Tensor, "normal_", lambda x, *of, **how: drawn.append(x.shape) or draw(x, *of, **how))
    trace = traced(RandomLayer(16, 2), [" ".join(f"word{i}" for i in range(3000))])
    assert trace.step("Q heads").shape == (1, 2, 3000, 8)
    assert len(drawn) < 10


def test_a_report_shows_each_token_a_few_times_whatever_columns_it_tries(monkeypatch):
    layer, text = RandomLayer(16, 8), [" ".join(f"word{i}" for i in range(300))]
    comparison = compare_scaling(layer, layer.encode(text), (0,))
    page = Report(attend(layer, text), layer.trace(layer.encode(text)), comparison)
    shown, show = [], Fonts.shown
    monkeypatch.setattr(Fonts, "shown", lambda self, token: shown.append(token) or show(self, token))
    assert isinstance(figure_of(page), Figure)
    assert sum(text.startswith("word") for text in shown) <= 6 * 300  # labels of two sizes have two forms


def test_a_report_of_more_tokens_than_a_page_shows_is_refused_before_the_work(mhaviz, monkeypatch):
    monkeypatch.setattr(RandomLayer, "run", None)
    result = mhaviz("report", "鯨" * 5000)
    assert result.status == 2
    assert result.err == (
        "mhaviz: report: expected at most 4,096 tokens, got 5,000; draw longer texts by mhaviz heatmap, or "
        "attend in Python\n"
    )


@pytest.mark.parametrize(("quiet", "is_terminal"), [(False, True), (True, True), (False, False)])
def test_work_says_so_on_a_terminal(monkeypatch, quiet, is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", stream)
    with progress(quiet, "drawing", is_counted=False):
        pass
    assert ("drawing" in stream.getvalue()) == (is_terminal and not quiet)
