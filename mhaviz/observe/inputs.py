"""Observe the token ids that a program's models read."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.observe.handlers import unseen

_MOST_READ = 16
"""Number of id tensors that are kept. A program reads a few at a time."""


Read = tuple[int, int]
"""Number of a look-up, and the count of all replacements when tokens of it were last replaced; 0: never."""


@dataclass(frozen=True)
class ReadIds:
    """Token ids that a program has looked up.

    Attributes:
        ids: (batch_size, length), on the program's device.
        vocabulary: number of tokens in the vocabulary.
        number: identifies the look-up and its replacements.
        replaced: bool, (batch_size or 1, length): True where a mask has since put something else in a token's place;
            None: nowhere.
    """

    ids: Tensor
    vocabulary: int
    number: Read
    replaced: Tensor | None = None


class SeenInputs:
    """The token ids that were read last.

    Attributes:
        ids: the most recent last.
    """

    def __init__(self) -> None:
        self.ids: list[ReadIds] = []
        self._n_read = self._n_replaced = 0

    def read(self, ids: Tensor, vocabulary: int) -> Read | None:
        """Note the ids of a look-up, and return its number; None: it is not kept."""
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if not is_plain or not 1 <= ids.ndim <= 2 or not ids.numel() or ids.is_meta:
            return None
        with unseen():
            rows = ids.reshape(-1, ids.shape[-1])
        self._n_read += 1
        self.ids.append(ReadIds(rows, vocabulary, (self._n_read, 0)))
        del self.ids[:-_MOST_READ]
        return self._n_read, 0

    def replace(self, numbers: frozenset[Read], replaced: Tensor) -> frozenset[Read]:
        """Note where tokens of these look-ups were replaced, and return their new numbers; see ``ReadIds``."""
        for read in [read for read in self.ids if read.number in numbers]:
            every = replaced if read.replaced is None else read.replaced | replaced
            if read.replaced is not None and torch.equal(every, read.replaced):  # padding is replaced in each layer
                continue
            self._n_replaced += 1
            number = read.number[0], self._n_replaced
            self.ids.append(dataclasses.replace(read, number=number, replaced=every))
            numbers = numbers - {read.number} | {number}
        del self.ids[:-_MOST_READ]
        return numbers
