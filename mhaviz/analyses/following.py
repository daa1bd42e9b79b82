"""Follows one element of Q through the reshapes of a trace, with the transpose and without it.

``Q.view(batch_size, n_heads, q_length, d_key)`` has the shape that attention wants, and runs. But it cuts the rows of
Q in their order in memory, so that a head gets all features of a few tokens instead of a few features of all tokens:
the commonest slip in hand-written attention, and no shape check sees it.
"""

import math
from collections.abc import Sequence

import numpy as np

from mhaviz.errors import ArgumentError, counted, parameter
from mhaviz.results.trace import FollowedElement, ShapeTrace, TraceStep, Visit


def follow_element(trace: ShapeTrace, element: Sequence[int]) -> FollowedElement:
    """Follow one element of Q through every reshape of the trace.

    Args:
        trace: of any input, real or on the meta device.
        element: its coordinates in Q, (batch_size, q_length, d_model).

    Raises:
        ArgumentError: Q has no such element; the message names the axis.
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
