"""A block of a kind that no medium knows, and blocks inside of others."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from drawn import images, inside, texts
from made import made_map

from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Block, Column, Dot, Dots, Grid, Matrices, Page, Stacks, Table, Text
from mhaviz.pages.panels import Panel, Scale
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.figure import fonts
from mhaviz.views.figure.page import draw_page, draw_pages
from mhaviz.views.style import ROOMS, Style
from mhaviz.views.terminal.page import PageView

pytestmark = pytest.mark.slow

TABLE = Table((Column("bin"), Column("count")), tuple((f"bin {i}", 10 + i) for i in range(5)))


@dataclass(frozen=True)
class Histogram(Block):
    """Bins, and a table of them."""

    table: Table = TABLE

    @property
    def as_table(self):
        return self.table


def page(*blocks):
    return Page("a page", blocks, "made by hand")


def dots(n=30):
    return Dots(TABLE, tuple(Dot(f"L{i} H0", n - i, chance=0.5) for i in range(n)), "distance", "{:.1f}".format)


def numbers():
    values = np.ones((2, 3), np.float32)
    panels = tuple(Panel(f"n{i}", values, Scale()) for i in range(3))
    return Matrices("", panels, Axis.numbered(2), Axis.numbered(3))


def heads():
    weights = np.random.default_rng(0).dirichlet(np.ones(4), (2, 4)).astype(np.float32)
    return attention_page(Attention(Source("s"), (made_map("abcd", "abcd", weights),))).blocks[0]


BLOCKS = {"new": Histogram, "dots": dots, "numbers": numbers, "heads": heads, "text": lambda: Text(("some words",))}
PLACES = {
    "alone": lambda block: block,
    "grid": lambda block: Grid(((block,),)),
    "beside a table": lambda block: Grid(((TABLE, block),)),
    "left stack": lambda block: Stacks((block,), (TABLE,)),
    "right stack": lambda block: Stacks((TABLE,), (block,)),
    "stack in a grid": lambda block: Grid(((Stacks((block,), (TABLE,)),),)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_drawn_wherever_it_stands(block, place, show):
    for looks in ({}, {"width": 3.3}, *({"room": room} for room in ROOMS)):
        for sheet in draw_pages(page(PLACES[place](BLOCKS[block]())), Style(dpi=50, **looks)):
            inside(sheet)
            assert sheet.get_size_inches()[0] > 3
    assert "made by hand" in show(PageView(page(PLACES[place](BLOCKS[block]())), Style()))


def test_a_block_that_no_medium_knows_is_its_table(show):
    sheet = draw_page(page(Histogram()), Style())
    for i in range(5):
        assert {f"bin {i}", f"{10 + i}"} <= set(texts(sheet))
        assert f"bin {i}" in show(PageView(page(Histogram()), Style()))


def test_tables_side_by_side_are_so_in_the_terminal_whatever_their_kind(show):
    lines = show(PageView(page(Grid(((Histogram(), Histogram()),))), Style())).splitlines()
    assert sum(line.count("bin 0") == 2 for line in lines) == 1


def test_pieces_of_a_plot_share_their_axis():
    sheets = draw_pages(page(dots(60)), Style(room="column", dpi=50))
    assert len(sheets) > 1
    ticks = [[text for text in texts(sheet) if text.isdigit()] for sheet in sheets]
    assert all(one == ticks[0] for one in ticks)


def test_what_stands_around_dots_may_be_words_of_users(monkeypatch):
    """Characters that no font has are escaped."""
    monkeypatch.setattr(fonts, "_installed_fonts", tuple)
    given = replace(dots(3), table=replace(TABLE, heading="by 我"), label="of 喜", notes="欢")
    sheet = draw_page(page(given), Style(dpi=40))
    assert {r"by \u6211", r"of \u559c", r"\u6b22"} <= {*texts(sheet)}


def test_pieces_of_a_table_have_the_rows_that_are_shown_and_the_notes_once():
    table = Table(TABLE.columns, tuple((f"row {i}", i) for i in range(150)), most=100, notes="what rows are")
    written = [text for sheet in draw_pages(page(table), Style(room="page", dpi=50)) for text in texts(sheet)]
    assert sum(text.startswith("row ") for text in written) == 100
    assert written.count("what rows are") == 1
    assert sum("and 50 more" in text for text in written) == 1


def test_words_beside_and_below_pictures_have_one_size():
    stacks = Stacks((Text(("left words",)),), (Text(("right words",)),))
    sheet = draw_page(page(dots(3), Text(("words below",)), stacks), Style())
    sizes = {t.get_text(): t.get_fontsize() for t in sheet.page.texts if "words" in t.get_text()}
    assert set(sizes) == {"left words", "right words", "words below"}
    assert len(set(sizes.values())) == 1


def test_heads_in_a_grid_are_the_heads():
    block = heads()
    sheet = draw_page(page(Grid(((block,),))), Style())
    drawn = images(sheet, "L0 H")
    for image, panel in zip(drawn, block.panels, strict=True):
        np.testing.assert_array_equal(image.get_array(), panel.values)


def test_texts_of_a_divided_grid_stay_between_its_pictures():
    values = np.ones((30, 30), np.float32)
    axis, scale = Axis.numbered(30), Scale(name="number")
    rows = []
    for i in range(12):
        rows += [(Text((f"after {i - 1}",)),)] if i else []
        rows += [(Matrices("", (Panel(f"panel {i}", values, scale),), axis, axis),)]
    sheets = draw_pages(page(Grid(tuple(rows))), Style(room="column", dpi=50))
    assert len(sheets) > 1
    said = [text for sheet in sheets for text in texts(sheet) if text.startswith(("after", "panel"))]
    expected = [f"panel {i}" for i in range(12)], [f"after {i}" for i in range(11)]
    assert [[text for text in said if text.startswith(kind)] for kind in ("panel", "after")] == list(
        map(list, expected)
    )
    for sheet in sheets:
        places = {t.get_text(): t.get_position()[1] for t in sheet.page.texts}
        for i in range(11):
            if {f"after {i}", f"panel {i}"} <= places.keys():
                assert places[f"after {i}"] > places[f"panel {i}"]
            if {f"after {i}", f"panel {i + 1}"} <= places.keys():
                assert places[f"after {i}"] < places[f"panel {i + 1}"]


def test_a_grid_of_texts_is_divided():
    grid = Grid(tuple((Text((f"line {i}",)),) for i in range(120)))
    sheets = draw_pages(page(grid, dots(40)), Style(room="column", dpi=50))
    assert len(sheets) > 1
    written = [text for sheet in sheets for text in texts(sheet) if text.startswith("line ")]
    assert written == [f"line {i}" for i in range(120)]


def test_how_to_read_matrices_is_said_where_some_are():
    values, scale, axis = np.ones((30, 30), np.float32), Scale(name="number"), Axis.numbered(30)
    picture = Matrices("", (Panel("panel", values, scale),), axis, axis)
    whole = Page("a page", (dots(50), picture), "made by hand", "rows are queries")
    sheets = draw_pages(whole, Style(room="column", dpi=50))
    assert len(sheets) > 1
    assert ["panel" in texts(sheet) for sheet in sheets] == ["rows are queries" in texts(sheet) for sheet in sheets]
