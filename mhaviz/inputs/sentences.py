"""Sentences and lines of a text, and its turns, as spans of tokens."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from mhaviz.errors import ArgumentError, is_accepted, parameter, quoted
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.sentence_marks import SENTENCE_MARKS
from mhaviz.inputs.spans import Span, are_nameless
from mhaviz.inputs.tokens import Segment, Tokens, runs_of

_END = re.compile(rf"[.!?…{SENTENCE_MARKS}]+[\"'”’»)\]）」』】〉》]*|\n\s*\n")

_NEAR = 16  # characters before and after a mark that tell whether a sentence ends

_WORD_BEFORE = re.compile(r"(?:^|[\s(])([^\W\d_]+)\.$")
_SHORT = {"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Nr", "Fig", "Eq", "vs", "cf", "al", "ca", "z"}
"""Short forms after which no sentence ends although a capital follows."""

_NUMBER_BEFORE = re.compile(r"(?:^|\n)[^\S\n]*[0-9]+\.$")
"""Start of a line up to the number of an item in a list, "1."."""


def sentences(tokens: Tokens) -> tuple[Span, ...]:
    """Return the sentences of a text. Special tokens are in none.

    In a chat, a pair of texts, or a prompt that a model continues, each turn has sentences of its own, and what a chat
    template writes around messages is in none; if the template has changed a message, sentences are those of its text.

    A sentence ends at ".", "!", "?" or "…" before a blank, unless a small letter follows in a text with capitals, or
    the mark belongs to an initial, to a common short form, such as "Dr.", or to the number of an item in a list; at the
    marks of other scripts, such as "。", "؟" and "।"; and at a blank line. This follows the sentence boundaries of the
    Unicode standard (UAX #29, section 5), with its property Sentence_Terminal.

    Raises:
        ArgumentError: the tokens have no text.
    """
    return _parts(tokens, "sentence", _sentence_ends)


def lines(tokens: Tokens) -> tuple[Span, ...]:
    """Return the lines of a text that are not blank, those of each turn apart as in ``sentences``. Special tokens are
    in none.

    Raises:
        ArgumentError: the tokens have no text, or it is joined from labels that have no line breaks.
    """
    is_joined = tokens.passage is None and tokens.grid is None and not are_nameless(tokens)
    if is_joined and "\n" not in tokens.written.text:
        raise ArgumentError(
            f"{parameter('by')}: expected a text with line breaks, got labels of tokens without any; give "
            f"{parameter('by')} sentence, or a file of spans"
        )
    return _parts(tokens, "line", lambda text: (found.end() for found in re.finditer("\n", text)))


def turns(tokens: Tokens) -> tuple[Span, ...]:
    """Return the messages of a chat by their roles, the texts of a pair, or a prompt and what a model has written.

    Several turns of one role are numbered from 1: "user 1", "user 2". What a chat template adds is in none.

    Raises:
        ArgumentError: the text has no turns; the chat template has changed a message.
    """
    found = _said(tokens)
    names = [turn.name for turn in found]
    return tuple(
        Span(name if names.count(name) == 1 else f"{name} {names[:i].count(name) + 1}", ((turn.start, turn.end),))
        for i, (name, turn) in enumerate(zip(names, found, strict=True))
    )


def roles(tokens: Tokens) -> tuple[Span, ...]:
    """Return the messages of a chat as ``turns`` does, those of one role together. Raises ArgumentError as ``turns``
    does."""
    ranges = defaultdict[str, list[tuple[int, int]]](list)
    for turn in _said(tokens):
        ranges[turn.name].append((turn.start, turn.end))
    return tuple(Span(name, tuple(runs)) for name, runs in ranges.items())


def _said(tokens: Tokens) -> tuple[Segment, ...]:
    """Return the turns. Raises ArgumentError as ``turns``."""
    if not tokens.turns:
        options = [parameter(name) for name in ("chat", "generate") if is_accepted(name)]
        raise ArgumentError(
            f"{parameter('by')} turn: expected a chat, a pair of texts, or a text that the model continues, got one "
            f"text; give {' or '.join([*options, 'a file of spans'])}"
        )
    for number, turn in enumerate(tokens.turns):
        if turn.start == turn.end:
            raise ArgumentError(
                f"{parameter('by')} turn: expected message {number} ({quoted(turn.name)}) in the text of the chat, got "
                f"none as it was given: it is empty, or the chat template has changed it or a message before it; give "
                f"a file of spans by token"
            )
    return tokens.turns


def _parts(tokens: Tokens, what: str, ends_of: Callable[[str], Iterable[int]]) -> tuple[Span, ...]:
    """Return the parts of a text that end at these places."""
    if are_nameless(tokens) and tokens.passage is None:
        raise ArgumentError(
            f"{parameter('by')} {what}: expected tokens with a text, got positions; give a file of spans by token"
        )
    if tokens.grid is not None:
        raise ArgumentError(f"{parameter('by')} {what}: expected a text, got patches of an image; leave this out")
    passage, special, found = tokens.written, set(tokens.special), list[Span]()
    for first, last in _texts(tokens, passage):
        text, start = passage.text[first:last], first
        for end in (*(first + end for end in ends_of(text)), last):
            inside = [i for i in passage.tokens_in(start, end) if i not in special]
            if inside:
                name = " ".join(passage.text[start:end].split())
                found.append(Span(name, runs_of(passage.with_blanks(inside, special))))
            start = end
    return tuple(found)


def _texts(tokens: Tokens, passage: Passage) -> list[tuple[int, int]]:
    """Return start and end of each turn in the text, in characters; those of the whole text where some are not known,
    as the chat template has changed a message."""
    if not tokens.turns or any(turn.start == turn.end for turn in tokens.turns):
        return [(0, len(passage.text))]
    of_turns = ([passage.place(i) for i in range(turn.start, turn.end)] for turn in tokens.turns)
    lettered = ([(start, end) for start, end in places if start < end] for places in of_turns)
    return [(places[0][0], places[-1][1]) for places in lettered if places]


def _sentence_ends(text: str) -> Iterator[int]:
    has_capitals, reached = text != text.lower(), 0
    for mark in _END.finditer(text):
        before, after = text[max(mark.end() - _NEAR, reached) : mark.end()], text[mark.end() : mark.end() + _NEAR]
        ends_anyway = mark[0].isspace() or mark[0][0] in SENTENCE_MARKS
        if ends_anyway or (after[:1].isspace() and not _goes_on(before, after, has_capitals)):
            reached = mark.end()
            yield reached


def _goes_on(before: str, after: str, has_capitals: bool) -> bool:
    """Return whether a sentence goes on after a mark: at a small letter; after an initial, a short form, or the number
    of an item in a list; or after "No." at a digit."""
    first = next((c for c in after if c.isalnum()), "")
    if (has_capitals and unicodedata.category(first or "A") == "Ll") or _NUMBER_BEFORE.search(before):
        return True
    found = _WORD_BEFORE.search(before)
    word = found[1] if found else ""
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return is_initial or word in _SHORT or (word == "No" and first.isdecimal())
