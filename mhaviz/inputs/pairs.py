"""Pairs of words of a text, of which a head may link one, the query, to the other, the key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mhaviz.errors import ArgumentError, quoted

FIELDS = "text", "query", "key"
"""Names of the fields of a pair, in order."""

EXAMPLE = '{"text": "The cat slept because it was tired.", "query": "it", "key": "cat"}'


@dataclass(frozen=True)
class WordPair:
    """Two words of a text.

    Attributes:
        text: the text.
        query, key: the words, each by its text; as "it #7" where the text has it more than once; or by the position of
            a token in it, 7 or "#7".
        where: where the pair is given, which begins errors: "pairs.jsonl, line 3".
    """

    text: str
    query: str | int
    key: str | int
    where: str = ""

    @classmethod
    def of(cls, given: Any, where: str) -> "WordPair":
        """Return a pair that is given by its fields or as (text, query, key).

        Raises:
            ArgumentError: a field is missing, or is no text.
        """
        if isinstance(given, WordPair):
            return given if given.where else replace(given, where=where)
        if isinstance(given, Mapping):
            if missing := [name for name in FIELDS if name not in given]:
                raise ArgumentError(f"{where}: expected {missing[0]!r} among the fields, as in {EXAMPLE}")
            fields = [given[name] for name in FIELDS]
        elif isinstance(given, (tuple, list)):
            if len(given) != len(FIELDS):
                raise ArgumentError(f"{where}: expected text, query and key, got {len(given)} of them")
            fields = list(given)
        else:
            raise ArgumentError(f"{where}: expected {EXAMPLE}, got {quoted(given)}")
        for name, field in zip(FIELDS, fields, strict=True):
            is_position = name != "text" and isinstance(field, int) and not isinstance(field, bool)
            if not is_position and not (isinstance(field, str) and field.strip()):
                raise ArgumentError(f"{where}: {name}: expected a text, got {quoted(field)}")
        text, query, key = fields
        return cls(text, query, key, where)


def word_pairs(given: Any, of: str) -> list[WordPair]:
    """Return pairs, each given as ``WordPair.of`` has it; ``of``: what they are of, which begins errors.

    Raises:
        ArgumentError: these are no pairs; as ``WordPair.of``.
    """
    if not isinstance(given, Iterable):
        raise ArgumentError(f"{of}: expected pairs, such as {EXAMPLE}, got {quoted(given)}")
    pairs = [WordPair.of(pair, f"{of}, pair {number}") for number, pair in enumerate(given, 1)]
    if not pairs:
        raise ArgumentError(f"{of}: expected at least one pair, such as {EXAMPLE}, got none")
    return pairs
