"""The numbers of tokens, as people write them: "101,2023,102", or in a file, a sequence a line."""

import re
from pathlib import Path

from mhaviz.errors import ArgumentError, MhavizError, quoted
from mhaviz.files.errors import name_of
from mhaviz.files.texts import read_lines
from mhaviz.units import parse_whole

_BETWEEN = re.compile(r"[\s,]+")


def parse_ids(text: str, of: str) -> tuple[int, ...]:
    """ "101,2023 102" → (101, 2023, 102). Raises ArgumentError, which begins with ``of``, if they cannot be read."""
    parts = _BETWEEN.split(text.strip(" \t,[]"))
    for part in parts:
        if not (part.isascii() and part.isdecimal()):
            raise ArgumentError(f"{of}: expected numbers such as 101,2023,102, or a file of them, got {quoted(part)}")
    return tuple(map(parse_whole, parts))


def read_ids(path: Path) -> tuple[tuple[int, ...], ...]:
    """Those of each line that is not blank; "-" is standard input. Raises MhavizError if a line holds another thing."""
    try:
        lines = read_lines(path, "the ids of one sequence a line")
        return tuple(parse_ids(line.text, f"{name_of(path)}, line {line.number}") for line in lines)
    except ArgumentError as error:
        raise MhavizError(str(error)) from error
