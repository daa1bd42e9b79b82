"""JSON files that anybody may have made: what they need of memory is known before they are parsed."""

import json
from pathlib import Path
from typing import Any, NoReturn

from mhaviz.files.errors import ContentError, reading
from mhaviz.files.texts import read_text
from mhaviz.memory import free_main_memory, shortage

_OF_SIGNS = {",": 48, '"': 16, "[": 128, "{": 192, ":": 160}
"""Bytes of Python's objects for each of these: a number in a list, half a text, a list, a dict, a key and its value."""


def read_json(path: Path) -> Any:
    """What a JSON file holds, in dicts, lists, texts and numbers. NaN and Infinity are no JSON.

    Raises:
        MhavizError: the file cannot be read, is no JSON, or does not fit into memory.
    """
    with reading(path):
        text = read_text(path, copies=2)
        if short := shortage(memory_of(text), free_main_memory()):
            raise ContentError(f"it may need {short}; save fewer heads, layers or sentences, or pooled maps")
        return json.loads(text, parse_constant=_refuse)


def memory_of(text: str) -> int:
    """At most how many bytes Python's objects of a JSON text take, and the arrays of its numbers, beside the text."""
    of_a_letter = 1 if text.isascii() and "\\u" not in text else 4
    return of_a_letter * len(text) + sum(size * text.count(sign) for sign, size in _OF_SIGNS.items())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
