"""What a program's tensors have become on the way from queries and keys to values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mhaviz.observe.axes import Layout
from mhaviz.observe.descent import Axes
from mhaviz.observe.parts import Parts

SAMPLED = "grid_sample"
"""What made values at points of an image, which have no scores."""


@dataclass(frozen=True)
class Scores:
    """Marks a product, and what has become of it before a softmax.

    Attributes:
        axes: of it.
        mapped: by what it has been mapped, if by another function.
        sinks: so many numbers of its last axis no product has made.
        stage: of a softmax that is written out: "sums" are of exponentials, logarithms of these or of weights.
        has_own: whether scores of keys of each query's own were joined with those of keys that queries share.
        over: the axes over which "sums" and logarithms are, such as rows and columns in turn; none: of no such stage,
            or not known.
    """

    axes: Axes
    mapped: str = ""
    sinks: int = 0
    stage: Literal["scores", "exp", "sums", "log sums", "log weights"] = "scores"
    over: tuple[int, ...] = ()
    has_own: bool = False

    @property
    def are_sums(self) -> bool:
        """Whether the axes are those of what was summed up."""
        return self.stage in ("sums", "log sums")


@dataclass(eq=False)
class Made:
    """Weights as a softmax has made them, or as the program has changed them since.

    Attributes:
        scores, over: what the softmax was of, and the axis of that over which it ran.
        shape: of them.
        axes: of the keys, counted from the end; of several that may be it, values are summed over the right one.
        sinks: so many columns of the softmax are no keys.
        is_changed: whether the program has changed them.
        why_unknown: it is not known which of their keys are which; "" if it is.
        visible: bool, of their shape: True where the softmax's score was not masked; None: not known, or after they
            have met values.
        met_in: the name of the module in which they have met values, "" if there is none, or it is no attention; None:
            they have not.
        has_met_again: whether they have met others since.
        parts: of them that have met values, while others have not.
        layout: of all of them; None: not known.
        unmet: takes back what was noted of the softmaxes that have made them, while these had met no values.
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
    parts: Parts | None = None
    layout: Layout | None = None
    unmet: tuple[Callable[[], None], ...] = ()

    @property
    def keys_in(self) -> tuple[int, frozenset[int]] | None:
        """The number of the product that the softmax was of, and which of its factors its keys are in; None: not
        known."""
        factors = self.scores.factors.get(self.over)
        return None if factors is None else (self.scores.number, factors)

    def forget_unmet(self) -> None:
        """Note that they have met values, or a part of them has."""
        for forget in self.unmet:
            forget()

    def is_without_sinks(self, x: Tensor, source: Tensor, axes: Sequence[int]) -> bool:
        """Whether a part of them, ``x``, lacks of another, ``source``, what are no keys, and nothing else."""
        if not self.sinks or len(axes) != 1 or x.ndim != source.ndim:
            return False
        n_keys, n_before = x.shape[axes[0]], source.shape[axes[0]]
        return n_keys == self.shape[self.axes[0]] - self.sinks and x.numel() * n_before == source.numel() * n_keys


@dataclass(frozen=True)
class Weights:
    """Marks weights.

    Attributes:
        made: what they are.
        axes: of the keys in the marked tensor; see ``Made``.
        query: the axis of the queries; None: not known.
        views: how the marked tensor is viewed from what was made; dropout and casts are no views.
        is_part: whether it holds a part of that alone.
        drops: whether dropout has changed it.
    """

    made: Made
    axes: tuple[int, ...]
    query: int | None = None
    views: tuple[Callable[[Tensor], Tensor], ...] = ()
    is_part: bool = False
    drops: bool = False

    def visible(self) -> Tensor | None:
        """That of what was made, as the marked tensor is viewed."""
        x = self.made.visible
        if x is not None:
            for view in self.views:
                x = view(x)
        return x


Mark = Scores | Weights
