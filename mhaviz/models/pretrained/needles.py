"""Puts a needle into a text at several depths, and at its end once more, as ids."""

import re
from collections.abc import Iterator

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, parameter
from mhaviz.models.pretrained.reading import ids_around, plain_ids
from mhaviz.records.probes import Needle

_SENTENCE_ENDS = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_BLANKS = re.compile(r"\s+")


def needle_ids(tokenizer: PreTrainedTokenizerBase, needle: Needle) -> list[int]:
    """The needle's tokens, as they stand within a text. Raises ArgumentError if it has none."""
    ids = plain_ids(tokenizer, f" {needle.text.strip()}")
    if not needle.text.strip() or not ids:
        raise ArgumentError(f"{parameter('needle')}: expected a text with at least one token, got an empty one")
    return ids


def with_needle(
    tokenizer: PreTrainedTokenizerBase, text: str, needle: Needle, max_length: int | None
) -> Iterator[list[int]]:
    """The ids of the text with the needle, for each depth: text, needle, text, question, needle.

    The needle is put between two sentences of the text, or between two words if it has but one: where it is nearest to
    its depth. A text that is too long loses its end. All needles have the same ids, whatever stands around them.

    Args:
        tokenizer: the model's own.
        text: the haystack.
        needle: and its question and depths.
        max_length: the most tokens that the model can read; None: there is no such limit.

    Raises:
        ArgumentError: needle and question alone are longer than the model can read.
    """
    inside = needle_ids(tokenizer, needle)
    question = plain_ids(tokenizer, f" {needle.question.strip()}") if needle.question.strip() else []
    before, after = ids_around(tokenizer)
    end = [*question, *inside]
    alone = len(before) + len(inside) + len(end) + len(after)
    if max_length is not None and alone > max_length:
        raise ArgumentError(
            f"{parameter('needle')}: expected at most {max_length:,} tokens with its question, twice, as the model can "
            f"read, got {alone:,}"
        )
    text = text.strip()
    room = None if max_length is None else max_length - alone
    places = [match.span() for match in _SENTENCE_ENDS.finditer(text)]
    places = places or [match.span() for match in _BLANKS.finditer(text)]
    places = [(0, 0), *places, (len(text), len(text))]
    if room is not None:
        text, places = _cut(tokenizer, text, places, room)
    for depth in needle.depths:
        start, stop = min(places, key=lambda place: abs(place[0] - depth * len(text)))
        head, tail = text[:start], text[stop:]
        yield [
            *before,
            *(plain_ids(tokenizer, head) if head else []),
            *inside,
            *(plain_ids(tokenizer, f" {tail}") if tail else []),
            *end,
            *after,
        ]


def _cut(
    tokenizer: PreTrainedTokenizerBase, text: str, places: list[tuple[int, int]], room: int
) -> tuple[str, list[tuple[int, int]]]:
    """The text up to the last place at which it still has room, and the places in it.

    One token is spared, as a text that is cut in two may have one more.
    """
    low, high = 0, len(places) - 1  # the text up to the first of them is empty
    if len(plain_ids(tokenizer, text)) < room:
        return text, places
    while low < high:
        middle = (low + high + 1) // 2
        if len(plain_ids(tokenizer, text[: places[middle][0]])) < room:
            low = middle
        else:
            high = middle - 1
    end = places[low][0]
    return text[:end], [*places[:low], (end, end)]
