"""Runs a user's own program within the command line, which has been set up for mhaviz."""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

from mhaviz.cli.surroundings import owns_process, surroundings_put_back


@contextmanager
def room_for_a_program(keeps_stdout: bool) -> Iterator[None]:
    """Give a program what Python would: the user's own settings, and standard output.

    Whatever it makes of the standard streams, they are ours again when it has ended.

    Args:
        keeps_stdout: keep that for us; what the program and its processes write there goes to standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    process, kept = os.getpid(), {number: (os.dup(number), os.fstat(number)) for number in (1, 2)}
    with ExitStack() as stack:
        stack.enter_context(surroundings_put_back())
        if keeps_stdout:
            stack.enter_context(_stdout_to_stderr())
        try:
            yield
        finally:
            _flush_streams()
            if os.getpid() == process:  # one that the program has forked has nothing of ours to write
                for number, (copy, before) in kept.items():
                    with suppress(OSError):  # the program has closed all descriptors, as a daemon does
                        if os.path.samestat(os.fstat(copy), before):  # else it is a file of the program's by now
                            os.dup2(copy, number)
                            os.close(copy)
                if keeps_stdout and owns_process():
                    atexit.register(_end_stdout)
            _reopen_streams()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """For Python, for libraries in C, and for the processes that are started."""
    os.dup2(2, 1)
    stream = os.fdopen(os.dup(2), "w", 1, sys.stderr.encoding, sys.stderr.errors)
    try:
        with redirect_stdout(stream):
            yield
    finally:
        with suppress(OSError):  # closed by the program
            stream.close()


def _end_stdout() -> None:
    """Let what the program's own functions write at exit, which run after this one, go to standard error too."""
    sys.stdout.flush()
    os.dup2(2, 1)


def _flush_streams() -> None:
    """Let what the program has written come before what we write."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            with suppress(OSError):  # a pipe that nobody reads: who writes next will find out
                stream.flush()


def _reopen_streams() -> None:
    """Stand in for streams that the program has closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
