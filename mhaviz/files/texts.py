"""Texts in UTF-8 from files and standard input: whole, as JSON, or line by line if they are larger than memory."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mhaviz.errors import MhavizError
from mhaviz.files.errors import STANDARD_INPUT, ContentError, name_of, reading, require_regular
from mhaviz.memory import OF_TEXT, free_main_memory, read_all, read_line, shortage, size_of

_BLOCK = 2**20  # bytes that are read at a time
_EXPECTED = "sentences, one per line"


@dataclass(frozen=True)
class Line:
    """A line that is not blank.

    Attributes:
        text: the line without surrounding whitespace.
        number: number of the line, from 1; blank lines count.
        done: share of the file up to and including this line, from 0 to 1; 0 for a pipe, whose length is not known.
    """

    text: str
    number: int
    done: float


def read_text(path: Path, copies: int = OF_TEXT) -> str:
    """Read a whole text.

    Args:
        path: a file; "-" is standard input.
        copies: memory that is needed to use the text, in multiples of its size.

    Raises:
        MhavizError: the text cannot be read, is not UTF-8, or does not fit into memory.
    """
    with _opened(path) as stream:
        return _decoded(read_all(stream, name_of(path), copies), path)


def read_labels(path: Path) -> tuple[str, ...]:
    """Read every line, including blank ones. Raises MhavizError as ``read_text``."""
    text = read_text(path)
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")) if text else ()


def read_lines(path: Path, expected: str = _EXPECTED) -> list[Line]:
    """Read all lines that are not blank.

    Raises MhavizError as ``read_text``, and if there is no such line; then ``expected`` completes the message.
    """
    with _opened(path) as stream:
        content = io.BytesIO(read_all(stream, name_of(path)))
    return list(_lines(content, path, expected))


def stream_lines(path: Path) -> Iterator[Line]:
    """Iterate over all lines that are not blank.

    A file that cannot be opened raises MhavizError at once, other errors are raised while lines are read. The file is
    opened only once, with the first line, as a pipe cannot be opened again.
    """
    require_readable(path)

    def lines() -> Iterator[Line]:
        with _opened(path) as stream:
            yield from _lines(stream, path)

    return lines()


def require_readable(path: Path) -> None:
    """Raise MhavizError if the file cannot be opened, without opening it, as a pipe cannot be opened again."""
    if path != STANDARD_INPUT:
        with reading(path):
            require_regular(path, or_pipe=True)
            if not os.access(path, os.R_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD_INPUT and sys.stdin is None:
        raise MhavizError("cannot read standard input: it is closed")
    with reading(path):
        if path != STANDARD_INPUT:
            require_regular(path, or_pipe=True)
        opened = nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else path.open("rb", buffering=_BLOCK)
        with opened as stream:
            yield stream


def _lines(stream: BinaryIO, path: Path, expected: str = _EXPECTED) -> Iterator[Line]:
    size, read, found = size_of(stream), 0, False
    contents = iter(lambda: read_line(stream, name_of(path)), b"")
    for number, content in enumerate(contents, start=1):
        read += len(content)
        if text := _decoded(content, path, number).strip():
            found = True
            yield Line(text, number, min(read / size, 1.0) if size else 0.0)
    if not found:
        raise MhavizError(f"{name_of(path)} is empty: expected {expected}")


def _decoded(content: bytes, path: Path, number: int = 1) -> str:
    """Decode content that begins with this line of a file, without the byte order mark."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = number + content.count(b"\n", 0, error.start)
        raise MhavizError(
            f"{name_of(path)} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}; convert it first, for "
            f"example with iconv"
        ) from error
    return text.removeprefix("\ufeff") if number == 1 else text


_OF_SIGNS = {",": 48, '"': 16, "[": 128, "{": 192, ":": 160}
"""Bytes of Python objects per sign: a number in a list, half a string, a list, a dict, a key and its value."""


def read_json(path: Path) -> Any:
    """Read a JSON file. NaN and Infinity are refused, as they are not JSON.

    Raises:
        MhavizError: the file cannot be read, is not JSON, or does not fit into memory.
    """
    with reading(path):
        return parse_json(read_text(path, copies=2), parse_constant=_refuse)


def parse_json(text: str, **options: Any) -> Any:
    """Return the value of a JSON text. ``options``: of ``json.loads``.

    Raises:
        ContentError: it does not fit into memory.
        ValueError: it is not JSON.
    """
    if short := shortage(memory_of(text), free_main_memory()):
        raise ContentError(f"it may need {short}; save fewer heads, layers or sentences, or pooled maps")
    return json.loads(text, **options)


def memory_of(text: str) -> int:
    """Return an upper bound for the bytes of a JSON text's Python objects and arrays, beside the text itself."""
    of_a_letter = 1 if text.isascii() and "\\u" not in text else 4
    return of_a_letter * len(text) + sum(size * text.count(sign) for sign, size in _OF_SIGNS.items())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
