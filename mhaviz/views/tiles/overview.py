"""Layers × heads as tiles: a small map of each head, and one enlarged, which has the labels."""

import math
from dataclasses import replace

from mhaviz.pages.blocks import Matrices
from mhaviz.pages.peaks import most_peaked
from mhaviz.views.measures import SMALL, snap
from mhaviz.views.scales import columns_apart
from mhaviz.views.style import Style
from mhaviz.views.tiles.fit import Space, lay_out
from mhaviz.views.tiles.labels import BESIDE_LABEL
from mhaviz.views.tiles.layout import NAME, Enlarged, Layout
from mhaviz.views.tiles.room import Room

BETWEEN = 0.25  # inches before the enlarged map
_FEW = 12  # most heads that each have labels
_MANY = 16  # heads from which on the enlarged map stands below
_TOKEN, _LEAST, _MORE, _MOST = 0.1, 1.8, 2.3, 3.4  # inches of a token of the enlarged map, and limits of its side
_SMALL_SIDE, _SMALL_BESIDE = 0.7, 0.35  # most inches of a small map, and least beside the enlarged one
_GAP, _WIDE_GAP = 0.027, 0.07  # inches between two heads, and between two with columns that stand apart in each
_LABELS = 1.5  # inches for labels of the enlarged map


def is_overview(block: Matrices, style: Style) -> bool:
    """Return whether a block of layers × heads, or heads × passes, has too many for legible labels beside each."""
    are_rows = len(block.by_layer) > 1 or is_film(block)
    return are_rows and block.across is not None and len(block.panels) > _FEW and style.columns is None


def is_film(block: Matrices) -> bool:
    """Return whether a row of the block is a head in several passes, not the heads of a layer."""
    return len({m.pass_number for m in block.maps}) > 1


def overview_layout(block: Matrices, room: Room) -> Layout:
    """Lay out the small maps, and the enlarged map in the width that they leave, or below them."""
    m, dpi, n_columns = block.maps[0], room.style.pixels, block.most_across
    longest, apart = max(len(m.rows), len(m.columns)), columns_apart(block, room.style)

    def enlarged(side: float) -> Layout:
        space = Space(room.ruler, dpi, 1, side + _LABELS, side + _LABELS, least_tile=side, apart=apart)
        return lay_out(1, m.rows, m.columns, replace(space, cell=(side - space.keys(longest, 0.0).begin) / longest))

    least = min(max(longest * _TOKEN, _LEAST), _MORE)
    large = enlarged(least)
    beside = large.width - large.tile_width + room.taken  # labels and colour bar of the enlarged map
    free = (room.style.across - beside - least - BETWEEN) / n_columns  # beside the enlarged map
    is_beside = not room.style.is_narrow and n_columns <= _MANY and free >= _SMALL_BESIDE
    left = max(room.ruler.width("head", SMALL), NAME + room.ruler.width("99", SMALL)) + BESIDE_LABEL
    gap = snap(_WIDE_GAP if apart else _GAP, dpi)
    space = Space(
        room.ruler,
        dpi,
        n_columns,
        room.style.across - (beside + least + BETWEEN if is_beside else 0.0),
        larger=math.inf,
        least_tile=0.0,
        tile=_SMALL_SIDE,
        are_square=True,
        left=snap(left, dpi),
        gap=gap,
        title=0.0,
        below=gap,
        has_labels=False,
        names=("", ""),
        apart=apart,
    )
    small = lay_out(len(block.panels), m.rows, m.columns, space)
    free = room.style.across - (small.width + BETWEEN if is_beside else 0.0)
    large = enlarged(min(free - beside, _MOST))
    if (beyond := large.width + room.taken - free) > 0:  # labels grow with their cells
        large = enlarged(large.tile_width - beyond)
    return replace(small, enlarged=Enlarged(most_peaked(block.maps), large, is_beside))
