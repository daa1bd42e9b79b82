"""Follow which regions of images a program's tensors are made of.

What moves numbers moves the numbers of their regions: they are given to the same function. What sums, such as a layer,
merges the regions of what it sums over. Whatever is not known to do either loses them.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.functions import COPIES, functions, keeps_places, writes
from mhaviz.observe.handlers import Done, unseen
from mhaviz.observe.marks import MarksByMemory
from mhaviz.observe.products import PRODUCTS, product_of
from mhaviz.observe.regions import (
    AXES,
    NONE,
    Regions,
    SeenImage,
    Traced,
    between,
    cells_of,
    cut_along,
    merged,
    shared,
)
from mhaviz.observe.told_patches import told_patches

Rule = Callable[["Tracer", Done], Traced | None]
"""Returns what the result of a call is made of; None: not known."""

ParameterOf = Callable[[Tensor], str]
"""Returns the name of the parameter that a tensor is a view of; "" if of none."""

_COLOURS, _LEAST_SIDE, _MOST_PIXELS = 3, 8, 2**23
"""Channels and least height and width of a tensor that is taken for images; most pixels whose regions are numbered."""


class Tracer:
    """Follows regions of images through the functions that a program calls; ``parameter_of``: see ``ParameterOf``."""

    def __init__(self, parameter_of: ParameterOf) -> None:
        self._are_any = False  # most programs have no images
        self._traced, self.parameter_of = MarksByMemory[Traced | _Unread](), parameter_of

    def get(self, x: object) -> Traced | None:
        """Return what a tensor is made of; None: not known, or of no image."""
        traced = self._traced.get(x)
        if traced is None or not isinstance(x, Tensor):
            return None
        if isinstance(traced, _Unread):
            traced = traced.pixels()
            self._traced.set(x, traced)
        fits = all(one.ndim == x.ndim and _fits(one.shape, x.shape) for one in traced.all_numbers)
        return traced if fits else None

    def get_moved(self, x: Tensor) -> Traced | None:
        """Return what a tensor was made of before its axes were moved in place."""
        traced = self._traced.get(x)
        return traced if isinstance(traced, Traced) else None

    def set(self, x: Tensor, traced: "Traced | _Unread | None") -> None:
        """Note what a tensor is made of."""
        if traced is not None:
            self._are_any = True
            self._traced.set(x, traced)
        elif self._traced.get(x) is not None:
            self._traced.forget(x)

    def take(self, result: Any, seen: Any) -> None:
        """Copy what is known to ``result``, which was computed unseen, from ``seen``, the same tensors computed
        again."""
        for x, one in zip(*((each if isinstance(each, tuple) else (each,)) for each in (result, seen)), strict=True):
            if isinstance(x, Tensor) and (traced := self.get(one)) is not None:
                self.set(x, traced)

    def read(self, x: Tensor) -> None:
        """Note a tensor that a program's model is given: it is taken for images if it has their shape."""
        if self._traced.get(x) is None and (axes := _axes_of_images(x)) is not None:
            self.set(x, _Unread(x.detach(), axes))

    def begins(self, module: nn.Module, args: Sequence[Any]) -> None:
        """Note the patches of which a module is told where they stand, unless that was seen."""
        told = told_patches(module, args, self.get)
        if told is not None and not any(map(_is_opaque, args)):
            x, place = told
            with unseen():
                self.set(x, place())

    def is_unread(self, x: Tensor) -> bool:
        """Return whether a tensor holds images as a program's model was given them."""
        return isinstance(self._traced.get(x), _Unread)

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may be of images."""
        if func in _CONVOLUTIONS:
            return True
        return self._are_any and (bool(kwargs) or self._traced.may_hold(args))

    def follow(self, done: Done) -> None:
        """Note what the results of a call are made of."""
        if done.func not in _CONVOLUTIONS and not any(self._traced.get(x) is not None for x in done.each()):
            return
        result = done.first if done.func is Tensor.__setitem__ else done.result
        several = [result] if isinstance(result, Tensor) else result
        if not isinstance(several, list | tuple) or any(map(_is_opaque, [*several, *done.each()])):
            return
        with unseen():
            if done.func in _WRITERS:
                self._write(done, result)
            elif isinstance(result, Tensor):
                self.set(result, self._after(done))
            elif done.func in _CUTS:
                self._cut(done)
            elif several and done.func in _FIRSTS and isinstance(several[0], Tensor):
                self.set(several[0], _keep(self, done._replace(result=several[0])))

    def _after(self, done: Done) -> "Traced | _Unread | None":
        images = self._traced.get(done.first)
        if isinstance(images, _Unread):
            if keeps_places(done.func) and done.result.shape == images.x.shape:
                return images
            if _RULES.get(done.func) is _transpose and done.result is not done.first:
                return images.moved(done.func(_numbers_of_axes(images.x), *done.args[1:], **done.kwargs))
        rule = _RULES.get(done.func)
        if rule is not None:
            return rule(self, done)
        if done.func in COPIES or keeps_places(done.func) or getattr(done.func, "_name", "") == "flex_attention":
            return _keep(self, done)
        return None

    def _cut(self, done: Done) -> None:
        """Note what each of several parts of a tensor is made of."""
        traced = self.get(done.first)
        if traced is None:
            return
        dim = done.named("dim", 0)
        slim = _is_slim(traced, done.first.shape, dim)
        parts = [list(done.func(_full(one, done.first.shape, slim), *done.args[1:])) for one in traced.all_numbers]
        for x, *numbers in zip(copy(done.result), *parts, strict=False):  # the program has yet to take from an iterator
            self.set(x, Traced(traced.regions, *(_short(one, x.shape) for one in numbers)))

    def _write(self, done: Done, x: Tensor) -> None:
        """Note what a tensor is made of after others were written into it, and all that shares its memory."""
        traced = self._written(done, done.first, self.get(done.first))
        self.set(x, traced)
        if x is not done.first:
            return
        others = {id(one): one for one, _ in self._traced.of_memory(x)}
        if x._is_view() and x._base is not None:
            others.setdefault(id(x._base), x._base)
        others.pop(id(x), None)
        for one in others.values():
            is_known = traced is not None and one.dtype == x.dtype
            self.set(one, _seen_through(one, self.get(one), x, traced) if is_known and traced else None)

    def _written(self, done: Done, x: Tensor, before: Traced | None) -> Traced | None:
        func, args = done.func, done.args
        if func in _FILLS:
            return None
        if func in _COPIES_INTO:
            values = self.get(args[1])
            return values and Traced(values.regions, *(_aligned(one, x.ndim) for one in values.all_numbers))
        place = _VALUES.get(getattr(func, "__name__", "").strip("_"), 2)
        source = args[place] if len(args) > place else None
        values = self.get(source)
        if before is None and values is None:
            return None
        if not isinstance(source, Tensor) or not source.ndim:
            return before  # a number stands in the place of some
        several = shared([one for one in (before, values) if one is not None])
        regions = several[0].regions
        old = several[0].numbers if before is not None else _none(x)
        new = several[-1].numbers if values is not None else _none(source)
        if func in _MASKED_SCATTERS:
            return _scattered(regions, old, new, x, args[1], source)
        into = old.expand(x.shape).clone()
        made = func(into, *(new.expand(source.shape) if at == place else one for at, one in enumerate(args) if at))
        made = into if made is None else made
        return Traced(regions, _short(made, x.shape))


def _scattered(regions: Regions, old: Tensor, new: Tensor, x: Tensor, mask: Tensor, source: Tensor) -> Traced:
    """Return what a tensor is made of in which others stand, one behind the other, where a mask is true."""
    is_slim = old.shape[-1:] == new.shape[-1:] == (1,) and x.shape[-1:] == source.shape[-1:]
    mask = mask.expand(x.shape) if mask.ndim <= x.ndim else mask
    if is_slim and (mask.stride(-1) == 0 or bool((mask == mask[..., :1]).all())):
        into, mask, values = old.expand(*x.shape[:-1], 1), mask[..., :1], new.expand(*source.shape[:-1], 1)
    else:
        into, values = old.expand(x.shape), new.expand(source.shape)
    return Traced(regions, _short(into.masked_scatter(mask, values), x.shape))


def _seen_through(x: Tensor, before: Traced | None, view: Tensor, written: Traced) -> Traced | None:
    """Return what a tensor is made of, of whose memory ``view`` is some."""
    if written.other is not None or x.untyped_storage().data_ptr() != view.untyped_storage().data_ptr():
        return None
    several = [written] if before is None else shared([before, written])
    memory = torch.full((x.untyped_storage().nbytes() // x.element_size(),), NONE, dtype=torch.int32, device=x.device)

    def at(one: Tensor) -> Tensor:
        return memory.as_strided(one.shape, one.stride(), one.storage_offset())

    if before is not None:
        at(x).copy_(several[0].numbers.expand(x.shape))
    at(view).copy_(several[-1].numbers.expand(view.shape))
    return Traced(several[0].regions, _short(at(x).clone(), x.shape))


def _is_opaque(x: object) -> bool:
    """Return whether the numbers of a tensor cannot be read."""
    if not isinstance(x, Tensor):
        return False
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    return x.is_meta or x.is_nested or is_captured or torch._C._functorch.is_functorch_wrapped_tensor(x)


def _axes_of_images(x: Tensor) -> tuple[int, int, int, int] | None:
    """Return where a tensor of images has its channels, frames, rows and columns; −1: it has no frames. None: it does
    not have the shape of images in colour."""
    sizes = x.shape
    if (
        not 2 < x.ndim < 7
        or x.numel() // _COLOURS > _MOST_PIXELS
        or not (x.is_floating_point() or x.dtype == torch.uint8)
    ):
        return None
    if sizes[-1] == _COLOURS and min(sizes[-3:-1]) >= _LEAST_SIDE and _COLOURS not in sizes[:-1]:
        return x.ndim - 1, -1, x.ndim - 3, x.ndim - 2
    if min(sizes[-2:]) < _LEAST_SIDE or (x.ndim > 5 and sizes[-3] != _COLOURS):
        return None
    if sizes[-3] == _COLOURS:
        return x.ndim - 3, -1, x.ndim - 2, x.ndim - 1
    if x.ndim == 5 and sizes[1] == _COLOURS:
        return 1, 2, 3, 4
    return None


class _Unread(NamedTuple):
    """Images that no function has moved or cut yet.

    Attributes:
        x: the tensor.
        axes: where it has its channels, frames, rows and columns; −1: it has no frames.
    """

    x: Tensor
    axes: tuple[int, int, int, int]

    def moved(self, axes: Tensor) -> "_Unread":
        """Return the images with their axes in another order: that of the lengths of ``axes``."""
        order = list(axes.shape)
        at = [-1 if axis < 0 else order.index(axis) for axis in self.axes]
        return _Unread(self.x.permute(order), (at[0], at[1], at[2], at[3]))

    def pixels(self) -> Traced:
        """Return what the tensor is made of: its pixels."""
        x, (channels, frames, rows, columns) = self
        others = [axis for axis in range(x.ndim) if axis not in self.axes]
        order = (*others, channels, *((frames,) if frames >= 0 else ()), rows, columns)
        moved = x.permute(order)
        sizes = (1 if frames < 0 else x.shape[frames], x.shape[rows], x.shape[columns])
        flat = moved.reshape(-1, *moved.shape[len(others) :])
        images = tuple(SeenImage(*sizes, one) for one in flat)
        regions, numbers = cells_of(images, [[(i, i + 1) for i in range(n)] for n in sizes], x.device)
        numbers = numbers.view(*moved.shape[: len(others)], 1, *sizes[int(frames < 0) :])
        return Traced(regions, numbers.permute([order.index(axis) for axis in range(x.ndim)]))


def _numbers_of_axes(x: Tensor) -> Tensor:
    """Return a tensor whose axes have their places as lengths, by which it is seen where a function moves them."""
    return torch.empty(tuple(range(x.ndim)), device="meta")


def _fits(numbers: Sequence[int], shape: Sequence[int]) -> bool:
    return all(n in (1, size) for n, size in zip(numbers, shape, strict=True))


def _none(x: Tensor) -> Tensor:
    return torch.full((1,) * x.ndim, NONE, dtype=torch.int32, device=x.device)


def _aligned(numbers: Tensor, ndim: int) -> Tensor:
    """Return numbers with new axes of length 1 before theirs."""
    return numbers.reshape((1,) * (ndim - numbers.ndim) + tuple(numbers.shape)) if numbers.ndim <= ndim else numbers


def _full(numbers: Tensor, shape: Sequence[int], slim: bool = False) -> Tensor:
    """Return numbers for each element of a tensor; ``slim``: with a last axis of length 1."""
    return numbers.expand(*shape[:-1], 1) if slim else numbers.expand(tuple(shape))


def _short(numbers: Tensor, shape: Sequence[int]) -> Tensor:
    """Return numbers with axes of length 1 where they are repeated."""
    for axis, (n, stride) in enumerate(zip(numbers.shape, numbers.stride(), strict=True)):
        if n > 1 and stride == 0:
            numbers = numbers.narrow(axis, 0, 1)
    if numbers.ndim and numbers.shape[-1] > 1 and bool((numbers == numbers[..., :1]).all()):
        numbers = numbers[..., :1]
    return numbers


def _is_slim(traced: Traced, shape: Sequence[int], dims: Any) -> bool:
    """Return whether regions do not vary along the last axis, and a function along ``dims`` leaves it as it is."""
    if not shape or any(numbers.shape[-1] != 1 for numbers in traced.all_numbers):
        return False
    several = dims if isinstance(dims, list | tuple) else (dims,)
    return all(isinstance(dim, int) and dim % len(shape) != len(shape) - 1 for dim in several)


def _along(get_dims: Callable[[Done], Any]) -> Rule:
    """Return the rule of a function that moves numbers along some axes; ``get_dims`` returns them."""

    def move(tracer: Tracer, done: Done) -> Traced | None:
        x, traced = done.first, tracer.get(done.first)
        if traced is None:
            return None
        slim = _is_slim(traced, x.shape, get_dims(done))
        others = [_slimmed(one, x) if slim else one for one in done.args[1:]]
        moved = (done.func(_full(one, x.shape, slim), *others, **done.kwargs) for one in traced.all_numbers)
        return Traced(traced.regions, *(_short(one, done.result.shape) for one in moved))

    return move


def _slimmed(index: Any, x: Tensor) -> Any:
    """Return an index with the axes of a tensor as that for a last axis of length 1."""
    has_all = isinstance(index, Tensor) and index.ndim == x.ndim > 1
    return index[..., :1] if has_all else index


_move = _along(lambda done: -1)


def _gather(tracer: Tracer, done: Done) -> Traced | None:
    index = done.argument(2)
    is_one = isinstance(index, Tensor) and index.ndim > 1 and (index.stride(-1) == 0 or index.shape[-1] == 1)
    return _along(lambda done: done.argument(1))(tracer, done) if is_one else _move(tracer, done)


def _index(tracer: Tracer, done: Done) -> Traced | None:
    items = done.args[1] if isinstance(done.args[1], tuple) else (done.args[1],)
    used = sum(one.ndim if isinstance(one, Tensor) and one.dtype == torch.bool else one is not None for one in items)
    is_last = any(one is Ellipsis for one in items) or used >= done.first.ndim
    return _along(lambda done: -1 if is_last else 0 if done.first.ndim > 1 else -1)(tracer, done)


def _reshape(tracer: Tracer, done: Done) -> Traced | None:
    """Return what a reshaped tensor is made of. Only axes along which regions vary are repeated."""
    traced, shape = tracer.get(done.first), done.result.shape
    if traced is None or not done.first.numel():
        return None
    return Traced(traced.regions, *(_regrouped(one, done.first.shape, shape) for one in traced.all_numbers))


def _regrouped(numbers: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    sizes: list[int] = []
    kept: list[int] = []
    at = to = 0
    while at < len(before) or to < len(after):
        begin, first, left, right = at, to, 1, 1
        while True:
            if left == right and at > begin and to > first:
                break
            if at < len(before) and (left <= right or to >= len(after)):
                left, at = left * before[at], at + 1
            elif to < len(after):
                right, to = right * after[to], to + 1
            else:
                break
        varies = any(n > 1 for n in numbers.shape[begin:at])
        sizes += before[begin:at] if varies else [1] * (at - begin)
        kept += after[first:to] if varies else [1] * (to - first)
    return numbers.expand(sizes).reshape(kept)


def _transpose(tracer: Tracer, done: Done) -> Traced | None:
    x = done.first
    traced = tracer.get_moved(x) if x is done.result else tracer.get(x)
    if traced is None or any(one.ndim != x.ndim for one in traced.all_numbers):
        return None
    func = getattr(Tensor, done.func.__name__.rstrip("_"), done.func) if writes(done.func) else done.func
    return Traced(traced.regions, *(func(one, *done.args[1:], **done.kwargs) for one in traced.all_numbers))


def _squeeze(tracer: Tracer, done: Done) -> Traced | None:
    x, traced = done.first, tracer.get(done.first)
    if traced is None:
        return None
    dims = done.argument(1)
    gone = range(x.ndim) if dims is None else (dims,) if isinstance(dims, int) else dims
    places = {dim % x.ndim for dim in gone if x.shape[dim] == 1} if x.ndim else set[int]()
    return Traced(
        traced.regions,
        *(one.reshape([n for at, n in enumerate(one.shape) if at not in places]) for one in traced.all_numbers),
    )


def _expand(tracer: Tracer, done: Done) -> Traced | None:
    traced, ndim = tracer.get(done.first), done.result.ndim
    return traced and Traced(traced.regions, *(_aligned(one, ndim) for one in traced.all_numbers))


def _cat(tracer: Tracer, done: Done, dim: int | None = None) -> Traced | None:
    parts = [x for x in done.first if isinstance(x, Tensor) and x.numel()]
    if not parts or not all(x.ndim == parts[0].ndim for x in parts):
        return None
    dim = (done.named("dim", 0) if dim is None else dim) % parts[0].ndim
    found = [tracer.get(x) for x in parts]
    known = [one for one in found if one is not None]
    if any(one.other is not None for one in known):
        return _scores_joined(parts, found, dim)
    if not known:
        return None
    several = iter(shared(known))
    traced = [None if one is None else next(several) for one in found]
    regions = next(one.regions for one in reversed(traced) if one is not None)
    numbers = []
    for x, one in zip(parts, traced, strict=True):
        if one is not None:
            numbers.append(one.numbers)
            continue
        of_part = _none(x)
        if name := tracer.parameter_of(x):
            whole = x.shape[dim] > 1
            for place in range(x.shape[dim]):
                regions, number = regions.named(f"{name} {place}" if whole else name)
                of_part = torch.cat([*([of_part] if place else []), torch.full_like(_none(x), number)], dim)
        numbers.append(of_part)
    return Traced(regions, _joined(parts, numbers, dim))


def _scores_joined(parts: Sequence[Tensor], found: Sequence[Traced | None], dim: int) -> Traced:
    """Return what scores are made of that were joined with others, such as those of sinks."""
    known = iter(shared([one for one in found if one is not None]))
    several = [None if one is None else next(known) for one in found]
    regions = next(one.regions for one in reversed(several) if one is not None)
    ways = [(None, None) if one is None else (one.numbers, one.other) for one in several]
    numbers, other = (
        _joined(parts, [_none(x) if one is None else one for x, one in zip(parts, way, strict=True)], dim)
        for way in zip(*ways, strict=True)
    )
    return Traced(regions, numbers, other)


def _joined(parts: Sequence[Tensor], numbers: Sequence[Tensor], dim: int) -> Tensor:
    """Return the numbers of joined tensors. An axis has length 1 if it has in all of them; so does that along which
    they are joined, if all are of the same regions."""
    shapes = [torch.Size(max(one.shape[at] for one in numbers) for at in range(parts[0].ndim)) for _ in parts]
    if all(one.shape[dim] == 1 and one.shape == numbers[0].shape and torch.equal(one, numbers[0]) for one in numbers):
        return numbers[0]
    sizes = [[*shape[:dim], x.shape[dim], *shape[dim + 1 :]] for x, shape in zip(parts, shapes, strict=True)]
    return torch.cat([one.expand(size) for one, size in zip(numbers, sizes, strict=True)], dim)


def _stack(tracer: Tracer, done: Done) -> Traced | None:
    dim = done.named("dim", 0) % done.result.ndim
    parts = list(done.first)
    found = [tracer.get(x) for x in parts]
    known = [one for one in found if one is not None]
    if any(one.other is not None for one in known):
        return None
    several = iter(shared(known))
    regions = known[0].regions
    numbers = []
    for x, one in zip(parts, found, strict=True):
        traced = None if one is None else next(several)
        regions = regions if traced is None else traced.regions
        numbers.append((_none(x) if traced is None else traced.numbers).unsqueeze(dim))
    return Traced(regions, _joined([x.unsqueeze(dim) for x in parts], numbers, dim))


def _pad(tracer: Tracer, done: Done) -> Traced | None:
    traced, widths = tracer.get(done.first), done.argument(1)
    if traced is None:
        return None
    mode = done.argument(2, "constant")
    numbers = []
    for one in traced.all_numbers:
        for at in range(0, len(widths), 2):
            axis, (before, after) = one.ndim - 1 - at // 2, widths[at : at + 2]
            if not before and not after:
                continue
            n = done.first.shape[axis]
            places = torch.arange(-before, n + after, device=one.device)
            if mode == "circular":
                places = places % n
            is_there = (places >= 0) & (places < n)
            shape = [*one.shape[:axis], n, *one.shape[axis + 1 :]]
            one = one.expand(shape).index_select(axis, places.clamp(0, n - 1))
            if mode != "replicate":
                mask = is_there.view(-1, *[1] * (one.ndim - axis - 1))
                one = torch.where(mask, one, torch.full_like(one, NONE))
        numbers.append(_short(one, done.result.shape))
    return Traced(traced.regions, *numbers)


def _where(tracer: Tracer, done: Done) -> Traced | None:
    if len(done.args) < 3:
        return None
    mask, *sides = done.args[:3] if done.func is torch.where else (done.args[1], done.args[0], done.args[2])
    found = [tracer.get(x) for x in sides]
    known = [one for one in found if one is not None]
    if not known:
        return None
    is_scores = any(one.other is not None for one in known)
    if is_scores or any(not isinstance(x, Tensor) or not x.ndim for x in sides):
        return _keep(tracer, done)
    several, ndim = iter(shared(known)), done.result.ndim
    kept = [None if one is None else next(several) for one in found]
    regions = next(one.regions for one in reversed(kept) if one is not None)
    numbers = [_aligned(_none(x) if one is None else one.numbers, ndim) for x, one in zip(sides, kept, strict=True)]
    mask = _aligned(mask, ndim)
    if all(one.shape[-1] == 1 for one in numbers) and (mask.stride(-1) == 0 or mask.shape[-1] == 1):
        mask = mask[..., :1]
    chosen = torch.where(mask, numbers[0], numbers[1])
    return Traced(regions, _short(chosen, done.result.shape))


def _keep(tracer: Tracer, done: Done) -> Traced | None:
    """Return what a tensor is made of whose numbers stand where those that they are made of stood."""
    ndim, shape = done.result.ndim, done.result.shape
    parts = [x for x in done.each() if isinstance(x, Tensor) and tracer.get(x) is not None]
    found = shared([traced for x in parts if (traced := tracer.get(x)) is not None])
    fitting = []
    for x, traced in zip(parts, found, strict=True):
        numbers = [_aligned(one, ndim) for one in traced.all_numbers if one.ndim <= ndim]
        if len(numbers) == len(traced.all_numbers) and all(_fits(one.shape, shape) for one in numbers):
            fitting.append((x, Traced(found[-1].regions, *numbers)))
    if not fitting:
        return _reduced(tracer, done)
    scores = [one for _, one in fitting if one.other is not None]
    if scores:
        return scores[0]
    first = fitting[0][1]
    for _, other in fitting[1:]:
        first = Traced(first.regions, _agreeing(first.regions, first.numbers, other.numbers))
    return first


def _agreeing(regions: Regions, one: Tensor, other: Tensor) -> Tensor:
    """Return the numbers of a sum of tensors: of what is known of one of them, or the same of both; else of the one
    that varies along more axes, such as tokens that are multiplied by what was pooled from all."""
    if one is other or (one.shape == other.shape and torch.equal(one, other)):
        return one
    axes = [{at for at, n in enumerate(x.shape) if n > 1} for x in (one, other)]
    if axes[0] != axes[1] and (axes[0] <= axes[1] or axes[1] <= axes[0]):
        fine, coarse = (one, other) if axes[1] < axes[0] else (other, one)
        return torch.where(fine == NONE, coarse, fine) if bool((fine != NONE).any()) else coarse
    one, other = (x.expand([max(sizes) for sizes in zip(one.shape, other.shape, strict=True)]) for x in (one, other))
    rows = [regions.rows[x.clamp(min=0).long()] for x in (one, other)]
    inside = [_is_within(rows[0], rows[1]), _is_within(rows[1], rows[0])]
    made = torch.where(inside[0], one, torch.where(inside[1], other, torch.full_like(one, NONE)))
    return torch.where(one == NONE, other, torch.where(other == NONE, one, made))


def _is_within(rows: Tensor, others: Tensor) -> Tensor:
    """Return whether regions lie within others of the same image."""
    is_in = rows[..., 0] == others[..., 0]
    for axis in AXES:
        is_in = is_in & (rows[..., axis] >= others[..., axis]) & (rows[..., axis + 1] <= others[..., axis + 1])
    return is_in


def _reduced(tracer: Tracer, done: Done) -> Traced | None:
    """Return what a sum over some axes is made of."""
    x, traced = done.first, tracer.get(done.first)
    if traced is None or traced.other is not None or not isinstance(x, Tensor) or done.result.ndim > x.ndim:
        return None
    dims = done.named("dim")
    if dims is None:
        return None
    axes = sorted({dim % x.ndim for dim in ((dims,) if isinstance(dims, int) else dims)})
    kept = [at for at in range(x.ndim) if at not in axes]
    shape = [x.shape[at] if at in kept else 1 for at in range(x.ndim)]
    keepdim = done.result.ndim == x.ndim
    if tuple(done.result.shape) != tuple(shape if keepdim else [x.shape[at] for at in kept]):
        return None
    regions, numbers = _merged_along(traced.regions, traced.numbers, axes)
    return Traced(regions, numbers if keepdim else numbers.squeeze(axes))


def _merged_along(regions: Regions, numbers: Tensor, axes: Sequence[int]) -> tuple[Regions, Tensor]:
    """Return regions of numbers that are summed over some axes, which are then of length 1."""
    varying = [axis for axis in axes if numbers.shape[axis] > 1]
    if not varying:
        return regions, numbers
    kept = [axis for axis in range(numbers.ndim) if axis not in varying]
    moved = numbers.permute(*kept, *varying)
    regions, made = merged(regions, moved.reshape(*moved.shape[: len(kept)], -1))
    for axis in varying:
        made = made.unsqueeze(axis)
    return regions, made


def _multiply(tracer: Tracer, done: Done) -> Traced | None:
    product = product_of(done)
    if product is None:
        return None
    found = [tracer.get(x) for x in product.factors]
    known = [one for one in found if one is not None]
    if not known:
        return None
    several = iter(shared(known))
    kept: list[Tensor] = []
    summed: list[tuple[str, Tensor]] = []
    regions = known[0].regions
    for names, one in zip(product.axes, found, strict=True):
        if one is None:
            continue
        traced = next(several)
        regions = traced.regions
        for numbers in traced.all_numbers:
            over = [letter for letter, n in zip(names, numbers.shape, strict=True) if n > 1]
            if all(letter in product.result for letter in over):
                kept.append(_in_letters(numbers, names, product.result))
            else:
                summed.append((names, numbers))
    kept = [one for one in kept if one.numel() > 1 or bool((one != NONE).any())]
    if len(kept) == 1 and not (len(known) == 1 and summed):
        return Traced(regions, kept[0])
    if len(kept) == 2:
        return Traced(regions, kept[0], kept[1])
    if kept or len(summed) != 1 or len(known) != 1:
        return None
    ((names, numbers),) = summed
    axes = [at for at, letter in enumerate(names) if letter not in product.result]
    regions, numbers = _merged_along(regions, numbers, axes)
    return Traced(regions, _in_letters(numbers, names, product.result))


def _in_letters(numbers: Tensor, names: str, result: str) -> Tensor:
    """Return the numbers of a factor with the axes of the result of a product; those that it lacks have length 1."""
    gone = [at for at, letter in enumerate(names) if letter not in result]
    left = [letter for letter in names if letter in result]
    numbers = numbers.squeeze(gone) if gone else numbers
    numbers = numbers.permute([left.index(letter) for letter in result if letter in left])
    for at, letter in enumerate(result):
        if letter not in left:
            numbers = numbers.unsqueeze(at)
    return numbers


def _linear(tracer: Tracer, done: Done) -> Traced | None:
    traced = tracer.get(done.first)
    if (
        traced is not None
        and traced.other is None
        and traced.numbers.shape[-1] == 1
        and tracer.get(done.args[1]) is None
    ):
        return traced
    return _multiply(tracer, done)


def _attend(tracer: Tracer, done: Done) -> Traced | None:
    """Return what the output of an attention is made of: the tokens that its queries are."""
    traced, ndim = tracer.get(done.first), done.result.ndim
    if traced is None or traced.other is not None:
        return None
    regions, numbers = _merged_along(traced.regions, traced.numbers, [traced.numbers.ndim - 1])
    numbers = _aligned(numbers, ndim)
    return Traced(regions, numbers) if _fits(numbers.shape, done.result.shape) else None


def _convolve(tracer: Tracer, done: Done) -> Traced | None:
    x, weight = done.args[:2]
    n = weight.ndim - 2
    stride, padding, dilation = (done.argument(at, default) for at, default in ((3, 1), (4, 0), (5, 1)))
    strides, dilations = _each(stride, n), _each(dilation, n)
    kernel = [(k - 1) * by + 1 for k, by in zip(weight.shape[2:], dilations, strict=True)]
    sizes, result = x.shape[x.ndim - n :], done.result.shape[done.result.ndim - n :]
    if isinstance(padding, str):
        padding = 0 if padding == "valid" else [(k - 1) // 2 for k in kernel]
    at = [max(0, (k - s) // 2 - p) for k, s, p in zip(kernel, strides, _each(padding, n), strict=True)]
    traced = None if tracer.is_unread(x) else tracer.get(x)
    if traced is None:
        is_first = n > 1 and min(result, default=0) > 0 and (tracer.is_unread(x) or _reads_images(x, weight, strides))
        return _images_cut(x, sizes, result, strides, at) if is_first else None
    if traced.other is not None:
        return None
    regions, numbers = _merged_along(traced.regions, traced.numbers, [x.ndim - n - 1])
    return _in_blocks(regions, numbers, sizes, result, strides, at)


def _in_blocks(
    regions: Regions,
    numbers: Tensor,
    sizes: Sequence[int],
    result: Sequence[int],
    strides: Sequence[int],
    starts: Sequence[int],
) -> Traced | None:
    """Return what blocks along the last axes are made of, as of a convolution or a pool.

    Args:
        sizes, result: numbers along these axes, and of blocks.
        strides: size of a block along each axis, which is their distance.
        starts: where the first begins.
    """
    first, n = numbers.ndim - len(sizes), len(sizes)
    if all(s == 1 for s in strides) and tuple(sizes) == tuple(result):
        return Traced(regions, numbers)
    if n == 1 and any(s > 1 for s in strides):
        return None
    begins = ends = numbers.expand(*numbers.shape[:first], *sizes)
    for axis, (size, length, stride, start) in enumerate(zip(sizes, result, strides, starts, strict=True), first):
        at = torch.arange(length, device=numbers.device) * stride + start
        begins = begins.index_select(axis, at.clamp(max=size - 1))
        ends = ends.index_select(axis, (at + stride - 1).clamp(max=size - 1))
    return Traced(*between(regions, begins, ends))


def _each(x: Any, n: int) -> list[int]:
    several = list(x) if isinstance(x, list | tuple) else [x]
    return several * n if len(several) == 1 else several


def _reads_images(x: Tensor, weight: Tensor, strides: Sequence[int]) -> bool:
    """Return whether a convolution is the first that reads images: it cuts them into patches, or reads colours."""
    kernel = list(weight.shape[2:])
    is_cut = kernel == strides and max(kernel) > 1
    return is_cut or (x.shape[x.ndim - len(kernel) - 1] <= _COLOURS + 1 and max(kernel) > 1)


def _images_cut(
    x: Tensor, sizes: Sequence[int], result: Sequence[int], strides: Sequence[int], starts: Sequence[int]
) -> Traced:
    """Return what a convolution makes of images, (batch_size, channels, height, width), with frames before the rows, or
    without a batch; see ``_in_blocks``."""
    n = len(sizes)
    flat = x.detach() if x.ndim == n + 2 else x.detach()[None]
    before = (1,) * (3 - n)
    frames, height, width = (*before, *sizes)
    images = tuple(SeenImage(frames, height, width, one) for one in flat)
    edges = [
        [(min(i * stride + start, size - 1), min((i + 1) * stride + start, size)) for i in range(length)]
        for size, length, stride, start in zip(sizes, result, strides, starts, strict=True)
    ]
    regions, numbers = cells_of(images, [*([(0, 1)] for _ in before), *edges], x.device)
    numbers = numbers.view(len(images), 1, *result)
    return Traced(regions, numbers if x.ndim == n + 2 else numbers[0])


def _pool(tracer: Tracer, done: Done) -> Traced | None:
    traced, x = tracer.get(done.first), done.first
    if traced is None or traced.other is not None:
        return None
    n = 3 if "3d" in done.func.__name__ else 2
    kernel, stride, padding = (
        done.kwargs.get(name, done.argument(place, default))
        for place, (name, default) in enumerate((("kernel_size", 1), ("stride", None), ("padding", 0)), 1)
    )
    kernel = _each(kernel, n)
    strides = kernel if stride is None or stride == [] else _each(stride, n)
    at = [max(0, (k - s) // 2 - p) for k, s, p in zip(kernel, strides, _each(padding, n), strict=True)]
    return _in_blocks(traced.regions, traced.numbers, x.shape[-n:], done.result.shape[-n:], strides, at)


def _resize(tracer: Tracer, done: Done) -> Traced | None:
    """Return what a tensor is made of after its last axes have been stretched or shrunk."""
    traced, x = tracer.get(done.first), done.first
    if traced is None or traced.other is not None:
        return None
    regions, numbers = traced.regions, traced.numbers
    n = min(x.ndim - 2, 3)
    for axis in range(x.ndim - n, x.ndim):
        size, length = x.shape[axis], done.result.shape[axis]
        if size == length or not length:
            continue
        numbers = numbers.expand([size if at == axis else m for at, m in enumerate(numbers.shape)])
        edges = torch.arange(length + 1, device=x.device, dtype=torch.float64) * size / length
        first = edges[:-1].floor().long().clamp(0, size - 1)
        last = (edges[1:].ceil().long() - 1).clamp(0, size - 1)
        shape = [-1, *[1] * (x.ndim - axis - 1)]
        begins, ends = ((edges[:-1] - first), (edges[1:] - last))
        at, to = numbers.index_select(axis, first), numbers.index_select(axis, last)
        along = _axis_along(regions, numbers, axis, x.ndim)
        regions, numbers = cut_along(regions, along, at, to, begins.float().view(shape), ends.float().view(shape))
    return Traced(regions, numbers)


def _axis_along(regions: Regions, numbers: Tensor, axis: int, ndim: int) -> int:
    """Return the axis of an image that runs along an axis of a tensor."""
    ends = [regions.rows[numbers.select(axis, at).clamp(min=0).long()] for at in (0, -1)]
    moved = [float((ends[1][..., one] - ends[0][..., one]).abs().sum()) for one in AXES]
    return AXES[moved.index(max(moved))] if max(moved) > 0 else AXES[max(0, len(AXES) - (ndim - axis))]


def _unfold_blocks(tracer: Tracer, done: Done) -> Traced | None:
    """Return what columns of ``F.unfold`` are made of. It pads with zeros, so numbers are counted from 1 meanwhile."""
    traced = tracer.get(done.first)
    if traced is None or traced.other is not None:
        return None
    full = (traced.numbers.expand(done.first.shape).double() + 1) * (traced.numbers >= 0)
    return Traced(traced.regions, _short(done.func(full, *done.args[1:]).int() - 1, done.result.shape))


def _dims(done: Done) -> Any:
    return done.named("dim", done.named("dims", -1))


_CONVOLUTIONS = frozenset(functions("conv1d conv2d conv3d"))
_FILLS = frozenset([Tensor.fill_, Tensor.zero_])
_VALUES = {"index_copy": 3, "scatter": 3, "select_scatter": 1, "slice_scatter": 1}
"""Position of the values that functions write, where it is not the third."""

_COPIES_INTO = frozenset([Tensor.copy_])
_MASKED_SCATTERS = frozenset(functions("masked_scatter"))
_WRITERS = frozenset(
    [
        Tensor.__setitem__,
        *_FILLS,
        *_COPIES_INTO,
        *_MASKED_SCATTERS,
        *functions("index_copy index_put scatter select_scatter slice_scatter"),
    ]
)
"""Functions that put other numbers into some places of their first argument, or into a copy of it."""

_CUTS = frozenset([*functions("chunk split split_with_sizes tensor_split unbind"), Tensor.__iter__])
_FIRSTS = frozenset([F.multi_head_attention_forward, torch.native_dropout])
"""Functions that return several tensors, the first of which has the tokens of their first argument."""

_RULES: dict[Any, Rule] = {
    func: rule
    for several, rule in (
        (functions("view reshape view_as reshape_as flatten unflatten ravel unsqueeze"), _reshape),
        (functions("squeeze"), _squeeze),
        (functions("transpose swapaxes swapdims permute movedim moveaxis t adjoint"), _transpose),
        ([getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")], _transpose),
        (functions("expand expand_as broadcast_to"), _expand),
        (functions("repeat tile rot90 diagonal masked_select take_along_dim pixel_unshuffle channel_shuffle"), _move),
        (functions("repeat_interleave index_select narrow select roll flip"), _along(_dims)),
        (functions("fliplr flipud"), _move),
        ([Tensor.unfold], _move),
        (functions("gather"), _gather),
        (functions("pad"), _pad),
        ([F.unfold], _unfold_blocks),
        ([Tensor.__getitem__], _index),
        (functions("cat concat concatenate"), _cat),
        (functions("hstack"), partial(_cat, dim=1)),
        (functions("vstack"), partial(_cat, dim=0)),
        ([torch.stack], _stack),
        (functions("where"), _where),
        (functions("sum mean amax amin nansum nanmean"), _reduced),
        ([F.linear], _linear),
        (PRODUCTS, _multiply),
        (_CONVOLUTIONS, _convolve),
        (functions("avg_pool2d max_pool2d avg_pool3d max_pool3d"), _pool),
        (functions("interpolate upsample adaptive_avg_pool2d adaptive_max_pool2d pixel_shuffle"), _resize),
        ([F.scaled_dot_product_attention], _attend),
    )
    for func in several
}
