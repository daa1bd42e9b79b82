"""Pairs of sentences as padded token ids: of the source, of the target as it is read, and of the expected words."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhaviz.layer.tokens import Vocabulary
from mhaviz.training.corpus import Pair


class PairBatch:
    """Some pairs, padded to the longest.

    Attributes:
        source_ids: (batch_size, source_length).
        source_mask: hides their padding, (batch_size, 1, 1, source_length); None where there is none.
        read_ids: what the decoder reads, (batch_size, target_length + 1).
        expected_ids: what comes next after each of these, in the same shape.
    """

    def __init__(
        self, pairs: Sequence[Pair], source_words: Vocabulary, target_words: Vocabulary, device: torch.device
    ) -> None:
        self.source_ids = padded_ids([pair.source for pair in pairs], source_words, device)
        padded = len({len(pair.source) for pair in pairs}) > 1
        self.source_mask = visible_words(self.source_ids) if padded else None
        self.read_ids = padded_ids([pair.read for pair in pairs], target_words, device)
        self.expected_ids = padded_ids([pair.produced for pair in pairs], target_words, device)


def padded_ids(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, device: torch.device) -> Tensor:
    """The numbers of the sentences' words, (batch_size, length of the longest)."""
    longest = max(map(len, sentences))
    return torch.tensor([vocabulary.ids(words, longest) for words in sentences], dtype=torch.long, device=device)


def visible_words(ids: Tensor) -> Tensor:
    """The mask that hides padding, (batch_size, 1, 1, length)."""
    return (ids != Vocabulary.PADDING)[:, None, None, :]
