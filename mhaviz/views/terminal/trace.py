"""The shape of every tensor in the terminal: a table where there is room, a list where there is not."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.trace import (
    costs_text,
    following_text,
    memory_text,
    numbers_remark,
    shape_text,
    step_numbers,
    steps_table,
    visits_table,
)
from mhaviz.records.trace import ShapeTrace
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, quote
from mhaviz.views.terminal.legend import footnote
from mhaviz.views.terminal.tables import draw_grid, fits, table_lines


@dataclass(frozen=True)
class TraceView:
    """Every step, with an element that is followed through the reshapes if there is one."""

    trace: ShapeTrace
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = steps_table(self.trace)
        grid = draw_grid(table, range(len(table.columns)), padding=(0, 1))
        if fits(grid, console, options):
            yield grid
        else:  # parts of a table would tear steps apart, each of which is one thought
            yield from self._list()
        yield Text(f"altogether {costs_text(self.trace.steps)}")
        if any(step.values is not None for step in self.trace.steps):
            yield from self._numbers(console, options)
        if self.trace.followed is not None:
            yield Segment.line()
            first, *rest = following_text(self.trace.followed, self.trace, quote)
            yield Text(first, BOLD)
            yield from table_lines(visits_table(self.trace.followed), console, options)
            yield from (Text(line) for line in rest)
        yield footnote(self.trace.source.footnote)

    def _numbers(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        """The numbers of each step, its heads side by side as far as there is room."""
        for numbers in step_numbers(self.trace, quote):
            yield Segment.line()
            yield Text(numbers.heading, BOLD)
            grids = [draw_grid(table, range(len(table.columns)), box=None) for table in numbers.tables]
            if all(fits(grid, console, options) for grid in grids):
                yield Columns(grids, padding=(0, 3))
            else:
                for table in numbers.tables:
                    yield from table_lines(table, console, options, box=None)
        yield Segment.line()
        yield from (Text(line, DIM) for line in numbers_remark(self.trace))

    def _list(self) -> Iterator[Padding | Text]:
        for step in self.trace.steps:
            yield Text.assemble((step.name, BOLD), f"  {shape_text(step.shape)}  ", f"= {step.equation}")
            costs = costs_text([step])
            remark = f"{' × '.join(step.axes)}; {memory_text(step)}" + (f"; {costs}" if costs else "")
            yield Padding(Text(remark, DIM), (0, 0, 0, 2), expand=False)
