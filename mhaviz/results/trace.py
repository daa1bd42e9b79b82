"""The shape of every tensor on the way through the layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, parameter
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

    def follow(self, element: Sequence[int]) -> "ShapeTrace":
        """The trace with one element of Q followed through every reshape, with the transpose and without it.

        Args:
            element: its coordinates in Q, (batch_size, q_length, d_model).

        Raises:
            ArgumentError: Q has no such element; the message names the axis.
        """
        return replace(self, followed=follow_element(self, element))

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; numbers of steps are there where they were asked for."""
        steps = [{name: x for name, x in vars(step).items() if x is not None} for step in self.steps]
        followed = {} if self.followed is None else {"follow": self.followed}
        return {"tokens": self.tokens, "steps": steps, **followed}


def follow_element(trace: ShapeTrace, element: Sequence[int]) -> FollowedElement:
    """See ``ShapeTrace.follow``.

    ``Q.view(batch_size, n_heads, q_length, d_key)`` has the shape that attention wants, and runs. But it cuts the rows
    of Q in their order in memory, so that a head gets all features of a few tokens instead of a few features of all
    tokens: the commonest slip in hand-written attention, and no shape check sees it.
    """
    Q, split, heads = trace.step("Q"), trace.step("Q split"), trace.step("Q heads")
    if len(element) != len(Q.shape):
        raise ArgumentError(
            f"expected {len(Q.shape)} coordinates of an element of Q, {', '.join(Q.axes)}, got {len(element)}"
        )
    for axis, size, index in zip(Q.axes, Q.shape, element, strict=True):
        if not 0 <= index < size:
            got = counted(index)
            raise ArgumentError(
                f"{parameter('follow')}: expected a coordinate from 0 to {size - 1} on axis {axis}, got {got}"
            )

    batch, position, feature = element
    d_key = split.shape[3]
    by_axis = {
        "batch_size": batch,
        "q_length": position,
        "d_model": feature,
        "n_heads": feature // d_key,
        "d_key": feature % d_key,
    }
    visits = []
    for step in trace.steps:
        if set(step.axes) <= by_axis.keys() and step.name.split()[0] in ("Q", "H", "concat"):
            coordinates = tuple(by_axis[axis] for axis in step.axes)
            visits.append(Visit(step.name, coordinates, _offset(step, coordinates), step.name.startswith("Q")))

    right = (batch, by_axis["n_heads"], position, by_axis["d_key"])
    return FollowedElement(
        element=(batch, position, feature),
        visits=tuple(visits),
        right=right,
        wrong=_same_place(element, Q.shape, heads.shape),  # type: ignore[arg-type]
        intruder=_same_place(right, heads.shape, Q.shape),  # type: ignore[arg-type]
        misplaced=1 - _kept(*heads.shape[1:3]),
    )


def _offset(step: TraceStep, coordinates: tuple[int, ...]) -> int:
    return sum(index * stride for index, stride in zip(coordinates, step.strides, strict=True))


def _same_place(coordinates: Sequence[int], shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The coordinates, in a contiguous tensor of another shape, of the number at the same place in memory."""
    place = np.ravel_multi_index(tuple(coordinates), shape)
    return tuple(int(index) for index in np.unravel_index(place, other))


def _kept(n_heads: int, q_length: int) -> float:
    """The share of elements that lie at the same place with the transpose and without it.

    Element (head, position, feature) lies at row head · q_length + position of the plain view, and at row
    position · n_heads + head of Q split. The two are equal where head · (q_length − 1) = position · (n_heads − 1).
    """
    if n_heads == 1 or q_length == 1:
        return 1.0
    return (math.gcd(n_heads - 1, q_length - 1) + 1) / (n_heads * q_length)
