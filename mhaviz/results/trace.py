"""Trace of the shape of each tensor in the layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.results.result import Result, ShortRepr, Source

VALUES_UP_TO = 512
"""Largest number of elements of a traced tensor that is printed; the largest of the worked example has 432."""


@dataclass(frozen=True)
class TraceStep(ShortRepr):
    """One step of the layer, and the tensor that it makes.

    Attributes:
        name: name of the tensor in the paper, such as "Q".
        equation: its equation, such as "X Wq".
        axes: name of each axis.
        shape: size of each axis.
        memory: "view", the memory of an earlier tensor in another shape; "copy", the same numbers in new memory;
            "computed", new numbers.
        contiguous: whether the numbers are stored in the order of the axes, the last axis fastest.
        strides: distance in memory between neighbours along each axis, in numbers.
        parameters: number of learned parameters that the step is the first to use.
        flops: floating-point operations. A product and a sum count one each, a softmax 5 for each weight.
        bytes: memory that the step allocates; 0 for a view.
        inputs: names of the steps whose tensors this step reads.
        values: the numbers, if they were requested and are few; else None.
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
    """Place of a followed element in the tensor of one step.

    Attributes:
        step: name of the step.
        coordinates: one index for each axis.
        offset: distance in memory from the first element of the tensor, in numbers.
        same_number: False where the same slot holds a newly computed number, in H and after.
    """

    step: str
    coordinates: tuple[int, ...]
    offset: int
    same_number: bool


@dataclass(frozen=True)
class FollowedElement:
    """One element of Q, followed through each reshape, and its place after a reshape without the transpose.

    Attributes:
        element: its coordinates in Q, (batch_size, q_length, d_model).
        visits: its coordinates at each step.
        right: its coordinates in Q heads, (batch_size, n_heads, q_length, d_key).
        wrong: its coordinates in ``Q.view(batch_size, n_heads, q_length, d_key)``: the right shape, the wrong slot.
        intruder: coordinates in Q of the element that this view puts into the right slot.
        misplaced: share of all elements of Q that this view puts into the slot of another token or feature.
    """

    element: tuple[int, int, int]
    visits: tuple[Visit, ...]
    right: tuple[int, int, int, int]
    wrong: tuple[int, int, int, int]
    intruder: tuple[int, int, int]
    misplaced: float


@dataclass(frozen=True)
class ShapeTrace(Result):
    """Trace of all steps of the layer, in order.

    Attributes:
        tokens: texts of the tokens of each query sentence; empty if only sizes were given.
        followed: the followed element of Q; None: no element is followed.
        layer: number of the attention's layer.
    """

    source: Source
    steps: tuple[TraceStep, ...]
    tokens: tuple[tuple[str, ...], ...] = ()
    followed: FollowedElement | None = None
    layer: int = 0

    def step(self, name: str) -> TraceStep:
        """Return the step with this name. Raises KeyError if there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def follow(self, element: Sequence[int]) -> "ShapeTrace":
        """Return the trace with one element of Q followed through each reshape, with and without the transpose.

        Args:
            element: coordinates in Q, (batch_size, q_length, d_model).

        Raises:
            ArgumentError: Q has no such element, and the message names the axis; or the trace lacks the reshapes of Q.
        """
        return replace(self, followed=follow_element(self, element))

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; includes the values of steps only if they were requested."""
        steps = [{name: x for name, x in vars(step).items() if x is not None} for step in self.steps]
        followed = {} if self.followed is None else {"follow": self.followed}
        return {"tokens": self.tokens, "steps": steps, **followed}


def follow_element(trace: ShapeTrace, element: Sequence[int]) -> FollowedElement:
    """Follow an element; see ``ShapeTrace.follow``.

    ``Q.view(batch_size, n_heads, q_length, d_key)`` has the right shape and raises no error. But it splits Q in the
    order of memory, so that a head gets all features of a few tokens instead of a few features of all tokens. This is
    a common mistake in hand-written attention, and no check of shapes finds it.
    """
    try:
        Q, split, heads = trace.step("Q"), trace.step("Q split"), trace.step("Q heads")
    except KeyError:
        raise ArgumentError(
            f"{parameter('follow')}: expected a layer that is traced through every reshape, as with random weights, "
            f"got {trace.source.model}; leave it out"
        ) from None
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
        misplaced=1 - _unmoved_share(*heads.shape[1:3]),
    )


def _offset(step: TraceStep, coordinates: tuple[int, ...]) -> int:
    return sum(index * stride for index, stride in zip(coordinates, step.strides, strict=True))


def _same_place(coordinates: Sequence[int], shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coordinates of the same place in memory in a contiguous tensor of another shape."""
    place = np.ravel_multi_index(tuple(coordinates), shape)
    return tuple(int(index) for index in np.unravel_index(place, other))


def _unmoved_share(n_heads: int, q_length: int) -> float:
    """Return the share of elements that have the same place with and without the transpose.

    Element (head, position, feature) is in row head · q_length + position of the plain view, and in row
    position · n_heads + head of Q split. These are equal if head · (q_length − 1) = position · (n_heads − 1).
    """
    if n_heads == 1 or q_length == 1:
        return 1.0
    return (math.gcd(n_heads - 1, q_length - 1) + 1) / (n_heads * q_length)
