"""Follow the threads that a program starts as the thread that starts them."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from mhaviz.observe.replacing import followed

Following = Callable[[], Callable[[], AbstractContextManager[Any]]]
"""Callback where a thread is started. The function that it returns is called in the new thread, and gives the context
manager within which the whole thread runs."""


def threads_followed(following: Following) -> AbstractContextManager[None]:
    """Run each thread that is started within the context manager of ``following``."""
    return followed(threading.Thread, "start", _followed, following)


def _followed(
    start: Callable[[threading.Thread], None], followers: list[Following]
) -> Callable[[threading.Thread], None]:
    def start_followed(thread: threading.Thread) -> None:
        run, withins = thread.run, [following() for following in list(followers)]

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
