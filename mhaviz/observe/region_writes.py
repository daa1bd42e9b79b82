"""The regions in tensors into which others are written, and in all that shares their memory."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.region_numbers import aligned, full, none_of, short
from mhaviz.observe.regions import NONE, NOTHING, SOURCE, Regions, SeenTokens, Traced, shared

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Tracer


def written(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what the first argument of a call is made of after others were written into it, or a copy of it."""
    x, before = done.first, tracer.known(done.first)
    func, args = done.func, done.args
    nothing = Traced(NOTHING, none_of(x))
    if func in _FILLS:
        return nothing
    if func in _COPIES_INTO:
        values = tracer.get(args[1])
        return values.moved(lambda numbers: aligned(numbers, x.ndim)) if values is not None else nothing
    place = _VALUES.get(getattr(func, "__name__", "").strip("_"), 2)
    source = args[place] if len(args) > place else None
    values = tracer.get(source)
    if before is None and values is None:
        return None
    if not isinstance(source, Tensor) or not source.ndim:  # a number stands in the place of some
        if before is None or before.other is not None:
            return before
        into = before.numbers.expand(x.shape).clone()
        if func is Tensor.__setitem__:
            into[args[1]] = NONE
        elif func in _SCATTERS:
            into = into.scatter(args[1], args[2], NONE)
        elif func in _INDEX_FILLS:
            into = into.index_fill(args[1], args[2], NONE)
        else:
            return nothing
        return Traced(before.regions, short(into))
    several = shared([one for one in (before, values) if one is not None])
    regions = several[0].regions
    old = several[0].numbers if before is not None else none_of(x)
    new = several[-1].numbers if values is not None else none_of(source)
    if func in _MASKED_SCATTERS:
        return _scattered(regions, old, new, x, args[1], source)
    if done.named("accumulate", False) is True:
        return nothing
    slim = old.shape[-1:] == new.shape[-1:] == (1,) and _leaves_features(done, x, source)
    is_scatter = slim and func in _SCATTERS
    others = [x[..., :1] if is_scatter and isinstance(x, Tensor) and x.shape == source.shape else x for x in args]
    old = full(old, x.shape, slim)
    into = old.clone()
    made = func(into, *(full(new, source.shape, slim) if at == place else others[at] for at in range(1, len(args))))
    made = into if made is None else made
    return Traced(regions, short(made if before is None else _without_blanks(regions, made, old, x)))


def _leaves_features(done: Done, x: Tensor, source: Tensor) -> bool:
    """Return whether a call writes whole rows of features, so that it writes as well into a last axis of length 1."""
    if x.ndim < 2 or source.ndim < 1 or source.shape[-1] != x.shape[-1] or done.kwargs:
        return False
    if done.func in _PUTS:
        items = done.args[1] if isinstance(done.args[1], tuple | list) else (done.args[1],)
        if any(one is Ellipsis for one in items):
            return _is_all(items[-1])
        axes = sum(
            one.ndim if isinstance(one, Tensor) and one.dtype == torch.bool else one is not None for one in items
        )
        return axes < x.ndim or _is_all(items[-1])
    dim = done.named("dim", None)
    if not isinstance(dim, int) or dim % x.ndim == x.ndim - 1:
        return False
    index = done.argument(2)
    return done.func not in _SCATTERS or (isinstance(index, Tensor) and index.ndim == x.ndim and index.stride(-1) == 0)


def _without_blanks(regions: Regions, numbers: Tensor, old: Tensor, x: Tensor) -> Tensor:
    """Return the numbers of a tensor, without rows of an input that are all 0, as of a cache that is not yet full."""
    is_given = [isinstance(one, SeenTokens) and not (one.reads or one.made_of) for one in regions.sources]
    if not any(is_given):
        return numbers
    of = regions.rows[numbers.clamp(min=0).long(), SOURCE].long()
    is_old = (numbers >= 0) & (numbers == old) & torch.tensor(is_given, device=numbers.device)[of]
    if not bool(is_old.any()) or bool(x[tuple(is_old.nonzero()[0])].any()):  # most are told by their first row
        return numbers
    are_set = (x != 0).any(-1, keepdim=True) if numbers.shape[-1] == 1 else x != 0
    return numbers if bool((are_set & is_old).any()) else numbers.masked_fill(is_old, NONE)


def _scattered(regions: Regions, old: Tensor, new: Tensor, x: Tensor, mask: Tensor, source: Tensor) -> Traced:
    """Return what a tensor is made of in which others stand, one behind the other, where a mask is true."""
    is_slim = old.shape[-1:] == new.shape[-1:] == (1,) and x.shape[-1:] == source.shape[-1:]
    mask = mask.expand(x.shape) if mask.ndim <= x.ndim else mask
    if is_slim and (mask.stride(-1) == 0 or bool((mask == mask[..., :1]).all())):
        into, mask, values = old.expand(*x.shape[:-1], 1), mask[..., :1], new.expand(*source.shape[:-1], 1)
    else:
        into, values = old.expand(x.shape), new.expand(source.shape)
    return Traced(regions, short(into.masked_scatter(mask, values)))


def seen_through(x: Tensor, before: Traced | None, view: Tensor, written: Traced) -> Traced | None:
    """Return what a tensor is made of, of whose memory ``view`` is some."""
    if written.other is not None or x.untyped_storage().data_ptr() != view.untyped_storage().data_ptr():
        return None
    if not min(x.ndim, view.ndim) or 0 in (x.numel(), view.numel()):
        return None
    several = [written] if before is None else shared([before, written])
    numbers = [traced.numbers for traced in several]
    n = _features_of(x, view) if all(one.shape[-1] == 1 for one in numbers) else 1
    size = x.untyped_storage().nbytes() // x.element_size() // n
    memory = torch.full((size,), NONE, dtype=torch.int32, device=x.device)

    def at(one: Tensor) -> Tensor:
        shape = one.shape if n == 1 else (*one.shape[:-1], 1)
        return memory.as_strided(shape, [stride // n for stride in one.stride()], one.storage_offset() // n)

    def put(one: Tensor, of: Tensor) -> None:
        """Copy numbers to the places of a tensor, once where it repeats them."""
        into, of = at(one), full(of, one.shape, n > 1)
        for axis, stride in enumerate(one.stride()):
            into, of = (z.narrow(axis, 0, 1) if stride == 0 and z.shape[axis] > 1 else z for z in (into, of))
        into.copy_(of)

    if before is not None:
        put(x, numbers[0])
    put(view, numbers[-1])
    return Traced(several[0].regions, short(at(x).clone()))


def _is_all(item: object) -> bool:
    return isinstance(item, slice) and item == slice(None)


def _features_of(x: Tensor, view: Tensor) -> int:
    """Return how many features each row of two tensors has that share memory, row by row; 1: that is not so."""
    n = x.shape[-1]
    are_rows = all(
        one.shape[-1] == n
        and one.stride(-1) == 1
        and not one.storage_offset() % n
        and not any(stride % n for stride in one.stride()[:-1])
        for one in (x, view)
    )
    return n if are_rows else 1


def are_apart_in_memory(x: Tensor, view: Tensor) -> bool:
    """Return whether two tensors of the same memory share no number, as the layers of a cache do."""
    spans = []
    for one in (x, view):
        last = sum((n - 1) * stride for n, stride in zip(one.shape, one.stride(), strict=True))
        spans.append((one.storage_offset(), one.storage_offset() + last))
    return spans[0][1] < spans[1][0] or spans[1][1] < spans[0][0]


_PUTS = frozenset([Tensor.__setitem__, *functions("index_put")])
_INDEX_FILLS, _SCATTERS = frozenset(functions("index_fill")), frozenset(functions("scatter"))
_FILLS = frozenset([Tensor.fill_, Tensor.zero_])
_VALUES = {"index_copy": 3, "index_fill": 3, "scatter": 3, "select_scatter": 1, "slice_scatter": 1}
"""Position of the values that functions write, where it is not the third."""

_COPIES_INTO = frozenset([Tensor.copy_])
_MASKED_SCATTERS = frozenset(functions("masked_scatter"))
WRITERS = frozenset(
    [
        Tensor.__setitem__,
        *_FILLS,
        *_COPIES_INTO,
        *_MASKED_SCATTERS,
        *_INDEX_FILLS,
        *functions("index_copy index_put scatter select_scatter slice_scatter"),
    ]
)
"""Functions that put other numbers into some places of their first argument, or into a copy of it."""
