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


def within(part: str, step: Step) -> Step:
    """Tell a listener which part of a model a step is of: "Q" of the part "cross" becomes "cross Q"."""
    if step is untraced:
        return untraced

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        return step(f"{part} {definition}", tensor, axes)

    return named


def only(part: str, step: Step) -> Step:
    """Listen to one part of a model, whose steps then have their plain names again: "cross Q" becomes "Q"."""

    def heard(definition: str, tensor: Tensor, axes: str) -> Tensor:
        whose, _, plain = definition.partition(" ")
        return step(plain, tensor, axes) if whose == part else tensor

    return heard
