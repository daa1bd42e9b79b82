"""The regions after each function of PyTorch that moves numbers.

The function itself moves the numbers of the regions.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.functions import functions, writes
from mhaviz.observe.handlers import Done
from mhaviz.observe.kept_moves import move_of
from mhaviz.observe.region_numbers import (
    aligned,
    emptied,
    full,
    joined,
    merged_along,
    none_of,
    regrouped,
    short,
    sum_of,
)
from mhaviz.observe.region_sums import keep
from mhaviz.observe.regions import (
    IMAGE,
    NONE,
    NOTHING,
    Regions,
    Traced,
    is_table,
    shared,
)

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer


def is_slim(traced: Traced, shape: Sequence[int], dims: Any) -> bool:
    """Return whether regions do not vary along the last axis, and a function along ``dims`` leaves it as it is."""
    if not shape or any(numbers.shape[-1] != 1 for numbers in traced.all_numbers):
        return False
    several = dims if isinstance(dims, list | tuple) else (dims,)
    return all(isinstance(dim, int) and dim % len(shape) != len(shape) - 1 for dim in several)


def _along(get_dims: Callable[[Done], Any], has_places: bool = False) -> "Rule":
    """Return the rule of a function that moves numbers along some axes; ``get_dims`` returns them.

    ``has_places``: whether it takes an index with the axes of its first argument, as gather does.
    """

    def move(tracer: "Tracer", done: Done) -> Traced | None:
        x, traced = done.first, tracer.get(done.first)
        if traced is None:
            return None
        slim = is_slim(traced, x.shape, get_dims(done))
        others = [_slimmed(one, x) if slim and has_places else one for one in done.args[1:]]
        return tracer.moves.once(
            traced,
            move_of(done),
            lambda: traced.moved(lambda one: short(done.func(full(one, x.shape, slim), *others, **done.kwargs))),
        )

    return move


def _slimmed(index: Any, x: Tensor) -> Any:
    """Return an index with the axes of a tensor as that for a last axis of length 1."""
    has_all = isinstance(index, Tensor) and index.ndim == x.ndim > 1
    return index[..., :1] if has_all else index


def _gather(tracer: "Tracer", done: Done) -> Traced | None:
    index = done.argument(2)
    is_one = isinstance(index, Tensor) and index.ndim > 1 and (index.stride(-1) == 0 or index.shape[-1] == 1)
    return _along(lambda done: done.argument(1), has_places=True)(tracer, done) if is_one else _move(tracer, done)


def _index(tracer: "Tracer", done: Done) -> Traced | None:
    items = done.args[1] if isinstance(done.args[1], tuple) else (done.args[1],)
    used = sum(one.ndim if isinstance(one, Tensor) and one.dtype == torch.bool else one is not None for one in items)
    if done.first.ndim == 2 and done.result.shape == (*done.first.shape, 1):
        tracer.read_as_columns(done.first)
    ids = items[0]
    if len(items) == 1 and isinstance(ids, Tensor) and ids.ndim > 0 and not ids.is_floating_point():
        traced = tracer.get(done.first)
        is_matrix = ids.dtype != torch.bool and done.first.ndim == 2
        if is_matrix and (traced is None or (ids.ndim > 1 and is_table(traced))):
            return tracer.looked_up(ids, done.first)
        if is_matrix and traced is not None and is_table(traced):  # of vectors, or tokens of which some are kept
            return tracer.made(done.result, [traced])
    is_last = any(one is Ellipsis for one in items) or used >= done.first.ndim
    return _along(lambda done: -1 if is_last else 0 if done.first.ndim > 1 else -1)(tracer, done)


def _reshape(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a reshaped tensor is made of. Only axes along which regions vary are repeated."""
    x, shape = done.first, done.result.shape
    if isinstance(x, Tensor) and x.ndim == 4 and shape[:2] == x.shape[:2] and len(shape) == 3:
        tracer.read_as_map(x)
    if isinstance(x, Tensor) and x.ndim == 2 and shape == (*x.shape, 1):
        tracer.read_as_columns(x)
    traced = tracer.get(x)
    if traced is None or not x.numel():
        return None
    return tracer.moves.once(
        traced, (_reshape, x.shape, shape), lambda: traced.moved(lambda one: short(regrouped(one, x.shape, shape)))
    )


def transpose(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a tensor is made of whose axes were moved."""
    x = done.first
    if x.ndim == 4 and done.result.shape == (x.shape[0], *x.shape[2:], x.shape[1]):
        tracer.read_as_map(x)
    traced = tracer.get_moved(x) if x is done.result else tracer.get(x)
    if traced is None or any(one.ndim != x.ndim for one in traced.all_numbers):
        return None
    func = getattr(Tensor, done.func.__name__.rstrip("_"), done.func) if writes(done.func) else done.func
    return tracer.moves.once(
        traced, move_of(done), lambda: traced.moved(lambda numbers: func(numbers, *done.args[1:], **done.kwargs))
    )


def _squeeze(tracer: "Tracer", done: Done) -> Traced | None:
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


def _expand(tracer: "Tracer", done: Done) -> Traced | None:
    traced, ndim = tracer.get(done.first), done.result.ndim
    return traced and Traced(traced.regions, *(aligned(one, ndim) for one in traced.all_numbers))


def _together(tracer: "Tracer", tensors: Sequence[Any]) -> tuple[Regions, list[Traced]] | None:
    """Return what tensors are made of with the same regions, those of which nothing is known of none; None: nothing is
    known of any."""
    found = [tracer.get(x) for x in tensors]
    known = iter(shared([traced for traced in found if traced is not None]) if any(found) else ())
    made = [
        Traced(NOTHING, none_of(x)) if traced is None else next(known) for x, traced in zip(tensors, found, strict=True)
    ]
    regions = next(
        (traced.regions for traced, was in zip(made[::-1], found[::-1], strict=True) if was is not None), None
    )
    return None if regions is None else (regions, made)


def _cat(tracer: "Tracer", done: Done, dim: int | None = None) -> Traced | None:
    parts = [x for x in done.first if isinstance(x, Tensor) and x.numel()]
    if not parts or not all(x.ndim == parts[0].ndim for x in parts):
        return None
    dim = (done.named("dim", 0) if dim is None else dim) % parts[0].ndim
    if (together := _together(tracer, parts)) is None:
        return None
    regions, found = together
    if any(traced.other is not None for traced in found):  # scores, joined with others, such as those of sinks
        return Traced(
            regions,
            joined(parts, [traced.numbers for traced in found], dim),
            joined(parts, [traced.all_numbers[-1] for traced in found], dim),
        )
    may_be_features = 0 < dim == parts[0].ndim - 1 and any(x.shape[dim] > 1 for x in parts)
    are_features = may_be_features and all(traced.numbers.shape[dim] == 1 for traced in found)
    if are_features and not any(IMAGE in traced.ranks for traced in found):
        terms = [traced for traced in found if traced.regions is not NOTHING]
        return reduce(sum_of, terms) if terms else Traced(NOTHING, none_of(done.result))
    numbers = []
    for x, traced in zip(parts, found, strict=True):
        if traced.regions is NOTHING and (name := tracer.parameter_of(x)):
            regions, of_part = _named(regions, name, x, dim)
            numbers.append(of_part)
        else:
            numbers.append(traced.numbers)
    return Traced(regions, joined(parts, numbers, dim))


def _named(regions: Regions, name: str, x: Tensor, dim: int) -> tuple[Regions, Tensor]:
    """Return the regions with those of a parameter whose rows stand among tokens, and their numbers."""
    each = []
    for place in range(x.shape[dim]):
        regions, number = regions.named(f"{name} {place}" if x.shape[dim] > 1 else name)
        each.append(torch.full_like(none_of(x), number))
    return regions, torch.cat(each, dim)


def _stack(tracer: "Tracer", done: Done) -> Traced | None:
    dim, parts = done.named("dim", 0) % done.result.ndim, list(done.first)
    together = _together(tracer, parts)
    if together is None or any(traced.other is not None for traced in together[1]):
        return None
    regions, found = together
    numbers = [traced.numbers.unsqueeze(dim) for traced in found]
    return Traced(regions, joined([x.unsqueeze(dim) for x in parts], numbers, dim))


def _as_complex(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a tensor is made of whose last axis holds real and imaginary parts, or held them before."""
    traced = tracer.get(done.first)
    if traced is None or traced.other is not None:
        return None
    if done.result.ndim > done.first.ndim:
        return traced.moved(lambda numbers: numbers[..., None])
    regions, numbers = merged_along(traced.regions, traced.numbers, [traced.numbers.ndim - 1])
    return Traced(regions, numbers[..., 0])


def _pad(tracer: "Tracer", done: Done) -> Traced | None:
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
        numbers.append(short(one))
    return Traced(traced.regions, *numbers)


def _where(tracer: "Tracer", done: Done) -> Traced | None:
    if len(done.args) < 3:
        return None
    mask, *sides = done.args[:3] if done.func is torch.where else (done.args[1], done.args[0], done.args[2])
    if any(not isinstance(x, Tensor) or not x.ndim for x in sides):
        traced = keep(tracer, done)
        is_first = isinstance(sides[0], Tensor) and sides[0].ndim > 0
        return emptied(traced, ~mask if is_first else mask) if isinstance(mask, Tensor) else traced
    if (together := _together(tracer, sides)) is None:
        return None
    regions, found = together
    if any(traced.other is not None for traced in found):
        return keep(tracer, done)
    ndim = done.result.ndim
    numbers = [aligned(traced.numbers, ndim) for traced in found]
    mask = aligned(mask, ndim)
    if all(of.shape[-1] == 1 for of in numbers) and (mask.stride(-1) == 0 or mask.shape[-1] == 1):
        mask = mask[..., :1]
    chosen = torch.where(mask, numbers[0], numbers[1])
    return Traced(regions, short(chosen))


def _unfold_blocks(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what columns of ``F.unfold`` are made of. It pads with zeros, so numbers are counted from 1 meanwhile."""
    traced = tracer.get(done.first)
    if traced is None or traced.other is not None:
        return None
    full = (traced.numbers.expand(done.first.shape).double() + 1) * (traced.numbers >= 0)
    return Traced(traced.regions, short(done.func(full, *done.args[1:]).int() - 1))


def _dims(done: Done) -> Any:
    return done.named("dim", done.named("dims", -1))


_move = _along(lambda done: -1)


MOVES: "dict[Any, Rule]" = {
    func: rule
    for several, rule in (
        (functions("view reshape view_as reshape_as flatten unflatten ravel unsqueeze"), _reshape),
        (functions("squeeze"), _squeeze),
        (functions("transpose swapaxes swapdims permute movedim moveaxis t adjoint"), transpose),
        ([getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")], transpose),
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
        (functions("view_as_complex view_as_real"), _as_complex),
    )
    for func in several
}
