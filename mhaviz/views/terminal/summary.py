"""What each head of a long map does, as a table in the terminal."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mhaviz.records import AttentionMap, MapSummary
from mhaviz.views.labels import in_ascii, visible
from mhaviz.views.summaries import summary_headings, summary_notes, summary_rows
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.terminal.tables import fitting_tables

_WORDS = range(3, 6)  # the columns that name tokens


@dataclass(frozen=True)
class SummaryTable:
    """A row a head, or two lines where the terminal is too narrow for one, and what the columns mean."""

    attention_map: AttentionMap
    summary: MapSummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)

        def shown(token: str) -> str:
            return visible(token) if abilities.unicode else in_ascii(visible(token))

        headings = summary_headings(self.summary)
        for stacked in (False, True):
            rows = [
                tuple(map(abilities.plain, row))
                for row in summary_rows(self.attention_map, self.summary, shown, stacked)
            ]
            tables = fitting_tables(headings, rows, console, options, left=_WORDS)
            if len(tables) == 1:
                break
        yield from tables
        yield Text(abilities.plain(summary_notes(self.summary)), DIM)
