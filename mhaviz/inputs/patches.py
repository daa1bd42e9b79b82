"""Patches of images among the tokens of a sequence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mhaviz.errors import ArgumentError

PATCH_NAME = re.compile(r"(?:(?P<view>.*\S) )?(?P<row>[0-9]{1,6}),(?P<column>[0-9]{1,6})")
"""Label of a patch of an image: its row and column, "3,11", after the name of its view if there are several,
"thumbnail 3,11"."""

Box = tuple[float, float, float, float]
"""Part of an image: top, left, bottom, right, as fractions of its height and width."""

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
"""All of an image."""


def within(inner: Box, outer: Box) -> Box:
    """Return a part of a part: ``inner``, fractions of a view that shows ``outer`` of a photo, as that of the photo."""
    top, left, bottom, right = outer
    height, width = bottom - top, right - left
    return top + inner[0] * height, left + inner[1] * width, top + inner[2] * height, left + inner[3] * width


def part_in(box: Box, frame: Box) -> Box:
    """Return a part of an image as fractions of a frame, which is another part, or reaches beyond the image."""
    top, left, bottom, right = frame
    height, width = bottom - top, right - left
    return (box[0] - top) / height, (box[1] - left) / width, (box[2] - top) / height, (box[3] - left) / width


@dataclass(frozen=True)
class PatchGrid:
    """Patches of a view of an image, in rows and columns.

    A view is the image, a part of it, a smaller copy of it, a frame of a video, or a slice of a volume.

    Attributes:
        rows, columns: numbers of rows and columns.
        places: position of each patch among the tokens, in reading order, (rows · columns,); −1: the patch is no token,
            such as one of another window.
        name: what distinguishes the view from others of the same tokens, "image 1", "thumbnail", "frame 3"; "": there
            are no others.
        image: number of the image, in the order in which the program has read them.
        box: part of the image that the grid covers; below 0 or above 1 where it covers padding.
        seen: the image as the program has read it, float32, (height, width, 3), in any scale of numbers; None: not
            known. It is not saved.
        is_placed: whether it is known that this part of the image is covered, by what the program has read of it, or by
            how its images are prepared; otherwise all of it is taken to be. It is not saved.

    Raises:
        ArgumentError: there are fewer than one row or column, or another number of places than of patches.
    """

    rows: int
    columns: int
    places: tuple[int, ...]
    name: str = ""
    image: int = 0
    box: Box = WHOLE
    seen: Any = field(default=None, compare=False, repr=False)
    is_placed: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or self.rows * self.columns != len(self.places):
            raise ArgumentError(
                f"grid: expected rows × columns of {len(self.places)} patches, got {self.rows} × {self.columns}"
            )

    @classmethod
    def run(cls, rows: int, columns: int, first: int = 0) -> "PatchGrid":
        """Return the grid of a whole image whose patches stand one behind the other, from the position ``first`` on."""
        return cls(rows, columns, tuple(range(first, first + max(rows, 0) * max(columns, 0))))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows, self.columns

    @property
    def tokens(self) -> tuple[int, ...]:
        """Positions of the patches that are tokens, in reading order."""
        return tuple(place for place in self.places if place >= 0)

    def place(self, row: int, column: int) -> int:
        """Return the position of a patch among the tokens; −1: it is no token."""
        return self.places[row * self.columns + column]

    def cell(self, place: int) -> tuple[int, int] | None:
        """Return the row and column of the token at this position; None: it is no patch of this view."""
        if place < 0 or place not in self.places:
            return None
        row, column = divmod(self.places.index(place), self.columns)
        return row, column

    def label(self, row: int, column: int) -> str:
        """Return the label of a patch, "3,11" or "thumbnail 3,11"."""
        return f"{self.name} {row},{column}".lstrip()

    def labels(self) -> dict[int, str]:
        """Return the label of each patch that is a token, by its position."""
        cells = ((row, column) for row in range(self.rows) for column in range(self.columns))
        return {place: self.label(*cell) for place, cell in zip(self.places, cells, strict=True) if place >= 0}

    def moved(self, by: int) -> "PatchGrid":
        """Return the grid with its patches further back among the tokens."""
        return replace(self, places=tuple(place if place < 0 else place + by for place in self.places))


def images_among(grids: Sequence[PatchGrid], positions: Sequence[int]) -> tuple[PatchGrid, ...]:
    """Return the views of images that have patches among some of the tokens, which are then counted from 0."""
    places = {position: place for place, position in enumerate(positions)}
    cut = (replace(grid, places=tuple(places.get(place, -1) for place in grid.places)) for grid in grids)
    return tuple(grid for grid in cut if grid.tokens)


def require_patches(grids: Sequence[PatchGrid], n_tokens: int) -> None:
    """Raise ArgumentError unless each patch is one of ``n_tokens`` tokens, and none of two views."""
    there = [place for grid in grids for place in grid.tokens]
    if any(place < -1 for grid in grids for place in grid.places) or any(place >= n_tokens for place in there):
        raise ArgumentError(f"grid: expected the positions of patches among {n_tokens:,} tokens, got others")
    if len({*there}) < len(there):
        raise ArgumentError("grid: expected each token in one patch at most, got one in two")
