"""Zeroes the output of single heads while a program's attention runs, before it is projected.

What the head has made of its values is as if its weights had been zero; the program goes on with that.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mhaviz.observe.handlers import unseen

Zero = Callable[[Sequence[int]], None]
"""Sets what heads of these numbers have made of their values to 0, in the tensor with which the program goes on."""

Arrange = Callable[[Tensor], Tensor]
"""Puts the axes of a program's tensor in the order batch_size, n_heads, and two more; no number is computed anew."""


def zero_in_output(output: Tensor, arrange: Arrange | None = None) -> Zero:
    """For an attention that has just run.

    Args:
        output: what it has made of its values, in the program's own axes.
        arrange: puts them in order; None: they are, batch_size, n_heads, q_length, d_value.
    """

    def zero(heads: Sequence[int]) -> None:
        with unseen():
            if arrange is None:
                output[:, list(heads)] = 0
            else:
                output.masked_fill_(_of_heads(output, arrange, heads), 0)

    return zero


def zero_in_weights(weights: Tensor, arrange: Arrange, multiply_again: Callable[[], object]) -> Zero:
    """For weights that have just met values: they are zeroed where they are, as they may meet others, too.

    Args:
        weights: what was multiplied by the values, in the program's own axes.
        arrange: puts them in order.
        multiply_again: computes what came of it once more, in its place.
    """

    def zero(heads: Sequence[int]) -> None:
        with unseen():
            weights.masked_fill_(_of_heads(weights, arrange, heads), 0)
            multiply_again()

    return zero


def _of_heads(x: Tensor, arrange: Arrange, heads: Sequence[int]) -> Tensor:
    """bool, as x: what of it belongs to these heads. The places of its numbers are arranged in place of the numbers."""
    places = torch.arange(x.numel(), device=x.device).view(x.shape)
    belongs = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
    belongs[arrange(places)[:, list(heads)].flatten()] = True
    return belongs.view(x.shape)
