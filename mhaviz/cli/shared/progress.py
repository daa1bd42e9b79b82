"""What shows that a long piece of work goes on, on a terminal only."""

import sys
import threading
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


_PATIENCE = 2.0  # seconds; what is done by then needs no word


@contextmanager
def working(what: str, quiet: bool = False) -> Iterator[None]:
    """Say what is being done, and for how long already, while work that cannot be counted takes more than a moment."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show_until, args=(done, what), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show_until(done: threading.Event, what: str) -> None:
    if done.wait(_PATIENCE):
        return

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from mhaviz.views.terminal.safe_console import SafeConsole

    columns = BarColumn(20), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        done.wait()
