"""What stands in place of a text: the ids of tokens, as people write them, "101,2023,102", and chats in JSON."""

import re
from pathlib import Path

from mhaviz.errors import ArgumentError, MhavizError, quoted
from mhaviz.files.errors import name_of
from mhaviz.files.texts import read_json, read_lines
from mhaviz.inputs.given import Message, require_messages

_BETWEEN = re.compile(r"[\s,]+")


def parse_ids(text: str, of: str) -> tuple[int, ...]:
    """ "101,2023 102" → (101, 2023, 102). Raises ArgumentError, which begins with ``of``, if they cannot be read."""
    parts = _BETWEEN.split(text.strip(" \t,[]"))
    for part in parts:
        if not part.isdecimal() or len(part) > 18:  # no vocabulary has more, and Python reads 4,300 digits at most
            raise ArgumentError(f"{of}: expected numbers such as 101,2023,102, or a file of them, got {quoted(part)}")
    return tuple(map(int, parts))


def read_ids(path: Path) -> tuple[tuple[int, ...], ...]:
    """Those of each line that is not blank; "-" is standard input. Raises MhavizError if a line holds another thing."""
    try:
        lines = read_lines(path, "the ids of one sequence a line")
        return tuple(parse_ids(line.text, f"{name_of(path)}, line {line.number}") for line in lines)
    except ArgumentError as error:
        raise MhavizError(str(error)) from error


def read_chat(path: Path) -> tuple[Message, ...]:
    """The messages of a file; "-" is standard input. Raises MhavizError if it cannot be read, or holds no chat."""
    document = read_json(path)
    if isinstance(document, dict) and "messages" in document:
        document = document["messages"]
    try:
        return require_messages(document, f"{path}: ")
    except ArgumentError as error:
        raise MhavizError(str(error)) from error
