"""Limits of how much of a result a terminal shows."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

SCREENS = 3
"""Most screens for the pictures of a result; tables and texts come after them."""

SCREENS_BESIDE_FILES = 2
"""Most screens of a result that is shown although it has been saved."""

_LINES, _LEAST_LINES = 40, 10  # lines of a screen where output goes to a file or a pipe, and at least


def screen_lines(console: "Console") -> int:
    """Return the number of lines of a screen."""
    return max(console.height, _LEAST_LINES) if console.file.isatty() else _LINES
