import io
import re
from dataclasses import replace

import numpy as np
import pytest
from drawn import extents_inside, texts
from shown import head_statistics_figure

from mhaviz.errors import ArgumentError
from mhaviz.inputs.probes import RandomRepeats
from mhaviz.pages.blocks import Panels
from mhaviz.pages.head_statistics import head_statistics_page
from mhaviz.results.head_statistics import STATISTICS
from mhaviz.results.source import Source
from mhaviz.views.figure.page import draw_page
from mhaviz.views.figure.sheet import MOST_PIXELS
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
        left, right, bottom, top = (side * sheet.dpi for side in image.get_extent())
        pictures.append((left, right, sheet.height * sheet.dpi - bottom, sheet.height * sheet.dpi - top))
    for number, box in enumerate(boxes):
        assert not any(overlap(box, picture) for picture in pictures), sheet.page.texts[number]
        assert not any(overlap(box, other) for other in boxes[:number]), sheet.page.texts[number]


def test_a_panel_for_every_number(random_heads):
    statistics = random_heads(3, 4)
    *drawn, distribution = tiles(head_statistics_figure(statistics))
    assert tuple(image.get_label() for image in drawn) == KNOWN
    assert distribution.get_label() == "entropy"
    for image in drawn:
        mean = statistics.kinds[0].number(image.get_label()).mean
        np.testing.assert_array_equal(image.get_array(), mean.astype(np.float32))
        high = mean.max() if image.get_label() in ("entropy", "distance") else 1.0
        assert image.get_clim() == (0.0, pytest.approx(high))


def test_a_block_for_every_kind_without_what_has_no_meaning(random_heads):
    sheet = head_statistics_figure(random_heads(2, 2, KINDS))
    names = [image.get_label() for image in tiles(sheet)]
    masked = [name for name in KNOWN if name != "next"]
    assert names == [*KNOWN, *masked, "entropy", "first", "separators", "sink", "entropy"]
    for title in ("self-attention", "masked self-attention", "source-target attention"):
        assert f"{title}: 4 heads" in texts(sheet)


@pytest.mark.parametrize("heads", [2, 20])
def test_kinds_have_cells_of_one_size(random_heads, heads):
    extents = [image.get_extent() for image in tiles(head_statistics_figure(random_heads(4, heads, KINDS)))[:-1]]
    widths = [right - left for left, right, _, _ in extents]
    assert max(widths) == pytest.approx(min(widths), rel=0.05)


def test_scales_are_named_once(random_heads):
    sheet = head_statistics_figure(random_heads(2, 2, KINDS))
    bars = [image.get_label() for image in sheet.page.images if image.get_label().startswith("scale of")]
    assert bars == [
        "scale of entropy, nats",
        "scale of distance, tokens",
        "scale of weight, share",
        "scale of share of sentences",
    ]


def test_numbers_where_they_fit(random_heads):
    statistics = random_heads(6, 12)
    drawn = {artist.get_label() for artist in head_statistics_figure(statistics).page.collections}
    (kind,) = statistics.kinds
    for name, decimals in (("entropy", 2), ("distance", 1), ("itself", 2)):
        assert {f"numbers {number:z.{decimals}f}" for number in kind.number(name).mean.flat} <= drawn
    of_many = head_statistics_figure(random_heads(32, 32)).page.collections
    in_cells = [artist for artist in of_many if artist.get_label().startswith("numbers")]
    assert len(in_cells) <= 20, "those of the distribution alone"


def test_layers_by_their_numbers(random_heads):
    statistics = random_heads(2, 2)
    chosen = replace(statistics, kinds=(replace(statistics.kinds[0], layers=(17, 23)),))
    assert {"17", "23"} <= set(texts(head_statistics_figure(chosen)))


@pytest.mark.parametrize(("size", "kinds"), [
    ((1, 1), ("cross",)), ((1, 32), KINDS), ((32, 2), ("cross",)), ((12, 12), KINDS), ((32, 32), KINDS),
])  # fmt: skip
def test_any_size_is_clear(random_heads, size, kinds):
    clear(head_statistics_figure(random_heads(*size, kinds, too_long=2), Style(dpi=100)))


def test_a_layer_with_fewer_heads(random_heads):
    statistics = random_heads(2, 2)
    (kind,) = statistics.kinds
    mean = kind.entropy.mean.copy()
    mean[1, 1] = np.nan
    lacking = replace(kind, entropy=replace(kind.entropy, mean=mean))
    sheet = head_statistics_figure(replace(statistics, kinds=(lacking,)))
    assert "rows are layers, columns heads; blank: no such head" in texts(sheet)
    assert any(text.startswith("self-attention: 3 heads") for text in texts(sheet))


def test_no_more_pixels_than_programs_open(random_heads):
    sheet = head_statistics_figure(random_heads(), Style(dpi=5000))
    assert max(sheet.get_size_inches()) * sheet.dpi <= MOST_PIXELS
    assert "instead of 5000" in sheet.notices[0]


def test_a_hostile_footnote(random_heads):
    sheet = head_statistics_figure(replace(random_heads(), source=Source("$x$ \x1b[1m \u202e")))
    sheet.save(io.BytesIO(), "png")
    assert not any("\x1b" in text or "\u202e" in text for text in texts(sheet))


def test_a_title_that_is_too_long_for_one_line_is_whole(random_heads):
    statistics = random_heads(1, 1, sentences=1_000_000)
    page = head_statistics_page(replace(statistics, probe=RandomRepeats(123_456, 1_000_000)))
    panels = next(block for block in page.blocks if isinstance(block, Panels))
    page = replace(page, blocks=(replace(panels, panels=panels.panels[:1]),))
    sheet = draw_page(page)
    name, counts = panels.title, panels.subtitle
    assert (name, counts.split(" over ")[0]) == ("self-attention: 1 head", "means")
    written = [text for text in sheet.page.texts if text.get_text() in (name, counts)]
    assert len(written) == 2
    assert written[0].get_position()[1] < written[1].get_position()[1]
    assert sheet.heading == name
    renderer = sheet.canvas.get_renderer()
    assert all(text.get_window_extent(renderer).x1 < sheet.bbox.width for text in written)


def test_the_title_that_is_wanted_or_none(random_heads):
    statistics = random_heads(2, 2)
    own, wanted, none = (
        head_statistics_figure(statistics, style=style)
        for style in (Style(), Style(title="heads, as I want them", footnote=""), Style(title=""))
    )
    title = "self-attention: 4 heads"
    assert title in texts(own)
    assert "heads, as I want them" in texts(wanted)
    assert not {title, "rows are layers, columns heads"} & set(texts(wanted))
    assert not any("chance" in text or "rows:" in text for text in texts(wanted))
    assert not any(text.startswith(("self-attention", "distribution")) for text in texts(none))
    assert none.height < own.height
    for sheet in (wanted, none):
        clear(sheet)
    assert texts(plot(statistics, title="heads, as I want them", footnote="")) == texts(wanted)
    with pytest.raises(ArgumentError, match="width is for pictures of maps"):
        plot(statistics, width=3.0)


def test_an_interval_is_named_where_there_is_one(random_heads):
    statistics = random_heads(1, 1)
    (kind,) = statistics.kinds
    nothing = np.full((1, 1), np.nan)
    entropy = replace(kind.entropy, low=nothing, high=nothing)
    without = replace(statistics, kinds=(replace(kind, entropy=entropy),), replicates=0)
    columns = "; columns are bins, from the number under them on"
    for given, label, reading in (
        (statistics, r"L0 H0  \d\.\d\d, \d\.\d\d–\d\.\d\d", "rows: heads, mean and its 95 % interval"),
        (without, r"L0 H0  \d\.\d\d", "rows: heads and mean"),
    ):
        drawn = texts(head_statistics_figure(given))
        assert any(re.fullmatch(label, text) for text in drawn)
        assert [text for text in drawn if text.startswith("rows:")] == [reading + columns]


@pytest.mark.parametrize("kinds", [("self",), ("self", "masked")])
def test_no_number_of_a_row_is_cut(random_heads, kinds):
    statistics = random_heads(1, 1, kinds)
    statistics = replace(statistics, kinds=tuple(replace(kind, layers=(23,)) for kind in statistics.kinds))
    rows = [text for text in texts(head_statistics_figure(statistics)) if "L23 H0  " in text]
    assert len(rows) == len(kinds)
    for kind, row in zip(sorted(statistics.kinds, key=lambda kind: kind.entropy.mean[0, 0]), rows, strict=True):
        assert f"L23 H0  {kind.entropy.mean[0, 0]:.2f}" in row
        assert "…" not in row


def test_of_several_pictures_the_title_of_the_first_is_replaced(random_heads):
    page = head_statistics_page(random_heads(2, 2))
    title = "self-attention: 4 heads"
    assert title in texts(draw_page(page))
    wanted = texts(draw_page(page, Style(title="wanted")))
    assert "wanted" in wanted
    assert title not in wanted
    assert "distribution of entropy over sentences" in wanted
