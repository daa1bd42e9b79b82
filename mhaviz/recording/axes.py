"""Follows what the axes of a program's tensors were made of, to tell which are of heads and which of the batch.

Heads are what a program splits off the features that a layer makes: (batch, length, features) → (batch, length, heads,
d_key). So an axis is followed from there, as the product of its factors: a reshape splits and joins neighbours, other
views move whole axes, a function of single numbers leaves all in their places. At a product of queries and keys, the
factors of the features that are summed over are heads, wherever they stand, and all else before the queries is batch:
examples, windows, points in time. It does not matter where the batch is in a model's input, nor what sizes are equal.
"""

import math
import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from itertools import accumulate, count, zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.errors import MhavizError
from mhaviz.recording.functions import functions
from mhaviz.recording.inputs import Read, SeenInputs
from mhaviz.recording.looks import unseen
from mhaviz.recording.marks import Marks
from mhaviz.recording.patches import Patches
from mhaviz.recording.products import PRODUCTS, Product, addmm, einsum_of


@dataclass(slots=True, eq=False)
class Origin:
    """An axis as it was when it first came up. What is cut from it is equal to it.

    Attributes:
        size: its length.
        maker: of features, what tells the layer's matrix from others; None: no layer made it.
        parents: axes of features of which a layer has read a part alone: a layer that is shared by heads.
        given: of a tensor that was not seen to be computed, the place of this axis and the number of all.
        is_lost: whether it came of a function that may have put anything there.
        rows: of the columns of an image's patches, the axis of their rows.
        patches: of the tokens of a sequence, those that are patches of an image; None: none is, or it is not known.
        cuts: what was cut from it, one after the other.
        beside: what was cut from another axis that came of it: heads, beside the features of each.
        whole: what it was cut from; None: nothing was.
        reads: of the tokens of a sequence, the numbers of all look-ups that have made it; see ``ReadIds``.
        example: what was cut from another axis, with that axis: one of several examples; None: nothing.
        joined: what was joined to it, and it to: each axis, where it begins, and the length of all.
        source: what it was made of, in another number or among others; None: of nothing that is known.
        is_input: whether it is of what the program reads or has learned, and so made of nothing.
        through: of features, the numbers of the attentions whose outputs they are made of.
    """

    size: int
    maker: int | None = None
    parents: frozenset["Origin"] = frozenset()
    given: tuple[int, int] | None = None
    is_lost: bool = False
    rows: "Origin | None" = None
    patches: Patches | None = None
    reads: frozenset[Read] = frozenset()
    cuts: tuple["Cut", ...] = ()
    beside: "Cut | None" = None
    whole: "Origin | None" = None
    example: "tuple[Origin, Cut] | None" = None
    joined: "tuple[tuple[Axis, int, int], ...]" = ()
    source: "Origin | None" = None
    is_input: bool = False
    through: frozenset[int] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and (self.whole or self) is (other.whole or other)

    def __hash__(self) -> int:
        return id(self.whole or self)

    @property
    def sources(self) -> "set[Origin]":
        """It, and all that it is known to be made of."""
        joined = {origin for axis, _, _ in self.joined for origin, _ in axis if origin != self}
        found = {self, *({self.source} if self.source else ()), *joined}
        return found.union(*(one.sources for one in found - {self}))

    def cut(self, cut: "Cut", beside: bool = False) -> "Origin":
        """What is left of it."""
        if beside:
            return replace(self, beside=cut, whole=self.whole or self)
        joined = tuple((axis, at - cut.start, cut.n) for axis, at, _ in self.joined if cut.step == 1)
        return replace(self, cuts=(*self.cuts, cut), whole=self.whole or self, joined=joined)


class Cut(NamedTuple):
    """Every ``step``-th of ``size`` numbers from ``start`` on, ``n`` in all."""

    start: int
    step: int
    n: int
    size: int


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
    """A product: the axes of its factors that were summed over, and whether neither is a matrix, nor of scores."""

    summed: tuple[Axis, ...]
    are_scores: bool


class Layout(NamedTuple):
    """The axes of a tensor; ``scores``: the last product that it comes of."""

    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    scores: Summed | None = None


class Layouts:
    """The layouts of a program's tensors. ``inputs``: what look-ups have read."""

    def __init__(self, inputs: SeenInputs) -> None:
        self._layouts, self.inputs, self._here = Marks[Layout](), inputs, threading.local()

    def get(self, x: Tensor) -> Layout | None:
        """The layout of a tensor; None: nothing is known of it."""
        layout = self._layouts.get(x)
        return layout if layout is not None and layout.shape == x.shape else None

    def of(self, x: Tensor, is_input: bool = False) -> Layout:
        """The layout of a tensor, which begins here if it was not seen to be computed.

        ``is_input``: whether the program has been given it.
        """
        layout = self.get(x)
        if layout is None:
            layout = _given(x.shape, is_input or type(x) is nn.Parameter)
            if x.is_floating_point():  # numbers of tokens are read once
                self._layouts.set(x, layout)
        return layout

    def are_made(self, x: Tensor) -> bool:
        """Whether a tensor is known to be of rows, such as tokens, of features that a layer has made."""
        layout = self.get(x)
        return layout is not None and _has_rows(layout.axes)

    def are_features(self, x: Tensor, axis: int) -> bool:
        """Whether an axis is known to be of features that a layer has made."""
        layout = self.get(x)
        return layout is not None and any(origin.maker is not None for origin in _origins(layout.axes[axis]))

    def are_tokens(self, x: Tensor, axis: int) -> bool:
        """Whether an axis is known, and of no features that layers have made."""
        layout = self.get(x)
        return layout is not None and -axis <= len(layout.axes) and _are_of_tokens(layout.axes[axis])

    def sum_tokens_and_features(self, x: Tensor, places: Sequence[int]) -> bool:
        """Whether, of a product and one of it over these axes, one sums over features of layers, the other not."""
        layout = self.get(x)
        if layout is None or layout.scores is None:
            return False
        sums = layout.scores.summed, [layout.axes[place] for place in places]
        origins = [_origins(*axes) for axes in sums]
        is_known = not any(
            one.is_lost or (one.given and one.maker is None and one.given[0] == one.given[1] - 1)
            for several in origins
            for one in several
        )
        return is_known and {all(map(_are_of_tokens, axes)) for axes in sums} == {True, False}

    def take(self, result: Any, seen: Any) -> None:
        """Let what nobody saw being computed have the layouts of the same that was seen."""
        for x, one in zip(*((each if isinstance(each, tuple) else (each,)) for each in (result, seen)), strict=True):
            if isinstance(x, Tensor) and (layout := self.get(one)) is not None:
                self._layouts.set(x, layout)

    def before(self, x: Tensor) -> Layout:
        """The layout that a tensor had before its axes were moved in place."""
        return self._layouts.get(x) or Layout(tuple(x.shape), tuple(map(_lost, x.shape)))

    def of_call(self, query: Tensor, key: Tensor) -> Layout | None:
        """The layout of the scores of queries and keys, (…, length, features) each."""
        if key.ndim > query.ndim:
            return None
        letters = "ABCDEFGHIJKLMNOP"[: query.ndim - 2]
        product = Product((query, key), (f"{letters}xy", f"{letters[query.ndim - key.ndim :]}zy"), f"{letters}xz")
        return _product(self, product, (*query.shape[:-1], key.shape[-2]))

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether a function of these may make a tensor of which something is known."""
        return bool(kwargs) or func in _STARTS or bool(self._here.__dict__) or self._layouts.may_hold(args)

    def shown(self, attention: int) -> None:
        """Note that the function that runs is the attention of this number."""
        self._here.attention = attention

    def follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Follow a function that has run."""
        attention = self._here.__dict__.pop("attention", None)
        self._follow(func, args, kwargs, result)
        out = result[0] if isinstance(result, tuple | list) else result
        if attention is not None and isinstance(out, Tensor) and out.ndim and not out.is_nested:
            *before, features = self.of(out).axes
            through = frozenset([attention]).union(*(origin.through for origin, _ in features))
            features = tuple(
                (replace(origin, through=through, whole=origin.whole or origin), n) for origin, n in features
            )
            self._layouts.set(out, self.of(out)._replace(axes=(*before, features)))

    def _follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        if type(result) is Tensor:
            if result.is_nested:
                return
            layout = self._after(func, args, kwargs, result)
            if layout is not None and func in _PARTS:
                layout = _as_part(self.of(_source(args, kwargs)), _source(args, kwargs), layout, result)
            if layout is not None:
                self._layouts.set(result, layout)
                if func in _REPLACES:
                    self._replace(func, (*args, *kwargs.values()), result)
                elif func in _FILLS:
                    for one, layout in self._layouts.of_memory(result):
                        self._layouts.set(one, _in_any_order(layout, layout))
        elif func in _CUTS and args and isinstance(args[0], Tensor):
            source = self.of(args[0])
            dim = kwargs.get("dim", 0 if func in _UNBINDS else None)
            for one in copy(result):  # a loop over a tensor has yet to take from it
                named = args[1] if func in _UNBINDS and len(args) > 1 else dim
                self._layouts.set(one, _as_part(source, args[0], _cut(source, one.shape, named), one))
        elif func in _SORTS and self.get(args[0]) is not None:
            source = self.of(args[0])
            dim = kwargs.get("dim", next(iter(args[_SORTS[func] :]), -1)) % len(source.shape)
            if dim < len(source.shape) - 1:
                source = _cut(source, result[0].shape)
                self._layouts.set(result[0], _with_unordered(_in_any_order(source, source), {dim}))
        elif func in _SEVERAL and type(result) is tuple and self.get(args[0]) is not None:
            self._layouts.set(result[0], _cut(self.of(args[0]), result[0].shape))
        elif result is None and func is _SET_ITEM:
            is_known = self.write(*args)
            self._layouts.set(args[0], _put(self, func, args, kwargs, args[0]))
            if not is_known:
                self._replace(func, args, args[0])

    def write(self, x: Tensor, index: Any, values: Any) -> bool:
        """Note that values were written into a part of a tensor: tokens that are not their own lose their names.

        Those of the same sequence that are written to another place are not known any more. Returns whether it is
        known where: not of one number, or where a mask tells.
        """
        items = tuple(_slice_of(item) for item in (index if isinstance(index, tuple) else (index,)))
        is_mask = any(isinstance(item, Tensor) and item.dtype == torch.bool for item in items)
        if not isinstance(values, Tensor) or not values.ndim or is_mask or x.is_meta:
            return False
        with unseen():
            view = x[items]
        read = self.get(values)
        if read is not None and self.get(x) is None and x.ndim == view.ndim == values.ndim:
            self._layouts.set(x, Layout(tuple(x.shape), tuple(map(_first, map(_uncut, read.axes), x.shape))))
        into = _as_part(self.of(x), x, _index(self, None, (x, items), {}, view), view)
        pairs = [
            (_part(axis), _part(written))
            for axis, written in zip_longest(into.axes[::-1], () if read is None else read.axes[::-1], fillvalue=())
            if axis and all(origin.maker is None for origin in _origins(axis))
        ]
        if view.ndim == x.ndim and all(own is not None and own.step and own == written for own, written in pairs):
            return True
        moved = {own.of for own, written in pairs if own and written and not _stays(own, written)}
        named = any(origin.reads or origin.patches or origin.rows for axis in self.of(x).axes for origin, _ in axis)
        for one, layout in self._layouts.of_memory(x) if moved or named or x._is_view() else ():
            places = {place for place, axis in enumerate(layout.axes) if _origins(axis) & moved}
            self._layouts.set(one, _with_unordered(_in_any_order(layout, layout), places))
        return True

    def _replace(self, func: Any, args: Sequence[Any], result: Tensor) -> None:
        """Note which tokens of texts others stand in the place of, where a mask, an index or factors of 0 tell."""
        layout = self.of(result)
        are_scores = layout.scores is not None and layout.scores.are_scores
        reads = _reads_along(layout.axes[-2]) if len(layout.axes) in (2, 3) and not are_scores else None
        is_captured = result.is_cuda and torch.cuda.is_current_stream_capturing()
        if not reads or is_captured or any(isinstance(x, Tensor) and not _is_readable(x) for x in args):
            return
        for x, other, rows_of in _replacing(func, args, result):
            read, beside = (self.get(one) if isinstance(one, Tensor) else None for one in (x, other))
            own = read.axes[-2] if read is not None and len(read.axes) > 1 else ()
            if not _reads_along(own) or (beside is not None and _cuts(own) in map(_cuts, beside.axes[-2:-1])):
                continue  # nothing, or what a layer has made of the same tokens
            with unseen():
                replaced = rows_of().expand(result.shape).all(-1).view(-1, result.shape[-2])
                if replaced.any():
                    reads = reads - _reads_along(own) | self.inputs.replace(_reads_along(own), replaced)
        tokens = tuple((replace(o, reads=reads, whole=o.whole or o) if o.reads else o, n) for o, n in layout.axes[-2])
        self._layouts.set(result, layout._replace(axes=(*layout.axes[:-2], tokens, layout.axes[-1])))

    def _after(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
        way = _WAYS.get(func)
        if way is not None:
            return way(self, func, args, kwargs, result)
        return self.alike(args, kwargs, result.shape)

    def alike(self, args: Sequence[Any], kwargs: dict[str, Any], shape: torch.Size) -> Layout | None:
        """The layout of what a function has made that leaves all numbers in their places, or cuts some off."""
        same, other = None, None
        for x in (*args, *kwargs.values()) if kwargs else args:
            if type(x) is list or type(x) is tuple:
                x = next((one for one in x if self._layouts.get(one) is not None), None)
            layout = self._layouts.get(x)
            if layout is None:
                continue
            if layout.shape != shape:
                other = other or layout
            elif layout.scores is not None and layout.scores.are_scores:  # rather than of a mask
                return layout
            else:
                same = layout if same is None else _with_reads_of(same, layout)
        if same is not None or other is None:
            return same
        return _cut(other, shape, kwargs.get("dim", args[1] if len(args) > 1 else None))


def _is_readable(x: Tensor) -> bool:
    return not (x.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(x))


def _replacing(func: Any, args: Sequence[Any], result: Tensor) -> list[tuple[Any, Any, Callable[[], Tensor]]]:
    """Of a function of several tensors: each, what stands in its place in the result, and gives bool: where it does."""
    x, other, *rest = args
    if func in _WHERES:
        mask, x, other = args[:3] if func is torch.where else (other, x, *rest)
        return [(x, other, lambda: ~mask), (other, x, lambda: mask)]
    if func in _LERPS:
        share = torch.as_tensor(rest[0])
        return [(x, other, lambda: share == 1), (other, x, lambda: share == 0)]
    if func in _TIMES:
        length = result.shape[-2]
        pairs = [(x, other), (other, x)]
        factors = [(one, by) for one, by in pairs if isinstance(by, Tensor) and by.ndim > 1 and by.shape[-2] == length]
        return [(one, by, partial(torch.eq, by, 0)) for one, by in factors]

    def written() -> Tensor:
        there = torch.zeros(result.shape, dtype=torch.bool, device=result.device)
        if func is _SET_ITEM:
            there[other] = True
            return there
        return there.index_fill(other, rest[0], True) if func in _INDEX_FILLS else there.masked_fill(other, True)

    return [(x, args[-1], written)]


def _as_part(source: Layout, x: Tensor, layout: Layout, result: Tensor) -> Layout:
    """The layout of a view, with what it has kept of each axis."""
    try:
        if result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():
            return layout
        first: Any = result.storage_offset() - x.storage_offset()
        last: Any = first + sum((n - 1) * stride for n, stride in zip(result.shape, result.stride(), strict=True))
    except (RuntimeError, NotImplementedError):  # of tensors without storage
        return layout
    axes, scores = list(layout.axes), layout.scores
    for place in sorted(range(x.ndim), key=x.stride().__getitem__, reverse=True):
        stride, size, axis = int(x.stride(place)), x.shape[place], source.axes[place]
        if size < 2 or not stride:
            continue
        (start, first), (end, last) = divmod(first, stride), divmod(last, stride)
        if len(_origins(axis)) != 1:
            continue
        (origin,) = _origins(axis)
        kept = [
            (one, n, result.stride(one) // stride)
            for one, n in enumerate(result.shape)
            if n > 1 and result.stride(one) * (n - 1) == (end - start) * stride
        ]
        if start == end:
            kept = [(one, 1, 1) for one, axis in enumerate(axes) if result.shape[one] == 1 and origin in dict(axis)]
        own, n, step = kept[0] if len(kept) == 1 else (-1, 1, 1)
        cut = Cut(start, step, n, size)
        if cut.n == size or (start < end and own < 0):
            continue
        is_made = any(one.maker is not None for one, _ in source.axes[-1])
        may_be_head = origin.maker is not None or (not is_made and origin.given in ((1, 4), (2, 4)))
        is_first = place == 0 and (origin.is_lost or (origin.given or (1,))[0] == 0)
        is_example = not may_be_head and (is_first or own < 0)
        for one, factors in enumerate(axes):
            if one == own or scores is None or size * dict(factors).get(origin, 1) <= origin.size:  # no other side
                axes[one] = _with_cut(factors, origin, cut, beside=one != own)
            if is_example:
                axes[one] = tuple((replace(o, example=(origin, cut), whole=o.whole or o), n) for o, n in axes[one])
        if scores is not None:
            summed = tuple(_with_cut(factors, origin, cut, beside=True) for factors in scores.summed)
            scores = replace(scores, summed=summed)
    return layout._replace(axes=tuple(axes), scores=scores)


def _with_cut(axis: Axis, origin: Origin, cut: Cut, beside: bool) -> Axis:
    return tuple((one.cut(cut, beside) if one == origin else one, n) for one, n in axis)


def _part(axis: Axis) -> Part | None:
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


def _parts_along(query: Axis, key: Axis) -> tuple[Part | None, Part | None]:
    """The tokens along queries and keys, which may be those of the queries with others joined to them, or mixtures."""
    own, part = _part(query), _part(key)
    if len(key) != 1 or math.prod(n for _, n in query) < 2:
        return own, part
    ((origin, n),), of = key, query[0][0]
    for axis, at, size in origin.joined:
        if size == n and _cuts(axis) == _cuts(query) and (own is None or own.is_first):
            sequence = replace(of, size=math.prod(n for _, n in query), cuts=(), whole=of.whole or of)
            return own or Part(sequence, 0, 1, sequence.size), Part(sequence, -at, 1, n)
    if len(query) > 1:
        return own, part
    if origin == of:
        is_known = part is not None or key == query
    else:
        is_mixed = origin.maker is not None and of.maker is None
        is_known = not is_mixed and all(of not in _origins(axis, all_of=True) for axis, _, _ in origin.joined)
    return own, part if is_known else Part(origin, -1, 0, n)


def _are_same(query: Axis, key: Axis, is_made: bool) -> bool | None:
    """Whether queries and keys are known tokens of the same sequence; None: not known.

    ``is_made``: whether their features are of layers that were seen: what made others, they may have in common.
    """
    (own, part), reads = _parts_along(query, key), (_reads_along(query), _reads_along(key))
    in_order = own is not None and part is not None and own.step and part.step and own.of == part.of
    if in_order or (query and _cuts(query) == _cuts(key)):
        texts = [{text for text, _ in several} for several in reads]
        return True if not all(texts) or texts[0] == texts[1] else None
    sources, others = ({one for origin, _ in axis for one in origin.sources} for axis in (query, key))
    is_known = sources and others and all(one.is_input or one.source or one.joined for one in sources | others)
    return False if is_made and is_known and sources.isdisjoint(others) else None


def _cuts(axis: Axis) -> list[tuple[object, ...]]:
    """What tells tokens along an axis from others that were cut from the same."""
    return [(origin, n, origin.cuts, origin.beside) for origin, n in axis]


def _uncut(axis: Axis) -> Axis:
    """Tokens as if all of the sequence were there."""
    return tuple((replace(o, cuts=(), whole=o.whole or o) if o.maker is None and o.cuts else o, n) for o, n in axis)


def _stays(own: Part, written: Part) -> bool:
    """Whether tokens are written to where they come from, or a whole sequence to one place of another."""
    if not written.step or not own.step:
        return False
    return own.step == 1 if written.n == written.of.size else own[1:] == written[1:]


def _slice_of(item: Any) -> Any:
    """A tensor of numbers that follow one another, as of a cache's places, as a slice."""
    if not isinstance(item, Tensor) or item.ndim != 1 or item.dtype == torch.bool or not len(item):
        return item
    if item.is_cuda and torch.cuda.is_current_stream_capturing():  # its numbers cannot be read
        return slice(len(item))
    with unseen():
        first, n = int(item[0]), len(item)
        return slice(first, first + n) if item.tolist() == list(range(first, first + n)) else item


def _given(shape: Sequence[int], is_input: bool) -> Layout:
    sizes = tuple(shape)
    origins = (Origin(n, given=(place, len(sizes)), is_input=is_input) for place, n in enumerate(sizes))
    return Layout(sizes, tuple(((origin, origin.size),) for origin in origins))


def _lost(size: int) -> Axis:
    return ((Origin(size, is_lost=True), size),)


def _made(size: int, maker: object, read: Sequence[Axis]) -> Axis:
    """Features that a layer makes of those that it reads."""
    factors = [factor for axis in read for factor in axis if factor[1] > 1]
    parents: frozenset[Origin] = frozenset()
    if len(factors) == 1:
        ((origin, n),) = factors
        parents = origin.parents | ({origin} if n < origin.size else frozenset())
    return ((Origin(size, maker=id(maker), parents=parents, through=_through(*read)), size),)


def _through(*axes: Axis) -> frozenset[int]:
    return frozenset(number for axis in axes for origin, _ in axis for number in origin.through)


def _fitted(axis: Axis, size: int) -> Axis:
    """The same axis when it has another length: cut, or with more behind it."""
    if math.prod(n for _, n in axis) == size:
        return axis
    origins = _origins(axis)
    return ((_unread(origins.pop()), size),) if len(origins) == 1 else _lost(size)


def _first(axis: Axis, size: int) -> Axis:
    """So many tokens from the first on: those that were read and what has been put behind them, or a part of both."""
    ((origin, n),) = axis if len(axis) == 1 else _lost(size)
    return ((origin, size),) if origin.reads and min(n, size) >= origin.size else _fitted(axis, size)


def _unread(origin: Origin) -> Origin:
    return replace(origin, reads=frozenset(), whole=origin.whole or origin) if origin.reads else origin


def _reads_along(axis: Axis) -> frozenset[Read]:
    found = [(origin, n) for origin, n in axis if origin.reads]
    return found[0][0].reads if len(found) == 1 and found[0][0].size <= found[0][1] else frozenset()


def _with_reads_of(layout: Layout, other: Layout) -> Layout:
    """The layout of a sum, such as of embeddings of tokens and of their types, or of what two layers have made."""
    if layout.axes is other.axes:
        return layout
    axes = list(layout.axes)
    for place, (axis, beside) in enumerate(zip(layout.axes, other.axes, strict=True)):
        reads, through = _reads_along(beside) - _reads_along(axis), _through(beside) - _through(axis)
        if (reads or through) and len(axis) == 1:
            ((origin, n),) = axis
            reads, through = origin.reads | reads, origin.through | through
            axes[place] = ((replace(origin, reads=reads, through=through, whole=origin.whole or origin), n),)
    return layout._replace(axes=tuple(axes))


def _cut(source: Layout, shape: Sequence[int], dim: Any = None) -> Layout:
    """What a function that is not known leaves of a layout: where one axis is another length, or ``dim`` is gone."""
    sizes, ndim = tuple(shape), len(source.shape)
    axes = source.axes
    if len(sizes) == ndim - 1 and isinstance(dim, int):
        place = dim % ndim
        if sizes == source.shape[:place] + source.shape[place + 1 :]:
            return Layout(sizes, axes[:place] + axes[place + 1 :], source.scores)
    changed = sum(one != other for one, other in zip(sizes, source.shape, strict=False))
    if len(sizes) != ndim:
        axes = tuple(map(_lost, sizes))
    elif changed == 1:
        axes = tuple(map(_fitted, axes, sizes))
    else:
        pairs = zip(axes, sizes, source.shape, strict=True)
        axes = tuple(axis if size == before else _lost(size) for axis, size, before in pairs)
    return Layout(sizes, axes, source.scores)


def _regrouped(source: Layout, shape: Sequence[int]) -> Layout:
    """What a reshape makes of a layout: neighbours are split and joined."""
    sizes = tuple(shape)
    if math.prod(sizes) != math.prod(source.shape) or not math.prod(sizes):
        return Layout(sizes, tuple(map(_lost, sizes)), source.scores)
    left = [factor for axis in source.axes for factor in axis][::-1]  # the next one last
    axes: list[Axis] = []
    for place, size in enumerate(sizes):
        parts: list[Factor] = []
        missing = size
        while missing > 1:
            origin, n = left.pop() if left else (None, 0)
            if origin is None or (missing % n and n % missing):  # no factor ends here: what follows is not known either
                return Layout(sizes, (*axes, *map(_lost, sizes[place:])), source.scores)
            parts.append((origin, min(n, missing)))
            if n > missing:
                left.append((origin, n // missing))
            missing //= min(n, missing)
        # Layouts of length 1 go where they were: one query may have joined an axis of heads.
        is_before_one = sizes[place + 1 : place + 2] == (1,)
        while left and left[-1][1] == 1 and not (is_before_one and (size > 1 or parts)):
            parts.append(left.pop())
        axes.append(tuple(parts))
    return Layout(sizes, tuple(axes), source.scores)


Way = Callable[[Layouts, Any, Sequence[Any], dict[str, Any], Tensor], Layout | None]
"""Gives the layout of what a function has made."""


def _source(args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    x: Tensor = args[0] if args else kwargs["input"]
    return x


def _reshape(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    return _regrouped(axes.of(_source(args, kwargs)), result.shape)


def _permute(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    x = _source(args, kwargs)
    source = axes.before(x) if x is result else axes.of(x)
    named = tuple((name, _hashable(one)) for name, one in kwargs.items() if name != "input")
    order = _order_after(func, len(source.shape), tuple(map(_hashable, args[1:])), named)
    return Layout(tuple(result.shape), tuple(source.axes[place] for place in order), source.scores)


@lru_cache(1024)
def _order_after(func: Any, ndim: int, rest: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> tuple[int, ...]:
    """Where a function that moves axes takes each from: told by their lengths, where all differ."""
    with unseen():
        moved = func(torch.empty(tuple(range(ndim)), device="meta"), *rest, **dict(named))
    return tuple(moved.shape)


def _hashable(x: Any) -> Any:
    return tuple(x) if isinstance(x, list | torch.Size) else x


def _resize(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    source = axes.of(_source(args, kwargs))
    return Layout(tuple(result.shape), tuple(map(_fitted, source.axes, result.shape)), source.scores)


def _take(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    source = axes.of(_source(args, kwargs))
    layout = _in_any_order(_cut(source, result.shape), source)
    if len(layout.axes) != len(result.shape):
        return layout
    if func in _FLIPS:
        dims = _FLIPS[func]
    elif func in _TURNS:
        dims = kwargs.get("dims", args[-1] if len(args) > (2 if func in _ROLLS else 1) else ())
    else:
        dims = kwargs.get("dim", next((one for one in args[1:] if isinstance(one, int)), ()))
    turned = {dim % result.ndim for dim in (dims if isinstance(dims, list | tuple) else (dims,)) if dim is not None}
    return _with_unordered(layout, turned)


def _with_unordered(layout: Layout, places: set[int]) -> Layout:
    return layout._replace(axes=tuple(_unordered(a) if place in places else a for place, a in enumerate(layout.axes)))


def _unordered(axis: Axis) -> Axis:
    """Tokens of which it is not known which they are, nor whether they are those of another such axis."""
    number = next(_numbers)
    return tuple((one.cut(Cut(-number, 0, n, n)), n) for one, n in axis)


_numbers = count(1)


def _keep(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return _cut(axes.of(_source(args, kwargs)), result.shape, dim)


def _pad(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    """Where more than features are padded, others may take the place of tokens, as in a shift."""
    layout = _resize(axes, func, args, kwargs, result)
    widths = args[1] if len(args) > 1 else kwargs["pad"]
    if len(widths) < 3:
        return layout
    shifted = {result.ndim - 1 - at // 2 for at in range(2, len(widths), 2) if widths[at]}
    return _with_unordered(_in_any_order(layout, layout), shifted)


def _in_any_order(layout: Layout, source: Layout) -> Layout:
    """The same, where tokens may stand in another order: which they are is not known any more."""
    axes = (
        tuple(
            (replace(one, rows=None, patches=None, reads=frozenset(), whole=one.whole or one), n)
            if one.rows or one.patches or one.reads
            else (one, n)
            for one, n in axis
        )
        for axis in layout.axes
    )
    before = source.shape if len(source.shape) == len(layout.shape) else layout.shape
    several = zip(axes, layout.shape, before, strict=True)
    return layout._replace(axes=tuple(_unordered(axis) if n != old else axis for axis, n, old in several))


def _expand(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    """New axes come first; one of length 1 that is repeated may be anything."""
    source, sizes = axes.of(_source(args, kwargs)), tuple(result.shape)
    new = len(sizes) - len(source.shape)
    kept = (
        axis if size == before else _unordered(_fitted(axis, size)) if before > 1 else _lost(size)
        for axis, size, before in zip(source.axes, sizes[new:], source.shape, strict=True)
    )
    return Layout(sizes, (*map(_lost, sizes[:new]), *kept), source.scores)


def _index(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    source, sizes = axes.of(args[0]), tuple(result.shape)
    items = args[1] if isinstance(args[1], tuple) else (args[1],)
    left, kept = list(source.axes), list[Axis]()
    n_named = sum(item is not None and item is not Ellipsis for item in items)
    is_one_list = sum(item is not Ellipsis and not isinstance(item, slice) for item in items) == 1
    for item in items:
        if item is None:
            kept.append(())
        elif item is Ellipsis:
            n = len(left) - n_named
            kept, left = kept + left[:n], left[n:]
        elif isinstance(item, list) and is_one_list and all(origin.maker is not None for origin, _ in left[0]):
            n_named -= 1
            kept, left = [*kept, left[0]], left[1:]
        elif isinstance(item, bool) or not isinstance(item, int | slice):
            layout = _in_any_order(_cut(source, sizes), source)
            is_reordered = is_one_list and len(sizes) == len(source.shape)
            return _with_unordered(layout, {len(kept)} if is_reordered else set())
        else:
            n_named -= 1
            kept += [_sliced(left[0], item)] if isinstance(item, slice) else []
            del left[:1]
    kept += left
    if len(kept) != len(sizes):
        return _in_any_order(_cut(source, sizes), source)
    return Layout(sizes, tuple(map(_fitted, kept, sizes)), source.scores)


def _sliced(axis: Axis, item: slice) -> Axis:
    """Tokens that are left of a sequence: patches are known if all are among them."""
    patches, size = _patches_along(axis), math.prod(n for _, n in axis)
    start, stop, step = item.indices(size)
    if (start, step) == (0, 1) and patches is None:
        return _first(axis, stop)
    if patches is None or (start, stop, step) == (0, size, 1):
        return axis
    is_whole = step == 1 and all(start <= one[0] and one[-1] < stop for one in patches.places)
    return _with_patches(axis, stop - start, patches.moved(-start) if is_whole else None)


def _with_patches(axis: Axis, size: int, patches: Patches | None) -> Axis:
    """Tokens of which others are patches than of those that they come from."""
    ((origin, _),) = _fitted(axis, size) if len(_origins(axis)) == 1 else _lost(size)
    is_lost = origin.is_lost and patches is None
    return ((replace(origin, size=size, is_lost=is_lost, rows=None, patches=patches, source=origin), size),)


def _patches_along(axis: Axis) -> Patches | None:
    """The patches of an image that stand along an axis: rows and columns that were joined, or a sequence with them."""
    factors = [(origin, n) for origin, n in axis if n > 1]
    if not factors or any(origin.size != n for origin, n in factors):
        return None
    last = factors.pop()[0]
    if last.rows is None:
        return None if factors else last.patches
    if [origin for origin, _ in factors] != ([last.rows] if last.rows.size > 1 else []):
        return None
    return Patches.of_image(last.rows.size, last.size)


def _copy(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
    values = (*args, *kwargs.values())[1]
    axes.write(result, ..., values)
    source = axes.get(values)
    return source if source and source.shape == result.shape else _scatter(axes, func, args, kwargs, result)


def _index_copy(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
    x, dim, index, values = (*args, *(kwargs[name] for name in ("input", "dim", "index", "source") if name in kwargs))
    axes.take(result, x)
    axes.write(result, (*[slice(None)] * (dim % x.ndim), index), values)
    return axes.get(result)


def _scatter(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
    layout = axes.alike(args, kwargs, result.shape)
    if layout is None:
        return None
    layout = _in_any_order(layout, layout)
    if func not in _SCATTERS:
        return layout
    dim, index = (*args[1:3], *(kwargs[name] for name in ("dim", "index") if name in kwargs))[:2]
    if dim % result.ndim == result.ndim - 1:
        return layout
    with unseen():
        rows = (index.movedim(dim, -1) if index.ndim > 1 else index[None]).flatten(0, -2)
        least, most = rows.amin(0), rows.amax(0)
    first, last = _slice_of(least), _slice_of(most)
    in_order = type(first) is type(last) is slice and first == last
    return layout if in_order else _with_unordered(layout, {dim % result.ndim})


def _put(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    """Features of an image that take the place of tokens of a text, where a mask is true; see ``Patches.is_text``."""
    x, mask, features = (*args, *(kwargs[name] for name in ("input", "mask", "source") if name in kwargs))[:3]
    text, made = axes.of(x), axes.get(features)
    is_mask = isinstance(mask, Tensor) and mask.dtype == torch.bool
    if made is None or len(text.shape) != 3 or not is_mask:
        return text
    if mask.ndim not in (2, 3) or mask.shape[:2] != text.shape[:2] or made.shape[-1:] != text.shape[-1:]:
        return text
    rows = [factor for axis in made.axes[:-1] for factor in axis if factor[1] > 1]
    found = next((one for at in range(len(rows)) if (one := _patches_along(tuple(rows[at:])))), None)
    if found is None or torch._C._functorch.is_functorch_wrapped_tensor(mask):
        return text
    with unseen():
        places = tuple(tuple(row.nonzero()[:, 0].tolist()) for row in (mask if mask.ndim == 2 else mask[..., 0]))
    fits = found.are_all and all(len(one) == math.prod(found.grid) for one in places)
    tokens = _with_patches(text.axes[1], text.shape[1], Patches(found.grid, places, is_text=True) if fits else None)
    return text._replace(axes=(text.axes[0], tokens, text.axes[2]))


def _stack(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
    """A new axis is of heads where each part was made by a layer of its own, or all are cut from one's features."""
    parts, layouts, source = _parts(axes, args, kwargs)
    if source is None:
        return None
    dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % result.ndim
    source = _read_by_all(source, parts, layouts, -1)
    new, old = _lost(len(parts)), list(source.axes)
    ends = [layout.axes[-1] for layout in layouts if layout is not None and layout.axes]
    makers = {end[0][0].maker for end in ends if len(end) == 1} - {None}
    found = _cut_from(parts, layouts, range(len(old))[::-1])
    if len(makers) == len(parts) > 1:
        whole = Origin(len(parts) * source.shape[-1], maker=next(iter(makers)))
        found = -1, ((whole, len(parts)),), ((whole, source.shape[-1]),)
    if found is not None and dim < len(old):
        place, new, each = found
        old[place] = each
    layout = Layout(tuple(result.shape), (*old[:dim], new, *old[dim:]), source.scores)
    origins = [_origins(*one.axes, all_of=True) if one else set[Origin]() for one in layouts]
    in_place = all(not o.example or o.example[1].start == place for place, of in enumerate(origins) for o in of)
    return layout if in_place else _with_unordered(_in_any_order(layout, layout), {dim})


def _cat(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout | None:
    """Heads that are cut from features stand before the batch that they join: (n_heads · batch, length, d_key); so do
    windows of a sequence."""
    parts, layouts, source = _parts(axes, args, kwargs)
    if source is None:
        return None
    dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % result.ndim
    found = _cut_from(parts, layouts, [place for place in range(result.ndim)[::-1] if place != dim])
    if found is None or dim == result.ndim - 1:
        layout = _cut(_read_by_all(source, parts, layouts, dim), result.shape)
        sizes = [x.shape[dim] if x.ndim > dim else 0 for x in parts]
        along = [one and one.axes[dim] for one in layouts]
        tokens = _joined_tokens(sizes, along)
        if tokens is None and layouts[0] is source and dim < len(source.axes):
            tokens = _first(source.axes[dim], result.shape[dim])
        if tokens is not None:
            layout = layout._replace(axes=(*layout.axes[:dim], tokens, *layout.axes[dim + 1 :]))
        if len(layout.axes[dim]) == 1:
            n = result.shape[dim]
            starts = accumulate(sizes, initial=0)
            beginnings = [(x, at) for x, at in zip(parts, starts, strict=False) if x.numel()]
            joined = tuple((_with_joined(axes.of(x).axes[dim] or _lost(1)), at, n) for x, at in beginnings)
            tokens = _with_joined(layout.axes[dim], joined)
            layout = layout._replace(axes=(*layout.axes[:dim], tokens, *layout.axes[dim + 1 :]))
        in_order = _are_in_order(sizes, along)
        return layout if in_order else _with_unordered(_in_any_order(layout, layout), {dim})
    place, number, each = found
    kept = list(source.axes)
    kept[place], kept[dim] = each, (*number, *kept[dim])
    return Layout(tuple(result.shape), tuple(kept), source.scores)


def _joined_along(
    dim: int, axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor
) -> Layout | None:
    return _cat(axes, func, args, {**kwargs, "dim": dim}, result) if result.ndim > 1 else None


def _unfold(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    """Windows, which are an axis more: which token is where in a window is not known."""
    layout = _cut(axes.of(_source(args, kwargs)), result.shape)
    return _with_unordered(layout, {result.ndim - 1})


def _are_in_order(sizes: Sequence[int], parts: Sequence[Axis | None]) -> bool:
    """Whether tokens that are joined stand where they come from, or all are there in their order, as far as is known.

    A part that is shifted, with others gone, would be taken for the tokens that it has come in place of.
    """
    if sum(size > 0 for size in sizes) < 2:  # as of a cache that was empty
        return True
    places, shifted, start = dict[Origin, list[int]](), set[Origin](), 0
    for size, axis in zip(sizes, parts, strict=True):
        origins = [origin for origin, _ in axis or () if origin.maker is None]
        if any(not cut.step for origin in origins for cut in origin.cuts):
            return False
        part = _part(axis) if axis and origins else None
        if part is not None and part.step and size < part.of.size:
            places.setdefault(part.of, []).extend(part.places)
            shifted |= {part.of} if part.places != range(start, start + size) else set()
        start += size
    return all(
        several == (list(range(of.size)) if of in shifted else sorted(several)) for of, several in places.items()
    )


def _with_joined(axis: Axis, joined: tuple[tuple[Axis, int, int], ...] = ()) -> Axis:
    return tuple((replace(origin, joined=joined, whole=origin.whole or origin), n) for origin, n in axis)


def _read_by_all(source: Layout, parts: Sequence[Tensor], layouts: Sequence[Layout | None], dim: int) -> Layout:
    """The layout of the first of several that are joined: of their features, of one text, or of no text."""
    filled = [layout for x, layout in zip(parts, layouts, strict=True) if x.numel()]
    if dim == len(source.shape) - 1:
        return reduce(_with_reads_of, [layout for layout in filled if layout is not None], source)
    reads = {tuple(map(_reads_along, layout.axes)) if layout is not None else () for layout in filled}
    return source if len(reads) < 2 else _in_any_order(source, source)


def _joined_tokens(sizes: Sequence[int], parts: Sequence[Axis | None]) -> Axis | None:
    """Tokens of which some are patches, with others before them and behind them; or the patches of several images."""
    found = [(place, axis, one) for place, axis in enumerate(parts) if axis and (one := _patches_along(axis))]
    if not found:
        return None
    place, axis, patches = found[0]
    if len(found) == 1:
        return _with_patches(axis, sum(sizes), patches.moved(sum(sizes[:place])))
    is_batch = len(found) == len(parts) and all(one.are_all and one == patches for _, _, one in found)
    return (*_lost(len(parts)), *axis) if is_batch else _with_patches(axis, sum(sizes), None)


def _parts(
    axes: Layouts, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Tensor], list[Layout | None], Layout | None]:
    """What is stacked or joined, the layout of each, and the first that is known."""
    parts = args[0] if args else kwargs["tensors"]
    layouts = [axes.get(x) for x in parts]
    return parts, layouts, next((layout for layout in layouts if layout is not None), None)


def _cut_from(
    parts: Sequence[Tensor], layouts: Sequence[Layout | None], places: Sequence[int]
) -> tuple[int, Axis, Axis] | None:
    """The axis, of these, of which all parts are cut from one: its place, the parts as factors of a new one, and what
    each has; None: they are not. Features are cut along the last axis, windows of tokens along others."""
    if len({id(x) for x in parts}) < len(parts) or len({x.shape for x in parts}) > 1 or None in layouts:
        return None
    for place in places:
        several = [layout.axes[place] for layout in layouts if layout is not None]
        origins = [axis[0][0] for axis in several if len(axis) == 1]
        is_last = place == parts[0].ndim - 1
        if len(origins) == len({(one, one.cuts, one.beside) for one in origins}) == len(parts) > 1 == len({*several}):
            ((origin, n),) = several[0]
            if (origin.maker is not None) == is_last and origin.size % (len(parts) * n) == 0:
                whole = replace(origin, cuts=(), beside=None, whole=origin.whole or origin)
                return place, ((whole, len(parts)),), ((whole, n),)
    return None


def _linear(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    x, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
    source = axes.of(x)
    if _mixes(source, result):
        return source
    made = _made(result.shape[-1], weight, source.axes[-1:])
    return Layout(tuple(result.shape), (*source.axes[:-1], made))


def _convolve(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    x, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
    source, place = axes.of(x), x.ndim - weight.ndim + 1
    if _mixes(source, result):
        return source
    made = _made(result.shape[place], weight, source.axes[place : place + 1])
    kept = tuple(map(_fitted, source.axes, result.shape))
    stride = args[3] if len(args) > 3 else kwargs.get("stride", 1)
    kernel = tuple(weight.shape[2:])
    if len(kernel) == 2 and kernel == (tuple(stride) if isinstance(stride, list | tuple) else (stride,) * 2) != (1, 1):
        kept = (*kept[:-2], *_grid(kept[-2:], result.shape[-2:]))
    return Layout(tuple(result.shape), (*kept[:place], made, *kept[place + 1 :]))


def _grid(axes: Sequence[Axis], sizes: Sequence[int]) -> tuple[Axis, Axis]:
    """The patches that a convolution cuts an image into, where its steps are as wide as its kernel."""
    rows, columns = (
        replace(axis[0][0], size=n, source=axis[0][0]) if len(axis) == 1 else Origin(n, is_lost=True)
        for axis, n in zip(axes, sizes, strict=True)
    )
    columns.rows = rows
    return ((rows, sizes[0]),), ((columns, sizes[1]),)


def _mixes(source: Layout, result: Tensor) -> bool:
    """Whether a layer mixes scores or weights, each of which stays in its place."""
    are_scores = source.scores is not None and source.scores.are_scores
    return are_scores and result.ndim > 3 and result.shape == source.shape


def _embed(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    ids, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
    *others, tokens = axes.of(ids).axes or ((),)
    before = [tuple((replace(o, whole=o.whole or o, is_input=True), n) for o, n in axis) for axis in others]
    number = axes.inputs.read(ids, weight.shape[0])
    if number is not None:
        ((origin, n),) = tokens if len(tokens) == 1 else _lost(ids.shape[-1])
        tokens = ((replace(origin, size=n, reads=frozenset([number]), is_input=True), n),)
    return Layout(tuple(result.shape), (*before, tokens, _made(result.shape[-1], weight, ())))


def _as_complex(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    source = axes.of(_source(args, kwargs))
    kept = (*source.axes, _lost(2)) if result.ndim > len(source.shape) else source.axes[:-1]
    return Layout(tuple(result.shape), kept, source.scores)


def _sdpa(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    query, _, value = (*args, *(kwargs[name] for name in ("query", "key", "value") if name in kwargs))[:3]
    made = (*axes.of(query).axes[:-1], axes.of(value).axes[-1])
    return Layout(tuple(result.shape), tuple(map(_fitted, made, result.shape)))


def _multiply(axes: Layouts, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Tensor) -> Layout:
    product = einsum_of(args) if func is torch.einsum else PRODUCTS.get(func, addmm)(args, kwargs)
    shape = tuple(result.shape)
    if product is None:
        return Layout(shape, tuple(map(_lost, shape)))
    if len(product.factors) == 2:
        return _product(axes, product, shape)
    named: dict[str, Axis] = {}
    for names, x in zip(product.axes[::-1], product.factors[::-1], strict=True):  # the first that has a letter counts
        named |= {
            letter: axis for letter, axis in zip(names, axes.of(x).axes, strict=True) if letter not in _short(x, names)
        }
    summed = tuple(axis for letter, axis in named.items() if letter not in product.result)
    found = (_fitted(named.get(letter, ()), size) for letter, size in zip(product.result, shape, strict=True))
    scores = axes.of(product.factors[0]).scores if len(product.factors) == 1 else Summed(summed, True)
    return Layout(shape, tuple(found), scores)


def _short(x: Tensor, names: str) -> set[str]:
    return {letter for letter, size in zip(names, x.shape, strict=True) if size == 1}


def _product(axes: Layouts, product: Product, shape: tuple[int, ...]) -> Layout:
    """The layout of a product that has this shape."""
    sides = [axes.of(x) for x in product.factors]
    summed = [
        tuple(axis for place, axis in enumerate(side.axes) if product.summed_over(place, which))
        for which, side in enumerate(sides)
    ]
    own, alone = _origins(*summed[0], *summed[1]), [_alone(product, which) for which in (0, 1)]
    matrix = next((n for n in (1, 0) if _is_matrix(product, n) and not _has_rows(sides[n].axes)), None)
    of_scores = [side.scores for side in sides if side.scores is not None and side.scores.are_scores]
    before = of_scores[0] if of_scores else None
    made: Axis = ()
    if matrix is not None:
        columns = math.prod(n for letter, n in zip(product.result, shape, strict=True) if letter in alone[matrix])
        read = summed[1 - matrix]
        is_mixture = before is not None and len(read) == 1 and read[0] == _fitted(read[0], columns)
        made = read[0] if is_mixture else _made(columns, product.factors[matrix], read)
    found: list[Axis] = []
    for letter, size in zip(product.result, shape, strict=True):
        if matrix is not None and letter in alone[matrix]:
            found.append(_fitted(made, size))
            continue
        there = (
            side.axes[names.index(letter)] for side, names in zip(sides, product.axes, strict=True) if letter in names
        )
        fits = [axis for axis in there if math.prod(n for _, n in axis) == size]
        is_new = letter in alone[1] and (len(alone[1]) > 1 or letter in product.axes[0])
        if (
            is_new and fits
        ):  # heads of a layer's matrices, or examples, unless tokens of one sequence are on others, too
            others = alone[1] - {letter}
            beside = [axis for name, axis in zip(product.axes[1], sides[1].axes, strict=True) if name in others]
            is_new = not _origins(fits[0]) & _origins(*beside)
        if not fits or (is_new and all(origin.given for origin, _ in fits[0])):
            found.append(_lost(size))
            continue
        is_known = [bool(_origins(axis) & own) for axis in fits]
        is_lost = [any(origin.is_lost for origin, _ in axis) for axis in fits]
        best = is_known.index(True) if True in is_known else is_lost.index(False) if False in is_lost else 0
        found.append(fits[best])
    if (matrix is None and len(of_scores) < 2) or before is None:  # weights of weights have the heads of the first
        before = Summed((*summed[0], *summed[1]), before is None and matrix is None)
    return Layout(shape, tuple(found), before)


def _alone(product: Product, which: int) -> set[str]:
    """The letters of the result that one factor alone brings into it: the other has none, or is 1 long there."""
    return _longer(product, which) - _longer(product, 1 - which)


def _longer(product: Product, which: int) -> set[str]:
    pairs = zip(product.axes[which], product.factors[which].shape, strict=True)
    return {letter for letter, size in pairs if size > 1 and letter in product.result}


def are_made(*features: Axis) -> bool:
    """Whether layers that were seen have made them all."""
    return all(any(origin.maker is not None for origin in _origins(axis, all_of=True)) for axis in features)


def _are_of_tokens(axis: Axis) -> bool:
    return all(origin.maker is None and not origin.is_lost for origin in _origins(axis))


def _has_rows(axes: Sequence[Axis]) -> bool:
    """Whether some of these axes are of features that layers have made, and the others, such as of tokens, are not."""
    return len({origin.maker is None for origin in _origins(*axes)}) > 1


def _is_matrix(product: Product, which: int) -> bool:
    """Whether a factor is a layer's matrix, rather than activations."""
    x, other = product.factors[which], product.factors[1 - which]
    if _longer(product, 0) & _longer(product, 1):
        return False
    is_parameter = isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter)
    return is_parameter or (x.ndim == 2 and (other.ndim > 2 or which == 1))


_SET_ITEM = Tensor.__setitem__
_UNBINDS = [*functions("unbind"), Tensor.__iter__]
_ROLLS = frozenset(functions("roll"))
_FLIPS = {func: axes for name, axes in (("flipud", 0), ("fliplr", 1), ("rot90", (0, 1))) for func in functions(name)}
_TURNS = _ROLLS | frozenset(functions("flip"))
_SCATTERS = frozenset(functions("scatter scatter_add scatter_reduce index_add"))
_SORTS = {func: place for name, place in (("sort", 1), ("topk", 2)) for func in functions(name)}
_WHERES = frozenset(functions("where"))
_LERPS, _TIMES = frozenset(functions("lerp")), frozenset(functions("mul multiply"))
_INDEX_FILLS, _FILLS = frozenset(functions("index_fill")), {Tensor.fill_, Tensor.zero_}
_REPLACES = _WHERES | _LERPS | _TIMES | _INDEX_FILLS | frozenset(functions("masked_fill masked_scatter"))
_PARTS = frozenset([Tensor.__getitem__, *functions("narrow select")])
_CUTS = {*functions("chunk split split_with_sizes tensor_split"), *_UNBINDS}
_WAYS: dict[Any, Way] = {
    func: way
    for several, way in (
        (functions("view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze"), _reshape),
        (functions("transpose swapaxes swapdims permute movedim moveaxis t adjoint"), _permute),
        ([getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")], _permute),
        (functions("expand expand_as broadcast_to repeat tile repeat_interleave"), _expand),
        ([Tensor.unfold], _unfold),
        (functions("hstack"), partial(_joined_along, 1)),
        (functions("vstack"), partial(_joined_along, 0)),
        (functions("interpolate avg_pool1d avg_pool2d max_pool1d max_pool2d adaptive_avg_pool2d"), _resize),
        (functions("pad"), _pad),
        (functions("gather index_select take_along_dim roll flip fliplr flipud rot90"), _take),
        (functions("scatter scatter_add scatter_reduce select_scatter slice_scatter index_add index_put"), _scatter),
        (functions("index_copy"), _index_copy),
        (functions("empty_like zeros_like ones_like full_like"), _take),
        (functions("masked_scatter"), _put),
        ([Tensor.copy_], _copy),
        ([Tensor.__getitem__], _index),
        (functions("narrow select"), _keep),
        ([torch.stack], _stack),
        (functions("cat concat concatenate"), _cat),
        ([F.linear], _linear),
        (functions("conv1d conv2d conv3d"), _convolve),
        ([F.embedding], _embed),
        (functions("view_as_complex view_as_real"), _as_complex),
        ([F.scaled_dot_product_attention], _sdpa),
        ([*PRODUCTS, *functions("addmm")], _multiply),
    )
    for func in several
}


_STARTS = {*_WAYS, *_CUTS}

_SEVERAL = {F.multi_head_attention_forward, torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu}
"""Functions that return a tensor of the same tokens as their first argument, and others."""


@dataclass(frozen=True)
class Order:
    """Which axes before the queries, and which part of that of the queries, are of heads; all else is batch.

    Attributes:
        before: of each axis before the queries, the lengths of its factors, and whether they are of heads.
        query: those of the axis of the queries; none: it holds no heads.
        channels: whether queries are the features of a head, and not tokens.
        windows: how many of each example the batch is known to hold; 1: none, or it is not known.
        patches: those of an image that queries and keys are of; None: they are not, or it is not known.
        parts: the tokens that queries and keys are; None: not known.
        heads: the first of them, and of how many they are a part; None: all, or not known.
        reads: the numbers of the look-ups that queries and keys come from; none: it is not known. See ``ReadIds``.
        are_same: whether queries and keys are known tokens of the same sequence; None: not known.
        made: the features that layers have made, of which queries and keys have all or some.
        sequence: what the axis of the queries comes from; nothing: not known.
        through: the numbers of the attentions whose outputs queries and keys are made of, as far as is known.
        example: of an axis of examples, what queries and keys are both cut from it; None: nothing, or not known.
        is_taken: whether batch and heads are taken to stand as PyTorch has them, as nothing tells.
    """

    before: tuple[tuple[tuple[int, bool], ...], ...]
    query: tuple[tuple[int, bool], ...] = ()
    channels: bool = False
    windows: int = 1
    patches: tuple[Patches | None, Patches | None] = None, None
    parts: tuple[Part | None, Part | None] = None, None
    heads: tuple[int, int] | None = None
    reads: tuple[frozenset[Read], frozenset[Read]] = frozenset(), frozenset()
    are_same: bool | None = None
    made: frozenset[Origin] = frozenset()
    sequence: frozenset[Origin] = frozenset()
    through: frozenset[int] = frozenset()
    example: tuple[Origin, Cut] | None = None
    is_taken: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the axes are batch_size, n_heads, q_length already."""
        batch, *heads = self.before or ((),)
        in_place = len(heads) == 1 and all(is_head or size == 1 for size, is_head in heads[0])
        return in_place and not self.query and not any(is_head and size > 1 for size, is_head in batch)

    @property
    def n_sharing(self) -> int:
        """How many heads share each head of the keys, as they are in the axis of the queries."""
        return math.prod(size for size, is_head in self.query if is_head)

    def of_tokens(self, query: Axis, key: Axis, features: Sequence[Axis], is_made: bool) -> "Order":
        """The same of the tokens along these axes, which have these features; of none, nothing is known.

        ``is_made``: whether layers that were seen have made the features of both.
        """
        if len(self.query) == len(query):
            query = tuple(factor for factor, (_, is_head) in zip(query, self.query, strict=True) if not is_head)
        return replace(
            self,
            patches=(_patches_along(query), _patches_along(key)),
            parts=_parts_along(query, key),
            reads=(_reads_along(query), _reads_along(key)),
            are_same=_are_same(query, key, is_made),
            made=frozenset(origin for origin in _origins(*features) if origin.maker is not None),
            sequence=frozenset(_origins(query, all_of=True)),
            through=_through(*features),
        )

    def with_rows_behind(self, n_tokens: int, k_length: int) -> "Order":
        """The same of more keys, the last of which are no tokens, as those that PyTorch's layer adds."""
        own, part = self.parts
        if k_length <= n_tokens:
            return self
        part = part or Part(Origin(n_tokens), 0, 1, n_tokens)
        sequence = replace(part.of, size=part.start + n_tokens, cuts=(), whole=part.of.whole or part.of)
        return replace(self, parts=(own, Part(sequence, part.start, part.step, k_length)))

    def arrange(self, x: Tensor) -> Tensor:
        """x (…, q_length, columns) → (batch_size, n_heads, q_length, columns)."""
        return self._arranged(x, self.query or ((x.shape[-2], False),))

    def arrange_keys(self, x: Tensor) -> Tensor:
        """x (…, k_length, columns) → (batch_size, n_heads, k_length, columns), of the heads that have keys."""
        return self._arranged(x, ((x.shape[-2], False),))

    def _arranged(self, x: Tensor, rows: tuple[tuple[int, bool], ...]) -> Tensor:
        factors = [factor for axis in self.before for factor in axis]
        n_before, columns = len(factors), x.shape[-1]
        batch = [place for place, (_, is_head) in enumerate(factors) if not is_head]
        heads = [place for place, (_, is_head) in enumerate((*factors, *rows)) if is_head]
        left = [n_before + place for place, (_, is_head) in enumerate(rows) if not is_head]
        sizes = [size for size, _ in (*factors, *rows)]
        batch_size, n_heads, length = (math.prod(sizes[place] for place in part) for part in (batch, heads, left))
        x = x.reshape(*sizes, columns).permute(*batch, *heads, *left, -1)
        return x.reshape(batch_size, n_heads, length, columns)


NO_ORDER = Order(())
"""Of what is in the axes of mhaviz as it is."""


def order_of(layout: Layout | None, places: Sequence[int]) -> Order | None:
    """The order of a product of queries and keys; None: it is not known.

    Args:
        layout: of the product.
        places: of its axes before the queries, of the queries, −1 if there are none, and of the keys.

    Raises:
        MhavizError: it is not known which tokens the keys are.
    """
    if layout is None or layout.scores is None:
        return None
    *before, query, key = axes_at(layout, places)
    heads = _heads(before, query, key, layout.scores.summed)
    if heads is None:
        return None
    of_query = heads & _origins(query) & _origins(*layout.scores.summed)
    if of_query == _origins(query) and _origins(key) & _origins(*layout.scores.summed):  # heads that read each other
        heads, of_query = heads - of_query, set()
    own = _origins(*layout.scores.summed)
    channels = _has_features(_origins(query) - own) and all(origin.maker is None for origin in own)
    sizes = [layout.shape[place] for place in places[:-2]]
    order = Order(
        tuple(_named(axis, size, heads) for axis, size in zip(before, sizes, strict=True)),
        _named(query, 1, heads) if of_query else (),
        channels,
        _windows(before, heads, query, key),
        example=_example(query, key),
        is_taken=not channels and not own & _origins(*before, query) and all(one.maker is None for one in own),
    )
    n_heads = math.prod(n for axis in (*order.before, order.query) for n, is_head in axis if is_head)
    of_tokens = (origin for axis in before for origin, n in axis if n > 1 and origin not in heads)
    has_queries = places[-2] >= 0 and layout.shape[places[-2]] > 1
    is_lost = not has_queries and any(o.is_lost for o, _ in key) and any(o.given and o.given[0] for o in of_tokens)
    if is_lost:
        raise MhavizError(OWN_KEYS)
    return replace(order, heads=_heads_of(layout.scores.summed, n_heads))


def axes_at(layout: Layout | None, places: Sequence[int]) -> list[Axis]:
    """Those at these places; at −1, or of a layout that is not known, there is nothing."""
    return [() if layout is None or place < 0 else layout.axes[place] for place in places]


def _example(query: Axis, key: Axis) -> tuple[Origin, Cut] | None:
    """What queries and keys are both cut from another axis, which is neither's own."""
    several = {origin.example for origin, _ in (*query, *key)}
    (example,) = several if len(several) == 1 else (None,)
    return None if example is None or example[0] in _origins(query, key, all_of=True) else example


OWN_KEYS = (
    "each of its queries meets keys of its own, as of a window around it, and which tokens these are is not known; not "
    "shown"
)


def _heads_of(summed: Sequence[Axis], n_heads: int) -> tuple[int, int] | None:
    """The first head of so many, and of how many they are, by the features of queries and of keys; None: not known."""
    origins = [axis[0] for axis in summed if len(axis) == 1]
    beside = {o.beside for o, _ in origins if o.beside is not None and o.beside.n == n_heads and o.beside.step == 1}
    if beside:
        most = max(cut.size for cut in beside)
        several = [cut for cut in beside if cut.size == most]
        return (several[0].start, most) if len(several) == 1 else None
    cuts = {o.cuts[-1] if o.cuts and o.cuts[-1].n == n else None for o, n in origins}
    (cut,) = cuts if len(cuts) == 1 else (None,)
    if cut is None or n_heads != 1 or cut.step != 1 or cut.start % cut.n or cut.size % cut.n:
        return None
    return cut.start // cut.n, cut.size // cut.n


def _windows(before: Sequence[Axis], heads: set[Origin], query: Axis, key: Axis) -> int:
    """How many windows of one input the batch is known to hold, of queries or of keys; 1: none, or it is not known."""
    batch, of_query = [factor for axis in before for factor in axis if factor[0] not in heads], _origins(query, key)
    if any(one.maker is not None or (one.given and not one.given[0]) for one in of_query):  # heads, or of the batch
        return 1
    if not any(origin in of_query for origin, _ in batch):  # axes of their own: nothing else may be on any
        is_known = all(n <= one.size and one.given and not one.is_lost for one, n in (*batch, *query))
        if not is_known:
            return 1
        there = {origin: origin.given[0] for origin, _ in batch if origin.given}
        of_query = {origin for origin, place in there.items() if place and 0 in there.values()}
    return math.prod(n for origin, n in batch if origin in of_query)


def _named(axis: Axis, size: int, heads: set[Origin]) -> tuple[tuple[int, bool], ...]:
    return tuple((n, origin in heads) for origin, n in axis) or ((size, False),)


def _origins(*axes: Axis, all_of: bool = False) -> set[Origin]:
    return {origin for axis in axes for origin, n in axis if n > 1 or all_of}


def _heads(before: Sequence[Axis], query: Axis, key: Axis, summed: Sequence[Axis]) -> set[Origin] | None:
    """Where heads come from; None: that is not known."""
    own, others, of_query = _origins(*summed) or _origins(*summed, all_of=True), _origins(*before), _origins(query)
    heads = {origin for origin in others | of_query if origin in own}
    if not heads:  # a layer may have been shared by heads that were split before
        parents = {parent for origin in own for parent in origin.parents}
        heads = (parents & others) - of_query
    if heads:
        has_no_query = bool(of_query) and _origins(query, all_of=True) <= heads
        return None if has_no_query and any(origin.is_lost for origin in _origins(key)) else heads
    is_lost = any(origin.is_lost for origin in others)
    if any(origin.maker is not None for origin in own):
        return None if is_lost else set()  # one head
    if _has_features(of_query):  # channels that read channels
        return None if is_lost else {origin for origin in others & of_query if _has_features({origin})}
    # A tensor of four axes that a program is given, or unpacks, has the batch first, as PyTorch has it, and heads.
    given = {o: o.given[0] - o.given[1] if o.given and o.given[1] > 3 else 0 for o in others - of_query}
    heads = {origin for origin, place in given.items() if place != -4}
    is_first = any(o.given and o.given[0] - o.given[1] == -4 for o in of_query)
    fits = {*given.values()} <= {-4, -3, -2} and len(heads) < 2 and len(before) < 3 and not is_first
    return heads if others and fits else None


def _has_features(origins: set[Origin]) -> bool:
    """Whether some of these are features that a layer has made, or of a tensor that was given."""
    return any(one.maker is not None or (one.given is not None and one.given[0] == one.given[1] - 1) for one in origins)
