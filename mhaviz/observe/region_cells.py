"""The regions after each function of PyTorch that cuts or stretches images and texts: patches, strides, pools."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.readable import version_of
from mhaviz.observe.region_numbers import merged_along
from mhaviz.observe.regions import (
    AXES,
    IMAGE,
    NONE,
    Regions,
    SeenImage,
    SeenTokens,
    Traced,
    between,
    cells_of,
    cut_along,
)

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer

COLOURS, _LEAST_SIDE, _MOST_PIXELS = 3, 8, 2**23
"""Channels and least height and width of a tensor that is taken for images; most pixels whose regions are numbered."""


def axes_of_images(x: Tensor) -> tuple[int, int, int, int] | None:
    """Return where a tensor of images has its channels, frames, rows and columns; −1: it has no frames. None: it does
    not have the shape of images in colour."""
    sizes = x.shape
    if (
        not 2 < x.ndim < 7
        or x.numel() // COLOURS > _MOST_PIXELS
        or not (x.is_floating_point() or x.dtype == torch.uint8)
    ):
        return None
    if x.ndim == 3 and x.is_floating_point():  # which may be three texts; a convolution tells
        return None
    may_be_last = x.ndim > 3 or x.dtype == torch.uint8  # otherwise points, or series
    if may_be_last and sizes[-1] == COLOURS and min(sizes[-3:-1]) >= _LEAST_SIDE and COLOURS not in sizes[:-1]:
        return x.ndim - 1, -1, x.ndim - 3, x.ndim - 2
    if min(sizes[-2:]) < _LEAST_SIDE or (x.ndim > 5 and sizes[-3] != COLOURS):
        return None
    if sizes[-3] == COLOURS:
        return x.ndim - 3, -1, x.ndim - 2, x.ndim - 1
    if x.ndim == 5 and sizes[1] == COLOURS:
        return 1, 2, 3, 4
    return None


class Unread(NamedTuple):
    """Images that no function has moved or cut yet.

    Attributes:
        x: the tensor.
        axes: where it has its channels, frames, rows and columns; −1: it has no frames.
    """

    x: Tensor
    axes: tuple[int, int, int, int]

    def moved(self, axes: Tensor) -> "Unread":
        """Return the images with their axes in another order: that of the lengths of ``axes``."""
        order = list(axes.shape)
        at = [-1 if axis < 0 else order.index(axis) for axis in self.axes]
        return Unread(self.x.permute(order), (at[0], at[1], at[2], at[3]))

    def pixels(self) -> Traced:
        """Return what the tensor is made of: its pixels."""
        x, (channels, frames, rows, columns) = self
        others = [axis for axis in range(x.ndim) if axis not in self.axes]
        order = (*others, channels, *((frames,) if frames >= 0 else ()), rows, columns)
        moved = x.permute(order)
        sizes = (1 if frames < 0 else x.shape[frames], x.shape[rows], x.shape[columns])
        flat = moved.reshape(-1, *moved.shape[len(others) :])
        images = tuple(SeenImage(*sizes, one, version_of(one)) for one in flat)
        regions, numbers = cells_of(images, [[(i, i + 1) for i in range(n)] for n in sizes], x.device)
        regions = replace(regions, are_pixels=True)
        numbers = numbers.view(*moved.shape[: len(others)], 1, *sizes[int(frames < 0) :])
        return Traced(regions, numbers.permute([order.index(axis) for axis in range(x.ndim)]))


def numbers_of_axes(x: Tensor) -> Tensor:
    """Return a tensor whose axes have their places as lengths, by which it is seen where a function moves them."""
    return torch.empty(tuple(range(x.ndim)), device="meta")


def _convolve(tracer: "Tracer", done: Done) -> Traced | None:
    x, weight = done.args[:2]
    n = weight.ndim - 2
    stride, padding, dilation = (done.argument(at, default) for at, default in ((3, 1), (4, 0), (5, 1)))
    strides, dilations = _each(stride, n), _each(dilation, n)
    kernel = [(k - 1) * by + 1 for k, by in zip(weight.shape[2:], dilations, strict=True)]
    sizes, result = x.shape[x.ndim - n :], done.result.shape[done.result.ndim - n :]
    if isinstance(padding, str):
        padding = 0 if padding == "valid" else [(k - 1) // 2 for k in kernel]
    at = _starts(kernel, strides, _each(padding, n))
    reads_pixels = max(weight.shape[2:]) == 1  # each by itself: no patches, if these are images at all
    traced = None if tracer.is_unread(x) and not reads_pixels else tracer.known(x)
    channels = x.ndim - n - 1
    if traced is None or (IMAGE not in traced.ranks and n > 1 and not tracer.is_made(x)):
        is_given = tracer.is_unread(x) or (_reads_images(x, weight, strides) and not tracer.is_made(x))
        if n > 1 and min(result, default=0) > 0 and is_given:
            return _images_cut(x, _alike_examples(traced, x) if x.ndim > n + 1 else [0], sizes, result, strides, at)
    if traced is None:
        traced = tracer.given(x, channels)
    if traced is None or traced.other is not None:
        return None
    regions, numbers = merged_along(traced.regions, traced.numbers, [channels])
    if max(kernel) == max(strides) == 1 and tuple(sizes) == tuple(result):
        return Traced(regions, numbers)
    if max(numbers.shape[channels + 1 :]) == 1 < max(sizes):  # samples, which were not read as tokens
        rows = regions.rows[numbers.clamp(min=0).long()]
        are_single = all(bool((rows[..., axis + 1] - rows[..., axis] == 1).all()) for axis in AXES)
        sources = traced.regions.sources
        are_given = are_single and all(isinstance(one, SeenTokens) and not one.made_of for one in sources)
        return tracer.made(done.result, [traced], channels, are_in_order=are_given)
    if IMAGE in traced.ranks:
        return _in_blocks(regions, numbers, sizes, result, strides, at)
    are_same = tuple(sizes) == tuple(result) and all(k % 2 for k in kernel)  # each is of the token in its middle
    if are_same and all(stride == 1 for stride in strides):
        return Traced(regions, numbers)
    are_frames = all(isinstance(one, SeenTokens) and one.made_of and one.are_in_order for one in traced.regions.sources)
    return tracer.made(done.result, [traced], channels, are_in_order=are_frames)


def _starts(kernel: Sequence[int], strides: Sequence[int], padding: Sequence[int]) -> list[int]:
    """Return where the first block begins along each axis: its middle is that of the kernel, to less than a block. It
    begins before the axis where whole blocks are padding."""
    starts = [(k - s) // 2 - p for k, s, p in zip(kernel, strides, padding, strict=True)]
    return [at if at >= 0 else -s * (-at // s) for at, s in zip(starts, strides, strict=True)]


def _in_blocks(
    regions: Regions,
    numbers: Tensor,
    sizes: Sequence[int],
    result: Sequence[int],
    strides: Sequence[int],
    starts: Sequence[int],
) -> Traced | None:
    """Return what blocks along the last axes are made of, as of a convolution or a pool.

    Args:
        sizes, result: numbers along these axes, and of blocks.
        strides: size of a block along each axis, which is their distance.
        starts: where the first begins.
    """
    first = numbers.ndim - len(sizes)
    if all(s == 1 for s in strides) and tuple(sizes) == tuple(result):
        return Traced(regions, numbers)
    begins = ends = numbers.expand(*numbers.shape[:first], *sizes)
    for axis, (size, length, stride, start) in enumerate(zip(sizes, result, strides, starts, strict=True), first):
        at = torch.arange(length, device=numbers.device) * stride + start
        is_in = ((at + stride > 0) & (at < size)).view(-1, *[1] * (numbers.ndim - axis - 1))
        begins = begins.index_select(axis, at.clamp(0, size - 1))
        begins = torch.where(is_in, begins, torch.full_like(begins, NONE))
        ends = ends.index_select(axis, (at + stride - 1).clamp(0, size - 1))
    return Traced(*between(regions, begins, ends))


def _each(x: Any, n: int) -> list[int]:
    several = list(x) if isinstance(x, list | tuple) else [x]
    return several * n if len(several) == 1 else several


def _reads_images(x: Tensor, weight: Tensor, strides: Sequence[int]) -> bool:
    """Return whether a convolution is the first that reads images: it cuts them into patches, or reads colours."""
    kernel = list(weight.shape[2:])
    if len({*kernel[-2:]}) > 1:
        return False
    is_cut = kernel == strides and max(kernel) > 1
    return is_cut or (x.shape[x.ndim - len(kernel) - 1] <= COLOURS + 1 and max(kernel) > 1)


def _alike_examples(traced: Traced | None, x: Tensor) -> list[int]:
    """Return for each example of images the first that is the same, such as the latents of a diffusion model that are
    read with a prompt and without.

    Args:
        traced: what the images are made of; None: not known.
        x: the images, with examples along the first axis.
    """
    if traced is None or traced.other is not None:
        return [*range(len(x))]
    numbers = traced.numbers.expand(len(x), *traced.numbers.shape[1:])
    alike: list[int] = []
    for at in range(len(x)):  # of what is made of the same, one may be a mirror image of the other
        are_same = (n for n in alike if torch.equal(numbers[n], numbers[at]) and torch.equal(x[n], x[at]))
        alike.append(next(are_same, at))
    return alike


def _images_cut(
    x: Tensor,
    alike: Sequence[int],
    sizes: Sequence[int],
    result: Sequence[int],
    strides: Sequence[int],
    starts: Sequence[int],
) -> Traced:
    """Return what a convolution makes of images, (batch_size, channels, height, width), with frames before the rows, or
    without a batch; ``alike``: see ``_alike_examples``; others: see ``_in_blocks``."""
    n = len(sizes)
    flat = x.detach() if x.ndim == n + 2 else x.detach()[None]
    before = (1,) * (3 - n)
    frames, height, width = (*before, *sizes)
    firsts = sorted({*alike})
    images = tuple(SeenImage(frames, height, width, flat[at], version_of(flat[at])) for at in firsts)
    edges = [
        [(max(i * stride + start, 0), min((i + 1) * stride + start, size)) for i in range(length)]
        for size, length, stride, start in zip(sizes, result, strides, starts, strict=True)
    ]
    regions, numbers = cells_of(images, [*([(0, 1)] for _ in before), *edges], x.device)
    numbers = numbers.view(len(images), 1, *result)
    if 1 < len(images) < len(flat):
        numbers = numbers[[firsts.index(first) for first in alike]]
    for axis, ends in enumerate(edges, 2):  # a block of padding is of no region
        is_in = torch.tensor([begin < end for begin, end in ends], device=x.device)
        is_in = is_in.view(-1, *[1] * (numbers.ndim - axis - 1))
        numbers = torch.where(is_in, numbers, torch.full_like(numbers, NONE))
    return Traced(regions, numbers if x.ndim == n + 2 else numbers[0])


def _pool(tracer: "Tracer", done: Done) -> Traced | None:
    traced, x = tracer.get(done.first), done.first
    if traced is None or traced.other is not None or IMAGE not in traced.ranks:
        return None
    n = 3 if "3d" in done.func.__name__ else 2
    kernel, stride, padding = (
        done.kwargs.get(name, done.argument(place, default))
        for place, (name, default) in enumerate((("kernel_size", 1), ("stride", None), ("padding", 0)), 1)
    )
    kernel = _each(kernel, n)
    strides = kernel if stride is None or stride == [] else _each(stride, n)
    at = _starts(kernel, strides, _each(padding, n))
    return _in_blocks(traced.regions, traced.numbers, x.shape[-n:], done.result.shape[-n:], strides, at)


def _resize(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a tensor is made of after its last axes have been stretched or shrunk."""
    traced, x = tracer.get(done.first), done.first
    if traced is None or traced.other is not None or IMAGE not in traced.ranks:
        return None
    regions, numbers = traced.regions, traced.numbers
    n = min(x.ndim - 2, 3)
    for axis in range(x.ndim - n, x.ndim):
        size, length = x.shape[axis], done.result.shape[axis]
        if size == length or not length:
            continue
        numbers = numbers.expand([size if at == axis else m for at, m in enumerate(numbers.shape)])
        edges = torch.arange(length + 1, device=x.device, dtype=torch.float64) * size / length
        first = edges[:-1].floor().long().clamp(0, size - 1)
        last = (edges[1:].ceil().long() - 1).clamp(0, size - 1)
        shape = [-1, *[1] * (x.ndim - axis - 1)]
        begins, ends = ((edges[:-1] - first), (edges[1:] - last))
        at, to = numbers.index_select(axis, first), numbers.index_select(axis, last)
        along = _axis_along(regions, numbers, axis, x.ndim)
        regions, numbers = cut_along(regions, along, at, to, begins.float().view(shape), ends.float().view(shape))
    return Traced(regions, numbers)


def _axis_along(regions: Regions, numbers: Tensor, axis: int, ndim: int) -> int:
    """Return the axis of an image that runs along an axis of a tensor."""
    ends = [regions.rows[numbers.select(axis, at).clamp(min=0).long()] for at in (0, -1)]
    moved = [float((ends[1][..., one] - ends[0][..., one]).abs().sum()) for one in AXES]
    return AXES[moved.index(max(moved))] if max(moved) > 0 else AXES[max(0, len(AXES) - (ndim - axis))]


CONVOLUTIONS = frozenset(functions("conv1d conv2d conv3d"))

CELLS: "dict[Any, Rule]" = {
    func: rule
    for several, rule in (
        (CONVOLUTIONS, _convolve),
        (functions("avg_pool2d max_pool2d avg_pool3d max_pool3d"), _pool),
        (functions("interpolate upsample adaptive_avg_pool2d adaptive_max_pool2d pixel_shuffle"), _resize),
    )
    for func in several
}
