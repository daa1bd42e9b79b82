"""Heads of attention maps as tiles: as many side by side as give the page its shape, or spare the most labels."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import Matrices
from mhaviz.results.attention import AttentionMap
from mhaviz.views.measures import MARGIN, PAGE_WIDTH
from mhaviz.views.scales import columns_apart
from mhaviz.views.style import ROOMS
from mhaviz.views.tiles.fit import MOST_HEIGHT, MOST_WIDTH, PAGE_SHAPE, THUMB, Space, balanced, lay_out
from mhaviz.views.tiles.labels import LABELS_UP_TO, LEAST_LABEL, MOST_LABEL, lacks_labels
from mhaviz.views.tiles.layout import GAP, Layout
from mhaviz.views.tiles.room import Room

HIGH = 14.0  # inches of a page from which on nobody sees it at once
_PAGE = 11.6, 7.5  # inches for the tiles of a page: width and height
_LEAST_CELL = 0.12  # least inches of a cell with a label
_MOST_LARGER = 2.0  # most that cells are enlarged to fill a width
_TITLED = 0.9  # inches of a block's title, labels and the gap below
_LEAST_NUMBER = 0.05  # largest weight of a part of a map from which on its cells have numbers


def heads_layout(block: Matrices, room: Room) -> Layout:
    """Lay out heads, on a page of a given width or as large as their labels need."""
    m, style, n_heads = block.maps[0], room.style, len(block.panels)
    numbers = m.is_whole or m.quantity.is_signed or any(one.weights.max() >= _LEAST_NUMBER for one in block.maps)
    columns, longest = style.columns or block.across, max(len(m.rows), len(m.columns))
    space = Space(
        room.ruler,
        style.pixels,
        columns,
        MOST_WIDTH - 2 * MARGIN - room.taken,
        MOST_HEIGHT / room.stacked,
        PAGE_SHAPE * room.stacked,
        least_label=LEAST_LABEL if style.font_size is None else MOST_LABEL,
        names=block.names,
        text_length=room.text_length if numbers else 0,
        strengths=_strengths(block.maps) if longest <= LABELS_UP_TO else None,
        apart=columns_apart(block, style),
    )
    if style.width is not None:  # a narrow page grows in height, as tiles would be tiny
        column = ROOMS["column"][1] / room.stacked - _TITLED if style.is_narrow else 0.0
        space = replace(space, width=max(room.style.across - room.taken, THUMB), larger=_MOST_LARGER, column=column)
        if style.heads_height is not None:
            height = style.heads_height / room.stacked
            space = replace(space, height=height, fills=True, larger=math.inf if style.room else _MOST_LARGER)
        elif style.is_least and n_heads == 1:  # the page is as wide as it is for the words beside the map
            space = replace(space, height=_PAGE[1] / room.stacked)
    elif m.is_whole and longest <= LABELS_UP_TO:  # on one page, as far as labels stay legible
        least = min(_LEAST_CELL * longest, MOST_WIDTH / (columns or math.sqrt(PAGE_SHAPE * n_heads)))
        space = replace(space, width=_PAGE[0], height=_PAGE[1] / room.stacked, least_tile=least)
    if room.like:
        space = _aligned(space, room)

    def lacks(layout: Layout) -> bool:
        return lacks_labels(m.rows, layout.queries) or lacks_labels(m.columns, layout.keys)

    layout = lay_out(n_heads, m.rows, m.columns, space)
    if space.fills and space.column:  # with whole rows, as in a narrow picture of any height, where that has room
        narrow = lay_out(n_heads, m.rows, m.columns, replace(space, fills=False))
        layout = narrow if narrow.height <= space.height else layout
    if (style.is_least or style.room) and not space.columns and lacks(layout):
        # Fewer side by side where that spares all labels; else as many as make heads largest on a page as high as wide.
        across = dict.fromkeys(balanced(n, n_heads) for n in range(layout.columns - 1, 0, -1))
        fewer = (lay_out(n_heads, m.rows, m.columns, replace(space, columns=n)) for n in across)
        high = HIGH / room.stacked if style.heads_height is None else space.height
        whole = next((one for one in fewer if one.height <= high and not lacks(one)), None)
        if whole is None and style.heads_height is None:
            page = replace(space, height=PAGE_WIDTH / room.stacked, fills=True)
            whole = lay_out(n_heads, m.rows, m.columns, page)
        layout = whole or layout
    if room.like:  # heads with the same number stand above each other
        widest = max(replace(one.keys, cell=layout.keys.cell).length for one in room.like)
        layout = layout.spread(widest + layout.gap)
    return layout


def _strengths(maps: Sequence[AttentionMap]) -> NDArray[np.float32]:
    """Return the largest weight of each key, (keys,), or the largest change."""
    of_maps = [np.abs(m.weights).reshape(-1, len(m.columns)).max(axis=0) for m in maps]
    return np.asarray(np.max(of_maps, axis=0), np.float32)


def _aligned(space: Space, room: Room) -> Space:
    """Return the space of heads that are aligned with others."""
    cells = [min(layout.queries.cell, layout.keys.cell) for layout in room.like]
    left = max(layout.queries.room for layout in room.like)
    columns = max(layout.columns for layout in room.like)
    if room.style.width is not None:  # the longest map fits beside the widest labels
        across = (space.width - left + GAP) / columns - GAP
        cells.append(min((across - one.keys.begin) / (one.keys.cells - len(one.keys.apart)) for one in room.like))
    return replace(space, cell=min(cells), left=left, columns=columns)
