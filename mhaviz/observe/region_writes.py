"""The regions in tensors into which others are written, and in all that shares their memory."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.region_numbers import aligned, none_of, short
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
        elif func in _SCATTERS_OF_NUMBERS:
            into = into.scatter(args[1], args[2], NONE)
        elif func in _INDEX_FILLS:
            into = into.index_fill(args[1], args[2], NONE)
        else:
            return nothing
        return Traced(before.regions, short(into, x.shape))
    several = shared([one for one in (before, values) if one is not None])
    regions = several[0].regions
    old = several[0].numbers if before is not None else none_of(x)
    new = several[-1].numbers if values is not None else none_of(source)
    if func in _MASKED_SCATTERS:
        return _scattered(regions, old, new, x, args[1], source)
    if done.named("accumulate", False) is True:
        return nothing
    into = old.expand(x.shape).clone()
    made = func(into, *(new.expand(source.shape) if at == place else one for at, one in enumerate(args) if at))
    made = into if made is None else made
    return Traced(
        regions, short(made if before is None else _without_blanks(regions, made, old.expand(x.shape), x), x.shape)
    )


def _without_blanks(regions: Regions, numbers: Tensor, old: Tensor, x: Tensor) -> Tensor:
    """Return the numbers of a tensor, without rows of an input that are all 0, as of a cache that is not yet full."""
    is_given = [isinstance(one, SeenTokens) and not (one.reads or one.made_of) for one in regions.sources]
    if not any(is_given):
        return numbers
    of = regions.rows[numbers.clamp(min=0).long(), SOURCE].long()
    is_old = (numbers >= 0) & (numbers == old) & torch.tensor(is_given, device=numbers.device)[of]
    is_blank = bool(is_old.any()) and not bool(x[is_old].any())
    return numbers.masked_fill(is_old, NONE) if is_blank else numbers


def _scattered(regions: Regions, old: Tensor, new: Tensor, x: Tensor, mask: Tensor, source: Tensor) -> Traced:
    """Return what a tensor is made of in which others stand, one behind the other, where a mask is true."""
    is_slim = old.shape[-1:] == new.shape[-1:] == (1,) and x.shape[-1:] == source.shape[-1:]
    mask = mask.expand(x.shape) if mask.ndim <= x.ndim else mask
    if is_slim and (mask.stride(-1) == 0 or bool((mask == mask[..., :1]).all())):
        into, mask, values = old.expand(*x.shape[:-1], 1), mask[..., :1], new.expand(*source.shape[:-1], 1)
    else:
        into, values = old.expand(x.shape), new.expand(source.shape)
    return Traced(regions, short(into.masked_scatter(mask, values), x.shape))


def seen_through(x: Tensor, before: Traced | None, view: Tensor, written: Traced) -> Traced | None:
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
    return Traced(several[0].regions, short(at(x).clone(), x.shape))


_INDEX_FILLS, _SCATTERS_OF_NUMBERS = frozenset(functions("index_fill")), frozenset(functions("scatter"))
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
