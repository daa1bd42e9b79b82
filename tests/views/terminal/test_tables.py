"""Tables in the terminal: their texts are shown as they are."""

import io
import re

from rich.console import Console

from mhaviz.pages.blocks import Column, Table
from mhaviz.views.terminal.tables import table_lines

MARKUP = "[bold]a[/bold] [b]"


def test_markup_in_a_heading_is_text():
    """On rich's own console, which reads markup in whatever is no ``Text``."""
    console = Console(file=io.StringIO(), width=80)
    table = Table((Column(MARKUP), Column("n")), ((MARKUP, 1),), heading=MARKUP)
    console.print(*table_lines(table, console, console.options))
    assert console.file.getvalue().count(MARKUP) == 3


def shown(width):
    """The lines of a table of four numbers with a note, each of which needs six cells."""
    numbers = (Column(name, "{} ± 1".format) for name in "abcd")
    console = Console(file=io.StringIO(), width=width)
    table = Table((Column("row", is_key=True), *numbers), ((0, 11, 12, 13, 14),), notes="long names")
    console.print(*table_lines(table, console, console.options))
    return console.file.getvalue()


def test_a_table_that_is_too_wide_is_split_and_has_all():
    for width in (80, 27):
        assert re.findall(r"\d+ ± 1", shown(width)) == ["11 ± 1", "12 ± 1", "13 ± 1", "14 ± 1"]
        assert "long names" in shown(width)


def test_parts_have_about_as_many_columns():
    headings = [line.split() for line in shown(27).splitlines() if "row" in line]
    assert headings == [["row", "a", "b"], ["row", "c", "d"]]


def test_words_that_are_too_long_fold():
    console = Console(file=io.StringIO(), width=20)
    table = Table((Column("row"), Column("text", align="left")), ((123, "y" * 30),))
    console.print(*table_lines(table, console, console.options))
    assert console.file.getvalue().count("y") == 30


def test_bars_are_left_out_before_a_table_is_split():
    columns = Column("head", is_key=True), Column("n", "{:.2f}".format), Column("", bar=20), Column("others")
    table = Table(columns, (("L2 H10", 0.37, 0.37, "0.070"),))
    for width, has_bar in ((60, True), (28, True), (24, False)):
        console = Console(file=io.StringIO(), width=width)
        console.print(*table_lines(table, console, console.options))
        out = console.file.getvalue()
        assert (len(re.findall("head", out)), "█" in out) == (1, has_bar)
