"""How a model learnt, and how much it gets right, in the terminal."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from mhaviz.records import Evaluation, Training
from mhaviz.views.captions import evaluation_text, evenly, training_text
from mhaviz.views.terminal.bars import bar
from mhaviz.views.terminal.grid import BOLD, Abilities
from mhaviz.views.terminal.legend import footnote

_BAR, _ROWS = 20, 20  # columns of a bar, rows of a table


@dataclass(frozen=True)
class TrainingView:
    """Loss and held-out score after every so many steps, as numbers and as bars."""

    training: Training

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = not Abilities.of(console, options).unicode
        yield Text(training_text(self.training), BOLD)
        most = max((point.loss for point in self.training.points), default=0.0)
        with_bars = options.max_width >= 70
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("step", justify="right", no_wrap=True)
        for heading in ("loss", self.training.score_name):
            table.add_column(heading, justify="right", no_wrap=True)
            if with_bars:
                table.add_column("", no_wrap=True, min_width=_BAR)
        for point in evenly(self.training.points, _ROWS):
            cells = [f"{point.step:,}"]
            for text, share in ((f"{point.loss:.3f}", point.loss / (most or 1)), (f"{point.score:.2f}", point.score)):
                cells += [text, bar(share, _BAR, not ascii_only)] if with_bars else [text]
            table.add_row(*map(Text, cells))
        yield table
        yield footnote(self.training.source.footnote, ascii_only)


@dataclass(frozen=True)
class EvaluationView:
    """The score, and the alignment error of each head."""

    evaluation: Evaluation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        e = self.evaluation
        ascii_only = not Abilities.of(console, options).unicode
        yield Text(evaluation_text(e), BOLD)
        if e.alignment is not None:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            table.add_column("source-target attention", no_wrap=True)
            table.add_column("alignment error rate", justify="right")
            table.add_column("", no_wrap=True)
            room = max(min(_BAR, options.max_width - 50), 0)
            heads = [(f"head {head}", rate) for head, rate in enumerate(e.alignment.heads)]
            for name, rate in [*heads, ("mean of the heads", e.alignment.mean)]:
                table.add_row(name, f"{rate:.3f}", Text(bar(rate, room, not ascii_only)))
            yield table
        yield footnote(e.source.footnote, ascii_only)
