"""Marks of a program's tensors on the way from queries and keys to values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isclose, isnan, nan
from typing import Literal

from torch import Tensor

from mhaviz.observe.descent import Axes
from mhaviz.observe.dropout import Noise, Random, Undropped
from mhaviz.observe.log import SoftmaxNote

LARGEST = "topk"
"""The function that leaves the largest scores of each query, which are of other keys for each."""

SAMPLED = "grid_sample"
"""The function that reads values at points of an image, which have no scores."""


Starts = tuple[tuple[int, int], ...]
"""Of each factor of a product, its memory, and where in it the factor begins."""


@dataclass(frozen=True)
class Scores:
    """Mark of a product, and of what it becomes before a softmax.

    Attributes:
        axes: of the product.
        mapped: names of other functions that have mapped the scores; "": none.
        sinks: how many numbers of its last axis were made by no product.
        stage: how far a softmax that is written out has come. "sums" are of exponentials, logarithms are of sums or
            weights. "pairs" are of one query and one key each, and are scores once a loop has joined them.
        over: the axes over which sums and logarithms run, such as rows and columns in turn; empty: no such stage, or
            not known.
        has_own: whether scores of each query's own keys were joined with those of keys that queries share.
        are_dropped: whether dropout has changed the scores, so that weights without it are not known.
        starts: where the numbers of each factor begin in memory, which tells the order of heads and rows cut from it.
        visible: bool, of the exponentials: True where their score was not masked; None: there are none yet.
        is_by_matrix: whether a factor is a matrix that the program was given, as of a layer that is a plain tensor.
        are_turned: whether a loop has joined them in another order than their factors were cut in.
    """

    axes: Axes
    mapped: str = ""
    sinks: int = 0
    stage: Literal["pairs", "scores", "exp", "sums", "log sums", "log weights"] = "scores"
    over: tuple[int, ...] = ()
    has_own: bool = False
    are_dropped: bool = False
    starts: Starts = ()
    is_by_matrix: bool = False
    visible: Tensor | None = None
    are_turned: bool = False

    @property
    def are_largest(self) -> bool:
        """Whether only the largest scores of each query are left, and not in the places of their keys."""
        return LARGEST in self.mapped.split(" and ")

    def in_place(self) -> "Scores":
        """Return the mark of the largest scores after they were put in the places of their keys."""
        return replace(self, mapped=" and ".join(name for name in self.mapped.split(" and ") if name != LARGEST))

    @property
    def are_sums(self) -> bool:
        """Whether ``axes`` are those of the tensor before it was summed."""
        return self.stage in ("sums", "log sums")


@dataclass(eq=False)
class SoftmaxWeights:
    """Weights as a softmax has made them, or as the program has changed them since.

    Attributes:
        scores, over: the axes of the softmax's scores, and the one over which it ran.
        shape: of the weights.
        axes: the axes of the keys, counted from the end. If there are several, values will be summed over the right
            one.
        sinks: how many columns of the softmax are no keys.
        is_changed: whether the program has changed the weights.
        why_unknown: reason why it is not known which of their keys are which; "" if it is.
        visible: bool, of their shape: True where the softmax's score was not masked; None: not known, or after they
            have met values.
        met_in: the name of the module in which they have met values, "" if there is none, or it is no attention; None:
            they have met none.
        has_met_again: whether they have met other values since.
        softmaxes: notes on the softmaxes that they are made of; see ``Log``.
        is_dropped: whether dropout has changed weights that have met values.
        is_random: whether random numbers that are no dropout have changed weights that have met values.
        is_difference: whether the program has subtracted weights from others.
        starts: see ``Scores``.
    """

    scores: Axes
    over: int
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    sinks: int = 0
    is_changed: bool = False
    why_unknown: str = ""
    visible: Tensor | None = None
    met_in: str | None = None
    has_met_again: bool = False
    softmaxes: tuple[SoftmaxNote, ...] = ()
    is_dropped: bool = False
    is_random: bool = False
    is_difference: bool = False
    starts: Starts = ()

    @property
    def keys_in(self) -> tuple[int, frozenset[int]] | None:
        """The number of the product in the softmax, and which of its factors hold the keys; None: not known."""
        factors = self.scores.factors.get(self.over)
        return None if factors is None else (self.scores.number, factors)

    def is_without_sinks(self, x: Tensor, source: Tensor, axes: Sequence[int]) -> bool:
        """Return whether ``x``, a part of the weights ``source``, lacks their sinks and nothing else."""
        if not self.sinks or len(axes) != 1 or x.ndim != source.ndim:
            return False
        n_keys, n_before = x.shape[axes[0]], source.shape[axes[0]]
        return n_keys == self.shape[self.axes[0]] - self.sinks and x.numel() * n_before == source.numel() * n_keys


@dataclass(frozen=True)
class Weights:
    """Mark of weights.

    Attributes:
        made: the weights.
        axes: the axes of the keys in the marked tensor; see ``SoftmaxWeights``.
        query: the axis of the queries; None: not known.
        views: the views by which the marked tensor came of the weights. Dropout and casts are no views.
        is_part: whether the marked tensor holds a part of the weights alone.
        undropped: what the marked tensor would hold without dropout; None: no dropout has changed it.
        mean: once random masks have changed the weights, the product of their expectations and of the numbers by which
            the program has multiplied the weights; nan: they have been changed by random numbers that are no dropout.
            Before, the number by which the program has just multiplied them.
        is_random: whether random numbers of the program have changed the marked tensor, and ``mean`` is not 1 yet.
            Until it is, or is nan, ``undropped`` is what holds if it becomes 1.
    """

    made: SoftmaxWeights
    axes: tuple[int, ...]
    query: int | None = None
    views: tuple[Callable[[Tensor], Tensor], ...] = ()
    is_part: bool = False
    undropped: Undropped | None = None
    mean: float = 1.0
    is_random: bool = False

    def closed(self) -> "Weights":
        """Return the mark if ``mean`` will not be 1: what has changed the weights at random is no dropout."""
        if not self.is_random:
            return replace(self, mean=1.0)
        return replace(self, mean=nan, undropped=self.undropped if isnan(self.mean) else None)

    def multiplied(self, factor: float) -> "Weights":
        """Return the mark after a product with a number."""
        mean = self.mean * factor if self.is_random else factor
        return replace(self, mean=mean, is_random=self.is_random and not _is_one(mean))

    def masked(self, undropped: Undropped, mean: float) -> "Weights":
        """Return the mark after a product with random numbers of this expectation."""
        both = self.mean * mean
        mean = both if self.is_random or _is_one(both) else mean
        return replace(self, undropped=undropped, mean=mean, is_random=not _is_one(mean))

    def visible(self) -> Tensor | None:
        """Return ``SoftmaxWeights.visible`` in the axes of the marked tensor; None: not known."""
        x = self.made.visible
        if x is not None:
            for view in self.views:
                x = view(x)
        return x


def are_turned(starts: Sequence[Starts]) -> bool:
    """Return whether parts that a loop joins were cut in another order, by where each of their factors begins."""
    for of_factor in zip(*starts, strict=False):
        last: dict[int, int] = {}
        for memory, place in of_factor:
            if place < last.setdefault(memory, place):
                return True
            last[memory] = place
    return False


def place_in_stack(axis: int, new: int) -> int:
    """Return where ``torch.stack`` puts an axis; all are counted from the end, and ``new`` is the axis that it adds."""
    return axis if axis > new else axis - 1


def _is_one(mean: float) -> bool:
    return isclose(mean, 1, rel_tol=1e-3)  # expectations may be rounded to half precision


Mark = Scores | Weights | Noise | Random
