"""Regions of images and texts, and which of them each number of a tensor is made of.

A patch of an image is followed as the part of the image that it covers, and a token as its place in what the program
has read, by the numbers of regions: they are moved by the same function that moves the tensor, so that patches that are
rolled into windows, merged with their neighbours, or put among the words of a text, and tokens that are flipped, pruned
or kept in a cache, are known by what they are, not by where they stand.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from mhaviz.observe.readable import version_of

NONE = -1
"""Number of what is of no region, such as of zeros. What is made of tokens of different places is of a region of its
own source; see ``mixture_of``."""

SOURCE = 0
FRAME, TOP, LEFT = 1, 3, 5
"""Columns of ``Regions.rows`` where a region begins along each axis of a source. It ends in the next column."""

FEW = 256
"""Regions that are no matter of memory."""

_MOST_TOKENS = 2**22
"""Most tokens that are numbered, 140 MB. The rows of a large table, or of samples, may be more."""

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
class SeenTokens:
    """Tokens that a program has read: ids that were looked up, or the rows of a tensor that it was given.

    A text is an image of one row of pixels, and examples are its frames.

    Attributes:
        sizes: lengths of the axes along which they stand, three at most; 1 for those that are lacking, which come
            first.
        n_axes: number of the axes.
        rank: what counts more where two tensors are added; see ``MADE``.
        reads: numbers of the look-ups; see ``ReadIds``. Empty: they were not looked up.
        made_of: for rows that an unknown function has made, the sources of its arguments; None: too many. Which rows
            are which of theirs is not known.
        are_in_order: whether they stand in the order of what they were made of, as those that a convolution makes.
        sums: sources that were added to one another, place by place, such as words and positions; empty: none were.
        epoch: number of attentions that had run when it was read.
        again: the first look-up of the same ids; None: they were not looked up before.
    """

    sizes: tuple[int, int, int]
    n_axes: int
    rank: int
    reads: set[int] = field(default_factory=set)
    made_of: "frozenset[Source] | None" = frozenset()
    are_in_order: bool = True
    sums: "frozenset[SeenTokens]" = frozenset()
    epoch: int = 0
    again: "SeenTokens | None" = None

    @property
    def terms(self) -> "frozenset[SeenTokens]":
        """``sums``, or itself."""
        return self.sums or frozenset([self])


MADE, WITHIN, INPUT, IMAGE = range(4)
"""Ranks of sources: rows that an unknown function has made, rows of a tensor that was found within a module, of an
input of the program, of images. In a sum, a token is what its term of the highest rank is."""

Source = SeenImage | SeenTokens
"""What tokens come from."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Numbered regions of images and texts.

    Attributes:
        sources: the images and texts. Those of which there is no region are mixed into what is not known.
        rows: float32, (n_regions, 7): number of the source, first frame and frame after the last, top and bottom, left
            and right, in frames and pixels, or places.
        names: names of parameters that stand among patches as tokens. The number of names[i] is −2 − i.
        are_pixels: whether they are single pixels of what a model was given, of which it is not known whether these are
            images: a layer has yet to make patches of them.
    """

    sources: tuple[Source, ...]
    rows: Tensor
    names: tuple[str, ...] = ()
    are_pixels: bool = False

    @property
    def images(self) -> tuple[SeenImage, ...]:
        """The images among the sources."""
        return tuple(source for source in self.sources if isinstance(source, SeenImage))

    def named(self, name: str) -> tuple["Regions", int]:
        """Return the regions with a name, and its number."""
        if name in self.names:
            return self, NONE - 1 - self.names.index(name)
        return replace(self, names=(*self.names, name)), NONE - 1 - len(self.names)

    def name_of(self, number: int) -> str:
        """Return the name that a number stands for; "" for others."""
        return self.names[NONE - 1 - number] if number < NONE else ""


NOTHING = Regions((), torch.zeros(0, 7))
"""No region."""


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

    def moved(self, move: Callable[[Tensor], Tensor]) -> "Traced":
        """Return what a tensor is made of after a function that moves its numbers."""
        return Traced(self.regions, *map(move, self.all_numbers))

    @cached_property
    def is_whole(self) -> bool:
        """Whether all of it is of known regions."""
        return bool((self.numbers != NONE).all())

    @property
    def varying(self) -> set[int]:
        """The axes along which the regions vary, or may."""
        return {axis for axis, n in enumerate(self.numbers.shape) if n > 1}

    @property
    def ranks(self) -> set[int]:
        """Ranks of the sources; see ``MADE``."""
        return set(map(rank_of, self.regions.sources))


def sum_of_sources(first: SeenTokens, second: SeenTokens) -> SeenTokens:
    """Return the source of sums of tokens of two sources, at the same places."""
    terms = first.terms | second.terms
    if len(terms) > _MOST_TERMS or terms == first.terms:
        return first
    made = _sums.get(terms)
    if made is None:
        reads = {read for term in terms for read in term.reads}
        made = _sums[terms] = replace(first, reads=reads, sums=terms)
    return made


_MOST_TERMS = 16
"""Most sources in a sum that are told apart. A state may be added to in each step."""

_sums: WeakValueDictionary[frozenset[SeenTokens], SeenTokens] = WeakValueDictionary()


def with_mixtures(
    regions: Regions, numbers: Tensor, rows: Tensor, are_mixed: Tensor, sources: Sequence[Source]
) -> tuple[Regions, Tensor]:
    """Return regions with those of a mixture of sources, and the numbers with theirs.

    Args:
        regions, numbers: as known so far.
        rows: where the mixed numbers would stand, with the axes of the numbers and the columns of ``Regions.rows``.
        are_mixed: bool, which numbers are mixed.
        sources: all that they are mixed of.
    """
    if not bool(are_mixed.any()):
        return regions, numbers
    new = rows[are_mixed]
    new[:, SOURCE] = len(regions.sources)
    places = torch.arange(len(new), dtype=torch.int32, device=numbers.device) + len(regions.rows)
    whole = replace(regions, sources=(*regions.sources, mixture_of(sources)), rows=torch.cat([regions.rows, new]))
    return whole, numbers.masked_scatter(are_mixed, places)


def mixture_of(several: Sequence[Source]) -> SeenTokens:
    """Return the source of numbers that are made of tokens of different places: which token each is cannot be said,
    whatever is added to it."""
    like = next((source for source in several if isinstance(source, SeenTokens)), None)
    sizes, n_axes = ((1, 1, 1), 1) if like is None else (like.sizes, like.n_axes)
    rank = max(map(rank_of, several))
    return SeenTokens(sizes, n_axes, rank, made_of=roots_of(several), are_in_order=False)


def is_mixture(source: Source) -> bool:
    """Return whether a source is that of a mixture, and it is known of what."""
    is_made = isinstance(source, SeenTokens) and source.rank != MADE and bool(source.made_of)
    return is_made and not source.are_in_order  # type: ignore[union-attr]


def absorbs(mixture: Source, source: Source) -> bool:
    """Return whether what is added to a mixture is of the inputs that it is a mixture of, so that it stays the same."""
    roots = roots_of([source])
    return roots is not None and roots <= (roots_of([mixture]) or frozenset())


def compacted(traced: Traced) -> Traced:
    """Return what a tensor is made of, without regions that it has none of where these are most."""
    rows, numbers = traced.regions.rows, traced.all_numbers
    if len(rows) <= 2 * sum(one.numel() for one in numbers) + FEW:
        return traced
    is_used = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    for one in numbers:
        is_used[one[one >= 0].long()] = True
    places = is_used.cumsum(0, dtype=torch.int32) - 1
    moved = (torch.where(one >= 0, places[one.clamp(min=0).long()], one) for one in numbers)
    return Traced(replace(traced.regions, rows=rows[is_used]), *moved)


def shared(several: Sequence[Traced]) -> list[Traced]:
    """Return what tensors are made of with the same ``Regions``."""
    first = next((traced.regions for traced in several if traced.regions is not NOTHING), NOTHING)
    sources, names, blocks = dict(zip(first.sources, count())), [*first.names], [first.rows]
    offsets, n_rows = {id(first.rows): 0}, len(first.rows)
    moved: list[tuple[Tensor, ...]] = []
    for traced in several:
        other = first if traced.regions is NOTHING else traced.regions
        if other.rows is first.rows and len(blocks) == 1:
            sources = dict(zip(other.sources, count()))
        by = offsets.setdefault(id(other.rows), n_rows)
        if by == n_rows and len(other.rows):
            which = [sources.setdefault(source, len(sources)) for source in other.sources]
            rows = other.rows.clone()
            rows[:, SOURCE] = rows.new_tensor(which)[rows[:, SOURCE].long()]
            blocks.append(rows)
            n_rows += len(rows)
        by_names = 0
        if other.names[: len(names)] == tuple(names):
            names = [*other.names]
        elif other.names != tuple(names[: len(other.names)]):
            by_names = len(names)
            names += other.names
        is_moved = by > 0 or by_names > 0
        moved.append(tuple(_moved(one, by, by_names) if is_moved else one for one in traced.all_numbers))
    rows = torch.cat(blocks) if len(blocks) > 1 else first.rows
    pixels = any(traced.regions.are_pixels for traced in several)
    is_first = len(blocks) == 1 and tuple(sources) == first.sources and tuple(names) == first.names
    regions = first if is_first else Regions(tuple(sources), rows, tuple(names), pixels)
    return [Traced(regions, *numbers) for numbers in moved]


def _moved(numbers: Tensor, by: int, by_names: int) -> Tensor:
    return torch.where(numbers >= 0, numbers + by, torch.where(numbers < NONE, numbers - by_names, numbers))


def tokens_of(source: SeenTokens, device: torch.device) -> tuple[Regions, Tensor]:
    """Return the regions of single tokens, and their numbers, int32, with the axes of the source.

    Of more tokens than any attention has, all are one region.
    """
    if math.prod(source.sizes) > _MOST_TOKENS:
        whole = torch.tensor([[0, *(end for n in source.sizes for end in (0, n))]], dtype=torch.float32, device=device)
        return Regions((source,), whole), torch.zeros((), dtype=torch.int32, device=device).expand(source.sizes)
    axes = torch.meshgrid(*(torch.arange(n, device=device, dtype=torch.float32) for n in source.sizes), indexing="ij")
    ends = (end for axis in axes for end in (axis, axis + 1))
    rows = torch.stack([torch.zeros_like(axes[0]), *ends], dim=-1).view(-1, 7)
    return Regions((source,), rows), torch.arange(len(rows), dtype=torch.int32, device=device).view(source.sizes)


def rank_of(source: Source) -> int:
    """Return the rank of a source; see ``MADE``."""
    return source.rank if isinstance(source, SeenTokens) else IMAGE


def made_of(several: Sequence[Traced]) -> frozenset[Source] | None:
    """Return the sources that tensors come from, without those that unknown functions have made; None: too many."""
    return roots_of([source for traced in several for source in traced.regions.sources])


def roots_of(several: Iterable[Source]) -> frozenset[Source] | None:
    """Return what sources come from, without those that unknown functions have made; None: too many."""
    found: set[Source] = set()
    for source in {term for one in several for term in terms_of(one)}:
        is_made = isinstance(source, SeenTokens) and (source.rank == MADE or source.made_of != frozenset())
        made = source.made_of if isinstance(source, SeenTokens) and is_made else frozenset([source])
        if made is None:
            return None
        found |= made
    return frozenset(found) if len(found) <= _MOST_TERMS else None


def terms_of(source: Source) -> "frozenset[Source]":
    """Return the sources that were added to one another, or the only one."""
    return source.terms if isinstance(source, SeenTokens) else frozenset([source])


def is_table(rows: Traced) -> bool:
    """Return whether a matrix that was given to the program, and not changed, may be one of embeddings."""
    source = rows.regions.sources[0] if len(rows.regions.sources) == 1 else None
    is_given = isinstance(source, SeenTokens) and source.n_axes == 1 and not (source.reads or source.made_of)
    return is_given and rows.numbers.shape[:1] == source.sizes[2:]  # type: ignore[union-attr]


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
    is_known = (first >= 0) & (last >= 0) & (at[..., SOURCE] == to[..., SOURCE])
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
    is_known = (first >= 0) & (last >= 0) & (at[..., SOURCE] == to[..., SOURCE])
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

    image, last_image = least_and_most(SOURCE)
    all_of, shared = [image], [image]
    for axis in AXES:
        (first_start, last_start), (first_end, last_end) = least_and_most(axis), least_and_most(axis + 1)
        all_of += [first_start, last_end]
        shared += [last_start, first_end]
    rows = torch.stack(shared, dim=-1)
    rows = torch.where(_are_filled(rows)[..., None], rows, torch.stack(all_of, dim=-1))
    made, new = _numbered(regions, rows, (image == last_image) & known.any(-1), numbers.amax(-1))
    are_mixed = (image != last_image) & known.any(-1)
    return with_mixtures(made, new, torch.stack(all_of, dim=-1), are_mixed, regions.sources)


def are_apart(regions: Regions, numbers: Tensor) -> bool:
    """Return whether regions hardly overlap, as patches do not, and means over an image do."""
    rows = regions.rows[numbers[numbers >= 0].long()]
    if not len(rows):
        return False
    sizes = [rows[:, axis + 1] - rows[:, axis] for axis in AXES]
    wholes = [float(rows[:, axis + 1].max() - rows[:, axis].min()) for axis in AXES]
    n_images = len(rows[:, SOURCE].unique())  # type: ignore[no-untyped-call]
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
    return Regions(regions.sources, rows.reshape(-1, rows.shape[-1]), regions.names), torch.where(
        are_known, new, unknown.int()
    )
