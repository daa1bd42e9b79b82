"""Tiles that fit a space: the number side by side, the size of their cells, and their labels, for matrices of any kind.

A kind of matrices says what it asks for as a ``Space``; ``lay_out`` is the same for all.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.map_words import pooled_text
from mhaviz.results.axis import Axis
from mhaviz.views.measures import POINTS, snap
from mhaviz.views.tiles.labels import (
    BESIDE_LABEL,
    LABELS_UP_TO,
    LEAST_LABEL,
    MOST_LABEL,
    Ruler,
    has_labels,
    label_size,
    marks_of,
    number_size,
    widest,
)
from mhaviz.views.tiles.layout import GAP, NAME, TILE_TITLE, Layout, Mark, Side

VALUES_UP_TO = 12  # most tokens with numbers in the cells; with more they would be too small to read
MOST_WIDTH, MOST_HEIGHT = 24.0, 48.0  # inches of a page before cells share pixels
PAGE_SHAPE = 1.5  # width / height
LEAST_PITCH, THUMB = 0.088, 0.47  # inches from one label to the next, and of a tile without a label for each token
_LARGE, _SMALL, _TINY = 1024 / 150, 512 / 150, 256 / 150  # inches of a tile with more cells than have labels
_LARGE_UP_TO, _SMALL_UP_TO = 2, 16  # most tiles of a page that are large, and that are small
_LEAST_SIDE = 1.2  # inches of a tile, unless its cells would be larger than those of a short text
_LEAST_SHARED = 0.3  # most inches of a tile below which its cells do not share pixels
_NEARLY = 0.8  # share of the largest size of tiles from which on whole rows are worth it
_APART, _THINLY = 4 / POINTS, 2 / POINTS  # inches of columns apart, at least, and of the gap; in tiles without labels
_EMPTY = 4.0  # penalty of a page if all its places were empty


@dataclass(frozen=True)
class Space:
    """Room for tiles, and constraints of their layout. Lengths are in inches.

    Attributes:
        ruler: measures their labels.
        dpi: pixels an inch; cells are whole pixels.
        columns: number of tiles side by side; None: chosen.
        width, height: most of all, unless tiles would be smaller than ``least_tile``.
        page: width / height of all tiles that the columns are chosen for.
        column: height of the column of a paper that tiles are to fit into; 0: the page has a shape.
        fills: whether the columns are those that make tiles largest, instead of giving the page its shape.
        least_tile: least of each side of a tile.
        larger: most that cells are enlarged to fill the width.
        cell: most of each side of a cell; None: chosen.
        tile: most of the longer side of a tile.
        shape: height and width of a cell; None: chosen.
        are_square: whether cells are square even in matrices far from square.
        stretches: whether cells are as wide as there is room, however few inches there are down.
        left: least for the labels of the rows.
        gap, title, below: between two tiles of a row, above a tile for its title, and below it.
        has_labels: whether the sides have labels.
        names: names of the sides; "": none.
        least_label: smallest font size of labels, in points. Where it has no room, there are fewer labels.
        most_label: largest font size of labels, in points.
        text_length: characters of the longest number in a cell; 0: numbers are not written.
        values_up_to: most rows or columns with numbers in the cells.
        strengths: number of each column, (columns,); the largest have labels first. None: every so many columns have.
        apart: columns that stand apart at the left, and are never pooled.
    """

    ruler: Ruler
    dpi: float
    columns: int | None = None
    width: float = MOST_WIDTH
    height: float = MOST_HEIGHT
    page: float = PAGE_SHAPE
    column: float = 0.0
    fills: bool = False
    least_tile: float = 0.3
    larger: float = 1.0
    cell: float | None = None
    tile: float = math.inf
    shape: tuple[float, float] | None = None
    are_square: bool = False
    stretches: bool = False
    left: float = 0.0
    gap: float = GAP
    title: float = TILE_TITLE
    below: float = GAP
    has_labels: bool = True
    names: tuple[str, str] = ("query", "key")
    least_label: float = LEAST_LABEL
    most_label: float = MOST_LABEL
    text_length: int = 4
    values_up_to: float = VALUES_UP_TO
    strengths: NDArray[np.float32] | None = None
    apart: tuple[int, ...] = ()

    @property
    def least_apart(self) -> float:
        """Least inches of a column apart, and of the gap beside it."""
        return snap(_APART if self.has_labels else _THINLY, self.dpi)

    def keys(self, cells: int, cell: float) -> Side:
        """Return the columns without labels, of which those that do not stand apart have ``cell`` inches."""
        if not self.apart:
            return Side(cells, cell, 0.0)
        return Side(cells, cell, 0.0, (), self.apart, max(cell, self.least_apart), self.least_apart)

    @property
    def beside_name(self) -> float:
        """Inches for the name of a side."""
        return NAME if any(self.names) else 0.0


def lay_out(n_tiles: int, rows: Axis, columns: Axis, space: Space) -> Layout:
    """Lay out ``n_tiles`` matrices of these axes, with cells of whole pixels.

    Where space is short, cells get fewer pixels, down to one, and then cells of the map are pooled: always equally many
    together, as unequal numbers would show as stripes. The tokens of a whole map, and of a short part that is not
    pooled, have labels, thinned out where there are many. Other parts and pooled maps have positions.

    In the column of a paper, fewer tiles stand side by side where only columns apart take the room of unpooled cells.
    """
    layout = _lay_out(n_tiles, rows, columns, space)
    if not (space.apart and space.column and layout.pooled):
        return layout
    trials = (replace(space, columns=n) for n in range(layout.columns - 1, 0, -1))
    fewer = (_lay_out(n_tiles, rows, columns, trial) for trial in trials)
    return next((one for one in fewer if not one.pooled and one.height <= space.column), layout)


def _lay_out(n_tiles: int, rows: Axis, columns: Axis, space: Space) -> Layout:
    """Lay out tiles side by side as the space says, or as many as it chooses."""
    sides, lengths, share = (rows, columns), (len(rows), len(columns)), 1
    least = min(space.least_tile, _LEAST_SHARED)
    if space.shape is not None:
        pixels = zip(lengths, space.shape, strict=True)
        down, across = (even_number(length, int(length * side * space.dpi)) for length, side in pixels)
        return _of_cells(n_tiles, sides, (down, across), space)
    if rows.cells is None:
        share = math.ceil(max(lengths) / (min(_tile_of(n_tiles), space.tile) * space.dpi))
    while True:
        room = -(-max(lengths) // share)
        down = even_number(lengths[0], room)
        across = len(space.apart) + even_number(lengths[1] - len(space.apart), room)
        layout = _of_cells(n_tiles, sides, (down, across), space)
        fits = layout.width <= space.width and layout.height <= space.height
        if fits or min(layout.queries.cell, layout.keys.cell) * space.dpi > 1.5 or room <= least * space.dpi:
            return layout
        share += 1


def balanced(most: int, n_tiles: int) -> int:
    """Return the tiles side by side, at most ``most``, with which no row has far fewer than another."""
    return -(-n_tiles // -(-n_tiles // most))


def even_number(length: int, most: int) -> int:
    """Return the largest number of cells, at most ``most``, that each have equally many of ``length`` tokens."""
    return -(-length // -(-length // max(most, 1)))


def _of_cells(n_tiles: int, sides: tuple[Axis, Axis], cells: tuple[int, int], space: Space) -> Layout:
    """Lay out tiles of this many cells, down and across."""
    dpi, (q_cells, k_cells) = space.dpi, cells
    labelled = [axis for axis in sides if space.has_labels and has_labels(axis)]
    height, width = space.shape or _ideal_cell(n_tiles, q_cells, k_cells)
    if space.are_square:
        height = width = min(height, width)
    height, width = (min(max(side, 1 / dpi), space.cell or side) for side in (height, width))
    left, under = space.left, 0.0  # with labels of the ideal size
    if space.has_labels:
        texts = [
            space.ruler.labels(axis.tokens.texts, axis.start, counts=axis.tokens.counts)
            if axis in labelled
            else (f"{axis.end - 1:,}",)
            for axis in sides
        ]
        left = max(widest(space.ruler, texts[0], label_size(height, space.least_label)) + space.beside_name, left)
        under = widest(space.ruler, texts[1], label_size(width, space.least_label))

    def beside(columns: int) -> float:
        """Return the inches of each of so many tiles side by side."""
        return (space.width - left + space.gap) / columns - space.gap

    def larger(columns: int, least: float) -> tuple[float, float]:
        """Return by how much the cells of so many tiles side by side may be enlarged, down and across.

        ``least``: inches of a tile.
        """
        below = (space.height - under) / -(-n_tiles // columns) - space.title - space.below
        across = min(space.larger, _enlarged(max(beside(columns), least), k_cells, width, space))
        down = min(across, max(below, least) / (q_cells * height))
        return down, across if space.stretches else down

    most = max(int(space.width * dpi / (k_cells + space.gap * dpi)), 1)  # with cells of one pixel
    if labelled or space.larger > 1:  # on a page of a given width, cells share pixels
        most = n_tiles
    tile = space.keys(k_cells, width).length + space.gap, q_cells * height + space.below + space.title
    if space.columns is not None:
        columns = min(space.columns, n_tiles)
    elif space.fills:
        fit = [n for n in range(1, n_tiles + 1) if beside(n) >= space.least_tile]
        sizes = {n: min(larger(n, -math.inf)) for n in fit}
        large = [n for n in fit if sizes[n] >= _NEARLY * max(sizes.values())]
        columns = max((n for n in large if n_tiles % n == 0), key=sizes.__getitem__, default=0)
        columns = columns or max(fit, key=sizes.__getitem__, default=1)
    elif space.column:
        columns = _narrow_columns(n_tiles, k_cells, q_cells / k_cells, space.width - left, space.column)
    else:
        columns = _choose_columns(n_tiles, *tile, space.page, most)
    down, across = larger(columns, space.least_tile)
    most_side = min(space.cell or math.inf, space.tile / max(cells))
    height, width = (
        max(math.floor(min(side * scale, most_side) * dpi + 1e-6), 1) / dpi
        for side, scale in ((height, down), (width, across))
    )
    layout = Layout(
        columns,
        -(-n_tiles // columns),
        Side(q_cells, height, space.left),
        space.keys(k_cells, width),
        gap=space.gap,
        names=space.names,
        pooled=pooled_text(len(sides[0]), len(sides[1]), q_cells, k_cells) if sides[0].cells is None else "",
        title=space.title,
        below=space.below,
    )
    return _with_labels(layout, sides, space) if space.has_labels else layout


def _enlarged(length: float, cells: int, cell: float, space: Space) -> float:
    """Return by how much cells of ``cell`` inches are enlarged, so that a side of ``cells`` has this length."""
    if not space.apart:
        return length / (cells * cell)
    scale = (length - space.least_apart) / (cells * cell)
    if scale * cell >= space.least_apart:
        return scale
    return (length - space.keys(cells, 0.0).begin) / ((cells - len(space.apart)) * cell)


def _with_labels(layout: Layout, sides: tuple[Axis, Axis], space: Space) -> Layout:
    """Return the layout with labels along its sides, and numbers where its cells have room for them."""
    queries, keys = layout.queries, layout.keys
    labelled = [axis for axis in sides if has_labels(axis)]
    pitches = [side.length / len(axis.tokens) for axis, side in zip(sides, (queries, keys), strict=True)]
    pitch = min((p for p, axis in zip(pitches, sides, strict=True) if axis in labelled), default=1.0)
    size = min(label_size(pitch, space.least_label), space.most_label)

    def marked(size: float) -> tuple[tuple[Mark, ...], Side, float]:
        """Return the labels of the rows, the columns with their labels, and the room for the widest of these."""
        down, across = marks_of(sides, (queries, keys), size, space.ruler, space.strengths)
        return down, replace(keys, marks=across), widest(space.ruler, [mark.text for mark in across] or [""], size)

    down, columns, room = marked(size)
    smaller = size * (columns.pitch - BESIDE_LABEL) / room
    if room > columns.pitch and smaller >= space.least_label and (upright := marked(smaller))[2] <= columns.pitch:
        size, (down, columns, room) = smaller, upright
    keys, is_turned = columns, room > columns.pitch
    left = widest(space.ruler, [mark.text for mark in down] or [""], size) + space.beside_name
    bottom = (room if is_turned else size * 1.2 / POINTS) + 0.06 + space.beside_name
    value_size = number_size(keys.cell, queries.cell, space.text_length)
    are_tokens = all(axis.cells is None or axis in labelled for axis in sides)
    are_few = are_tokens and max(map(len, sides)) <= space.values_up_to
    return replace(
        layout,
        queries=replace(queries, room=snap(max(left, space.left), space.dpi), marks=down),
        keys=replace(keys, room=snap(bottom, space.dpi)),
        label_size=size,
        is_turned=is_turned,
        value_size=value_size if space.text_length and are_few and value_size >= LEAST_LABEL else None,
    )


def _tile_of(n_tiles: int) -> float:
    """Return the inches of a tile with more cells than have labels."""
    return _LARGE if n_tiles <= _LARGE_UP_TO else _SMALL if n_tiles <= _SMALL_UP_TO else _TINY


def _ideal_cell(n_tiles: int, q_length: int, k_length: int) -> tuple[float, float]:
    """Return the height and width of a cell in inches: a square, unless one side of the tile would be too short."""

    def ideal(length: int) -> float:
        """Return inches with room for a number for up to 12 tokens, and for a label for up to 60."""
        if length <= VALUES_UP_TO:
            return min(max(2.4 / length, 0.36), 0.9)
        return max(2.8 / length, 0.1) if length <= LABELS_UP_TO else _tile_of(n_tiles) / length

    side = min(ideal(q_length), ideal(k_length))
    height, width = (max(side, min(ideal(n), _LEAST_SIDE / n)) for n in (q_length, k_length))
    return height, width


def _choose_columns(n_tiles: int, width: float, height: float, page: float, most: int) -> int:
    """Return the columns, up to ``most``, so that width / height is near ``page``, with few empty places."""

    def distance(columns: int) -> float:
        rows = -(-n_tiles // columns)
        empty = (rows * columns - n_tiles) / n_tiles
        return abs(math.log(columns * width / (rows * height) / page)) + _EMPTY * empty

    return min(range(1, min(n_tiles, most) + 1), key=distance)


def _narrow_columns(n_tiles: int, cells: int, shape: float, room: float, height: float) -> int:
    """Return the number of tiles side by side in a column of a paper.

    It is the most that have room for a label for each of ``cells``. If that is one, or its rows are higher than
    ``height``, it is the least that leaves no row half full and is at most half as high; if there is none, the most
    that fit. ``shape``: height / width of a tile.
    """
    labelled, most = (max(int((room + GAP) / (least + GAP)), 1) for least in (max(cells * LEAST_PITCH, THUMB), THUMB))

    def high(columns: int) -> float:
        return -(-n_tiles // columns) * (((room + GAP) / columns - GAP) * shape + GAP + TILE_TITLE)

    if labelled > 1 and high(balanced(labelled, n_tiles)) <= height:
        return balanced(labelled, n_tiles)
    full = (n for n in range(1, most + 1) if n_tiles % n == 0 and high(n) <= height / 2)
    return next(full, balanced(most, n_tiles))
