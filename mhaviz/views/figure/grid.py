"""Grids of blocks on a sheet: the cells of pictures are aligned, and labels that they share are written once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol

from mhaviz.pages.panels import Scale
from mhaviz.views.figure.colour_bar import draw_lines, draw_upright, lines_height, scale_width
from mhaviz.views.figure.heads import MosaicPart
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.figure.table import TablePart
from mhaviz.views.tiles.layout import BESIDE, GAP, TILE_TITLE

_BETWEEN, _BELOW = 0.15, 0.1  # inches: between two columns, and below a row of pictures
BETWEEN_STACKS = 0.35  # inches


class Part(Protocol):
    """A block that has been measured. All lengths are in inches."""

    @property
    def width(self) -> float:
        """Width that the block needs; 0: it is wrapped to any width."""

    @property
    def after(self) -> float:
        """Gap between the block and the next one below."""

    def height(self, room: float, /) -> float:
        """Return the height in a width of ``room``."""

    def draw(self, sheet: Sheet, x: float, y: float, room: float, /) -> None:
        """Draw the block with its top left corner at (x, y), in a width of ``room``."""


Place = tuple[Part, float, float, float]
"""A part, x and y of its top left corner, and the width that it has there; in inches."""


@dataclass(frozen=True)
class GridPart:
    """A grid of parts that has been laid out.

    Attributes:
        rows: the parts of each row; None: an empty place.
        bars: scales with a colour bar.
        is_narrow: whether colour bars lie in lines above all instead of standing at the right.
        after: gap below it, in inches.
    """

    rows: tuple[tuple[Part | None, ...], ...]
    bars: Sequence[Scale]
    is_narrow: bool = False
    after: float = 0.25

    @property
    def _widths(self) -> list[float]:
        return [max(part.width if part else 0.0 for part in column) for column in zip_longest(*self.rows)]

    @property
    def _parts_width(self) -> float:
        return sum(self._widths) + _BETWEEN * (len(self._widths) - 1)

    @property
    def _beyond(self) -> float:
        """Inches by which titles of the last column are wider than their matrices."""
        last = [row[-1] for row in self.rows]
        return max((part.layout.gap - GAP for part in last if isinstance(part, MosaicPart)), default=0.0)

    @property
    def width(self) -> float:
        """Width in inches, with colour bars."""
        bars = () if self.is_narrow else self.bars
        return self._parts_width + (self._beyond + BESIDE + sum(map(scale_width, bars)) if bars else 0.0)

    @property
    def pictures(self) -> Iterator[MosaicPart]:
        """All pictures, also those of grids inside this one."""
        yield from (picture for row in self.rows for part in row if part for picture in _pictures(part))

    def rooms_of_parts(self) -> Iterator[tuple[Part, float]]:
        """Yield the parts, each with the width that it has."""
        yield from ((part, room) for part, _, _, room in self._places()[0])

    def _places(self) -> tuple[list[Place], float]:
        """Return the places of the parts, from the top left corner on, and the height of all."""
        placed: list[Place] = []
        widths, y, end = self._widths, 0.0, 0.0
        for row in self.rows:
            parts = [(part, i) for i, part in enumerate(row) if part is not None]
            last = max(map(_last_cells, (part for part, _ in parts)))
            for part, i in parts:
                x, room = sum(widths[:i]) + _BETWEEN * i, widths[i]
                top = y + last - _last_cells(part) if isinstance(part, (MosaicPart, TablePart, GridPart)) else y
                placed.append((part, x, top, room))
                end = max(end, top + part.height(room))
            y = end + max(_BELOW if isinstance(part, MosaicPart) else part.after for part, _ in parts)
        return placed, end

    @property
    def last_cells(self) -> float:
        """Inches from the top to the end of the last row of cells."""
        return max(top + _last_cells(part) for part, _, top, _ in self._places()[0])

    def _above(self, room: float) -> float:
        return lines_height(self.bars, room) if self.is_narrow else 0.0

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return self._above(room) + self._places()[1]

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the grid with its top left corner at (x, y)."""
        placed, bottom = self._places()
        if self.is_narrow:
            draw_lines(sheet, x, y, room, self.bars)
        y += self._above(room)
        for part, dx, dy, inside in placed:
            part.draw(sheet, x + dx, y + dy, inside)
        left = x + self._parts_width + self._beyond + BESIDE
        for scale in () if self.is_narrow else self.bars:
            draw_upright(sheet, left, y + TILE_TITLE, bottom - TILE_TITLE, scale)
            left += scale_width(scale)


@dataclass(frozen=True)
class StacksPart:
    """Two stacks of parts side by side.

    Attributes:
        stacks: parts of each, from top to bottom.
        rooms: width of each, in inches.
    """

    stacks: tuple[tuple[Part, ...], tuple[Part, ...]]
    rooms: tuple[float, float]

    after = 0.2

    @property
    def width(self) -> float:
        """Width in inches."""
        return sum(self.rooms) + BETWEEN_STACKS

    @property
    def pictures(self) -> Iterator[MosaicPart]:
        """All pictures."""
        yield from (part for stack in self.stacks for part in stack if isinstance(part, MosaicPart))

    def rooms_of_parts(self) -> Iterator[tuple[Part, float]]:
        """Yield the parts, each with the width that it has."""
        yield from ((part, room) for stack, room in zip(self.stacks, self.rooms, strict=True) for part in stack)

    def height(self, room: float) -> float:
        """Return the height in inches."""
        stacks = zip(self.stacks, self.rooms, strict=True)
        return max(sum(part.height(inside) + part.after for part in stack) for stack, inside in stacks)

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw both stacks with their top left corner at (x, y)."""
        for stack, inside in zip(self.stacks, self.rooms, strict=True):
            top = y
            for part in stack:
                part.draw(sheet, x, top, inside)
                top += part.height(inside) + part.after
            x += inside + BETWEEN_STACKS


def _last_cells(part: Part) -> float:
    """Return the inches from the top to the end of the last row of cells, or of a table."""
    if isinstance(part, GridPart):
        return part.last_cells
    if isinstance(part, MosaicPart):
        return part.height(0.0) - part.layout.keys.room
    return part.rows_height if isinstance(part, TablePart) else 0.0


def line_up(rows: Sequence[Sequence[Part | None]], bars: Sequence[Scale], is_narrow: bool = False) -> GridPart:
    """Return a grid in which the cells of each column begin at the same place, without labels that a neighbour has."""
    labelled = [[part and _in_line(part, rows, i, j) for j, part in enumerate(row)] for i, row in enumerate(rows)]
    rooms = [
        max((part.layout.queries.room for part in column if isinstance(part, MosaicPart)), default=0.0)
        for column in zip_longest(*labelled)
    ]
    return GridPart(tuple(tuple(map(_begun, row, rooms)) for row in labelled), bars, is_narrow)


def in_lines(parts: Sequence[Part], bars: Sequence[Scale], room: float, is_narrow: bool) -> GridPart:
    """Return a grid of parts whose rows are too wide: one below the other, or, if all are pictures, each in the first
    line that has room for it; colour bars above all if it ``is_narrow``."""
    if not all(isinstance(part, MosaicPart) for part in parts):
        return GridPart(tuple((part,) for part in parts), bars, is_narrow)
    lines = list[tuple[Part, ...]]()
    for part in parts:
        for i, line in enumerate(lines):
            if line_up([(*line, part)], ()).width <= room:
                lines[i] = (*line, part)
                break
        else:
            lines.append((part,))
    rows = (replace(line_up([line], ()), after=_BELOW) if len(line) > 1 else line[0] for line in lines)
    return GridPart(tuple((row,) for row in rows), bars, is_narrow)


def _in_line(part: Part, rows: Sequence[Sequence[Part | None]], row: int, column: int) -> Part:
    """Return a part without the labels that neighbours have: of rows, a picture at its left; of columns, one below it.
    The rows of a table are aligned with those of a picture at its left."""
    before = [picture for other in rows[row][:column] if other for picture in _pictures(other)]
    if isinstance(part, TablePart) and before:
        return part.beside(before[-1].layout.queries.cells, before[-1].layout.queries.cell)
    if not isinstance(part, MosaicPart):
        return part
    below = [other for line in rows[row + 1 :] for other in line[column : column + 1] if isinstance(other, MosaicPart)]
    queries, keys = part.layout.queries, part.layout.keys
    if any(part.rows.are_same(other.rows) for other in before):
        queries = replace(queries, marks=(), room=0.0)
    alike = [other.layout.keys for other in below if part.columns.are_same(other.columns)]
    if alike:  # labels are written below the last, beside whose own labels there may be less room
        cell = min(side.cell for side in (keys, *alike) if side.cells == keys.cells)
        keys = replace(keys, marks=(), room=0.0, cell=cell)
    return replace(part, layout=replace(part.layout, queries=queries, keys=keys))


def _pictures(part: Part) -> Iterator[MosaicPart]:
    """Yield the pictures of a part of a row."""
    yield from part.pictures if isinstance(part, GridPart) else [part] if isinstance(part, MosaicPart) else ()


def _begun(part: Part | None, room: float) -> Part | None:
    """Return a part with ``room`` inches at the left of its cells, if it is a picture."""
    if not isinstance(part, MosaicPart):
        return part
    return replace(part, layout=replace(part.layout, queries=replace(part.layout.queries, room=room)))
