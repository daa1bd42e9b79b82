"""Tokens as labels: escaped, distinguished from each other, shortened, and thinned out."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from rich.cells import cell_len

from mhaviz.inputs.tokens import BLANK, MARKS, SUBSCRIPTS, Tokens, whole_character

if TYPE_CHECKING:
    from mhaviz.pages.blocks import Title

_PICTURES = "\u2190-\u2bff\U0001f000-\U0001faff"
JOINED_EMOJI = re.compile(f"(?<=[\ufe0f{_PICTURES}])\u200d(?=[{_PICTURES}])")
_TO_SUBSCRIPTS = str.maketrans("0123456789", SUBSCRIPTS)


def visible(text: str) -> str:
    """Return a text as a label: ``harmless``, in quotes if it is empty or blank.

    >>> visible("a\\x1b[1mb")
    'a\\\\x1b[1mb'
    """
    if not text.strip():
        text = f'"{text}"'
    if _is_mark(text[0]):
        text = "\N{DOTTED CIRCLE}" + text  # or the mark would combine with the character before it
    return harmless(text)


def harmless(text: str) -> str:
    """Return the text with all characters that a terminal could act on as escapes.

    Characters of Unicode's category C (controls, format characters, surrogates, private and unassigned ones) and line
    breaks become \\x1b, \\u202e, \\U000e0001.

    >>> harmless("two\\nlines")
    'two\\\\x0alines'
    """
    if text.isprintable():  # nearly all are
        return text
    return "".join(escape(c) if unicodedata.category(c) in _ACTING else c for c in text)


_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def escape(character: str) -> str:
    """Return the character as an escape of Python: \\x1b, \\u202e or \\U0001f600."""
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def places(words: Tokens, have_spans: bool) -> tuple[str, ...]:
    """Return " #28", its position as an option takes it, for each word that a text has more than once; "" for others.

    It is the position of the word's first token or, of maps that ``have_spans``, among the words.
    """
    positions = range(len(words)) if have_spans else [of_word[0][0] for of_word in words.ranges]
    counts = Counter(map(bare, words.texts))
    return tuple(f" #{i}" * (counts[bare(text)] > 1) for i, text in zip(positions, words.texts, strict=True))


def placed(words: Tokens, have_spans: bool, positions: bool) -> list[str]:
    """Return the words with their ``places``, unless labels have no positions."""
    return [text + place * positions for text, place in zip(words.texts, places(words, have_spans), strict=True)]


def bare(token: str) -> str:
    """Return the token without one blank at its beginning and one at its end; of a blank one each blank as ␣.

    Tokens of a checkpoint have their blanks: " cat" begins a word, "izer" continues one, and " " is a character of its
    own. A token that would read as blanks is escaped.
    """
    text = token.removeprefix(" ").removesuffix(" ")
    if text.strip().strip(BLANK):
        return text
    return "".join(escape(BLANK) if c == BLANK else BLANK if c == " " else c for c in token)


def title_places(length: int) -> Sequence[int]:
    """Return the places of the tokens that a title may have room for: those at the beginning and end of a long text."""
    return range(length) if length <= 400 else [*range(200), *range(length - 200, length)]


def title_words(
    tokens: Sequence[str], special: Collection[int] = (), shown: Callable[[str], str] = visible
) -> list[str]:
    """Return the words of a title, escaped; joined by blanks, they are the text.

    Tokens with their own blanks are joined as in the text, with blanks around special tokens. Otherwise each token is a
    word, as where the special tokens are the marks of a model that reads words.

    Args:
        tokens: all tokens of one side.
        special: places of special tokens.
        shown: escapes a text.
    """
    places = title_places(len(tokens))
    words = {i: word for i in places if (word := whole_character(tokens, i)) is not None}
    if all(tokens[i] in MARKS for i in special) and not any(tokens[i][:1].isspace() for i in places):
        return [shown(word) for word in words.values()]
    outside = frozenset(special)
    text = ""
    for i, token in words.items():
        apart = token and (i in outside or i - 1 in outside)
        text += " " * bool(apart and text and not text[-1].isspace() and not token[0].isspace()) + token
    return shown(text.strip(" ")).split(" ")


LEAST_COUNTED = 6
"""Least cells of the name of a span whose label says the number of its tokens."""

_LEAST_TEXTS = 16  # least cells of all texts in a title together


def title_text(title: "Title", width: int, shown: Callable[[str], str] = visible) -> str:
    """Return a title in at most ``width`` terminal cells: "self-attention: i wonder what …", or, of two texts,
    "source-target attention; queries: le chat, keys: the cat"; ``shown`` escapes a text.
    """
    names = [f"{name}: " if name else "" for name, _ in title.texts]
    end = "" if not (title.head and names) else "; " if any(names) else ": "
    head, least = title.head + end, _LEAST_TEXTS // max(len(names), 1)
    from mhaviz.pages.words import unnamed_text  # which imports numpy; --help imports this module

    unnamed = [unnamed_text(tokens) for _, tokens in title.texts]
    texts = [
        text.split(" ") if text else title_words(tokens.texts, tokens.special, shown)
        for text, (_, tokens) in zip(unnamed, title.texts, strict=True)
    ]
    shortened = list(map(" ".join, texts))
    needed = sum(min(cell_len(text), least) + len(", ") for text in shortened)
    if cell_len(head) + sum(map(cell_len, names)) + needed > width:
        names = [f"{name[0]}: " if name else "" for name, _ in title.texts]
        head = title.short + end
    room = width - cell_len(head) - sum(map(cell_len, names)) - 2 * (len(texts) - 1)
    shortest_first = sorted(range(len(texts)), key=lambda i: cell_len(shortened[i]))  # they leave room to longer ones
    for done, i in enumerate(shortest_first):
        shortened[i] = cut_words(texts[i], max(room // (len(texts) - done), least))
        room -= cell_len(shortened[i])
    return cut(head + ", ".join(map("".join, zip(names, shortened, strict=True))), width)


def cut(text: str, width: int) -> str:
    """Return the text in at most ``width`` terminal cells, shortened in the middle.

    >>> cut("antidisestablishmentarianism", 9)
    'anti…nism'
    """
    if _width(text) <= width:
        return text
    room = width - 1
    if room < 1:
        return "…"[:width]
    head = _take(text, (room + 1) // 2)
    tail = _take(text[::-1], room // 2)[::-1]
    while tail and _is_mark(tail[0]):  # its letter was cut off
        tail = tail[1:]
    return f"{head}…{tail}"


def quoted(token: str, cells: int) -> str:
    """Return a token to be quoted in a sentence, in at most ``cells``; joined emoji are split into their parts."""
    return cut(visible(JOINED_EMOJI.sub("", bare(token))), cells)


_MARKED = {("[", "]"), ("<", ">")}  # ends of the names of special tokens


def in_quotes(name: str) -> str:
    """Return the name of a token beside a number: "[CLS]", or in quotes, as "." and "0" would be read as parts of it.

    >>> in_quotes(".")
    '“.”'
    """
    return name if (name[0], name[-1]) in _MARKED else f"“{name}”"


def cut_words(words: Sequence[str], width: int) -> str:
    """Return the words joined by blanks in at most ``width`` terminal cells, without some in the middle.

    A single word in the middle is not left out, as it may be "not": then the end is.

    >>> cut_words(["the", "small", "black", "cat", "sleeps"], 18)
    'the small … sleeps'
    >>> cut_words(["it", "does", "not", "sleep"], 16)
    'it does not …'
    """
    whole = " ".join(words)
    if cell_len(whole) <= width:
        return whole
    head, tail = 1, 0
    shown = ""
    while head + tail < len(words):
        longer = " ".join([*words[:head], "…", *words[len(words) - tail :]])
        if cell_len(longer) > width:
            break
        shown = longer
        head, tail = (head, tail + 1) if tail < head else (head + 1, tail)
    if head + tail == len(words) and len(words) > 2:
        ends = (" ".join([*words[:n], "…"]) for n in range(len(words) - 1, 0, -1))
        shown = next((end for end in ends if cell_len(end) <= width), shown)
    return shown or cut(whole, width)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _width(text: str) -> int:
    """Return the terminal cells of a text; many marks on one letter count as more, or they would never be cut."""
    return max(cell_len(text), len(text) // 4)


def _take(text: str, width: int) -> str:
    """Return the longest beginning of the text that is at most ``width`` wide, by bisection."""
    fits, too_long = 0, min(len(text), 4 * width + 4) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _width(text[:middle]) <= width:
            fits = middle
        else:
            too_long = middle
    return text[:fits]


def position_suffixes(tokens: Sequence[str], start: int = 0, lowered: bool = True) -> list[str]:
    """Return the position of each token that occurs more than once, "₃", or "#3" after a digit; "" for others.

    A token that reads as another with its position has its position, too.

    Args:
        tokens: the tokens.
        start: position of the first token in the whole input.
        lowered: whether positions are subscripts; else they are as large as the token, " #3", as an option takes them.
    """
    words = list(map(bare, tokens))
    counts = Counter(words)
    positions = range(start, start + len(tokens))
    suffixes = [_suffix(word, i, lowered) for word, i in zip(words, positions, strict=True)]
    written = {word + suffix for word, suffix in zip(words, suffixes, strict=True) if counts[word] > 1}
    return [suffix if counts[word] > 1 or word in written else "" for word, suffix in zip(words, suffixes, strict=True)]


def _suffix(word: str, position: int, lowered: bool) -> str:
    """Return "₃" or " #3", or "#3" after a word that ends in a digit, as "w12₃" would be read as one number."""
    if unicodedata.category(word[-1:] or " ")[0] == "N":
        return f"#{position}"
    return str(position).translate(_TO_SUBSCRIPTS) if lowered else f" #{position}"


def round_positions(start: int, end: int, most: int) -> list[int]:
    """Return at most ``most`` equally spaced round positions between ``start`` and ``end``.

    They are multiples of 1, 2 or 5 times a power of ten, without the first and the last position.
    """
    if most < 1:
        return []
    inside = (range((start // step + 1) * step, end - 1, step) for step in _steps())
    return list(next(positions for positions in inside if len(positions) <= most))


def token_labels(
    tokens: Sequence[str],
    width: int,
    start: int = 0,
    shown: Callable[[str], str] = visible,
    lowered: bool = True,
    positions: bool = True,
    counts: Sequence[int] = (),
) -> list[str]:
    """Return a label of at most ``width`` cells for each token, with its position where it occurs more than once.

    A number beside labels with positions is in quotes, as it would be read as a position.

    Args:
        tokens: the tokens, or spans of them.
        width: most cells of a label.
        start: position of the first token.
        shown: escapes a text.
        lowered: see ``position_suffixes``.
        positions: whether labels have positions at all.
        counts: number of tokens of each span, which its label says where there is room: "didn't (3)"; empty: none do.
    """
    labels = []
    suffixes = position_suffixes(tokens, start, lowered) if positions else [""] * len(tokens)
    has_positions = any(suffixes)
    for token, suffix, n in zip(tokens, suffixes, counts or [1] * len(tokens), strict=True):
        number = count_text(n)
        room, label = width - cell_len(suffix), shown(bare(token))
        if not suffix and label.isdecimal() and has_positions:
            label = f'"{label}"'
        if number and min(cell_len(label), LEAST_COUNTED) <= room - len(number):
            room, suffix = room - len(number), suffix + number
        labels.append(cut(label, room) + suffix if room > 0 else cut(suffix, width))
    return labels


def count_text(count: int) -> str:
    """Return " (3)" after the name of a span of three tokens; "" of one."""
    return f" ({count})" if count > 1 else ""


def counts_note(labels: Iterable[tuple[str, int]]) -> str:
    """Return "(3): a word of 3 tokens", for the smallest number that a label ends with; "" if none has one.

    ``labels``: each with the number of tokens of its word, which it has no room for in some places.
    """
    least = min((n for label, n in labels if n > 1 and label.endswith(count_text(n))), default=None)
    return f"({least}): a word of {least} tokens" if least else ""


def every(n_labels: int, n_fitting: int) -> int:
    """Return the step between labels, 1, 2, 5, 10, 20, 50, …, if ``n_fitting`` of ``n_labels`` have room."""
    return next(step for step in _steps() if n_labels <= max(n_fitting, 1) * step)


def _steps() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, …"""
    for power in count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)
