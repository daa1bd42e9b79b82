"""Lets threads that a program starts be followed as the one that starts them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


@contextmanager
def threads_followed(following: Callable[[], Callable[[], AbstractContextManager[Any]]]) -> Iterator[None]:
    """Run each thread that is started within what ``following`` gives.

    ``following`` is called where the thread is started, and what it returns in the thread.
    """
    start = threading.Thread.start

    def start_followed(thread: threading.Thread) -> None:
        run, within = thread.run, following()

        def run_followed() -> None:
            thread.run = run  # type: ignore[method-assign]
            with within():
                run()

        thread.run = run_followed  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = start_followed  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
