"""Tables in the terminal: their texts are shown as they are."""

import io

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


def shown(width, **narrowed):
    """The lines of a table of four numbers with an interval, of which each needs five cells, or two."""
    number = {"text": "{} ± 1".format, "stacked": "{}\n±1".format, "bare": str}
    columns = (
        Column("row", is_key=True),
        Column("interval", "{}–99".format, is_extra=True, note="note of the interval"),
        *(Column(f"long {name}", short=name, **number) for name in "abcd"),
    )
    console = Console(file=io.StringIO(), width=width)
    table = Table(columns, ((0, 10, 11, 12, 13, 14),), notes="long names", short_notes="short names", **narrowed)
    console.print(*table_lines(table, console, console.options))
    return console.file.getvalue()


def test_a_table_keeps_as_much_as_there_is_room_for():
    says = {"narrowed": lambda columns, is_bare: f"without {columns}, {is_bare}"}
    assert "11 ± 1" in shown(80, **says)
    assert "note of the interval" in shown(80, **says)
    at_47, at_40, at_29 = (shown(width, **says) for width in (47, 40, 29))
    for text in (at_47, at_40):
        assert "without" not in text
        assert "10–99" in text
    assert "±1" in at_40
    assert "long a" in at_47
    assert "long names" in at_47
    assert "long" not in at_40
    assert "short names" in at_40
    assert "without ('interval',), False" in at_29
    assert "note of the interval" not in at_29
    assert "±1" in at_29


def test_parts_have_about_as_many_columns():
    headings = [line.split() for line in shown(20).splitlines() if "row" in line]
    assert headings == [["row", "a", "b"], ["row", "c", "d"]]
