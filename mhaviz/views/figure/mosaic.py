"""Many heads as one picture: tiles on one sheet, one scale, labels on the outer edges only."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from matplotlib.text import Text

from mhaviz.records.axis import cell_edges
from mhaviz.views.captions import pooled_text
from mhaviz.views.colours import needs_dark_text
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.rulers import Ruler, draw_ruler
from mhaviz.views.figure.sheet import FAINT, INK, POINTS, QUIET, SMALL, Sheet, fit_text, snap, text_width
from mhaviz.views.labels import every
from mhaviz.views.panels import Panel, Scale
from mhaviz.views.pooling import pool_strongest

VALUES_UP_TO = 12  # tokens; above, numbers in the cells are smaller than anybody reads
MOST_WIDTH = 24.0  # inches; wider pages cannot be read on paper or in a talk
_LEAST_LABEL, _MOST_LABEL = 5.0, 8.0  # font sizes in points
_LEAST_VALUE, _MOST_VALUE = 4.5, 9.0
BESIDE = 0.15  # inches between a mosaic and its scale
GAP, TILE_TITLE = 0.14, 0.22  # inches between tiles, and for the title over one


@dataclass(frozen=True)
class MosaicLayout:
    """Where everything goes, in inches from the mosaic's top left corner.

    Attributes:
        columns, rows: of tiles.
        q_cells, k_cells: rows and columns of cells in a tile; fewer than tokens where the map is pooled.
        cell_width, cell_height: of a cell; the same but for maps far from square.
        label_size: font size of the token labels, in points.
        value_size: font size of the numbers in the cells; None for no numbers.
        query_every, key_every: label every how many-th token.
        left, bottom: room for the labels of the queries and of the keys.
        turned: whether the labels of the keys stand upright.
        query_labels, key_labels: one a token; none where positions are shown instead.
        query_ruler, key_ruler: positions along the axes of long maps.
        gap: between two tiles of a row.
        special_queries, special_keys: which labels are faint, as their tokens are not of the text.
    """

    columns: int
    rows: int
    q_cells: int
    k_cells: int
    cell_width: float
    cell_height: float
    label_size: float
    value_size: float | None
    query_every: int
    key_every: int
    left: float
    bottom: float
    turned: bool
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]
    query_ruler: Ruler | None = None
    key_ruler: Ruler | None = None
    gap: float = GAP
    special_queries: frozenset[int] = frozenset()
    special_keys: frozenset[int] = frozenset()

    @property
    def tile_width(self) -> float:
        """Of the cells alone."""
        return self.k_cells * self.cell_width

    @property
    def tile_height(self) -> float:
        """Of the cells alone, without the title above."""
        return self.q_cells * self.cell_height

    @property
    def width(self) -> float:
        """Of all tiles and labels."""
        return self.left + self.columns * (self.tile_width + self.gap) - self.gap

    @property
    def height(self) -> float:
        """Of all tiles, titles and labels."""
        return self.rows * (TILE_TITLE + self.tile_height + GAP) - GAP + self.bottom

    @property
    def pooled(self) -> str:
        """What a cell shows, if it stands for several queries or keys; else nothing."""
        return pooled_text(len(self.query_labels), len(self.key_labels), self.q_cells, self.k_cells)

    def tile(self, number: int) -> tuple[float, float]:
        """The top left corner of a tile's cells."""
        row, column = divmod(number, self.columns)
        x = self.left + column * (self.tile_width + self.gap)
        return x, TILE_TITLE + row * (TILE_TITLE + self.tile_height + GAP)

    def spread(self, pitch: float) -> "MosaicLayout":
        """The same, but with tiles that begin at least ``pitch`` inches apart in a row: room to write over them."""
        return replace(self, gap=max(self.gap, pitch - self.tile_width))


def decide_mosaic(
    n_tiles: int,
    queries: Sequence[str],
    keys: Sequence[str],
    lettering: Lettering,
    dpi: float,
    columns: int | None = None,
    most_width: float = MOST_WIDTH,
    most_height: float = math.inf,
    text_length: int = 4,
    least_tile: float = 0.3,
    stacked: int = 1,
    numbers: bool = True,
    starts: tuple[int, int] = (0, 0),
    special: tuple[Collection[int], Collection[int]] = ((), ()),
) -> MosaicLayout:
    """Lay out ``n_tiles`` maps of these tokens, their cells on whole pixels.

    The mosaic keeps to ``most_width`` and ``most_height`` inches as long as no side of a tile falls below
    ``least_tile``. ``text_length``: characters of the longest number in a cell. ``stacked``: how many such mosaics
    share the page, one above the other. ``numbers``: write them into cells that have room. ``starts``: the positions of
    the first query and the first key. ``special``: which queries and which keys are not of the text.
    """
    q_length, k_length = len(queries), len(keys)
    query_labels, key_labels = lettering.labels(queries, starts[0]), lettering.labels(keys, starts[1])
    widest = partial(widest_label, lettering)
    height, width = _ideal_cell(q_length, k_length)
    if columns is None:
        tile = k_length * width + GAP, stacked * (q_length * height + GAP + TILE_TITLE)
        columns = choose_columns(n_tiles, *tile, most_width)
    columns = min(columns, n_tiles)
    rows = -(-n_tiles // columns)
    beside = (most_width - widest(query_labels, label_size(height)) + GAP) / columns - GAP
    below = (most_height - widest(key_labels, label_size(width))) / rows - TILE_TITLE - GAP
    shrink = min(1.0, max(beside, least_tile) / (k_length * width), max(below, least_tile) / (q_length * height))
    q_cells, height = whole_pixels(q_length, height * shrink, dpi)
    k_cells, width = whole_pixels(k_length, width * shrink, dpi)

    query_pitch, key_pitch = q_cells * height / q_length, k_cells * width / k_length  # inches a token
    size = label_size(min(query_pitch, key_pitch))
    query_every = every(q_length, int(q_length * query_pitch * POINTS / (size * 1.05)))
    key_every = every(k_length, int(k_length * key_pitch * POINTS / (size * 1.05)))
    value_size = min(min(height, width) * POINTS * 0.27 * 4 / max(text_length, 4), _MOST_VALUE)
    with_values = numbers and max(q_length, k_length) <= VALUES_UP_TO and value_size >= _LEAST_VALUE
    key_widest = widest(key_labels, size)
    turned = key_widest > key_pitch * key_every
    return MosaicLayout(
        columns=columns,
        rows=rows,
        q_cells=q_cells,
        k_cells=k_cells,
        cell_width=width,
        cell_height=height,
        label_size=size,
        value_size=value_size if with_values else None,
        query_every=query_every,
        key_every=key_every,
        left=snap(widest(query_labels, size), dpi),
        bottom=snap((key_widest if turned else size * 1.2 / POINTS) + 0.06, dpi),
        turned=turned,
        query_labels=query_labels,
        key_labels=key_labels,
        special_queries=frozenset(special[0]),
        special_keys=frozenset(special[1]),
    )


def widest_label(lettering: Lettering, labels: Sequence[str], size: float) -> float:
    """Room for the widest of these labels, in inches."""
    return max(text_width(label, size, lettering.families) for label in labels) + 0.06


def label_size(pitch: float) -> float:
    """The font size of labels that are so many inches apart."""
    return min(max(pitch * POINTS * 0.8, _LEAST_LABEL), _MOST_LABEL)


def whole_pixels(length: int, cell: float, dpi: float) -> tuple[int, float]:
    """How many cells, of how many inches: a cell a token, or, where that is less than a pixel, a pixel a cell."""
    pixels = cell * dpi + 1e-6
    if pixels >= 1:
        return length, math.floor(pixels) / dpi
    return max(math.floor(length * pixels), 1), 1 / dpi


def draw_mosaic(sheet: Sheet, x: float, y: float, layout: MosaicLayout, panels: Sequence[Panel]) -> None:
    """Draw the panels with the mosaic's top left corner at (x, y)."""
    corners = [(snap(x + dx, sheet.dpi), snap(y + dy, sheet.dpi)) for dx, dy in map(layout.tile, range(len(panels)))]
    for (left, top), panel in zip(corners, panels, strict=True):
        pooled = pool_strongest(panel.values, layout.q_cells, layout.k_cells)
        image = sheet.image(left, top, layout.tile_width, layout.tile_height, pooled, panel.scale)
        image.set_label(panel.title)
        title, size = _fit_title(panel.title, layout.tile_width + layout.gap - 0.4 * GAP)
        sheet.write(left, top - 0.04, title, size, vertical="bottom", bold=True)
    tiles = [(left, top, layout.tile_width, layout.tile_height) for left, top in corners]
    if layout.query_ruler or layout.key_ruler:
        sheet.frames_around(tiles)
    else:
        sheet.frames(tiles)
    if layout.value_size:
        _write_values(sheet, layout, corners, panels, layout.value_size)
    _write_labels(sheet, layout, corners)


def _fit_title(title: str, room: float) -> tuple[str, float]:
    """The title and its size: smaller, or without its first word ("head 12" is "12"), or cut, where room is short."""
    for text in (title, title.split(" ", 1)[-1]):
        size = SMALL * min(room / text_width(text, SMALL, bold=True), 1)
        if size >= _LEAST_LABEL:
            return text, size
    return fit_text(text, room, _LEAST_LABEL, bold=True), _LEAST_LABEL


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
    sheet.image(x, y, width, height, gradient, scale).set_label(f"scale of {name}")
    sheet.frames([(x, y, width, height)])
    low, high = ("≤ " if open_ends[0] else ""), ("≥ " if open_ends[1] else "")
    labels: list[tuple[float, Literal["top", "center", "bottom"], str]] = [
        (0, "top", f"{high}{scale.value(1):.3g}"),
        *((1 - share, "center", f"{scale.value(share):.3g}") for share in _between(scale, height)),
        (1, "bottom", f"{low}{scale.value(0):.3g}"),
    ]
    for place, vertical, text in labels:
        sheet.write(x + width + 0.05, y + place * height, text, SMALL, vertical=vertical)
    sheet.write(x, y - 0.04, name, SMALL, vertical="bottom", colour=QUIET)


def draw_scale_beside(
    sheet: Sheet,
    x: float,
    y: float,
    layout: MosaicLayout,
    scale: Scale,
    name: str,
    open_ends: tuple[bool, bool] = (False, False),
) -> tuple[float, float]:
    """``draw_scale`` right of the first row of a mosaic whose top left corner is at (x, y); the corner of the bar."""
    left, top = x + layout.width + BESIDE, y + layout.tile(0)[1]
    draw_scale(sheet, left, top, min(max(layout.tile_height, 0.6), 2.5), scale, name, open_ends)
    return left, top


def _between(scale: Scale, height: float) -> list[float]:
    """Where along a scale of so many inches the numbers between its ends stand."""
    if not scale.log:
        return [0.5]
    clear = 0.25 / height  # of the ends' own numbers
    powers = np.arange(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
    shares = [float(share) for share in scale.shares(10.0**powers)]
    return [share for share in shares if clear < share < 1 - clear] or [0.5]


def _ideal_cell(q_length: int, k_length: int) -> tuple[float, float]:
    """Height and width in inches: a square, unless one side of the tile would then be too short to see."""
    side = min(_ideal_side(q_length), _ideal_side(k_length))
    height, width = (max(side, min(_ideal_side(n), 0.6 / n)) for n in (q_length, k_length))
    return height, width


def _ideal_side(length: int) -> float:
    """Room for a number up to 12 tokens, for a label up to 60; then 6 inches for all of them."""
    if length <= VALUES_UP_TO:
        return min(max(2.4 / length, 0.36), 0.9)
    return max(2.8 / length, 0.1) if length <= 60 else 6 / length


def choose_columns(
    n_tiles: int, width: float, height: float, most_width: float, most: int | None = None, empty: float = 6.0
) -> int:
    """The number of columns, up to ``most``, that makes the page most like a slide, 3 : 2, with few empty places.

    ``empty``: how much worse the page would be if all its places were.
    """

    def distance(columns: int) -> float:
        rows = -(-n_tiles // columns)
        shape = abs(math.log(columns * width / (rows * height) / 1.5))
        too_wide = max(math.log(columns * width / most_width), 0)
        return shape + 0.3 * too_wide + empty * (rows * columns - n_tiles) / n_tiles

    return min(range(1, min(n_tiles, most or n_tiles) + 1), key=distance)


def _write_values(
    sheet: Sheet,
    layout: MosaicLayout,
    corners: Sequence[tuple[float, float]],
    panels: Sequence[Panel],
    size: float,
) -> None:
    rows, columns = np.indices(panels[0].values.shape)
    offsets = np.stack([(columns + 0.5) * layout.cell_width, (rows + 0.5) * layout.cell_height], axis=-1)
    places = np.array(corners)[:, None, None] + offsets  # n_tiles q_length k_length 2
    texts: list[str] = []
    inks: list[str] = []
    for panel in panels:
        scale = panel.scale
        dark = needs_dark_text(scale.colours(panel.values)).ravel()
        texts += [panel.text(row, column) for row, column in np.ndindex(panel.values.shape)]
        inks += ["black" if is_dark else "white" for is_dark in dark]
    shown = [i for i, text in enumerate(texts) if text]
    sheet.numbers([texts[i] for i in shown], places.reshape(-1, 2)[shown], [inks[i] for i in shown], size)


def _write_labels(sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]]) -> None:
    """Queries left of the first column of tiles, keys under the lowest tile of each column."""
    size = layout.label_size
    lowest = {number % layout.columns: corner for number, corner in enumerate(corners)}
    written: dict[tuple[str, int], Text] = {}
    for left, top in corners[:: layout.columns]:
        if layout.query_ruler:
            draw_ruler(sheet, layout.query_ruler, left, top)
        for place, i in thinned_places(len(layout.query_labels), layout.query_every, layout.q_cells):
            label, colour = layout.query_labels[i], FAINT if i in layout.special_queries else INK
            at = left - 0.05, top + place * layout.cell_height
            text = sheet.write(*at, label, size, align="right", colour=colour)
            sheet.alike(written.setdefault(("query", i), text), text)
    for left, top in lowest.values():
        under = top + layout.tile_height + 0.05
        if layout.key_ruler:
            draw_ruler(sheet, layout.key_ruler, left, top + layout.tile_height)
        for place, i in thinned_places(len(layout.key_labels), layout.key_every, layout.k_cells):
            at, label = (left + place * layout.cell_width, under), layout.key_labels[i]
            colour = FAINT if i in layout.special_keys else INK
            if layout.turned:
                text = sheet.write(*at, label, size, align="right", rotation=90, colour=colour)
            else:
                text = sheet.write(*at, label, size, align="center", vertical="top", colour=colour)
            sheet.alike(written.setdefault(("key", i), text), text)


def thinned_places(length: int, step: int, cells: int) -> list[tuple[float, int]]:
    """(the middle of its cell, counted in cells; its number) of every ``step``-th token."""
    edges = cell_edges(length, cells)
    cell_of = np.searchsorted(edges, np.arange(0, length, step), side="right") - 1
    return [(float(cell) + 0.5, i) for cell, i in zip(cell_of, range(0, length, step), strict=True)]
