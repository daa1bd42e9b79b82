"""The axes of a program's tensors, each as the product of its factors, and what these were made of.

Heads are what a program splits off the features that a layer makes: (batch, length, features) → (batch, length, heads,
d_key). So an axis is known by where it first came up, as the product of its factors: a reshape splits and joins
neighbours, other views move whole axes, a function of single numbers leaves all in their places.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any, NamedTuple

from mhaviz.observe.inputs import Read
from mhaviz.observe.patches import Patches


@dataclass(slots=True, eq=False)
class Origin:
    """An axis as it was when it first came up. What is cut from it is equal to it.

    Attributes:
        size: its length.
        step: of a factor that was split off, how far apart its numbers stood; 0: not known.
        maker: of features, what tells the layer's matrix from others; None: no layer made it.
        parents: axes of features of which a layer has read a part alone: a layer that is shared by heads.
        given: of a tensor that was not seen to be computed, the place of this axis and the number of all.
        is_lost: whether it came of a function that may have put anything there.
        is_slice: of one that is lost, whether it is a part of what was joined of several, such as examples and heads.
        rows: of the columns of an image's patches, the axis of their rows.
        patches: of the tokens of a sequence, those that are patches of an image; None: none is, or it is not known.
        cuts: what was cut from it, one after the other.
        beside: what was cut from another axis that came of it: heads, beside the features of each.
        whole: what it was cut from; None: nothing was.
        reads: of the tokens of a sequence, the numbers of all look-ups that have made it; see ``ReadIds``.
        example: what was cut from another axis, with that axis: one of several examples; None: nothing.
        made_of: the pieces that it is made of, as far as is known.
        is_input: whether it is of what the program reads or has learned, if in another number.
        is_fixed: of such, whether it is of parameters or constants.
        through: of features, the numbers of the attentions whose outputs they are made of.
    """

    size: int
    step: int = 1
    maker: int | None = None
    parents: frozenset["Origin"] = frozenset()
    given: tuple[int, int] | None = None
    is_lost: bool = False
    is_slice: bool = False
    rows: "Origin | None" = None
    patches: Patches | None = None
    reads: frozenset[Read] = frozenset()
    cuts: tuple["Cut", ...] = ()
    beside: "Cut | None" = None
    whole: "Origin | None" = None
    example: "tuple[Origin, Cut] | None" = None
    made_of: "tuple[Piece, ...]" = ()
    is_input: bool = False
    is_fixed: bool = False
    through: frozenset[int] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and (self.whole or self) is (other.whole or other)

    def __hash__(self) -> int:
        return id(self.whole or self)

    @property
    def sources(self) -> "set[Origin]":
        """It, and all that it is known to be made of."""
        found = {origin for piece in self.made_of for origin, _ in piece.of} - {self}
        return {self}.union(*(origin.sources for origin in found))

    @property
    def joined(self) -> "tuple[Piece, ...]":
        """Its pieces that have a place in it."""
        return tuple(piece for piece in self.made_of if piece.n)

    @property
    def added(self) -> "frozenset[Origin]":
        """What its other pieces come from: of tokens, all that was added to each; of features, others that were added
        to those of all tokens alike."""
        return frozenset(origin for piece in self.made_of if not piece.n for origin, _ in piece.of)

    @property
    def is_known(self) -> bool:
        """Whether it is known what it is made of."""
        return self.is_input or bool(self.joined)

    def replace(self, **attributes: Any) -> "Origin":
        """The same axis, of which something else is known."""
        return replace(self, whole=self.whole or self, **attributes)

    def cut(self, cut: "Cut", beside: bool = False) -> "Origin":
        """What is left of it."""
        if beside:
            return self.replace(beside=cut)
        return self.replace(cuts=(*self.cuts, cut), made_of=tuple(piece.cut(cut) for piece in self.made_of))


class Cut(NamedTuple):
    """Every ``step``-th of ``size`` numbers from ``start`` on, ``n`` in all."""

    start: int
    step: int
    n: int
    size: int


class Piece(NamedTuple):
    """What an axis is made of: another that begins ``at`` a place of ``n``; 0 of an ``n`` of 0: it has no place, as it
    was added to all, or that is not known."""

    of: "Axis"
    at: int = 0
    n: int = 0

    def cut(self, cut: Cut) -> "Piece":
        """The same of what is left of that axis."""
        return self._replace(at=self.at - cut.start, n=cut.n) if self.n and cut.step == 1 else Piece(self.of)


class Part(NamedTuple):
    """Tokens: every ``step``-th of a sequence from ``start`` on, ``n`` in all; or, with a step of 0, those of a part of
    that number, of which nothing else is known. Places below 0 are of what stands before the sequence."""

    of: Origin
    start: int
    step: int
    n: int

    @property
    def is_first(self) -> bool:
        """Whether the sequence begins with them."""
        return (self.start, self.step) == (0, 1)

    @property
    def is_reordered(self) -> bool:
        """Whether they were seen to be put in another order, or among others."""
        return any(not cut.step for cut in self.of.cuts)

    @property
    def length(self) -> int:
        """How many tokens the sequence has."""
        return self.of.cuts[0].size if self.of.cuts else self.of.size

    @property
    def places(self) -> range:
        """Of the tokens in the sequence; empty: not known."""
        return range(self.start, self.start + self.step * self.n, self.step or 1)


Factor = tuple[Origin, int]
"""A part of an axis: what it comes from, and its length."""


Axis = tuple[Factor, ...]


@dataclass(frozen=True)
class Summed:
    """A product: the axes of its factors that were summed over, and whether neither is a matrix, nor of scores.

    ``are_pairs``: whether each factor has several axes that the other lacks, or may be repeated along, such as examples
    and tokens: examples of both meet, each with each.
    """

    summed: tuple[Axis, ...]
    are_scores: bool
    are_pairs: bool = False


class Layout(NamedTuple):
    """The axes of a tensor; ``scores``: the last product that it comes of."""

    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    scores: Summed | None = None

    @property
    def are_scores(self) -> bool:
        """Whether it comes of a product that is neither one with a matrix, nor of scores."""
        return self.scores is not None and self.scores.are_scores

    def with_axis(self, place: int, axis: Axis) -> "Layout":
        """The same with another axis at this place."""
        axes = list(self.axes)
        axes[place] = axis
        return self._replace(axes=tuple(axes))


def with_cut(axis: Axis, origin: Origin, cut: Cut, beside: bool) -> Axis:
    """What is left of an axis, a factor of which was cut; see ``Origin.cut``."""
    return tuple((one.cut(cut, beside) if one == origin else one, n) for one, n in axis)


def part_along(axis: Axis) -> Part | None:
    """The tokens along an axis; None: not known."""
    if len(axis) != 1:
        return None
    ((origin, n),) = axis
    start, step = 0, 1
    if origin.cuts and origin.cuts[-1].n == n:
        for cut in reversed(origin.cuts):
            start, step = cut.start + cut.step * start, cut.step * step
        start = start if step else -1
    elif origin.beside is not None:
        start, step = origin.beside.start, 0
    elif origin.cuts or n != origin.size:
        return None
    return Part(origin, start, step, n)


def cuts_along(axis: Axis) -> list[tuple[object, ...]]:
    """What tells tokens along an axis from others that were cut from the same."""
    return [(origin, n, origin.cuts, origin.beside) for origin, n in axis]


def uncut(axis: Axis) -> Axis:
    """Tokens as if all of the sequence were there."""
    return tuple((o.replace(cuts=()) if o.maker is None and o.cuts else o, n) for o, n in axis)


def given_layout(shape: Sequence[int], is_input: bool = False, is_fixed: bool = False) -> Layout:
    """The layout of a tensor that was not seen to be computed; ``is_input``, ``is_fixed``: see ``Origin``."""
    sizes = tuple(shape)
    origins = (Origin(n, given=(at, len(sizes)), is_input=is_input, is_fixed=is_fixed) for at, n in enumerate(sizes))
    return Layout(sizes, tuple(((origin, origin.size),) for origin in origins))


def lost(size: int, is_slice: bool = False) -> Axis:
    """An axis of which nothing is known; ``is_slice``: see ``Origin``."""
    return ((Origin(size, is_lost=True, is_slice=is_slice), size),)


def features_made(size: int, maker: object, read: Sequence[Axis]) -> Axis:
    """Features that a layer makes of those that it reads."""
    factors = [factor for axis in read for factor in axis if factor[1] > 1]
    parents: frozenset[Origin] = frozenset()
    if len(factors) == 1:
        ((origin, n),) = factors
        parents = origin.parents | ({origin} if n < origin.size else frozenset())
    return ((Origin(size, maker=id(maker), parents=parents, through=through_along(*read)), size),)


def through_along(*axes: Axis) -> frozenset[int]:
    """The numbers of the attentions whose outputs features are made of."""
    return frozenset(number for axis in axes for origin, _ in axis for number in origin.through)


def fitted(axis: Axis, size: int) -> Axis:
    """The axis resized: truncated, or extended by what is not known."""
    before, origins = math.prod(n for _, n in axis), origins_of(axis)
    if before == size:
        return axis
    if len(origins) == 1:
        return ((_without_names(origins.pop()), size),)
    return lost(size, is_slice=size < before)


def first_tokens(axis: Axis, size: int) -> Axis:
    """So many tokens from the first on: those that were read and what has been put behind them, or a part of both."""
    ((origin, n),) = axis if len(axis) == 1 else lost(size)
    return ((origin, size),) if origin.reads and min(n, size) >= origin.size else fitted(axis, size)


def reads_along(axis: Axis) -> frozenset[Read]:
    """The look-ups that tokens were read by; none: not known, or not all of them."""
    found = [(origin, n) for origin, n in axis if origin.reads]
    return found[0][0].reads if len(found) == 1 and found[0][0].size <= found[0][1] else frozenset()


_MOST_ADDED = 16
"""So many are told apart: a state may be added to in each step."""


def sum_of(layout: Layout, other: Layout) -> Layout:
    """The layout of a sum, such as of embeddings of tokens and of their types, or of what two layers have made."""
    if layout.axes is other.axes:
        return layout
    axes, first = list(layout.axes), len(layout.axes) - len(other.axes)  # which may be of fewer examples
    is_repeated = first > 0 or any(map(_is_repeated_along, axes[first:], other.axes))
    for place, beside in enumerate(other.axes, first):
        if len(axes[place]) != 1:
            continue
        ((origin, n),), others, new = axes[place], origins_of(beside), set[Origin]()
        if origin.maker is None and len(origin.added) < _MOST_ADDED:
            new = set[Origin]().union(*(one.sources for one in others)) - origin.added - {origin}
            new = new if len(new) < _MOST_ADDED else set()
        elif is_repeated and origin.maker is not None:
            new = {one for one in others if one.maker is not None} - origin.added
        reads, through = reads_along(beside) - origin.reads, through_along(beside) - origin.through
        if reads or through or new:
            reads, through = origin.reads | reads, origin.through | through
            added = tuple(Piece(((one.replace(made_of=()), n),)) for one in new)
            axes[place] = ((origin.replace(reads=reads, through=through, made_of=origin.made_of + added), n),)
    return layout._replace(axes=tuple(axes))


def with_others(axis: Axis, others: Mapping[Origin, Origin]) -> Axis:
    """The same where others have been written among the tokens of these axes."""
    new = {one: others[one].replace(made_of=()) for one, _ in axis if one in others and others[one] not in one.sources}
    return tuple(
        (one.replace(made_of=(*one.made_of[-_MOST_ADDED:], Piece(((new[one], n),)))) if one in new else one, n)
        for one, n in axis
    )


def _is_repeated_along(axis: Axis, other: Axis) -> bool:
    """Whether one of them is 1 long, or may be repeated, where the other has tokens."""
    is_one = not origins_of(other) if origins_of(axis) else bool(axis) != bool(other)
    return is_one or any(origin.is_lost for origin in origins_of(axis, other))


def cut_layout(source: Layout, shape: Sequence[int], dim: Any = None) -> Layout:
    """What an unknown function leaves of a layout, where one axis has another length, or those of ``dim`` are gone."""
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
    """What a reshape makes of a layout: neighbours are split and joined."""
    sizes = tuple(shape)
    if math.prod(sizes) != math.prod(source.shape) or not math.prod(sizes):
        return Layout(sizes, tuple(map(lost, sizes)), source.scores)
    left = [factor for axis in source.axes for factor in axis][::-1]  # the next one last
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
        # Layouts of length 1 go where they were: one query may have joined an axis of heads.
        is_before_one = sizes[place + 1 : place + 2] == (1,)
        while left and left[-1][1] == 1 and not (is_before_one and (size > 1 or parts)):
            parts.append(left.pop())
        if _are_shuffled([(origin, n) for origin, n in parts if n > 1]):
            shuffled.add(place)
            parts = [(_without_names(parts[0][0]), size)]
        axes.append(tuple(parts))
    layout = Layout(sizes, tuple(axes), source.scores)
    return reordered(layout, shuffled) if shuffled else layout


def _are_shuffled(parts: Sequence[Factor]) -> bool:
    """Whether parts of a sequence are joined in another order than they were split in, or whether that is not known."""
    if any(origin.maker is not None for origin, _ in parts):
        return False
    if len({origin for origin, _ in parts}) > 1:
        return all(origin.is_lost and any(not cut.step for cut in origin.cuts) for origin, _ in parts)
    return any(outer.step != inner.step * n for (outer, _), (inner, n) in pairwise(parts))


def unordered(axis: Axis) -> Axis:
    """Tokens of which it is not known which they are, nor whether they are those of another such axis."""
    number = next(_numbers)
    return tuple((one.cut(Cut(-number, 0, n, n)), n) for one, n in axis)


_numbers = count(1)


def unnamed(layout: Layout, places: Collection[int] = (), before: Layout | None = None) -> Layout:
    """The same where tokens may stand in another order, so that they have no names.

    ``places``: the axes along which they do; so do those of another length than ``before``.
    """
    sizes = layout.shape if before is None or len(before.shape) != len(layout.shape) else before.shape
    moved = {place for place, size in enumerate(layout.shape) if place in places or size != sizes[place]}
    axes = (tuple((_without_names(origin), n) for origin, n in axis) for axis in layout.axes)
    return reordered(layout._replace(axes=tuple(axes)), moved)


def reordered(layout: Layout, places: Collection[int]) -> Layout:
    """The same with other tokens along these axes than before, or in another order: other axes are of other examples
    then, unless these are of heads."""
    of_examples = {one for one in origins_of(*(layout.axes[place] for place in places)) if one.maker is None}
    cut = Cut(-next(_numbers), 0, 0, 0)
    axes = []
    for place, axis in enumerate(layout.axes):
        if place not in places and of_examples:
            axis = tuple((o if o.maker is not None else o.replace(example=(o, cut)), n) for o, n in axis)
        axes.append(unordered(axis) if place in places else axis)
    return layout._replace(axes=tuple(axes))


def _without_names(origin: Origin) -> Origin:
    has_names = origin.rows or origin.patches or origin.reads
    return origin.replace(rows=None, patches=None, reads=frozenset()) if has_names else origin


def with_patches(axis: Axis, patches: Patches | None) -> Axis:
    """The same tokens, of which these are patches of an image; None: none is, or it is not known."""
    return tuple((o.replace(rows=None, patches=patches, is_lost=o.is_lost and patches is None), n) for o, n in axis)


def patches_along(axis: Axis) -> Patches | None:
    """The patches of an image that stand along an axis: rows and columns that were joined, or a sequence with them."""
    factors = [(origin, n) for origin, n in axis if n > 1]
    if not factors:
        return None
    last, n = factors.pop()
    if last.rows is None:
        return last.patches if not factors and last.patches and last.patches.length == n else None
    rows = [(last.rows, last.rows.size)] if last.rows.size > 1 else []
    if factors != rows or last.size != n:
        return None
    return Patches.of_image(last.rows.size, last.size)


def are_made(*features: Axis) -> bool:
    """Whether layers that were seen have made them all."""
    return all(any(origin.maker is not None for origin in origins_of(axis, all_of=True)) for axis in features)


def are_tokens(axis: Axis) -> bool:
    """Whether an axis is known, and of no features that layers have made."""
    return all(origin.maker is None and not origin.is_lost for origin in origins_of(axis))


def has_rows(axes: Sequence[Axis]) -> bool:
    """Whether some of these axes are of features that layers have made, and the others, such as of tokens, are not."""
    return len({origin.maker is None for origin in origins_of(*axes)}) > 1


def origins_of(*axes: Axis, all_of: bool = False) -> set[Origin]:
    """What axes come from; ``all_of``: the factors of length 1, too."""
    return {origin for axis in axes for origin, n in axis if n > 1 or all_of}


def has_features(origins: set[Origin]) -> bool:
    """Whether some of these are features that a layer has made, or of a tensor that was given."""
    return any(one.maker is not None or (one.given is not None and one.given[0] == one.given[1] - 1) for one in origins)
