"""Numbers of regions beside the axes of a tensor: an axis has length 1 where they do not vary."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhaviz.observe.regions import AXES, NONE, Regions, merged


def fits(numbers: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether numbers of this shape may be those of a tensor of another shape."""
    return all(n in (1, size) for n, size in zip(numbers, shape, strict=True))


def none_of(x: Tensor) -> Tensor:
    """Return the numbers of a tensor that is of no image."""
    return torch.full((1,) * x.ndim, NONE, dtype=torch.int32, device=x.device)


def aligned(numbers: Tensor, ndim: int) -> Tensor:
    """Return numbers with new axes of length 1 before theirs."""
    return numbers.reshape((1,) * (ndim - numbers.ndim) + tuple(numbers.shape)) if numbers.ndim <= ndim else numbers


def full(numbers: Tensor, shape: Sequence[int], slim: bool = False) -> Tensor:
    """Return numbers for each element of a tensor; ``slim``: with a last axis of length 1."""
    return numbers.expand(*shape[:-1], 1) if slim else numbers.expand(tuple(shape))


def short(numbers: Tensor, shape: Sequence[int]) -> Tensor:
    """Return numbers with axes of length 1 where they are repeated."""
    for axis, (n, stride) in enumerate(zip(numbers.shape, numbers.stride(), strict=True)):
        if n > 1 and stride == 0:
            numbers = numbers.narrow(axis, 0, 1)
    if numbers.ndim and numbers.shape[-1] > 1 and bool((numbers == numbers[..., :1]).all()):
        numbers = numbers[..., :1]
    return numbers


def regrouped(numbers: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Return the numbers of a reshaped tensor; ``before``, ``after``: its shapes.

    Axes are taken in the smallest groups that have as many elements before and after. Only those along which regions
    vary are repeated.
    """
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


def joined(parts: Sequence[Tensor], numbers: Sequence[Tensor], dim: int) -> Tensor:
    """Return the numbers of joined tensors. An axis has length 1 if it has in all of them; so does that along which
    they are joined, if all are of the same regions."""
    shapes = [torch.Size(max(one.shape[at] for one in numbers) for at in range(parts[0].ndim)) for _ in parts]
    if all(one.shape[dim] == 1 and one.shape == numbers[0].shape and torch.equal(one, numbers[0]) for one in numbers):
        return numbers[0]
    sizes = [[*shape[:dim], x.shape[dim], *shape[dim + 1 :]] for x, shape in zip(parts, shapes, strict=True)]
    return torch.cat([one.expand(size) for one, size in zip(numbers, sizes, strict=True)], dim)


def merged_along(regions: Regions, numbers: Tensor, axes: Sequence[int]) -> tuple[Regions, Tensor]:
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


def agreeing(regions: Regions, one: Tensor, other: Tensor) -> Tensor:
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
