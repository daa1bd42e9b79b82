"""What scaling does, in the terminal: scores and weights side by side, and the numbers."""

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mhaviz.records import Axis, ScalingComparison, ScalingSweep, ScoreStatistics
from mhaviz.views.captions import STATISTICS, rule_text, study_title
from mhaviz.views.colours import BONE
from mhaviz.views.labels import mathematics_in_ascii
from mhaviz.views.panels import Scale, scaling_panels
from mhaviz.views.terminal.grid import BOLD, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import fitting_tables


@dataclass(frozen=True)
class ScalingView:
    """Each head's scores and weights, unscaled and scaled, and what they are in numbers."""

    comparison: ScalingComparison
    colormap: str = BONE

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        c = self.comparison
        ascii_only = not Abilities.of(console, options).unicode
        scores, weights = Scale.around_zero(c.unscaled.scores), Scale(self.colormap)
        rule = mathematics_in_ascii(rule_text(c)) if ascii_only else rule_text(c)
        yield Text(study_title(c, options.max_width, ascii_only), BOLD, no_wrap=True)
        for i, head in enumerate(c.heads):
            panels = scaling_panels(c, i, scores, weights, f"head {head}: ", ascii_only)
            yield HeatGrid(panels, Axis.of(c.queries), Axis.of(c.keys))
            yield Segment.line()
            yield _comparison_table(
                c.unscaled.statistics[i], c.scaled.statistics[i], rule, short=options.max_width < 66
            )
        yield ScaleBar(scores, "scores")
        yield ScaleBar(weights, "weights")
        yield footnote(c.source.footnote, ascii_only)


@dataclass(frozen=True)
class SweepView:
    """The numbers at every d_key, theory beside them."""

    sweep: ScalingSweep

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        ascii_only, plain = not abilities.unicode, abilities.plain

        for scaled, name in ((False, "unscaled, q·k"), (True, "scaled, q·k / √d_key")):
            yield Text(plain(name), BOLD)
            yield from self._tables(scaled, console, options)
        yield Text(plain(f"theory: the standard deviation of the scores, √d_key; means over {self.sweep.draws} draws"))
        yield footnote(self.sweep.source.footnote, ascii_only)

    def _tables(self, scaled: bool, console: Console, options: ConsoleOptions) -> list[Table]:
        results = self.sweep.scaled if scaled else self.sweep.unscaled
        rows = [
            (str(d_key), f"{1.0 if scaled else theory:.2f}", *(statistic.text(result) for statistic in STATISTICS))
            for d_key, theory, result in zip(self.sweep.d_keys, self.sweep.theory, results, strict=True)
        ]
        headings = ("d_key", "theory", *(statistic.short for statistic in STATISTICS))
        return fitting_tables(headings, rows, console, options)


def _comparison_table(unscaled: ScoreStatistics, scaled: ScoreStatistics, root: str, short: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("unscaled", justify="right")
    table.add_column(root, justify="right")
    for statistic in STATISTICS:
        name = statistic.short if short else statistic.name
        table.add_row(name, statistic.text(unscaled), statistic.text(scaled))
    return table
