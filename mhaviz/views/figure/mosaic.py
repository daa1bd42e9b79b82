"""Mosaic: many heads as tiles of one picture, with labels or positions on the outer edges only."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.labels import every
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.panels import CROSS, Panel
from mhaviz.results.axis import Axis, cell_edges
from mhaviz.views.colours import colours, needs_dark_text, over_image
from mhaviz.views.figure.artists import Cells
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text, text_width
from mhaviz.views.figure.sheet import ACCENT, FAINT, INK, QUIET, SECOND, Sheet
from mhaviz.views.measures import DRAWN_WIDER, POINTS, SMALL, snap

VALUES_UP_TO = 12  # most tokens with numbers in the cells; with more they would be too small to read
LABELS_UP_TO = 60  # most tokens of an axis with a label each
MOST_WIDTH = 24.0  # inches of a page before cells share pixels
HIGH = 14.0  # inches of a page from which on a notice says so
BESIDE = 0.15  # inches between a mosaic and its colour bar
GAP, TILE_TITLE = 0.14, 0.22  # inches between tiles, and for the title over one
LEAST_LABEL, MOST_LABEL = 6.0, 8.0  # font sizes in points; labels without room for the least are left out or cut
LEAST_PITCH, THUMB = 0.088, 0.47  # inches from one label to the next, and of a tile without a label for each token
_LINE = 0.22  # inches from one position to the next, down
_MOST_POSITIONS = 20  # most positions along a side
BESIDE_LABEL = 0.06  # inches between a label and its cells or the next label
_MOST_VALUE, _OF_HEIGHT = 9.0, 0.5  # largest font size of numbers; their height / that of their cell
_LARGE, _SMALL, _TINY = 1024 / 150, 512 / 150, 256 / 150  # inches of a tile with more cells than have labels
_LARGE_UP_TO, _SMALL_UP_TO = 2, 16  # most tiles of a page that are large, and that are small
_LEAST_SIDE = 1.2  # inches of a tile, unless its cells would be larger than those of a short text
MOST_HEIGHT = 48.0  # inches of a page, before cells share pixels
_LEAST_SHARED = 0.3  # inches of a tile whose cells share pixels
NAME = 0.2  # inches for the name of a side
PAGE_SHAPE = 1.5  # width / height
_EMPTY = 4.0  # penalty of a page if all its places were empty
_LEAST_MARK, _INSET = 0.05, 0.3  # least inches of a cell with a mark; share of it left free on each side of a cross
_OUTLINE, _HALO, _FINE = 1.4, 3.2, 0.6  # points: an outline, the white around it, and an outline of small cells
_OUTLINES = {"black": INK, "orange": ACCENT, "blue": SECOND}
_HATCH = "#b4b4b4"


Mark = tuple[float, str, str]
"""A label along a side: inches from the first cell, the text, the colour."""


@dataclass(frozen=True)
class Side:
    """One axis of a tile: the queries, from top to bottom, or the keys, from left to right.

    Attributes:
        cells: number of cells; fewer than tokens where the map is pooled.
        cell: inches of a cell.
        room: inches for the labels and the name of the axis.
        marks: labels, thinned out until none overlap.
    """

    cells: int
    cell: float
    room: float
    marks: tuple[Mark, ...] = ()

    @property
    def length(self) -> float:
        """Length of all cells, in inches."""
        return self.cells * self.cell

    def span(self, tokens: range, length: int) -> tuple[float, float]:
        """Return where the cells of these ``tokens``, of ``length``, begin, and their length, in inches."""
        (first, _), (last, _) = thinned_places(length, 1, self.cells, [tokens[0], tokens[-1]])
        return int(first) * self.cell, (int(last) + 1 - int(first)) * self.cell

    @property
    def pitch(self) -> float:
        """Inches from one label to the next."""
        return min(map(float, np.diff([place for place, *_ in self.marks])), default=self.length)


@dataclass(frozen=True)
class MosaicLayout:
    """Places of tiles and labels, in inches from the mosaic's top left corner.

    Attributes:
        columns, rows: number of tiles across and down.
        queries, keys: the sides of a tile. Cells are square except in maps far from square.
        label_size: font size of the token labels, in points.
        turned: whether the labels of the keys are rotated by 90 degrees.
        value_size: font size of the numbers in the cells; None: no numbers.
        gap: inches between two tiles of a row.
        names: names of the sides; "": none.
        pooled: what a cell shows where it stands for several tokens; "": a cell is one number.
        title, below: inches above a tile for its title, and below it.
    """

    columns: int
    rows: int
    queries: Side
    keys: Side
    label_size: float
    turned: bool
    value_size: float | None = None
    gap: float = GAP
    names: tuple[str, str] = ("", "")
    pooled: str = ""
    title: float = TILE_TITLE
    below: float = GAP

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

    def spread(self, pitch: float) -> "MosaicLayout":
        """Return the layout with tiles that begin at least ``pitch`` inches apart in a row, as their titles need."""
        return replace(self, gap=max(self.gap, pitch - self.tile_width))


@dataclass(frozen=True)
class Space:
    """Room for a mosaic, and constraints of its layout.

    Attributes:
        fonts: fonts of its labels.
        dpi: pixels an inch; cells are whole pixels.
        columns: number of tiles side by side; None: chosen.
        width, height: most inches, unless tiles would be smaller than ``least_tile``.
        page: width / height of the mosaic that the columns are chosen for.
        least_tile: least inches of each side of a tile.
        column: height of the column of a paper that tiles are to fit into; 0: the page has a shape.
        fills: whether the columns are those that make tiles largest, instead of giving the page its shape.
        larger: most that cells are enlarged to fill the width.
        cell: most inches of each side of a cell; None: chosen.
        shape: height and width of a cell, in inches; None: chosen.
        left: least inches for the labels of the queries.
        names: names of the sides; "": none.
        least_label: smallest font size of labels, in points. Where it has no room, there are fewer labels.
    """

    fonts: Fonts
    dpi: float
    columns: int | None = None
    width: float = MOST_WIDTH
    height: float = MOST_HEIGHT
    page: float = PAGE_SHAPE
    least_tile: float = 0.3
    column: float = 0.0
    fills: bool = False
    larger: float = 1.0
    cell: float | None = None
    shape: tuple[float, float] | None = None
    left: float = 0.0
    names: tuple[str, str] = ("query", "key")
    least_label: float = LEAST_LABEL

    @property
    def beside_name(self) -> float:
        """Inches for the name of a side."""
        return NAME if any(self.names) else 0.0

    def widest(self, labels: Sequence[str], size: float) -> float:
        """Return the room for the widest of these labels, in inches."""
        return max(text_width(label, size, self.fonts.families) for label in labels) + BESIDE_LABEL


def label_size(pitch: float, least: float) -> float:
    """Return the font size, at least ``least`` points, of labels that are ``pitch`` inches apart."""
    return min(max(pitch * POINTS * 0.8, least), MOST_LABEL)


def number_size(width: float, height: float, text_length: int) -> float:
    """Return the font size of numbers of ``text_length`` characters in cells of this width and height, in inches.

    Numbers leave a third of a cell's width blank; the smallest leave a fifth before they are left out.
    """
    most = min(height * POINTS * _OF_HEIGHT, _MOST_VALUE)
    wide = width * POINTS / max(text_length, 4)
    return min(max(1.08 * wide, min(1.35 * wide, LEAST_LABEL)), most)


def decide_mosaic(
    n_tiles: int, queries: Axis, keys: Axis, space: Space, text_length: int = 4, numbers: bool = True
) -> MosaicLayout:
    """Lay out ``n_tiles`` maps of these axes, with cells of whole pixels.

    Where space is short, cells get fewer pixels, down to one, and then cells of the map are pooled: always equally many
    together, as unequal numbers would show as stripes. The tokens of a whole map, and of a short part that is not
    pooled, have labels, thinned out where there are many. Other parts and pooled maps have positions.

    Args:
        n_tiles: number of heads of all layers that are drawn together.
        queries, keys: axes of one map.
        space: room for the mosaic.
        text_length: characters of the longest number in a cell.
        numbers: write numbers in the cells, where there are few tokens.
    """
    lengths, share = (len(queries), len(keys)), 1
    if space.shape is not None:
        sides = zip(lengths, space.shape, strict=True)
        cells = [even_number(length, int(length * side * space.dpi)) for length, side in sides]
        return _lay_out(n_tiles, (queries, keys), (cells[0], cells[1]), space, text_length, numbers)
    if queries.cells is None:
        share = math.ceil(max(lengths) / (_tile_of(n_tiles) * space.dpi))
    while True:
        room = -(-max(lengths) // share)
        cells = [even_number(length, room) for length in lengths]
        layout = _lay_out(n_tiles, (queries, keys), (cells[0], cells[1]), space, text_length, numbers)
        fits = layout.width <= space.width and layout.height <= space.height
        if fits or min(layout.queries.cell, layout.keys.cell) * space.dpi > 1.5 or room <= _LEAST_SHARED * space.dpi:
            return layout
        share += 1


def even_number(length: int, most: int) -> int:
    """Return the largest number of cells, at most ``most``, that each have equally many of ``length`` tokens."""
    return -(-length // -(-length // max(most, 1)))


def has_labels(axis: Axis) -> bool:
    """Return whether an axis is labelled by its tokens rather than by positions."""
    is_short = len(axis.tokens) == len(axis) <= LABELS_UP_TO
    return (axis.cells is None or is_short) and not axis.are_positions


def _lay_out(
    n_tiles: int, sides: tuple[Axis, Axis], cells: tuple[int, int], space: Space, text_length: int, numbers: bool
) -> MosaicLayout:
    """Lay out tiles of this many cells, down and across."""
    dpi, (q_cells, k_cells) = space.dpi, cells
    labelled = [axis for axis in sides if has_labels(axis)]
    texts = [
        space.fonts.labels(axis.tokens.texts, axis.start) if axis in labelled else (f"{axis.end - 1:,}",)
        for axis in sides
    ]
    height, width = space.shape or _ideal_cell(n_tiles, q_cells, k_cells)
    height, width = (min(max(side, 1 / dpi), space.cell or side) for side in (height, width))
    left = max(space.widest(texts[0], label_size(height, space.least_label)) + space.beside_name, space.left)
    most = max(int(space.width * dpi / (k_cells + GAP * dpi)), 1)  # with cells of one pixel
    if labelled or space.larger > 1:  # on a page of a given width, cells share pixels
        most = n_tiles
    tile = k_cells * width + GAP, q_cells * height + GAP + TILE_TITLE
    if space.columns is not None:
        columns = min(space.columns, n_tiles)
    elif space.column:
        columns = _narrow_columns(n_tiles, k_cells, q_cells / k_cells, space.width - left, space.column)
    else:
        columns = choose_columns(n_tiles, *tile, space.page, most)
    under = space.widest(texts[1], label_size(width, space.least_label))

    def larger(columns: int, least: float) -> float:
        """Return by how much the cells of so many tiles side by side may be enlarged; ``least``: inches of a tile."""
        beside = (space.width - left + GAP) / columns - GAP
        below = (space.height - under) / -(-n_tiles // columns) - TILE_TITLE - GAP
        return min(space.larger, max(beside, least) / (k_cells * width), max(below, least) / (q_cells * height))

    if space.fills and space.columns is None:
        columns = max(range(1, n_tiles + 1), key=lambda n: larger(n, -math.inf))
    rows, scale = -(-n_tiles // columns), larger(columns, space.least_tile)
    most_side = space.cell or math.inf
    height, width = (max(math.floor(min(side * scale, most_side) * dpi + 1e-6), 1) / dpi for side in (height, width))

    pitches = [n * cell / len(axis.tokens) for axis, n, cell in zip(sides, cells, (height, width), strict=True)]
    pitch = min((p for p, axis in zip(pitches, sides, strict=True) if axis in labelled), default=1.0)
    size = label_size(pitch, space.least_label)
    down = side_marks(sides[0], q_cells, height, size, space.fonts, upright=True)
    across = side_marks(sides[1], k_cells, width, size, space.fonts, upright=False)
    value_size = number_size(width, height, text_length)
    are_tokens = all(axis.cells is None or axis in labelled for axis in sides)
    has_room = are_tokens and max(map(len, sides)) <= VALUES_UP_TO and value_size >= LEAST_LABEL
    widest = space.widest([text for _, text, _ in across] or [""], size)
    keys = Side(k_cells, width, 0.0, across)
    smaller = size * (keys.pitch - BESIDE_LABEL) / widest
    if widest > keys.pitch and smaller >= space.least_label:
        size, widest = smaller, keys.pitch
    turned = widest > keys.pitch
    left = max(space.widest([text for _, text, _ in down] or [""], size) + space.beside_name, space.left)
    bottom = (widest if turned else size * 1.2 / POINTS) + 0.06 + space.beside_name
    pooled = pooled_text(len(sides[0]), len(sides[1]), q_cells, k_cells) if sides[0].cells is None else ""
    return MosaicLayout(
        columns,
        rows,
        Side(q_cells, height, snap(left, dpi), down),
        replace(keys, room=snap(bottom, dpi)),
        size,
        turned,
        value_size if numbers and has_room else None,
        names=space.names,
        pooled=pooled,
    )


def side_marks(axis: Axis, cells: int, cell: float, size: float, fonts: Fonts, upright: bool) -> tuple[Mark, ...]:
    """Return the labels along one side, as many as there is room for: tokens or round positions.

    Args:
        axis: the tokens.
        cells: number of cells drawn.
        cell: inches of a cell.
        size: font size of the labels, in points.
        fonts: fonts of the labels.
        upright: whether the side is that of the queries.
    """
    line = size * 1.05 / POINTS
    if not has_labels(axis):
        return _position_marks(axis.pooled(cells).edges, cell, size, upright)
    labels, length = fonts.labels(axis.tokens.texts, axis.start), len(axis.tokens)
    step, special = every(length, int(cells * cell / line)), set(axis.tokens.special)
    chosen = row_starts(axis.tokens, length * line / (cells * cell)) if step > 1 else None
    places = thinned_places(length, step, cells, chosen)
    return tuple((place * cell, labels[i], FAINT if i in special else INK) for place, i in places)


def _position_marks(edges: NDArray[np.int64], cell: float, size: float, upright: bool) -> tuple[Mark, ...]:
    """Return round positions as labels, none of which extends into the next tile."""
    start, end, length = int(edges[0]), int(edges[-1]), (len(edges) - 1) * cell
    apart = _LINE if upright else text_width(f"{end - 1:,}", size) + BESIDE_LABEL
    step = every(end - start, min(int(length / apart), _MOST_POSITIONS))
    positions = np.array(range(-(-start // step) * step, end, step) or [start])
    places = (np.interp(positions + 0.5, edges, np.arange(len(edges))) * cell).tolist()
    marks = tuple(zip(places, (f"{position:,}" for position in positions), [INK] * len(places), strict=True))
    if upright:
        return marks
    beyond = [text_width(text, size) / 2 - min(place, length - place) for place, text, _ in marks]
    return tuple(mark for mark, more in zip(marks, beyond, strict=True) if more <= GAP / 2)


def draw_mosaic(sheet: Sheet, x: float, y: float, layout: MosaicLayout, panels: Sequence[Panel]) -> None:
    """Draw the panels with the mosaic's top left corner at (x, y)."""
    offsets = map(layout.tile, range(len(panels)))
    corners = [(snap(x + dx, sheet.pixels), snap(y + dy, sheet.pixels)) for dx, dy in offsets]
    alike: dict[bytes, tuple[NDArray[np.bool_], list[tuple[float, float]]]] = {}  # tiles with the same cells hidden
    for (left, top), panel in zip(corners, panels, strict=True):
        pooled = panel.pooled(*layout.cells)
        hidden = np.isnan(pooled.values)
        alike.setdefault(hidden.tobytes(), (hidden, []))[1].append((left, top))
        box = left, top, layout.tile_width, layout.tile_height
        if panel.image is None:
            image = sheet.image(*box, pooled.values, panel.scale, Cells)
        else:
            pixels = (round(inches * sheet.pixels) for inches in (layout.tile_height, layout.tile_width))
            image = sheet.image(*box, over_image(pooled, *pixels))
        image.set_label(panel.title)
        if layout.title:
            title, size = _fit_title(panel.title, layout.tile_width + layout.gap - 0.4 * GAP)
            sheet.write(left, top - layout.title + TILE_TITLE - 0.04, title, size, vertical="bottom", bold=True)
    for hidden, places in alike.values():
        if not hidden.all():
            sheet.outline(~hidden, (layout.keys.cell, layout.queries.cell), places)
    if layout.value_size:
        height = layout.queries.cell
        _write_values(sheet, (layout.keys.cell, height), corners, panels, layout.value_size)
    _draw_marks(sheet, layout, corners, panels)
    _draw_outlines(sheet, layout, corners, panels)
    _write_labels(sheet, layout, corners)
    if any(layout.names):
        _write_names(sheet, layout, corners)


def _fit_title(title: str, room: float) -> tuple[str, float]:
    """Return a title and its font size that fit: smaller, or by ``short_title``, or shortened."""
    room /= DRAWN_WIDER
    for text in (title, short_title(title)):
        size = SMALL * min(room / text_width(text, SMALL, bold=True), 1)
        if size >= LEAST_LABEL:
            return text, size
    return fit_text(text, room, LEAST_LABEL, bold=True), LEAST_LABEL


def short_title(title: str) -> str:
    """Return "H12" for "L0 H12", "P3 H5" for "pass 3 · L0 H5", "5" for "layer 5", "E   (6, 64)" for an equation with a
    shape, "E = a · b   (6, 64)"; other titles are unchanged."""
    title = re.sub(r"^(\w+)\b.* = .*(   \()", r"\1\2", title)
    if "=" in title:  # an equation, in which " · " is a product
        return title
    row, _, tile = title.rpartition(" · ")
    short = tile.rpartition(" ")[2] if re.fullmatch(r"L\d+ H\d+|[a-z]+ \d+", tile) else tile
    return f"{row[0].upper()}{row.rpartition(' ')[2]} {short}" if row else short


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


def choose_columns(n_tiles: int, width: float, height: float, page: float, most: int) -> int:
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

    balanced = [-(-n_tiles // -(-n_tiles // n)) for n in (labelled, most)]
    if labelled > 1 and high(balanced[0]) <= height:
        return balanced[0]
    full = (n for n in range(1, most + 1) if n_tiles % n == 0 and high(n) <= height / 2)
    return next(full, balanced[1])


def _write_values(
    sheet: Sheet,
    cell: tuple[float, float],
    corners: Sequence[tuple[float, float]],
    panels: Sequence[Panel],
    size: float,
) -> None:
    """Write the numbers of panels with these top left corners into their cells; ``cell``: width and height."""
    rows, columns = np.indices(panels[0].values.shape)
    offsets = np.stack([(columns + 0.5) * cell[0], (rows + 0.5) * cell[1]], axis=-1)
    places = np.array(corners)[:, None, None] + offsets  # n_tiles q_length k_length 2
    texts: list[str] = []
    inks: list[str] = []
    for panel in panels:
        dark = needs_dark_text(colours(panel.values, panel.scale)).ravel()
        texts += [panel.number(row, column) for row, column in np.ndindex(panel.values.shape)]
        inks += ["black" if is_dark else "white" for is_dark in dark]
    shown = [i for i, text in enumerate(texts) if text]
    sheet.numbers([texts[i] for i in shown], places.reshape(-1, 2)[shown], [inks[i] for i in shown], size)


def _draw_marks(
    sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]], panels: Sequence[Panel]
) -> None:
    """Draw a cross in dropped cells, and a line through cells with another mark."""
    width, height = layout.keys.cell, layout.queries.cell
    inset = _INSET * min(width, height)
    hatches: list[tuple[float, float, float, float]] = []
    crosses: list[tuple[float, float, float, float]] = []
    for (left, top), panel in zip(corners, panels, strict=True):
        if panel.values.shape != layout.cells or min(width, height) < _LEAST_MARK:
            return
        marked = () if panel.marks is None else np.argwhere(panel.marks != "").tolist()
        for row, column in marked:
            x, y = left + column * width, top + row * height
            if panel.mark(row, column) == CROSS:
                x0, y0, x1, y1 = x + inset, y + inset, x + width - inset, y + height - inset
                crosses += [(x0, y0, x1, y1), (x0, y1, x1, y0)]
            else:
                hatches.append((x, y + height, x + width, y))
    for lines, colour in ((hatches, _HATCH), (crosses, INK)):
        if lines:
            sheet.ticks(lines, colour)


def _draw_outlines(
    sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]], panels: Sequence[Panel]
) -> None:
    """Draw outlines of rows and columns, with white on both sides to be visible on all colours.

    Outlines of small cells are thin, without white, and drawn outside the cells, which they would cover.
    """
    fine, thick = (defaultdict[str, list[tuple[float, float, float, float]]](list) for _ in range(2))
    for (left, top), panel in zip(corners, panels, strict=True):
        for rows, columns, colour in panel.outlined:
            n_rows, n_columns = panel.values.shape
            (y, height), (x, width) = layout.queries.span(rows, n_rows), layout.keys.span(columns, n_columns)
            x, y, out = left + x, top + y, _FINE / 2 / POINTS
            if colour == "fine":
                fine[INK].append((x, y, width, height))
            elif min(width, height) < _LEAST_MARK:
                fine[_OUTLINES[colour]].append((x - out, y - out, width + 2 * out, height + 2 * out))
            else:
                thick[_OUTLINES[colour]].append((x, y, width, height))
    for ink, rectangles in fine.items():
        sheet.frames(rectangles, ink, _FINE)
    for ink, rectangles in thick.items():
        sheet.frames(rectangles, "white", _HALO)
        sheet.frames(rectangles, ink, _OUTLINE)


def _write_labels(sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]]) -> None:
    """Write labels of queries left of the first column of tiles, and of keys below the lowest tile of each column."""
    size = layout.label_size
    lowest = {number % layout.columns: corner for number, corner in enumerate(corners)}
    for left, top in corners[:: layout.columns]:
        for place, label, colour in layout.queries.marks:
            sheet.write(left - 0.05, top + place, label, size, align="right", colour=colour)
    for left, top in lowest.values():
        y = top + layout.tile_height + 0.05
        for place, label, colour in layout.keys.marks:
            if not layout.turned:
                sheet.write(left + place, y, label, size, align="center", vertical="top", colour=colour)
            else:  # from bottom to top, and ending at its cell
                sheet.write(left + place, y, label, size, align="right", rotation=90, colour=colour)


def write_sides(
    sheet: Sheet, x: float, y: float, layout: MosaicLayout, across: Sequence[str], down: Sequence[str]
) -> None:
    """Write names of columns of tiles above the first row, and of rows left of the first column, as many as fit.

    The mosaic begins at (x, y).
    """
    pitches = layout.tile_width + layout.gap, layout.tile_height + layout.below
    widest = max(text_width(name, SMALL) for name in across) + BESIDE_LABEL
    for i in range(0, len(across), every(len(across), int(len(across) * pitches[0] / widest))):
        middle = x + layout.tile(i)[0] + layout.tile_width / 2
        sheet.write(middle, y - 0.04, across[i], SMALL, align="center", vertical="bottom")
    for i in range(0, len(down), every(len(down), int(len(down) * pitches[1] * POINTS / (1.05 * SMALL)))):
        middle = y + layout.tile(i * layout.columns)[1] + layout.tile_height / 2
        sheet.write(x + layout.queries.room - BESIDE_LABEL, middle, down[i], SMALL, align="right")


def _write_names(sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]]) -> None:
    """Write the name of the queries once at the left of all tiles, and that of the keys once below the last row."""
    down, across = layout.names
    last_row = corners[layout.columns * (layout.rows - 1) :]
    (left, top), (first, bottom), (last, _) = corners[0], last_row[0], last_row[-1]
    middle = (top + bottom + layout.tile_height) / 2
    sheet.write(left - layout.queries.room + 0.4 * NAME, middle, down, SMALL, colour=QUIET, align="center", rotation=90)
    below = bottom + layout.tile_height + layout.keys.room - NAME / 2
    sheet.write((first + last + layout.tile_width) / 2, below, across, SMALL, colour=QUIET, align="center")


def row_starts(tokens: Tokens, least: float) -> tuple[int, ...] | None:
    """Return the first token, and the patches at the beginnings of rows of an image, at least ``least`` tokens apart.

    None where the tokens are not patches.
    """
    if tokens.grid is None:
        return None
    rows, columns = tokens.grid
    step = every(rows, int(rows * columns / least))
    starts = [tokens.patches[row * columns] for row in range(0, rows, step)]
    return (0, *(start for start in starts if start >= least))


def thinned_places(length: int, step: int, cells: int, chosen: Sequence[int] | None = None) -> list[tuple[float, int]]:
    """Return (middle of the cell, in cells; index) of every ``step``-th token, or of the ``chosen`` ones."""
    edges, numbers = cell_edges(length, cells), range(0, length, step) if chosen is None else chosen
    cell_of = np.searchsorted(edges, np.asarray(numbers), side="right") - 1
    return [(float(cell) + 0.5, i) for cell, i in zip(cell_of, numbers, strict=True)]
