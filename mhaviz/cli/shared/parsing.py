"""Parsers of options: each turns the text of an option into its value."""

import ast
from collections.abc import Callable
from typing import Any

from mhaviz.errors import quoted

_LARGEST = 9_999
"""Largest number of a head, layer or example that is read, so that ranges stay small."""

_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72}


def parsed(parse: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    """Return a parser whose errors name what is ``expected``. ``parse`` raises ValueError for any other text."""

    def parser(text: Any) -> Any:
        try:
            return parse(text) if isinstance(text, str) else text  # the default
        except ValueError:
            raise ValueError(f"expected {expected}, got {quoted(text)}") from None

    return parser


def several(things: str, everything: str | None = None) -> Callable[[str], Any]:
    """Return a parser of numbers from 0 on: "0,3-5" → (0, 3, 4, 5), "all" → ``everything``."""
    return parsed(
        lambda text: _numbers(text) or everything,
        f"{things} such as 0, 3-5 (the smaller first, at most {_LARGEST:,}) or all",
    )


def one(thing: str) -> Callable[[str], Any]:
    """Return a parser of a single number from 0 on."""
    return parsed(whole, f"one {thing}, such as 3")


def whole(text: str) -> int:
    """Parse a number of digits only. Raises ValueError for any other text."""
    if not text.strip().isdecimal():
        raise ValueError
    return int(text)


def wholes(text: str) -> tuple[int, ...]:
    """Parse numbers: "16,64,256" → (16, 64, 256)."""
    return tuple(map(whole, text.split(",")))


def names(text: str) -> tuple[str, ...]:
    """Parse names: "rows, h2o" → ("rows", "h2o")."""
    return tuple(part.strip() for part in text.split(","))


def _numbers(text: str) -> tuple[int, ...] | None:
    if text.strip().lower() == "all":
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = whole(first), whole(last if dash else first)
        if not low <= high <= _LARGEST:
            raise ValueError
        numbers += range(low, high + 1)
    return tuple(dict.fromkeys(numbers))


def parse_window(text: str) -> tuple[int | None, ...]:
    """Parse a window: "0:512,1000:" → (0, 512, 1000, None)."""
    queries, keys = (side.split(":") for side in text.split(","))
    (q0, q1), (k0, k1) = queries, keys
    return tuple(whole(end) if end.strip() else None for end in (q0, q1, k0, k1))


def parse_length(text: str) -> float:
    """Parse a length such as "8.4cm", "3.3in", "84 mm" or "240pt", and return inches."""
    stripped = text.strip().lower()
    inches = float(stripped[:-2]) * _INCHES.get(stripped[-2:], 0.0)
    if not 0 < inches < float("inf"):
        raise ValueError
    return inches


def on_or_off(text: str) -> bool:
    """Parse "on" or "off"."""
    return ("off", "on").index(text.strip().lower()) > 0


def number_or_auto(text: str) -> float | None:
    """Parse a number: "0.5" → 0.5; "auto" → None."""
    return None if text.strip().lower() == "auto" else float(text)


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse arguments of a layer: "n_heads=4,bias=False,kind=rope" → {"n_heads": 4, "bias": False, "kind": "rope"}.

    A value is a literal of Python, or else a text. A comma in brackets or quotes belongs to its value.
    """
    found: dict[str, Any] = {}
    for part in _parts(text):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not name.isidentifier() or name in found:
            raise ValueError
        found[name] = _literal(value)
    return found


def _parts(text: str) -> list[str]:
    """Split a text at commas outside of brackets and quotes. Raises ValueError if one of these is not closed."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "," and not depth:
            parts.append("")
            continue
        depth += 0 if quote else (character in "([{") - (character in ")]}")
        parts[-1] += character
    if quote or depth:
        raise ValueError
    return parts


def _literal(text: str) -> Any:
    if text in ("true", "false"):  # as a text, "false" would be true
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
