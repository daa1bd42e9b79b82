"""Marks of a program's tensors: what each has become on the way from queries and keys to values.

They stand in a table beside the tensors, so that nothing of ours is ever saved with a program's tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

from torch import Tensor

from mhaviz.recording.descent import Axes


@dataclass(frozen=True)
class Scores:
    """Marks a product, and what has become of it before a softmax; ``mapped``: by what, if by another function."""

    axes: Axes
    mapped: str = ""


@dataclass(frozen=True)
class Exponentials:
    """Marks exp(scores), of a softmax that is written out; with ``axis``: marks their sums over it."""

    scores: Scores
    axis: int | None = None


@dataclass(frozen=True)
class Logarithms:
    """Marks the logarithms of weights; ``sums``: marks those of sums of exponentials, to be subtracted from scores."""

    scores: Scores
    axis: int
    sums: bool = False


@dataclass
class Softmax:
    """One softmax.

    Attributes:
        has_met: whether what it has made has met values.
        has_met_again: whether it has met others since.
        made: that, once something else has been made of it; None before, as marks must not keep their tensors alive,
            and after it has met values.
        is_kept: whether ``made`` is a copy.
        is_mixed: whether what it has made is mixed with something else before it meets values: with that of other
            heads, or of another softmax.
        visible: bool, of which of its scores are no hidden keys'; None: not known, or after it has met values.
        axes: of the scores.
        axis: of these that it runs over.
    """

    axes: Axes
    axis: int

    has_met: bool = False
    has_met_again: bool = False
    made: Tensor | None = None
    is_kept: bool = False
    is_mixed: bool = False
    visible: Tensor | None = None


@dataclass(frozen=True)
class Weights:
    """Marks what a softmax has made, and what is made of that.

    Attributes:
        softmax: whose they are.
        is_made: whether the marked tensor is what the softmax itself has made.
        axis: the axis of the keys in the marked tensor, counted from the end: −1 is the last.
        query: the axis of the queries; None: not known.
        views: how the marked tensor is viewed from what the softmax has made; dropout and casts are no views.
    """

    softmax: Softmax
    axis: int
    query: int | None = None
    is_made: bool = True
    views: tuple[Callable[[Tensor], Tensor], ...] = ()

    def of(self, source: Tensor, result: Tensor) -> "Weights":
        """The mark of what was made of the marked tensor."""
        if not self.is_made or result is source:
            return self
        if not self.softmax.has_met and not self.softmax.is_kept:
            self.softmax.made = source
        return replace(self, is_made=False)


Mark = Scores | Exponentials | Logarithms | Weights


class Marks:
    """The marks of tensors, for as long as these live."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[ref[Tensor], Mark]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def get(self, x: object) -> Mark | None:
        """The mark of a tensor, if it has one."""
        entry = self._marks.get(id(x))
        return entry[1] if entry is not None and entry[0]() is x else None

    def may_hold(self, args: Sequence[Any]) -> bool:
        """Whether one of these may be a marked tensor, or hold one: of most functions none is, which is known soon."""
        marks = self._marks
        for x in args:  # noqa: SIM110 - any() takes twice as long
            if id(x) in marks or type(x) is list or type(x) is tuple:
                return True
        return False

    def set(self, x: Tensor, mark: Mark) -> None:
        """Mark it."""
        key, marks = id(x), self._marks

        def forget(dead: "ref[Tensor]") -> None:
            entry = marks.get(key)
            if entry is not None and entry[0] is dead:
                del marks[key]

        marks[key] = ref(x, forget), mark
