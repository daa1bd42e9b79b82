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
