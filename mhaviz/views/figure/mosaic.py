"""Many heads as one picture: tiles on one sheet, one scale, labels or positions on the outer edges only."""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.limits import MOST_CELLS
from mhaviz.pages.labels import every
from mhaviz.pages.map_words import pooled_text
from mhaviz.pages.panels import CROSS, Panel, Scale
from mhaviz.records.axis import Axis, cell_edges, even_cells
from mhaviz.records.tokens import Tokens
from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.outline import outline
from mhaviz.views.figure.sheet import (
    ACCENT,
    FAINT,
    INK,
    MOST_PIXELS,
    POINTS,
    QUIET,
    SECOND,
    SMALL,
    Sheet,
    fit_text,
    most_dpi,
    snap,
    text_width,
)

VALUES_UP_TO = 12  # tokens; above, numbers in the cells are smaller than anybody reads
LABELS_UP_TO = 60  # tokens of an axis; more have no room for their labels
MOST_WIDTH = 24.0  # inches; wider pages cannot be read on paper or in a talk
BESIDE = 0.15  # inches between a mosaic and its scale
GAP, TILE_TITLE = 0.14, 0.22  # inches between tiles, and for the title over one
_LEAST_LABEL, _MOST_LABEL = 5.0, 8.0  # font sizes in points
_LINE = 0.22  # inches from one position to the next, down
_MOST_POSITIONS = 20  # along a side; more are clutter
_BESIDE_LABEL = 0.06  # inches that a label is apart from its cells or from the next one
_LEAST_VALUE, _MOST_VALUE, _OF_HEIGHT = 4.5, 9.0, 0.5  # font sizes of numbers, and the share of a cell's height
_LEAST_BAR, _MOST_BAR = 0.6, 2.5  # inches, the height of a scale
# Of maps of a part or of pooled cells:
_LARGE, _SMALL, _TINY = 1024 / 150, 512 / 150, 256 / 150  # inches of a tile: whole pixels for sizes often asked for
_LARGE_UP_TO, _SMALL_UP_TO = 2, 16  # tiles on a sheet
_EMPTY = 2.0  # large tiles in few columns make towers; rather leave a place empty
_LEAST_TILE = 1.2  # inches, unless its cells would be larger than
_LARGEST_CELL = 0.5
_LEAST_PITCH = 0.1  # inches between two labels
_MOST_HEIGHT = 48.0  # inches of a sheet, before cells share pixels
_LEAST_SHARED = 0.3  # inches of a tile whose cells share pixels
_NAME = 0.2  # inches for the name of a side
_SLIDE_SHAPE, _WIDE = 1.5, 5.0  # width by height; inches of a page from which on it is no narrow one
_OF_NUMBERS = 0.36  # inches of a cell with a number
_MOST_LARGER = 2.0  # times as large as usual, to fill a width
_LEAST_MARK, _INSET = 0.05, 0.3  # inches of a cell that has room for a mark; the share that a cross leaves free
_OUTLINE, _HALO, _FINE = 1.4, 3.2, 0.6  # points: an outline, the paper around it, an outline of what is small
_OUTLINES = {"black": INK, "orange": ACCENT, "blue": SECOND}
_HATCH = "#b4b4b4"
_AROUND = 1.5  # inches around mosaics, for titles, margins, the scale


Mark = tuple[float, str, str]
"""A label along a side: inches from the first cell, the text, the colour."""


@dataclass(frozen=True)
class Side:
    """One axis of a tile: the queries, from top to bottom, or the keys, from left to right.

    Attributes:
        cells: how many are drawn; fewer than tokens where the map is pooled.
        cell: inches of one.
        room: inches for what is written along it.
        marks: the labels, thinned until none meets another.
    """

    cells: int
    cell: float
    room: float
    marks: tuple[Mark, ...] = ()

    @property
    def length(self) -> float:
        """Of all cells, in inches."""
        return self.cells * self.cell

    def span(self, tokens: range, length: int) -> tuple[float, float]:
        """Where the cells of these of ``length`` tokens begin, and how long they are, in inches."""
        (first, _), (last, _) = thinned_places(length, 1, self.cells, [tokens[0], tokens[-1]])
        return int(first) * self.cell, (int(last) + 1 - int(first)) * self.cell

    @property
    def pitch(self) -> float:
        """Inches from one label to the next."""
        return min(map(float, np.diff([place for place, *_ in self.marks])), default=self.length)


@dataclass(frozen=True)
class MosaicLayout:
    """Where everything goes, in inches from the mosaic's top left corner.

    Attributes:
        columns, rows: of tiles.
        queries, keys: the sides of a tile. Cells are square but for maps far from square.
        label_size: font size of the token labels, in points.
        turned: whether the labels of the keys stand upright.
        value_size: font size of the numbers in the cells; None for no numbers.
        gap: between two tiles of a row.
        names: of the sides, for each row of tiles and each column; "": none.
        pooled: what a cell shows, if it stands for several tokens that have labels; else nothing.
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

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.queries.cells, self.keys.cells

    @property
    def tile_width(self) -> float:
        """Of the cells alone."""
        return self.keys.length

    @property
    def tile_height(self) -> float:
        """Of the cells alone, without the title above."""
        return self.queries.length

    @property
    def width(self) -> float:
        """Of all tiles and labels."""
        return self.queries.room + self.columns * (self.tile_width + self.gap) - self.gap

    @property
    def height(self) -> float:
        """Of all tiles, titles and labels."""
        return self.rows * (TILE_TITLE + self.tile_height + GAP) - GAP + self.keys.room

    @property
    def bar(self) -> float:
        """The height of a scale beside a tile."""
        return bar_height(self.tile_height)

    def tile(self, number: int) -> tuple[float, float]:
        """The top left corner of a tile's cells."""
        row, column = divmod(number, self.columns)
        x = self.queries.room + column * (self.tile_width + self.gap)
        return x, TILE_TITLE + row * (TILE_TITLE + self.tile_height + GAP)

    def spread(self, pitch: float) -> "MosaicLayout":
        """The same, but with tiles that begin at least ``pitch`` inches apart in a row: room to write over them."""
        return replace(self, gap=max(self.gap, pitch - self.tile_width))


@dataclass(frozen=True)
class Space:
    """What a mosaic may take.

    Attributes:
        fonts: the fonts for its labels.
        dpi: pixels an inch; cells are whole pixels.
        columns: tiles side by side; None: as it fits.
        width, height: inches, as long as tiles do not get too small for it.
        least_tile: inches, from which on no side of a tile gets smaller.
        stacked: how many such mosaics share the page, one above the other.
        fills: whether ``width`` is that of the whole mosaic, and not just a limit.
        cell: inches that no side of a cell exceeds; None: as it comes.
        shape: height and width of a cell, in inches; None: as it comes.
        left: least inches for the labels of the queries.
        names: of the sides; "": none.
        same_labels: whether labels are of the same size in cells of any size: there are fewer of them instead.
    """

    fonts: Fonts
    dpi: float
    columns: int | None = None
    width: float = MOST_WIDTH
    height: float = math.inf
    least_tile: float = 0.3
    stacked: int = 1
    fills: bool = False
    cell: float | None = None
    shape: tuple[float, float] | None = None
    left: float = 0.0
    names: tuple[str, str] = ("query", "key")
    same_labels: bool = False

    @property
    def beside_name(self) -> float:
        """Inches for the name of a side."""
        return _NAME if any(self.names) else 0.0

    def label_size(self, pitch: float) -> float:
        """The font size of labels that are so many inches apart."""
        return _MOST_LABEL if self.same_labels else label_size(pitch)

    def widest(self, labels: Sequence[str], size: float) -> float:
        """Room for the widest of these labels, in inches."""
        return max(text_width(label, size, self.fonts.families) for label in labels) + _BESIDE_LABEL


def decide_mosaic(
    n_tiles: int, queries: Axis, keys: Axis, space: Space, text_length: int = 4, numbers: bool | None = None
) -> MosaicLayout:
    """Lay out ``n_tiles`` maps of these axes, their cells on whole pixels.

    All tokens of a whole map have labels, thinned where there are many. So have those of a part that is not pooled, if
    it is short; along other parts, and along cells of several tokens, positions stand instead.

    Args:
        n_tiles: of all heads, and of all layers that are drawn together.
        queries, keys: of one map.
        space: what there is room for.
        text_length: characters of the longest number in a cell.
        numbers: write them into the cells; None: where there are few tokens.
    """
    if all(axis.cells is None or _is_labelled(axis) for axis in (queries, keys)):
        return _decide_tokens(n_tiles, queries, keys, space, text_length, numbers)
    return _decide_cells(n_tiles, queries, keys, space)


def _is_labelled(axis: Axis) -> bool:
    """Whether each cell is a token that has room for a label."""
    return len(axis.tokens) == len(axis) <= LABELS_UP_TO


def _decide_tokens(
    n_tiles: int, queries: Axis, keys: Axis, space: Space, text_length: int, numbers: bool | None
) -> MosaicLayout:
    """A cell a token, or, where that would be less than a pixel, a pixel a cell.

    The mosaic keeps to its space as long as no side of a tile falls below ``space.least_tile``.
    """
    q_length, k_length, dpi = len(queries.tokens), len(keys.tokens), space.dpi
    query_labels, key_labels = (space.fonts.labels(axis.tokens.texts, axis.start) for axis in (queries, keys))
    height, width = space.shape or _ideal_cell(q_length, k_length, has_numbers=bool(numbers))
    if space.cell is not None:
        height, width = (min(side, space.cell) for side in (height, width))
    columns = space.columns
    if columns is None:
        tile = k_length * width + GAP, space.stacked * (q_length * height + GAP + TILE_TITLE)
        columns = choose_columns(n_tiles, *tile, space.width, fills=space.fills)
    columns = min(columns, n_tiles)
    rows = -(-n_tiles // columns)
    if space.fills:
        larger = min(max(_room_of_tile(space, query_labels, height, columns) / (k_length * width), 1), _MOST_LARGER)
        height, width = height * larger, width * larger
    beside = _room_of_tile(space, query_labels, height, columns)
    below = (space.height - space.widest(key_labels, space.label_size(width))) / rows - TILE_TITLE - GAP
    least = space.least_tile
    shrink = min(1.0, max(beside, least) / (k_length * width), max(below, least) / (q_length * height))
    q_cells, height = whole_pixels(q_length, height * shrink, dpi)
    k_cells, width = whole_pixels(k_length, width * shrink, dpi)

    query_pitch, key_pitch = q_cells * height / q_length, k_cells * width / k_length  # inches a token
    pitches = (query_pitch, key_pitch)
    of_tokens = [pitch for axis, pitch in zip((queries, keys), pitches, strict=True) if not axis.are_positions]
    size = space.label_size(min(of_tokens or pitches))
    size = size if of_tokens else max(size, SMALL)
    down = _marks(queries, queries.start + cell_edges(q_length, q_cells), height, size, space.fonts, upright=True)
    across = _marks(keys, keys.start + cell_edges(k_length, k_cells), width, size, space.fonts, upright=False)
    key_side = Side(k_cells, width, 0.0, across)
    value_size = min(width * POINTS * 1.08 / max(text_length, 4), height * POINTS * _OF_HEIGHT, _MOST_VALUE)
    has_room = numbers or (numbers is None and max(q_length, k_length) <= VALUES_UP_TO)
    with_values = has_room and value_size >= (_LEAST_LABEL / 2 if numbers else _LEAST_VALUE)
    texts = [text for _, text, _ in across] or [""]
    size = _upright_size(texts, size, key_side.pitch, space)
    key_widest = space.widest(texts, size)
    turned = key_widest > key_side.pitch
    left = max(space.widest([text for _, text, _ in down], size) + space.beside_name, space.left)
    bottom = _label_room(key_widest, size, turned) + space.beside_name
    return MosaicLayout(
        columns,
        rows,
        Side(q_cells, height, snap(left, dpi), down),
        replace(key_side, room=snap(bottom, dpi)),
        size,
        turned,
        value_size if with_values else None,
        names=space.names,
        pooled=pooled_text(q_length, k_length, q_cells, k_cells),
    )


def _marks(
    axis: Axis, edges: NDArray[np.int64], cell: float, size: float, fonts: Fonts, upright: bool
) -> tuple[Mark, ...]:
    """The labels along one side, every how many-th has room: tokens, or, of many cells of a part, round positions.

    Args:
        axis: the tokens.
        edges: where each drawn cell begins, and the last one ends.
        cell: inches of one.
        size: of the labels, in points.
        fonts: for them.
        upright: whether it is the side of the queries.
    """
    line = size * 1.05 / POINTS
    if axis.are_positions or not (axis.cells is None or _is_labelled(axis)):
        return _position_marks(edges, cell, size, upright)
    labels, length, cells = fonts.labels(axis.tokens.texts, axis.start), len(axis.tokens), len(edges) - 1
    step, special = every(length, int(cells * cell / line)), set(axis.tokens.special)
    chosen = row_starts(axis.tokens, length * line / (cells * cell)) if step > 1 else None
    places = thinned_places(length, step, cells, chosen)
    return tuple((place * cell, labels[i], FAINT if i in special else INK) for place, i in places)


def _position_marks(edges: NDArray[np.int64], cell: float, size: float, upright: bool) -> tuple[Mark, ...]:
    """Round positions, none of which reaches into the next tile."""
    start, end, length = int(edges[0]), int(edges[-1]), (len(edges) - 1) * cell
    apart = _LINE if upright else text_width(f"{end - 1:,}", size) + _BESIDE_LABEL
    step = every(end - start, min(int(length / apart), _MOST_POSITIONS))
    positions = np.array(range(-(-start // step) * step, end, step) or [start])
    places = (np.interp(positions + 0.5, edges, np.arange(len(edges))) * cell).tolist()
    marks = tuple(zip(places, (f"{position:,}" for position in positions), [INK] * len(places), strict=True))
    if upright:
        return marks
    beyond = [text_width(text, size) / 2 - min(place, length - place) for place, text, _ in marks]
    return tuple(mark for mark, more in zip(marks, beyond, strict=True) if more <= GAP / 2)


def _decide_cells(n_tiles: int, queries: Axis, keys: Axis, space: Space) -> MosaicLayout:
    """A whole number of pixels for each cell of a part, or of a pooled map.

    Where the page would be too wide or too high, cells get fewer pixels, down to one. Where that is not enough, cells
    of the map share one of the picture: always equally many, as unequal cells of mass would be stripes. But where the
    columns are given, as those of layers are, small tiles may make a wider page of not too many pixels. No tile is
    larger than that of as many tokens in as many cells as there are if nobody asks for fewer.
    """
    sides, dpi = (queries, keys), space.dpi
    ideal = _ideal_tile(n_tiles * space.stacked) * dpi
    most_high, most_wide = _tile_by_default(n_tiles, sides, space)
    longest, share = max(map(len, sides)), 0
    while True:
        share += 1
        room = -(-longest // share)
        q_cells, k_cells = (-(-len(axis) // -(-len(axis) // room)) for axis in sides)
        is_smallest = room <= _LEAST_SHARED * dpi
        if (q_cells > most_high or k_cells > most_wide) and not is_smallest:
            continue
        most = min(round(ideal / max(q_cells, k_cells)), most_high // q_cells, most_wide // k_cells)
        for common in range(max(most, 1), 0, -1):
            side = common * max(q_cells, k_cells)
            layout = _lay_out_cells(n_tiles, sides, (q_cells, k_cells), common, side, space)
            width, height = layout.width, space.stacked * layout.height
            if width <= space.width and height <= _MOST_HEIGHT:
                return layout
        is_small = room <= _SMALL * dpi and dpi <= most_dpi(width + _AROUND, height + _AROUND)
        if (is_small and space.columns) or is_smallest:
            return layout


def _tile_by_default(n_tiles: int, sides: tuple[Axis, Axis], space: Space) -> tuple[int, int]:
    """Height and width, in pixels, of a tile of as many tokens if nobody asks for a number of cells."""
    lengths = [len(axis.tokens) for axis in sides]
    by_default = [even_cells(length, MOST_CELLS) for length in lengths]
    if not any(len(axis) < usual for axis, usual in zip(sides, by_default, strict=True)):
        return MOST_PIXELS, MOST_PIXELS
    if max(lengths) <= MOST_CELLS:
        usual = [Axis(axis.tokens) for axis in sides]
    else:
        edges = map(cell_edges, lengths, by_default)
        usual = [Axis(axis.tokens, cells) for axis, cells in zip(sides, edges, strict=True)]
    layout = decide_mosaic(n_tiles, usual[0], usual[1], space)
    return round(layout.tile_height * space.dpi), round(layout.tile_width * space.dpi)


def _ideal_tile(n_tiles: int) -> float:
    if n_tiles <= _LARGE_UP_TO:
        return _LARGE
    return _SMALL if n_tiles <= _SMALL_UP_TO else _TINY


def _lay_out_cells(
    n_tiles: int, sides: tuple[Axis, Axis], cells: tuple[int, int], common: int, longest: int, space: Space
) -> MosaicLayout:
    """The mosaic of tiles of so many cells, each of ``common`` pixels; ``longest``: pixels of the longer side."""
    dpi = space.dpi
    pitches = [_pixels(axis, n, common, longest, dpi) / dpi for axis, n in zip(sides, cells, strict=True)]
    labelled = (pitch for axis, pitch in zip(sides, pitches, strict=True) if _is_labelled(axis))
    size = space.label_size(min(labelled, default=math.inf))
    turned, drawn = False, []
    for axis, n, pitch, upright in zip(sides, cells, pitches, (True, False), strict=True):
        marks = _marks(axis, axis.pooled(n).edges, pitch, size, space.fonts, upright)
        widest = space.widest([text for _, text, _ in marks] or [""], size)
        turned = not upright and widest > pitch and _is_labelled(axis)
        room = widest if upright else _label_room(widest, size, turned)
        drawn.append(Side(n, pitch, snap(room + space.beside_name, dpi), marks))
    down, across = drawn
    columns = space.columns
    if columns is None:
        tile_width, tile_height = across.length + GAP, down.length + GAP + TILE_TITLE
        most = max(int((space.width - down.room) / tile_width), 1)
        columns = choose_columns(n_tiles, tile_width, space.stacked * tile_height, space.width, most, _EMPTY)
    columns = min(columns, n_tiles)
    return MosaicLayout(columns, -(-n_tiles // columns), down, across, size, turned, names=space.names)


def _pixels(axis: Axis, cells: int, common: int, longest: int, dpi: float) -> int:
    """Of a cell: ``common``, as many as on the other side, unless this one would be too short to be seen."""
    if _is_labelled(axis):
        return max(common, math.ceil(_LEAST_PITCH * dpi))
    least = min(_LEAST_TILE, _LARGEST_CELL * cells) * dpi
    return max(common, min(math.ceil(least / cells), longest // cells))


def label_size(pitch: float) -> float:
    """The font size of labels that are so many inches apart."""
    return min(max(pitch * POINTS * 0.8, _LEAST_LABEL), _MOST_LABEL)


def _upright_size(labels: Sequence[str], size: float, pitch: float, space: Space) -> float:
    """A smaller size, if labels of a grid or of Chinese, Japanese or Korean need then not be turned; else the same."""
    widest = space.widest(labels, size)
    smaller = size * (pitch - _BESIDE_LABEL) / widest
    is_needed = widest > pitch and (space.shape is not None or any(map(_has_wide, labels)))
    return smaller if is_needed and smaller >= _LEAST_LABEL else size


def _has_wide(label: str) -> bool:
    """Whether it has characters that are as wide as high, and hard to read on their side."""
    return any(unicodedata.east_asian_width(c) in "WF" for c in label)


def _label_room(widest: float, size: float, turned: bool) -> float:
    """Inches under a tile for labels of its keys."""
    return (widest if turned else size * 1.2 / POINTS) + 0.06


def whole_pixels(length: int, cell: float, dpi: float) -> tuple[int, float]:
    """How many cells, of how many inches: a cell a token, or, where that is less than a pixel, a pixel a cell."""
    pixels = cell * dpi + 1e-6
    if pixels >= 1:
        return length, math.floor(pixels) / dpi
    return max(math.floor(length * pixels), 1), 1 / dpi


def draw_mosaic(sheet: Sheet, x: float, y: float, layout: MosaicLayout, panels: Sequence[Panel]) -> None:
    """Draw the panels with the mosaic's top left corner at (x, y)."""
    corners = [(snap(x + dx, sheet.dpi), snap(y + dy, sheet.dpi)) for dx, dy in map(layout.tile, range(len(panels)))]
    tiles: list[tuple[float, float, float, float]] = []
    alike: dict[bytes, tuple[NDArray[np.bool_], list[tuple[float, float]]]] = {}  # tiles with the same cells hidden
    for (left, top), panel in zip(corners, panels, strict=True):
        pooled = panel.pooled(*layout.cells)
        hidden = np.isnan(pooled.values)
        if hidden.any():
            alike.setdefault(hidden.tobytes(), (hidden, []))[1].append((left, top))
        else:
            tiles.append((left, top, layout.tile_width, layout.tile_height))
        image = sheet.image(left, top, layout.tile_width, layout.tile_height, pooled.values, panel.scale)
        image.set_label(panel.title)
        title, size = _fit_title(panel.title, layout.tile_width + layout.gap - 0.4 * GAP)
        sheet.write(left, top - 0.04, title, size, vertical="bottom", bold=True)
    for hidden, places in alike.values():
        if not hidden.all():
            sheet.fill(outline(~hidden, (layout.keys.cell, layout.queries.cell), sheet.thin_line), places)
    sheet.frames_around(tiles)
    if layout.value_size:
        height = layout.queries.cell
        _write_values(sheet, (layout.keys.cell, height), corners, panels, layout.value_size)
    _draw_marks(sheet, layout, corners, panels)
    _draw_outlines(sheet, layout, corners, panels)
    _write_labels(sheet, layout, corners)
    if any(layout.names):
        _write_names(sheet, layout, corners)


def _fit_title(title: str, room: float) -> tuple[str, float]:
    """The title and its size: smaller, or its number alone ("head 12" is "12"), or cut, where room is short."""
    number = title.rpartition(" ")[2]
    for text in (title, number if number.isdigit() else title):
        size = SMALL * min(room / text_width(text, SMALL, bold=True), 1)
        if size >= _LEAST_LABEL:
            return text, size
    return fit_text(text, room, _LEAST_LABEL, bold=True), _LEAST_LABEL


def bar_height(cells: float) -> float:
    """The height of a scale beside cells that are so high, in inches."""
    return min(max(cells, _LEAST_BAR), _MOST_BAR)


def draw_scale(
    sheet: Sheet,
    x: float,
    y: float,
    height: float,
    scale: Scale,
    name: str,
    open_ends: tuple[bool, bool] = (False, False),
) -> None:
    """An upright colour bar with its ends, its middle, or the powers of ten between them, and its name.

    ``open_ends``: whether some values lie below, and above.
    """
    width = snap(0.12, sheet.dpi)
    x, y, height = snap(x, sheet.dpi), snap(y, sheet.dpi), snap(height, sheet.dpi)
    gradient = np.array([scale.value(share) for share in np.linspace(1, 0, 256)], np.float32)[:, None]
    bar = sheet.image(x, y, width, height, gradient, scale)
    bar.is_gradient = True
    bar.set_label(f"scale of {name}")
    sheet.frames([(x, y, width, height)])
    for place, vertical, text in _scale_labels(scale, height, open_ends):
        sheet.write(x + width + 0.05, y + place * height, text, SMALL, vertical=vertical)
    sheet.write(x, y - 0.04, name, SMALL, vertical="bottom", colour=QUIET)


def _scale_labels(
    scale: Scale, height: float, open_ends: tuple[bool, bool]
) -> list[tuple[float, Literal["top", "center", "bottom"], str]]:
    """The numbers beside a bar of so many inches: how far down each stands, from 0 to 1, and how it is aligned."""
    low, high = ("≤ " if open_ends[0] else ""), ("≥ " if open_ends[1] else "")
    return [
        (0, "top", f"{high}{scale.value(1):.3g}"),
        *((1 - share, "center", f"{scale.value(share):.3g}") for share in _between(scale, height)),
        (1, "bottom", f"{low}{scale.value(0):.3g}"),
    ]


def _between(scale: Scale, height: float) -> list[float]:
    """Where along a scale of so many inches the numbers between its ends stand."""
    if not scale.log:
        middle = float(f"{scale.value(0.5):.1g}")  # a round number, where it belongs
        return [0.5 if scale.low else middle / scale.high]
    clear = 0.25 / height  # of the ends' own numbers
    powers = np.arange(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
    shares = [float(share) for share in scale.shares(10.0**powers)]
    return [share for share in shares if clear < share < 1 - clear] or [0.5]


def _room_of_tile(space: Space, labels: Sequence[str], height: float, columns: int) -> float:
    """Inches for the cells of a tile, so that so many columns keep to the width."""
    left = max(space.widest(labels, space.label_size(height)) + space.beside_name, space.left)
    return (space.width - left + GAP) / columns - GAP


def _ideal_cell(q_length: int, k_length: int, has_numbers: bool = False) -> tuple[float, float]:
    """Height and width in inches: a square, unless one side of the tile would then be too short to see."""
    side = min(_ideal_side(q_length), _ideal_side(k_length))
    if has_numbers:
        side = max(side, _OF_NUMBERS)
    height, width = (max(side, min(_ideal_side(n), 0.6 / n)) for n in (q_length, k_length))
    return height, width


def _ideal_side(length: int) -> float:
    """Room for a number up to 12 tokens, for a label up to 60; then 6 inches for all of them."""
    if length <= VALUES_UP_TO:
        return min(max(2.4 / length, 0.36), 0.9)
    return max(2.8 / length, 0.1) if length <= 60 else 6 / length


def choose_columns(
    n_tiles: int,
    width: float,
    height: float,
    most_width: float,
    most: int | None = None,
    empty: float = 6.0,
    fills: bool = False,
) -> int:
    """The number of columns, up to ``most``, that makes the page most like a slide, 3 : 2, with few empty places.

    ``empty``: how much worse the page would be if all its places were. ``fills``: the page is as wide as it may be; one
    that is narrow is rather high than full of tiny tiles.
    """
    wanted = _SLIDE_SHAPE if not fills else min(max(most_width / _WIDE, 0.6), _SLIDE_SHAPE)

    def distance(columns: int) -> float:
        rows = -(-n_tiles // columns)
        shape = abs(math.log(columns * width / (rows * height) / wanted))
        if fills:
            return shape + empty * (rows * columns - n_tiles) / n_tiles
        too_wide = max(math.log(columns * width / most_width), 0)
        return shape + 0.3 * too_wide + empty * (rows * columns - n_tiles) / n_tiles

    return min(range(1, min(n_tiles, most or n_tiles) + 1), key=distance)


def _write_values(
    sheet: Sheet,
    cell: tuple[float, float],
    corners: Sequence[tuple[float, float]],
    panels: Sequence[Panel],
    size: float,
) -> None:
    """The numbers of panels with these top left corners, in cells of so many inches, width and height."""
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
    """A cross in a cell that is crossed, and a line through others that have a mark."""
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
    """Lines around rows and columns, with paper on both sides, or on some colours they would not be seen.

    Around small cells, which that would cover, they are fine and stand outside.
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
    """Queries left of the first column of tiles, keys under the lowest tile of each column."""
    size = layout.label_size
    lowest = {number % layout.columns: corner for number, corner in enumerate(corners)}
    for left, top in corners[:: layout.columns]:
        for place, label, colour in layout.queries.marks:
            sheet.write(left - 0.05, top + place, label, size, align="right", colour=colour)
    for left, top in lowest.values():
        y = top + layout.tile_height + 0.05
        for place, label, colour in layout.keys.marks:
            fits = not layout.turned or (
                _has_wide(label) and text_width(label, size, sheet.fonts.families) <= layout.keys.cell
            )
            if fits:
                sheet.write(left + place, y, label, size, align="center", vertical="top", colour=colour)
            else:  # it ends at its cell, and is read from below
                sheet.write(left + place, y, label, size, align="right", rotation=90, colour=colour)


def _write_names(sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]]) -> None:
    """Of the queries once along the left side of all tiles, and of the keys once under those of the last row."""
    down, across = layout.names
    last_row = corners[layout.columns * (layout.rows - 1) :]
    (left, top), (first, bottom), (last, _) = corners[0], last_row[0], last_row[-1]
    middle = (top + bottom + layout.tile_height) / 2
    sheet.write(
        left - layout.queries.room + 0.4 * _NAME, middle, down, SMALL, colour=QUIET, align="center", rotation=90
    )
    below = bottom + layout.tile_height + layout.keys.room - _NAME / 2
    sheet.write((first + last + layout.tile_width) / 2, below, across, SMALL, colour=QUIET, align="center")


def row_starts(tokens: Tokens, least: float) -> tuple[int, ...] | None:
    """The first token, and the patches with which rows of an image begin, at least so many tokens apart.

    None where the tokens are no patches.
    """
    if tokens.grid is None:
        return None
    rows, columns = tokens.grid
    step = every(rows, int(rows * columns / least))
    starts = [tokens.patches[row * columns] for row in range(0, rows, step)]
    return (0, *(start for start in starts if start >= least))


def thinned_places(length: int, step: int, cells: int, chosen: Sequence[int] | None = None) -> list[tuple[float, int]]:
    """(the middle of its cell, counted in cells; its number) of every ``step``-th token, or of the ``chosen`` ones."""
    edges, numbers = cell_edges(length, cells), range(0, length, step) if chosen is None else chosen
    cell_of = np.searchsorted(edges, np.asarray(numbers), side="right") - 1
    return [(float(cell) + 0.5, i) for cell, i in zip(cell_of, numbers, strict=True)]
