"""The mosaic of a long map: cells instead of tokens, large where heads are few, positions along its axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhaviz.records import AttentionMap
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
from mhaviz.views.figure.sheet import POINTS, snap
from mhaviz.views.labels import title_places
from mhaviz.views.pooling import pooled_cells

LABELS_UP_TO = 60  # tokens of an axis; more have no room for their labels
_LARGE, _SMALL, _TINY = 1024 / 150, 512 / 150, 256 / 150  # inches of a tile: whole pixels for sizes often asked for
_LARGE_UP_TO, _SMALL_UP_TO = 2, 16  # tiles on a sheet
_EMPTY = 2.0  # large tiles in few columns make towers; rather leave a place empty
_LEAST_TILE = 1.2  # inches, unless its cells would be larger than
_LARGEST_CELL = 0.5
_LEAST_PITCH = 0.1  # inches between two labels
_MOST_HEIGHT = 48.0  # inches of a sheet, before cells share pixels


@dataclass(frozen=True)
class _Side:
    """One axis of a tile: its cells, and its pixels a cell."""

    tokens: Sequence[str]
    edges: NDArray[np.int64]

    @property
    def is_labelled(self) -> bool:
        """Whether each cell is a token that has room for a label."""
        return len(self.tokens) == len(self.edges) - 1 <= LABELS_UP_TO

    def cells(self, factor: int, dpi: float) -> int:
        """How many are drawn if so many may share one; where a small tile has room for all they need not."""
        n = len(self.edges) - 1
        return n if n <= _SMALL * dpi else -(-n // factor)

    def pixels(self, cells: int, common: int, dpi: float) -> int:
        """Of a cell: as many as on the other side, unless this one would be too short to be seen."""
        least = _LEAST_PITCH * cells if self.is_labelled else min(_LEAST_TILE, _LARGEST_CELL * cells)
        return max(common, math.ceil(least * dpi / cells))


def written_tokens(m: AttentionMap) -> set[str]:
    """The tokens that may stand in a picture of the map: of a long one it is not all of them."""
    return {
        side[i]
        for side in (m.queries, m.keys)
        for i in (range(len(side)) if m.cells is None else title_places(len(side)))
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
) -> MosaicLayout:
    """Lay out the heads of a map that has ``cells``, a whole number of pixels for each of them.

    Cells of the map share one of the picture where a pixel for each would make a page that is too wide or too high:
    always equally many, as unequal cells of mass would be stripes. ``stacked``, ``numbers``, ``text_length``: as in
    ``decide_mosaic``.
    """
    m, n_tiles = attention_map, len(attention_map.heads)
    q, k = _Side(m.queries, m.edges.query_edges), _Side(m.keys, m.edges.key_edges)
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
            special=(m.special_queries, m.special_keys),
        )
    ideal = _ideal_side(n_tiles * stacked)
    factor = 0
    while True:
        factor += 1
        q_cells, k_cells = q.cells(factor, dpi), k.cells(factor, dpi)
        common = max(round(ideal * dpi / max(q_cells, k_cells)), 1)
        height, width = q.pixels(q_cells, common, dpi) / dpi, k.pixels(k_cells, common, dpi) / dpi
        layout = _lay_out(m, (q, k), (q_cells, k_cells), (height, width), lettering, dpi, columns, most_width, stacked)
        smallest = max(q_cells, k_cells) <= _SMALL * dpi
        if smallest or (layout.width <= most_width and stacked * layout.height <= _MOST_HEIGHT):
            return layout


def _ideal_side(n_tiles: int) -> float:
    if n_tiles <= _LARGE_UP_TO:
        return _LARGE
    return _SMALL if n_tiles <= _SMALL_UP_TO else _TINY


def _lay_out(
    m: AttentionMap,
    sides: tuple[_Side, _Side],
    cells: tuple[int, int],
    cell: tuple[float, float],
    lettering: Lettering,
    dpi: float,
    columns: int | None,
    most_width: float,
    stacked: int,
) -> MosaicLayout:
    (q, k), (q_cells, k_cells), (height, width) = sides, cells, cell
    drawn, n_tiles = pooled_cells(m, q_cells, k_cells), len(m.heads)
    query_labels = lettering.labels(m.queries, int(q.edges[0])) if q.is_labelled else ()
    key_labels = lettering.labels(m.keys, int(k.edges[0])) if k.is_labelled else ()
    size = label_size(min(height if q.is_labelled else math.inf, width if k.is_labelled else math.inf))
    query_ruler = key_ruler = None
    if not q.is_labelled:
        query_ruler = decide_ruler(drawn.query_edges, height, m.queries, lettering, m.special_queries, upright=True)
    if not k.is_labelled:
        key_ruler = decide_ruler(drawn.key_edges, width, m.keys, lettering, m.special_keys, upright=False)
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
        special_queries=frozenset(m.special_queries),
        special_keys=frozenset(m.special_keys),
    )
