"""Chats in JSON: a list of messages, each with a role and a content, alone or under "messages"."""

from pathlib import Path

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.json_files import read_json
from mhaviz.records.given import Message, require_messages


def read_chat(path: Path) -> tuple[Message, ...]:
    """The messages of a file; "-" is standard input. Raises MhavizError if it cannot be read, or holds no chat."""
    document = read_json(path)
    if isinstance(document, dict) and "messages" in document:
        document = document["messages"]
    try:
        return require_messages(document, f"{path}: ")
    except ArgumentError as error:
        raise MhavizError(str(error)) from error
