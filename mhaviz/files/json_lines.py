"""Values from a file of JSON Lines, or of one JSON list."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mhaviz.errors import ArgumentError, MhavizError, reason
from mhaviz.files.errors import name_of
from mhaviz.files.texts import parse_json, read_text


@contextmanager
def of_a_file() -> Iterator[None]:
    """Raise MhavizError in place of an ArgumentError inside this block: a file is wrong, and not the command."""
    try:
        yield
    except ArgumentError as error:
        raise MhavizError(str(error)) from error


def read_objects(path: Path, item: str, expected: str) -> list[tuple[Any, str]]:
    """Read the values of a file, as ``objects_of``; "-" is standard input.

    Raises:
        MhavizError: the file cannot be read, is not JSON, or has no value.
    """
    with of_a_file():
        found = objects_of(read_text(path), name_of(path), item, expected)
    if not found:
        raise MhavizError(f"{name_of(path)} is empty: expected {expected}")
    return found


def objects_of(text: str, of: str, item: str, expected: str) -> list[tuple[Any, str]]:
    """Return the values of a text, each with where it is: "chats.jsonl, line 3", or of a list "chats.json, text 3".

    Args:
        text: the text.
        of: what the text is of.
        item: name of a value in a list.
        expected: an example of a value.

    Raises:
        ArgumentError: it is not JSON.
    """
    try:
        whole = parse_json(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        return [(value, f"{of}, {item} {number}") for number, value in enumerate(whole, 1)]
    lines = [(line, f"{of}, line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    is_broken_list = text.lstrip().startswith("[") and not lines[0][0].rstrip().endswith("]")
    if is_broken_list or (whole is not None and len(lines) > 1):
        lines = [(text, of)]  # a value in several lines, or what is wrong in one
    return [(_json(line, where, expected), where) for line, where in lines]


def _json(text: str, where: str, expected: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{where}: expected JSON such as {expected} ({reason(error)})") from error
