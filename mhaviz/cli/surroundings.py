"""Set up streams, signals and matplotlib before a command runs, and restore them for a recorded program."""

import atexit
import errno
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

from mhaviz.views.text import PLAIN

_SETTINGS = {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "agg"}
"""matplotlib reads no matplotlibrc, which may be broken, and opens no window."""
_DEFAULTS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""PyTorch caches at most 64 kernels, more than one batch uses: over a corpus it would cache a thousand, one for each
size of batches, of up to 40 KiB each. The hub is not told what is installed here.
"""
_users = ExitStack()
"""Restores what a recorded program would find without us; empty if ``main`` is called from Python."""

_is_ours = False


def run_settled() -> int:
    """Set up the surroundings, run the program, and return its exit status."""
    global _is_ours
    _is_ours = True
    settle_surroundings()

    from mhaviz.cli import app

    status = app.main()
    _leave_group()
    gc.freeze()
    return status


def _leave_group() -> None:
    """End the process group of PyTorch, if there is one, as PyTorch warns otherwise."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def settle_surroundings() -> None:
    """Set up streams, signals and matplotlib for the command line, not for programs that import mhaviz.

    Characters that a stream's encoding lacks are written in ASCII. A signal that ends the program removes half-written
    files. The garbage collector runs more rarely, as a short run mostly imports torch and matplotlib, whose objects
    stay.
    """
    from mhaviz.files.writing import clean_up_on

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller has closed it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            _users.callback(stream.reconfigure, errors=stream.errors)
            stream.reconfigure(errors=PLAIN)
    clean_up_on([getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)])
    _users.callback(gc.set_threshold, *gc.get_threshold())
    gc.set_threshold(100_000, 50, 50)
    missing = {name: value for name, value in _DEFAULTS.items() if name not in os.environ}
    for name, value in (_SETTINGS | missing).items():
        if name in os.environ:
            _users.callback(os.environ.update, {name: os.environ[name]})
        else:
            _users.callback(os.environ.pop, name, None)
        os.environ[name] = value
    logger = logging.getLogger("matplotlib")
    _users.callback(logger.setLevel, logger.level)
    logger.setLevel(logging.CRITICAL)
    if Path("matplotlibrc").is_file():  # it would be read in this folder, so matplotlib is imported in another
        folder = Path.cwd()
        os.chdir(folder.anchor)
        try:
            import matplotlib as matplotlib
        finally:
            os.chdir(folder)


@contextmanager
def room_for_a_program(keeps_stdout: bool) -> Iterator[None]:
    """Restore the user's own settings and streams for a recorded program, and set ours up again when it has ended.

    Args:
        keeps_stdout: keep standard output for mhaviz; the program's output, and that of its processes, goes to standard
            error.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: (_copy_of(number), os.fstat(number)) for number in (1, 2)}
    with ExitStack() as stack:
        _users.close()
        if _is_ours:
            stack.callback(settle_surroundings)
        stack.callback(_put_all_back, os.getpid(), kept, keeps_stdout)
        if keeps_stdout:
            stack.enter_context(_stdout_to_stderr())
        try:
            yield
        finally:
            _flush_streams()
            _reopen_streams()


def _put_all_back(process: int, kept: dict[int, tuple[int, os.stat_result]], keeps_stdout: bool) -> None:
    """Put back standard output and standard error.

    Args:
        process: the process that has begun. One that the program has forked writes nothing of ours.
        kept: of each number, a copy and its file.
        keeps_stdout: see ``room_for_a_program``.
    """
    if os.getpid() != process:
        return
    if 1 in [number for number, (copy, before) in kept.items() if not _put_back(number, copy, before)]:
        sys.stdout = _Closed()
    if keeps_stdout and _is_ours:
        atexit.register(_end_stdout)


_MOST_DESCRIPTORS, _SPARE = 2**16, 8
"""Copies of descriptors begin at a number below the limit of the process, or below this one, by so much: a process has
a table as long as its highest number."""


def _copy_of(number: int) -> int:
    """Return a copy of a descriptor with a high number: programs close the low ones all at once, as daemons do."""
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

        limit, _ = getrlimit(RLIMIT_NOFILE)
        most = _MOST_DESCRIPTORS if limit == RLIM_INFINITY else min(limit, _MOST_DESCRIPTORS)
        return fcntl(number, F_DUPFD_CLOEXEC, most - _SPARE)
    except (ImportError, OSError):  # another system, or all of these numbers are taken
        return os.dup(number)


def _put_back(number: int, copy: int, before: os.stat_result) -> bool:
    """Put back the file that a descriptor had before the program ran, from its copy.

    If the program has closed the copy, nothing of ours is written to what it has left in its place: return False.
    """
    with suppress(OSError):
        if os.path.samestat(os.fstat(copy), before):  # else the program has opened another file there
            os.dup2(copy, number)
            os.close(copy)
            return True
    with suppress(OSError):
        if os.path.samestat(os.fstat(number), before):
            return True
    closed = os.open(os.devnull, os.O_RDONLY)
    if closed != number:
        os.dup2(closed, number)
        os.close(closed)
    return False


class _Closed(io.TextIOBase):
    """Standard output that a program has closed."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Raise OSError."""
        raise OSError(errno.EBADF, "the program has closed standard output, and each copy of it; save it with -o")

    def fileno(self) -> int:
        """Return the number of standard output."""
        return 1


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Send standard output to standard error: of Python, of libraries in C, and of processes that are started."""
    os.dup2(2, 1)
    stream = open(1, "w", 1, sys.stderr.encoding, sys.stderr.errors, closefd=False)  # noqa: SIM115
    try:
        with redirect_stdout(stream):
            yield
    finally:
        with suppress(OSError):  # closed by the program
            stream.close()


def _end_stdout() -> None:
    """Send the output of the program's own exit handlers, which run after this one, to standard error, too."""
    sys.stdout.flush()
    os.dup2(2, 1)


def _flush_streams() -> None:
    """Flush the program's output, so that it comes before ours."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            with suppress(OSError):  # a closed pipe: the next write will report it
                stream.flush()


def _reopen_streams() -> None:
    """Open the null device in place of streams that the program has closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
