"""Sees the numbers of tokens that a program's models read."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.recording.looks import Look, guarded, unseen
from mhaviz.recording.marks import Marks

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
    """What was read last. ``on_error``: is told what goes wrong here.

    Attributes:
        ids: the last read last.
        n_read: how much was read.
        numbers: of what look-ups have made, those of what was read.
    """

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self.ids: list[ReadIds] = []
        self.n_read, self.numbers = 0, Marks[int]()

    def looks(self) -> dict[Any, Look]:
        """Of each function that is looked at, what runs it."""
        return {F.embedding: guarded(self._embedding, self._on_error)}

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

    def _embedding(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        ids, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if is_plain and 1 <= ids.ndim <= 2 and ids.numel() and not ids.is_meta:
            with unseen():
                rows = ids.reshape(-1, ids.shape[-1])
            self.n_read += 1
            self.ids.append(ReadIds(rows, weight.shape[0], self.n_read))
            self.numbers.set(result, self.n_read)
            del self.ids[:-_MOST_READ]
