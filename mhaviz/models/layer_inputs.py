"""What goes into a single layer: the tokens of its sentences, and how X is made of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor, nn

from mhaviz.attention.model import Inputs
from mhaviz.errors import ArgumentError
from mhaviz.layer.masks import causal_mask, padding_mask
from mhaviz.layer.steps import Step, untraced
from mhaviz.layer.tokens import tokenize
from mhaviz.records import Kind

PIECE = 4096
"""So many tokens of a long input are embedded and projected at once."""

Side = Literal["query", "key", "value"]


class Encoder(nn.Module, ABC):
    """Makes X: what the layer projects."""

    @abstractmethod
    def forward(self, device: torch.device, step: Step = untraced) -> tuple[Tensor, Tensor, Tensor]:
        """X of the queries, of the keys and of the values of all sentences, padded, (batch_size, length, d_model)."""

    @abstractmethod
    def pieces(self, i: int, side: Side, device: torch.device) -> Iterator[Tensor]:
        """X of one sentence's queries, keys or values, one piece of (length, d_model) after the other."""


@dataclass(frozen=True)
class LayerInputs(Inputs, ABC):
    """What a single layer reads.

    Attributes:
        kind: of the attention.
        sentences, target: what was given.
    """

    kind: Kind
    sentences: tuple[str, ...]
    target: str | None

    @property
    def n_words(self) -> int:
        """How many words have embeddings."""
        return 0

    @abstractmethod
    def encoder(self, d_model: int, max_length: int) -> Encoder:
        """What makes X; ``max_length``: of what it will encode at once."""

    @property
    def lengths(self) -> tuple[list[int], list[int]]:
        """Of the queries and of the keys of each sentence."""
        sides = [text.sides(self.kind) for text in self.texts]
        return [len(queries) for queries, _ in sides], [len(keys) for _, keys in sides]

    def mask(self, device: torch.device) -> Tensor | None:
        """(batch_size or 1, 1, q_length or 1, k_length): False hides; None where nothing is hidden."""
        masks = []
        _, lengths = self.lengths
        if min(lengths) < max(lengths):
            masks.append(padding_mask(lengths, device))
        if self.kind == "masked":
            masks.append(causal_mask(max(lengths), device))
        return reduce(Tensor.logical_and, masks) if masks else None


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
