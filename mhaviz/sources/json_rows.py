"""Reading JSON that is mostly numbers: rows of numbers become arrays, and never lists of Python's numbers.

A number in a list takes four times as much memory as in an array, and a map may have millions.
"""

import json
import mmap
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.memory import free_main_memory, shortage
from mhaviz.sources.reading import NoWeightsError

_MOST_REST = 2**28  # bytes beside the rows of numbers: the tokens of any input that mhaviz takes fit in many times over
_MOST_ROWS = 2**22  # of numbers: 64 heads of 65,536 queries
_OF_SIGNS = {b",": 80, b"[": 128, b"{": 128, b":": 160}
"""Bytes of Python's objects, beside the letters of texts, for each of these: a value, a list, a dict, a key in it."""

# A text, closed or not, that may hold brackets; a row of numbers; what Python's json would take for a number.
_PIECE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|\[[\s\d.,eE+-]*+\]|-?(?:NaN|Infinity)', re.DOTALL)


def read_json(path: Path) -> Any:
    """The JSON in a file, with every list that holds nothing but numbers as an array of int64 or float64.

    Raises:
        OSError: the file cannot be read.
        NoWeightsError: it does not fit into memory.
        ValueError, RecursionError: it is no JSON, or too much of it is not numbers.
    """
    rest, rows = _without_rows(path)
    if short := shortage(memory_of(rest), free_main_memory()):
        raise NoWeightsError(f"its texts may need {short}; save fewer maps")
    waiting = iter(rows)
    # json calls parse_constant where NaN stands, in the order of the text: no other value can be taken for a row.
    return json.loads(rest, parse_constant=lambda _: next(waiting))


def memory_of(text: bytes) -> int:
    """At most how many bytes Python's objects of a JSON text take while it is read.

    Its letters are held twice, in the whole text and in the values; each may take four bytes if any is beyond ASCII.
    """
    of_a_letter = 1 if text.isascii() and b"\\u" not in text else 4
    return 2 * of_a_letter * len(text) + sum(size * text.count(sign) for sign, size in _OF_SIGNS.items())


def _without_rows(path: Path) -> tuple[bytes, list[NDArray[Any]]]:
    """The text with NaN in place of each row of numbers, and the rows."""
    rows: list[NDArray[Any]] = []
    rest = bytearray()
    with path.open("rb") as stream:
        if not stream.seek(0, 2):
            raise ValueError("it is empty")
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    free, read = free_main_memory(), 0
    end = 0
    for piece in _PIECE.finditer(content):
        text = piece[0]
        if text.startswith(b'"'):
            continue
        if not text.startswith(b"["):
            raise ValueError(f"JSON has no {text.decode()}")
        rest += content[end : piece.start()]
        rest += b"NaN"
        rows.append(np.array(json.loads(text)))
        read += rows[-1].nbytes
        if free is not None and read > free:
            raise NoWeightsError(f"its numbers need {shortage(read, free)}; save fewer heads or layers, or pooled maps")
        if len(rows) > _MOST_ROWS:
            raise ValueError(f"expected at most {_MOST_ROWS:,} lists of numbers")
        end = piece.end()
        _check(len(rest))
    _check(len(rest) + len(content) - end)
    return bytes(rest + content[end:]), rows


def _check(size: int) -> None:
    if size > _MOST_REST:
        raise ValueError(f"expected at most {_MOST_REST:,} bytes that are not rows of numbers")
