"""Zip archives, which .npz and .pt files are."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

from mhaviz.files.errors import ContentError

_MOST_LISTED = 2**25  # bytes of a list of members; a longer one takes seconds to read


@contextmanager
def opened(path: Path) -> Iterator[ZipFile]:
    """Open an archive for reading. Raises ContentError if it has too many members, BadZipFile if it is none."""
    with _Archive(path) as stream, ZipFile(stream) as archive:
        stream.is_listed = True
        yield archive


class _Archive(io.FileIO):
    """A file that reads the list of an archive's members, which comes at once, only if it is not too long."""

    is_listed = False

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most ``size`` bytes. Raises ContentError for too long a list."""
        if not self.is_listed and (size or 0) > _MOST_LISTED:
            raise ContentError("it has more members than files of arrays have; save fewer arrays")
        return super().read(size)
