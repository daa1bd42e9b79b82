"""Write files whole or not at all: they are written under another name in the same folder, and then renamed."""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from mhaviz.errors import MhavizError

_caught: set[int] = set()


def clean_up_on(signals: Iterable[int]) -> None:
    """Remove half-written files before one of these signals ends the process.

    Only the command line calls this: a program that imports mhaviz handles signals itself.
    """
    _caught.update(signals)


def write_whole(contents: Sequence[tuple[Path, Callable[[BinaryIO], object]]]) -> None:
    """Write each file by its function, all files or none.

    Raises:
        MhavizError: a file could not be written; no half-written file is left. If files could be written but not be put
            in their places, it says which are there.
    """
    parts = _Parts()
    path = Path()
    try:
        with parts.removed_on_signals():
            for path, write in contents:
                with suppress(FileNotFoundError):
                    path.stat()  # raises OSError for a loop of links; ``resolve`` raises another error
                target = path.resolve()  # a link stays a link
                if target.exists() and not target.is_file():  # renaming over a device would remove it
                    raise MhavizError(f"cannot write {path}: expected a file, got a folder, a device or a pipe")
                with parts.create(target) as stream:
                    write(stream)
            parts.rename()
    except OSError as error:
        raise MhavizError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        parts.remove()


class _Parts:
    """Half-written files, each with its target."""

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []
        self._is_renaming, self._waiting = False, 0
        self._before: dict[int, Any] = {}

    def create(self, target: Path) -> BinaryIO:
        """Open a new part for writing, with the permissions of the target, or those of a new file."""
        part = target.with_name(f".{target.stem[:40]}.mhaviz-{secrets.token_hex(8)}.part")
        self._written.append((part, target))
        old = target.stat().st_mode & 0o777 if target.exists() else None
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600)
        if old is not None:
            part.chmod(old)
        return os.fdopen(handle, "wb")

    def rename(self) -> None:
        """Rename all parts to their targets. A signal waits until that is done, or has failed.

        Raises MhavizError if one cannot be renamed, with those that have been.
        """
        self._is_renaming = True
        done: list[str] = []
        try:
            for part, target in self._written:
                try:
                    part.replace(target)
                except OSError as error:
                    others = f"; written: {', '.join(done)}" if done else ""
                    raise MhavizError(f"cannot write {target}: {error.strerror or error}{others}") from error
                done.append(str(target))
        finally:
            self._is_renaming = False
            if self._waiting:
                self._die(self._waiting, None)

    def remove(self) -> None:
        """Remove the parts that have not been renamed."""
        for part, _ in self._written:
            part.unlink(missing_ok=True)

    @contextmanager
    def removed_on_signals(self) -> Iterator[None]:
        """Remove the parts before one of the signals of ``clean_up_on`` ends the process."""
        is_main = threading.current_thread() is threading.main_thread()  # only this thread may set handlers
        handlers = {number: signal.getsignal(number) for number in _caught} if is_main else {}
        self._before = {number: before for number, before in handlers.items() if before not in (None, signal.SIG_IGN)}
        for number in self._before:
            signal.signal(number, self._die)
        try:
            yield
        finally:
            for number, before in self._before.items():
                signal.signal(number, before)

    def _die(self, number: int, frame: FrameType | None) -> None:
        if self._is_renaming:
            self._waiting = number
            return
        self.remove()
        signal.signal(number, self._before[number])
        os.kill(os.getpid(), number)
