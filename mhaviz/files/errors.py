"""What can be wrong with a file, said in one line with its name. Nothing that a file holds is ever run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mhaviz.errors import MhavizError, reason

STANDARD_INPUT = Path("-")

_LISTED = 12  # names that an error lists


class ContentError(ValueError):
    """What a file holds cannot be used; the message is mhaviz's own, and stands after the file's name."""


def name_of(path: Path) -> str:
    """What an error calls the file."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless this is a file that can be opened, and its name ends in one of these."""
    with reading(path), path.open("rb"):
        pass
    if path.suffix.lower() not in suffixes:
        raise MhavizError(f"cannot tell the format of {path}: expected a name ending in {', '.join(suffixes)}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise MhavizError, one line that names the file, for whatever a library or the operating system raises about it.

    A lack of memory stays what it is, and so does what is a MhavizError already.
    """
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        why = error if isinstance(error, ContentError) else getattr(error, "strerror", None) or reason(error)
        raise MhavizError(f"cannot read {name_of(path)}: {why}") from error


def listed(names: Sequence[str], about: Callable[[str], str] = lambda name: "") -> str:
    """Names as an error shows them: "a, b, … 7 more"; ``about``: what stands after a name."""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:60] + about(name) for name in names[:_LISTED]) + more
