"""Regions of images, and which of them each number of a tensor is made of.

A patch of an image is followed as the part of the image that it covers, by the numbers of regions: they are moved by
the same function that moves the tensor, so that patches that are rolled into windows, merged with their neighbours, or
put among the words of a text are known by what they show, not by where they stand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

NONE = -1
"""Number of what is of no region, or of one that is not known."""

_IMAGE = 0
FRAME, TOP, LEFT = 1, 3, 5
"""Columns of ``Regions.rows`` where a region begins along each axis of an image. It ends in the next column."""

_FEW = 256
"""Regions that are no matter of memory."""

_MOST_SHARED = 1.25
"""Most that regions that are apart cover together, as a multiple of what they lie in."""

AXES = FRAME, TOP, LEFT


@dataclass(frozen=True, eq=False)
class SeenImage:
    """An image that a program has read.

    Attributes:
        frames, height, width: of the tensor that holds it, in its pixels.
        pixels: the tensor, (channels, height, width) or (channels, frames, height, width); None: not kept.
        version: of the tensor; if it has another, others were written into it.
    """

    frames: int
    height: int
    width: int
    pixels: Tensor | None = field(default=None, repr=False)
    version: int | None = None

    @property
    def is_as_read(self) -> bool:
        """Whether the tensor still holds what was read."""
        return self.pixels is not None and version_of(self.pixels) == self.version

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of frames, of rows and of columns of pixels."""
        return self.frames, self.height, self.width


@dataclass(frozen=True, eq=False)
class Regions:
    """Numbered regions of images.

    Attributes:
        images: the images.
        rows: float32, (n_regions, 7): number of the image, first frame and frame after the last, top and bottom, left
            and right, in frames and pixels.
        names: names of parameters that stand among patches as tokens. The number of names[i] is −2 − i.
        are_pixels: whether they are single pixels of what a model was given, of which it is not known whether these are
            images: a layer has yet to make patches of them.
    """

    images: tuple[SeenImage, ...]
    rows: Tensor
    names: tuple[str, ...] = ()
    are_pixels: bool = False

    def named(self, name: str) -> tuple["Regions", int]:
        """Return the regions with a name, and its number."""
        if name in self.names:
            return self, NONE - 1 - self.names.index(name)
        return replace(self, names=(*self.names, name)), NONE - 1 - len(self.names)

    def name_of(self, number: int) -> str:
        """Return the name that a number stands for; "" for others."""
        return self.names[NONE - 1 - number] if number < NONE else ""


@dataclass(frozen=True, eq=False)
class Traced:
    """What a tensor is made of.

    Attributes:
        regions: the regions.
        numbers: int32, number of the region of each number of the tensor, with its axes. An axis has length 1 where
            the region does not vary along it.
        other: likewise, the regions of the other factor of a product of two, such as of keys in scores; None: none.
    """

    regions: Regions
    numbers: Tensor
    other: Tensor | None = None

    @property
    def all_numbers(self) -> tuple[Tensor, ...]:
        """``numbers``, and those of the other factor."""
        return (self.numbers,) if self.other is None else (self.numbers, self.other)


def version_of(x: Tensor) -> int | None:
    """Return how often a tensor, or what shares its memory, was written into; None: not known, as in inference mode."""
    return None if x.is_inference() else x._version


def compacted(traced: Traced) -> Traced:
    """Return what a tensor is made of, without regions that it has none of where these are most."""
    rows, numbers = traced.regions.rows, traced.all_numbers
    if len(rows) <= 2 * sum(one.numel() for one in numbers) + _FEW:
        return traced
    is_used = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    for one in numbers:
        is_used[one[one >= 0].long()] = True
    places = is_used.cumsum(0, dtype=torch.int32) - 1
    moved = (torch.where(one >= 0, places[one.clamp(min=0).long()], one) for one in numbers)
    return Traced(replace(traced.regions, rows=rows[is_used]), *moved)


def shared(several: Sequence[Traced]) -> list[Traced]:
    """Return what tensors are made of with the same ``Regions``."""
    regions, parts = several[0].regions, [several[0]]
    for traced in several[1:]:
        other = traced.regions
        if other.rows is regions.rows and regions.names == other.names[: len(regions.names)]:
            regions = other
        elif other.rows is not regions.rows or other.names != regions.names[: len(other.names)]:
            by, by_names = len(regions.rows), len(regions.names)
            images = (*regions.images, *(image for image in other.images if image not in regions.images))
            rows = other.rows.clone()
            which = torch.tensor([images.index(image) for image in other.images], dtype=rows.dtype, device=rows.device)
            rows[:, _IMAGE] = which[rows[:, _IMAGE].long()]
            pixels = regions.are_pixels or other.are_pixels
            regions = Regions(images, torch.cat([regions.rows, rows]), (*regions.names, *other.names), pixels)
            traced = Traced(regions, *(_moved(numbers, by, by_names) for numbers in traced.all_numbers))
        parts.append(traced)
    return [replace(one, regions=regions) for one in parts]


def _moved(numbers: Tensor, by: int, by_names: int) -> Tensor:
    return torch.where(numbers >= 0, numbers + by, torch.where(numbers < NONE, numbers - by_names, numbers))


def cells_of(
    images: tuple[SeenImage, ...], edges: Sequence[Sequence[tuple[int, int]]], device: torch.device
) -> tuple[Regions, Tensor]:
    """Return the regions of images of one size that are cut alike, and their numbers, int32, (images, frames, rows,
    columns).

    ``edges``: for frames, rows and columns, where each begins and ends.
    """
    ends = [torch.tensor(one, dtype=torch.float32, device=device).view(-1, 2) for one in edges]
    axes = [torch.arange(n, device=device) for n in (len(images), *map(len, ends))]
    which, *places = torch.meshgrid(*axes, indexing="ij")
    columns = [which.float(), *(end[place, at] for end, place in zip(ends, places, strict=True) for at in (0, 1))]
    rows = torch.stack([column.reshape(-1) for column in columns], dim=1)
    return Regions(images, rows), torch.arange(len(rows), dtype=torch.int32, device=device).view(which.shape)


def between(regions: Regions, first: Tensor, last: Tensor) -> tuple[Regions, Tensor]:
    """Return the regions that reach from one region to another of the same image, and their numbers; NONE where the
    second does not follow the first along all axes."""
    at, to = (regions.rows[numbers.clamp(min=0).long()] for numbers in (first, last))
    rows = at.clone()
    for axis in AXES:
        rows[..., axis + 1] = to[..., axis + 1]
    is_known = (first >= 0) & (last >= 0) & (at[..., _IMAGE] == to[..., _IMAGE])
    return _numbered(regions, rows, is_known & _are_filled(rows), first)


def cut_along(
    regions: Regions, axis: int, first: Tensor, last: Tensor, begins: Tensor, ends: Tensor
) -> tuple[Regions, Tensor]:
    """Return regions from within one region to within another: ``begins`` and ``ends``, from 0 to 1, say how far along
    this axis."""
    at, to = (regions.rows[numbers.clamp(min=0).long()] for numbers in (first, last))
    rows = at.clone()
    rows[..., axis] = at[..., axis] + begins * (at[..., axis + 1] - at[..., axis])
    rows[..., axis + 1] = to[..., axis] + ends * (to[..., axis + 1] - to[..., axis])
    is_known = (first >= 0) & (last >= 0) & (at[..., _IMAGE] == to[..., _IMAGE])
    return _numbered(regions, rows, is_known & _are_filled(rows), first)


def merged(regions: Regions, numbers: Tensor) -> tuple[Regions, Tensor]:
    """Return the regions of numbers that are made of those along the last axis.

    They are all of these, or where all overlap, what they share: features of a patch that are joined to those of a
    larger one, as in a U-Net, are of the smaller one.
    """
    known, places = numbers >= 0, numbers.clamp(min=0).long()

    def least_and_most(column: int) -> tuple[Tensor, Tensor]:
        values = regions.rows[:, column][places]
        least = values.masked_fill(~known, torch.inf).amin(-1)
        return least, values.masked_fill(~known, -torch.inf).amax(-1)

    image, last_image = least_and_most(_IMAGE)
    all_of, shared = [image], [image]
    for axis in AXES:
        (first_start, last_start), (first_end, last_end) = least_and_most(axis), least_and_most(axis + 1)
        all_of += [first_start, last_end]
        shared += [last_start, first_end]
    rows = torch.stack(shared, dim=-1)
    rows = torch.where(_are_filled(rows)[..., None], rows, torch.stack(all_of, dim=-1))
    return _numbered(regions, rows, (image == last_image) & known.any(-1), numbers.amax(-1))


def are_apart(regions: Regions, numbers: Tensor) -> bool:
    """Return whether regions hardly overlap, as patches do not, and means over an image do."""
    rows = regions.rows[numbers[numbers >= 0].long()]
    if not len(rows):
        return False
    sizes = [rows[:, axis + 1] - rows[:, axis] for axis in AXES]
    wholes = [float(rows[:, axis + 1].max() - rows[:, axis].min()) for axis in AXES]
    n_images = len(rows[:, _IMAGE].unique())  # type: ignore[no-untyped-call]
    return float((sizes[0] * sizes[1] * sizes[2]).sum()) < _MOST_SHARED * wholes[0] * wholes[1] * wholes[2] * n_images


def _are_filled(rows: Tensor) -> Tensor:
    starts = [rows[..., axis + 1] > rows[..., axis] for axis in AXES]
    return starts[0] & starts[1] & starts[2]


def _numbered(regions: Regions, rows: Tensor, are_known: Tensor, others: Tensor) -> tuple[Regions, Tensor]:
    """Return regions with these rows alone, and their numbers; where they are not known, those of ``others`` that stand
    for names, or NONE."""
    new = torch.arange(are_known.numel(), dtype=torch.int32, device=rows.device).view(are_known.shape)
    unknown = torch.where(others < 0, others, torch.full_like(others, NONE))
    rows = torch.where(are_known[..., None], rows, torch.zeros_like(rows))
    return Regions(regions.images, rows.reshape(-1, rows.shape[-1]), regions.names), torch.where(
        are_known, new, unknown.int()
    )
