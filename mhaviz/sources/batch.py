"""What goes into a layer as one batch: the tokens of its rows and columns, and the mask that hides the padding."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mhaviz.errors import ArgumentError
from mhaviz.layer.masks import causal_mask, padding_mask
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import tokenize
from mhaviz.records import Kind

PIECE = 4096
"""So many tokens of a long input are embedded and projected at once."""


class Encoder(nn.Module, ABC):
    """Makes X of one batch: what the layer projects."""

    @abstractmethod
    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """X of the queries, of the keys and of the values, (batch_size, length, d_model)."""

    @abstractmethod
    def pieces(self, i: int, of_queries: bool, device: torch.device) -> Iterator[Tensor]:
        """X of one sentence's queries or keys, one piece of (length, d_model) after the other."""


class Batch(ABC):
    """One padded batch.

    Attributes:
        pairs: (query tokens, key tokens) of each sentence; the two are the same but for source-target attention.
        q_length, k_length: of the longest.
        kind: of the attention.
        sentences, target: what was given.
        n_words: how many words have embeddings.
    """

    sentences: tuple[str, ...] = ()
    target: str | None = None
    n_words: int = 0

    def __init__(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], kind: Kind) -> None:
        self.pairs = [(tuple(queries), tuple(keys)) for queries, keys in pairs]
        self.kind = kind
        self.q_length, self.k_length = (max(map(len, side)) for side in zip(*self.pairs, strict=True))
        self.max_length = max(self.q_length, self.k_length)

    @abstractmethod
    def encoder(self, d_model: int, max_length: int) -> Encoder:
        """What makes X of this batch; ``max_length``: of what it will encode at once."""

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
        return i if len(self.pairs) > 1 else None


def require_no_mask(causal: bool, target: str) -> None:
    """Raise ArgumentError if a causal mask is to hide the keys of another sentence than that of the queries."""
    if causal:
        raise ArgumentError(f"a causal mask is for self-attention, got {target} as well; leave one of them out")


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
