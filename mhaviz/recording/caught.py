"""An attention that was caught while it ran, in the axes of mhaviz: batch_size, n_heads, q_length, k_length."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.recording.zeroing import Arrange, Zero


@dataclass(frozen=True)
class Mixed:
    """The values that weights by hand have met, and what has come of them.

    Attributes:
        value: (batch_size, n_heads, k_length, d_value).
        made: what the weights have made of them: the tensor with which the program goes on.
        arrange: puts the axes of that tensor in the order batch_size, n_heads, q_length, d_value.
        have_met_again: tells, later on, whether the same weights have met other values since.
    """

    value: Tensor
    made: Tensor
    arrange: Arrange
    have_met_again: Callable[[], bool]


@dataclass(frozen=True)
class Caught:
    """One attention, as it has just run.

    Attributes:
        call: what it computed with, or the weights that it made.
        output: what it made of the values, (batch_size, n_heads, q_length, d_value); None: not known, or of weights
            that dropout had changed.
        reads_itself: whether queries and keys are of the same tokens; None: not known.
        are_fixed: whether the queries are fixed rows, such as learned ones, and whether the keys are.
        shares_axis: whether the program has its heads and its batch in one axis, which is read batch first.
        zero: see ``Zero``; None: it is too late, or not known where the program has what the heads have made.
        mixed: of weights by hand, gives what they have met, while the program is where it is; None, or gives None: that
            is not known.
        visible: of weights by hand, bool, of their shape: False where the score was a hidden key's; None: not known.
    """

    call: AttentionCall | AttentionWeights
    output: Tensor | None = None
    reads_itself: bool | None = None
    are_fixed: tuple[bool, bool] = False, False
    shares_axis: bool = False
    zero: Zero | None = None
    mixed: Callable[[], Mixed | None] | None = None
    visible: Tensor | None = None


def caught_weights(A: Tensor, n_heads: int | None, batch_size: int | None) -> Caught:
    """Weights in the program's own axes, (…, q_length, k_length).

    ``n_heads``, ``batch_size``: as far as they are known; they tell what the axes before the queries are.

    Raises MhavizError if some are negative.
    """
    if bool((least := A.amin()) < 0):
        raise MhavizError(
            f"multiplies its values by negative weights, down to {float(least):.3g}, which no map of weights can show"
        )
    batch, heads = _order(A.shape[:-2], n_heads, batch_size)
    A = _arranged(A, batch, heads)
    sums = A.sum(dim=-1, dtype=torch.float32)
    leaves_some = bool(((sums < 1 - _ROUNDING) & (sums > _ROUNDING)).any())
    return Caught(AttentionWeights(A, has_sink=leaves_some), shares_axis=heads is None and 1 not in A.shape[:2])


_ROUNDING = 2**-6
"""How far rows of weights of half precision may be from a sum of 1."""


def caught_call(call: AttentionCall, output: Tensor | None, n_heads: int | None, batch_size: int | None) -> Caught:
    """A call in the program's own axes, (…, length, features), with keys of as many heads as queries where there are
    not four axes. The mask broadcasts to (…, q_length, k_length)."""
    query, key, value, mask = call.query, call.key, call.value, call.mask
    shares_axis = False
    if query.ndim != 4:
        before = query.shape[:-2]
        batch, heads = _order(before, n_heads, batch_size)
        key, value = (x.expand(*before, *x.shape[-2:]) for x in (key, value))
        if mask is not None:
            mask = _arranged(mask.expand(*before, *mask.shape[-2:]), batch, heads)
        query, key, value = (_arranged(x, batch, heads) for x in (query, key, value))
        output = None if output is None else _arranged(output, batch, heads)
        shares_axis = heads is None and 1 not in query.shape[:2]
    elif key.shape[0] != query.shape[0] or query.shape[1] % key.shape[1]:
        key, value = (x.expand(*query.shape[:2], *x.shape[-2:]) for x in (key, value))
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
        mask = mask.expand(*mask.shape[:3], key.shape[2])
    return Caught(replace(call, query=query, key=key, value=value, mask=mask), output, shares_axis=shares_axis)


def arrangement(before: torch.Size, n_heads: int | None, batch_size: int | None) -> Arrange:
    """What arranges tensors that have these axes before their last two."""
    batch, heads = _order(before, n_heads, batch_size)
    return lambda x: _arranged(x, batch, heads)


def example(call: AttentionCall | AttentionWeights, place: int) -> AttentionCall | AttentionWeights:
    """The same of one example of the batch alone."""
    one = slice(place, place + 1)
    if isinstance(call, AttentionWeights):
        return replace(call, given=call.given[one])
    mask = call.mask
    if mask is not None and mask.shape[0] > 1:
        mask = mask[one]
    return replace(call, query=call.query[one], key=call.key[one], value=call.value[one], mask=mask)


def _order(
    before: torch.Size, n_heads: int | None, batch_size: int | None
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Which of the axes before the queries are of the batch, and which are of the heads.

    None: the one axis there is holds both, as many heads as ``n_heads`` or all that the batch leaves. Heads have two
    axes where they share keys in groups.
    """
    if len(before) < 2:
        if before and (not n_heads or before[0] % n_heads):
            n_heads = before[0] // batch_size if batch_size and before[0] % batch_size == 0 else before[0]
        return (n_heads or 1,), None
    if (
        n_heads not in before[-2:]
        and before[-2] * before[-1] == n_heads
        and (len(before) > 2 or before[0] != batch_size)
    ):
        return tuple(range(len(before) - 2)), (len(before) - 2, len(before) - 1)
    if len(before) == 2:
        swapped = before[0] == n_heads != before[1] and (before[1] == batch_size or before[0] != batch_size)
        return ((1,), (0,)) if swapped else ((0,), (1,))
    places = [place for place in range(1, len(before)) if before[place] == n_heads]
    heads = places[0] if places else 1
    return tuple(place for place in range(len(before)) if place != heads), (heads,)


def _arranged(x: Tensor, batch: tuple[int, ...], heads: tuple[int, ...] | None) -> Tensor:
    """x (…, rows, columns) → (batch_size, n_heads, rows, columns), for what ``_order`` has found."""
    rows, columns = x.shape[-2:]
    if heads is None:
        return x.reshape(-1, batch[0], rows, columns)
    n_heads = math.prod(x.shape[place] for place in heads)
    return x.permute(*batch, *heads, -2, -1).reshape(-1, n_heads, rows, columns)
