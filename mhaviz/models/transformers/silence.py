"""Suppression of what libraries print while they load a model."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import RLock

_one_at_a_time = RLock()
"""Two threads at once would restore each other's streams."""


@contextmanager
def silence(*streams: int) -> Iterator[None]:
    """Discard what is printed within the context, also by libraries in C++ or Rust, and by other threads.

    ``streams``: file descriptors, 1 for standard output, 2 for standard error. A panic in Rust writes to the descriptor
    before any exception is raised.
    """
    with _one_at_a_time, Path(os.devnull).open("w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # closed, or none at all
                stream.flush()
        kept = {stream: os.dup(stream) for stream in streams if _is_open(stream)}
        try:
            for stream in kept:
                os.dup2(nowhere.fileno(), stream)
            with redirect_stdout(nowhere if 1 in streams else sys.stdout), redirect_stderr(nowhere):
                yield
        finally:
            for stream, copy in kept.items():
                os.dup2(copy, stream)
                os.close(copy)


def _is_open(stream: int) -> bool:
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True
