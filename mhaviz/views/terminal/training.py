"""How a model learnt, and how much it gets right, in the terminal."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mhaviz.records import Evaluation, Training
from mhaviz.views.captions import AVERAGED, alignment_text, evaluation_text, evenly, score_text, training_text
from mhaviz.views.terminal.bars import bar
from mhaviz.views.terminal.grid import BOLD, Abilities
from mhaviz.views.terminal.legend import footnote
from mhaviz.views.terminal.tables import fitting_tables

_BAR, _ROWS, _WITH_BARS = 20, 20, 76  # columns of a bar, rows of a table, columns of a terminal with room for bars


@dataclass(frozen=True)
class TrainingView:
    """Loss and held-out score after every so many steps, as numbers and as bars."""

    training: Training

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = not Abilities.of(console, options).unicode
        yield Text(training_text(self.training), BOLD)
        most = max((point.loss for point in self.training.points), default=0.0) or 1.0
        with_bars = options.max_width >= _WITH_BARS
        headings = ("step", "loss", *[""] * with_bars, self.training.score_name, *[""] * with_bars)
        rows = []
        for point in evenly(self.training.points, _ROWS):
            loss, score = (
                [text, bar(share, _BAR, not ascii_only)] if with_bars else [text]
                for text, share in ((f"{point.loss:.3f}", point.loss / most), (f"{point.score:.2f}", point.score))
            )
            rows.append((f"{point.step:,}", *loss, *score))
        yield from fitting_tables(headings, rows, console, options, left=(2, 4) if with_bars else ())
        yield Text(score_text(self.training))
        yield footnote(self.training.source.footnote, ascii_only)


@dataclass(frozen=True)
class EvaluationView:
    """The score, and the alignment error of each head."""

    evaluation: Evaluation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        e = self.evaluation
        ascii_only = not Abilities.of(console, options).unicode
        yield Text(evaluation_text(e), BOLD)
        yield Text(alignment_text(e))
        if e.alignment is not None:
            heads = [(f"head {head}", rate) for head, rate in enumerate(e.alignment.heads)]
            rates = [*heads, (AVERAGED, e.alignment.mean)]
            rows = [(name, f"{rate:.3f}", bar(rate, _BAR, not ascii_only)) for name, rate in rates]
            yield from fitting_tables(("weights of", "error rate", ""), rows, console, options, keys=2, left=(0, 2))
        yield footnote(e.source.footnote, ascii_only)
