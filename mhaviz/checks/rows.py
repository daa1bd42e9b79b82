"""Rows of a tensor, and the tokens that they are made of."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Which tokens each row of a tensor is made of.

    Attributes:
        of_token: bool, (n_tokens, …), True where a row changes with a token, in any sentence.
        of_first: bool, (…), True where a row changes with sentence 0.
    """

    of_token: Tensor
    of_first: Tensor

    @property
    def axes(self) -> list[int]:
        """Axes along which the rows are the tokens of a sentence, in their order, each at least of its own token.

        Rows of no token, such as learned keys, may stand between them.
        """
        n_tokens, shape = self.of_token.shape[0], self.of_token.shape[1:]
        found = []
        for axis, size in enumerate(shape):
            if size < n_tokens:
                continue
            along = self.of_token.movedim(axis + 1, -1).reshape(n_tokens, -1, size)
            if all(self._are_in_order(along[:, place]) for place in range(along.shape[1])):
                found.append(axis)
        return found

    def _are_in_order(self, along: Tensor) -> bool:
        """Return whether the rows, (n_tokens, size), are the tokens in order, or that as often as it fits."""
        n_tokens = self.of_token.shape[0]
        made = along.any(dim=0).nonzero().flatten()
        if not len(made) or len(made) % n_tokens:
            return False
        kept, repeats = along[:, made], len(made) // n_tokens
        repeated = torch.arange(n_tokens).repeat(repeats), torch.arange(n_tokens).repeat_interleave(repeats)
        places = torch.arange(len(made))
        return any(bool(kept[order, places].all()) for order in repeated)

    @property
    def tokens(self) -> Tensor:
        """The token that each row is made of: int, (…), −1 for none or more than one."""
        number = self.of_token.int().argmax(dim=0)
        return number.masked_fill(self.of_token.sum(dim=0) != 1, -1)

    @property
    def are_single(self) -> bool:
        """Whether no row is made of more than one token."""
        return bool((self.of_token.sum(dim=0) <= 1).all())
