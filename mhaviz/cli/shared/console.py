"""Output to the terminal: views on standard output, messages and progress on standard error."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from mhaviz.errors import MhavizError, counted
from mhaviz.pages.labels import cut, visible
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from rich.console import RenderableType

SCREENS, SCREENS_BESIDE_FILES = 3, 2  # most screens of a result's pictures, and of one that has been saved
_LINES, _LEAST_LINES = 40, 10  # lines of a screen where output goes to a file or a pipe, and at least
_LONGEST_WORD, _LONGEST_LINE = 300, 1_000  # characters: room for a path; more than anybody reads


_OTHER_NAMES = {
    "form": "--as",
    "causal": "--mask",
    "room": "--for",
    "policies": "--policy",
    "device_map": "--device",
    "max_memory": "--device",
    "revision": "--model NAME@REVISION",
    "prefix": "--model FILE#NAME",
    "source_language": "--languages",
    "target_language": "--languages",
    "input_name": "--input",
}


def option_name(name: str) -> str:
    """Return the option for a parameter of Python: "d_model" → "--d-model"."""
    return _OTHER_NAMES.get(name) or f"--{name.replace('_', '-')}"


def say(line: str) -> None:
    """Print a notice or an error, with long words cut and control characters visible, as it may quote any input."""
    try:
        words = (cut(word, _LONGEST_WORD) for word in line.split(" "))
        shown = visible(cut(" ".join(words), _LONGEST_LINE))
    except OSError:  # without a free descriptor, the widths of other characters cannot be loaded
        shown = ascii(line)[1:-1][:_LONGEST_LINE]
    try:
        print(f"mhaviz: {shown}", file=sys.stderr)  # noqa: T201
    except OSError:  # nobody can be told
        _silence(sys.stderr)


@contextmanager
def printing() -> Iterator[None]:
    """Print results inside this block. If a pipe is closed, the rest is dropped, and the exit status stays the same.

    Raises:
        MhavizError: standard output cannot be written for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:  # rich and typer end the program at a closed pipe
        if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _silence(sys.stdout)
    except OSError as error:
        if error.filename is not None or error.errno is None:  # the error is of a file, or of a library
            raise
        _silence(sys.stdout)
        raise MhavizError(f"cannot write the result: {error.strerror or error}") from error


def _silence(stream: TextIO) -> None:
    """Drop what is left to write, now and at exit."""
    with suppress(OSError):  # without a free descriptor, Python reports at exit what could not be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_view(view: "RenderableType", screens: int | None = None) -> bool:
    """Print a view as wide as the terminal, unless it takes more than ``screens``. Return whether it was printed."""
    from mhaviz.views.terminal.safe_console import SafeConsole

    console = SafeConsole(width=shutil.get_terminal_size().columns)  # rich would take 80 for TERM=dumb
    screen = max(console.height, _LEAST_LINES) if console.file.isatty() else _LINES
    console.most_lines = SCREENS * screen
    if screens is not None and not console.takes_at_most(screens * screen, view):
        return False
    with printing():
        console.print(view)
    return True


@contextmanager
def progress(
    quiet: bool, what: str, time_left: bool = False, is_counted: bool = True
) -> Iterator[Callable[[float, str], None]]:
    """Show a progress bar, which disappears at the end; yield a callback for the share of the work done and a text.

    Args:
        quiet: show nothing.
        what: text before the first call.
        time_left: show an estimate of the time left, for work that proceeds evenly.
        is_counted: whether the callback will be called; if not, show the time since the start.
    """
    if quiet or not sys.stderr.isatty() or not this_process().is_first:
        yield lambda done, what: None
        return

    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    from mhaviz.views.terminal.safe_console import SafeConsole

    # Text that is too long for the terminal is cut at its end only.
    rest = Column(no_wrap=True, overflow="crop", ratio=1)
    left = [TimeRemainingColumn(), TextColumn("left")] if time_left else []
    columns = [BarColumn(20), *([TaskProgressColumn(), *left] if is_counted else [TimeElapsedColumn()])]
    columns.append(TextColumn("{task.description}", markup=False, table_column=rest))
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True, expand=True) as bar:
        task = bar.add_task(what, total=1.0 if is_counted else None)
        yield lambda done, what: bar.update(task, completed=done, description=what)


@contextmanager
def corpus_progress(quiet: bool) -> Iterator[Callable[[float, int], None]]:
    """Show a progress bar for a corpus; its callback takes the share of the work done and the number of sentences."""
    with progress(quiet, "reading sentences", time_left=True) as on_progress:
        yield lambda done, taken: on_progress(done, counted(taken, "sentence"))
