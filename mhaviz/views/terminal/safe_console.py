"""Console that prints everything for the terminal."""

import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mhaviz.pages.labels import harmless
from mhaviz.views.text import PLAIN, outside_isolates


class SafeConsole(Console):
    """Console that prints all texts literally, so that none can act on the terminal.

    Renderers escape texts where they measure them. This console escapes whatever a renderer has missed. It leaves
    colours and cursor movements, which are not texts, and the isolates around words of Arabic or Hebrew.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        self.most_lines: int | None = None
        """Most lines for all pictures of a result together; None: no limit."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print the objects; characters that the encoding lacks are written in ASCII."""
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
        """Return whether a view fits into ``lines``, rendering no more of it than that takes."""
        for segment in self.render(view):
            lines -= segment.text.count("\n")
            if lines < 0:
                return False
        return True

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, each escaped."""
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                lines = (outside_isolates(harmless, line) for line in text.split("\n"))
                yield segment._replace(text="\n".join(lines))
