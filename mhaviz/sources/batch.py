"""Sentences as one batch: their words, their numbers, and the mask that hides the padding."""

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.errors import ArgumentError
from mhaviz.layer.masks import causal_mask, padding_mask
from mhaviz.layer.tokens import Vocabulary, tokenize
from mhaviz.records import Kind


class Batch:
    """Sentences as one padded batch: their words, their numbers, and the mask that hides the padding.

    Attributes:
        pairs: (query tokens, key tokens) of each sentence; the two are the same but for source-target attention.
        q_length, k_length: of the longest.
    """

    def __init__(self, sentences: Sequence[str], target: str | None, causal: bool) -> None:
        if not sentences:
            raise ArgumentError("expected at least one sentence, got none")
        if target is not None and len(sentences) > 1:
            raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")
        if target is not None and causal:
            raise ArgumentError("a causal mask is for self-attention, got a target as well; leave one of them out")
        self.sentences, self.target = tuple(sentences), target
        keys = [words_of(sentence) for sentence in sentences]
        queries = keys if target is None else [words_of(target)]
        self.pairs = [(tuple(q), tuple(k)) for q, k in zip(queries, keys, strict=True)]
        self.vocabulary = Vocabulary(keys + queries)
        self.q_length, self.k_length = max(map(len, queries)), max(map(len, keys))
        self.max_length = max(self.q_length, self.k_length)
        self.kind: Kind = "cross" if target is not None else "masked" if causal else "self"

    @cached_property
    def key_ids(self) -> Tensor:
        """(batch_size, k_length), padded."""
        return torch.tensor([self.vocabulary.ids(keys, self.k_length) for _, keys in self.pairs])

    @cached_property
    def query_ids(self) -> Tensor:
        """(batch_size, q_length), padded; ``key_ids`` itself but for source-target attention."""
        if self.target is None:
            return self.key_ids
        return torch.tensor([self.vocabulary.ids(queries) for queries, _ in self.pairs])

    def mask(self, device: torch.device) -> Tensor | None:
        """(batch_size or 1, 1, q_length or 1, k_length): False hides; None where nothing is hidden."""
        masks = []
        lengths = [len(keys) for _, keys in self.pairs]
        if min(lengths) < self.k_length:
            masks.append(padding_mask(lengths, device))
        if self.kind == "masked":
            masks.append(causal_mask(self.k_length, device))
        return reduce(Tensor.logical_and, masks) if masks else None

    def number(self, i: int) -> int | None:
        """Which of several sentences; None if there is only one."""
        return i if len(self.sentences) > 1 else None


def words_of(sentence: str) -> list[str]:
    """The words of a sentence. Raises ArgumentError if there are none."""
    words = tokenize(sentence)
    if not words:
        shown = sentence if len(sentence) <= 40 else sentence[:39] + "…"
        raise ArgumentError(f"expected a sentence with at least one word, got {shown!r}")
    return words


def visible_keys(kind: Kind, q_length: int, k_length: int) -> NDArray[np.bool_]:
    """Which keys each query of one unpadded sentence sees, (q_length, k_length)."""
    return np.tri(q_length, k_length, dtype=np.bool_) if kind == "masked" else np.ones((q_length, k_length), np.bool_)
