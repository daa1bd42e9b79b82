"""Zero the output of single heads while a program's attention runs, before the output projection.

The program goes on as if all weights of these heads were zero.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mhaviz.observe.handlers import unseen

Zero = Callable[[Sequence[int]], None]
"""Function that sets the weighted values of heads, by their numbers, to 0 in the program's own tensor."""

Arrange = Callable[[Tensor], Tensor]
"""Function that puts the axes of a program's tensor in the order batch_size, n_heads, and two more. It moves numbers
and does not compute any."""


def zero_in_output(output: Tensor, arrange: Arrange | None = None) -> Zero:
    """Return the ``Zero`` of an attention that has just run.

    Args:
        output: weighted values, in the program's own axes.
        arrange: puts these axes in order; None: they are batch_size, n_heads, q_length, d_value.
    """

    def zero(heads: Sequence[int]) -> None:
        with unseen():
            if arrange is None:
                output[:, list(heads)] = 0
            else:
                output.masked_fill_(_belong_to_heads(output, arrange, heads), 0)

    return zero


def zero_in_weights(weights: Tensor, arrange: Arrange, multiply_again: Callable[[], object]) -> Zero:
    """Return the ``Zero`` of weights that have just been multiplied by values.

    The weights are zeroed in place, as they may be multiplied by other values too.

    Args:
        weights: factor of the product with the values, in the program's own axes.
        arrange: puts these axes in order.
        multiply_again: computes the product again, in its place.
    """

    def zero(heads: Sequence[int]) -> None:
        with unseen():
            weights.masked_fill_(_belong_to_heads(weights, arrange, heads), 0)
            multiply_again()

    return zero


def _belong_to_heads(x: Tensor, arrange: Arrange, heads: Sequence[int]) -> Tensor:
    """Return a mask of the shape of ``x``, bool: True where a number belongs to one of these heads.

    The indices of the numbers are arranged in place of the numbers.
    """
    places = torch.arange(x.numel(), device=x.device).view(x.shape)
    belongs = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
    belongs[arrange(places)[:, list(heads)].flatten()] = True
    return belongs.view(x.shape)
