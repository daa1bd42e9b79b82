"""What attention costs, in the terminal: the terms, then predicted and measured numbers at every length."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mhaviz.records import Complexity
from mhaviz.units import readable_bytes, readable_count
from mhaviz.views.measured import (
    PARAMETERS,
    crossover_text,
    longest_text,
    part_timings,
    rate_text,
    skipped_text,
    term_texts,
    time_text,
)
from mhaviz.views.terminal.grid import BOLD, Abilities
from mhaviz.views.terminal.legend import footnote
from mhaviz.views.terminal.tables import fitting_tables


@dataclass(frozen=True)
class ComplexityView:
    """The terms, the numbers, where they cross, and what fits into memory."""

    complexity: Complexity

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        c, abilities = self.complexity, Abilities.of(console, options)
        ascii_only, plain = not abilities.unicode, abilities.plain

        yield Text(plain("what attention costs: N²·d_model + N·d_model²"), BOLD)
        terms = [tuple(map(plain, texts)) for texts in (*map(term_texts, c.terms), PARAMETERS)]
        headings = tuple(map(plain, ("result", "equation", "operations", "bytes")))
        yield from fitting_tables(headings, terms, console, options, left=range(4))

        projections, attention = c.flops("projections"), c.flops("attention")
        rows = [
            (
                f"{length:,}",
                readable_count(projections[n]),
                readable_count(attention[n]),
                *(plain(time_text(part[n])) for part in (c.projections, c.attention, c.whole)),
                readable_bytes(c.feature_bytes[n]),
                readable_bytes(c.weight_bytes[n]),
            )
            for n, length in enumerate(c.lengths)
        ]
        headings = ("N", "ops proj", "ops attn", "time proj", "time attn", "whole", "Q K V H O", "weights")
        yield from fitting_tables(headings, rows, console, options)
        yield Text("proj: the projections; attn: scores, softmax and mix; ops: operations, predicted; times: measured")
        parameters = f"parameters: {readable_bytes(c.parameter_bytes)}"
        rate = f"the whole layer does up to {rate_text(c)}" if rate_text(c) else ""
        skipped = [skipped_text(name, c.lengths, timings) for name, timings in part_timings(c).items()]
        for line in filter(None, [*skipped, parameters, rate, *crossover_text(c), *longest_text(c)]):
            yield Text(plain(line))
        yield footnote(c.source.footnote, ascii_only)
