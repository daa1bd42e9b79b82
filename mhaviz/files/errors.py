"""Errors of files, in one line with the file's name. Code in files is never run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mhaviz.errors import MhavizError, reason

STANDARD_INPUT = Path("-")

_LISTED = 12  # names that an error lists


class ContentError(ValueError):
    """Error for content of a file that cannot be used. ``reading`` puts the file's name before the message."""


def name_of(path: Path) -> str:
    """Return the name of the file in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless the file can be opened, and has one of these suffixes."""
    with reading(path), path.open("rb"):
        pass
    if path.suffix.lower() not in suffixes:
        raise MhavizError(f"cannot tell the format of {path}: expected a name ending in {', '.join(suffixes)}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert any error about a file inside this block to a MhavizError of one line with the file's name.

    MemoryError and MhavizError are not converted.
    """
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        why = error if isinstance(error, ContentError) else getattr(error, "strerror", None) or reason(error)
        raise MhavizError(f"cannot read {name_of(path)}: {why}") from error


def listed(names: Sequence[str], about: Callable[[str], str] = lambda name: "") -> str:
    """Return names for a message: "a, b, … 7 more". ``about`` returns text to put after a name."""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:60] + about(name) for name in names[:_LISTED]) + more
