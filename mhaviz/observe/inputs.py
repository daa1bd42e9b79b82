"""Sees the numbers of tokens that a program's models read."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.observe.handlers import unseen

_MOST_READ = 16
"""So many tensors of numbers are kept: a program reads a few at a time."""


Read = tuple[int, int]
"""The number of a look-up, and how often tokens had been replaced by then in anything."""


@dataclass(frozen=True)
class ReadIds:
    """Numbers of tokens that a program has looked up.

    Attributes:
        ids: (batch_size, length), where the program has them.
        vocabulary: how many tokens it has.
        number: counts what was read, and what was replaced.
        replaced: bool, (batch_size or 1, length): True where a mask has put something else in place of a token since;
            None: nowhere.
    """

    ids: Tensor
    vocabulary: int
    number: Read
    replaced: Tensor | None = None


class SeenInputs:
    """What was read last.

    Attributes:
        ids: the last read last.
    """

    def __init__(self) -> None:
        self.ids: list[ReadIds] = []
        self._n_read = self._n_replaced = 0

    def read(self, ids: Tensor, vocabulary: int) -> Read | None:
        """Note what a look-up reads; the number of it, None: it is not kept."""
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
        """The numbers of the same look-ups where tokens were replaced; see ``ReadIds``."""
        for read in [read for read in self.ids if read.number in numbers]:
            every = replaced if read.replaced is None else read.replaced | replaced
            if read.replaced is not None and torch.equal(every, read.replaced):  # as padding is in each layer
                continue
            self._n_replaced += 1
            number = read.number[0], self._n_replaced
            self.ids.append(dataclasses.replace(read, number=number, replaced=every))
            numbers = numbers - {read.number} | {number}
        del self.ids[:-_MOST_READ]
        return numbers
