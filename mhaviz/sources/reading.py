"""Files of other tools, of which anything may be wrong: nothing in them is run, and what they raise becomes a line."""

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mhaviz.errors import MhavizError

LISTED = 12  # names that an error lists
NEVER_RUN = "it holds Python objects, which mhaviz never runs; save the weights alone, as an array of numbers"


def require_file(path: Path, suffixes: Sequence[str]) -> None:
    """Raise MhavizError unless this is a file that can be opened, and its name ends in one of these."""
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


def load_pt(path: Path) -> Any:
    """What torch.save has written, if it is tensors and plain values in plain containers."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old formats
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


def is_pickled(error: Exception) -> bool:
    """Whether a library has refused to run what a file holds."""
    return any(sign in str(error) for sign in ("pickle", "Pickle", "weights_only", "Python objects"))


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What a library or the operating system raises about the file, as one line that names it."""
    try:
        yield
    except (MhavizError, MemoryError):
        raise
    except OSError as error:
        raise MhavizError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # a broken file may raise anything in the libraries that read it
        text = NEVER_RUN if is_pickled(error) else str(error)
        raise MhavizError(f"cannot read {path}: {text.splitlines()[0][:200] if text else 'it is cut off'}") from error


def listed(names: Sequence[str]) -> str:
    """Names as an error shows them: "a, b, … 7 more"."""
    more = f", … {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(name[:60] for name in names[:LISTED]) + more
