"""How much of a result a terminal shows; the rest is counted, and what shows it is named."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

SCREENS = 3
"""Pictures take so many at most: nobody scrolls farther. Tables and words come after them."""

SCREENS_BESIDE_FILES = 2
"""A result that has been saved is shown, too, where it takes no more than so many."""

_LINES, _LEAST_LINES = 40, 10  # of a screen whose height nobody knows, as of a file or a pipe; and however low one is


def screen_lines(console: "Console") -> int:
    """Lines of a screen."""
    return max(console.height, _LEAST_LINES) if console.file.isatty() else _LINES
