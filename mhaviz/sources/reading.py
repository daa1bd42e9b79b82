"""Files of other tools, of which anything may be wrong: nothing in them is run, and what they raise becomes a line."""

import errno
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mhaviz.errors import MhavizError

_NUMBERS_ALONE = "save the weights alone, as an array of numbers"
_SIGNS_OF_PICKLES = ("pickle", "Pickle", "weights_only")  # in what the libraries say of them
_OF_TORCH = (b"PK", b"\x80")
_STARTS = {".npy": (b"\x93NUMPY",), ".npz": (b"PK",)} | dict.fromkeys((".pt", ".pth", ".bin", ".ckpt"), _OF_TORCH)
"""What files of these formats begin with; a safetensors file begins with a number."""
_LISTED = 12  # names that an error lists


class NoWeightsError(ValueError):
    """What an array is that cannot hold weights; the message is mhaviz's own, to stand after the file's name."""


def never_run(instead: str = _NUMBERS_ALONE) -> str:
    """What is said of Python objects; ``instead``: what to save in their stead."""
    return f"it holds Python objects, which mhaviz never runs; {instead}"


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless this is a file that can be opened, not empty, and its name ends in one of these."""
    formats = ", ".join(suffixes)
    try:
        if path.is_dir():
            raise MhavizError(f"cannot read {path}: it is a folder; give a file in it, one of {formats}")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        raise MhavizError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if path.suffix.lower() not in suffixes:
        raise MhavizError(f"cannot tell the format of {path}: expected a name ending in {formats}")
    if path.is_file() and not path.stat().st_size:
        raise MhavizError(f"cannot read {path}: it is empty")


def unpacked_bytes(path: Path) -> int:
    """What a zip archive, as .npz and .pt files are, unpacks to; 0 if nothing in it is packed."""
    if not zipfile.is_zipfile(path):
        return 0
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    return sum(member.file_size for member in members) if is_packed else 0


@contextmanager
def told(path: Path, instead: str = _NUMBERS_ALONE) -> Iterator[None]:
    """Raise MhavizError, a line that names the file, for whatever a library or the operating system raises about it.

    ``instead``: as in ``never_run``.
    """
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except NoWeightsError as error:
        raise MhavizError(f"cannot read {path}: {error}") from error
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise MhavizError(f"cannot read {path}: {error.strerror or error}") from error
        # EINVAL: a library has looked for what a broken file says is there
        raise MhavizError(f"cannot read {path}: {_what_is_wrong(path, str(error), instead)}") from error


def _what_is_wrong(path: Path, said: str, instead: str) -> str:
    """In words for somebody who does not know the library that has ``said`` something about the file."""
    suffix = path.suffix.lower()
    with path.open("rb") as stream:
        start = stream.read(8)
    if suffix not in _STARTS:
        return f"it is no {suffix} file, or is cut off"
    if not start.startswith(_STARTS[suffix]):
        return f"it is no {suffix} file"
    is_whole = not start.startswith(b"PK") or zipfile.is_zipfile(path)  # a broken archive is taken for a pickle
    if is_whole and any(sign in said for sign in _SIGNS_OF_PICKLES):
        return never_run(instead)
    return "it is cut off, or damaged"


def listed(names: Sequence[str], about: Callable[[str], str] = lambda name: "") -> str:
    """Names as an error shows them: "a, b, … 7 more"; ``about``: what stands after a name."""
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(name[:60] + about(name) for name in names[:_LISTED]) + more
