"""Sees what a program's models read: the numbers of tokens, and into how many patches an image is cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.recording.looks import Follow, Look, guarded, unseen

_MOST_EXTRA = 8
"""So many tokens of an image may be no patches: [CLS], a token of distillation, registers."""

_MOST_READ = 16
"""So many tensors of numbers are kept: a program reads a few at a time."""


@dataclass(frozen=True)
class ReadIds:
    """Numbers of tokens that a program has looked up.

    Attributes:
        ids: (batch_size, length), where the program has them.
        vocabulary: how many tokens it has.
        number: counts what was read.
        n_attentions: how many attentions had run before.
    """

    ids: Tensor
    vocabulary: int
    number: int
    n_attentions: int


class SeenInputs:
    """What was read last. ``on_error``: is told what goes wrong here.

    Attributes:
        ids: the last read last.
        n_read: how much was read.
        n_attentions: how many attentions have run.
    """

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self.ids: list[ReadIds] = []
        self.n_read = self.n_attentions = 0
        self._grids: dict[int, tuple[int, int, int]] = {}

    def looks(self) -> dict[Any, Look]:
        """Of each function that is looked at, what runs it."""
        convolutions = dict.fromkeys((F.conv2d, torch.conv2d), self._look(self._conv2d))
        return {F.embedding: self._look(self._embedding), **convolutions}

    def _look(self, follow: Follow) -> Look:
        return guarded(follow, self._on_error)

    def grid_of(self, length: int) -> tuple[tuple[int, int, int], int] | None:
        """Of an image that was read as so many tokens: rows and columns of its patches and how many tokens are none;
        and the number of what was read, see ``ReadIds``."""
        for rows, columns, number in reversed(self._grids.values()):
            extra = length - rows * columns
            if 0 <= extra <= _MOST_EXTRA:
                return (rows, columns, extra), number
        return None

    def _embedding(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        ids, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if is_plain and 1 <= ids.ndim <= 2 and ids.numel() and not ids.is_meta:
            with unseen():
                rows = ids.reshape(-1, ids.shape[-1])
            self.n_read += 1
            self.ids.append(ReadIds(rows, weight.shape[0], self.n_read, self.n_attentions))
            del self.ids[:-_MOST_READ]

    def _conv2d(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """A convolution whose steps are as wide as its kernel cuts an image into patches."""
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        stride = args[3] if len(args) > 3 else kwargs.get("stride", 1)
        steps = tuple(stride) if isinstance(stride, list | tuple) else (stride, stride)
        if isinstance(weight, Tensor) and isinstance(result, Tensor) and result.ndim == 4:
            kernel = tuple(weight.shape[2:])
            if kernel == steps and kernel != (1, 1):
                rows, columns = result.shape[2:]
                self._grids.pop(rows * columns, None)
                self.n_read += 1
                self._grids[rows * columns] = rows, columns, self.n_read
                if len(self._grids) > _MOST_READ:
                    del self._grids[next(iter(self._grids))]
