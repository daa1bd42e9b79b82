import itertools
from dataclasses import replace

import pytest
from looking import traced

from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.results.trace import follow_element
from mhaviz.views.figure.flow import WIDTH, decide_flow
from mhaviz.views.figure.sheet import MOST_PIXELS
from mhaviz.views.showing import figure_of, figures_of
from mhaviz.views.style import Style

TRACES = {
    "worked example": traced(RandomLayer(8, 4), WORKED_EXAMPLE),
    "causal": traced(RandomLayer(8, 4, causal=True), WORKED_EXAMPLE),
    "cross": traced(RandomLayer(8, 4), ["one two three"], "un deux"),
    "sizes": RandomLayer(512, 32).trace_sizes(32, 100_000),
    "one token": traced(RandomLayer(1, 1), ["one"]),
}


@pytest.mark.parametrize("name", TRACES)
def test_boxes_do_not_overlap_and_arrows_point_down(name):
    steps = TRACES[name].steps
    places = decide_flow(steps)
    assert len(places) == len(steps)
    for step in steps:
        for read in step.inputs:
            assert places[read][1] < places[step.name][1]
    by_row = {}
    for column, row in places.values():
        by_row.setdefault(row, []).append(column)
    for columns in by_row.values():
        columns.sort()
        assert all(right - left >= 1 for left, right in itertools.pairwise(columns))
        assert columns[0] >= 0


@pytest.mark.parametrize("name", TRACES)
def test_every_step_is_drawn_with_shape_axes_and_equation(name):
    trace = TRACES[name]
    sheet = figure_of(trace)
    texts = [text.get_text() for text in sheet.page.texts]
    for step in trace.steps:
        assert step.name in texts
        assert f"= {step.equation}" in texts
        assert f"({', '.join(map(str, step.shape))})" in texts
        assert " × ".join(step.axes) in texts
    assert trace.source.footnote in texts


@pytest.mark.parametrize("name", TRACES)
def test_text_stays_in_its_box(name):
    sheet = figure_of(TRACES[name])
    renderer = sheet.canvas.get_renderer()
    named = [text for text in sheet.page.texts if (text.get_label() or "").startswith("step ")]
    for text in sheet.page.texts:
        extent = text.get_window_extent(renderer)
        assert extent.x0 >= 0
        assert extent.x1 <= sheet.width * sheet.dpi
    for name_text in named:
        x, y = name_text.get_position()
        same_line = [t for t in sheet.page.texts if t.get_position()[1] == y and x < t.get_position()[0] < x + WIDTH]
        for other in same_line:
            assert name_text.get_window_extent(renderer).x1 < other.get_window_extent(renderer).x0


def test_a_followed_element_is_written_into_its_boxes():
    trace = TRACES["worked example"]
    trace = replace(trace, followed=follow_element(trace, (0, 2, 5)))
    texts = [t.get_text() for t in figure_of(trace).page.texts]
    assert texts.count("(0, 2, 2, 1)") == 2 * 4  # in boxes, and in the table below
    assert texts.count("(0, 2, 5)") == 2 * 2
    assert any("would send it" in text for text in texts)


def test_too_many_pixels_are_fewer():
    sheet = figure_of(TRACES["worked example"], Style(dpi=10_000))
    assert max(sheet.get_size_inches()) * sheet.dpi <= MOST_PIXELS
    assert "dpi instead of 10000" in sheet.notices[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("looks", [{"room": "page"}, {"room": "column"}, {"room": "column", "font_size": 11}])
def test_on_every_sheet_an_arrow_leads_to_and_from_each_step(name, looks):
    """A step that is on another sheet stands where the arrow ends, with its name and without a shape."""
    steps = TRACES[name].steps
    read = {(source, step.name) for step in steps for source in step.inputs}
    drawn, sheets = set(), figures_of(TRACES[name], Style(dpi=50, **looks))
    for sheet in sheets:
        here = {t.get_label()[5:] for t in sheet.page.texts if t.get_label().startswith("step ")}
        arrows = {tuple(one.get_label().split(" → ")) for one in sheet.page.patches if " → " in one.get_label()}
        assert arrows == {pair for pair in read if here & set(pair)}
        texts = [text.get_text() for text in sheet.page.texts]
        elsewhere = {end for pair in arrows for end in pair} - here
        assert sum(text in ("in an earlier part", "in a later part") for text in texts) == len(elsewhere)
        assert elsewhere <= set(texts)
        drawn |= arrows
    assert drawn == read
    assert bool(looks.get("font_size")) <= (len(sheets) > 1)


def test_no_two_arrows_of_a_column_lie_on_each_other():
    """Two may share a way only from their common source, or to their common end."""
    sheet = figure_of(TRACES["worked example"], Style(room="column", dpi=50))
    ways = {}  # by the x at which they go down: top, bottom
    for one in sheet.page.patches:
        if " → " in one.get_label():
            points = one.get_path().vertices
            for (x, _), (x1, _) in itertools.pairwise(points):
                if x == x1:
                    ys = [y for at, y in points if at == x]
                    ways.setdefault(round(x, 3), set()).add((min(ys), max(ys)))
    for spans in ways.values():
        assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(sorted(spans)))
    assert len(ways) > 3


def test_lines_grow_with_the_letters():
    usual, large = (figure_of(TRACES["one token"], Style(dpi=50, font_size=size)) for size in (8, 16))
    widths = [[one.get_linewidth() for one in sheet.page.patches if one.get_linewidth()] for sheet in (usual, large)]
    assert widths[1] == pytest.approx([2 * width for width in widths[0]])


@pytest.mark.parametrize("follow", [False, True])
def test_the_way_of_an_element_is_in_the_legend_and_all_fits_a_sheet_of_paper(follow):
    trace = TRACES["worked example"]
    if follow:
        trace = replace(trace, followed=follow_element(trace, (0, 2, 5)))
    sheet = figure_of(replace(trace, steps=tuple(replace(step, values=None) for step in trace.steps)))
    assert any("orange" in text.get_text() for text in sheet.page.texts) == follow
    across, down = sheet.get_size_inches()
    assert across <= 8.3
    assert down <= 11
