"""Random tokens, repeated: the setting in which induction heads are defined."""

import numpy as np
from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, parameter
from mhaviz.layer.seeding import check_seed
from mhaviz.models.pretrained.reading import ids_around, usual_ids

_DRAWN = 256  # at a time
_MOST_IDS = 2**31


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
    vocabulary = usual_ids(tokenizer, _MOST_IDS if most_ids is None else most_ids)
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
