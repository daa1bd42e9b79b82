"""Weights between spans in the terminal, where it has colours and room for a panel."""

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.style import Style as RichStyle
from rich.text import Text as Line

from mhaviz.pages.blocks import SpanGrid
from mhaviz.pages.labels import cut
from mhaviz.pages.panels import Scale
from mhaviz.views.colours import places
from mhaviz.views.terminal.cells import terminal_colours, text_colours
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities
from mhaviz.views.text import isolated

_LEAST, _MOST, _LEAST_LABEL = 5, 14, 8  # columns of the terminal: of a cell, and of a label


def span_grid_lines(block: SpanGrid, abilities: Abilities, width: int) -> Iterator[Line]:
    """Yield the lines of a single panel; none of several, or where it has no room, as tables have its strongest."""
    longest, n_columns = max(map(cell_len, block.rows)), len(block.columns)
    label = min(longest, width - _LEAST * n_columns - 1)
    if len(block.panels) > 1 or label < min(_LEAST_LABEL, longest):
        return
    cell = min((width - label - 1) // n_columns, max(map(cell_len, block.columns)) + 1, _MOST)
    cell = max(cell, _LEAST)
    (panel,) = block.panels
    yield Line(panel.title, BOLD)
    heads = "".join(" " * (cell - cell_len(shown)) + shown for shown in (cut(name, cell - 1) for name in block.columns))
    yield Line(" " * (label + 1) + isolated(heads), DIM)
    for i, name in enumerate(block.rows):
        line = Line(isolated(set_cell_size(cut(name, label), label)) + " ")
        for j in range(len(block.columns)):
            line.append(block.text(panel, i, j).rjust(cell), _style(*block.number(panel, i, j), abilities))
        yield line
    colours = f"; colours: {block.scale.range_text} {block.of_colours}" * (abilities.colours is not None)
    yield Line(f"{block.of_numbers}{colours}", DIM)
    yield Line()


def _style(number: float, scale: Scale, abilities: Abilities) -> RichStyle:
    """Return the colours of a cell; none without colours, and where there is no number."""
    if abilities.colours is None or np.isnan(number):
        return RichStyle()
    place = int(places(np.array(number, np.float32), scale))
    ground, ink = (of_scale(scale.colormap, abilities.colours) for of_scale in (terminal_colours, text_colours))
    return RichStyle.from_color(ink[place], ground[place])
