"""Free main memory, and reading of files that may not fit into it. Nothing here needs torch."""

import os
import stat
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from mhaviz.errors import MhavizError
from mhaviz.units import readable_bytes

_PIECE = 2**24  # bytes
OF_TEXT = 8  # times the bytes of a text that it takes: up to four as a str, and as much again as words


def shortage(needed: int, free: int | None, place: str = "cpu") -> str | None:
    """Return words such as "about 4.0 GiB of memory on cpu, where 3.0 GiB are free"; None: there is no shortage.

    ``free``: free bytes; None: not known, which is taken as enough.
    """
    if free is None or needed <= free:
        return None
    return f"about {readable_bytes(needed)} of memory on {place}, where {readable_bytes(free)} are free"


def read_all(stream: BinaryIO, name: str, copies: int = OF_TEXT) -> bytes:
    """Read all of a file or a pipe, which may be endless.

    Args:
        stream: the open file or pipe.
        name: its name in an error.
        copies: memory that is needed to use its content, in multiples of its size.

    Raises:
        MhavizError: the content does not fit into memory.
    """
    _require_room(copies * size_of(stream), free_main_memory(), name)
    return _joined(iter(lambda: stream.read(_PIECE), b""), name, copies)


def size_of(stream: BinaryIO) -> int:
    """Return the size of a regular file in bytes; 0 for a pipe, whose length is not known."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def read_line(stream: BinaryIO, name: str) -> bytes:
    """Read the next line, which may be endless; b"" at the end of the stream. Raises MhavizError as ``read_all``."""
    line = stream.readline(_PIECE)
    if len(line) < _PIECE:
        return line
    return _joined(chain([line], iter(lambda: stream.readline(_PIECE), b"")), name, OF_TEXT, is_line=True)


def _joined(read: Iterable[bytes], name: str, copies: int, is_line: bool = False) -> bytes:
    free, size, pieces = free_main_memory(), 0, []
    for piece in read:
        pieces.append(piece)
        size += len(piece)
        _require_room(copies * size, free, name)
        if is_line and piece.endswith(b"\n"):
            break
    return b"".join(pieces)


def _require_room(needed: int, free: int | None, name: str) -> None:
    if short := shortage(needed, free):
        raise MhavizError(f"{name} is too large: reading it needs more than {short}; give a part of it")


def free_main_memory() -> int | None:
    """Return the bytes of main memory that are free; None: not known."""
    limits = [_meminfo_available(), _cgroup_free()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else _physical_memory()


def _meminfo_available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = dict(line.split(":") for line in lines)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _cgroup_free() -> int | None:
    """Return the bytes that a container (cgroup v2) may still take; None: no limit."""
    try:
        most, current = (
            int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
        statistics = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").split()
        cache = int(dict(zip(statistics[::2], statistics[1::2], strict=True)).get("inactive_file", 0))
        return max(most - current + cache, 0)
    except (OSError, ValueError):  # not in a container, or "max"
        return None


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
