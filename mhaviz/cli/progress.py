"""A bar that shows how far a long piece of work is, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(quiet: bool = False, time_left: bool = False) -> Iterator[Callable[[float, str], None]]:
    """A function to be told how far the work is, from 0 to 1, and what to say of it; the bar is gone when all is done.

    ``time_left``: say how long it will take, for work that is even.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda done, what: None
        return

    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from mhaviz.views.terminal.safe_console import SafeConsole

    columns = [BarColumn(20), TaskProgressColumn(), TextColumn("{task.description}", markup=False)]
    columns += [TimeRemainingColumn(), TextColumn("left")] if time_left else []
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, what: bar.update(task, completed=done, description=what)
