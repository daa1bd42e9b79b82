"""Running of what a checkpoint brings as a program, such as a chat template, with a limit of time and memory."""

import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mhaviz.errors import MhavizError
from mhaviz.units import readable_bytes

MOST_SECONDS = 10.0
"""Most seconds of a core. Templates take milliseconds."""

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
    with os.fdopen(reading, "rb") as answer, os.fdopen(writing, "wb") as to_answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of locks of other threads: Python code needs none
            child = os.fork()
        if child == 0:
            _work_and_exit(work, to_answer)
        try:
            to_answer.close()
            sent = answer.read()
        except BaseException:  # Ctrl-C
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        raise MhavizError(f"{what} takes more than {MOST_SECONDS:g} seconds; {advice}")
    if status:
        raise MhavizError(f"{what} takes more than {readable_bytes(MOST_BYTES)} of memory; {advice}")
    returned, refusal = json.loads(sent)
    if refusal is not None:
        raise MhavizError(refusal)
    return returned


def _work_and_exit(work: Callable[[], Any], to_answer: BinaryIO) -> NoReturn:
    """Write what the function returns, and the message of a MhavizError, as JSON, and end the process."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPROF):  # a handler is of the process that was copied
            signal.signal(number, signal.SIG_DFL)
        gc.freeze()  # its objects, such as tensors on a GPU, are not deleted here
        _limit()
        returned, refusal = None, None
        try:
            returned = work()
        except MhavizError as error:
            refusal = str(error)
        to_answer.write(json.dumps((returned, refusal)).encode())
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
