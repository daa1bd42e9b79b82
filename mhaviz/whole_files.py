"""Files that are written whole or not at all: beside their place under another name, then renamed."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from mhaviz.errors import MhavizError


def write_whole(contents: Sequence[tuple[Path, Callable[[BinaryIO], object]]]) -> None:
    """Write each file by its function: all files, or none.

    Raises:
        MhavizError: a file could not be written; nothing is left behind.
    """
    written: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, write in contents:
            target = path.resolve()  # a link stays a link
            handle, name = tempfile.mkstemp(prefix=f".{target.stem[:40]}.", suffix=".part", dir=target.parent)
            written.append((Path(name), target))
            with os.fdopen(handle, "wb") as stream:
                write(stream)
            Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        for part, path in written:
            part.replace(path)
    except OSError as error:
        raise MhavizError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        for part, _ in written:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
