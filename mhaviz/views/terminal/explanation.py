"""One query taken apart in the terminal: its scores over features, then its output over keys."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.explanation import (
    MOST_KEYS,
    contributions_table,
    heading,
    largest_contributions,
    others,
    output_heading,
    rest_text,
    rows_remark,
    scores_heading,
    scores_table,
    strongest_text,
    visible_products,
)
from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.words import rule_text, study_title
from mhaviz.records.axis import Axis
from mhaviz.records.explanation import Explanation
from mhaviz.views.labels import harmless, title_text, token_labels
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, HeatGrid, quote
from mhaviz.views.terminal.isolates import isolated
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.tables import table_lines

_LABEL = 24  # cells


@dataclass(frozen=True)
class ExplanationView:
    """Both readings of one query, each as a strip of cells for every key and as a table."""

    explanation: Explanation
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        e, width = self.explanation, options.max_width
        style = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1)}

        def labels(width: int) -> list[str]:
            return token_labels(e.keys, width)

        def quoted(width: int) -> list[str]:
            return list(map(isolated, labels(width)))

        def strips(title: str, values: NDArray[np.float32], labels: list[str], scale: Scale) -> HeatGrid:
            features = Axis.of(str(i) for i in range(e.d_key))
            return HeatGrid([Panel(title, values, scale)], Axis.of(labels), features)

        keys, largest = e.heaviest(MOST_KEYS), largest_contributions(e)
        yield Text(title_text(study_title(e), width), BOLD, no_wrap=True)
        yield Text(heading(e, quote), BOLD)
        if remark := rows_remark(e):
            yield Text(harmless(remark), DIM)
        yield Segment.line()

        yield Text(scores_heading(e), BOLD)
        query, products = Scale.around_zero(e.query), Scale.around_zero(e.products[e.visible])
        yield strips("q", e.query[None], ["q"], query)
        yield strips("q ∘ k", visible_products(e)[keys], [labels(_LABEL)[key] for key in keys], products)
        yield Segment.line()
        yield from table_lines(scores_table(e, keys, quoted, rule_text(e)), console, options, **style)
        if rest := others(e, keys):
            yield Text(rest_text(e, rest))
        yield Text(strongest_text(e, quote))
        yield Segment.line()

        yield Text(output_heading(e), BOLD)
        contributions = np.concatenate([e.contributions[largest], e.output[None]])
        values = Scale.around_zero(contributions)
        yield strips("a v", contributions, [*(labels(_LABEL)[key] for key in largest), "Σ a v"], values)
        yield Segment.line()
        yield from table_lines(contributions_table(e, largest, quoted), console, options, **style)
        yield Segment.line()

        for scale, name in ((query, "q"), (products, "q ∘ k"), (values, "a v")):
            yield ScaleBar(scale, name)
        yield footnote(e.source.footnote)
