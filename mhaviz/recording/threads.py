"""Lets threads that a program starts be followed as the one that starts them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Following = Callable[[], Callable[[], AbstractContextManager[Any]]]
"""Is called where a thread is started; what it returns is called in the thread, and runs around all of it."""

_lock = threading.Lock()
_followings: list[Following] = []
_start: Any = None


@contextmanager
def threads_followed(following: Following) -> Iterator[None]:
    """Run each thread that is started within what ``following`` gives; several recordings may follow at a time."""
    global _start
    with _lock:
        _followings.append(following)
        if threading.Thread.start is not _start_followed and len(_followings) == 1:
            _start = threading.Thread.start
            threading.Thread.start = _start_followed  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        with _lock:
            _followings.remove(following)
            if not _followings and threading.Thread.start is _start_followed:
                threading.Thread.start = _start  # type: ignore[method-assign]


def _start_followed(thread: threading.Thread) -> None:
    run, withins = thread.run, [following() for following in list(_followings)]

    def run_followed() -> None:
        del thread.run
        with ExitStack() as stack:
            for within in withins:
                stack.enter_context(within())
            run()

    if withins and "run" not in vars(thread):
        thread.run = run_followed  # type: ignore[method-assign]
    _start(thread)
