"""Suppression of what libraries print and log while they load and run a model."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Lock, RLock

from transformers.utils import logging as theirs

_one_at_a_time = RLock()
"""Two threads at once would restore each other's streams."""

_lock, _found = Lock(), ExitStack()
_users = 0  # contexts that are open, in all threads; the last one restores what the first one found


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers log nothing but errors, and show no progress bars, within the context.

    A notebook shows both whatever becomes of standard error.
    """
    global _users
    logger = theirs.get_logger()
    with _lock:
        if not _users:
            _found.callback(logger.setLevel, logger.level)
            _found.callback(setattr, theirs, "_tqdm_active", theirs.is_progress_bar_enabled())
            logger.setLevel(max(logger.level, logging.ERROR))
            theirs._tqdm_active = False  # its public function would also forget which bars of the hub are shown
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _found.close()


@contextmanager
def silence(*streams: int) -> Iterator[None]:
    """Discard what is printed within the context, also by libraries in C++ or Rust, and by other threads; be ``quiet``.

    ``streams``: file descriptors, 1 for standard output, 2 for standard error. A panic in Rust writes to the descriptor
    before any exception is raised.
    """
    with quiet(), _one_at_a_time, Path(os.devnull).open("w") as nowhere:
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
