"""Many heads as one picture: tiles on one sheet, one scale, labels on the outer edges only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mhaviz.views.colours import colours, needs_dark_text
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.sheet import INK, POINTS, QUIET, SMALL, Sheet, fit_text, snap, text_width
from mhaviz.views.labels import cut, every, position_suffixes
from mhaviz.views.panels import Panel, Scale
from mhaviz.views.pooling import cell_edges, pool_largest

VALUES_UP_TO = 12  # tokens; above, numbers in the cells are smaller than anybody reads
LABEL_CELLS = 24  # a longer token is cut in its middle
MOST_WIDTH = 24.0  # inches; wider pages cannot be read on paper or in a talk
_LEAST_LABEL, _MOST_LABEL = 5.0, 8.0  # font sizes in points
_LEAST_VALUE, _MOST_VALUE = 4.5, 9.0
_GAP, _TITLE = 0.14, 0.22  # inches between tiles, and for the title over one


@dataclass(frozen=True)
class MosaicLayout:
    """Where everything goes, in inches from the mosaic's top left corner.

    Attributes:
        columns, rows: of tiles.
        q_cells, k_cells: rows and columns of cells in a tile; fewer than tokens where the map is pooled.
        cell: side of a cell.
        label_size: font size of the token labels, in points.
        value_size: font size of the numbers in the cells; None for no numbers.
        query_every, key_every: label every how many-th token.
        left, bottom: room for the labels of the queries and of the keys.
        turned: whether the labels of the keys stand upright.
        labels_of_queries, labels_of_keys: one a token.
    """

    columns: int
    rows: int
    q_cells: int
    k_cells: int
    cell: float
    label_size: float
    value_size: float | None
    query_every: int
    key_every: int
    left: float
    bottom: float
    turned: bool
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]

    @property
    def tile_width(self) -> float:
        """Of the cells alone."""
        return self.k_cells * self.cell

    @property
    def tile_height(self) -> float:
        """Of the cells alone, without the title above."""
        return self.q_cells * self.cell

    @property
    def width(self) -> float:
        """Of all tiles and labels."""
        return self.left + self.columns * (self.tile_width + _GAP) - _GAP

    @property
    def height(self) -> float:
        """Of all tiles, titles and labels."""
        return self.rows * (_TITLE + self.tile_height + _GAP) - _GAP + self.bottom

    def tile(self, number: int) -> tuple[float, float]:
        """The top left corner of a tile's cells."""
        row, column = divmod(number, self.columns)
        x = self.left + column * (self.tile_width + _GAP)
        return x, _TITLE + row * (_TITLE + self.tile_height + _GAP)


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
) -> MosaicLayout:
    """Lay out ``n_tiles`` maps of these tokens within so many inches, their cells on whole pixels.

    ``text_length``: characters of the longest number in a cell.
    """
    q_length, k_length = len(queries), len(keys)
    longest = max(q_length, k_length)
    cell = _ideal_cell(longest)
    if columns is None:
        columns = _choose_columns(n_tiles, k_length * cell + _GAP, q_length * cell + _GAP + _TITLE, most_width)
    columns = min(columns, n_tiles)

    query_labels = _labels(queries, lettering)
    key_labels = _labels(keys, lettering)

    def label_size(side: float) -> float:
        return min(max(side * POINTS * 0.8, _LEAST_LABEL), _MOST_LABEL)

    def widest(labels: Sequence[str], size: float) -> float:
        return max(text_width(label, size, lettering.families) for label in labels) + 0.06

    left = widest(query_labels, label_size(cell))
    room = (most_width - left + _GAP) / columns - _GAP
    rows = -(-n_tiles // columns)
    room_below = (most_height - widest(key_labels, label_size(cell))) / rows - _TITLE - _GAP
    cell = min(cell, max(room, 0.3) / k_length, max(room_below, 0.3) / q_length)
    if cell * dpi >= 1:  # whole pixels
        cell = max(math.floor(cell * dpi + 1e-6), 1) / dpi
    q_cells = min(q_length, max(math.floor(q_length * cell * dpi + 1e-6), 1))
    k_cells = min(k_length, max(math.floor(k_length * cell * dpi + 1e-6), 1))
    if longest > max(q_cells, k_cells):  # less than a pixel a token: pooled, a pixel a cell
        cell = 1 / dpi

    size = label_size(cell)
    fitting = [length_cells * cell * POINTS / (size * 1.05) for length_cells in (q_cells, k_cells)]
    value_size = min(cell * POINTS * 0.27 * 4 / max(text_length, 4), _MOST_VALUE)
    key_widest = widest(key_labels, size)
    turned = key_widest > cell * every(k_length, int(fitting[1]))
    return MosaicLayout(
        columns=columns,
        rows=rows,
        q_cells=q_cells,
        k_cells=k_cells,
        cell=cell,
        label_size=size,
        value_size=value_size if longest <= VALUES_UP_TO and value_size >= _LEAST_VALUE else None,
        query_every=every(q_length, int(fitting[0])),
        key_every=every(k_length, int(fitting[1])),
        left=snap(widest(query_labels, size), dpi),
        bottom=snap((key_widest if turned else size * 1.2 / POINTS) + 0.06, dpi),
        turned=turned,
        query_labels=query_labels,
        key_labels=key_labels,
    )


def draw_mosaic(sheet: Sheet, x: float, y: float, layout: MosaicLayout, panels: Sequence[Panel]) -> None:
    """Draw the panels with the mosaic's top left corner at (x, y)."""
    corners = [(snap(x + dx, sheet.dpi), snap(y + dy, sheet.dpi)) for dx, dy in map(layout.tile, range(len(panels)))]
    for (left, top), panel in zip(corners, panels, strict=True):
        pooled = pool_largest(panel.values, layout.q_cells, layout.k_cells)
        image = sheet.image(left, top, layout.tile_width, layout.tile_height, pooled, panel.scale)
        image.set_label(panel.title)
        room = layout.tile_width + 0.8 * _GAP
        size = SMALL * min(max(room / text_width(panel.title, SMALL, bold=True), _LEAST_LABEL / SMALL), 1)
        title = fit_text(panel.title, room, size, bold=True)
        sheet.write(left, top - 0.04, title, size, vertical="bottom", bold=True)
    sheet.frames([(left, top, layout.tile_width, layout.tile_height) for left, top in corners])
    if layout.value_size:
        _write_values(sheet, layout, corners, panels, layout.value_size)
    _write_labels(sheet, layout, corners)


def draw_scale(sheet: Sheet, x: float, y: float, height: float, scale: Scale, name: str) -> None:
    """An upright colour bar with its ends, its middle and its name."""
    width = snap(0.12, sheet.dpi)
    x, y, height = snap(x, sheet.dpi), snap(y, sheet.dpi), snap(height, sheet.dpi)
    gradient = np.linspace(scale.high, scale.low, 256, dtype=np.float32)[:, None]
    sheet.image(x, y, width, height, gradient, scale).set_label(f"scale of {name}")
    sheet.frames([(x, y, width, height)])
    places: tuple[tuple[float, Literal["top", "center", "bottom"]], ...] = ((0, "top"), (0.5, "center"), (1, "bottom"))
    for share, vertical in places:
        value = scale.high + (scale.low - scale.high) * share
        sheet.write(x + width + 0.05, y + share * height, f"{value:.3g}", SMALL, vertical=vertical)
    sheet.write(x, y - 0.04, name, SMALL, vertical="bottom", colour=QUIET)


def _ideal_cell(longest: int) -> float:
    """Inches a side: room for a number up to 12 tokens, for a label up to 60; then a tile of 6 inches."""
    if longest <= VALUES_UP_TO:
        return min(max(2.4 / longest, 0.36), 0.9)
    return max(2.8 / longest, 0.1) if longest <= 60 else 6 / longest


def _choose_columns(n_tiles: int, width: float, height: float, most_width: float) -> int:
    """The number of columns that makes the page most like a slide, 3 : 2, with few empty places."""

    def distance(columns: int) -> float:
        rows = -(-n_tiles // columns)
        shape = abs(math.log(columns * width / (rows * height) / 1.5))
        too_wide = max(math.log(columns * width / most_width), 0)
        return shape + 0.3 * too_wide + 6 * (rows * columns - n_tiles) / n_tiles

    return min(range(1, n_tiles + 1), key=distance)


def _labels(tokens: Sequence[str], lettering: Lettering) -> tuple[str, ...]:
    suffixes = position_suffixes(tokens)
    return tuple(cut(lettering.shown(t), LABEL_CELLS - len(s)) + s for t, s in zip(tokens, suffixes, strict=True))


def _write_values(
    sheet: Sheet,
    layout: MosaicLayout,
    corners: Sequence[tuple[float, float]],
    panels: Sequence[Panel],
    size: float,
) -> None:
    texts: list[str] = []
    inks: list[str] = []
    for panel in panels:
        scale, values = panel.scale, panel.values.ravel()
        dark = needs_dark_text(colours(values, scale.colormap, scale.low, scale.high))
        texts += [scale.text(float(value)) for value in values]
        inks += ["black" if is_dark else "white" for is_dark in dark]
    rows, columns = np.indices(panels[0].values.shape)
    offsets = np.stack([columns + 0.5, rows + 0.5], axis=-1) * layout.cell  # q_length k_length 2
    places = np.array(corners)[:, None, None] + offsets  # n_tiles q_length k_length 2
    sheet.numbers(texts, places.reshape(-1, 2), inks, size)


def _write_labels(sheet: Sheet, layout: MosaicLayout, corners: Sequence[tuple[float, float]]) -> None:
    """Queries left of the first column of tiles, keys under the lowest tile of each column."""
    size = layout.label_size
    lowest = {number % layout.columns: corner for number, corner in enumerate(corners)}
    for left, top in corners[:: layout.columns]:
        for place, label in _thinned(layout.query_labels, layout.query_every, layout.q_cells):
            sheet.write(left - 0.05, top + place * layout.cell, label, size, align="right", colour=INK)
    for left, top in lowest.values():
        under = top + layout.tile_height + 0.05
        for place, label in _thinned(layout.key_labels, layout.key_every, layout.k_cells):
            at = left + place * layout.cell
            if layout.turned:
                sheet.write(at, under, label, size, align="right", rotation=90)
            else:
                sheet.write(at, under, label, size, align="center", vertical="top")


def _thinned(labels: Sequence[str], step: int, cells: int) -> list[tuple[float, str]]:
    """(the middle of its cell, counted in cells; the label) of every ``step``-th token."""
    edges = cell_edges(len(labels), cells)
    cell_of = np.searchsorted(edges, np.arange(0, len(labels), step), side="right") - 1
    return [(float(cell) + 0.5, labels[i]) for cell, i in zip(cell_of, range(0, len(labels), step), strict=True)]
