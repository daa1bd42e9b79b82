"""Finds the token that is named."""

import difflib
import operator
import re
from collections.abc import Sequence

from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.layer.tokens import tokenize
from mhaviz.pages.labels import bare, cut, visible

_LISTED = 12  # tokens that an error lists


def choose_token(text: str | int | None, tokens: Sequence[str], is_target: bool = False) -> int:
    """The position of the token that ``text`` names: by its word, as ``tokenize`` would write it, or its position.

    A number that is also a word of the sentence is read as that word; "#3" is always the position.

    >>> choose_token("Deposit!", ["i", "deposit", "2"]), choose_token("2", ["i", "deposit", "2"])
    (1, 2)

    ``is_target``: the tokens are those of a target, which errors then say.

    Raises:
        ArgumentError: no token is named, or none that is there, or one that occurs several times.
    """
    of = "the target, whose words are the queries" if is_target else "the sentence"
    if not isinstance(text, str | None):
        return _position(operator.index(text), tokens)
    if text is None:
        raise ArgumentError(f"{parameter('token')}: expected a word of {of} or its position; it has {_listed(tokens)}")
    found = [i for i, token in enumerate(tokens) if token == text]
    wanted = tokenize(text)
    if not found and not text.startswith("#") and len(wanted) == 1:
        found = [i for i, token in enumerate(tokens) if tokenize(token) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        positions = ", ".join(f"#{i}" for i in found)
        raise ArgumentError(
            f"{parameter('token')}: “{_short(tokens[found[0]])}” occurs {len(found)} times; give one of its "
            f"positions, {positions}"
        )
    if match := re.fullmatch(r"#?([0-9]{1,18})", text.strip()):
        return _position(int(match[1]), tokens)
    if len(wanted) > 1:
        raise ArgumentError(f"{parameter('token')}: expected one word, got {len(wanted)}; {of} has {_listed(tokens)}")
    near = difflib.get_close_matches(wanted[0], set(map(bare, tokens)), n=3) if wanted else []
    shown = f"try {', '.join(map(_short, sorted(near)))}" if near else f"it has {_listed(tokens)}"
    raise ArgumentError(f"{parameter('token')}: “{_short(text)}” is not in {of}; {shown}")


def _position(position: int, tokens: Sequence[str]) -> int:
    if not 0 <= position < len(tokens):
        raise ArgumentError(
            f"{parameter('token')}: expected a position from 0 to {len(tokens) - 1}, got {counted(position)}"
        )
    return position


def _listed(tokens: Sequence[str]) -> str:
    more = f", … {len(tokens) - _LISTED} more" if len(tokens) > _LISTED else ""
    return ", ".join(f"#{i} {_short(token)}" for i, token in enumerate(tokens[:_LISTED])) + more


def _short(text: str) -> str:
    return cut(visible(bare(text)), 24)
