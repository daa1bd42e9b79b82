"""The texts of probes, as ids: random tokens that are repeated, and a needle in a text, and at its end once more."""

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
_DRAWN = 256  # at a time


@dataclass(frozen=True)
class Probing:
    """What is run for a probe.

    Attributes:
        sentences: one after the other, with their tokens.
        needle: ids of the needle, if there is one.
        texts_apart: so many sentences, one after the other, are made of the same text.
    """

    sentences: Iterator[Sentence]
    needle: tuple[int, ...] = ()
    texts_apart: int = 1


def probing(model: CorpusModel, probe: Probe, texts: Iterable[Sentence]) -> Probing:
    """Find what is to be run.

    Args:
        model: whose heads are looked for.
        probe: what its texts are made for.
        texts: what a needle is put into.

    Raises:
        ArgumentError: a model that is not of transformers, or that the probe says nothing of; sizes that cannot be.
    """
    name = "random_repeat" if isinstance(probe, RandomRepeats) else "needle"
    if not isinstance(model, TransformersModel):
        raise only_of_transformers(name)
    if isinstance(probe, RandomRepeats):
        return Probing(_of_repeats(model, probe))
    kinds = {site.kind for site in model.all_sites}
    if kinds != {"masked"}:
        raise ArgumentError(
            f"{parameter(name)}: expected a model that writes on after a text, as GPT-2 does, got {model.loaded.name} "
            f"with attention of kind {', '.join(sorted(kinds))}"
        )
    ids = needle_ids(model.loaded.tokenizer, probe)
    return Probing(_of_needles(model, probe, texts), tuple(ids), len(probe.depths))


def _of_repeats(model: TransformersModel, probe: RandomRepeats) -> Iterator[Sentence]:
    made = random_repeats(model.loaded.tokenizer, probe.n_tokens, probe.sequences, probe.seed, model.texts.n_embeddings)
    for number, ids in enumerate(made, start=1):
        yield _sentence(model, ids, number / len(made))


def _of_needles(model: TransformersModel, probe: Needle, texts: Iterable[Sentence]) -> Iterator[Sentence]:
    for text in texts:
        for ids in with_needle(model.loaded.tokenizer, text.text, probe, model.max_length):
            yield _sentence(model, ids, text.done)


def _sentence(model: TransformersModel, ids: Sequence[int], done: float) -> Sentence:
    """Tokens, and as their text their numbers, which a shard and a resumed run know it by."""
    tokens = Tokens(("",) * len(ids), special_of(model.loaded.tokenizer, ids), tuple(ids))
    return Sentence(" ".join(map(str, ids)), done, Text(tokens))


def random_repeats(
    tokenizer: PreTrainedTokenizerBase, n_tokens: int, sequences: int = 32, seed: int = 0, most_ids: int | None = None
) -> list[list[int]]:
    """Sequences of random tokens, each of which is repeated once: x₁ … x_N x₁ … x_N.

    The tokens of a half differ from each other, so that each of the second half has one earlier copy; none is special.
    Around them stands what the tokenizer puts around a text, and before them at least the token that begins a text, if
    there is one. Each sequence depends on the seed and its number alone. Source: Olsson et al. 2022 (arXiv 2209.11895),
    where a head's score on such sequences says whether it is an induction head.

    Args:
        tokenizer: the model's own.
        n_tokens: N, of a half.
        sequences: how many.
        seed: of the tokens, from 0 on.
        most_ids: the model has embeddings for so many; None: for all that the tokenizer knows.

    Returns:
        The ids of each, all equally long.

    Raises:
        ArgumentError: sizes that cannot be, or more tokens than there are in the vocabulary.
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
    """So many numbers below ``size``, none of them twice."""
    philox = np.random.Philox(key=np.array([seed, number], np.uint64))
    found: dict[int, None] = {}
    while len(found) < n_tokens:
        found.update(dict.fromkeys((philox.random_raw(_DRAWN) % np.uint64(size)).tolist()))
    return list(found)[:n_tokens]


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
    """The text up to the last place at which it still has room, and the places in it.

    One token is spared, as a text that is cut in two may have one more.
    """
    if len(plain_ids(tokenizer, text)) < room:
        return text, places
    fitting = bisect_left(places, room, key=lambda place: len(plain_ids(tokenizer, text[: place[0]])))
    last = max(fitting - 1, 0)  # the text up to the first of them is empty
    end = places[last][0]
    return text[:end], [*places[:last], (end, end)]
