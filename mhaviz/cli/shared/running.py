"""Runs a user's own program within the command line, which has been set up for mhaviz."""

import atexit
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

from mhaviz.cli.surroundings import owns_process, surroundings_put_back
from mhaviz.errors import MhavizError

_LARGEST = 2**16
"""No copy of a descriptor has a larger number: the table of a process is as long as its largest."""


@contextmanager
def room_for_a_program(keeps_stdout: bool) -> Iterator[None]:
    """Give a program what Python would: the user's own settings, and standard output.

    Whatever it makes of the standard streams, they are ours again when it has ended.

    Args:
        keeps_stdout: keep that for us; what the program and its processes write there goes to standard error.

    Raises:
        MhavizError: it has closed what was kept for us.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    process, kept = os.getpid(), {number: _out_of_reach(number) for number in (1, 2)}
    with ExitStack() as stack:
        stack.enter_context(surroundings_put_back())
        if keeps_stdout:
            stack.enter_context(_stdout_to_stderr())
        try:
            with _left_open({copy for copy in kept.values() if copy is not None}):
                yield
        finally:
            _flush_streams()
            if os.getpid() == process:  # one that the program has forked has nothing of ours to write
                lost = [number for number, copy in kept.items() if not _put_back(number, copy)]
                if keeps_stdout and owns_process():
                    atexit.register(_end_stdout)
                if 1 in lost and keeps_stdout:
                    raise MhavizError(
                        "cannot print JSON: the program has closed all descriptors, ours too; save it with -o alone"
                    )
            _reopen_streams()


def _out_of_reach(number: int) -> int | None:
    """A copy of a descriptor with a number so large that programs that close all they may have leave it alone."""
    try:
        import fcntl
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, min(most, _LARGEST) - 8)
    except (ImportError, OSError, ValueError):  # none on Windows, or nothing to copy
        return None


@contextmanager
def _left_open(ours: set[int]) -> Iterator[None]:
    """Let functions that close descriptors leave these alone, as if there were none; a fork may close its own."""
    process, close, close_range = os.getpid(), os.close, os.closerange

    def close_other(fd: int) -> None:
        if os.getpid() == process and fd in ours:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        close(fd)

    def close_others(first: int, end: int, /) -> None:
        for own in sorted(ours if os.getpid() == process else ()):
            if first <= own < end:
                close_range(first, own)
                first = own + 1
        close_range(first, end)

    os.close, os.closerange = close_other, close_others
    try:
        yield
    finally:
        os.close, os.closerange = close, close_range


def _put_back(number: int, copy: int | None) -> bool:
    """Put a descriptor back in its place, or stand in for one that is gone; whether it is back."""
    try:
        if copy is None:
            os.fstat(number)
        else:
            os.dup2(copy, number)
            os.close(copy)
    except OSError:
        with suppress(OSError):
            os.fstat(number)
            return False
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
        return False
    return True


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
