"""Colour bar below a picture in the terminal."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style as RichStyle
from rich.text import Text

from mhaviz.pages.panels import Scale
from mhaviz.views.colours import places
from mhaviz.views.terminal.cells import ramp_characters, terminal_colours
from mhaviz.views.terminal.grid import DIM, Abilities

_STEPS = 16


@dataclass(frozen=True)
class ScaleBar:
    """Colour bar of a scale, in colours or ramp characters, with a remark.

    Attributes:
        scale: the scale.
        remark: text beside the bar.
        blank: text that says which numbers are blank; shown only without colour.
    """

    scale: Scale
    remark: str = ""
    blank: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        abilities = Abilities.of(console, options)
        values = np.array([self.scale.value(share) for share in np.linspace(0, 1, _STEPS)], np.float32)
        low, high = self.scale.ends
        bar = Text(f"{low} ")
        blank = ""
        if abilities.colours:
            chosen = terminal_colours(self.scale.colormap, abilities.colours)
            for place in places(values, self.scale).tolist():
                bar.append(" ", RichStyle.from_color(None, chosen[place]))
        else:
            bar.append("".join(ramp_characters(values, self.scale)))
            blank = f", {self.blank}" if self.blank else ""
        bar.append(f" {high}" + ", logarithmic" * self.scale.log + blank)
        if self.remark:
            bar.append("   " + self.remark, DIM)
        yield bar
