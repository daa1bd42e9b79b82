"""Tokenization of texts, with a readable label for each token: the piece of the text that it stands for."""

import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from tokenizers.models import WordPiece
from transformers import BatchEncoding, PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, as_one_line
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.spans import continued_words
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.growth import require_room
from mhaviz.models.transformers.silence import silence

_P = ParamSpec("_P")
_R = TypeVar("_R")


_NOTHING = Tokens(())

_BLANKS = "\N{LOWER ONE EIGHTH BLOCK}Ġ"
"""Characters for a blank in the vocabularies of SentencePiece and of byte-level BPE."""

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""Decoding of bytes that are not a whole character."""

_MOST_BYTES = 8
"""Most tokens that are decoded together: the bytes of two UTF-8 characters, which one token may join."""


class Cut(NamedTuple):
    """How a tokenizer has cut a text into tokens, which tells where blanks and words are.

    Attributes:
        offsets: start and end of each token in the text.
        words: number of each token's word; None: it is in none.
    """

    offsets: Sequence[tuple[int, int]]
    words: Sequence[int | None]


def asks_the_tokenizer(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function that calls a tokenizer: turn any exception, or panic in Rust, into an error of one line.

    All calls of a loaded tokenizer are in such functions, as its files may hold anything.
    """

    @wraps(function)
    def asking(*arguments: _P.args, **options: _P.kwargs) -> _R:
        with silence(2), as_one_line("the model's tokenizer cannot read this", "take another copy of its files"):
            return function(*arguments, **options)

    return asking


@asks_the_tokenizer
def read(tokenizer: PreTrainedTokenizerBase, text: str, as_target: bool = False) -> Tokens:
    """Tokenize a text, and add the special tokens that the model expects.

    The label of a token is its piece of the text, with the blank before a word: "The", " token", "izer". If several
    tokens share a character, each is numbered: "😀 1/3". A piece that the vocabulary lacks is marked: "😀 [UNK]".
    Special tokens have their names: "[CLS]". They are those that the tokenizer adds, and those of its vocabulary that
    stand in the text, such as the markers of a chat.

    ``as_target``: read the text as a target of the decoder, which some models mark by the token of another language.

    Raises:
        ArgumentError: the text has no tokens.
    """
    text = encodable(tokenizer, text)
    encoded = tokenizer(
        **{"text_target" if as_target else "text": text},
        return_special_tokens_mask=True,
        return_offsets_mapping=tokenizer.is_fast,
    )
    ids: list[int] = encoded["input_ids"]
    if all(encoded["special_tokens_mask"]):
        raise no_token(text)
    special = _special(ids, encoded["special_tokens_mask"], special_ids(tokenizer))
    if not tokenizer.is_fast:
        return name_tokens(tokenizer, ids, special)
    labels = pieces_shown(tokenizer, text, ids, encoded["offset_mapping"], special)
    passage = Passage.given(text, encoded["offset_mapping"])
    return with_words(Tokens(tuple(labels), special, tuple(ids), passage=passage), encoded)


def with_words(tokens: Tokens, encoded: BatchEncoding) -> Tokens:
    """Return the tokens of a text with what the tokenizer tells of its words."""
    return replace(tokens, continued=continued_words(tokens, encoded.word_ids(0)))


@asks_the_tokenizer
def read_without_names(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Tokens]:
    """Tokenize many texts, with empty labels. A text that has only special tokens gives empty ``Tokens``."""
    readings: list[Tokens] = []
    if not texts:
        return readings
    encoded = tokenizer([encodable(tokenizer, text) for text in texts], return_special_tokens_mask=True)
    known = special_ids(tokenizer)
    for ids, mask in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
        special = _special(ids, mask, known)
        readings.append(Tokens(("",) * len(ids), special, tuple(ids)) if len(special) < len(ids) else _NOTHING)
    return readings


@asks_the_tokenizer
def name_tokens(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[int],
    special: Sequence[int] | None = None,
    cut: Cut | None = None,
) -> Tokens:
    """Return tokens with labels from their ids, such as generated ones.

    Args:
        tokenizer: the tokenizer.
        ids: the ids.
        special: positions of special tokens; None: of all ids that are special in the vocabulary.
        cut: how it has cut a text into these ids; None: not known.
    """
    ids = list(ids)
    names = named(tokenizer, ids)
    special = special_of(tokenizer, ids) if special is None else tuple(special)
    if inside := _inside(tokenizer):
        if cut is None:
            begins = [
                _is_word(name) and not _own_name(tokenizer, number).startswith(inside)
                for name, number in zip(names, ids, strict=True)
            ]
        else:
            ends = [0, *(end for _, end in cut.offsets[:-1])]
            begins = [start > end for (start, _), end in zip(cut.offsets, ends, strict=True)]
        names = [f" {name}" if begin else name for name, begin in zip(names, begins, strict=True)]
    tokens = Tokens(tuple(names), special, tuple(ids))
    return tokens if cut is None else replace(tokens, continued=continued_words(tokens, cut.words))


@asks_the_tokenizer
def usual_ids(tokenizer: PreTrainedTokenizerBase, most: int | None) -> list[int]:
    """Return the ids below ``most`` that are not special; None: all of them. At least one id is returned."""
    special = special_ids(tokenizer) | set(tokenizer.all_special_ids)  # the unknown token is not usual, either
    return [i for i in range(len(tokenizer))[:most] if i not in special] or [0]


@asks_the_tokenizer
def vocabulary(tokenizer: PreTrainedTokenizerBase) -> list[tuple[str, int]]:
    """Return all tokens with their ids, sorted by token."""
    return sorted(tokenizer.get_vocab().items())


@asks_the_tokenizer
def plain_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a text without special tokens around it."""
    ids: list[int] = tokenizer(encodable(tokenizer, text), add_special_tokens=False)["input_ids"]
    return ids


@asks_the_tokenizer
def ids_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after a text.

    If the tokenizer puts none before a text, the beginning-of-text token is used, which GPT-2 has but does not add.
    """
    encoded = tokenizer(encodable(tokenizer, "a"), return_special_tokens_mask=True)
    ids: list[int] = encoded["input_ids"]
    of_text = [i for i, is_special in enumerate(encoded["special_tokens_mask"]) if not is_special]
    first, last = (of_text[0], of_text[-1] + 1) if of_text else (len(ids), len(ids))
    begin = tokenizer.bos_token_id
    return ids[:first] or ([begin] if isinstance(begin, int) else []), ids[last:]


@asks_the_tokenizer
def id_of(tokenizer: PreTrainedTokenizerBase, role: str) -> int | None:
    """Return the id of the tokenizer's token with this role, such as "pad_token_id"; None: it has none."""
    number = getattr(tokenizer, role, None)
    return number if isinstance(number, int) else None


@asks_the_tokenizer
def special_of(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the positions of special tokens; see ``special_ids``."""
    return _special(ids, (0,) * len(ids), special_ids(tokenizer))


@asks_the_tokenizer
def special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of special tokens: those with a role, and those that the vocabulary's files call special.

    Markers of a chat often have no role. The unknown token is not special, unless it has another role, too.
    """
    special = set(tokenizer.all_special_ids)
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special.update(number for number, token in added.items() if token.special)
    others = {name for role, name in tokenizer.special_tokens_map.items() if role != "unk_token"}
    if tokenizer.unk_token not in others:
        special.discard(tokenizer.unk_token_id)
    return frozenset(special)


def _special(ids: Sequence[int], is_added: Sequence[int], known: Collection[int]) -> tuple[int, ...]:
    """Return the positions of special tokens: those that were added to a text, and those whose ids are ``known``."""
    return tuple(i for i, number in enumerate(ids) if is_added[i] or number in known)


def no_token(text: str) -> ArgumentError:
    """Return the error for a text without tokens."""
    return ArgumentError(f"expected a text with at least one token, got {text[:40]!r}")


def encodable(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """Return a text ``without_surrogates``, as tokenizers raise errors for them.

    Raises:
        MhavizError: the tokenizer may make the text too long for the memory.
    """
    require_room(tokenizer, text)
    return without_surrogates(text)


def without_surrogates(text: str) -> str:
    """Return a text with its lone surrogates replaced. A command line has such for bytes that are not UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _inside(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return WordPiece's prefix of pieces within a word, "##"; empty for other tokenizers."""
    model = tokenizer.backend_tokenizer.model if tokenizer.is_fast else None
    return str(model.continuing_subword_prefix) if isinstance(model, WordPiece) else ""


def _is_word(name: str) -> bool:
    """Return whether a piece of WordPiece may have a blank before it. Ideographs and punctuation are split without."""
    return name[0].isalnum() and not unicodedata.name(name[0], "").startswith("CJK")


def named(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Return labels of tokens from their ids alone, without the blank before a word of WordPiece."""
    return _labels(_pieces(tokenizer, ids))


def _labels(pieces: Sequence[tuple[str, int]]) -> list[str]:
    """Return the label of each token; "😀 1/2" and so on where several share a piece."""
    return [piece if count == 1 else f"{piece} {i}/{count}" for piece, count in pieces for i in range(1, count + 1)]


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[tuple[str, int]]:
    """Return the decoded pieces, each with its number of tokens, which is above 1 if they share a character's bytes."""
    pieces: list[tuple[str, int]] = []
    start = 0
    while start < len(ids):
        end = start + 1
        piece = _decoded(tokenizer, ids[start:end])
        while piece.endswith(_UNFINISHED) and end < min(len(ids), start + _MOST_BYTES):
            end += 1
            piece = _decoded(tokenizer, ids[start:end])
        if not piece or _UNFINISHED in piece:  # no whole character: use the token's own name
            end = start + 1
            piece = _own_name(tokenizer, ids[start])
        pieces.append((piece, end - start))
        start = end
    return pieces


def _own_name(tokenizer: PreTrainedTokenizerBase, number: int) -> str:
    """Return the token's name in the vocabulary, or "#" and its id: models may have more embeddings than tokens."""
    return str(tokenizer.convert_ids_to_tokens([number])[0] or f"#{number}")


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """Decode ids, with the blanks at the beginning, which tokenizers drop at the beginning of a text."""
    first = _own_name(tokenizer, ids[0])
    text = str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
    if (inside := _inside(tokenizer)) and first.startswith(inside):
        return text.removeprefix(inside)
    blanks = len(first) - len(first.lstrip(_BLANKS))
    if not blanks or text.startswith(tuple(_BLANKS)):  # as a letter: Ġ is one in Maltese
        return text
    return " " * blanks + text.lstrip(" ")


def pieces_shown(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    special: Sequence[int],
) -> list[str]:
    """Return the label of each token: its piece of the text, with the blank before a word.

    Tokens that share characters of the text are labelled by decoding.

    Args:
        tokenizer: the tokenizer.
        text: the text.
        ids: ids of the tokens.
        offsets: start and end of each token in the text.
        special: positions of special tokens.
    """
    apart = {*special, *(i for i, number in enumerate(ids) if _is_blank(tokenizer, number))}
    begun = {start for start, end in offsets if start < end}
    shown: list[str] = []
    reached = first = 0
    while first < len(ids):
        start, end = offsets[first]
        last = first + 1
        if first in apart:
            shown += named(tokenizer, ids[first:last])
            if not text[start:end].strip():  # a blank of the text, and not one that the tokenizer puts before it
                reached = max(reached, end)
            first = last
            continue
        while last < len(ids) and last not in apart and _meet((start, end), offsets[last]):
            end = max(end, offsets[last][1])
            last += 1
        while start < end < len(text) and end not in begun and unicodedata.category(text[end]).startswith("M"):
            end += 1  # an accent that a normalizer has joined to its letter, or dropped
        pieces = _pieces_at(tokenizer, text, ids[first:last], [*offsets[first : last - 1], (offsets[last - 1][0], end)])
        if start > reached and text[start - 1].isspace():  # also a line break, unless it is a token of its own
            pieces[0] = (" " + pieces[0][0].removeprefix(" "), pieces[0][1])
        shown += _labels(pieces)
        reached, first = max(reached, end), last
    return shown


def _is_blank(tokenizer: PreTrainedTokenizerBase, number: int) -> bool:
    """Return whether a token is only blanks. Its offsets may be those of the word after it."""
    return not _own_name(tokenizer, number).strip(_BLANKS) and not _decoded(tokenizer, [number]).strip(" ")


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Return whether two consecutive tokens share a character, or may, as trimming has emptied the second's offsets."""
    return b[0] < a[1] if b[0] < b[1] else a[0] == a[1]


def _pieces_at(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]
) -> list[tuple[str, int]]:
    """Return the pieces of tokens that share a place in the text, each with its number of tokens."""
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
    """Return the text at a token, followed by the unknown token's name if this is one."""
    unknown = _unknown(tokenizer)
    if _own_name(tokenizer, number) != unknown or unknown == place.strip():
        return place
    return f"{place} {unknown}".removeprefix(" " * (not place))


def _unknown(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the name of the unknown token; None: there is none. Some files define it only in the vocabulary."""
    return tokenizer.unk_token or getattr(tokenizer.backend_tokenizer.model, "unk_token", None)
