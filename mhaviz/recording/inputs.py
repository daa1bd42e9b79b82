"""Sees the numbers of tokens that a program's models read."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.recording.looks import unseen

_MOST_READ = 16
"""So many tensors of numbers are kept: a program reads a few at a time."""


@dataclass(frozen=True)
class ReadIds:
    """Numbers of tokens that a program has looked up.

    Attributes:
        ids: (batch_size, length), where the program has them.
        vocabulary: how many tokens it has.
        number: counts what was read.
        replaced: bool, (batch_size or 1, length): True where a mask has put something else in place of a token since;
            None: nowhere.
    """

    ids: Tensor
    vocabulary: int
    number: int
    replaced: Tensor | None = None


class SeenInputs:
    """What was read last.

    Attributes:
        ids: the last read last.
        n_read: how much was read.
    """

    def __init__(self) -> None:
        self.ids: list[ReadIds] = []
        self.n_read = 0

    def read(self, ids: Tensor, vocabulary: int) -> int | None:
        """Note what a look-up reads; the number of it, None: it is not kept."""
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if not is_plain or not 1 <= ids.ndim <= 2 or not ids.numel() or ids.is_meta:
            return None
        with unseen():
            rows = ids.reshape(-1, ids.shape[-1])
        self.n_read += 1
        self.ids.append(ReadIds(rows, vocabulary, self.n_read))
        del self.ids[:-_MOST_READ]
        return self.n_read

    def replace(self, numbers: frozenset[int], replaced: Tensor) -> frozenset[int]:
        """The numbers of the same look-ups where tokens were replaced; see ``ReadIds``."""
        for read in [read for read in self.ids if read.number in numbers]:
            every = replaced if read.replaced is None else read.replaced | replaced
            if read.replaced is not None and torch.equal(every, read.replaced):  # as padding is in each layer
                continue
            self.n_read += 1
            self.ids.append(dataclasses.replace(read, number=self.n_read, replaced=every))
            numbers = numbers - {read.number} | {self.n_read}
        del self.ids[:-_MOST_READ]
        return numbers
