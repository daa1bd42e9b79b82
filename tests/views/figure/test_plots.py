"""What ``plot`` returns: the figure that ``save`` writes, or one head on Axes of the user."""

import io
from dataclasses import fields
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from drawn import texts
from made import hiding
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import mhaviz as package
from mhaviz import ArgumentError
from mhaviz.cli.app import COMMANDS, load_command
from mhaviz.results.attention import Attention
from mhaviz.results.result import Looks, Source
from mhaviz.views.html.contents import contents_of
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

WORDS = ("the", "cat", "sat", "on")
WHITE = (255, 255, 255)


@pytest.fixture
def attention(random_map):
    """Two masked heads, whose rows sum to 1 over the keys that are seen."""
    m = hiding(random_map(2, WORDS, kind="masked"))
    m.weights[:] /= m.weights.sum(axis=-1, keepdims=True)
    return Attention(Source("made by a test"), (m,))


@pytest.mark.parametrize(("study", "look"), [
    (lambda a: a, {"width": 3.3, "dpi": 60}),
    (lambda a: a.of_query("sat"), {}),
    (lambda a: a.mean(), {"cmap": "bone", "title": "mine", "font_size": 6}),
])  # fmt: skip
def test_a_plot_is_what_is_saved(attention, tmp_path, study, look):
    result = study(attention)
    result.save(tmp_path / "saved.png", tmp_path / "saved.svg", **look)
    figure, svg = result.plot(**look), io.BytesIO()
    figure.save(svg, "svg")
    assert svg.getvalue() == (tmp_path / "saved.svg").read_bytes()
    with matplotlib.rc_context({"savefig.dpi": 30, "text.hinting": "native", "savefig.bbox": "tight"}):
        figure.savefig(tmp_path / "plotted.png")
    plotted, saved = (Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("plotted", "saved"))
    assert (plotted.size, plotted.tobytes()) == (saved.size, saved.tobytes())


@pytest.mark.parametrize("size", [8, 5])
@pytest.mark.parametrize(
    ("positions", "shown"), [(True, ["t₀", "h", "a", "t₃"]), (None, ["t₀", "h", "a", "t₃"]), (False, list("that"))]
)
def test_positions_are_a_look_of_every_medium(random_map, show, positions, shown, size):
    """Only of what occurs twice, also where letters are too small for subscripts."""
    result = Attention(Source("made by a test"), (random_map(1, tuple("that")),)).select(head=0)
    small = [label.replace("₀", " #0").replace("₃", " #3") for label in shown] if size < 7 else shown
    written = texts(result.plot(positions=positions, font_size=size, title=""))
    assert [text for text in written if text[0] in "tha" and len(text) < 5] == 2 * small
    ax = Figure(figsize=(3, 3)).subplots()
    result.plot(ax=ax, positions=positions, font_size=size)
    assert [label.get_text() for label in ax.get_xticklabels()] == small
    style = Style.of({"positions": positions})
    lines = show(view_of(result, style)).splitlines()
    assert lines[2].split() == shown
    assert [line.split()[0] for line in lines[3:7]] == shown
    (side,) = contents_of(result, style).document["tokens"]
    assert (side["labels"], side["positions"]) == (list("that"), positions is not False), "the page writes them"


@pytest.mark.parametrize("settings", [{}, {"image.origin": "lower", "axes.grid": True, "axes.facecolor": "black"}])
def test_a_head_on_axes_of_the_user(attention, settings):
    """Its colours are those that matplotlib gives the weights, in the middle of each cell; hidden ones are white."""
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(6, 3), dpi=100)
        canvas = FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2)
        before = figure.get_size_inches().tolist(), figure.dpi, left.get_position().bounds, matplotlib.rcParams.copy()
        image = attention.select(head=1).plot(ax=right, cmap="viridis", vmax=0.8)
        canvas.draw()
        after = figure.get_size_inches().tolist(), figure.dpi, left.get_position().bounds, matplotlib.rcParams.copy()
    assert after == before
    assert list(right.images) == [image]
    assert figure.axes == [left, right]
    weights, hidden = attention[0].weights[1], np.triu(np.ones((4, 4), bool), 1)
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), np.where(hidden, np.nan, weights))
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    colours = matplotlib.colormaps["viridis"](np.clip(weights / 0.8, 0, 1), bytes=True)[..., :3]
    for (row, column), is_hidden in np.ndenumerate(hidden):
        x, y = right.transData.transform((column, row)).round().astype(int)
        drawn, wanted = pixels[pixels.shape[0] - y, x], WHITE if is_hidden else colours[row, column]
        assert np.abs(drawn.astype(int) - wanted).max() <= 1, (row, column)
    labels = [[label.get_text() for label in labels] for labels in (right.get_yticklabels(), right.get_xticklabels())]
    assert labels == [list(WORDS)] * 2
    assert (right.get_title(), right.get_ylabel(), right.get_xlabel()) == ("L0 H1", "query", "key")


def test_many_tokens_have_as_many_labels_as_have_room(random_map):
    words = tuple(f"w{i}" for i in range(40))
    ax = Figure(figsize=(2, 2), dpi=100).subplots()
    random_map(1, words).plot(ax=ax, font_size=6)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert 4 < len(boxes) < 40
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(boxes))
    for place, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True):
        assert label.get_text() == f"w{round(place)}"


@pytest.mark.parametrize(("look", "message"), [
    ({"width": "3.3in"}, "`width`: expected a number of inches, such as 3.3, got '3.3in'"),
    ({"dpi": "high"}, "`dpi`: expected a number of pixels an inch, got 'high'"),
    ({"columns": 2.5}, "`columns`: expected a whole number of heads side by side, got 2.5"),
    ({"log": "yes"}, "`log`: expected True or False, got 'yes'"),
    ({"positions": "off"}, "`positions`: expected True or False, got 'off'"),
    ({"vmax": True}, "`vmax`: expected a number, got True"),
    ({"cmap": 3}, "`cmap`: expected the name of a colormap, got 3"),
    ({"colour": 3}, "a picture has no colour: expected a style among cmap, dpi"),
    ({"ax": Figure().subplots()}, "`ax`: expected one head to draw in it, got 2; choose one, as attention.select"),
    ({"ax": Figure().subplots(2)}, "`ax`: expected one matplotlib Axes, got ndarray; give one of them, as axes"),
    ({"ax": Figure().subplots(), "width": 3}, "`width`: expected none beside `ax`, whose figure is yours, got 3"),
])  # fmt: skip
def test_what_is_wrong_is_said(attention, look, message):
    with pytest.raises(ArgumentError, match=message):
        attention.plot(**look)


def test_no_weight_is_above_1():
    with pytest.raises(ArgumentError, match="`vmax`: expected a weight from 1e-30 to 1, or auto, got 3"):
        package.matrices("random", "a b").plot(vmax=3)


def test_the_looks_are_one_list():
    """The fields of ``Style``: of Python for editors, and, with the same defaults, of every command."""
    assert Looks.__annotations__.keys() == {one.name for one in fields(Style)}
    assert Style.of(dict.fromkeys(Looks.__annotations__)) == Style()
    offered = {}
    for name in COMMANDS:
        options = [one for one in load_command(name).params if getattr(one, "rich_help_panel", "") == "Appearance"]
        assert {one.name: one.default for one in options}.items() <= vars(Style()).items(), name
        offered[name] = {one.name for one in options}
    assert offered["embeddings"] == offered["heads"] | {"positions"}, "rows of tokens"
    assert [name for name in offered if offered[name] == vars(Style()).keys()] == [
        "heatmap",
        "record",
        "report",
        "show",
    ]
