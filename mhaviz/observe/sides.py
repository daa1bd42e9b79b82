"""Which tokens and regions of images the queries and the keys of an attention are."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhaviz.observe.order import Order
from mhaviz.observe.products import Weighing
from mhaviz.observe.regions import AXES, NONE, Regions, Traced, merged
from mhaviz.observe.token_regions import Sides, TokenRegions


def sides_of_call(order: Order, query: Tensor, key: Tensor, of: Sequence[Traced | None]) -> Sides:
    """Return what queries and keys are, (…, length, features) each; ``of``: what the tensors are made of."""
    before = query.shape[:-2]
    sides: list[TokenRegions | None] = []
    for x, traced, arrange in zip((query, key), of, (order.arrange, order.arrange_keys), strict=True):
        if (of_tokens := _of_tokens(x, traced)) is None:
            sides.append(None)
            continue
        regions, full = of_tokens
        if not order.is_plain:
            full = arrange(full.expand(*before, *full.shape[-2:]))
        sides.append(_of_heads(regions, full.reshape(-1, *full.shape[-3:])))
    return sides[0], sides[1]


def sides_of_layer(of: Sequence[Traced | None], tensors: Sequence[Tensor]) -> Sides:
    """Return what the queries and keys of PyTorch's layer are, (length, batch_size, features) each, or without a
    batch."""
    sides: list[TokenRegions | None] = []
    for x, traced in zip(tensors, of, strict=True):
        if (of_tokens := _of_tokens(x, traced)) is None:
            sides.append(None)
            continue
        regions, full = of_tokens
        sides.append(_known(regions, full[None, ..., 0] if x.ndim == 2 else full[..., 0].transpose(0, 1)))
    return sides[0], sides[1]


def sides_of_weights(order: Order, how: Weighing, traced: Traced | None) -> Sides:
    """Return what queries and keys of weights are; ``traced``: what the weights are made of."""
    if traced is None:
        return None, None
    shape, (*_, query, key) = how.weights.shape, how.places
    found: dict[int, TokenRegions | None] = {}
    along = [[axis for axis in (query, key) if axis >= 0 and numbers.shape[axis] > 1] for numbers in traced.all_numbers]
    for numbers, axes, others in zip(traced.all_numbers, along, along[::-1], strict=True):
        other = others[0] if len(along) > 1 and len(others) == 1 else query
        side = axes[0] if len(axes) == 1 else key if other == query and len(along) > 1 and others else query
        if len(axes) == 2 or (not axes and shape[side] > 1 and len(others) != 1):
            continue
        other = key if side == query else query
        sizes = [1 if axis == other and not order.query else size for axis, size in enumerate(shape)]
        arranged = order.arrange(how.as_weights(numbers.expand(sizes)))
        if side == key:
            arranged = arranged.transpose(-1, -2)
        found[side] = _of_heads(traced.regions, arranged[..., :1])
    if traced.other is not None and not any(along) and max(shape[query], shape[key]) == 1:
        found = _of_one_token(order, how, traced)
    for side in (query, key):
        if side >= 0 and side not in found:  # its rows do not tell which tokens they are
            numbers = torch.full((1, shape[side]), NONE, dtype=torch.int32, device=traced.numbers.device)
            found[side] = TokenRegions(traced.regions, numbers)
    return found.get(query), found.get(key)


def _of_one_token(order: Order, how: Weighing, traced: Traced) -> dict[int, TokenRegions | None]:
    """Return what a single query and a single key are, along their axes; empty: it is not known which is which."""
    shape, (*_, query, key) = how.weights.shape, how.places
    which = 1  # factor of the scores that the key is in, if that matters
    if traced.other is not None and not torch.equal(traced.numbers, traced.other):
        if order.scores is None or len(order.scores[1]) > 1:
            return {}
        (which,) = order.scores[1]
    found: dict[int, TokenRegions | None] = {}
    for side, numbers in zip((key, query), (traced.all_numbers[which], traced.all_numbers[1 - which]), strict=True):
        arranged = order.arrange(how.as_weights(numbers.expand([*shape[:key], 1, *shape[key + 1 :]])))
        found[side] = _of_heads(traced.regions, arranged)
    return found


def _of_tokens(x: Tensor, traced: Traced | None) -> tuple[Regions, Tensor] | None:
    """Return the regions of tokens, which are those of all of their features, and their numbers, (…, length, 1); None:
    not known.

    Args:
        x: the tokens, (…, length, features).
        traced: what they are made of.
    """
    if traced is None:
        return None
    if traced.other is not None:  # of a product, whose rows do not tell which of its factors they are
        return traced.regions, torch.full((*x.shape[:-1], 1), NONE, dtype=torch.int32, device=x.device)
    regions, numbers = traced.regions, traced.numbers
    if numbers.shape[-1] > 1:
        regions, numbers = merged(regions, numbers)
        numbers = numbers[..., None]
    return regions, numbers.expand(*x.shape[:-1], 1)


def _of_heads(regions: Regions, numbers: Tensor) -> TokenRegions | None:
    """Return the tokens that are the same for all heads, of (batch_size, n_heads, length, 1).

    Heads may stand along an axis of what the program was given.
    """
    first = numbers[:, 0, :, 0]
    is_same = (numbers == numbers[:, :1]).all(1)[..., 0]
    if bool(is_same.all()):
        return _known(regions, first)
    rows = regions.rows[numbers.clamp(min=0).long()][:, :, :, 0]  # batch_size n_heads length 7
    is_changed = rows != rows[:, :1]
    is_alike = is_same
    for axis in AXES:
        others = [column for column in range(rows.shape[-1]) if column not in (axis, axis + 1)]
        is_along = (numbers[..., 0] >= 0).all(1) & ~is_changed[..., others].any(-1).any(1) & ~is_same
        along = rows[..., axis].transpose(1, 2)[is_along]  # rows n_heads
        if len(along) and bool((along == along[:1]).all()):
            is_alike = is_alike | is_along
    return _known(regions, torch.where(is_alike, first, torch.full_like(first, NONE)))


def _known(regions: Regions, numbers: Tensor) -> TokenRegions | None:
    return None if regions.are_pixels else TokenRegions(regions, numbers)
