"""What each head of a long map does, as a table in the terminal."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult

from mhaviz.pages.map_summary import summary_table
from mhaviz.records import AttentionMap, MapSummary
from mhaviz.views.labels import quoting
from mhaviz.views.terminal.grid import Abilities
from mhaviz.views.terminal.tables import table_lines


@dataclass(frozen=True)
class SummaryTable:
    """A row a head, or two lines where the terminal is too narrow for one, and what the columns mean."""

    attention_map: AttentionMap
    summary: MapSummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        quote = quoting(Abilities.of(console, options).shown)
        yield from table_lines(summary_table(self.attention_map.heads, self.summary, quote), console, options)
