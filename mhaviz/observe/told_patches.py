"""Patches of which a model of transformers is told where they stand, as its image processor has cut them.

A processor may give a model patches instead of images, in an order of its own, such as that of Qwen2-VL (Wang et al.
2024, arXiv 2409.12191), whose patches stand in blocks of 2 × 2. The model then reads the row and the column of each.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.observe.readable import version_of
from mhaviz.observe.regions import NONE, Regions, SeenImage, Traced

_COLOURS, _MOST_ALIKE = 3, 0.8
"""Channels of a photo; most of the jumps between neighbouring pixels in the right order, as a share of those in the
wrong one."""


def told_patches(
    module: nn.Module, args: Sequence[Any], known: Callable[[Tensor], Traced | None]
) -> tuple[Tensor, Callable[[], Traced]] | None:
    """Return the tensor of patches among what a module is called with, and a function that returns what it is made of.

    None: the module is told of none.

    Args:
        module, args: the module, and the arguments that it is called with by position.
        known: returns what a tensor was seen to be made of.
    """
    kind = type(module)
    if len(args) != 2 or not kind.__module__.startswith("transformers.") or not isinstance(args[0], Tensor):
        return None
    x, told = args
    if not isinstance(told, Tensor) or told.is_floating_point() or told.ndim != 2 or told.shape[1] != 2 or told.is_meta:
        return None
    if "Rotary" in kind.__name__ and x.ndim in (2, 3) and x.shape[:-1].numel() == len(told) > 1:
        traced = known(x)
        is_of_patches = traced is not None and len(traced.regions.images) == len(traced.regions.rows) == len(told)
        return (x, partial(_at_positions, x, traced, told)) if traced is not None and is_of_patches else None
    if kind.__name__.endswith("VisionEmbeddings") and x.ndim == 3 and len(x) == len(told):
        traced = known(x)
        return (x, partial(_in_rows, x, told)) if traced is None or not traced.regions.images else None
    return None


def _at_positions(x: Tensor, traced: Traced, positions: Tensor) -> Traced:
    """Return what patches are made of, (…, n_patches, features), by their rows and columns.

    Each was an image so far. Their positions, (n_patches, 2), have the order in which these were read, whatever the
    model has made of it since, such as windows. A patch at row 0 and column 0 begins another image, or another frame.
    """
    begins = (positions == 0).all(dim=1)
    which = (begins.cumsum(0) - 1).clamp(min=0)
    pixels = [image.pixels for image in traced.regions.images]
    images, height, width = [], 1, 1
    for number in range(int(which[-1]) + 1):
        own = (which == number).nonzero()[:, 0]
        n_rows, n_columns = (positions[own].amax(dim=0) + 1).tolist()
        patches = [one for i in own.tolist() if (one := pixels[i]) is not None]
        whole = None
        if len(patches) == len(own) == n_rows * n_columns:
            whole = _put_together(torch.stack(patches), positions[own], n_rows, n_columns)
            height, width = whole.shape[-2] // n_rows, whole.shape[-1] // n_columns
        images.append(SeenImage(1, n_rows * height, n_columns * width, whole, _version(whole)))
    rows = _rows(which, positions, height, width)
    order = traced.regions.rows[traced.numbers.long().clamp(min=0), 0].int()  # of the patches, as they were read
    numbers = torch.where(traced.numbers >= 0, order, traced.numbers)
    return Traced(Regions(tuple(images), rows, traced.regions.names), numbers)


def _version(pixels: Tensor | None) -> int | None:
    return None if pixels is None else version_of(pixels)


def _put_together(patches: Tensor, positions: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """Return an image, (channels, height, width), of its patches, (n_patches, channels, …, height, width), the first
    frame of each."""
    patches = patches.reshape(*patches.shape[:2], -1, *patches.shape[-2:])[:, :, 0]
    _, channels, height, width = patches.shape
    whole = patches.new_zeros(n_rows, n_columns, channels, height, width)
    whole[positions[:, 0], positions[:, 1]] = patches
    return whole.permute(2, 0, 3, 1, 4).reshape(channels, n_rows * height, n_columns * width)


def _are_colours_last(x: Tensor) -> bool | None:
    """Return whether the numbers of a patch, along the last axis, have its colours one beside the other, not one after
    the other; None: nothing tells.

    Neighbouring pixels of a photo are alike: in the wrong order they are not.
    """
    side = math.isqrt(x.shape[2] // _COLOURS)
    if side < 2 or x.shape[2] != _COLOURS * side * side or not x.is_floating_point():
        return None
    last = x.detach().reshape(-1, side, side, _COLOURS)
    first = x.detach().reshape(-1, _COLOURS, side, side)
    jumps = [float(one.float().diff(dim=axis).abs().mean()) for one, axis in ((last, 2), (first, 3))]
    return jumps[0] < jumps[1] if min(jumps) < _MOST_ALIKE * max(jumps) else None


def _in_rows(x: Tensor, shapes: Tensor) -> Traced:
    """Return what patches are made of, (n_images, most_patches, features), which stand row by row; ``shapes``: rows and
    columns of each image, (n_images, 2)."""
    colours_last = _are_colours_last(x)
    images, rows, numbers = [], [], torch.full((*x.shape[:2], 1), NONE, dtype=torch.int32, device=x.device)
    n_before = 0
    for which, (height, width) in enumerate(shapes.tolist()):
        n = min(height * width, x.shape[1])
        at = torch.arange(n, device=x.device)
        places = torch.stack([at // width, at % width], dim=1)
        pixels, side = None, 1
        if colours_last is not None and n == height * width:
            side = math.isqrt(x.shape[2] // _COLOURS)
            shape = (n, side, side, _COLOURS) if colours_last else (n, _COLOURS, side, side)
            patches = x[which, :n].detach().reshape(shape)
            patches = patches.permute(0, 3, 1, 2) if colours_last else patches
            pixels = _put_together(patches[:, :, None], places, height, width)
        images.append(SeenImage(1, height * side, width * side, pixels, _version(pixels)))
        rows.append(_rows(torch.full_like(at, which), places, side, side))
        numbers[which, :n, 0] = n_before + at.int()
        n_before += n
    return Traced(Regions(tuple(images), torch.cat(rows)), numbers)


def _rows(which: Tensor, positions: Tensor, height: int, width: int) -> Tensor:
    """Return the rows of ``Regions`` of patches of images, of this height and width each."""
    row, column = positions.float().unbind(dim=1)
    zero, top, left = torch.zeros_like(row), row * height, column * width
    return torch.stack([which.float(), zero, zero + 1, top, top + height, left, left + width], dim=1)
