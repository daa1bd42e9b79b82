"""The matrices of one layer in the terminal: those that share their rows and columns side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.matrices import (
    JOIN,
    PRODUCTS,
    PROJECT,
    MatrixScales,
    columns_text,
    head_title,
    hidden_text,
    left_out_text,
    marked_text,
    matrices_title,
    others_text,
    output_text,
    score_text,
    scores_title,
    titled,
    weights_of,
    whole_title,
)
from mhaviz.pages.panels import Panel
from mhaviz.pages.words import counted
from mhaviz.records.attention import AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.matrices import LayerMatrices
from mhaviz.records.tokens import Tokens
from mhaviz.views.labels import harmless, title_text
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid, quote
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.ramps import HIDDEN


@dataclass(frozen=True)
class MatricesView:
    """X, Q, K and V of all heads; then S and A of each; then the H of all heads, and O."""

    matrices: LayerMatrices
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        m, abilities = self.matrices, Abilities.of(console, options)
        scales = MatrixScales.of(m)
        weights = np.stack([head.weights for head in m.heads])
        weight_scale = self.style.weight_scale([AttentionMap(weights, Axis(m.queries), Axis(m.keys), m.kind)])

        yield Text(title_text(matrices_title(m), options.max_width), BOLD, no_wrap=True)
        yield Text(marked_text(m, quote), DIM)
        yield Segment.line()

        yield Text(PROJECT, BOLD)
        wholes = [Panel(whole_title(x), x.values, scales.of_whole(x)) for x in m.projected]
        n_of_queries = (
            len(wholes) if m.memory is None and m.queries.texts == m.keys.texts else 1 + (m.input is not None)
        )
        yield from _grids(wholes[:n_of_queries], m.queries)
        yield from _grids(wholes[n_of_queries:], m.keys)
        yield Segment.line()

        yield Text(PRODUCTS, BOLD)
        used = 0
        for number, head in enumerate(m.heads):
            products = [
                Panel(scores_title(m, head), head.scores, scales.scores),
                Panel(titled("A", "softmax(S)", head.weights), weights_of(head), replace(weight_scale, zeros=True)),
            ]
            grid = HeatGrid(products, Axis(m.queries), Axis(m.keys))
            used += 4 + grid.height(options.max_width, abilities)
            if number and abilities.lines is not None and used > abilities.lines:
                more = counted(len(m.heads) - number, "head")
                yield Text(f"and {more} more: --head chooses, -o page.png has all", DIM)
                yield Segment.line()
                break
            yield Text.assemble((head_title(m, head), BOLD), f": {columns_text(m, head)}")
            yield Text(score_text(m, head, quote))
            yield Text(output_text(m, head, quote))
            yield grid
            yield Segment.line()

        yield Text(JOIN, BOLD)
        joined = [m.joined, *([m.output] if m.output else [])]
        yield from _grids([Panel(whole_title(x), x.values, scales.of_whole(x)) for x in joined], m.queries)
        yield Segment.line()

        names = (
            (scales.inputs, "X") if m.input else None,
            (scales.projected, "Q, K"),
            (scales.scores, "S"),
            (weight_scale, "A"),
            (scales.values, "V, H"),
            (scales.output, "O") if m.output else None,
        )
        for scale, name in filter(None, names):
            yield ScaleBar(scale, name, (False, bool((weights > scale.high).any())) if name == "A" else (False, False))
        remarks = (others_text(m), hidden_text(m, HIDDEN), left_out_text(m), m.source.remark)
        for remark in filter(None, remarks):
            yield Text(harmless(remark), DIM)
        yield footnote(m.source.footnote)


def _grids(panels: Sequence[Panel], rows: Tokens) -> Iterator[RenderableType]:
    """Panels of the same rows, a grid for each number of columns."""
    for columns in dict.fromkeys(panel.values.shape[1] for panel in panels):
        alike = [panel for panel in panels if panel.values.shape[1] == columns]
        yield HeatGrid(alike, Axis(rows), Axis.of(str(i) for i in range(columns)))
