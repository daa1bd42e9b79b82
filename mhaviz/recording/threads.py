"""Lets threads that a program starts be followed as the one that starts them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from mhaviz.recording.replacing import replaced

Following = Callable[[], Callable[[], AbstractContextManager[Any]]]
"""Is called where a thread is started; what it returns is called in the thread, and runs around all of it."""

_followings: list[Following] = []


@contextmanager
def threads_followed(following: Following) -> Iterator[None]:
    """Run each thread that is started within what ``following`` gives; several recordings may follow at a time."""
    with replaced(threading.Thread, "start", _followed):
        _followings.append(following)
        try:
            yield
        finally:
            _followings.remove(following)


def _followed(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def start_followed(thread: threading.Thread) -> None:
        run, withins = thread.run, [following() for following in list(_followings)]

        def run_followed() -> None:
            del thread.run
            with ExitStack() as stack:
                for within in withins:
                    stack.enter_context(within())
                run()

        if withins and "run" not in vars(thread):
            thread.run = run_followed  # type: ignore[method-assign]
        start(thread)

    return start_followed
