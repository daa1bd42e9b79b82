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

_QUERY = RichStyle(bold=True, underline=True)
_MOST_LINES = 12


def shaded_lines(block: Shaded, scale: Scale, abilities: Abilities, width: int) -> Iterator[Line]:
    """Yield the lines of a shaded text, up to 12; none without colours."""
    if abilities.colours is None:
        return
    ground, ink = (of_scale(scale.colormap, abilities.colours) for of_scale in (terminal_colours, text_colours))
    shares = places(np.array([word.share or 0.0 for word in block.words], np.float32), scale).tolist()
    lines = [Line()]
    used = 0
    for word, place in zip(block.words, shares, strict=True):
        text, blank = cut(word.text, width), used > 0 and word.after_blank
        if used and used + blank + cell_len(text) > width:
            lines.append(Line())
            used, blank = 0, False
        style = DIM if word.share is None else RichStyle.from_color(ink[place], ground[place])
        lines[-1].append(" " * blank)
        lines[-1].append(isolated(text), style + _QUERY if word.is_query else style)
        used += blank + cell_len(text)
    yield from lines[:_MOST_LINES]
    yield from [Line("…", DIM)] * (len(lines) > _MOST_LINES)
