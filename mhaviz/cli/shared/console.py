"""What the program says to people: views on standard output, and a line at a time on standard error."""

import re
import shutil
import sys
from typing import TYPE_CHECKING

from mhaviz.views.labels import cut, visible

if TYPE_CHECKING:
    from rich.console import RenderableType


_LONGEST_WORD, _LONGEST_LINE = 300, 1_000  # characters: of a path, and of what anybody reads


def say(line: str) -> None:
    """Print a notice or an error, which may name files and quote what is in them, or what an option was given."""
    words = (cut(word, _LONGEST_WORD) for word in _as_options(line).split(" "))
    print(f"mhaviz: {visible(cut(' '.join(words), _LONGEST_LINE))}", file=sys.stderr)  # noqa: T201


def print_view(view: "RenderableType") -> None:
    """Print a view, as wide as the terminal."""
    from mhaviz.views.terminal.safe_console import SafeConsole

    width = shutil.get_terminal_size().columns  # rich would take 80 for TERM=dumb
    SafeConsole(width=width).print(view)


_OPTIONS = {"causal": "--mask", "d_model": "--d-model", "texts": "SENTENCE"}
_PARAMETER = re.compile(
    r"`(causal|cmap|columns|d_model|dpi|dtype|generate|head|hide_special|input|input_name|kind|layer|max_tokens|memory"
    r"|model|n_heads|name|prefix|revision|seed|size|steps|target|token|tokenizer|verify|vmax)`"
)


def _as_options(message: str) -> str:
    """A message for Python, which has the names of parameters in backticks, as the command line calls them."""
    return _PARAMETER.sub(lambda match: _OPTIONS.get(match[1], f"--{match[1].replace('_', '-')}"), message)
