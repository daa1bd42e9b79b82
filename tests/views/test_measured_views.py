"""What the views make of measurements: records written by hand, so that every number is known."""

import io
import json
import re
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from drawn import texts
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.cells import cell_len

from mhaviz.analyses.scaling import sweep_scaling
from mhaviz.pages.blocks import Column, Curves, Plot, PlotAxis, Series, Table
from mhaviz.pages.registry import page_of
from mhaviz.results.complexity import Complexity, CostTerm, LongestInput, TimeOrder
from mhaviz.results.implementations import Implementation, ImplementationComparison
from mhaviz.results.result import Source
from mhaviz.results.timing import Timing
from mhaviz.views.data import document, write_json
from mhaviz.views.figure.curves import decide_curves, draw_plot, log_ticks, name_places
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.showing import figure_of, figures_of, view_of
from mhaviz.views.style import Style
from mhaviz.views.terminal.page import PageView
from mhaviz.views.terminal.tables import table_lines

SLOW = (
    Timing(0.0123, 3, 200_704, quartiles=(0.0122, 0.0124)),
    Timing(2.5, 3, quartiles=(2.4, 2.6)),
    Timing(would_take=40.2),
)
FAST = (
    Timing(0.00041, 50, 172_032, quartiles=(0.0004, 0.0005)),
    Timing(0.0036, 40, 4_718_592, quartiles=(0.003, 0.004)),
    Timing(would_need=3 * 2**30),
)


@pytest.fixture
def comparison():
    ways = (
        Implementation("nested loops", "for, for", True, SLOW, (7e-7, 4.2e-7, None), (1.0, 1.0, None)),
        Implementation("fused kernel", "F.fused", False, FAST, (6.1e-7, 3e-7, None), (30.0, 694.44, None)),
    )
    return ImplementationComparison(Source("made by hand", {"seed": 0}), (16, 256, 1024), ways, "float64")


@pytest.fixture
def complexity():
    return make_complexity()


CROSSES = TimeOrder("crosses", (64, 512, 4096), (571.2, 948.0))
UNMEASURED = TimeOrder("unmeasured", ())


def make_complexity(skipped=False, order=CROSSES, lengths=(64, 512, 4096)):
    scores, weights, output = ([factor(N) for N in lengths] for factor in (
        lambda N: 1024 * N**2, lambda N: 40 * N**2, lambda N: 8 * 512**2 * N
    ))  # fmt: skip
    terms = (
        CostTerm("S", "Q Kᵀ", "attention", "2·N²·d_model", "", tuple(scores), (0,) * len(lengths)),
        CostTerm("A", "softmax(S)", "attention", "5·n_heads·N²", "4·n_heads·N²", tuple(weights), tuple(weights)),
        CostTerm("O", "H Wo", "projections", "8·N·d_model²", "4·N", tuple(output), tuple(output)),
    )
    nothing = (Timing(would_take=7200.0),) * len(lengths)
    fast, slow = (
        tuple(Timing(t, 9, 4 * N, quartiles=(t, t), passes=(t,) * 5) for N, t in zip(lengths, seconds, strict=True))
        for seconds in ([N / 1e5 for N in lengths], [N**2 / 1e8 for N in lengths])
    )
    return Complexity(
        Source("made by hand"), 512, 8, lengths, terms, 4_202_496,
        *((nothing,) * 3 if skipped else (fast, slow, slow)),
        512, 1024, order,
        (LongestInput("cpu", 2**34, 23_170), LongestInput("cuda", None, None)),
    )  # fmt: skip


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def as_json(record):
    stream = io.StringIO()
    write_json(document(record), stream)
    return json.loads(stream.getvalue())


def test_every_number_stands_in_its_row(show, comparison):
    rows = [line.split() for line in plain(show(view_of(comparison), 80)).splitlines()]
    assert ["16", "nested", "loops", "12.3", "ms", "±", "1%", "1.00", "×", "196.0", "KiB", "7.0e−07"] in rows
    assert ["16", "fused", "kernel", "410", "µs", "±", "12%", "30.0", "×", "168.0", "KiB", "6.1e−07"] in rows
    assert ["256", "nested", "loops", "2.50", "s", "±", "4%", "1.00", "×", "–", "4.2e−07"] in rows
    assert ["256", "fused", "kernel", "3.60", "ms", "±", "14%", "694", "×", "4.5", "MiB", "3.0e−07"] in rows
    assert ["1,024", "nested", "loops", "skipped", "–", "–", "–"] in rows


def test_what_was_skipped_is_said(show, comparison):
    shown = plain(show(view_of(comparison), 100))
    assert "nested loops, skipped: N = 1,024 would take about 40 s" in shown
    assert "fused kernel, skipped: N = 1,024 would need about 3.0 GiB" in shown
    assert "fused kernel: gives no weights" in shown
    assert "made by hand" in shown


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_are_split_and_not_cut(show, comparison, complexity, width):
    for view in (view_of(comparison), view_of(complexity)):
        shown = plain(show(view, width, "truecolor"))
        assert max(cell_len(line) for line in shown.splitlines()) <= width
        assert "…" not in shown.replace("Wq … Wo", "")
    implementations = plain(show(view_of(comparison), width))
    assert implementations.count("nested loops") >= 3 * (2 if width < 60 else 1) + 2


def test_predicted_and_measured_beside_each_other(show, complexity):
    rows = [line.split() for line in plain(show(view_of(complexity), 100)).splitlines()]
    numbers = "512 1.07 G 279 M 5.12 ms ± 0% 2.62 ms ± 0% 2.62 ms ± 0% 1.0 GiB 10.0 MiB"
    assert numbers.split() in rows
    shown = plain(show(view_of(complexity), 120))
    for line in (
        "N²·d_model = N·d_model² at N = d_model = 512",
        "at N = 2·d_model = 1,024",
        "beside the projections: more time beyond N = 570 to 950 (5 passes, resampled)",
        "cpu: 16.0 GiB are free now; the weights of 23,170 tokens fit",
        "cuda: free memory is unknown",
        "parameters: 4.0 MiB",
    ):
        assert line in shown


def test_predictions_without_measurements(show):
    complexity = make_complexity(skipped=True, order=UNMEASURED)
    shown = plain(show(view_of(complexity), 120))
    assert "beside the projections" not in shown
    assert "whole layer, skipped: N = 64 would take about 2.0 h" in shown
    assert "FLOP/s" not in shown
    assert "1.07 G" in shown
    sheet = figure_of(complexity)
    assert "nothing was measured" in texts(sheet)
    sheet.save(io.BytesIO(), "png")


def lines(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


@pytest.mark.parametrize(
    ("order", "times"),
    [
        (CROSSES, ", more time beyond N = 570 to 950"),
        (TimeOrder("less", (64, 512, 4096)), ", less time at all N measured from 64 to 4,096"),
        (TimeOrder("more", (64, 512, 4096)), ", more time at all N measured from 64 to 4,096"),
        (TimeOrder("less", (64,)), ", less time at N = 64"),
        (TimeOrder("mixed", (64, 512, 4096)), ", more time at some lengths and less at others"),
        (TimeOrder("unclear", (64, 512, 4096)), ", whether more time is not known: passes disagree"),
        (UNMEASURED, ""),
    ],
)
def test_the_title_says_what_is_known_of_times(show, order, times):
    page = page_of(make_complexity(order=order))
    assert page.title == f"Attention takes more operations than its projections beyond N = 1,024 tokens{times}"
    said = plain(show(PageView(page, Style()), 200))
    assert times.removeprefix(", ") in said.split("N = 2·d_model = 1,024")[1]
    left_out = [N for N in (64, 512, 4096) if N not in order.lengths]
    skipped = f"some passes skipped it: N = {', '.join(f'{N:,}' for N in left_out)}"
    assert (skipped in said) == bool(left_out)


@pytest.mark.parametrize(
    ("firsts", "peaks", "title"),
    [
        ((0.0041,), (2**24,), "the fused kernel is fastest, 1.25 × ahead, and holds least memory"),
        ((0.0041,), (2**20,), "the fused kernel is fastest, 1.25 × ahead; the A holds least memory"),
        ((0.0041,), (4_718_592,), "the fused kernel is fastest, 1.25 × ahead"),  # both hold the same
        ((0.0041,), (None,), "the fused kernel is fastest, 1.25 × ahead"),
        (
            (0.0039, 0.0041),
            (2**24, 2**24),
            "the A and the fused kernel are fastest, with overlapping spreads; the fused kernel holds least memory",
        ),
        (
            (0.0039, 0.0038, 0.0037, 0.0041),
            (2**24,) * 4,
            "the A, the B, the C and the fused kernel are fastest, with overlapping spreads; the fused kernel holds "
            "least memory",
        ),
    ],
)
def test_the_title_calls_nobody_fastest_within_the_spread(comparison, firsts, peaks, title):
    slow, fast = comparison.implementations
    others = tuple(
        replace(slow, name=name, timings=(SLOW[0], Timing(0.0045, 40, peak, quartiles=(first, 0.005)), SLOW[2]))
        for name, first, peak in zip("ABCD", firsts, peaks, strict=False)
    )
    heading = page_of(replace(comparison, implementations=(*others, fast))).title
    assert heading == f"The same attention, five ways: at N = 256 {title}"


def test_the_title_leaves_out_nobody_with_a_smaller_median_than_one_it_names(comparison):
    slow, fast = comparison.implementations
    measured = {"A": (0.0048, 0.0039), "B": (0.0045, 0.0041)}  # seconds, first quartile
    others = tuple(
        replace(slow, name=name, timings=(SLOW[0], Timing(median, 40, 2**24, quartiles=(first, 0.005)), SLOW[2]))
        for name, (median, first) in measured.items()
    )
    heading = page_of(replace(comparison, implementations=(*others, fast))).title
    assert "the A, the B and the fused kernel are fastest" in heading


def test_only_media_that_draw_bands_explain_them(show, comparison, complexity):
    for record in (comparison, complexity):
        drawn = texts(figure_of(record))
        assert " ".join(drawn).count("band: the middle half of the runs, of several passes over all lengths") == 1
        assert "±" not in " ".join(drawn), "which tables have"
        assert "band" not in plain(show(view_of(record), 120))
    skipped = (Timing(would_take=40.2),) * 3
    ways = tuple(replace(one, timings=skipped) for one in comparison.implementations)
    for record in (replace(comparison, implementations=ways), make_complexity(skipped=True, order=UNMEASURED)):
        plots = [plot for block in page_of(record).blocks if isinstance(block, Curves) for plot in block.plots]
        assert not any("band" in note for plot in plots for note in plot.notes)


def test_the_legend_says_why_each_curve_ends(comparison):
    slow, fast = comparison.implementations
    others = tuple(replace(fast, name=f"{i}. way") for i in range(3))  # whose curves end together
    shown = texts(figure_of(replace(comparison, implementations=(slow, *others, fast))))
    for reason, times in (("would take about 40 s", 1), ("would need about 3.0 GiB", 4)):
        assert len([text for text in shown if text.endswith(f"skipped from N = 1,024, which {reason}")]) == times
        assert reason not in shown, "beside a curve it would cover other curves"


def test_the_figure_draws_what_was_measured(comparison):
    sheet = figure_of(comparison)
    ratios, times, memories = sheet.axes[1:]
    assert lines(ratios) == {"fused kernel": ([16, 256], [1, 1])}, "the nested loops are named below"
    for band, ends in zip(times.collections, [(0.0122, 2.6), (0.0004, 0.004)], strict=True):
        points = band.get_paths()[0].vertices
        np.testing.assert_allclose([points[:, 1].min(), points[:, 1].max()], ends)
    assert lines(times) == {"nested loops": ([16, 256], [0.0123, 2.5]), "fused kernel": ([16, 256], [0.00041, 0.0036])}
    assert lines(memories) == {"nested loops": ([16], [200_704]), "fused kernel": ([16, 256], [172_032, 4_718_592])}
    assert len({line.get_color() for line in times.lines}) == len({line.get_marker() for line in times.lines}) == 2
    assert {axes.get_yscale() for axes in (times, memories)} == {"log"}
    shown = texts(sheet)
    at_ends = {"nested loops": 2, "fused kernel": 3}
    assert {name: shown.count(name) - 1 for name in at_ends} == at_ends, "and once in the table"
    row = shown.index("F.fused")
    assert shown[row - 1 : row + 3] == ["fused kernel", "F.fused", "6.1e−07", "694 ×"]
    assert "fused kernel: gives no weights; skipped from N = 1,024, which would need about 3.0 GiB" in shown
    assert "speed-up: against the nested loops, at N = 256" in shown
    assert "made by hand" in shown


def test_the_figure_marks_the_crossings(complexity):
    sheet = figure_of(complexity)
    operations, times, sizes = sheet.axes[1:]
    assert lines(operations)["projections"][1] == [8 * 512**2 * N for N in (64, 512, 4096)]
    assert lines(times)["attention"][1] == [N**2 / 1e8 for N in (64, 512, 4096)]
    assert lines(sizes)["weights A"] == (
        [64, 512, 4096, 23_170],
        [*(40 * N**2 for N in (64, 512, 4096)), 2**34],
    )
    assert {"N = 512", "N = 1,024", "N = 570 to 950", "N = 23,170"} <= set(texts(sheet))
    rings = [line for line in sheet.page.lines if line.get_markersize() == 8]
    assert texts(sheet).count("predicted") == sum(line.get_linestyle() == ":" for line in times.lines) == 2
    assert "; predicted: " in " ".join(texts(sheet))
    assert "upright band: where attention begins to take more time, the middle 90% of resampled passes" in " ".join(
        texts(sheet)
    )
    assert len(rings) == 3
    (span,) = (patch for patch in times.patches if patch.get_alpha())
    assert (span.get_x(), span.get_width()) == pytest.approx((571.2, 948 - 571.2))


@pytest.mark.parametrize(
    ("lengths", "skipped", "order"),
    [
        ((16,), False, TimeOrder("less", (16,))),
        ((10**12,), True, UNMEASURED),
        ((1, 10**12), False, TimeOrder("unclear", (1, 10**12))),
        (range(1, 41), False, TimeOrder("crosses", tuple(range(1, 41)), (7.0, 24.0))),
    ],
)
def test_nothing_is_drawn_outside_the_sheet(lengths, skipped, order):
    inside(figure_of(make_complexity(skipped, order, tuple(lengths))))


def test_nor_in_the_other(comparison):
    inside(figure_of(comparison))


def inside(sheet):
    renderer = sheet.canvas.get_renderer()
    ticks = (
        (axes, *tick) for axes in sheet.axes[1:] for tick in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    )
    labels = [label for axes, tick, label in ticks if axes.viewLim.x0 <= tick <= axes.viewLim.x1]
    assert labels
    for text in [*sheet.page.texts, *labels]:
        extent = text.get_window_extent(renderer)
        assert extent.x0 >= 0, text
        assert extent.y0 >= 0, text
        assert extent.x1 <= sheet.width * sheet.dpi + 1, text
        assert extent.y1 <= sheet.height * sheet.dpi + 1, text
    sheet.draw_without_rendering()


SPANS = [(1, 2, 1000, 1001, 1002, 5000, 10**6), (64, 26_569), (1024, 131_072), (2**14, 2**20)]


@pytest.mark.parametrize("lengths", SPANS)
def test_labels_of_the_axes_do_not_touch(lengths):
    sheet = Sheet(5, 4, 100)
    plot = Plot("t", (Series("a", lengths, lengths),), PlotAxis(log=2), PlotAxis(log=10, unit=str))
    draw_plot(sheet, (1, 1, 2.75, 2), plot)
    renderer = sheet.canvas.get_renderer()
    extents = [label.get_window_extent(renderer) for label in sheet.axes[1].get_xticklabels()]
    assert len(extents) >= 2
    assert all(left.x1 < right.x0 for left, right in pairwise(extents))


@pytest.mark.parametrize("ends", [(0.0123, 2.6), (1.0, 1.3), (3.0, 3.0), (5.0, 4e9)])
@pytest.mark.parametrize("base", [2, 10])
def test_a_logarithmic_axis_ends_where_its_points_end(ends, base):
    sheet = Sheet(4, 3, 100)
    plot = Plot("", (Series("a", (1.0, 2.0), ends, 0, 0),), PlotAxis(), PlotAxis(log=base, unit=str))
    draw_plot(sheet, (0.5, 0.5, 3, 2), plot)
    axis = sheet.page.figure.axes[-1].yaxis
    low, high = axis.get_view_interval()
    assert low < ends[0] <= ends[1] < high
    beyond = 1 - np.log(ends[1] / ends[0]) / np.log(high / low)
    assert beyond < 0.06 or high / low < 3, "where a shorter axis might have no tick"
    assert any(low <= tick <= high for tick in axis.get_ticklocs())


@pytest.mark.parametrize("log", [None, 10])
def test_a_band_lies_in_its_plot(log):
    sheet = Sheet(4, 3, 100)
    series = Series("a", (1.0, 2.0), (1.0, 1.5), 0, 0, band=((0.2, 1.2), (1.1, 9.0)))
    draw_plot(sheet, (0.5, 0.5, 3, 2), Plot("", (series,), PlotAxis(), PlotAxis(log=log)))
    low, high = sheet.page.figure.axes[-1].get_ylim()
    assert low <= 0.2
    assert high >= 9.0


def test_a_legend_names_curves_in_the_order_of_their_ends():
    sheet = Sheet(6, 4, 100)
    plot = Plot("t", (Series("low", (1, 2), (9.0, 1.0), 0, 0), Series("high", (1, 2), (1.0, 9.0), 1, 1)),
                PlotAxis(log=2), PlotAxis(log=10, unit=str))  # fmt: skip
    part = decide_curves(Curves((plot, ending(*[0.5] * 6)), Table((), ())), Style())
    part.draw(sheet, 0, 0, 9.5)
    assert [text.get_text() for text in sheet.legends[0].get_texts()] == ["high", "low", *"abcdef"]


def ending(*ends, last=2.0):
    """A plot of curves a, b, … from 0 to these ends; the last one ends at ``last``."""
    xs = [*[2.0] * (len(ends) - 1), last]
    series = (Series("abcdef"[i], (1.0, x), (0.0, y), i, i) for i, (x, y) in enumerate(zip(xs, ends, strict=True)))
    return Plot("t", tuple(series), PlotAxis(), PlotAxis(limits=(0, 1)))


@pytest.mark.parametrize(
    ("plot", "places"),
    [
        (ending(0.25, 0.75), {"a": 0.5, "b": 1.5}),
        (ending(0.5, 0.5), {"a": 1 - 0.0625, "b": 1 + 0.0625}),
        (ending(0.52, 0.5), {"b": 1.02 - 0.0625, "a": 1.02 + 0.0625}),
        (ending(0.5, 0.5, 0.5), {"a": 1 - 0.125, "b": 1, "c": 1 + 0.125}),
        (ending(0.0, 0.5, 0.0), {"a": 0.0, "c": 0.125, "b": 1}),
        (ending(*[0.5] * 6), None),
        (ending(0.5, 0.75, last=1.5), {"a": 1, "b": 1.5}),
        (ending(*[0.01 * i for i in range(5)], last=1.01), None),
    ],
)
def test_names_stand_apart_at_the_ends_of_their_curves_or_not_at_all(plot, places):
    found = name_places(plot, (2.0, 2.0))
    assert (found is None) == (places is None)
    if found and places:
        assert {name.series.name: name.middle for name in found} == pytest.approx(places, abs=0.19)
        assert [name.series.name for name in found] == list(places), "from below"
        for name in found:
            assert name.has_leader or abs(name.middle - name.end[1]) <= 0.75 * 0.125 + 1e-9


@pytest.mark.parametrize(
    ("plots", "at_ends"),
    [
        ((ending(0.25, 0.75), ending(0.5, 0.9)), True),
        ((ending(0.25, 0.75), ending(0.5, 0.5, 0.5)), True),
        ((ending(0.25, 0.75), ending(*[0.5] * 6)), False),
    ],
)
def test_names_stand_at_the_ends_of_all_curves_or_in_a_legend(plots, at_ends):
    curves = Curves(plots, Table((), ()))
    part, sheet = decide_curves(curves, Style()), Sheet(10, 6, 100)
    assert part.at_ends == at_ends
    part.draw(sheet, 0, 0, 9.5)
    assert bool(sheet.legends) != at_ends
    assert named(sheet).count("a") == (len(plots) if at_ends else 1)
    inside(sheet)


def named(sheet):
    """The names of curves in the legend, and all texts."""
    return texts(sheet) + [text.get_text() for legend in sheet.legends for text in legend.get_texts()]


def measured():
    """Yield pages with curves: of costs, of implementations and of a sweep."""
    slow, fast = (Implementation(name, "", True, timings, (None,) * 3, (None,) * 3) for name, timings in (
        ("nested loops", SLOW), ("fused kernel", FAST)
    ))  # fmt: skip
    ways = slow, *(replace(fast, name=name) for name in ("loop over heads", "a layer", "PyTorch's layer")), fast
    yield page_of(make_complexity())
    yield page_of(ImplementationComparison(Source("made by hand"), (16, 256, 1024), ways, "float64"))
    yield page_of(sweep_scaling(["one", "two", "three"], 0, (2, 8, 32), draws=2))


PAGES = tuple(measured())


def curves_of(page):
    (block,) = (block for block in page.blocks if isinstance(block, Curves))
    return block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title[:8])
def test_what_looks_alike_has_the_same_name(page):
    curves = [series for plot in curves_of(page).plots for series in plot.series]
    looks = {((one.colour, one.marker, one.line), one.name) for one in curves}
    assert len({look for look, _ in looks}) == len(looks)
    assert all(name for _, name in looks)


@pytest.mark.parametrize("width", [3.3, 6.5, 10.0])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title[:8])
def test_each_plot_of_a_divided_page_names_the_curves_that_it_has(page, width):
    block = curves_of(page)
    every = {series.name for plot in block.plots for series in plot.series}
    for plot in block.plots:
        sheet = Sheet(width, 6, 100)
        decide_curves(replace(block, plots=(plot,)), Style(width=width)).draw(sheet, 0.25, 0.25, width - 0.5)
        drawn = [one.name for one in plot.series if any(y is not None for y in one.ys)]
        assert sorted(text for text in named(sheet) if text in every) == sorted(drawn)


@pytest.mark.parametrize("width", [3.3, 6.5, 10.0])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title[:8])
def test_no_label_lies_on_a_line(page, width):
    sheet = Sheet(width, 12, 100)
    decide_curves(curves_of(page), Style(width=width)).draw(sheet, 0.25, 0.25, width - 0.5)
    renderer = FigureCanvasAgg(sheet).get_renderer()
    extents = {text: text.get_window_extent(renderer) for text in sheet.page.texts}
    drawn = [line for axes in sheet.axes for line in axes.lines]
    paths = [line.get_transform().transform_path(line.get_path()) for line in drawn]
    for text, extent in extents.items():
        assert not any(path.intersects_bbox(extent, filled=False) for path in paths), text
        on_grid = any(axes.bbox.overlaps(extent) for axes in sheet.axes[1:])
        assert not on_grid or text.get_bbox_patch().get_facecolor()[:3] == (1, 1, 1), "white hides the grid"
        assert sheet.page.zorder > max(axes.zorder for axes in sheet.axes[1:])
    assert not any(one.overlaps(other) for one, other in combinations(extents.values(), 2))


def test_curves_that_lie_on_each_other_are_both_seen():
    sheet = Sheet(4, 3, 100)
    xs, same = (1.0, 2.0, 3.0), (1.0, 2.0, 4.0)
    series = Series("a", xs, same, 0, 0), Series("b", xs, (4.0, 2.5, 1.0), 1, 1), Series("c", xs, same, 2, 2)
    draw_plot(sheet, (0.5, 0.5, 3, 2), Plot("", series, PlotAxis(), PlotAxis()))
    below, apart, above = sheet.axes[1].lines
    assert below.get_linewidth() > above.get_linewidth() + 0.5
    assert below.get_markersize() > above.get_markersize()
    assert apart.get_linewidth() == above.get_linewidth()
    assert [line.is_dashed() for line in (below, apart, above)] == [False, False, True]


def test_a_curve_looks_the_same_in_all_plots():
    xs, same, other = (1.0, 2.0, 3.0), (1.0, 2.0, 4.0), (4.0, 2.5, 1.0)
    plots = [
        Plot("", (Series("a", xs, same, 0, 0), Series("b", xs, ys, 1, 1)), PlotAxis(), PlotAxis())
        for ys in (same, other)
    ]
    sheet = Sheet(10, 4, 100)
    decide_curves(Curves(tuple(plots), Table((), ())), Style()).draw(sheet, 0, 0, 9.5)
    looks = [[(line.get_linewidth(), line.is_dashed()) for line in axes.lines] for axes in sheet.axes[1:]]
    assert looks[0] == looks[1]
    assert looks[0][0] != looks[0][1]


def test_a_curve_at_zero_does_not_lie_on_the_axis():
    sheet = Sheet(4, 3, 100)
    plot = Plot("", (Series("a", (1.0, 2.0), (0.0, 0.0), 0, 0),), PlotAxis(), PlotAxis(limits=(0, 1)))
    draw_plot(sheet, (0.5, 0.5, 3, 2), plot)
    axes = sheet.axes[1]
    sheet.draw_without_rendering()
    curve, axis = axes.lines[0], axes.spines["bottom"]
    at_zero = axes.transData.transform((1, 0))[1]
    between = (at_zero - axis.get_spine_transform().transform((0, 0))[1]) * 72 / sheet.dpi
    assert between > (curve.get_markersize() + axis.get_linewidth()) / 2


@pytest.mark.parametrize(
    ("xs", "most", "ticks"),
    [
        ([2**i for i in range(1, 11)], 6, [2, 16, 128, 1024]),
        ([2**i for i in range(1, 11)], 10, [2**i for i in range(1, 11)]),
        ([64, 26_000], 5, [64, 256, 1024, 4096, 16384]),
        ([16, 2048], 4, [16, 128, 1024]),
        ([3, 9], 4, [4, 8]),
        ([5, 6, 7], 4, [5, 6, 7]),
    ],
)
def test_ticks_begin_with_the_least_power(xs, most, ticks):
    assert log_ticks(xs, 2, most) == ticks


def test_a_table_keeps_its_keys(show):
    class View:
        def __rich_console__(self, console, options):
            columns = (Column("N", is_key=True), Column("first"), Column("second"))
            yield from table_lines(Table(columns, ((1, "a" * 10, "b" * 10),)), console, options)

    assert show(View(), 40).count("N") == 1
    assert show(View(), 20).count("N") == 2


def test_json_says_what_was_skipped(comparison):
    data = as_json(comparison)
    loops, fused = data["implementations"]
    assert (loops["gives_weights"], fused["gives_weights"]) == (True, False)
    assert [run["length"] for run in loops["runs"]] == [16, 256, 1024]
    assert loops["runs"][0] == {
        "length": 16,
        "seconds": 0.0123,
        "rounds": 3,
        "peak_bytes": 200_704,
        "would_take": None,
        "would_need": None,
        "quartiles": [0.0122, 0.0124],
        "passes": [],
        "skipped": None,
        "speedup": 1.0,
        "difference": 7e-7,
    }
    assert (loops["runs"][2]["seconds"], loops["runs"][2]["skipped"]) == (None, "would take about 40 s")
    assert fused["runs"][2]["skipped"] == "would need about 3.0 GiB"


def test_json_of_the_complexity(complexity):
    data = as_json(complexity)
    assert data["terms"][0]["flops"] == [1024 * 64**2, 1024 * 512**2, 1024 * 4096**2]
    assert data["crossover"] == {"terms": 512, "operations": 1024, "times": [571.2, 948.0], "verdict": "crosses"}
    assert data["longest"][0] == {"device": "cpu", "free_bytes": 2**34, "tokens": 23_170}
    assert data["measured"]["attention"][1]["seconds"] == 512**2 / 1e8


def test_curves_are_divided_before_a_sheet_has_only_a_table():
    lengths = tuple(2**i for i in range(6, 20))
    complexity = make_complexity(lengths=lengths, order=TimeOrder("crosses", lengths, (571.2, 948.0)))
    sheets = figures_of(complexity, Style(room="column", dpi=50))
    assert len(sheets) > 1
    assert all(len(sheet.axes) > 1 for sheet in sheets)
