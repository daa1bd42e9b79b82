"""What can be wrong with a file of another tool, said in one line. Nothing that a file holds is ever run."""

import errno
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mhaviz.errors import MhavizError

PYTHON_OBJECTS = (
    "Python objects, which mhaviz never runs; save the numbers alone, as an array or a tensor; of a model save the "
    "parameters alone, with safetensors.torch.save_file(model.state_dict(), …)"
)
_SIGNS_OF_PICKLES = ("pickle", "Pickle", "weights_only")  # in the errors of numpy and PyTorch
_OF_TORCH = (b"PK", b"\x80")
_STARTS = {".npy": (b"\x93NUMPY",), ".npz": (b"PK",)} | dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _OF_TORCH)
"""What files of these formats begin with; a safetensors file begins with a number."""
_LISTED = 12  # names that an error lists


class ContentError(ValueError):
    """What a file holds cannot be used; the message is mhaviz's own, and stands after the file's name."""


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless this is a file that can be opened, not empty, and its name ends in one of these."""
    formats = ", ".join(suffixes)
    with reading(path):
        if path.is_dir():
            raise ContentError(f"it is a folder; give a file in it, one of {formats}")
        with path.open("rb"):
            pass
    if path.suffix.lower() not in suffixes:
        raise MhavizError(f"cannot tell the format of {path}: expected a name ending in {formats}")
    if path.is_file() and not path.stat().st_size:
        raise MhavizError(f"cannot read {path}: it is empty")


@contextmanager
def reading(path: Path, suffix: str = "") -> Iterator[None]:
    """Raise MhavizError, one line that names the file, for whatever a library or the operating system raises about it.

    A lack of memory stays what it is, and so does what is a MhavizError already. ``suffix``: of the format that the
    file should have, if its name need not tell.
    """
    suffix = suffix or path.suffix.lower()
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except ContentError as error:
        raise MhavizError(f"cannot read {path}: {error}") from error
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        is_from_system = isinstance(error, OSError) and error.errno != errno.EINVAL  # EINVAL: sizes in a broken file
        if is_from_system or "null byte" in str(error):  # a path with NUL
            raise MhavizError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
        raise MhavizError(f"cannot read {path}: {_what_is_wrong(path, suffix, str(error))}") from error


def _what_is_wrong(path: Path, suffix: str, message: str) -> str:
    """In words for somebody who does not know the library whose error this ``message`` is."""
    with path.open("rb") as stream:
        start = stream.read(8)
    if suffix not in _STARTS:
        return f"it is no {suffix} file, or is cut off"
    if not start.startswith(_STARTS[suffix]):
        return f"it is no {suffix} file"
    is_whole = not start.startswith(b"PK") or zipfile.is_zipfile(path)  # a broken archive is taken for a pickle
    if is_whole and any(sign in message for sign in _SIGNS_OF_PICKLES):
        return f"it holds {PYTHON_OBJECTS}"
    return "it is cut off, or damaged"


def listed(names: Sequence[str], about: Callable[[str], str] = lambda name: "") -> str:
    """Names as an error shows them: "a, b, … 7 more"; ``about``: what stands after a name."""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:60] + about(name) for name in names[:_LISTED]) + more
