"""Observe the token ids that a program's models read."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.observe.handlers import unseen

_MOST_READ = 16
"""Number of id tensors that are kept. A program reads a few at a time."""


@dataclass(frozen=True)
class ReadIds:
    """Token ids that a program has looked up.

    Attributes:
        ids: (batch_size, length), on the program's device.
        vocabulary: number of tokens in the vocabulary.
        number: identifies the look-up.
    """

    ids: Tensor
    vocabulary: int
    number: int


class SeenInputs:
    """The token ids that were read last.

    Attributes:
        ids: the most recent last.
    """

    def __init__(self) -> None:
        self.ids: list[ReadIds] = []
        self._n_read = 0

    def read(self, ids: Tensor, vocabulary: int) -> int | None:
        """Note the ids of a look-up, and return its number; None: it is not kept."""
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if not is_plain or not 1 <= ids.ndim <= 2 or not ids.numel() or ids.is_meta:
            return None
        with unseen():  # the program may write others into them
            rows = ids.reshape(-1, ids.shape[-1]).clone()
        self._n_read += 1
        self.ids.append(ReadIds(rows, vocabulary, self._n_read))
        del self.ids[:-_MOST_READ]
        return self._n_read
