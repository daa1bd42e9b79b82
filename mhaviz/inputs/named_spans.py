"""Spans that a user names, as ranges of tokens, ranges of characters, or texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.inputs.spans import REST, Span
from mhaviz.inputs.tokens import Ranges, Tokens, runs_of

_Runs = tuple[int | tuple[int, int], ...]  # one range, or several

_SHOWN = 50  # most characters of the beginning of a text in a message

FORM = '{"name": "document 1", "tokens": [12, 80]}, or "characters" or "text" in place of "tokens"'
"""An example of a span in a file."""


class NamedSpan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A span that a user names, by one of tokens, characters and text.

    Attributes:
        name: its name.
        tokens: positions of its tokens, (start, end), or runs of them; the end is not included.
        characters: start and end in the text that the model reads, in characters, or runs of them; in a chat, that is
            what the chat template makes of it.
        text: its text, which the text of the model has once.
    """

    name: str
    tokens: _Runs | None = None
    characters: _Runs | None = None
    text: str | None = None


def named_spans(given: Iterable[NamedSpan | Mapping[str, Any]]) -> tuple[NamedSpan, ...]:
    """Return spans that are given as mappings, such as from JSON.

    Raises:
        ArgumentError: they are no spans, or not each by one of tokens, characters and text; a text is empty; a name is
            missing, blank, given twice, or that of the rest.
    """
    if not isinstance(given, Iterable) or isinstance(given, (str, Mapping)):
        raise ArgumentError(f"{parameter('by')}: expected a list of spans such as {FORM}, got {in_json(given)}")
    try:
        documents = [msgspec.to_builtins(span) for span in given]
        spans = msgspec.convert(documents, tuple[NamedSpan, ...])
    except (TypeError, msgspec.ValidationError) as error:
        raise ArgumentError(f"{parameter('by')}: expected a list of spans such as {FORM}: {error}") from None
    if not spans:
        raise ArgumentError(f"{parameter('by')}: expected at least one span such as {FORM}, got none")
    names = set[str]()
    for span in spans:
        if sum(place is not None for place in (span.tokens, span.characters, span.text)) != 1:
            raise ArgumentError(
                f"{parameter('by')}: span {quoted(span.name)}: expected one of tokens, characters and text"
            )
        if span.text is not None and not span.text.strip():
            raise ArgumentError(f"{_of(span)}: text: expected a text, got an empty one")
        if span.name == REST:
            raise ArgumentError(
                f"{parameter('by')}: expected another name than {quoted(REST)}, which what is in no span is called"
            )
        if not span.name.strip():
            raise ArgumentError(f"{parameter('by')}: expected a name of each span, got {quoted(span.name)}")
        if span.name in names:
            raise ArgumentError(
                f"{parameter('by')}: expected another name of each span, got {quoted(span.name)} twice; runs of one "
                f'span are a list: "tokens": [[0, 5], [9, 12]]'
            )
        names.add(span.name)
    return spans


def in_json(value: object) -> str:
    """Return a value for a message, the null of JSON by its name."""
    return "null" if value is None else quoted(value)


def find_spans(named: Sequence[NamedSpan], tokens: Tokens) -> tuple[Span, ...]:
    """Return the tokens of named spans, in the order of the text.

    Raises:
        ArgumentError: a span lies outside of the text, is empty, cuts a token, or shares one with another; its text is
            not in the text, or more than once; characters of a text that is not known.
    """
    spans, owners = [_found(span, tokens) for span in named], dict[int, str]()
    for span in spans:
        for position in (i for run in span.ranges for i in range(*run)):
            if position in owners:
                raise ArgumentError(
                    f"{parameter('by')}: expected spans without tokens in common, got #{position} "
                    f"{quoted(tokens.texts[position].strip())} in both {quoted(owners[position])} and "
                    f"{quoted(span.name)}"
                )
            owners[position] = span.name
    return tuple(sorted(spans, key=lambda span: span.ranges[0]))


def _found(named: NamedSpan, tokens: Tokens) -> Span:
    if named.tokens is not None:
        return Span(named.name, _in_bounds(named, _runs(named, named.tokens), len(tokens), "token"))
    if named.characters is not None:
        known = tokens.written.n_given
        if not known:
            raise ArgumentError(
                f"{_of(named)}: expected the text that the tokens are of, to count its characters, got labels of "
                f'tokens; give "tokens" or "text"'
            )
        runs = _in_bounds(named, _runs(named, named.characters), known, "character")
    else:
        runs = (_place_of(named, named.text or "", tokens.written.text),)
    passage, special = tokens.written, set(tokens.special)
    inside = {i for run in runs for i in passage.with_blanks(_tokens_in(named, *run, tokens), special)}
    return Span(named.name, runs_of(sorted(inside)))


def _tokens_in(named: NamedSpan, start: int, end: int, tokens: Tokens) -> list[int]:
    """Return the tokens of a run of characters. Raises ArgumentError if it has none, or cuts one."""
    passage = tokens.written
    inside = passage.tokens_in(start, end)
    before = passage.tokens_in(0, start)[-1:]
    for i in (*before, *inside):
        first, last = passage.place(i)
        if (first < start < last) or (first < end < last):
            raise ArgumentError(
                f"{_of(named)}: expected whole tokens, got characters {start} to {end}, which cut #{i} "
                f"{quoted(tokens.texts[i].strip())}, characters {first} to {last}"
            )
    if not inside:
        raise ArgumentError(f"{_of(named)}: expected at least one token, got none in characters {start} to {end}")
    return inside


def _place_of(named: NamedSpan, text: str, whole: str) -> tuple[int, int]:
    """Return where a text stands, but for the number and kind of blanks. Raises ArgumentError unless it does once."""
    wanted = "".join(text.split())
    places = [i for i, c in enumerate(whole) if not c.isspace()]
    bare = "".join(whole[i] for i in places)
    n_times = bare.count(wanted)
    if n_times != 1:
        begins = quoted(" ".join(whole[:_SHOWN].split()))
        got = f"it {counted(n_times, 'time')}" if n_times else f"no such text in what begins with {begins}"
        instead = '; give a longer text, or "tokens"' if n_times else ""
        raise ArgumentError(f"{_of(named)}: expected {quoted(text)} once in the text, got {got}{instead}")
    first = bare.index(wanted)
    return places[first], places[first + len(wanted) - 1] + 1


def _runs(named: NamedSpan, given: _Runs) -> Ranges:
    """Return one range, or several, as ranges. Raises ArgumentError for other numbers."""
    numbers = [part for part in given if isinstance(part, int)]
    pairs = [part for part in given if not isinstance(part, int)]
    if (len(numbers), len(pairs)) == (2, 0):
        return ((numbers[0], numbers[1]),)
    if numbers or not pairs:
        raise ArgumentError(f"{_of(named)}: expected start and end, or a list of these, got {quoted(list(given))}")
    return tuple(pairs)


def _in_bounds(named: NamedSpan, runs: Ranges, length: int, what: str) -> Ranges:
    """Return runs in order. Raises ArgumentError for one that is empty, outside, or meets another."""
    reached = 0
    for start, end in sorted(runs):
        if start >= end:
            raise ArgumentError(f"{_of(named)}: expected at least one {what}, got {start} to {end}")
        if start < 0 or end > length:
            raise ArgumentError(
                f"{_of(named)}: expected {what}s from 0 to {length:,}, the end not included, got {start} to {end}"
            )
        if start < reached:
            raise ArgumentError(f"{_of(named)}: expected runs without {what}s in common, got {start} to {end} again")
        reached = end
    return tuple(sorted(runs))


def _of(named: NamedSpan) -> str:
    return f"{parameter('by')}: span {quoted(named.name)}"
