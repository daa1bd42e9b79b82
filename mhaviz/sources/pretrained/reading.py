"""Texts as a model reads them, and as people do: what each token is a piece of."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError


@dataclass(frozen=True)
class Reading:
    """The tokens of a text.

    Attributes:
        ids: their numbers in the model's vocabulary.
        tokens: what stands in the text, with the blank before a word: "The", " token", "izer". Of a character that is
            spread over several tokens: "😀 1/3". Tokens that are not of the text by their names: "[CLS]".
        special: the positions of those that are not of the text.
    """

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


_NOTHING = Reading((), (), ())


def read(tokenizer: PreTrainedTokenizerBase, text: str) -> Reading:
    """A text, with the special tokens that the model expects around it. Raises ArgumentError if there is nothing."""
    encoded = tokenizer(text, return_special_tokens_mask=True, return_offsets_mapping=tokenizer.is_fast)
    ids: list[int] = encoded["input_ids"]
    special = [i for i, is_special in enumerate(encoded["special_tokens_mask"]) if is_special]
    if len(special) == len(ids):
        raise ArgumentError(f"expected a text with at least one token, got {text[:40]!r}")
    if not tokenizer.is_fast:
        return name_tokens(tokenizer, ids, special)
    names = _named(tokenizer, ids)
    spans = _spans(text, [(0, 0) if i in special else span for i, span in enumerate(encoded["offset_mapping"])])
    shown = (
        name if i in special or not span else span for i, (name, span) in enumerate(zip(names, spans, strict=True))
    )
    return Reading(tuple(ids), tuple(shown), tuple(special))


def read_without_names(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[Reading]:
    """Many texts, whose tokens nobody will look at; nothing of one that has none."""
    encoded = tokenizer(list(texts), return_special_tokens_mask=True)
    readings = []
    for ids, mask in zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
        special = tuple(i for i, is_special in enumerate(mask) if is_special)
        readings.append(Reading(tuple(ids), ("",) * len(ids), special) if len(special) < len(ids) else _NOTHING)
    return readings


def name_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], special: Sequence[int] | None = None
) -> Reading:
    """Tokens whose text is not known, such as those that a model has written; ``special``: None for all that can be."""
    ids = list(ids)
    if special is None:
        all_special = set(tokenizer.all_special_ids)
        special = [i for i, number in enumerate(ids) if number in all_special]
    return Reading(tuple(ids), tuple(_named(tokenizer, ids)), tuple(special))


def _named(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Each token as decoding all of them shows it; "\\ufffd 1/2" where bytes of a character are split."""
    names: list[str] = []
    start = 0
    while start < len(ids):
        end = start + 1
        piece = _decoded(tokenizer, ids[start:end])
        while piece.endswith("\N{REPLACEMENT CHARACTER}") and end < min(len(ids), start + 4):
            end += 1  # a character has at most four bytes
            piece = _decoded(tokenizer, ids[start:end])
        if piece.endswith("\N{REPLACEMENT CHARACTER}"):  # no character comes of it: each by itself
            end, piece = start + 1, str(tokenizer.convert_ids_to_tokens(ids[start]))
        count = end - start
        names += [piece] if count == 1 else [f"{piece} {i}/{count}" for i in range(1, count + 1)]
        start = end
    return names


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    """With the blank that a word begins with, which decoding would drop at the beginning of a text."""
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    text = str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
    begins_word = str(tokens[0]).startswith(("\N{LOWER ONE EIGHTH BLOCK}", "Ġ"))
    if str(tokens[0]).startswith("##"):
        return text.removeprefix("##")
    return text if not begins_word or text.startswith((" ", "\n")) else f" {text}"


def _spans(text: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """What stands in the text at each token, with a blank before it; "" where nothing does.

    Several tokens at one place share a character, a few bytes each.
    """
    shown: list[str] = []
    previous_end = 0
    for (start, end), group in groupby(offsets):
        tokens = list(group)
        if start == end:  # a token that is not of the text, or a blank that is cut off its own offsets
            previous_end = max(previous_end, end)
            shown += [""] * len(tokens)
            continue
        piece = text[start:end]
        if start > previous_end and text[start - 1].isspace():  # a line break too begins a word, unless it is a token
            piece = f" {piece}"
        previous_end = end
        count = len(tokens)
        shown += [piece] if count == 1 else [f"{piece} {i}/{count}" for i in range(1, count + 1)]
    return shown
