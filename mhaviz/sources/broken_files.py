"""What a library or the operating system raises about a file, as one line that names it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mhaviz.errors import MhavizError

PICKLED = "it holds Python objects, which mhaviz never runs; save the weights alone, as an array of numbers"
_SIGNS_OF_PICKLES = ("pickle", "Pickle", "weights_only")  # in what the libraries say of them
_STARTS = {".npy": (b"\x93NUMPY",), ".npz": (b"PK",), ".pt": (b"PK", b"\x80")}
"""What files of these formats begin with; a safetensors file begins with a number."""


class NoWeightsError(ValueError):
    """What an array is that cannot hold weights; the message is mhaviz's own, to stand after the file's name."""


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Raise MhavizError for whatever is raised about the file."""
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except OSError as error:
        if error.errno == errno.EINVAL:  # a library has looked for what a broken file says is there
            raise MhavizError(f"cannot read {path}: {_what_is_wrong(path, str(error))}") from error
        raise MhavizError(f"cannot read {path}: {error.strerror or error}") from error
    except NoWeightsError as error:
        raise MhavizError(f"cannot read {path}: {error}") from error
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        raise MhavizError(f"cannot read {path}: {_what_is_wrong(path, str(error))}") from error


def _what_is_wrong(path: Path, said: str) -> str:
    """In words for somebody who does not know the library that has ``said`` something about the file."""
    suffix = path.suffix.lower()
    with path.open("rb") as stream:
        start = stream.read(8)
    if suffix not in _STARTS:
        return f"it is no {suffix} file, or is cut off"
    if not start.startswith(_STARTS[suffix]):
        return f"it is no {suffix} file"
    return PICKLED if any(sign in said for sign in _SIGNS_OF_PICKLES) else "it is cut off, or damaged"
