"""What is set up before a command runs, streams, signals, matplotlib, and put back for a program of the user's."""

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

from mhaviz.views.text import PLAIN

_KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_SETTINGS = {"MATPLOTLIBRC": os.devnull, "MPLBACKEND": "agg", _KERNELS: "64"}
"""matplotlib reads no matplotlibrc, broken or not, and opens no window. PyTorch keeps few kernels of sizes of batches,
which over a corpus would be a thousand, of up to 40 KiB each; so many are more than a batch has.
"""
_users = ExitStack()
"""Puts in place what a program of the user's own would find without us; empty where somebody calls ``main``."""

_is_ours = False


def run_settled() -> int:
    """Run the program, and return its exit status."""
    global _is_ours
    _is_ours = True
    settle_surroundings()

    from mhaviz.cli import app

    status = app.main()
    _leave_group()
    gc.freeze()
    return status


def _leave_group() -> None:
    """Tell PyTorch that this process is done, if it is one of several, or it would warn of it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def settle_surroundings() -> None:
    """Set streams, signals and matplotlib for the command line: a Python program that imports mhaviz has its own.

    What a narrow encoding lacks is written in ASCII. A signal that ends the program removes half-written files. The
    garbage collector runs more rarely: a short run mostly imports torch and matplotlib, whose objects stay.
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
    for name, value in _SETTINGS.items():
        if name in os.environ:
            _users.callback(os.environ.update, {name: os.environ[name]})
        else:
            _users.callback(os.environ.pop, name, None)
        os.environ[name] = os.environ.get(name, value) if name == _KERNELS else value
    logger = logging.getLogger("matplotlib")
    _users.callback(logger.setLevel, logger.level)
    logger.setLevel(logging.CRITICAL)
    if Path("matplotlibrc").is_file():  # here it comes before all others: matplotlib is imported from elsewhere
        folder = Path.cwd()
        os.chdir(folder.anchor)
        try:
            import matplotlib as matplotlib
        finally:
            os.chdir(folder)


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
        _users.close()
        if _is_ours:
            stack.callback(settle_surroundings)
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
                if keeps_stdout and _is_ours:
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
