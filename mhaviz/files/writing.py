"""Files that are written whole or not at all: beside their place under another name, then renamed.

The other name says who is writing, as ".map.mhaviz-1f2e3d4c-4711-9a8b7c6d5e4f3a2b.part" does: process 4711. If it is
killed, what it leaves is removed when the next file is written beside it.
"""

import os
import re
import secrets
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO
from zlib import crc32

from mhaviz.errors import MhavizError

_PART = re.compile(r"\..*\.mhaviz-([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{16}\.part", re.DOTALL)
_caught: set[int] = set()


def clean_up_on(signals: Iterable[int]) -> None:
    """Let these signals end this process only after it has removed what is half written.

    It is for a program to say so: signals of a program that imports mhaviz are its own.
    """
    _caught.update(signals)


def write_whole(contents: Sequence[tuple[Path, Callable[[BinaryIO], object]]]) -> None:
    """Write each file by its function: all files, or none.

    Raises:
        MhavizError: a file could not be written; nothing is left behind.
    """
    parts = _Parts()
    path = Path()
    try:
        with parts.removed_on_signals():
            for path, write in contents:
                with suppress(FileNotFoundError):
                    path.stat()  # links that go round raise one error here, and in ``resolve`` another
                target = path.resolve()  # a link stays a link
                if target.exists() and not target.is_file():  # to be renamed over would be the end of a device
                    raise MhavizError(f"cannot write {path}: expected a file, got a folder, a device or a pipe")
                _remove_leftovers(target.parent)
                with parts.create(target) as stream:
                    write(stream)
            parts.rename()
    except OSError as error:
        raise MhavizError(f"cannot write {error.filename2 or path}: {error.strerror or error}") from error
    finally:
        parts.remove()


class _Parts:
    """What is half written, and the places of it."""

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []
        self._is_renaming, self._waiting = False, 0
        self._before: dict[int, Any] = {}

    def create(self, target: Path) -> BinaryIO:
        """A part to be written; it gets the rights of the file in its place, or those of any new file."""
        name = f".{target.stem[:40]}.mhaviz-{_place()}-{os.getpid()}-{secrets.token_hex(8)}.part"
        part = target.with_name(name)
        self._written.append((part, target))
        old = target.stat().st_mode & 0o777 if target.exists() else None
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if old is None else 0o600)
        if old is not None:
            part.chmod(old)
        return os.fdopen(handle, "wb")

    def rename(self) -> None:
        """Put all parts in their places; a signal waits until all are, or one cannot be."""
        self._is_renaming = True
        try:
            for part, target in self._written:
                part.replace(target)
        finally:
            self._is_renaming = False
            if self._waiting:
                self._die(self._waiting, None)

    def remove(self) -> None:
        """Remove those that are not in their places."""
        for part, _ in self._written:
            part.unlink(missing_ok=True)

    @contextmanager
    def removed_on_signals(self) -> Iterator[None]:
        """Remove them before a signal ends the process, if ``clean_up_on`` has been told of it."""
        is_main = threading.current_thread() is threading.main_thread()  # nobody else may set handlers
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


def _remove_leftovers(folder: Path) -> None:
    """Remove the parts of processes that are dead for certain: those of this machine, in this container."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _PART.fullmatch(entry.name)
            if name and name[1] == _place() and is_dead(int(name[2])) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    Path(entry.path).unlink()


def is_dead(process: int) -> bool:
    """Whether a process of this machine is there no more, or waits to be forgotten; False where nobody tells."""
    if os.name != "posix":  # elsewhere asking may kill it
        return False
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is somebody else's
        return False


@cache
def _place() -> str:
    """What tells machines, their starts, and containers apart: the number of a process means another one elsewhere."""
    parts = [os.uname().nodename] if hasattr(os, "uname") else []
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return f"{crc32(' '.join(parts).encode(errors='surrogateescape')):08x}"
