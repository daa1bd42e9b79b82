"""Running of what a checkpoint brings as a program, such as a chat template, with a limit of time and memory."""

import gc
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mhaviz.errors import MhavizError, reason
from mhaviz.units import readable_bytes

MOST_SECONDS = 10.0
"""Most seconds of a core. Templates take milliseconds."""

_LONGEST = 3
"""Most seconds of the clock, in multiples of ``MOST_SECONDS``: a copy may wait for a lock that another thread held."""

MOST_BYTES = 2**28
"""Most bytes of memory beyond what this process has."""


def confined(work: Callable[[], Any], what: str, advice: str) -> Any:
    """Return what a function returns, which JSON must be able to hold.

    The function runs in a copy of this process, as nothing else ends an operation of Python that takes for ever, or all
    memory. Where the system cannot copy a process, it runs here without limits.

    Args:
        work: the function.
        what: subject of an error's message, such as "the chat template of gpt2".
        advice: what to do if it takes too long or too much.

    Raises:
        MhavizError: the function raises it, or takes more than ``MOST_SECONDS`` or ``MOST_BYTES``.
    """
    if not hasattr(os, "fork"):
        return work()
    reading, writing = os.pipe()
    child = sent = status = None
    with os.fdopen(reading, "rb", buffering=0) as answer, os.fdopen(writing, "wb") as to_answer:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of locks of other threads: see ``_LONGEST``
                try:
                    child = os.fork()
                except OSError:  # the system has no room for another process
                    return work()
            if child == 0:
                _work_and_exit(work, to_answer, what)
            to_answer.close()
            sent = _read(answer, time.monotonic() + _LONGEST * MOST_SECONDS)
        finally:
            if child:
                if sent is None:  # Ctrl-C, or it waits for ever
                    os.kill(child, signal.SIGKILL)
                with suppress(ChildProcessError):  # a program that ignores SIGCHLD has none to wait for
                    _, status = os.waitpid(child, 0)
    if sent is None or (status and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF):
        raise MhavizError(f"{what} takes more than {MOST_SECONDS:g} seconds; {advice}")
    if status or not sent:
        raise MhavizError(f"{what} takes more than {readable_bytes(MOST_BYTES)} of memory; {advice}")
    returned, refusal = json.loads(sent)
    if refusal is not None:
        raise MhavizError(refusal)
    return returned


def _read(answer: FileIO, deadline: float) -> bytes | None:
    """Return all that is written to a pipe until it is closed; None: it is still open at the deadline."""
    pieces = list[bytes]()
    while select.select([answer], [], [], max(deadline - time.monotonic(), 0))[0]:
        piece = answer.read(2**16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None


def _work_and_exit(work: Callable[[], Any], to_answer: BinaryIO, what: str) -> NoReturn:
    """Write what the function returns, and the message of an error that it raises, as JSON, and end the process."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # a handler is of the process that was copied
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        gc.freeze()  # its objects, such as tensors on a GPU, are not deleted here
        _limit()
        try:
            written = json.dumps((work(), None))
        except MhavizError as error:
            written = json.dumps((None, str(error)))
        except MemoryError:
            raise
        except Exception as error:
            written = json.dumps((None, f"{what} cannot be used ({reason(error)})"))
        to_answer.write(written.encode())
        to_answer.flush()
        status = 0
    finally:
        os._exit(status)


def _limit() -> None:
    """Limit the time of this process, and on Linux its memory; SIGPROF ends it, and MemoryError is raised."""
    import resource

    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most, (soft, hard) = pages * resource.getpagesize() + MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
