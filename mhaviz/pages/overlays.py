"""Block of attention over images: of each head the photo, in which patches stand out, and the map of all patches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.patches import WHOLE, Box
from mhaviz.pages.blocks import Block, Table
from mhaviz.pages.panels import Scale

Forms = tuple[str, ...]
"""A text in several lengths, the longest first."""


_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class PatchPicture:
    """A view of an image, and what a head gives its patches.

    Attributes:
        times: float32, (rows, columns), multiples of uniform; NaN: the query does not see the patch.
        outlined: bool, (rows, columns), patches that stand out, which are at full light.
        dims: whether the photo is darker outside of them; otherwise it is darker where the query sees nothing.
        photo: uint8, (height, width, 3); None: none is given.
        box: part of the photo that the patches cover.
        query: row and column of the patch that is the query; None: it is none of these.
        name: what distinguishes the view; "": there is one alone.
        share, uniform: share of the view of what the head gives all patches, and the same if all got the same.
        photo_box: part of the photo that is no padding.
    """

    times: NDArray[np.float32]
    outlined: NDArray[np.bool_]
    dims: bool = False
    photo: NDArray[np.uint8] | None = None
    box: Box = WHOLE
    query: tuple[int, int] | None = None
    name: str = ""
    share: float = 1.0
    uniform: float = 1.0
    photo_box: Box = WHOLE

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Patches that the query sees, (rows, columns)."""
        return ~np.isnan(self.times)

    @property
    def lit(self) -> NDArray[np.bool_]:
        """Patches at full light, (rows, columns)."""
        return self.outlined if self.dims else self.seen

    def within_photo(self) -> "PatchPicture":
        """Return the picture without rows and columns of patches that are not seen and lie beyond the photo, such as
        those of padding that a model leaves out."""
        (rows, columns), (top, left, bottom, right) = self.times.shape, self.box
        parts, ends = [], []
        for axis, begin, end, n in ((1, top, bottom, rows), (0, left, right, columns)):
            edges = np.linspace(begin, end, n + 1)
            kept = np.flatnonzero(self.seen.any(axis=axis) | ((edges[1:] > _ROUNDING) & (edges[:-1] < 1 - _ROUNDING)))
            parts.append(slice(int(kept[0]), int(kept[-1]) + 1) if kept.size else slice(0, n))
            ends.append((float(edges[parts[-1].start]), float(edges[parts[-1].stop])))
        if (down := parts[0]) == slice(0, rows) and parts[1] == slice(0, columns):
            return self
        query = self.query and (self.query[0] - down.start, self.query[1] - parts[1].start)
        box = ends[0][0], ends[1][0], ends[0][1], ends[1][1]
        cells = down, parts[1]
        return replace(self, times=self.times[cells], outlined=self.outlined[cells], box=box, query=query)

    @property
    def slope(self) -> float:
        """Height / width: of the photo, or without one of the grid, whose patches are then squares."""
        if self.photo is not None:
            return float(self.photo.shape[0] / self.photo.shape[1])
        (rows, columns), (top, left, bottom, right) = self.times.shape, self.box
        return float(rows / (bottom - top) / columns * (right - left))


@dataclass(frozen=True, eq=False)
class HeadOverlay:
    """What a head gives the patches of images.

    Attributes:
        name: name of the head, "L0 H1".
        row, column: names of the row and the column that it has among heads of layers, "L0" and "H1".
        pictures: one for each view.
        notes: what is said of it below, each in forms of several lengths.
        line: the same in a line of text.
        peak: how peaked it is, for choosing heads.
    """

    name: str
    row: str
    column: str
    pictures: tuple[PatchPicture, ...]
    notes: tuple[Forms, ...]
    line: str
    peak: float


@dataclass(frozen=True, eq=False)
class Overlays(Block):
    """Heads over images.

    Attributes:
        heads: the heads, in the order of the result.
        scale: what the colours of maps mean.
        key: explanation of the colours.
        marks: explanations of lines in the photos.
        table: the same numbers for a medium without pictures.
    """

    heads: tuple[HeadOverlay, ...]
    scale: Scale
    key: str
    marks: tuple[str, ...]
    table: Table

    is_explained = True

    @property
    def as_table(self) -> Table:
        """The same numbers, listed."""
        return self.table

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of its colours, of which it has a key."""
        return (self.scale,)

    @property
    def are_strips(self) -> bool:
        """Whether each head has several views, such as the frames of a video."""
        return any(len(head.pictures) > 1 for head in self.heads)

    @cached_property
    def has_photos(self) -> bool:
        """Whether there are photos."""
        return any(picture.photo is not None for head in self.heads for picture in head.pictures)

    @cached_property
    def across(self) -> int | None:
        """Number of heads of each row, if all rows have the same, and several; None: they have not."""
        rows = dict[str, list[str]]()
        for head in self.heads:
            rows.setdefault(head.row, []).append(head.column)
        first = next(iter(rows.values()))
        return len(first) if len(first) > 1 and all(columns == first for columns in rows.values()) else None

    @cached_property
    def by_peak(self) -> tuple[HeadOverlay, ...]:
        """The heads, the most peaked first."""
        return tuple(sorted(self.heads, key=lambda head: -head.peak))

    @cached_property
    def slope(self) -> float:
        """Largest height / width of the photos."""
        return max(picture.slope for head in self.heads for picture in head.pictures)

    @cached_property
    def most_notes(self) -> int:
        """Largest number of notes of a head."""
        return max(len(head.notes) for head in self.heads)

    @cached_property
    def grids(self) -> frozenset[tuple[int, ...]]:
        """Numbers of rows and columns of patches that cover whole photos."""
        pictures = (picture for head in self.heads for picture in head.pictures)
        return frozenset(picture.times.shape for picture in pictures if picture.box == WHOLE)

    @property
    def n_pieces(self) -> int:
        """Number of heads."""
        return len(self.heads)

    def pieces(self, begin: int, end: int) -> "Overlays":
        """Return some heads, and their rows of the table."""
        table = replace(self.table, rows=self.table.rows[begin:end])
        return replace(self, heads=self.heads[begin:end], table=table)

    def texts_of_users(self) -> Iterator[str]:
        """Yield names of views and heads, and notes."""
        for head in self.heads:
            yield from (
                head.name,
                *(picture.name for picture in head.pictures),
                *(form for f in head.notes for form in f),
            )
