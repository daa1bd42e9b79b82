"""Shaded texts in the terminal, where it has colours."""

from collections.abc import Iterator

import numpy as np
from rich.cells import cell_len
from rich.style import Style as RichStyle
from rich.text import Text as Line

from mhaviz.pages.blocks import Shaded
from mhaviz.pages.labels import cut
from mhaviz.pages.panels import Scale
from mhaviz.views.colours import places
from mhaviz.views.terminal.cells import terminal_colours, text_colours
from mhaviz.views.terminal.grid import DIM, Abilities
from mhaviz.views.text import isolated
from mhaviz.views.tiles.shaded import shaded_lines as lay_out

_QUERY = RichStyle(bold=True, underline=True)


def shaded_lines(block: Shaded, scale: Scale, abilities: Abilities, width: int) -> Iterator[Line]:
    """Yield the lines of a shaded text; none without colours."""
    if abilities.colours is None:
        return
    ground, ink = (of_scale(scale.colormap, abilities.colours) for of_scale in (terminal_colours, text_colours))
    shares = places(np.array([word.share or 0.0 for word in block.words], np.float32), scale).tolist()
    texts = [cut(word.text, width) for word in block.words]
    for placed in lay_out(block.words, list(map(cell_len, texts)), width, 1):
        line, used = Line() if placed else Line("…", DIM), 0
        for i, left in placed:
            word = block.words[i]
            line.append(" " * (round(left) - used))
            used = round(left) + cell_len(texts[i])
            style = DIM if word.share is None else RichStyle.from_color(ink[shares[i]], ground[shares[i]])
            line.append(isolated(texts[i]), style + _QUERY if word.is_query else style)
        yield line
