"""Sentences one by one, from arguments and from a file that may be larger than memory."""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.views.labels import visible

if TYPE_CHECKING:
    from mhaviz.sources.corpus_batches import Sentence

_BLOCK = 2**20  # bytes that are read at a time


def stream_sentences(arguments: Sequence[str] | None, file: Path | None) -> "Iterator[Sentence]":
    """All sentences, in the order of the arguments, then those of the file, one a line; - is standard input.

    Raises:
        ArgumentError: there are none, or a blank argument.
        MhavizError: a file that cannot be read; when it comes to it, one that is not UTF-8 or holds no sentence.
    """
    from mhaviz.sources.corpus_batches import Sentence

    parts: list[Iterable[Sentence]] = []
    for argument in arguments or ():
        if argument == "-":
            parts.append(_standard_input())
        elif not argument.strip():
            raise ArgumentError("expected a sentence with at least one word, got an empty one")
        else:
            parts.append([Sentence(argument, 0.0)])
    if file is not None:
        parts.append(_standard_input() if str(file) == "-" else _file(file))
    if not parts:
        raise ArgumentError("no sentence: give one in quotes, or use --file, or - for standard input")
    return chain.from_iterable(parts)


def _standard_input() -> "Iterator[Sentence]":
    if sys.stdin is None:
        raise MhavizError("cannot read standard input: it is closed")
    return _lines(sys.stdin.buffer, "standard input")


def _file(path: Path) -> "Iterator[Sentence]":
    """Look whether it can be opened before a model is loaded; open it once, as a pipe cannot be opened again."""
    name = visible(str(path))
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unreadable(name, error) from error

    def sentences() -> "Iterator[Sentence]":
        try:
            stream = path.open("rb", buffering=_BLOCK)
        except OSError as error:
            raise _unreadable(name, error) from error
        with stream:
            yield from _lines(stream, name)

    return sentences()


def _unreadable(name: str, error: OSError) -> MhavizError:
    return MhavizError(f"cannot read {name}: {error.strerror or error}")


def _lines(stream: IO[bytes], name: str) -> "Iterator[Sentence]":
    """Every line that is not blank, with the share of the bytes that have been read; 0 where nobody knows how many."""
    from mhaviz.sources.corpus_batches import Sentence

    size, read, found = _size(stream), 0, False
    for number, line in enumerate(_readable(stream, name), start=1):
        read += len(line)
        try:
            text = line.decode().removeprefix("\ufeff" * (number == 1)).strip()
        except UnicodeDecodeError as error:
            raise MhavizError(
                f"{name} is not UTF-8: byte 0x{line[error.start]:02x} in line {number}; convert it first, for "
                f"example with iconv"
            ) from error
        if text:
            found = True
            yield Sentence(text, min(read / size, 1.0) if size else 0.0)
    if not found:
        raise MhavizError(f"{name} is empty: expected sentences, one a line")


def _readable(stream: IO[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from stream
    except OSError as error:
        raise _unreadable(name, error) from error


def _size(stream: IO[bytes]) -> int:
    """In bytes, of a regular file; 0 of a pipe, which nobody knows the end of."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
