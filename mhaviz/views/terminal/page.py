"""A page of blocks in the terminal, which lists numbers where paper has curves."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text as Line

from mhaviz.pages.blocks import Curves, Page, Table
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities
from mhaviz.views.terminal.legend import footnote
from mhaviz.views.terminal.tables import table_lines

_STYLES: dict[str, str | Style] = {"plain": "", "quiet": DIM, "heading": BOLD, "subtitle": ""}


@dataclass(frozen=True)
class PageView:
    """Title, blocks and footnote, one below the other."""

    page: Page

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        page, abilities = self.page, Abilities.of(console, options)
        if page.title_where != "beside curves":
            yield Line(abilities.plain(page.title), BOLD)
        for block in page.blocks:
            if isinstance(block, Curves) or block.where == "beside curves":
                continue
            if isinstance(block, Table):
                yield from table_lines(block, console, options)
            else:
                for line in block.lines:
                    yield Line(abilities.plain(line), _STYLES[block.style])
        yield footnote(page.footnote, not abilities.unicode)
