"""The shape of every tensor on the way through the layer."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.result import Result, ShortRepr, Source

VALUES_UP_TO = 512
"""A traced tensor with more numbers than this is not printed; the largest of the worked example has 432."""


@dataclass(frozen=True)
class TraceStep(ShortRepr):
    """One tensor on the way.

    Attributes:
        name: what the paper calls it, "Q".
        equation: how it is made, "X Wq".
        axes: the name of each axis.
        shape: the size of each axis.
        memory: "view", the numbers of an earlier tensor in another shape; "copy", the same numbers moved to new
            memory; "computed", new numbers.
        contiguous: whether the numbers lie in memory in the order of the axes, the last axis fastest.
        strides: how many numbers to move on in memory for one step along each axis.
        parameters: how many learnt numbers the step uses that none before it has used.
        flops: floating-point operations: a product and a sum count one each, a softmax 5 a weight.
        bytes: memory that the step adds; 0 for a view.
        inputs: the names of the steps whose tensors this step reads.
        values: the numbers themselves, where they were asked for and are few.
    """

    name: str
    equation: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    memory: Literal["view", "copy", "computed"]
    contiguous: bool
    strides: tuple[int, ...]
    parameters: int
    flops: int
    bytes: int
    inputs: tuple[str, ...] = ()
    values: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Visit:
    """Where a followed element stands in one step's tensor.

    Attributes:
        step: the name of the step.
        coordinates: one index an axis.
        offset: its place in memory, counted in numbers from the tensor's first.
        same_number: False where the slot is the same but holds a number computed anew (in H and after).
    """

    step: str
    coordinates: tuple[int, ...]
    offset: int
    same_number: bool


@dataclass(frozen=True)
class FollowedElement:
    """One element of Q on its way through every reshape, and where a reshape without the transpose would put it.

    Attributes:
        element: its coordinates in Q, (batch_size, q_length, d_model).
        visits: its coordinates at each step.
        right: its coordinates in Q heads, (batch_size, n_heads, q_length, d_key).
        wrong: where ``Q.view(batch_size, n_heads, q_length, d_key)`` would put it: the right shape, the wrong slot.
        intruder: which element of Q that same view would put into the right slot.
        misplaced: the share of all elements of Q that such a view puts into a slot of another token or feature.
    """

    element: tuple[int, int, int]
    visits: tuple[Visit, ...]
    right: tuple[int, int, int, int]
    wrong: tuple[int, int, int, int]
    intruder: tuple[int, int, int]
    misplaced: float


@dataclass(frozen=True)
class ShapeTrace(Result):
    """All steps, in the order in which they were taken.

    Attributes:
        tokens: of each query sentence; empty for bare sizes.
        followed: an element of Q, where one was to be followed.
    """

    source: Source
    steps: tuple[TraceStep, ...]
    tokens: tuple[tuple[str, ...], ...] = ()
    followed: FollowedElement | None = None

    def step(self, name: str) -> TraceStep:
        """The step of that name. Raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; numbers of steps are there where they were asked for."""
        steps = [{name: x for name, x in vars(step).items() if x is not None} for step in self.steps]
        followed = {} if self.followed is None else {"follow": self.followed}
        return {"tokens": self.tokens, "steps": steps, **followed}
