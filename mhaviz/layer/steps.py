"""Names for the steps of a forward pass, by which a listener can follow the tensors through it."""

from typing import Protocol

from torch import Tensor


class Step(Protocol):
    """Callback for each tensor that a forward pass computes."""

    def __call__(self, definition: str, tensor: Tensor, axes: str) -> Tensor:
        """Take note of a tensor, and return it.

        Args:
            definition: the step as the paper would write it, "name = equation", such as "Q = X Wq".
            tensor: result of the step.
            axes: names of the tensor's axes, separated by spaces: "batch_size q_length d_model".
        """
        ...


def untraced(definition: str, tensor: Tensor, axes: str) -> Tensor:
    """Return the tensor without taking note of it. This is the default everywhere."""
    return tensor


def within(part: str, step: Step) -> Step:
    """Return a step that prefixes names with the part of a model: "Q" in the part "cross" becomes "cross Q"."""
    if step is untraced:
        return untraced

    def named(definition: str, tensor: Tensor, axes: str) -> Tensor:
        return step(f"{part} {definition}", tensor, axes)

    return named


def only(part: str, step: Step) -> Step:
    """Return a step that listens to one part of a model, and removes its prefix: "cross Q" becomes "Q"."""

    def heard(definition: str, tensor: Tensor, axes: str) -> Tensor:
        whose, _, plain = definition.partition(" ")
        return step(plain, tensor, axes) if whose == part else tensor

    return heard
