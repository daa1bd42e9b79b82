"""How a head comes about, in the terminal: a paragraph and two maps for each stage, then the heads."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.map_words import READING
from mhaviz.pages.projections import (
    SCORE_REMARK,
    StageText,
    divergence_text,
    projections_title,
    split_text,
    stage_texts,
)
from mhaviz.records.axis import Axis
from mhaviz.records.projections import ProjectionComparison
from mhaviz.views.labels import title_text
from mhaviz.views.projection_panels import (
    MOST_FEATURES,
    divergence_panel,
    head_weight_panels,
    output_panel,
    output_scale,
    score_panel,
    score_scale,
    shown_pair,
    weight_panel,
    weight_scale,
)
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, HeatGrid, quote
from mhaviz.views.terminal.legend import ScaleBar, footnote

_BESIDE_PAIR = 23  # cells that a line about two words takes without them


@dataclass(frozen=True)
class ProjectionsView:
    """The four stages one below the other, the heads side by side, and how unlike they are."""

    comparison: ProjectionComparison
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        c = self.comparison
        scores, weights, tokens = score_scale(c), weight_scale(c, self.style), Axis.of(c.tokens)

        room = max((options.max_width - _BESIDE_PAIR) // 2, 3)

        def shown(token: str) -> str:
            return quote(token, room)

        yield Text(title_text(projections_title(c), options.max_width), BOLD, no_wrap=True)
        *with_maps, last = stage_texts(c, shown_pair(c, shown))
        outputs = output_scale(c)
        features = Axis.of(str(i) for i in range(min(c.d_model, MOST_FEATURES)))
        for text, stage in zip(with_maps, c.stages, strict=False):
            yield from _words(text)
            panels = [score_panel(stage, scores, "S"), weight_panel(stage, weights, "A = softmax(S)")]
            yield HeatGrid(panels, tokens, tokens)
            yield HeatGrid([output_panel(stage, outputs)], tokens, features, with_values=False, numbered=True)
            yield Segment.line()
        yield from _words(last)  # its scores and weights are those of the stage before
        yield HeatGrid([output_panel(c.stages[3], outputs)], tokens, features, with_values=False, numbered=True)
        yield Segment.line()
        n_heads = len(c.heads)
        yield Text(split_text(c), BOLD)
        yield HeatGrid(head_weight_panels(c, weights), tokens, tokens, with_values=False)
        yield Segment.line()
        yield Text(divergence_text(c))
        if n_heads > 1:
            numbers = Axis.of(str(i) for i in range(n_heads))
            yield HeatGrid([divergence_panel(c)], numbers, numbers, numbered=True)
        yield Segment.line()
        yield ScaleBar(scores, SCORE_REMARK if c.include_self else "scores")
        yield ScaleBar(weights, READING)
        yield ScaleBar(outputs, "outputs; rows are queries, columns features")
        if n_heads > 1:
            yield ScaleBar(divergence_panel(c).scale, "divergence, bits")
        yield footnote(c.source.footnote)


def _words(text: StageText) -> Iterator[Text]:
    yield Text(text.name, BOLD)
    yield Text(text.formula)
    yield Text(text.remark)
    names = [name for name, _ in text.numbers]
    width = max(map(cell_len, names))
    for name, (_, number) in zip(names, text.numbers, strict=True):
        yield Text(f"  {set_cell_size(name, width)}  {number:>5}")
