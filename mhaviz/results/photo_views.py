"""Views of photos in the place of what a program has read: crops and tiles at their places, each in its photo."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.patches import WHOLE, Box, PatchGrid, within
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.photo_places import PhotoPlaces, joined_views, on_one_grid

BLANK = "blank"
"""Label of a token of an image of one colour, as of padding, whose place in a photo nothing tells."""

TILES, SMALLER = "tiles", "thumbnail"
"""Names of the views of a photo that a program has read in tiles, and as a smaller copy."""


_WHOLE = 0.8
"""Part of a photo from which a picture is no tile of it."""

_ALIKE = 1.1
"""Most that a tile is larger than the smallest."""


@dataclass
class _Photos:
    """Photos, and what of them a program has read.

    Attributes:
        photos: those that are given, and behind them pictures that the program has read which are in none.
        n_given: number of photos that are given.
    """

    photos: list[NDArray[np.uint8]]
    n_given: int

    def __post_init__(self) -> None:
        self._places = [PhotoPlaces(photo) for photo in self.photos]
        self._found: dict[int, tuple[Any, int, Box]] = {}
        self._sides: dict[Tokens, Tokens] = {}

    def find(self, grids: Iterable[PatchGrid]) -> None:
        """Find the photos and places of all that views are of, as tiles are found by each other."""
        unknown: list[PatchGrid] = []
        for grid in {id(grid.seen): grid for grid in grids}.values():
            self._put(grid, [places.find(grid.seen) for places in self._places], unknown)
        self._settle()
        n_before = 0
        while len(unknown) != n_before:  # each that is found leaves fewer places for the others
            n_before, left, unknown = len(unknown), unknown, []
            for grid in left:
                beside = (places.beside(grid.seen, self._alike(grid, i)) for i, places in enumerate(self._places))
                self._put(grid, list(beside), unknown)
        for grid in unknown:
            self.photos.append(_as_photo(grid.seen))
            self._found[id(grid.seen)] = grid.seen, len(self.photos) - 1, WHOLE

    def _settle(self) -> None:
        """Put tiles of a photo on the grid that most of them are on."""
        groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for key, (seen, photo, box) in self._found.items():
            if (box[2] - box[0]) * (box[3] - box[1]) < _WHOLE:
                groups.setdefault((photo, seen.shape), []).append(key)
        for keys in groups.values():
            for key, box in zip(keys, on_one_grid([self._found[key][2] for key in keys]), strict=True):
                self._found[key] = (*self._found[key][:2], box)

    def _put(self, grid: PatchGrid, found: Sequence[tuple[float, Box] | None], unknown: list[PatchGrid]) -> None:
        """Note where a view is found in each photo: in the one that it is most like. Photos may be alike."""
        places = [(one[0], photo == grid.image, photo, one[1]) for photo, one in enumerate(found) if one is not None]
        if places:
            _, _, photo, box = max(places)
            self._found[id(grid.seen)] = grid.seen, photo, box
        else:
            unknown.append(grid)

    def _alike(self, grid: PatchGrid, photo: int) -> list[Box]:
        """Return where in a photo tiles are: the smallest parts that have pictures of the size of that of a view."""
        boxes = [box for seen, of, box in self._found.values() if of == photo and seen.shape == grid.seen.shape]
        areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in boxes]
        return [box for box, area in zip(boxes, areas, strict=True) if area < min(areas) * _ALIKE]

    def view_of(self, grid: PatchGrid) -> PatchGrid:
        """Return a view in the photo where it was found; of what is in no photo, in a picture of what was read."""
        _, number, found = self._found[id(grid.seen)]
        return replace(grid, image=number, box=within(grid.box, found), is_placed=True)

    def tokens(self, tokens: Tokens) -> Tokens:
        """Return tokens whose patches are called by their places in the photos."""
        if not tokens.images or any(grid.seen is None for grid in tokens.images):
            return tokens
        if tokens not in self._sides:
            read = [grid for grid in tokens.images if _has_shapes(grid)]
            images = _named([self.view_of(grid) for grid in read])
            labels = {place: label for grid in images for place, label in grid.labels().items()}
            labels |= {place: BLANK for grid in tokens.images if grid not in read for place in grid.tokens}
            texts = tuple(labels.get(place, text) for place, text in enumerate(tokens.texts))
            self._sides[tokens] = replace(tokens, texts=texts, images=images)
        return self._sides[tokens]


def _has_shapes(grid: PatchGrid) -> bool:
    """Return whether what a view is of has more than one colour, unlike padding."""
    return bool(np.ptp(grid.seen) > 0)


def _named(views: Sequence[PatchGrid]) -> tuple[PatchGrid, ...]:
    """Return views, those of one photo that lie on one grid as one, with names that tell them apart."""
    numbers = sorted({view.image for view in views})
    named: list[PatchGrid] = []
    for number in numbers:
        own = joined_views([view for view in views if view.image == number])
        names = _names(own)
        if len(numbers) > 1:
            first = next((view.name for view in own if view.name.startswith("frame")), f"image {number}")
            names = [" ".join(filter(None, [first, name])) for name in names]
        named += [replace(view, name=name) for view, name in zip(own, names, strict=True)]
    return tuple(named)


def _names(views: Sequence[PatchGrid]) -> list[str]:
    """Return names that tell views of one photo apart."""
    if len(views) < 2:
        return [""] * len(views)
    sizes = [view.rows * view.columns for view in views]
    if len(views) == 2 and sizes[0] != sizes[1]:
        return [SMALLER, TILES] if sizes[0] < sizes[1] else [TILES, SMALLER]
    return [f"part {number}" for number in range(len(views))]


def _as_photo(seen: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return what a program has read as a picture: from the darkest of its numbers to the brightest."""
    low, high = float(seen.min()), float(seen.max())
    return np.asarray(np.round((seen - low) / max(high - low, 1e-9) * 255)).astype(np.uint8)


def with_photos(
    maps: Sequence[AttentionMap], photos: Sequence[NDArray[np.uint8]]
) -> tuple[tuple[AttentionMap, ...], tuple[NDArray[np.uint8], ...]]:
    """Return maps with their views at their places in photos, and the photos.

    Views of which it is not known what the program has read stay as they are.

    Args:
        maps: the maps.
        photos: the photos; what is in none of them is put behind them, as the program has read it.
    """
    found = _Photos(list(photos), len(photos))
    grids = (grid for m in maps for axis in (m.rows, m.columns) for grid in axis.tokens.images)
    found.find(grid for grid in grids if grid.seen is not None and _has_shapes(grid))
    placed = []
    for m in maps:
        rows, columns = found.tokens(m.rows.tokens), found.tokens(m.columns.tokens)
        placed.append(replace(m, rows=replace(m.rows, tokens=rows), columns=replace(m.columns, tokens=columns)))
    return tuple(placed), tuple(found.photos)
