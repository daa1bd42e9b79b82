"""Which regions of images the queries and the keys of an attention are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.observe.order import Order
from mhaviz.observe.products import Weighing
from mhaviz.observe.regions import NONE, Regions, Traced, merged


@dataclass(frozen=True, eq=False)
class TokenRegions:
    """The regions of images that the tokens along one side of an attention are.

    Attributes:
        regions: the regions.
        numbers: int32, (batch_size, length), the number of the region of each token.
    """

    regions: Regions
    numbers: Tensor

    def extended(self, length: int) -> "TokenRegions":
        """Return as many tokens, the last of which are of no region, such as keys that PyTorch's layer adds."""
        missing = length - self.numbers.shape[1]
        if missing <= 0:
            return self
        return TokenRegions(self.regions, torch.nn.functional.pad(self.numbers, (0, missing), value=NONE))


Sides = tuple[TokenRegions | None, TokenRegions | None]
"""What queries and keys are; None: no region is known."""


def sides_of_call(order: Order, query: Tensor, key: Tensor, of: Sequence[Traced | None]) -> Sides:
    """Return what queries and keys are, (…, length, features) each; ``of``: what the tensors are made of."""
    before = query.shape[:-2]
    sides: list[TokenRegions | None] = []
    for x, traced, arrange in zip((query, key), of, (order.arrange, order.arrange_keys), strict=True):
        of_tokens = None if traced is None else _of_features(traced)
        if of_tokens is None:
            sides.append(None)
            continue
        regions, numbers = of_tokens
        full = numbers.expand(*x.shape[:-1], 1)
        if not order.is_plain:
            full = arrange(full.expand(*before, *full.shape[-2:]))
        sides.append(_of_heads(regions, full.reshape(-1, *full.shape[-3:])))
    return sides[0], sides[1]


def sides_of_layer(of: Sequence[Traced | None], tensors: Sequence[Tensor]) -> Sides:
    """Return what the queries and keys of PyTorch's layer are, (length, batch_size, features) each, or without a
    batch."""
    sides: list[TokenRegions | None] = []
    for x, traced in zip(tensors, of, strict=True):
        of_tokens = None if traced is None else _of_features(traced)
        if of_tokens is None:
            sides.append(None)
            continue
        regions, numbers = of_tokens
        full = numbers.expand(*x.shape[:-1], 1)[..., 0]
        sides.append(_known(regions, full[None] if x.ndim == 2 else full.transpose(0, 1)))
    return sides[0], sides[1]


def sides_of_weights(order: Order, how: Weighing, traced: Traced | None) -> Sides:
    """Return what queries and keys of weights are; ``traced``: what the weights are made of."""
    if traced is None:
        return None, None
    shape, (*_, query, key) = how.weights.shape, how.places
    found: dict[int, TokenRegions | None] = {}
    for numbers in traced.all_numbers:
        along = [axis for axis in (query, key) if axis >= 0 and numbers.shape[axis] > 1]
        side = along[0] if len(along) == 1 else query
        if len(along) == 2 or (not along and shape[side] > 1):
            continue
        other = key if side == query else query
        sizes = [1 if axis == other and not order.query else size for axis, size in enumerate(shape)]
        arranged = order.arrange(how.as_weights(numbers.expand(sizes)))
        if side == key:
            arranged = arranged.transpose(-1, -2)
        found[side] = _of_heads(traced.regions, arranged[..., :1])
    return found.get(query), found.get(key)


def _of_features(traced: Traced) -> tuple[Regions, Tensor] | None:
    """Return the regions of tokens, which are those of all of their features, and their numbers; None: not known."""
    if traced.other is not None:
        return None
    regions, numbers = traced.regions, traced.numbers
    if numbers.shape[-1] > 1:
        regions, numbers = merged(regions, numbers)
        numbers = numbers[..., None]
    return regions, numbers


def _of_heads(regions: Regions, numbers: Tensor) -> TokenRegions | None:
    """Return the tokens, which are the same for all heads, of (batch_size, n_heads, length, 1); None: they are not."""
    if not bool((numbers == numbers[:, :1]).all()):
        return None
    return _known(regions, numbers[:, 0, :, 0])


def _known(regions: Regions, numbers: Tensor) -> TokenRegions | None:
    is_known = not regions.are_pixels and bool((numbers != NONE).any())
    return TokenRegions(regions, numbers) if is_known else None
