"""Attention laid over an image, in the terminal: the patches of every head, and which of them get most."""

from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.image import (
    head_titles,
    image_title,
    left_out_text,
    map_title,
    special_text,
    stretched_text,
    strongest_text,
)
from mhaviz.pages.labels import cut, harmless
from mhaviz.pages.panels import Panel, values_beyond
from mhaviz.pages.words import counted
from mhaviz.results.axis import Axis
from mhaviz.results.image import ImageAttention, ImageMap
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote

_STRONGEST = 3  # patches of a head that are named


@dataclass(frozen=True)
class ImageView:
    """A small grid of each head, and below them a line for each that names its strongest patches."""

    over: ImageAttention
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        over, abilities, width = self.over, Abilities.of(console, options), options.max_width
        used, left_maps, left_heads = 0, 0, 0
        scale = self.style.image_scale([m.flat for m in over.maps])
        yield Text(cut(image_title(over), 10 * width), BOLD)
        all_panels: list[Panel] = []
        for number, m in enumerate(over.maps):
            titles = head_titles(over, m)
            panels = [Panel(title, weights, scale) for title, weights in zip(titles, m.weights, strict=True)]
            rows, columns = (Axis.of(map(str, range(length))) for length in m.grid)
            grid = HeatGrid(panels, rows, columns, with_values=False)
            shown = len(panels)
            if abilities.lines is not None:
                layout = grid.decide(width, abilities)
                room = abilities.lines - used - 2
                if number and room < layout.height(layout.per_line):
                    left_maps = len(over.maps) - number
                    break
                while shown > layout.per_line and layout.height(shown) + shown > room:
                    shown -= layout.per_line
            left_heads = len(panels) - shown
            grid = HeatGrid(panels[:shown], rows, columns, with_values=False)
            all_panels += grid.drawn(width, abilities)
            used += 2 + grid.height(width, abilities) + shown
            yield Segment.line()
            if len(over.maps) > 1:
                yield Text(map_title(m), BOLD)
            yield grid
            yield from (Text(line) for line in _lines(over, m, titles[:shown]))
            if left_heads:
                left_maps = len(over.maps) - number - 1
                break
        yield Segment.line()
        more = [counted(left_heads, "head")] * bool(left_heads) + [counted(left_maps, "map")] * bool(left_maps)
        if more:
            yield Text(f"and {' and '.join(more)} more: -o page.png has all")
        parts = [
            "patches by row and column, from 0",
            over.quantity.remark,
            stretched_text(over),
            left_out_text(over),
            over.source.remark,
        ]
        beyond = values_beyond(all_panels, scale, scale.log)
        yield ScaleBar(scale, over.quantity.drawn_name, beyond)
        yield Text(harmless("; ".join(filter(None, parts))), DIM)
        yield footnote(over.source.footnote)


def _lines(over: ImageAttention, m: ImageMap, titles: tuple[str, ...]) -> list[str]:
    """ "head 5: 5,7 0.12 · 5,8 0.1; 0.34 to token 0" of each head."""
    special = special_text(over) if m.special_texts else ""
    lines = []
    for place, title in enumerate(titles):
        parts = [strongest_text(m, place, _STRONGEST) or "nothing to any patch"]
        parts += [f"{m.special[place]:.3g} to {special}"] if special else []
        lines.append(f"{title}: {'; '.join(parts)}")
    return lines
