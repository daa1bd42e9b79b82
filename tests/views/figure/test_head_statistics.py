import re
from dataclasses import replace

import numpy as np
import pytest
from drawn import extents_inside, texts
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from shown import head_statistics_figure

from mhaviz.inputs.probes import RandomRepeats
from mhaviz.pages.blocks import Column, Dot, Dots, Matrices, Page, Table
from mhaviz.pages.head_statistics import head_statistics_page
from mhaviz.results.head_statistics import STATISTICS
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import ACCENT, FAINT, INK
from mhaviz.views.showing import plot
from mhaviz.views.style import Style

KINDS = ("self", "masked", "cross")
KNOWN = tuple(name for name in STATISTICS if name not in ("retrieval", "needle"))


def tiles(sheet):
    return [image for image in sheet.page.images if not image.get_label().startswith("scale of")]


def overlap(a, b):
    return min(a[1], b[1]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[2], b[2]) > 1


def clear(sheet):
    """Everything is on the sheet, and no text lies over another or over a picture (numbers in cells are no texts)."""
    extents = extents_inside(sheet, sheet.canvas.get_renderer())
    boxes = [(extent.x0, extent.x1, extent.y0, extent.y1) for extent in extents]
    pictures = []
    for image in sheet.page.images:
        left, right, bottom, top = image.get_extent()
        (x0, y0), (x1, y1) = sheet.page.transData.transform([(left, bottom), (right, top)])
        pictures.append((x0, x1, y0, y1))
    for number, box in enumerate(boxes):
        assert not any(overlap(box, picture) for picture in pictures), sheet.page.texts[number]
        assert not any(overlap(box, other) for other in boxes[:number]), sheet.page.texts[number]


def test_a_panel_for_every_number(random_heads):
    statistics = random_heads(3, 4)
    drawn = tiles(head_statistics_figure(statistics))
    assert tuple(image.get_label() for image in drawn) == KNOWN
    for image in drawn:
        mean = statistics.kinds[0].number(image.get_label()).mean
        np.testing.assert_array_equal(image.get_array(), mean.astype(np.float32))


@pytest.mark.parametrize("heads", [2, 20])
def test_kinds_have_cells_of_one_size(random_heads, heads):
    extents = [image.get_extent() for image in tiles(head_statistics_figure(random_heads(4, heads, KINDS)))]
    widths = [right - left for left, right, _, _ in extents]
    assert max(widths) == pytest.approx(min(widths), rel=0.05)


def test_each_title_has_its_scale_with_chance_marked(random_heads):
    """All shares are on one scale; entropy and distance have those of their units."""
    statistics = random_heads(6, 12)
    sheet = head_statistics_figure(statistics)
    (kind,) = statistics.kinds
    bars = {image.get_label(): image.get_clim() for image in sheet.page.images if image not in tiles(sheet)}
    marks = {tuple(line) for lines in lines_of(sheet, FAINT) for line in lines[:, :, 0].round(3).tolist()}
    for image in sheet.page.images:
        if (name := image.get_label().removeprefix("scale of ")) not in KNOWN or image in tiles(sheet):
            continue
        number = kind.number(name)
        in_units = name in ("entropy", "distance")
        high = max(number.mean.max(), number.chance.max()) if in_units else 1.0
        assert bars[f"scale of {name}"] == (0.0, pytest.approx(high))
        assert f"{high:.3g}" in texts(sheet)
        left, right, *_ = image.get_extent()
        at = left + (right - left) * np.nanmean(number.chance) / high
        assert any(abs(x0 - at) < 0.002 and x0 == x1 for x0, x1 in marks), name
    narrow = head_statistics_figure(statistics, Style(width=3.3))
    assert {image.get_label() for image in narrow.page.images} >= bars.keys(), "a bar in a column of a paper, too"


def lines_of(sheet, colour):
    """The ends of the straight lines of this colour, in inches."""
    collections = (one for one in sheet.page.collections if isinstance(one, LineCollection))
    return [np.array(one.get_segments()) for one in collections if to_hex(one.get_edgecolor()[0]) == colour]


def test_what_numbers_mean_is_below_their_names(random_heads):
    statistics = random_heads(6, 12)
    sheet = head_statistics_figure(statistics)
    places = {text.get_text(): text.get_position() for text in sheet.page.texts}
    for text, (x, y) in places.items():
        if text.startswith("how often the mean"):
            left, top = places["sink"]
            assert (x, y > top) == (left, True)
            break
    else:
        pytest.fail("no meaning of sink")


def test_numbers_where_they_fit(random_heads):
    def in_cells(statistics):
        drawn = (artist.get_label() for artist in head_statistics_figure(statistics).page.collections)
        return {label for label in drawn if label.startswith("numbers")}

    few = random_heads(3, 3)
    (kind,) = few.kinds
    for name, decimals in (("entropy", 2), ("distance", 1), ("itself", 2)):
        assert {f"numbers {number:z.{decimals}f}" for number in kind.number(name).mean.flat} <= in_cells(few)
    assert not in_cells(random_heads(6, 12))


def dotted(sheet):
    """The dots, the whiskers and the line of chance of the dot plot."""
    (dots,) = (line for line in sheet.page.lines if line.get_color() == ACCENT)
    (whiskers,), (chance,) = lines_of(sheet, INK), (one for one in sheet.page.patches if isinstance(one, StepPatch))
    return dots, whiskers, chance


def test_dots_below_0_have_the_whole_width():
    dots = tuple(Dot(f"L0 H{i}", value, value - 0.001) for i, value in enumerate((-0.002, -0.003, -0.01)))
    table = Table((Column("head"),), ())
    sheet = draw_page(Page("", (Dots(table, dots, "", "{:.3f}".format),), ""), Style())
    marks, *_ = dotted(sheet)
    first, *_, last = marks.get_xdata()
    assert first - last > sheet.width / 2


def test_dots_stand_where_the_ticks_say(random_heads):
    statistics = random_heads(3, 4)
    sheet = head_statistics_figure(statistics)
    (dots, whiskers, chance), entropy = dotted(sheet), statistics.kinds[0].entropy
    marks = [text for text in sheet.page.texts if text.get_va() == "top"]
    (zero, first), (one, second), *_ = ((text.get_position()[0], float(text.get_text())) for text in marks)

    def numbers(places):
        return first + (np.asarray(places) - zero) / (one - zero) * (second - first)

    ranking = np.argsort(entropy.mean, axis=None)
    np.testing.assert_allclose(numbers(dots.get_xdata()), entropy.mean.flat[ranking], atol=1e-6)
    assert (np.diff(dots.get_ydata()) > 0).all()
    np.testing.assert_allclose(numbers(chance.get_data().values), entropy.chance.flat[ranking], atol=1e-6)
    ends = np.stack([entropy.low.flat[ranking], entropy.high.flat[ranking]], axis=1)
    np.testing.assert_allclose(numbers(whiskers[:, :, 0]), ends, atol=1e-6)
    np.testing.assert_allclose(whiskers[:, :, 1].T, [dots.get_ydata()] * 2)


@pytest.mark.parametrize(("n_panels", "across"), [(10, 5), (9, 3), (8, 4), (6, 6), (3, 3), (1, 1)])
def test_the_last_row_has_no_hole(random_heads, n_panels, across):
    page = head_statistics_page(random_heads(6, 12))
    panels = next(block for block in page.blocks if isinstance(block, Matrices))
    sheet = draw_page(replace(page, blocks=(replace(panels, panels=panels.panels[:n_panels]),)), Style())
    tops = [round(image.get_extent()[3], 3) for image in tiles(sheet)]
    assert {tops.count(top) for top in tops} == {across}


def test_a_column_of_a_paper_is_about_a_page_high(random_heads):
    sheet = head_statistics_figure(random_heads(6, 12), Style(width=3.3))
    width, height = sheet.get_size_inches()
    assert (width, height < 12) == (pytest.approx(3.3, abs=0.01), True)
    assert min(text.get_size() for text in sheet.page.texts) >= 6
    clear(sheet)


@pytest.mark.parametrize(("size", "kinds", "width"), [
    ((1, 1), ("cross",), None), ((1, 32), KINDS, 5.0), ((32, 2), ("cross",), None), ((32, 32), KINDS, 5.0),
    ((24, 16), ("self",), None), ((24, 16), ("self",), 5.0),
])  # fmt: skip
def test_any_size_is_clear(random_heads, size, kinds, width):
    clear(head_statistics_figure(random_heads(*size, kinds, too_long=2), Style(dpi=100, width=width)))


def test_a_layer_with_fewer_heads(random_heads):
    statistics = random_heads(2, 2)
    (kind,) = statistics.kinds
    mean = kind.entropy.mean.copy()
    mean[1, 1] = np.nan
    lacking = replace(kind, entropy=replace(kind.entropy, mean=mean))
    sheet = head_statistics_figure(replace(statistics, kinds=(lacking,)))
    assert "rows are layers, columns heads; blank: no such head" in texts(sheet)
    assert any(text.startswith("self-attention: 3 heads") for text in texts(sheet))


def test_what_the_means_are_over_is_whole(random_heads):
    statistics = replace(random_heads(1, 1, sentences=1_000_000), probe=RandomRepeats(123_456, 1_000_000))
    drawn = " ".join(texts(head_statistics_figure(statistics, Style(width=3.3))))
    assert "self-attention: 1 head, means over 1,000,000 sequences of 123,456 random tokens, repeated, " in drawn


def test_the_title_that_is_wanted_or_none(random_heads):
    statistics = random_heads(2, 2)
    own, wanted, none = (
        head_statistics_figure(statistics, style=style)
        for style in (Style(), Style(title="heads, as I want them"), Style(title=""))
    )
    title = texts(own)[0]
    assert re.fullmatch(r"made by a test: L\d H\d of 4 heads has the lowest entropy: [\d.]+ nats", title)
    assert "heads, as I want them" in texts(wanted)
    assert title not in texts(wanted)
    assert not any(text.startswith("made by a test: ") for text in texts(none))
    assert none.height < own.height
    for sheet in (wanted, none):
        clear(sheet)
    assert texts(plot(statistics, title="heads, as I want them")) == texts(wanted)
