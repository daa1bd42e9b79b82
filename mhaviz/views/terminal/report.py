"""Everything about one sentence in the terminal."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from mhaviz.pages.maps import attention_page
from mhaviz.records.report import Report
from mhaviz.views.style import Style
from mhaviz.views.terminal.page import PageView
from mhaviz.views.terminal.scaling import ScalingView
from mhaviz.views.terminal.trace import TraceView


@dataclass(frozen=True)
class ReportView:
    """The heads, the shapes and the scaling, one below the other."""

    report: Report
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield PageView(attention_page(self.report.attention, can_choose=False), self.style)
        yield Segment.line()
        yield TraceView(self.report.trace, self.style, with_footnote=False)
        yield Segment.line()
        yield ScalingView(self.report.scaling, self.style)
