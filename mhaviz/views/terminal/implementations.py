"""Five ways to compute the same attention, in the terminal: a table, and what its numbers mean."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mhaviz.records import ImplementationComparison
from mhaviz.views.measured import (
    difference_text,
    factor_text,
    implementations_text,
    memory_text,
    skipped_text,
    time_text,
    ways_text,
)
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities
from mhaviz.views.terminal.legend import footnote
from mhaviz.views.terminal.tables import Row, fitting_tables


@dataclass(frozen=True)
class ImplementationsView:
    """Every way at every length."""

    comparison: ImplementationComparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        c, abilities = self.comparison, Abilities.of(console, options)
        ascii_only, plain = not abilities.unicode, abilities.plain

        rows: list[Row | None] = []
        for n, length in enumerate(c.lengths):
            rows += [None] if n else []
            for i, way in enumerate(c.implementations):
                timing = way.timings[n]
                texts = (
                    f"{length:,}" if i == 0 else "",
                    way.name,
                    time_text(timing),
                    factor_text(way.speedups[n]),
                    memory_text(timing.peak_bytes),
                    difference_text(way.differences[n]),
                )
                rows.append(tuple(map(plain, texts)))
        headings = ("N", "way", "time", "speed-up", "memory", "difference")
        yield Text("the same attention, five ways", BOLD)
        yield from fitting_tables(headings, rows, console, options, keys=2, left=(1,))
        for way in c.implementations:
            if skipped := skipped_text(way.name, c.lengths, way.timings):
                yield Text(plain(skipped))
        for line in (*implementations_text(c), *ways_text(c)):
            yield Text(plain(line), DIM)
        yield footnote(c.source.footnote, ascii_only)
