"""The texts of probes as ids: random tokens that are repeated, and texts with a needle in them and again at the end."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from mhaviz.attention.model import CorpusModel, only_of_transformers
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.probes import Needle, Probe, RandomRepeats
from mhaviz.inputs.tokens import Sentence, Text, Tokens
from mhaviz.layer.seeding import check_seed
from mhaviz.models.transformers.model import TransformersModel
from mhaviz.models.transformers.read import ids_around, plain_ids, special_of, usual_ids

_SENTENCE_ENDS = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_BLANKS = re.compile(r"\s+")
_DRAWN = 256  # numbers drawn at a time


@dataclass(frozen=True)
class Probing:
    """Sentences that are run for a probe.

    Attributes:
        sentences: sentences with their tokens.
        needle: ids of the needle; empty: none.
        texts_apart: number of consecutive sentences that are made from one text.
    """

    sentences: Iterator[Sentence]
    needle: tuple[int, ...] = ()
    texts_apart: int = 1


def probing(model: CorpusModel, probe: Probe, texts: Iterable[Sentence]) -> Probing:
    """Return the sentences of a probe for a model.

    Args:
        model: the model.
        probe: the probe.
        texts: texts into which a needle is put.

    Raises:
        ArgumentError: the model is not of transformers, or for a needle not a decoder alone; a size is not allowed.
    """
    name = "random_repeat" if isinstance(probe, RandomRepeats) else "needle"
    if not isinstance(model, TransformersModel):
        raise only_of_transformers(name)
    if isinstance(probe, RandomRepeats):
        return Probing(_repeat_sentences(model, probe))
    kinds = {site.kind for site in model.all_sites}
    if kinds != {"masked"}:
        raise ArgumentError(
            f"{parameter(name)}: expected a model that continues a text, as GPT-2 does, got {model.loaded.name} "
            f"with attention of kind {', '.join(sorted(kinds))}"
        )
    ids = needle_ids(model.loaded.tokenizer, probe)
    return Probing(_needle_sentences(model, probe, texts), tuple(ids), len(probe.depths))


def _repeat_sentences(model: TransformersModel, probe: RandomRepeats) -> Iterator[Sentence]:
    made = random_repeats(model.loaded.tokenizer, probe.n_tokens, probe.sequences, probe.seed, model.texts.n_embeddings)
    for number, ids in enumerate(made, start=1):
        yield _sentence(model, ids, number / len(made))


def _needle_sentences(model: TransformersModel, probe: Needle, texts: Iterable[Sentence]) -> Iterator[Sentence]:
    for text in texts:
        for ids in with_needle(model.loaded.tokenizer, text.text, probe, model.max_length):
            yield _sentence(model, ids, text.done)


def _sentence(model: TransformersModel, ids: Sequence[int], done: float) -> Sentence:
    """Return ids as a sentence whose text is the ids, by which shards and resumed runs recognise it."""
    tokens = Tokens(("",) * len(ids), special_of(model.loaded.tokenizer, ids), tuple(ids))
    return Sentence(" ".join(map(str, ids)), done, Text(tokens))


def random_repeats(
    tokenizer: PreTrainedTokenizerBase, n_tokens: int, sequences: int = 32, seed: int = 0, most_ids: int | None = None
) -> list[list[int]]:
    """Return sequences of random tokens that are repeated once: x₁ … x_N x₁ … x_N.

    The tokens of one half are distinct and not special, so that each token of the second half has one earlier copy. The
    tokenizer's special tokens are around them, with at least the beginning-of-text token before them, if there is one.
    Each sequence depends only on the seed and its number. Olsson et al. 2022 (arXiv 2209.11895) define induction heads
    by their score on such sequences.

    Args:
        tokenizer: tokenizer of the model.
        n_tokens: N, the number of tokens in a half.
        sequences: number of sequences.
        seed: seed of the tokens, from 0 on.
        most_ids: number of the model's embeddings; None: one for each token that the tokenizer knows.

    Returns:
        The ids of each sequence. All have the same length.

    Raises:
        ArgumentError: a size that is not allowed, or more tokens than the vocabulary has.
    """
    check_seed(seed)
    for name, value, least in (("random_repeat", n_tokens, 2), ("sequences", sequences, 1)):
        if value < least:
            raise ArgumentError(f"{parameter(name)}: expected a number from {least} on, got {value}")
    vocabulary = usual_ids(tokenizer, most_ids)
    if n_tokens > len(vocabulary):
        raise ArgumentError(
            f"{parameter('random_repeat')}: expected at most {len(vocabulary):,} tokens, as the vocabulary has that "
            f"are not special, got {n_tokens:,}"
        )
    before, after = ids_around(tokenizer)
    halves = (_drawn(n_tokens, len(vocabulary), seed, number) for number in range(sequences))
    return [[*before, *(2 * [vocabulary[place] for place in half]), *after] for half in halves]


def _drawn(n_tokens: int, size: int, seed: int, number: int) -> list[int]:
    """Draw ``n_tokens`` distinct numbers below ``size``."""
    philox = np.random.Philox(key=np.array([seed, number], np.uint64))
    found: dict[int, None] = {}
    while len(found) < n_tokens:
        found.update(dict.fromkeys((philox.random_raw(_DRAWN) % np.uint64(size)).tolist()))
    return list(found)[:n_tokens]


def needle_ids(tokenizer: PreTrainedTokenizerBase, needle: Needle) -> list[int]:
    """Return the ids of the needle within a text. Raises ArgumentError if it has no tokens."""
    ids = plain_ids(tokenizer, f" {needle.text.strip()}")
    if not needle.text.strip() or not ids:
        raise ArgumentError(f"{parameter('needle')}: expected a text with at least one token, got an empty one")
    return ids


def with_needle(
    tokenizer: PreTrainedTokenizerBase, text: str, needle: Needle, max_length: int | None
) -> Iterator[list[int]]:
    """Yield the ids of the text with the needle, for each depth: text, needle, text, question, needle.

    The needle is put between two sentences, or between two words if there is only one sentence, at the place nearest to
    its depth. A text that is too long is cut at its end. The ids of the needle are the same everywhere.

    Args:
        tokenizer: tokenizer of the model.
        text: haystack.
        needle: needle, with its question and depths.
        max_length: largest number of tokens that the model can read; None: no limit.
    """
    inside = needle_ids(tokenizer, needle)
    question = plain_ids(tokenizer, f" {needle.question.strip()}") if needle.question.strip() else []
    before, after = ids_around(tokenizer)
    end = [*question, *inside]
    alone = len(before) + len(inside) + len(end) + len(after)
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
    """Return the text up to the last place at which it has fewer than ``room`` tokens, and the places in it.

    One token is kept free, as a text that is cut in two may have one more.
    """
    if len(plain_ids(tokenizer, text)) < room:
        return text, places
    fitting = bisect_left(places, room, key=lambda place: len(plain_ids(tokenizer, text[: place[0]])))
    last = max(fitting - 1, 0)  # the text up to the first place is empty
    end = places[last][0]
    return text[:end], [*places[:last], (end, end)]
