"""Spans: named sets of tokens of one side, such as its words."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise

from mhaviz.errors import ArgumentError, is_accepted, parameter, quoted
from mhaviz.inputs.tokens import Ranges, Text, Tokens, as_typed, whole_character

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_JOINERS = "\N{SOFT HYPHEN}\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
_WITHOUT_BLANKS = re.compile("CJK|HIRAGANA|KATAKANA|IDEOGRAPHIC|THAI|LAO|KHMER|MYANMAR")
_NAMELESS = re.compile(r"(row|fixed|channel|head) [0-9]+")

REST = "(rest)"
"""Name of the keys that are in no span, such as what a chat template adds."""


@dataclass(frozen=True)
class Span:
    """A named set of tokens of one side, such as a word.

    Attributes:
        name: text of the span, with the blank before a word: " didn't".
        ranges: its tokens.
    """

    name: str
    ranges: Ranges


SpansOf = Callable[[Tokens], tuple[Span, ...]]
"""Finds the spans of one side. They have no token in common, and may leave some out."""


def words(tokens: Tokens) -> tuple[Span, ...]:
    """Return the words of a text, which together are all of its tokens.

    A word is the tokens whose first letters lie in the same run of letters, digits, and apostrophes or hyphens between
    them; where no token begins with a blank, each token is a word. The pieces of one character, and tokens that are of
    one word by the tokenizer, belong together. Any other token, such as [CLS] or a comma, is a word of its own.

    In a script without blanks, such as a Chinese name in an English text, it is not known where words begin: each piece
    of the tokenizer stays single. A text in which such pieces are more than all other words is refused.

    Raises:
        ArgumentError: the tokens have no names; most of the text has no blanks between words, such as Chinese.
    """
    if are_nameless(tokens):
        first = f", such as {quoted(tokens.texts[0])}" if len(tokens) else ""
        options = [parameter(name) for name in ("tokens", "queries") if is_accepted(name)]
        names = f"names by {' or '.join(options)}" if options else "a text"
        raise ArgumentError(
            f"{parameter('by')}: expected names of tokens, to know where words begin, got positions{first}; give "
            f"{names}, or leave this out"
        )
    if tokens.grid is not None:
        raise ArgumentError(f"{parameter('by')}: expected tokens of a text, got patches of an image; leave this out")
    spans, unspaced = _words(tokens)
    if unspaced:
        raise ArgumentError(
            f"{parameter('by')}: expected blanks between words, got {quoted(unspaced)}, which needs a segmenter, as "
            f"Chinese and Japanese do; leave this out"
        )
    return spans


def words_or_tokens(tokens: Tokens) -> tuple[Span, ...]:
    """Return the words of a text as ``words`` does; each token where these are not known, and spans as they are."""
    if not tokens.ranges and not are_nameless(tokens) and tokens.grid is None:
        spans, unspaced = _words(tokens)
        if not unspaced:
            return spans
    return tuple(Span(text, ((i, i + 1),)) for i, text in enumerate(tokens.texts))


def words_joined(tokens: Tokens, name: str) -> tuple[Span, ...]:
    """Return the words of a text, or each token where these are not known. Several words that together are a name, as
    it stands between blanks of the text, such as "3.50" or an address, are one.

    Case does not count if they are written so nowhere. Punctuation between a name and the blanks around it stays apart.
    """
    spans, special = words_or_tokens(tokens), {*tokens.special}
    if not any(span.name[:1].isspace() for span in spans):  # it is not known what stands between blanks
        return spans
    aside = {i for i, span in enumerate(spans) if span.ranges[0][0] in special}
    apart = {
        i
        for i, span in enumerate(spans)
        if {i - 1, i} & aside or span.name[:1].isspace() or spans[i - 1].name[-1:].isspace()
    }
    pieces = list(pairwise([*sorted({0, *apart}), len(spans)]))
    for form in (str, str.casefold):
        runs = [run for piece in pieces for run in _runs_named(spans, piece, name, form)]
        if runs:
            return _with_joined(spans, runs)
    return spans


def _runs_named(
    spans: Sequence[Span], piece: tuple[int, int], name: str, form: Callable[[str], str]
) -> Iterator[tuple[int, int]]:
    """Iterate over the runs of several words, in a piece between blanks, that are a name in a form, as (start, end)."""
    start, end = piece
    if end - start < 2:
        return
    texts = [form(as_typed(span.name)[0]) for span in spans[start:end]]
    whole, wanted = "".join(texts), form(name.strip())
    ends = {reached: i for i, reached in enumerate(accumulate(map(len, texts), initial=0))}
    at = whole.find(wanted) if wanted else -1
    while at >= 0:
        after = at + len(wanted)
        is_apart = not any(map(str.isalnum, whole[:at] + whole[after:]))
        if is_apart and {at, after} <= ends.keys() and ends[after] - ends[at] > 1:
            yield start + ends[at], start + ends[after]
        at = whole.find(wanted, after)


def _with_joined(spans: Sequence[Span], runs: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """Return spans with one in place of each run."""
    joined, reached = list[Span](), 0
    for start, end in runs:
        typed = [as_typed(span.name) for span in spans[start:end]]
        name, mark = "".join(text for text, _ in typed), max(mark for _, mark in typed)
        ranges = ((spans[start].ranges[0][0], spans[end - 1].ranges[-1][1]),)
        blank = " " * spans[start].name[:1].isspace()
        joined += [*spans[reached:start], Span(f"{blank}{name}{mark}", ranges)]
        reached = end
    return (*joined, *spans[reached:])


def span_tokens(spans: Sequence[Span], tokens: Tokens) -> Tokens:
    """Return spans in the place of their tokens. A span of special tokens alone is special."""
    special = set(tokens.special)
    are_special = (all(special.issuperset(range(*run)) for run in span.ranges) for span in spans)
    return Tokens(
        tuple(span.name for span in spans),
        tuple(place for place, is_special in enumerate(are_special) if is_special),
        ranges=tuple(span.ranges for span in spans),
    )


def text_by_span(text: Text, spans_of: SpansOf) -> Text:
    """Return the source of a text by span, with the places of its prompt and segments counted in spans."""
    spans = spans_of(text.source)
    starts = [span.ranges[0][0] for span in spans]

    def place(position: int) -> int:
        return bisect_left(starts, position)

    segments = (replace(part, start=place(part.start), end=place(part.end)) for part in text.segments)
    source = span_tokens(spans, text.source)
    return replace(text, source=source, prompt=place(text.prompt), segments=tuple(segments), types=())


def continued_words(tokens: Tokens, numbers: Sequence[int | None]) -> tuple[int, ...]:
    """Return the ``continued`` of tokens that are labelled by their pieces of a text.

    ``numbers``: number of each token's word by the tokenizer; None: it is in none. Some tokenizers give one number to a
    whole text, so that a blank ends a word as well.
    """
    texts, apart = tokens.texts, set(tokens.special)
    same = {
        i
        for i in range(1, len(texts))
        if numbers[i] == numbers[i - 1] is not None
        and not texts[i][:1].isspace()
        and (not texts[i - 1][-1:].isspace() or texts[i - 1] == " ")
        and not {i, i - 1} & apart
    }
    return tuple(sorted((same | _in_one_word(tokens)) - _continuing(tokens)))


@lru_cache(maxsize=8)  # all layers read the same tokens
def _words(tokens: Tokens) -> tuple[tuple[Span, ...], str]:
    """Return the words, and the first characters that need a segmenter if most of the text does; "": it does not."""
    single, after = _without_blanks(tokens)
    joined = (_continuing(tokens) | {*tokens.continued}) - single - after
    names = [whole_character(tokens.texts, i) or "" for i in range(len(tokens))]
    starts = [i for i in range(len(tokens)) if not i or i not in joined]  # a part may begin inside a word
    runs = zip(starts, [*starts[1:], len(tokens)], strict=True)
    spans = tuple(Span("".join(names[start:end]), ((start, end),)) for start, end in runs)
    aside = single.union(tokens.special)  # the name of a special token has letters, but no word of the text
    others = [span for span in spans if span.ranges[0][0] not in aside and any(map(str.isalnum, span.name))]
    unspaced = "".join(names[i] for i in sorted(single)[:2]).strip() if len(single) > len(others) else ""
    return spans, unspaced


def _continuing(tokens: Tokens) -> set[int]:
    """Return the positions of tokens that continue the word of the token before, as far as labels tell."""
    pieces = {i for i in range(len(tokens)) if whole_character(tokens.texts, i) is None}
    has_blanks = any(text[:1].isspace() for text in tokens.texts)
    return pieces | (_in_one_word(tokens) if has_blanks else set())


def _in_one_word(tokens: Tokens) -> set[int]:
    """Return the positions of tokens whose first letters lie in the same word as those of the token before."""
    special = set(tokens.special)
    names = ["\n" if i in special else whole_character(tokens.texts, i) for i in range(len(tokens))]
    text = "".join(filter(None, names))
    of_letters = "".join("x" if c in _JOINERS or unicodedata.category(c)[0] == "M" else c for c in text)
    word_at = [-1] * (len(text) + 1)
    for number, found in enumerate(_WORD.finditer(of_letters)):
        word_at[found.start() : found.end()] = [number] * (found.end() - found.start())
    reached, numbers = 0, list[int]()
    for name in names:
        if name is None:  # of the character before
            numbers.append(numbers[-1])
            continue
        first = len(name) - len(name.lstrip())
        numbers.append(word_at[reached + first] if name.strip() else -1)
        reached += len(name)
    return {i for i in range(1, len(numbers)) if numbers[i] == numbers[i - 1] >= 0}


def are_nameless(tokens: Tokens) -> bool:
    """Return whether the labels only number the tokens, as in a recorded program that does not tell their texts."""
    return not len(tokens) or tokens.are_positions or all(map(_NAMELESS.fullmatch, tokens.texts))


def unit_of(tokens: Tokens) -> str:
    """Return what tokens are called where words are told: "word", or "position" where their texts are unknown."""
    return "position" if are_nameless(tokens) else "word"


def _without_blanks(tokens: Tokens) -> tuple[set[int], set[int]]:
    """Return the positions of tokens in runs of at least two of a script that has no blanks between words, and of the
    tokens after the runs."""
    single, after, before, last = set[int](), set[int](), "", -1
    for i in range(len(tokens)):
        text = "" if i in tokens.special else whole_character(tokens.texts, i)
        if text is None:
            continue
        letters = "".join(c for c in text if unicodedata.category(c)[0] != "M")
        if _is_without_blanks(letters[:1]) and _is_without_blanks(before[-1:]):
            single |= {last, i}
        elif last in single:
            after.add(i)
        before, last = letters, i
    return single, after


def _is_without_blanks(letter: str) -> bool:
    return letter.isalnum() and _WITHOUT_BLANKS.match(unicodedata.name(letter, "")) is not None
