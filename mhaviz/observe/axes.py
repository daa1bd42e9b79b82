"""The axes of a program's tensors as products of factors, and the origin of each factor.

Heads are split off the features that a layer makes: (batch, length, features) → (batch, length, heads, d_key). So an
axis is described by its factors, each with the axis where it first occurred. A reshape splits and joins neighbouring
axes, other views move whole axes, and an elementwise function leaves all in their places.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from mhaviz.observe.descent import Maker


@dataclass(slots=True, eq=False)
class Origin:
    """An axis as it was when it first occurred. What is cut from it is equal to it.

    Attributes:
        size: length.
        step: for a factor that was split off, the distance between its numbers; 0: not known.
        maker: for features, the matrix of the layer that made them, see ``FixedRows.maker``; None: no layer made the
            axis.
        parents: axes of features from which a layer has read only a part, as a layer that is shared by heads does.
        given: for a tensor that was not seen to be computed, the place of this axis and the number of all.
        is_lost: whether it was made by a function that may have put anything there.
        is_slice: for a lost axis, whether it is a part of several that were joined, such as examples and heads.
        cuts: what was cut from it, one after the other.
        beside: what was cut from another axis of this origin, such as heads for the features of each head.
        whole: the axis that this is a part or a later state of; None: itself.
        added: for features, other features that were added to those of all tokens alike.
        is_input: whether it comes from inputs or parameters of the program, possibly with another length.
        through: for features, the numbers of the attentions whose outputs they are made of.
    """

    size: int
    step: int = 1
    maker: Maker | None = None
    parents: frozenset["Origin"] = frozenset()
    given: tuple[int, int] | None = None
    is_lost: bool = False
    is_slice: bool = False
    cuts: tuple["Cut", ...] = ()
    beside: "Cut | None" = None
    whole: "Origin | None" = None
    added: "frozenset[Origin]" = frozenset()
    is_input: bool = False
    through: frozenset[int] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and (self.whole or self) is (other.whole or other)

    def __hash__(self) -> int:
        return id(self.whole or self)

    def replace(self, **attributes: Any) -> "Origin":
        """Return the same axis with other attributes."""
        made = Origin(*_attributes_of(self))  # in a third of the time of dataclasses.replace
        made.whole = self.whole or self
        for name, attribute in attributes.items():
            setattr(made, name, attribute)
        return made

    def cut(self, cut: "Cut", beside: bool = False) -> "Origin":
        """Return what a cut leaves of the axis; ``beside``: the cut was made in another axis of this origin."""
        if beside:
            return self.replace(beside=cut)
        return self.replace(cuts=(*self.cuts, cut))


_attributes_of = attrgetter(*Origin.__slots__)


class Cut(NamedTuple):
    """Every ``step``-th of ``size`` numbers from ``start`` on, ``n`` in all; a step of 0: in an unknown order."""

    start: int
    step: int
    n: int
    size: int


Factor = tuple[Origin, int]
"""Factor of an axis: its origin, and its length."""


Axis = tuple[Factor, ...]


@dataclass(frozen=True)
class Summed:
    """The axes over which a product sums.

    Attributes:
        summed: these axes, of all factors.
        are_scores: whether the product may be scores: no factor is a layer's matrix, or was computed from scores.
        are_pairs: whether each factor has several axes that the other lacks, or along which it may be repeated, such as
            examples and tokens. Then each example of one meets each of the other.
    """

    summed: tuple[Axis, ...]
    are_scores: bool
    are_pairs: bool = False


class Layout(NamedTuple):
    """The axes of a tensor, and the last product that it was computed from, if any."""

    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    scores: Summed | None = None

    @property
    def are_scores(self) -> bool:
        """Whether it was computed from a product without a layer's matrix, and without scores as a factor."""
        return self.scores is not None and self.scores.are_scores

    def with_axis(self, place: int, axis: Axis) -> "Layout":
        """Return the layout with another axis at this place."""
        axes = list(self.axes)
        axes[place] = axis
        return self._replace(axes=tuple(axes))


def with_cut(axis: Axis, origin: Origin, cut: Cut, beside: bool) -> Axis:
    """Return the axis after a cut of one of its factors; see ``Origin.cut``."""
    if beside:  # of the heads that were cut before, such as every second of the last four
        for before in reversed(origin.cuts):
            if before.n != cut.size or not (before.step and cut.step):
                break
            cut = Cut(before.start + before.step * cut.start, before.step * cut.step, cut.n, before.size)
    return tuple((one.cut(cut, beside) if one == origin else one, n) for one, n in axis)


def cuts_along(axis: Axis) -> list[tuple[object, ...]]:
    """Return what distinguishes tokens along an axis from others that were cut from the same axis."""
    return [(origin, n, origin.cuts, origin.beside) for origin, n in axis]


def given_layout(shape: Sequence[int], is_input: bool = False) -> Layout:
    """Return the layout of a tensor that was not seen to be computed; ``is_input``: see ``Origin``."""
    sizes = tuple(shape)
    origins = (Origin(n, given=(at, len(sizes)), is_input=is_input) for at, n in enumerate(sizes))
    return Layout(sizes, tuple(((origin, origin.size),) for origin in origins))


def lost(size: int, is_slice: bool = False) -> Axis:
    """Return an axis of which nothing is known; ``is_slice``: see ``Origin``."""
    return ((Origin(size, is_lost=True, is_slice=is_slice), size),)


def features_made(size: int, maker: Maker, read: Sequence[Axis]) -> Axis:
    """Return the axis of the features that a layer makes of those that it reads; ``maker``: see ``Origin``."""
    factors = [factor for axis in read for factor in axis if factor[1] > 1]
    parents: frozenset[Origin] = frozenset()
    if len(factors) == 1:
        ((origin, n),) = factors
        parents = origin.parents | ({origin} if n < origin.size else frozenset())
    return ((Origin(size, maker=maker, parents=parents, through=through_along(*read)), size),)


def through_along(*axes: Axis) -> frozenset[int]:
    """Return the numbers of the attentions whose outputs features are made of."""
    return frozenset(number for axis in axes for origin, _ in axis for number in origin.through)


def fitted(axis: Axis, size: int) -> Axis:
    """Return the axis with another length: truncated, or extended by what is not known."""
    before = math.prod(n for _, n in axis)
    if before == size:
        return axis
    if len(origins := origins_of(axis)) == 1:
        return ((origins.pop(), size),)
    return lost(size, is_slice=size < before)


_MOST_ADDED = 16
"""Number of axes added to one that are told apart. A state may be added to in each step."""


def sum_of(layout: Layout, other: Layout) -> Layout:
    """Return the layout of a sum, such as of embeddings of tokens and types, or of the outputs of two layers."""
    if layout.axes is other.axes:
        return layout
    axes, first = list(layout.axes), len(layout.axes) - len(other.axes)  # which may lack the axis of examples
    is_repeated = first > 0 or any(map(_is_repeated_along, axes[first:], other.axes))
    for place, beside in enumerate(other.axes, first):
        if len(axes[place]) != 1:
            continue
        ((origin, n),) = axes[place]
        is_new = is_repeated and origin.maker is not None and len(origin.added) < _MOST_ADDED
        new = {one for one in origins_of(beside) if one.maker is not None} - origin.added if is_new else set[Origin]()
        through = through_along(beside) - origin.through
        if through or new:
            axes[place] = ((origin.replace(through=origin.through | through, added=origin.added | new), n),)
    return layout._replace(axes=tuple(axes))


def _is_repeated_along(axis: Axis, other: Axis) -> bool:
    """Return whether one axis has length 1, or may be repeated, where the other has tokens."""
    is_one = not origins_of(other) if origins_of(axis) else bool(axis) != bool(other)
    return is_one or any(origin.is_lost for origin in origins_of(axis, other))


def cut_layout(source: Layout, shape: Sequence[int], dim: Any = None) -> Layout:
    """Return what an unknown function leaves of a layout: one axis has another length, or the axes ``dim`` are gone."""
    sizes, ndim = tuple(shape), len(source.shape)
    axes = source.axes
    gone = [one for one in (dim if isinstance(dim, tuple | list) else (dim,)) if isinstance(one, int)]
    kept = [place for place in range(ndim) if place not in gone and place - ndim not in gone]
    if len(sizes) < ndim and sizes == tuple(source.shape[place] for place in kept):
        return Layout(sizes, tuple(axes[place] for place in kept), source.scores)
    changed = sum(one != other for one, other in zip(sizes, source.shape, strict=False))
    if len(sizes) != ndim:
        axes = tuple(map(lost, sizes))
    elif changed == 1:
        axes = tuple(map(fitted, axes, sizes))
    else:
        pairs = zip(axes, sizes, source.shape, strict=True)
        axes = tuple(axis if size == before else lost(size) for axis, size, before in pairs)
    return Layout(sizes, axes, source.scores)


def regrouped(source: Layout, shape: Sequence[int]) -> Layout:
    """Return the layout after a reshape, which splits and joins neighbouring axes."""
    sizes = tuple(shape)
    if math.prod(sizes) != math.prod(source.shape) or not math.prod(sizes):
        return Layout(sizes, tuple(map(lost, sizes)), source.scores)
    left = [factor for axis in source.axes for factor in axis][::-1]  # the next factor is the last
    axes, shuffled = list[Axis](), set[int]()
    for place, size in enumerate(sizes):
        parts: list[Factor] = []
        missing = size
        while missing > 1:
            origin, n = left.pop() if left else (None, 0)
            if origin is None or (missing % n and n % missing):  # no factor ends here: what follows is not known either
                return Layout(sizes, (*axes, *map(lost, sizes[place:])), source.scores)
            if n > missing:
                left.append((origin, n // missing))
                origin, n = origin.replace(step=origin.step * (n // missing)), missing
            parts.append((origin, n))
            missing //= n
        # Factors of length 1 stay where they were: one query may have joined an axis of heads.
        is_before_one = sizes[place + 1 : place + 2] == (1,)
        while left and left[-1][1] == 1 and not (is_before_one and (size > 1 or parts)):
            parts.append(left.pop())
        if _are_shuffled([(origin, n) for origin, n in parts if n > 1]):
            shuffled.add(place)
            parts = [(parts[0][0], size)]
        axes.append(tuple(parts))
    layout = Layout(sizes, tuple(axes), source.scores)
    return reordered(layout, shuffled) if shuffled else layout


def _are_shuffled(parts: Sequence[Factor]) -> bool:
    """Return whether parts of a sequence are joined in another order than they were split in, or may be."""
    if any(origin.maker is not None for origin, _ in parts):
        return False
    if len({origin for origin, _ in parts}) > 1:
        return all(origin.is_lost and any(not cut.step for cut in origin.cuts) for origin, _ in parts)
    return any(outer.step != inner.step * n for (outer, _), (inner, n) in pairwise(parts))


def unordered(axis: Axis) -> Axis:
    """Return the axis of tokens in an unknown order, which may differ from that of any other axis."""
    number = next(_numbers)
    return tuple((one.cut(Cut(-number, 0, n, n)), n) for one, n in axis)


_numbers = count(1)


def reordered(layout: Layout, places: Collection[int]) -> Layout:
    """Return the layout with others along these axes, or with the same in another order."""
    axes = (unordered(axis) if place in places else axis for place, axis in enumerate(layout.axes))
    return layout._replace(axes=tuple(axes))


def are_made(*features: Axis) -> bool:
    """Return whether all features were made by layers that were seen."""
    return all(any(origin.maker is not None for origin in origins_of(axis, all_of=True)) for axis in features)


def are_tokens(axis: Axis) -> bool:
    """Return whether an axis is known, and holds no features that layers have made."""
    return all(origin.maker is None and not origin.is_lost for origin, n in axis if n > 1)


def has_rows(axes: Sequence[Axis]) -> bool:
    """Return whether some axes hold features that layers have made, and others, such as those of tokens, do not."""
    return len({origin.maker is None for axis in axes for origin, n in axis if n > 1}) > 1


def origins_of(*axes: Axis, all_of: bool = False) -> set[Origin]:
    """Return the origins of axes; ``all_of``: also of factors of length 1."""
    return {origin for axis in axes for origin, n in axis if n > 1 or all_of}


def has_features(origins: set[Origin]) -> bool:
    """Return whether some of these are features that a layer has made, or the last axis of a tensor that was given."""
    return any(one.maker is not None or (one.given is not None and one.given[0] == one.given[1] - 1) for one in origins)
