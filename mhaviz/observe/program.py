"""Run a script or a module as Python itself would, and report how it ended.

An exception, an exit status or Ctrl-C ends the program alone: the caller goes on, and can save what has been recorded.
For what Python does, see https://docs.python.org/3/using/cmdline.html. For what spawned processes look for in
``__main__``, see the documentation of ``multiprocessing``.
"""

import builtins
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType

from mhaviz.errors import MhavizError, reason, shortened

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals whose default action ends Python at once."""

_INTERRUPTED = 130
_OUR_FOLDER = str(Path(__file__).parent)
_DISPATCH = os.path.join("torch", "overrides.py")  # noqa: PTH118

_ended: list[ModuleType] = []
"""Main modules of programs that have run. Their objects live until the process ends, as in Python."""


@dataclass(frozen=True)
class Ending:
    """How a program ended.

    Attributes:
        status: exit status.
        how: what ended it before its last line, such as "ValueError", "exit status 3" or "SIGTERM"; None: nothing did.
        said_why: whether an error has been printed.
        is_fork: whether this is another process, forked by the program, that has reached the program's end as well.
    """

    status: int
    how: str | None = None
    said_why: bool = False
    is_fork: bool = False


class _NoProgramError(MhavizError):
    """The program does not exist or cannot be read. This error is ours, not the program's."""


class _Killed(SystemExit):
    """Raised when a signal ends the program. Libraries let it through, as it is a ``SystemExit``."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


class Program:
    """A Python program: a script, a folder or an archive with ``__main__.py``, or a module.

    Args:
        name: path, or name of the module.
        arguments: command-line arguments of the program.
        is_module: whether ``name`` is a module's, as after ``python -m``.

    Raises:
        MhavizError: there is no such script, or it cannot be read.
        SyntaxError: it cannot be parsed.
    """

    def __init__(self, name: str, arguments: Sequence[str] = (), is_module: bool = False) -> None:
        self.name, self._is_module = name, is_module
        self._arguments = list(arguments)
        self._main = ModuleType("__main__")
        self._main.__dict__.update(__annotations__={}, __builtins__=builtins)
        self._code: CodeType | None = None
        if is_module:
            self._folder = str(Path.cwd())
        else:
            self._folder = self._find_script()

    def run(self) -> Ending:
        """Run the program, and wait for its threads as Python would. Exceptions are printed as Python prints them.

        ``sys.argv``, ``sys.path`` and ``__main__`` are the program's while it runs. Its ``atexit`` handlers run when
        this process ends.

        Raises:
            MhavizError: there is no such module.
        """
        process, threads = os.getpid(), threading.enumerate()
        _ended.append(self._main)
        with self._in_place(), _ended_by_signals():
            ending = _ending_of(self._execute)
            if os.getpid() != process:
                return replace(ending, is_fork=True)
            waiting = _ending_of(partial(_wait_for_threads, threads))
            return waiting if ending.how is None else ending

    def _execute(self) -> None:
        if self._is_module:
            self._find_module()
        assert self._code is not None
        exec(self._code, self._main.__dict__)

    def _find_script(self) -> str:
        """Find a script's code, set the attributes of ``__main__``, and return the script's entry of ``sys.path``."""
        path = Path(self.name)
        try:
            is_there = bool(self.name) and path.exists()
        except (OSError, ValueError):  # a name that is too long, or holds NUL
            is_there = False
        if not is_there:
            raise _NoProgramError(f"there is no script {shortened(self.name)}")
        absolute = os.path.abspath(path)  # noqa: PTH100  # as Python does; a link stays a link
        try:
            spec = PathFinder.find_spec("__main__", [absolute])
            if spec is not None and spec.loader is not None:
                self._take(spec, spec.loader.get_code(spec.name))  # type: ignore[attr-defined]
                return absolute
            if path.is_dir():
                raise _NoProgramError(f"expected a script, or a folder with a __main__.py; {path} is a folder without")
            if path.suffix == ".pyc":
                compiled = SourcelessFileLoader("__main__", absolute)
                self._main.__loader__, self._code = compiled, compiled.get_code("__main__")
            else:
                loader = SourceFileLoader("__main__", absolute)
                self._main.__loader__ = loader
                self._code = loader.source_to_code(loader.get_data(absolute), absolute)
        except (OSError, ImportError) as error:
            why = getattr(error, "strerror", None) or reason(error)
            raise _NoProgramError(f"cannot read {shortened(self.name)}: {why}") from error
        except ValueError as error:  # some versions of Python raise this for a script that holds NUL
            raise SyntaxError(str(error)) from error
        self._main.__file__ = absolute
        self._main.__dict__["__cached__"] = None
        return str(Path(absolute).resolve().parent)

    def _take(self, spec: ModuleSpec, code: CodeType) -> None:
        """Take the code of a module, and set the attributes of ``__main__`` that say where it comes from."""
        self._code = code
        self._main.__loader__, self._main.__package__, self._main.__spec__ = spec.loader, spec.parent, spec
        self._main.__file__ = spec.origin
        self._main.__dict__["__cached__"] = spec.cached

    def _find_module(self) -> None:
        """Find the code of a module. This imports its packages, whose errors are the program's."""
        _, spec, code = runpy._get_module_details(self.name, _NoProgramError)  # type: ignore[attr-defined]
        self._take(spec, code)
        sys.argv[0] = self._main.__file__ or sys.argv[0]

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Install the program's ``sys.argv``, ``sys.path`` and ``__main__``, and restore our own at the end."""
        argv, path, streams = sys.argv, sys.path, (sys.stdin, sys.stdout, sys.stderr)
        entries, main = list(path), sys.modules["__main__"]
        if not sys.flags.safe_path:
            path[: 1 if _begins_with_own_folder() else 0] = [self._folder]
        sys.argv = ["-m" if self._is_module else self.name, *self._arguments]
        sys.modules["__main__"] = self._main
        try:
            yield
        finally:
            sys.argv, sys.path, sys.path[:] = argv, path, entries
            sys.modules["__main__"] = main
            sys.stdin, sys.stdout, sys.stderr = streams


def show_error(error: BaseException) -> None:
    """Print an error of a program as Python does: by ``sys.excepthook``, which the program may have replaced."""
    traceback = error.__traceback__
    try:
        sys.excepthook(type(error), error, traceback)
    except SystemExit:
        raise
    except BaseException as other:
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201
        _remove_our_frames(other, set())
        sys.__excepthook__(type(other), other, other.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
        sys.__excepthook__(type(error), error, traceback)


def _ending_of(work: Callable[[], None]) -> Ending:
    """Do a part of the work of a program, and return how it ended. Any exception ends the program."""
    try:
        work()
    except _NoProgramError:
        raise
    except _Killed as end:
        return Ending(128 + end.number, signal.Signals(end.number).name)
    except SystemExit as end:
        return _exit(end)
    except BaseException as error:
        raised = error
    else:
        return Ending(0)
    _remove_our_frames(raised, set())
    try:
        show_error(raised)
    except SystemExit as end:
        return _exit(end)
    if isinstance(raised, KeyboardInterrupt):
        return Ending(_INTERRUPTED, "Ctrl-C", said_why=True)
    return Ending(1, type(raised).__name__, said_why=True)


def _exit(end: SystemExit) -> Ending:
    """Return the ending for the argument of ``sys.exit``: nothing, a status, or a message to print."""
    if end.code is None:
        return Ending(0)
    if isinstance(end.code, int):
        status = end.code & 0xFF
        return Ending(status, f"exit status {status}" if status else None)
    with suppress(OSError, ValueError):  # the program has closed the stream
        print(end.code, file=sys.stderr)  # noqa: T201
    return Ending(1, "exit status 1", said_why=True)


def _wait_for_threads(others: Sequence[threading.Thread]) -> None:
    """Wait for the threads that Python waits for before it ends, except ``others``, which are not the program's.

    Threads of an executor that was not shut down would wait for work forever. Python ends them when it exits.
    """
    executors = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
    while threads := [t for t in threading.enumerate() if not (t.daemon or t in others or t in executors)]:
        threads[0].join()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals that would end Python at once end the program alone, unless the program handles them itself."""
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may set handlers
    ours = [number for number in _SIGNALS if is_main and signal.getsignal(number) is signal.SIG_DFL]
    if ours:
        _watch_forks()
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        _restore_signals()


def _end(number: int, frame: FrameType | None) -> None:
    raise _Killed(number)


def _restore_signals() -> None:
    """Restore the default action of signals for which the program has not set a handler of its own."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_DFL)


@cache
def _watch_forks() -> None:
    """Let processes that a program forks be ended by signals, as they would be without our handlers.

    Signals are blocked during the fork: one that arrived before the child process had restored the default actions
    would be lost.
    """
    if hasattr(os, "register_at_fork"):
        blocked: list[set[int]] = []

        def let_go() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked.pop())

        def begin() -> None:
            _restore_signals()
            let_go()

        os.register_at_fork(
            before=lambda: blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)),
            after_in_parent=let_go,
            after_in_child=begin,
        )


def _begins_with_own_folder() -> bool:
    """Return whether ``sys.path`` begins with the folder that Python has put there for our own script or module."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    script = file is not None and getattr(main, "__spec__", None) is None
    own = Path(file).resolve().parent if script and file else Path.cwd()
    return bool(sys.path) and (sys.path[0] == "" or Path(sys.path[0]) == own)


def _remove_our_frames(error: BaseException, seen: set[int]) -> None:
    """Remove our frames from the tracebacks of an error and of the errors that led to it."""
    if id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = _program_part(error.__traceback__)
    grouped = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for other in (error.__cause__, error.__context__, *grouped):
        if other is not None:
            _remove_our_frames(other, seen)


def _program_part(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that the recorder has put between the program and PyTorch.

    A PyTorch function that is written in Python then appears twice: where it is dispatched to the recorder, and where
    it runs. The first is removed.
    """
    kept: list[TracebackType] = []
    cut = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_OUR_FOLDER):
            cut = True
            while kept and kept[-1].tb_frame.f_code.co_filename.endswith(_DISPATCH):
                kept.pop()
        else:
            if cut and kept and kept[-1].tb_frame.f_code is code:
                kept.pop()
            cut = False
            kept.append(traceback)
        traceback = traceback.tb_next
    after = None
    for one in reversed(kept):
        one.tb_next, after = after, one
    return after
