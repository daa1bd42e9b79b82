"""Makes tokens of texts, with a readable label for each: the piece of the text that it stands for."""

import unicodedata
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, as_one_line
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.growth import require_room
from mhaviz.models.transformers.silence import silence

_P = ParamSpec("_P")
_R = TypeVar("_R")


_NOTHING = Tokens(())

_BLANKS = "\N{LOWER ONE EIGHTH BLOCK}Ġ"
"""How pieces of SentencePiece and of byte-level BPE write a blank."""

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What bytes that are no whole character are decoded to."""

_MOST_BYTES = 8
"""Of two characters of UTF-8, which a token may join."""


def asks_the_tokenizer(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make one line of whatever a tokenizer raises: its files may hold anything, and its Rust panics.

    All that is asked of a tokenizer, after it was loaded, is asked by a function of this kind.
    """

    @wraps(function)
    def asking(*arguments: _P.args, **options: _P.kwargs) -> _R:
        with silence(2), as_one_line("the model's tokenizer cannot read this", "take another copy of its files"):
            return function(*arguments, **options)

    return asking


@asks_the_tokenizer
def read(tokenizer: PreTrainedTokenizerBase, text: str, as_target: bool = False) -> Tokens:
    """A text, with the special tokens that the model expects around it. Raises ArgumentError if there is nothing.

    Each token is called what stands in the text, with the blank before a word: "The", " token", "izer". Of a character
    that is spread over several tokens: "😀 1/3". Of what the model does not know: "😀 [UNK]". Tokens that are not of
    the text by their names: "[CLS]".

    ``as_target``: as what a decoder should make, which some models mark by another language's token.
    """
    text = encodable(tokenizer, text)
    encoded = tokenizer(
        **{"text_target" if as_target else "text": text},
        return_special_tokens_mask=True,
        return_offsets_mapping=tokenizer.is_fast,
    )
    ids: list[int] = encoded["input_ids"]
    special = [i for i, is_special in enumerate(encoded["special_tokens_mask"]) if is_special]
    if len(special) == len(ids):
        raise no_token(text)
    if not tokenizer.is_fast:
        return name_tokens(tokenizer, ids, special)
    return Tokens(
        tuple(pieces_shown(tokenizer, text, ids, encoded["offset_mapping"], special)), tuple(special), tuple(ids)
    )


@asks_the_tokenizer
def read_without_names(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Tokens]:
    """Many texts, whose tokens nobody will look at; nothing of one that has none."""
    readings: list[Tokens] = []
    if not texts:
        return readings
    encoded = tokenizer([encodable(tokenizer, text) for text in texts], return_special_tokens_mask=True)
    for ids, mask in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
        special = tuple(i for i, is_special in enumerate(mask) if is_special)
        readings.append(Tokens(("",) * len(ids), special, tuple(ids)) if len(special) < len(ids) else _NOTHING)
    return readings


@asks_the_tokenizer
def name_tokens(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], special: Sequence[int] | None = None) -> Tokens:
    """Tokens whose text is not known, such as those that a model has written; ``special``: None for all that can be."""
    ids = list(ids)
    names = named(tokenizer, ids)
    if inside := _inside(tokenizer):
        is_inside = [_own_name(tokenizer, number).startswith(inside) for number in ids]
        names = [
            f" {name}" if _is_word(name) and not inner else name for name, inner in zip(names, is_inside, strict=True)
        ]
    return Tokens(tuple(names), special_of(tokenizer, ids) if special is None else tuple(special), tuple(ids))


@asks_the_tokenizer
def usual_ids(tokenizer: PreTrainedTokenizerBase, most: int | None) -> list[int]:
    """Tokens with numbers below ``most`` that are not special, or all such; at least one."""
    special = set(tokenizer.all_special_ids)
    return [i for i in range(len(tokenizer))[:most] if i not in special] or [0]


@asks_the_tokenizer
def vocabulary(tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, int]]:
    """All tokens with their numbers, in the order of the tokens."""
    return sorted(tokenizer.get_vocab().items())


@asks_the_tokenizer
def plain_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a text, and none around it."""
    ids: list[int] = tokenizer(encodable(tokenizer, text), add_special_tokens=False)["input_ids"]
    return ids


@asks_the_tokenizer
def ids_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text; before it at least the token that begins one, if there is such.

    GPT-2 has such a token, and puts it before no text by itself.
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids: list[int] = encoded["input_ids"]
    of_text = [i for i, is_special in enumerate(encoded["special_tokens_mask"]) if not is_special]
    first, last = (of_text[0], of_text[-1] + 1) if of_text else (len(ids), len(ids))
    begin = tokenizer.bos_token_id
    return ids[:first] or ([begin] if isinstance(begin, int) else []), ids[last:]


@asks_the_tokenizer
def id_of(tokenizer: PreTrainedTokenizerBase, role: str) -> int | None:
    """The number of its token for this, such as "pad_token_id"; None: it has no such token."""
    number = getattr(tokenizer, role, None)
    return number if isinstance(number, int) else None


@asks_the_tokenizer
def special_of(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[int, ...]:
    """The positions of special tokens; one that stands for unknown text is of the text, unless it means more."""
    special = set(tokenizer.all_special_ids)
    others = {name for role, name in tokenizer.special_tokens_map.items() if role != "unk_token"}
    if tokenizer.unk_token not in others:
        special.discard(tokenizer.unk_token_id)
    return tuple(i for i, number in enumerate(ids) if number in special)


def no_token(text: str) -> ArgumentError:
    """Of a text that a tokenizer makes nothing of."""
    return ArgumentError(f"expected a text with at least one token, got {text[:40]!r}")


def encodable(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """Without lone surrogates, such as a command line's bytes that are no UTF-8: no tokenizer can take them.

    Raises MhavizError for a text that the tokenizer may make too long.
    """
    require_room(tokenizer, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _inside(tokenizer: PreTrainedTokenizerBase) -> str:
    """How WordPiece marks a piece that begins no word; nothing for others."""
    model = tokenizer.backend_tokenizer.model if tokenizer.is_fast else None
    return str(model.continuing_subword_prefix) if isinstance(model, WordPiece) else ""


def _is_word(name: str) -> bool:
    """Whether WordPiece has found a blank before it, or may have: ideographs and punctuation it splits without."""
    return name[0].isalnum() and not unicodedata.name(name[0], "").startswith("CJK")


def named(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Labels of tokens whose text is not known, without the blank before a word of WordPiece."""
    return _labels(_pieces(tokenizer, ids))


def _labels(pieces: Sequence[tuple[str, int]]) -> list[str]:
    """Of each token; "😀 1/2" where one piece is made by several."""
    return [piece if count == 1 else f"{piece} {i}/{count}" for piece, count in pieces for i in range(1, count + 1)]


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[tuple[str, int]]:
    """What decoding shows, and by how many tokens: several where each has bytes of a character."""
    pieces: list[tuple[str, int]] = []
    start = 0
    while start < len(ids):
        end = start + 1
        piece = _decoded(tokenizer, ids[start:end])
        while piece.endswith(_UNFINISHED) and end < min(len(ids), start + _MOST_BYTES):
            end += 1
            piece = _decoded(tokenizer, ids[start:end])
        if not piece or _UNFINISHED in piece:  # no character comes of it: the token by itself
            end = start + 1
            piece = _own_name(tokenizer, ids[start])
        pieces.append((piece, end - start))
        start = end
    return pieces


def _own_name(tokenizer: PreTrainedTokenizerBase, number: int) -> str:
    """As the vocabulary has it; some have fewer tokens than their models have embeddings."""
    return str(tokenizer.convert_ids_to_tokens([number])[0] or f"#{number}")


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """With the blanks that a piece begins with, which decoding would drop at the beginning of a text."""
    first = _own_name(tokenizer, ids[0])
    text = str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
    if (inside := _inside(tokenizer)) and first.startswith(inside):
        return text.removeprefix(inside)
    blanks = len(first) - len(first.lstrip(_BLANKS))
    if not blanks or text.startswith(tuple(_BLANKS)):  # as letters: Ġ is one of Maltese
        return text
    return " " * blanks + text.lstrip(" ")


def pieces_shown(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    special: Sequence[int],
) -> list[str]:
    """What stands in the text at each token, with a blank before it; what decoding shows where that is shared."""
    apart = {*special, *(i for i, number in enumerate(ids) if _is_blank(tokenizer, number))}
    begun = {start for start, end in offsets if start < end}
    shown: list[str] = []
    reached = first = 0
    while first < len(ids):
        start, end = offsets[first]
        last = first + 1
        if first in apart:
            shown += named(tokenizer, ids[first:last])
            if not text[start:end].strip():  # a blank, and not what stands for the one before a text
                reached = max(reached, end)
            first = last
            continue
        while last < len(ids) and last not in apart and _meet((start, end), offsets[last]):
            end = max(end, offsets[last][1])
            last += 1
        while start < end < len(text) and end not in begun and unicodedata.category(text[end]).startswith("M"):
            end += 1  # an accent that a normalizer has joined to its letter, or left out
        pieces = _pieces_at(tokenizer, text, ids[first:last], [*offsets[first : last - 1], (offsets[last - 1][0], end)])
        if start > reached and text[start - 1].isspace():  # a line break too begins a word, unless it is a token
            pieces[0] = (" " + pieces[0][0].removeprefix(" "), pieces[0][1])
        shown += _labels(pieces)
        reached, first = max(reached, end), last
    return shown


def _is_blank(tokenizer: PreTrainedTokenizerBase, number: int) -> bool:
    """Whether a token is nothing but blanks; its place in the text may be that of the word after it."""
    return not _own_name(tokenizer, number).strip(_BLANKS) and not _decoded(tokenizer, [number]).strip(" ")


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two tokens, one after the other, share a character; those that have lost their place to trimming may."""
    return b[0] < a[1] if b[0] < b[1] else a[0] == a[1]


def _pieces_at(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]
) -> list[tuple[str, int]]:
    """Of tokens that share a place in the text."""
    place = text[offsets[0][0] : max(end for _, end in offsets)]
    if len(ids) == 1 and place:
        return [(_marked(tokenizer, place, ids[0]), 1)]
    pieces = _pieces(tokenizer, ids)
    if place and (len(pieces) == 1 or set(place) == {_UNFINISHED}):
        return [(place, len(ids))]
    if len(pieces) < len(ids):
        return pieces
    unknown = _unknown(tokenizer)
    return [
        (_marked(tokenizer, text[start:end], number) if _own_name(tokenizer, number) == unknown else piece, 1)
        for (piece, _), number, (start, end) in zip(pieces, ids, offsets, strict=True)
    ]


def _marked(tokenizer: PreTrainedTokenizerBase, place: str, number: int) -> str:
    """What stands in the text, and whether the model has not seen it."""
    unknown = _unknown(tokenizer)
    if _own_name(tokenizer, number) != unknown or unknown == place.strip():
        return place
    return f"{place} {unknown}".removeprefix(" " * (not place))


def _unknown(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """What stands for text that it does not know: its files may say so of their vocabulary alone."""
    return tokenizer.unk_token or getattr(tokenizer.backend_tokenizer.model, "unk_token", None)
