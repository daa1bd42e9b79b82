"""What scaling does, in the terminal: scores and weights side by side, and the numbers."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.panels import values_beyond
from mhaviz.pages.scaling import scaling_panels, scaling_scales, statistics_table
from mhaviz.pages.words import rule_text, study_title
from mhaviz.records.axis import Axis
from mhaviz.records.scaling import ScalingComparison
from mhaviz.views.labels import title_text
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import table_lines


@dataclass(frozen=True)
class ScalingView:
    """Each head's scores and weights, unscaled and scaled, and what they are in numbers."""

    comparison: ScalingComparison
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        c = self.comparison
        scores, weights = scaling_scales(c, self.style.cmap)
        beyond = False
        yield Text(title_text(study_title(c), options.max_width), BOLD, no_wrap=True)
        for i, head in enumerate(c.heads):
            panels = scaling_panels(c, i, scores, weights, f"head {head}: ")
            beyond = beyond or values_beyond(panels[1::2], weights)[1]
            yield HeatGrid(panels, Axis.of(c.queries), Axis.of(c.keys))
            yield Segment.line()
            yield from table_lines(statistics_table(c, i, rule_text(c)), console, options, padding=(0, 1))
        yield ScaleBar(scores, "scores")
        yield ScaleBar(weights, "weights", (False, beyond))
        yield footnote(c.source.footnote)
