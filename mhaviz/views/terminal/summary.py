"""What each head of a long map does, as a table in the terminal."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mhaviz.records import AttentionMap, MapSummary
from mhaviz.views.summaries import summary_headings, summary_notes, summary_rows
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.terminal.tables import fitting_or_stacked

_WORDS = range(3, 6)  # the columns that name tokens


@dataclass(frozen=True)
class SummaryTable:
    """A row a head, or two lines where the terminal is too narrow for one, and what the columns mean."""

    attention_map: AttentionMap
    summary: MapSummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)

        def rows(stacked: bool) -> list[tuple[str, ...]]:
            texts = summary_rows(self.attention_map, self.summary, abilities.shown, stacked)
            return [tuple(map(abilities.plain, row)) for row in texts]

        yield from fitting_or_stacked(summary_headings(self.summary), rows, console, options, left=_WORDS)
        yield Text(abilities.plain(summary_notes(self.summary)), DIM)
