"""What the program says to people: views on standard output, and a line at a time on standard error."""

import shutil
import sys
from typing import TYPE_CHECKING

from mhaviz.views.labels import cut, visible

if TYPE_CHECKING:
    from rich.console import RenderableType


_LONGEST_WORD, _LONGEST_LINE = 300, 1_000  # characters: of a path, and of what anybody reads


def say(line: str) -> None:
    """Print a notice or an error, which may name files and quote what is in them, or what an option was given."""
    words = (cut(word, _LONGEST_WORD) for word in line.split(" "))
    print(f"mhaviz: {visible(cut(' '.join(words), _LONGEST_LINE))}", file=sys.stderr)  # noqa: T201


def print_view(view: "RenderableType") -> None:
    """Print a view, as wide as the terminal."""
    from mhaviz.views.terminal.safe_console import SafeConsole

    width = shutil.get_terminal_size().columns  # rich would take 80 for TERM=dumb
    SafeConsole(width=width).print(view)
