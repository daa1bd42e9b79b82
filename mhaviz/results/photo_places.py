"""Where in a photo the pictures stand that a program has read: its crop, its tiles, a smaller copy.

Only the pixels tell: whoever made them may have resized, cropped, padded, tiled and scaled the photo in any way. A
picture is found where the photo, resized to its size, has nearly its pixels up to brightness and contrast, and nowhere
else.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.patches import WHOLE, Box, PatchGrid

Pixels = NDArray[np.float32]
"""Picture of any scale of numbers, (height, width, 3)."""

_LEAST = 0.97
"""Least correlation of a picture with the part of a photo that it shows."""
_LEAST_BESIDE = 0.85
"""Likewise, at a place beside those of other tiles."""
_LEAST_LAST = 0.5
"""Likewise, at the only place that other tiles leave; photos that have nothing to do with it reach 0.37."""
_CLEARLY = 0.5
"""Most of what a part lacks to a correlation of 1, as a share of what the best other place lacks."""
_SAME = 0.5
"""Overlap, as a share of what two parts cover together, from which they are one place."""
_COARSE, _MIDDLE, _FINE = 8, 16, 48
"""Cells along each side at which a picture is looked for, and at which its place is made exact."""
_LEAST_COARSE = 0.5
"""Least correlation of places that are looked at more closely."""
_STEPS = 16
"""Parts of a photo's side, at the ends of which a picture is looked for."""
_FEWEST = 3
"""Least parts of a photo's side that a picture is looked for in."""
_TRIED, _TRIED_USUAL = 14, 3
"""Places that are made exact, the first of which are usual ones."""
_LATTICE = 0.25
"""Part of a patch by which views may be off a common grid."""
_APART = 0.01
"""Most overlap of tiles."""
_FEWEST_TILES, _ON_GRID, _NEAR_GRID = 3, 0.93, 0.6
"""Least tiles that make a grid; least overlap with a place of it of those that do, and of others that belong there."""
_SLIVER = 0.02
"""Part of a tile that is too little to be seen."""
_NEAR_END = 0.006
"""Distance from the end of the photo, as a share of its side, at which a part is taken to end there."""
_CROPS = (1.0, 0.95, 0.9, 0.875)
"""Usual sides of a square in the middle, as shares of the shorter side."""


@dataclass(frozen=True)
class _Sums:
    """Sums of a photo's pixels over all that lies above and to the left, by which means over any part are quick."""

    sums: NDArray[np.float64]

    @classmethod
    def of(cls, photo: NDArray[np.generic]) -> "_Sums":
        height, width, channels = photo.shape
        sums = np.zeros((height + 1, width + 1, channels))
        sums[1:, 1:] = photo.astype(np.float64).cumsum(0).cumsum(1)
        return cls(sums)

    def cells(self, boxes: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return means of n × n cells of parts of the photo, (n_boxes, n, n, channels); ``boxes``: (n_boxes, 4)."""
        height, width, _ = (size - 1 for size in self.sums.shape)
        edges = np.linspace(0, 1, n + 1)
        ends = []
        for begin, end, size in ((boxes[:, 0], boxes[:, 2], height), (boxes[:, 1], boxes[:, 3], width)):
            ends.append(np.clip((begin[:, None] + (end - begin)[:, None] * edges) * size, 0, size))
        down, across = ends
        at = self._at(down, across)
        sums = at[:, 1:, 1:] - at[:, :-1, 1:] - at[:, 1:, :-1] + at[:, :-1, :-1]
        areas = np.diff(down, axis=1)[:, :, None] * np.diff(across, axis=1)[:, None, :]
        return np.asarray(sums / np.maximum(areas, 1e-9)[..., None])

    def _at(self, down: NDArray[np.float64], across: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums above and to the left of places between pixels, (n_boxes, n + 1, n + 1, channels)."""
        (row, below), (column, right) = (
            (np.minimum(places.astype(np.int64), size - 2), places - np.minimum(places.astype(np.int64), size - 2))
            for places, size in ((down, self.sums.shape[0]), (across, self.sums.shape[1]))
        )
        rows, columns = row[:, :, None], column[:, None, :]
        below, right = below[:, :, None, None], right[:, None, :, None]
        upper = self.sums[rows, columns] * (1 - right) + self.sums[rows, columns + 1] * right
        lower = self.sums[rows + 1, columns] * (1 - right) + self.sums[rows + 1, columns + 1] * right
        return np.asarray(upper * (1 - below) + lower * below)


class PhotoPlaces:
    """Places in a photo where pictures are looked for; ``photo``: (height, width, 3)."""

    def __init__(self, photo: NDArray[np.uint8]) -> None:
        self._sums = _Sums.of(photo)
        usual = list(_usual(photo.shape[0], photo.shape[1]))
        self._n_usual, self._boxes = len(usual), np.array([*usual, *_anywhere()])
        self._cells = self._sums.cells(self._boxes, _COARSE)

    def find(self, picture: Pixels) -> tuple[float, Box] | None:
        """Find the part of the photo that a picture shows; ``picture``: see ``Pixels``.

        Returns:
            Their correlation, and top, left, bottom and right, as fractions of the photo, below 0 or above 1 where the
            picture is padded. None: it is nowhere in the photo, or may be at several places, as if it is of one colour.
        """
        inner = _without_padding(picture)
        if inner is None:
            return None
        rows, columns = inner
        inside = picture[rows, columns]
        shown, whole = _Sums.of(inside), np.array([WHOLE])
        coarse = _correlations(shown.cells(whole, _COARSE)[0], self._cells)
        found: list[tuple[float, NDArray[np.float64]]] = []
        middle = shown.cells(whole, min(_MIDDLE, *inside.shape[:2]))[0]
        best_usual = np.argsort(-coarse[: self._n_usual], kind="stable")[:_TRIED_USUAL]
        for i in (*best_usual, *np.argsort(-coarse, kind="stable")):
            if len(found) == _TRIED or (coarse[i] < _LEAST_COARSE and len(found) >= _TRIED_USUAL):
                break
            is_usual = i < self._n_usual and len(found) < _TRIED_USUAL
            if is_usual or not any(_overlap(self._boxes[i], box) > _SAME for _, box in found):
                found.append(_refined(middle, self._sums, self._boxes[i], 1 / _STEPS, 1 / 256))
        if not found:
            return None
        found.sort(key=lambda one: -one[0])
        others = [one for one, other in found[1:] if _overlap(found[0][1], other) < _SAME]
        fine = shown.cells(whole, min(_FINE, *inside.shape[:2]))[0]
        best, box = _refined(fine, self._sums, found[0][1], 1 / 128, 1 / 2048)
        if best < _LEAST or (others and 1 - found[0][0] > _CLEARLY * (1 - max(others))):
            return None
        return best, _with_padding(box, rows, columns, picture.shape[0], picture.shape[1])

    def beside(self, picture: Pixels, found: Sequence[Box]) -> tuple[float, Box] | None:
        """Find which place beside those of others, of which the photo was cut into equal tiles, a picture shows.

        Fine grain tells tiles apart that have little else. Returns as ``find``; None: it may be at several of these
        places, or at none.
        """
        if not found:
            return None
        tried: list[tuple[float, NDArray[np.float64], Box]] = []
        for tile in _tiles_beside(found[0]):
            if any(_overlap(np.array(tile), np.array(one)) > _APART for one in found):
                continue
            box = np.clip(np.array(tile), 0, 1)
            rows, columns = (
                slice(*(round(n * (end - tile[axis]) / (tile[axis + 2] - tile[axis])) for end in box[axis::2]))
                for axis, n in ((0, picture.shape[0]), (1, picture.shape[1]))
            )
            inside = picture[rows, columns]
            if min(inside.shape[:2]) < 2 or not np.ptp(inside):
                continue
            fine = _Sums.of(inside).cells(np.array([WHOLE]), min(_FINE, *inside.shape[:2]))[0]
            tried.append((*_refined(fine, self._sums, box, 1 / 512, 1 / 2048), tile))
        tried.sort(key=lambda one: -one[0])
        if not tried or tried[0][0] < (_LEAST_BESIDE if len(tried) > 1 else _LEAST_LAST):
            return None
        if len(tried) > 1 and 1 - tried[0][0] > _CLEARLY * (1 - tried[1][0]):
            return None
        return tried[0][0], tried[0][2]


def on_one_grid(boxes: Sequence[Box]) -> list[Box]:
    """Return the places of tiles of one size, on the grid that most of them are on, if these are three at least.

    A tile without much in it is found only nearly.
    """
    grids = [[(_nearest(box, one), box) for box in boxes] for one in boxes]
    fits = [sum(_overlap(np.array(tile), np.array(box)) > _ON_GRID for tile, box in grid) for grid in grids]
    if max(fits, default=0) < _FEWEST_TILES:
        return list(boxes)
    grid = grids[fits.index(max(fits))]
    tiles = [tile for tile, _ in grid]
    return [
        tile if tiles.count(tile) == 1 and _overlap(np.array(tile), np.array(box)) > _NEAR_GRID else box
        for tile, box in grid
    ]


def _nearest(box: Box, one: Box) -> Box:
    """Return the tile of the grid that ``one`` is of whose middle is nearest to that of a box."""
    height, width = one[2] - one[0], one[3] - one[1]
    down = round((box[0] + box[2] - one[0] - one[2]) / 2 / height) * height
    across = round((box[1] + box[3] - one[1] - one[3]) / 2 / width) * width
    return one[0] + down, one[1] + across, one[2] + down, one[3] + across


def _tiles_beside(one: Box) -> Iterator[Box]:
    """Iterate over all tiles of the grid that one is of, as far as they show some of the photo."""
    top, left, bottom, right = one
    height, width = bottom - top, right - left
    rows, columns = (
        range(-math.ceil(begin / size - _SLIVER), math.ceil((1 - begin) / size - _SLIVER))
        for begin, size in ((top, height), (left, width))
    )
    for row in rows:
        for column in columns:
            yield top + row * height, left + column * width, bottom + row * height, right + column * width


def _without_padding(picture: Pixels) -> tuple[slice, slice] | None:
    """Return the rows and columns of a picture that are no padding, of one colour; None: all of it is."""
    parts = []
    for axis in (0, 1):
        lines = np.moveaxis(picture, axis, 0)
        first, last = lines[0, :1], lines[-1, :1]
        scale = max(float(np.ptp(picture)), 1e-9)
        begins, ends = (np.abs(lines - one).max(axis=(1, 2)) > 1e-3 * scale for one in (first, last))
        if not begins.any() or not ends.any():
            return None
        parts.append(slice(int(begins.argmax()), len(lines) - int(ends[::-1].argmax())))
    return parts[0], parts[1]


def _with_padding(box: NDArray[np.float64], rows: slice, columns: slice, height: int, width: int) -> Box:
    """Return the part of a whole picture, of which some rows and columns are in ``box``. What ends at an end of the
    photo, nearly, ends there."""
    box = np.where(np.abs(box) < _NEAR_END, 0.0, np.where(np.abs(box - 1) < _NEAR_END, 1.0, box))
    sides = []
    for begin, end, part, size in ((box[0], box[2], rows, height), (box[1], box[3], columns, width)):
        step = (end - begin) / (part.stop - part.start)
        sides.append((float(begin - step * part.start), float(end + step * (size - part.stop))))
    (top, bottom), (left, right) = sides
    return top, left, bottom, right


def _usual(height: int, width: int) -> Iterator[Box]:
    """Iterate over parts that are often read: all of a photo, its middle, and its tiles."""
    yield WHOLE
    for share in _CROPS:
        down, across = (share * min(height, width) / size for size in (height, width))
        yield (1 - down) / 2, (1 - across) / 2, (1 + down) / 2, (1 + across) / 2
    for n_rows in range(1, 9):
        for n_columns in range(1, 9):
            if 1 < n_rows * n_columns <= 16:
                for row in range(n_rows):
                    for column in range(n_columns):
                        yield row / n_rows, column / n_columns, (row + 1) / n_rows, (column + 1) / n_columns


def _anywhere() -> Iterator[Box]:
    """Iterate over parts of all sizes at all places, between the ends of equal parts."""
    ends = [(i / _STEPS, j / _STEPS) for i in range(_STEPS + 1) for j in range(i + _FEWEST, _STEPS + 1)]
    for top, bottom in ends:
        for left, right in ends:
            yield top, left, bottom, right


def _correlations(picture: NDArray[np.float64], parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation of cells of a picture, (n, n, channels), with those of parts, (n_parts, n, n, channels).

    Each channel may have a brightness of its own; contrast is the same for all.
    """
    flat = picture - picture.mean(axis=(0, 1))
    others = parts - parts.mean(axis=(1, 2), keepdims=True)
    own = float((flat**2).sum())
    products, sizes = (others * flat).sum(axis=(1, 2, 3)), (others**2).sum(axis=(1, 2, 3))
    return np.asarray(products / np.sqrt(np.maximum(own * sizes, 1e-12)))


def _refined(
    picture: NDArray[np.float64], sums: _Sums, box: NDArray[np.float64], step: float, least: float
) -> tuple[float, NDArray[np.float64]]:
    """Return the best place near one, by moving one end or two at a time, and its correlation.

    ``step``, ``least``: first and last distance by which ends are moved.
    """
    n = picture.shape[0]
    best = float(_correlations(picture, sums.cells(box[None], n))[0])
    moves = np.array([*np.eye(4), [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, -1, 0], [0, 1, 0, -1], [1, 1, -1, -1]])
    moves = np.concatenate([moves, -moves])
    while step >= least:
        tried = np.clip(box + step * moves, 0, 1)
        tried = tried[((tried[:, 2] - tried[:, 0]) > 0.02) & ((tried[:, 3] - tried[:, 1]) > 0.02)]
        found = _correlations(picture, sums.cells(tried, n))
        i = int(found.argmax())
        if found[i] > best + 1e-9:
            best, box = float(found[i]), tried[i]
        else:
            step /= 2
    return best, box


def _overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the part of what two boxes cover together that both cover."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (one, other)]
    return shared / max(sum(areas) - shared, 1e-12)


def joined_views(views: Sequence[PatchGrid]) -> tuple[PatchGrid, ...]:
    """Return views of one photo, those that lie on one grid of patches as one, such as tiles.

    Views of other sizes of patches, such as a smaller copy of the photo, stay apart.
    """
    groups: list[list[PatchGrid]] = []
    for view in views:
        fitting = next((group for group in groups if _is_on_grid(group[0], view)), None)
        groups.append([view]) if fitting is None else fitting.append(view)
    return tuple(_joined(group) if len(group) > 1 else group[0] for group in groups)


def _cell(view: PatchGrid) -> tuple[float, float]:
    top, left, bottom, right = view.box
    return (bottom - top) / view.rows, (right - left) / view.columns


def _is_on_grid(one: PatchGrid, other: PatchGrid) -> bool:
    """Return whether the patches of two views are of one size, and of one grid, and of other places."""
    sizes = _cell(one), _cell(other)
    for axis in (0, 1):
        size, count = sizes[0][axis], (other.rows, other.columns)[axis]
        apart = (other.box[axis] - one.box[axis]) / size
        if abs(sizes[1][axis] / size - 1) * count > _LATTICE or abs(apart - round(apart)) > _LATTICE:
            return False
    return _overlap(np.array(one.box), np.array(other.box)) < _APART


def _joined(group: Sequence[PatchGrid]) -> PatchGrid:
    first = group[0]
    height, width = _cell(first)
    starts = [
        (round((view.box[0] - first.box[0]) / height), round((view.box[1] - first.box[1]) / width)) for view in group
    ]
    top, left = (min(start[axis] for start in starts) for axis in (0, 1))
    rows = max(start[0] + view.rows for start, view in zip(starts, group, strict=True)) - top
    columns = max(start[1] + view.columns for start, view in zip(starts, group, strict=True)) - left
    places = np.full((rows, columns), -1)
    for (row, column), view in zip(starts, group, strict=True):
        there = slice(row - top, row - top + view.rows), slice(column - left, column - left + view.columns)
        places[there] = np.array(view.places).reshape(view.shape)
    begin = first.box[0] + top * height, first.box[1] + left * width
    box = (*begin, begin[0] + rows * height, begin[1] + columns * width)
    return replace(first, rows=rows, columns=columns, places=tuple(places.ravel().tolist()), box=box, seen=None)
