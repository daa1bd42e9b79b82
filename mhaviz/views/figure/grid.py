"""Grids of blocks on a sheet: the cells of pictures are aligned, and labels that they share are written once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

from mhaviz.pages.blocks import Title
from mhaviz.pages.panels import Scale
from mhaviz.views.figure.colour_bar import draw_lines, draw_upright, lines_height, scale_width
from mhaviz.views.figure.heads import MosaicPart
from mhaviz.views.figure.part import Part, Place
from mhaviz.views.figure.sheet import Sheet
from mhaviz.views.tiles.layout import BESIDE, GAP, TILE_TITLE

BETWEEN = 0.15  # inches between two columns
BETWEEN_STACKS = 0.35  # inches


@dataclass(frozen=True)
class GridPart(Part):
    """A grid of parts that has been laid out.

    Attributes:
        rows: the parts of each row; None: an empty place.
        bars: scales with a colour bar.
        bars_lie: whether colour bars lie in lines above all instead of standing at the right.
        after: gap below it, in inches.
    """

    rows: tuple[tuple[Part | None, ...], ...]
    bars: Sequence[Scale]
    bars_lie: bool = False
    after: float = 0.25

    @cached_property
    def _widths(self) -> list[float]:
        return [max(part.width if part else 0.0 for part in column) for column in zip_longest(*self.rows)]

    @property
    def _parts_width(self) -> float:
        return sum(self._widths) + BETWEEN * (len(self._widths) - 1)

    @property
    def _beyond(self) -> float:
        """Inches by which titles of the last column are wider than their matrices."""
        *_, column = zip_longest(*self.rows)
        last = (picture for part in column if part for picture in part.pictures)
        return max((picture.layout.gap - GAP for picture in last), default=0.0)

    @property
    def width(self) -> float:
        """Width in inches, with colour bars."""
        bars = () if self.bars_lie else self.bars
        return self._parts_width + (self._beyond + BESIDE + sum(map(scale_width, bars)) if bars else 0.0)

    @property
    def _parts(self) -> list[Part]:
        return [part for row in self.rows for part in row if part]

    @property
    def is_picture(self) -> bool:
        """Whether any part is a picture."""
        return any(part.is_picture for part in self._parts)

    @property
    def pictures(self) -> Sequence[MosaicPart]:
        """All pictures, also those of grids inside this one."""
        return [picture for part in self._parts for picture in part.pictures]

    def titles(self, room: float) -> Iterator[tuple[Title | str, float]]:
        """Yield the titles of all pictures, each with its width."""
        yield from (title for part, _, _, inside in self._places(room)[0] for title in part.titles(inside))

    def entitled(self, title: str) -> "GridPart":
        """Return the grid with this title in place of those of sentences."""
        rows = (tuple(part and part.entitled(title) for part in row) for row in self.rows)
        return replace(self, rows=tuple(rows))

    @property
    def is_abreast(self) -> bool:
        """Whether it has a single row."""
        return len(self.rows) == 1

    def split(self, room: float) -> Iterator[Part]:
        """Yield the grid; if it is wider than ``room`` inches, and so is broken, with its tables divided."""
        if self.width <= room:
            yield self
        else:
            yield replace(self, rows=tuple((one,) for part in self._parts for one in part.split(room)))

    def _places(self, room: float) -> tuple[list[Place], float]:
        """Return the places of the parts, from the top left corner on, and the height of all.

        Columns of parts that are wrapped to any width share what the others leave of ``room``.
        """
        placed: list[Place] = []
        y, end = 0.0, 0.0
        free = max(room - self.width, 0.0) / max(self._widths.count(0.0), 1)
        widths = [wide or free for wide in self._widths]
        for row in self.rows:
            parts = [(part, i) for i, part in enumerate(row) if part is not None]
            last = max(part.last_cells or 0.0 for part, _ in parts)
            for part, i in parts:
                x = sum(widths[:i]) + BETWEEN * i
                top = y if part.last_cells is None else y + last - part.last_cells
                placed.append((part, x, top, widths[i]))
                end = max(end, top + part.height(widths[i]))
            y = end + max(part.after if part.after_in_grid is None else part.after_in_grid for part, _ in parts)
        return placed, end

    @cached_property
    def last_cells(self) -> float:
        """Inches from the top to the end of the last row of cells."""
        return max(top + (part.last_cells or 0.0) for part, _, top, _ in self._places(self.width)[0])

    def _above(self, room: float) -> float:
        return lines_height(self.bars, room) if self.bars_lie else 0.0

    def height(self, room: float) -> float:
        """Return the height in inches."""
        return self._above(room) + self._places(room)[1]

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the grid with its top left corner at (x, y)."""
        placed, bottom = self._places(room)
        if self.bars_lie:
            draw_lines(sheet, x, y, room, self.bars)
        y += self._above(room)
        for part, dx, dy, inside in placed:
            part.draw(sheet, x + dx, y + dy, inside)
        left = x + self._parts_width + self._beyond + BESIDE
        for scale in () if self.bars_lie else self.bars:
            draw_upright(sheet, left, y + TILE_TITLE, bottom - TILE_TITLE, scale)
            left += scale_width(scale)


@dataclass(frozen=True)
class StacksPart(Part):
    """Two stacks of parts side by side.

    Attributes:
        stacks: parts of each, from top to bottom.
        rooms: width of each, in inches.
    """

    stacks: tuple[tuple[Part, ...], tuple[Part, ...]]
    rooms: tuple[float, float]

    is_picture = True

    @property
    def width(self) -> float:
        """Width in inches."""
        return sum(self.rooms) + BETWEEN_STACKS

    @property
    def pictures(self) -> Sequence[MosaicPart]:
        """All pictures."""
        return [picture for stack in self.stacks for part in stack for picture in part.pictures]

    @property
    def heads_height(self) -> float:
        """Height of the heads of maps in the stack that has more of them, one below the other."""
        return max(sum(part.heads_height for part in stack) for stack in self.stacks)

    def titles(self, room: float) -> Iterator[tuple[Title | str, float]]:
        """Yield the titles of all pictures, each with its width."""
        for stack, inside in zip(self.stacks, self.rooms, strict=True):
            yield from (title for part in stack for title in part.titles(inside))

    def entitled(self, title: str) -> "StacksPart":
        """Return the stacks with this title in place of those of sentences."""
        left, right = (tuple(part.entitled(title) for part in stack) for stack in self.stacks)
        return replace(self, stacks=(left, right))

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


def line_up(rows: Sequence[Sequence[Part | None]], bars: Sequence[Scale] = (), bars_lie: bool = False) -> GridPart:
    """Return a grid in which the cells of each column begin at the same place, without labels that a neighbour has."""

    def pictures(parts: Iterable[Part | None]) -> list[MosaicPart]:
        return [picture for part in parts if part for picture in part.pictures]

    def stood(i: int, j: int) -> Part | None:
        part, below = rows[i][j], (row[j] for row in rows[i + 1 :] if j < len(row))
        return part and part.among(pictures(rows[i][:j]), pictures(below))

    labelled = [[stood(i, j) for j in range(len(row))] for i, row in enumerate(rows)]
    lefts = [max((part.left for part in column if part), default=0.0) for column in zip_longest(*labelled)]
    begun = ((part and part.begun(left) for part, left in zip(row, lefts, strict=False)) for row in labelled)
    return GridPart(tuple(map(tuple, begun)), bars, bars_lie)


def in_lines(
    parts: Sequence[Part], bars: Sequence[Scale], room: float, bars_lie: bool, in_order: bool = True
) -> GridPart:
    """Return a grid of parts whose rows are too wide: one below the other, or, if all are pictures, in lines as long as
    there is room.

    ``bars_lie``: whether colour bars lie above all; ``in_order``: whether lines have the order of the parts, instead of
    each part being in the first line that has room for it, which takes fewer.
    """
    if any(tuple(part.pictures) != (part,) for part in parts):
        return line_up([[part] for part in parts], bars, bars_lie)
    lines = list[list[Part]]()
    for part in parts:
        tried = lines[-1:] if in_order else lines
        free = next((line for line in tried if line_up([[*line, part]]).width <= room), None)
        if free is None:
            lines.append([part])
        else:
            free.append(part)
    rows = (replace(line_up([line]), after=MosaicPart.after_in_grid) if len(line) > 1 else line[0] for line in lines)
    return GridPart(tuple((row,) for row in rows), bars, bars_lie)
