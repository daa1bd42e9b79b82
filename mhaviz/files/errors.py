"""Errors of files, in one line with the file's name. Code in files is never run."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path

from mhaviz.errors import MhavizError, reason

STANDARD_INPUT = Path("-")

_LISTED = 12  # names that an error lists


class ContentError(ValueError):
    """Error for content of a file that cannot be used. ``reading`` puts the file's name before the message."""


def name_of(path: Path) -> str:
    """Return the name of the file in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def require_regular(path: Path, or_pipe: bool = False) -> None:
    """Raise OSError or ContentError unless this is a regular file, which alone can be opened without waiting, and ends.

    ``or_pipe``: a pipe, or a terminal, will do as well, as for texts, which are read once and in order.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
    if not (stat.S_ISREG(mode) or (or_pipe and (stat.S_ISFIFO(mode) or _is_terminal(path, mode)))):
        expected, got = ("a file or a pipe", "a device") if or_pipe else ("a file", "a pipe or a device")
        raise ContentError(f"expected {expected}, got {got}; save it to a file first")


def _is_terminal(path: Path, mode: int) -> bool:
    if not stat.S_ISCHR(mode):
        return False
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless this is a regular file that can be opened, and has one of these suffixes."""
    with reading(path):
        require_regular(path)
        with path.open("rb"):
            pass
    if path.suffix.lower() not in suffixes:
        raise MhavizError(f"cannot tell the format of {path}: expected a name ending in {', '.join(suffixes)}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert any error about a file inside this block to a MhavizError of one line with the file's name.

    MhavizError is not converted, nor are a lack of memory, and of a library that reads the file.
    """
    try:
        yield
    except (MhavizError, MemoryError, ImportError):
        raise
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        why = error if isinstance(error, ContentError) else getattr(error, "strerror", None) or reason(error)
        raise MhavizError(f"cannot read {name_of(path)}: {why}") from error


def listed(names: Sequence[str], about: Callable[[str], str] = lambda name: "") -> str:
    """Return names for a message: "a, b, … 7 more". ``about`` returns text to put after a name."""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:60] + about(name) for name in names[:_LISTED]) + more
