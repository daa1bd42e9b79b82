import io
from itertools import combinations

import numpy as np
import pytest
from drawn import inside, texts
from looking import attend, encoded

from mhaviz.analyses.scaling import compare_scaling, sweep_scaling
from mhaviz.models.single_layer import RandomLayer
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.results.scaling import Scaling, ScalingComparison, ScoreStatistics
from mhaviz.views.figure.artists import Numbers
from mhaviz.views.figure.sheet import MOST_PIXELS
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style


def comparison(sentence="one two three", heads=(0,), **options):
    return compare_scaling(*encoded(RandomLayer(64, 4, **options), [sentence]), heads)


def images(sheet, prefix=""):
    found = [image for image in sheet.page.images if not image.get_label().startswith("scale of")]
    return [image for image in found if image.get_label().startswith(prefix)]


def test_four_panels_a_head_and_one_scale_for_each_kind():
    c = comparison(heads=(0, 2))
    sheet = figure_of(c)
    panels = images(sheet)
    assert len(panels) == 8
    expected = [x for i in range(2) for s in (c.unscaled, c.scaled) for x in (s.scores[i], s.weights[i])]
    for panel, values in zip(panels, expected, strict=True):
        assert np.array_equal(panel.get_array(), values)
    (limits,) = {panel.get_clim() for panel in panels[1::2]}  # both softmax panels on one scale
    largest = max(np.mean(weights.max(axis=-1)) for weights in c.scaled.weights)
    assert limits == (0, pytest.approx(2 * largest if 2 * largest < 0.8 else 1, rel=0.05))
    (limits,) = {panel.get_clim() for panel in panels[::2]}
    assert limits == (-np.abs(c.unscaled.scores).max(), np.abs(c.unscaled.scores).max())
    sheet.savefig(io.BytesIO(), dpi=40)


@pytest.mark.parametrize("length", [3, 9, 40, 120])
def test_unscaled_is_dark_in_few_cells_and_scaled_is_not(length):
    """At every length most unscaled rows have a cell of the darkest colours, and most scaled ones have not."""
    sentence = " ".join(f"w{i}" for i in range(length))
    layer = RandomLayer(512, 8, device_name="cpu")
    sheet = figure_of(compare_scaling(layer, layer.encode([sentence]), [0]), Style(dpi=72))
    unscaled, scaled = images(sheet, "softmax")
    shares = [np.asarray(image.norm(image.get_array())).clip(0, 1) for image in (unscaled, scaled)]
    largest = [share.max(axis=-1) for share in shares]
    assert (largest[0] > 0.8).mean() > 0.6
    assert ((largest[1] > 0.2) & (largest[1] < 0.8)).mean() > 0.6
    end = sheet_end(sheet)
    assert end.startswith("≥") == (np.asarray(unscaled.get_array()).max() > scaled.get_clim()[1])


def sheet_end(sheet):
    """What stands at the end of the scale of weights."""
    (bar,) = (image for image in sheet.page.images if image.get_label() == "scale of weight")
    _, right, _, top = bar.get_extent()
    (text,) = (t for t in sheet.page.texts if np.allclose(t.get_position(), (right + 0.05, top), atol=0.01))
    return text.get_text()


def test_one_head_has_unscaled_on_the_left_and_scores_on_top():
    c = comparison()
    panels = {image.get_label(): image.get_extent() for image in images(figure_of(c))}
    product, scaled = panels["L0 H0: q·k"], panels["L0 H0: q·k / √16"]
    assert product[0] < scaled[0]
    assert product[2] < panels["softmax(q·k)"][3]
    assert product[0] == panels["softmax(q·k)"][0]


def test_hidden_scores_are_blank():
    panel = images(figure_of(comparison(causal=True)))[0]
    assert np.isnan(np.asarray(panel.get_array())[0, 1])
    assert tuple(panel.get_cmap().get_bad()) == (1, 1, 1, 1)


@pytest.mark.parametrize("sentence", ["one", "one two", " ".join(f"w{i}" for i in range(40))])
def test_nothing_is_drawn_outside_the_sheet(sentence):
    inside(figure_of(comparison(sentence)))


def test_the_sweep_draws_measures_and_theory():
    sweep = sweep_scaling(["one", "two", "three"], 0, (2, 8, 32), draws=2)
    sheet = figure_of(sweep)
    plots = sheet.axes[1:]
    assert len(plots) == 6
    lines = [np.asarray(line.get_ydata()) for line in plots[0].lines]
    assert any(np.allclose(line, np.sqrt([2, 8, 32])) for line in lines)
    assert any(np.allclose(line, [s.score_std for s in sweep.unscaled]) for line in lines)
    shown = texts(sheet)
    assert sweep.source.footnote in shown
    assert [shown.count(name) for name in ("q·k, unscaled", "q·k / √d_key", "theory: √d_key")] == [6, 6, 1], "at ends"
    renderer = sheet.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in sheet.page.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not any(box.overlaps(axes.bbox) for box in boxes for axes in plots)
    for axes in plots:
        assert [axes.xaxis.get_ticklocs()[i] for i in (0, -1)] == [2, 32], "as the title says"
        assert ("%" in axes.yaxis.get_major_formatter()(0.4)) == axes.get_title(loc="left").startswith("rows saturated")
    sheet.savefig(io.BytesIO(), dpi=40)


def report_of(sentence, n_heads, target=None):
    layer = RandomLayer(128, n_heads, device_name="cpu")
    inputs = layer.encode([sentence], target)
    return Report(attend(layer, [sentence], target), layer.trace(inputs), compare_scaling(layer, inputs, [0]))


@pytest.mark.parametrize(
    ("sentence", "n_heads", "target"),
    [
        ("I wonder what will come next", 8, None),
        ("one", 1, None),
        ("a b c", 2, "d e"),
        (" ".join(f"w{i}" for i in range(300)), 16, None),
        (" ".join(f"word{i}" for i in range(40)), 16, None),
        ("I wonder what will come next", 64, None),
    ],
)
def test_a_report_is_one_page_with_everything_on_it(sentence, n_heads, target):
    report = report_of(sentence, n_heads, target)
    sheet = figure_of(report)
    shown = texts(sheet)
    for part in ("the shapes on the way", "concat", report.source.footnote):
        assert part in shown
    assert len(images(sheet, "L0 H")) == n_heads
    assert len(images(sheet, "softmax")) == 2
    inside(sheet)
    across, down = sheet.get_size_inches()
    assert across <= 8.27 + 1 / sheet.dpi, "A4"
    assert down <= 11 + 1 / sheet.dpi, "letter paper"
    sizes = [text.get_fontsize() for text in sheet.page.texts]
    sizes += [group.font.get_size_in_points() for group in sheet.page.collections if isinstance(group, Numbers)]
    assert min(sizes) >= 6


def test_a_report_that_needs_more_than_a_page_says_so():
    sheet = figure_of(report_of("one two three", 128), Style(font_size=24))
    assert any("more than a page" in notice for notice in sheet.notices)


@pytest.mark.parametrize("width", [3.3, 7.0])
def test_a_report_of_a_given_width_has_it(width):
    sheet = figure_of(report_of("I wonder what will come next", 8), Style(width=width))
    assert sheet.get_size_inches()[0] == pytest.approx(width, abs=0.01)
    inside(sheet)


def test_a_picture_with_fewer_pixels_keeps_its_spikes():
    n = 1000
    weights = np.zeros((3, n, n), np.float32)
    weights[:, 500, 123] = 1
    names = tuple(map(str, range(n)))
    numbers = ScoreStatistics(1, 0, 1, 1, 1, 0, 0, n)
    scaling = Scaling(weights, weights, (numbers,) * 3)
    c = ScalingComparison(Source("test"), names, names, tuple(range(3)), 64, scaling, scaling, "self", "/ √64")
    sheet = figure_of(c, Style(dpi=900))
    assert max(sheet.get_size_inches()) * sheet.dpi <= MOST_PIXELS
    assert sheet.dpi < 900
    for image in images(sheet):
        left, right, _, _ = image.get_extent()
        assert image.get_array().shape[1] <= (right - left) * sheet.dpi + 1, "no more cells than pixels"
