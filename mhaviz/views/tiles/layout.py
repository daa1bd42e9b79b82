"""Layout of tiles: the places of matrices of one shape and of their labels, in inches, before anybody draws them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mhaviz.views.measures import SMALL
from mhaviz.views.tiles.places import middles

GAP, TILE_TITLE = 0.14, 0.22  # inches between tiles, and for the title over one
NAME = 0.2  # inches for the name of a side
BESIDE = 0.15  # inches between matrices and what stands beside them, such as a colour bar


class Mark(NamedTuple):
    """A label along a side.

    Attributes:
        place: inches from the first cell to the middle of the label.
        text: the label.
        is_special: whether it is that of a special token.
    """

    place: float
    text: str
    is_special: bool = False


@dataclass(frozen=True)
class Side:
    """One axis of a tile: the queries, from top to bottom, or the keys, from left to right.

    Attributes:
        cells: number of cells; fewer than tokens where the map is pooled.
        cell: inches of a cell.
        room: inches for the labels and the name of the axis.
        marks: labels, thinned out until none overlap.
        apart: tokens whose cells stand apart, before all others, in this order.
        apart_cell, apart_gap: inches of such a cell, and between these cells and the others.
    """

    cells: int
    cell: float
    room: float
    marks: tuple[Mark, ...] = ()
    apart: tuple[int, ...] = ()
    apart_cell: float = 0.0
    apart_gap: float = 0.0

    @property
    def begin(self) -> float:
        """Inches from the first cell to the first that does not stand apart."""
        return len(self.apart) * self.apart_cell + self.apart_gap

    @property
    def length(self) -> float:
        """Length of all cells, in inches."""
        return self.begin + (self.cells - len(self.apart)) * self.cell

    def middles(self, chosen: Sequence[int], length: int) -> list[float]:
        """Return the middle of the cell of each of the ``chosen`` of ``length`` tokens, in inches from the first."""
        if not self.apart:
            return [middle * self.cell for middle in middles(length, self.cells, chosen)]
        n_apart = len(self.apart)
        others = [token for token in range(length) if token not in self.apart]
        of_others = middles(len(others), self.cells - n_apart, range(len(others)))
        places = {token: (rank + 0.5) * self.apart_cell for rank, token in enumerate(self.apart)}
        places |= {token: self.begin + middle * self.cell for token, middle in zip(others, of_others, strict=True)}
        return [places[token] for token in chosen]

    def span(self, tokens: range, length: int) -> tuple[float, float]:
        """Return where the cells of these ``tokens``, of ``length``, begin, and their length, in inches."""
        first, last = middles(length, self.cells, [tokens[0], tokens[-1]])
        return int(first) * self.cell, (int(last) + 1 - int(first)) * self.cell

    @property
    def pitch(self) -> float:
        """Inches from one label to the next."""
        return min(map(float, np.diff([mark.place for mark in self.marks])), default=self.length)


@dataclass(frozen=True)
class Layout:
    """Places of tiles and labels, in inches from the top left corner of all.

    Attributes:
        columns, rows: number of tiles across and down.
        queries, keys: the sides of a tile. Cells are square except in maps far from square.
        gap: inches between two tiles of a row.
        title, below: inches above a tile for its title, and below it.
        names: names of the sides; "": none.
        label_size: font size of the token labels, in points.
        is_turned: whether the labels of the keys are rotated by 90 degrees.
        value_size: font size of the numbers in the cells; None: no numbers.
        pooled: what a cell shows where it stands for several tokens; "": a cell is one number.
        enlarged: a tile that is drawn a second time, larger; None: none is.
    """

    columns: int
    rows: int
    queries: Side
    keys: Side
    gap: float = GAP
    title: float = TILE_TITLE
    below: float = GAP
    names: tuple[str, str] = ("", "")
    label_size: float = SMALL
    is_turned: bool = False
    value_size: float | None = None
    pooled: str = ""
    enlarged: "Enlarged | None" = None

    @property
    def cells(self) -> tuple[int, int]:
        """Numbers of rows and columns of a tile."""
        return self.queries.cells, self.keys.cells

    @property
    def tile_width(self) -> float:
        """Width of a tile's cells."""
        return self.keys.length

    @property
    def tile_height(self) -> float:
        """Height of a tile's cells, without its title."""
        return self.queries.length

    @property
    def width(self) -> float:
        """Width of all tiles and labels."""
        return self.queries.room + self.columns * (self.tile_width + self.gap) - self.gap

    @property
    def height(self) -> float:
        """Height of all tiles, titles and labels."""
        return self.rows * (self.title + self.tile_height + self.below) - self.below + self.keys.room

    def tile(self, number: int) -> tuple[float, float]:
        """Return the top left corner of a tile's cells."""
        row, column = divmod(number, self.columns)
        x = self.queries.room + column * (self.tile_width + self.gap)
        return x, self.title + row * (self.title + self.tile_height + self.below)

    def spread(self, pitch: float) -> "Layout":
        """Return the layout with tiles that begin at least ``pitch`` inches apart in a row, as their titles need."""
        return replace(self, gap=max(self.gap, pitch - self.tile_width))


@dataclass(frozen=True)
class Enlarged:
    """A tile that is drawn a second time, with labels.

    Attributes:
        number: index of the tile.
        layout: layout of the second drawing.
        is_beside: whether it stands beside all tiles, not below.
    """

    number: int
    layout: Layout
    is_beside: bool
