"""The regions after functions that may leave nothing of a token, by a mask or a factor of 0.

Where they stood is known, but not what stands there now.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhaviz.observe.functions import MULTIPLIES, functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.region_numbers import emptied
from mhaviz.observe.region_sums import keep
from mhaviz.observe.regions import Traced

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer


def _fill(tracer: "Tracer", done: Done) -> Traced | None:
    traced, mask = keep(tracer, done), done.argument(1)
    return emptied(traced, mask) if isinstance(mask, Tensor) and mask.dtype == torch.bool else traced


def _multiply(tracer: "Tracer", done: Done) -> Traced | None:
    traced = keep(tracer, done)
    for x, other in (done.args[:2], done.args[1::-1]) if len(done.args) > 1 else ():
        is_share = isinstance(other, Tensor) and other.ndim > 1 and (other.shape[-1] == 1 or other.stride(-1) == 0)
        if is_share and isinstance(x, Tensor) and x.ndim > 1 and x.shape[-1] > 1:
            traced = emptied(traced, other[..., :1] == 0)
    return traced


def _interpolate(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what ``lerp`` makes: where its weight is 1, nothing is left of its start."""
    traced, start, weight = keep(tracer, done), done.argument(0), done.argument(2)
    is_end = tracer.get(done.argument(1)) is not None or tracer.get(start) is None
    return traced if is_end or not isinstance(weight, Tensor) else emptied(traced, weight == 1)


def _of_both(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a function makes of which one argument alone may tell nothing of the other, such as an angle."""
    several = [x for x in done.args[:2] if isinstance(x, Tensor)]
    known = [traced for x in several if (traced := tracer.get(x)) is not None]
    is_one = len(several) == 1 or (len(known) == 2 and torch.equal(known[0].numbers, known[1].numbers))
    return keep(tracer, done) if is_one and len({traced.regions.rows for traced in known}) == 1 else None


MASKS: "dict[object, Rule]" = {
    **dict.fromkeys(functions("masked_fill"), _fill),
    **dict.fromkeys(MULTIPLIES, _multiply),
    **dict.fromkeys(functions("lerp"), _interpolate),
    **dict.fromkeys(functions("atan2 arctan2 complex"), _of_both),
}
