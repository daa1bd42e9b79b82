"""The shape of every tensor in the terminal: a table where there is room, a list where there is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mhaviz.records import FollowedElement, ShapeTrace, TraceStep
from mhaviz.units import readable_bytes, readable_count
from mhaviz.views.captions import costs_text, following_text, shape_text
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities
from mhaviz.views.terminal.legend import footnote

_Plain = Callable[[str], str]


@dataclass(frozen=True)
class TraceView:
    """Every step, with an element that is followed through the reshapes if there is one."""

    trace: ShapeTrace
    followed: FollowedElement | None = None
    with_footnote: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        ascii_only, plain = not abilities.unicode, abilities.plain

        table = self._table(plain)
        if Measurement.get(console, options.update(max_width=1000), table).maximum <= options.max_width:
            yield table
        else:
            yield from self._list(plain)
        yield Text(plain(f"altogether {costs_text(self.trace.steps)}"))
        for step in self.trace.steps:
            if step.values is not None:
                yield from _numbers(step, options.max_width, plain)
        if self.followed is not None:
            yield Segment.line()
            yield from self._following(self.followed, plain)
        if self.with_footnote:
            yield footnote(self.trace.source.footnote, ascii_only)

    def _table(self, plain: _Plain) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for heading in ("step", "equation", "shape", "axes", "memory"):
            table.add_column(heading, no_wrap=True)
        for heading in ("parameters", "FLOPs", "bytes"):
            table.add_column(heading, justify="right", no_wrap=True)
        for step in self.trace.steps:
            table.add_row(
                Text(plain(step.name), BOLD),
                Text(plain(step.equation)),
                Text(shape_text(step.shape)),
                Text(plain(" × ".join(step.axes)), DIM),
                Text(_memory(step)),
                Text(readable_count(step.parameters) if step.parameters else ""),
                Text(readable_count(step.flops) if step.flops else ""),
                Text(readable_bytes(step.bytes) if step.bytes else ""),
            )
        return table

    def _list(self, plain: _Plain) -> Iterator[Padding | Text]:
        for step in self.trace.steps:
            yield Text.assemble((plain(step.name), BOLD), f"  {shape_text(step.shape)}  ", plain(f"= {step.equation}"))
            costs = costs_text([step])
            remark = f"{' × '.join(step.axes)}; {_memory(step)}" + (f"; {costs}" if costs else "")
            yield Padding(Text(plain(remark), DIM), (0, 0, 0, 2), expand=False)

    def _following(self, followed: FollowedElement, plain: _Plain) -> Iterator[Table | Text]:
        first, *rest = following_text(followed, self.trace)
        yield Text(plain(first), BOLD)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("step", no_wrap=True)
        table.add_column("coordinates", no_wrap=True)
        table.add_column("offset", justify="right")
        table.add_column("number")
        for visit in followed.visits:
            number = "same" if visit.same_number else "new"
            table.add_row(Text(visit.step, BOLD), Text(shape_text(visit.coordinates)), str(visit.offset), number)
        yield table
        yield from (Text(plain(line)) for line in rest)


def _memory(step: TraceStep) -> str:
    return f"{step.memory}, {'contiguous' if step.contiguous else 'strided'}"


def _numbers(step: TraceStep, width: int, plain: _Plain) -> Iterator[Segment | Text]:
    assert step.values is not None
    yield Segment.line()
    yield Text(plain(f"{step.name} = {step.equation}, {shape_text(step.shape)}"), BOLD)
    with np.printoptions(precision=2, suppress=True, floatmode="fixed", linewidth=max(width, 20), threshold=10**6):
        yield Text(np.array2string(step.values))
