"""The mosaic of a long map: cells instead of tokens, large where heads are few, positions along its axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mhaviz.limits import MOST_CELLS
from mhaviz.records import AttentionMap, Axis
from mhaviz.records.axis import cell_edges, even_cells
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import (
    GAP,
    MOST_WIDTH,
    TILE_TITLE,
    MosaicLayout,
    choose_columns,
    decide_mosaic,
    label_size,
    widest_label,
)
from mhaviz.views.figure.rulers import decide_ruler
from mhaviz.views.figure.sheet import MOST_PIXELS, POINTS, most_dpi, snap
from mhaviz.views.labels import title_places

LABELS_UP_TO = 60  # tokens of an axis; more have no room for their labels
_LARGE, _SMALL, _TINY = 1024 / 150, 512 / 150, 256 / 150  # inches of a tile: whole pixels for sizes often asked for
_LARGE_UP_TO, _SMALL_UP_TO = 2, 16  # tiles on a sheet
_EMPTY = 2.0  # large tiles in few columns make towers; rather leave a place empty
_LEAST_TILE = 1.2  # inches, unless its cells would be larger than
_LARGEST_CELL = 0.5
_LEAST_PITCH = 0.1  # inches between two labels
_MOST_HEIGHT = 48.0  # inches of a sheet, before cells share pixels
_LEAST_SHARED = 0.3  # inches of a tile whose cells share pixels
_AROUND = 1.5  # inches around mosaics, for titles, margins, the scale


@dataclass(frozen=True)
class _Side:
    """One axis of a tile."""

    tokens: Sequence[str]
    edges: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Cells of the map."""
        return len(self.edges) - 1

    @property
    def is_labelled(self) -> bool:
        """Whether each cell is a token that has room for a label."""
        return len(self.tokens) == self.length <= LABELS_UP_TO

    def cells(self, most: int) -> int:
        """How many are drawn where there is room for so many: each of equally many of the map's."""
        return -(-self.length // -(-self.length // most))

    def pixels(self, cells: int, common: int, longest: int, dpi: float) -> int:
        """Of a cell: as many as on the other side, unless this one would be too short to be seen.

        ``longest``: pixels of the longer side.
        """
        if self.is_labelled:
            return max(common, math.ceil(_LEAST_PITCH * dpi))
        least = min(_LEAST_TILE, _LARGEST_CELL * cells) * dpi
        return max(common, min(math.ceil(least / cells), longest // cells))


def written_tokens(m: AttentionMap) -> set[str]:
    """The tokens that may stand in a picture of the map: of a long one it is not all of them."""
    return {
        side[i] for side in (m.queries, m.keys) for i in (range(len(side)) if m.is_whole else title_places(len(side)))
    }


def decide_long_mosaic(
    attention_map: AttentionMap,
    lettering: Lettering,
    dpi: float,
    columns: int | None = None,
    most_width: float = MOST_WIDTH,
    stacked: int = 1,
    numbers: bool = True,
    text_length: int = 4,
    n_tiles: int | None = None,
) -> MosaicLayout:
    """Lay out the heads of a map that has ``cells``, a whole number of pixels for each of them.

    Where the page would be too wide or too high, cells get fewer pixels, down to one. Where that is not enough, cells
    of the map share one of the picture: always equally many, as unequal cells of mass would be stripes. But where the
    columns are given, as those of layers are, small tiles may make a wider page of not too many pixels. No tile is
    larger than that of as many tokens in as many cells as there are if nobody asks for fewer.

    Args:
        attention_map: the map.
        lettering, dpi, columns, most_width, stacked, numbers, text_length: as in ``decide_mosaic``.
        n_tiles: of all layers, where the map is the first of several; None: of its heads.
    """
    m, n_tiles = attention_map, n_tiles or len(attention_map.heads)
    q, k = _Side(m.queries, m.rows.edges), _Side(m.keys, m.columns.edges)
    if q.is_labelled and k.is_labelled:
        starts = int(q.edges[0]), int(k.edges[0])
        return decide_mosaic(
            n_tiles,
            m.queries,
            m.keys,
            lettering,
            dpi,
            columns,
            most_width,
            text_length=text_length,
            stacked=stacked,
            numbers=numbers,
            starts=starts,
            special=(m.rows.tokens.special, m.columns.tokens.special),
        )
    ideal = _ideal_side(n_tiles * stacked) * dpi
    most_height, most_wide = _tile_by_default(m, n_tiles, lettering, dpi, columns, most_width, stacked)
    lay_out = partial(_lay_out, m, (q, k), lettering, dpi, columns, most_width, stacked, n_tiles)
    longest, share = max(q.length, k.length), 0
    while True:
        share += 1
        room = -(-longest // share)
        q_cells, k_cells = q.cells(room), k.cells(room)
        is_smallest = room <= _LEAST_SHARED * dpi
        if (q_cells > most_height or k_cells > most_wide) and not is_smallest:
            continue
        most = min(round(ideal / max(q_cells, k_cells)), most_height // q_cells, most_wide // k_cells)
        for common in range(max(most, 1), 0, -1):
            side = common * max(q_cells, k_cells)
            pixels = q.pixels(q_cells, common, side, dpi), k.pixels(k_cells, common, side, dpi)
            layout = lay_out((q_cells, k_cells), pixels)
            width, height = layout.width, stacked * layout.height
            if width <= most_width and height <= _MOST_HEIGHT:
                return layout
        is_small = room <= _SMALL * dpi and dpi <= most_dpi(width + _AROUND, height + _AROUND)
        if (is_small and columns) or is_smallest:
            return layout


def _tile_by_default(
    m: AttentionMap,
    n_tiles: int,
    lettering: Lettering,
    dpi: float,
    columns: int | None,
    most_width: float,
    stacked: int,
) -> tuple[int, int]:
    """Height and width, in pixels, of a tile of as many tokens if nobody asks for a number of cells."""
    lengths = len(m.queries), len(m.keys)
    by_default = [even_cells(length, MOST_CELLS) for length in lengths]
    if not any(cells < usual for cells, usual in zip(m.weights.shape[1:], by_default, strict=True)):
        return MOST_PIXELS, MOST_PIXELS
    if max(lengths) <= MOST_CELLS:
        layout = decide_mosaic(n_tiles, m.queries, m.keys, lettering, dpi, columns, most_width, stacked=stacked)
    else:
        rows, columns_ = (
            Axis(side.tokens, cell_edges(len(side.tokens), cells))
            for side, cells in zip((m.rows, m.columns), by_default, strict=True)
        )
        blank = np.broadcast_to(np.float32(0), (len(m.heads), *by_default))
        usual = replace(m, weights=blank, rows=rows, columns=columns_, summary=None)
        layout = decide_long_mosaic(usual, lettering, dpi, columns, most_width, stacked, n_tiles=n_tiles)
    return round(layout.tile_height * dpi), round(layout.tile_width * dpi)


def _ideal_side(n_tiles: int) -> float:
    if n_tiles <= _LARGE_UP_TO:
        return _LARGE
    return _SMALL if n_tiles <= _SMALL_UP_TO else _TINY


def _lay_out(
    m: AttentionMap,
    sides: tuple[_Side, _Side],
    lettering: Lettering,
    dpi: float,
    columns: int | None,
    most_width: float,
    stacked: int,
    n_tiles: int,
    cells: tuple[int, int],
    pixels: tuple[int, int],
) -> MosaicLayout:
    """The mosaic of tiles of so many cells, each so many pixels high and wide."""
    (q, k), (q_cells, k_cells) = sides, cells
    height, width = (n / dpi for n in pixels)
    drawn = m.cells.pooled(q_cells, k_cells)
    query_labels = lettering.labels(m.queries, int(q.edges[0])) if q.is_labelled else ()
    key_labels = lettering.labels(m.keys, int(k.edges[0])) if k.is_labelled else ()
    size = label_size(min(height if q.is_labelled else math.inf, width if k.is_labelled else math.inf))
    query_ruler = key_ruler = None
    if not q.is_labelled:
        query_ruler = decide_ruler(drawn.rows.edges, height, m.queries, lettering, m.rows.tokens.special, upright=True)
    if not k.is_labelled:
        key_ruler = decide_ruler(drawn.columns.edges, width, m.keys, lettering, m.columns.tokens.special, upright=False)
    left = query_ruler.depth if query_ruler else widest_label(lettering, query_labels, size)
    key_widest = widest_label(lettering, key_labels, size) if key_labels else 0.0
    turned = key_widest > width
    bottom = key_ruler.depth if key_ruler else (key_widest if turned else size * 1.2 / POINTS) + 0.06
    tile_width, tile_height = k_cells * width + GAP, q_cells * height + GAP + TILE_TITLE
    if columns is None:
        most = max(int((most_width - left) / tile_width), 1)
        columns = choose_columns(n_tiles, tile_width, stacked * tile_height, most_width, most, _EMPTY)
    columns = min(columns, n_tiles)
    return MosaicLayout(
        columns=columns,
        rows=-(-n_tiles // columns),
        q_cells=q_cells,
        k_cells=k_cells,
        cell_width=width,
        cell_height=height,
        label_size=size,
        value_size=None,
        query_every=1,
        key_every=1,
        left=snap(left, dpi),
        bottom=snap(bottom, dpi),
        turned=turned,
        query_labels=query_labels,
        key_labels=key_labels,
        query_ruler=query_ruler,
        key_ruler=key_ruler,
        special_queries=frozenset(m.rows.tokens.special),
        special_keys=frozenset(m.columns.tokens.special),
    )
