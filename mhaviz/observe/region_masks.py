"""The regions after functions that may leave nothing of a token, by a mask or a factor of 0.

Where they stood is known, but not what stands there now.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhaviz.observe.functions import MULTIPLIES, functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.region_numbers import aligned, short
from mhaviz.observe.region_sums import keep
from mhaviz.observe.regions import IMAGE, NONE, Traced

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer


def _fill(tracer: "Tracer", done: Done) -> Traced | None:
    traced, mask = keep(tracer, done), done.argument(1)
    return _emptied(traced, mask) if isinstance(mask, Tensor) and mask.dtype == torch.bool else traced


def _multiply(tracer: "Tracer", done: Done) -> Traced | None:
    traced = keep(tracer, done)
    for x, other in (done.args[:2], done.args[1::-1]) if len(done.args) > 1 else ():
        is_share = isinstance(other, Tensor) and other.ndim > 1 and other.shape[-1] == 1 and isinstance(x, Tensor)
        if is_share and x.ndim > 1 and x.shape[-1] > 1:
            traced = _emptied(traced, other == 0)
    return traced


def _interpolate(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what ``lerp`` makes: where its weight is 1, nothing is left of its start."""
    traced, start, weight = keep(tracer, done), done.argument(0), done.argument(2)
    is_end = tracer.get(done.argument(1)) is not None or tracer.get(start) is None
    return traced if is_end or not isinstance(weight, Tensor) else _emptied(traced, weight == 1)


def _emptied(traced: Traced | None, is_empty: Tensor) -> Traced | None:
    """Return what is left of tokens, (…, features), of all features of which nothing is left where ``is_empty``."""
    if traced is None or traced.other is not None or IMAGE in traced.ranks or not is_empty.ndim:
        return traced
    rows = aligned(is_empty, traced.numbers.ndim)
    rows = rows[..., :1] if rows.stride(-1) == 0 else rows.all(-1, keepdim=True)
    if not bool(rows.any()):
        return traced
    numbers = torch.where(rows, torch.full_like(traced.numbers, NONE), traced.numbers)
    return Traced(traced.regions, short(numbers, numbers.shape))


MASKS: "dict[object, Rule]" = {
    **dict.fromkeys(functions("masked_fill"), _fill),
    **dict.fromkeys(MULTIPLIES, _multiply),
    **dict.fromkeys(functions("lerp"), _interpolate),
}
