"""Runs a user's own program within the command line, which has been set up for mhaviz."""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

from mhaviz.cli.surroundings import owns_process, surroundings_put_back


class ProgramEndedError(Exception):
    """All is done, and mhaviz ends with the status of the program that it has run."""

    def __init__(self, status: int) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


@contextmanager
def room_for_a_program(keeps_stdout: bool) -> Iterator[None]:
    """Give a program what Python would: the user's own settings, and standard output.

    Args:
        keeps_stdout: keep that for us; what the program and its processes write there goes to standard error.
    """
    with ExitStack() as stack:
        stack.enter_context(surroundings_put_back())
        if keeps_stdout:
            stack.enter_context(_stdout_to_stderr())
        try:
            yield
        finally:
            _flush_streams()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """For Python, for libraries in C, and for the processes that are started."""
    sys.stdout.flush()
    process, kept = os.getpid(), os.dup(1)
    os.dup2(2, 1)
    stream = os.fdopen(os.dup(2), "w", 1, sys.stderr.encoding, sys.stderr.errors)
    try:
        with stream, redirect_stdout(stream):
            yield
    finally:
        if os.getpid() == process:  # one that the program has forked has nothing of ours to write
            os.dup2(kept, 1)
            if owns_process():
                atexit.register(_end_stdout)
        os.close(kept)


def _end_stdout() -> None:
    """Let what the program's own functions write at exit, which run after this one, go to standard error too."""
    sys.stdout.flush()
    os.dup2(2, 1)


def _flush_streams() -> None:
    """Let what the program has written come before what we write; stand in for what it has closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        else:
            with suppress(OSError):  # a pipe that nobody reads: who writes next will find out
                stream.flush()
