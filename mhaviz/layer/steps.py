"""How a forward pass names its steps, so that somebody who listens can follow the tensors through it."""

from typing import Protocol

from torch import Tensor


class Step(Protocol):
    """What a forward pass calls for each tensor that it makes."""

    def __call__(self, definition: str, tensor: Tensor, axes: str) -> Tensor:
        """Take note of a tensor and hand it back.

        Args:
            definition: the step as the paper would write it, "name = equation", such as "Q = X Wq".
            tensor: what the step made.
            axes: the names of the tensor's axes, separated by blanks: "batch_size q_length d_model".
        """
        ...


def untraced(definition: str, tensor: Tensor, axes: str) -> Tensor:
    """Nobody listens: hand the tensor back. The default everywhere."""
    return tensor
