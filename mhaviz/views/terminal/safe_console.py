"""The console that everything for the terminal is printed on."""

import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mhaviz.pages.labels import harmless
from mhaviz.views.text import PLAIN, outside_isolates


class SafeConsole(Console):
    """Prints texts literally, whoever wrote them: nothing in them acts on the terminal.

    Views make texts fit to be shown where they decide how much room a text has. Here, where texts leave for the
    terminal, whatever a view has forgotten is escaped; colours and movements of the cursor are no texts, and isolates
    around words of Arabic or Hebrew act on nothing but these.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        self.most_lines: int | None = None
        """Of pictures, one below the other; None: there is no end."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print them; what the encoding lacks is written in ASCII. The stream stays as its owner has set it."""
        stream = self.file
        if not isinstance(stream, io.TextIOWrapper):
            return super().print(*objects, **options)
        errors = stream.errors
        stream.reconfigure(errors=PLAIN)
        try:
            super().print(*objects, **options)
        finally:
            stream.reconfigure(errors=errors)

    def takes_at_most(self, lines: int, view: RenderableType) -> bool:
        """Whether a view has room in so many lines; nothing is made of what lies beyond them."""
        for segment in self.render(view):
            lines -= segment.text.count("\n")
            if lines < 0:
                return False
        return True

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, in pieces, each safe."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                lines = (outside_isolates(harmless, line) for line in text.split("\n"))
                yield segment._replace(text="\n".join(lines))
