"""A function of ours that runs code of a user, in a process of its own that may end in any way."""

import base64
import faulthandler
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NoReturn, TypeVar

from mhaviz.cli.shared.console import option_name
from mhaviz.errors import ArgumentError, MhavizError, parameter, parameters_named

_T = TypeVar("_T")

_PROGRAM = """import sys
home, folder = sys.argv[1:]
is_installed = home in sys.path
is_installed or sys.path.insert(0, home)
from mhaviz.cli.shared.child import answer
is_installed or sys.path.remove(home)
answer(folder)
"""
"""What the child runs: the same mhaviz as the parent. Afterwards the user's imports are found as without it."""

_START = 300.0  # seconds in which the child must have imported PyTorch
_GRACE = 3.0  # seconds by which our own function, which has the same limit, may pass it
_PAUSE, _TRACE = 0.05, 0.5  # seconds between two looks at the child, and for it to say where it is

_ERRORS = 2  # standard error

_JOB, _TOLD, _FOUND, _WHERE = "job", "told", "found", "where"
"""Files that both processes share: they work everywhere, and no process that the user's code leaves can hold them open.
"""


@dataclass(frozen=True)
class Job:
    """What the child does.

    Attributes:
        function: "module:name" of a function of ours. It is called with ``arguments``, and with functions
            ``on_progress`` and ``on_notice``, each of which takes a text. Its time begins when it first calls
            ``on_progress``.
        arguments: plain values.
        subject: what its user gave, for messages.
        folder: folder of the user's code, whose lines are named in messages.
        time_limit: seconds.
        options: names of the options that its errors may advise.
    """

    function: str
    arguments: Mapping[str, Any]
    subject: str
    folder: Path
    time_limit: float
    options: Collection[str]


def run_in_child(job: Job, kind: type[_T], on_progress: Callable[[str], None], on_notice: Callable[[str], None]) -> _T:
    """Run a function in a child process, and return its result.

    ``kind``: type of the result, a dataclass of JSON values and arrays.

    The output of the child goes to standard error. Nothing that its code does to its process reaches this one. It is
    killed, with the processes that it has started, at the time limit, at Ctrl-C and when this process ends.

    Raises:
        MhavizError: the function raised it, the child ended in another way, or took longer than the limit.
    """
    with _ended_in_order(), TemporaryDirectory(prefix="mhaviz-") as name:
        folder = Path(name)
        described = {"function": job.function, "arguments": job.arguments, "options": sorted(job.options)}
        (folder / _JOB).write_bytes(pickle.dumps(described))  # which keeps tuples and infinity
        (folder / _TOLD).touch()
        home = str(Path(sys.modules["mhaviz"].__file__ or "").resolve().parents[1])
        sys.stderr.flush()
        stream = _ERRORS if _is_open(_ERRORS) else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, home, name],
            stdin=subprocess.PIPE,  # is closed when this process ends, however that is
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            stage = _follow(child, job, folder, on_progress, on_notice)
        finally:
            _kill(child)
        found = folder / _FOUND
        if not found.exists():
            raise MhavizError(_ending(child.returncode, job, stage, _place(folder, job)))
        return _result(found.read_text(), kind)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _follow(
    child: "subprocess.Popen[bytes]",
    job: Job,
    folder: Path,
    on_progress: Callable[[str], None],
    on_notice: Callable[[str], None],
) -> str:
    """Pass on what the child tells until it ends, and return the last progress. Raises MhavizError at its limit."""
    stage, deadline, rest = "", time.monotonic() + _START, ""
    with (folder / _TOLD).open() as told:
        while True:
            has_ended = child.poll() is not None
            rest += told.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                try:
                    what, text = json.loads(line)
                except ValueError:  # the program has written into the file
                    continue
                if what == "notice":
                    on_notice(text)
                    continue
                if not stage:
                    deadline = time.monotonic() + job.time_limit + _GRACE
                stage = text
                on_progress(text)
            if has_ended:
                return stage
            if time.monotonic() > deadline:
                limit = f"within {job.time_limit:g} s" if stage else f"to be loaded within {_START:g} s"
                raise MhavizError(
                    f"{job.subject}: expected an end {limit}, got none while {stage or 'loading PyTorch'}"
                    f"{_now(child, folder, job)}; raise {parameter('time_limit')}, or give smaller sizes"
                )
            with suppress(subprocess.TimeoutExpired):
                child.wait(_PAUSE)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill the child and the processes of its group, and wait for its end."""
    if child.poll() is None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()
    child.wait()
    if child.stdin:
        child.stdin.close()


def _result(text: str, kind: type[_T]) -> _T:
    """Return the child's result. Raises the MhavizError that it raised."""
    import msgspec

    try:
        answer = json.loads(text)
        if "error" not in answer:
            return msgspec.convert(answer["result"], kind, dec_hook=_array)
        status, message = int(answer["status"]), str(answer["error"])
    except (ValueError, KeyError, TypeError) as error:
        raise MhavizError(
            "expected the result of a check, got other text in its place; the program wrote it"
        ) from error
    raise (ArgumentError if status == ArgumentError.status else MhavizError)(message)


def _array(kind: Any, value: Any) -> Any:
    """Return an array as ``_plain`` has written it, or any other value as it is."""
    if kind is object:
        return value
    import numpy as np

    if value["dtype"] not in ("<f4", ">f4"):
        raise ValueError("expected float32")
    return np.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(value["shape"])


def _plain(value: Any) -> Any:
    """Return an array as JSON, and a number of NumPy as Python's."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        return repr(value)
    return {"dtype": value.dtype.str, "shape": value.shape, "data": base64.b64encode(value.tobytes()).decode()}


def _ending(status: int, job: Job, stage: str, place: str) -> str:
    """Return the message on a child that has ended without a result."""
    doing = f" while {stage}{place}" if stage else ""
    if status >= 0:
        return (
            f"{job.subject}: the program ended the process with status {status}{doing}; expected it to return: leave "
            f"out what ends it"
        )
    name = _signal_name(-status)
    if -status == getattr(signal, "SIGKILL", None):
        return f"{job.subject}: the process was killed by {name}{doing}, as when memory runs out; give smaller sizes"
    crashed = "crashed" if name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL") else "was ended"
    return f"{job.subject}: the process {crashed} by {name}{doing}; expected it to return"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _now(child: "subprocess.Popen[bytes]", folder: Path, job: Job) -> str:
    """Return where the child is now: " at model.py:12"; "": it does not say."""
    if hasattr(faulthandler, "register"):
        child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _TRACE
        while time.monotonic() < deadline and child.poll() is None:
            if place := _place(folder, job):
                return place
            time.sleep(_PAUSE)
    return _place(folder, job)


def _place(folder: Path, job: Job) -> str:
    """Return the last line of the user's code in the stack that the child has written, the last call first."""
    from mhaviz.api.checked_file import is_of_user

    with suppress(OSError):
        stack = (folder / _WHERE).read_text(errors="replace")
        for escaped, line in re.findall(r'^  File "(.+)", line (\d+) in ', stack, re.MULTILINE):
            file = _ESCAPED.sub(lambda code: chr(int(code[0][2:], 16)), escaped)
            if is_of_user(file, job.folder):
                shown = Path(file).relative_to(Path.cwd()) if Path(file).is_relative_to(Path.cwd()) else file
                return f" at {shown}:{line}"
    return ""


_ESCAPED = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}")
"""Characters of a name that are not ASCII, as faulthandler writes them."""


class _EndedError(BaseException):
    """Raised when a signal ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let signals that would end this process at once first leave the block, whose files and child end with it."""
    is_main = threading.current_thread() is threading.main_thread()  # only this thread may set handlers
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [number for number in known if is_main and signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        raise _EndedError(number)

    for number in ours:
        signal.signal(number, end)
    ended = 0
    try:
        yield
    except _EndedError as error:
        ended = error.number
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        if ended:
            os.kill(os.getpid(), ended)


def answer(folder: str) -> NoReturn:
    """Do the job in this folder, in the child, and end the process, whatever threads and handlers it has by then."""
    place, process = Path(folder), os.getpid()
    job = pickle.loads((place / _JOB).read_bytes())
    _end_with_parent()
    where = (place / _WHERE).open("w")
    faulthandler.enable(where)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, where)
    channel = os.open(place / _TOLD, os.O_WRONLY | os.O_APPEND)

    def tell(what: str, text: str) -> None:
        with suppress(OSError):  # the user's code has closed it
            os.write(channel, f"{json.dumps([what, text])}\n".encode())

    module, _, name = job["function"].partition(":")
    told = {f"on_{what}": lambda text, what=what: tell(what, text) for what in ("progress", "notice")}
    with parameters_named(option_name, set(job["options"]).__contains__):
        found = _answered(getattr(import_module(module), name), job["arguments"] | told)
    if os.getpid() == process:  # else a copy that the user's code has forked
        part = place / f"{_FOUND}.part"
        part.write_text(found)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        part.replace(place / _FOUND)
    os._exit(0)


def _answered(function: Callable[..., object], arguments: Mapping[str, Any]) -> str:
    """Return the function's result, or its error, as JSON text."""
    import msgspec

    try:
        return json.dumps({"result": msgspec.to_builtins(function(**arguments), enc_hook=_plain)})
    except MhavizError as error:
        return json.dumps({"error": str(error), "status": error.status})


def _end_with_parent() -> None:
    """Let this process, and those of its group, end as soon as its parent has. The user's code reads no input."""
    lifeline = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def wait() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)
            if hasattr(os, "killpg"):
                os.killpg(0, signal.SIGKILL)
            os._exit(1)

    threading.Thread(target=wait, daemon=True, name="mhaviz").start()
