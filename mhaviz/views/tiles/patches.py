"""Patches of an image as tiles: squares without labels, as large as a slide or a column allows."""

import math
from dataclasses import replace

from mhaviz.pages.blocks import Matrices
from mhaviz.views.measures import DRAWN_WIDER, PAGE_WIDTH, SMALL, snap
from mhaviz.views.tiles.fit import Space, lay_out
from mhaviz.views.tiles.labels import BESIDE_LABEL
from mhaviz.views.tiles.layout import BESIDE, GAP, Layout
from mhaviz.views.tiles.room import Room

_HIGH, _COLUMN = 4.8, 1.6  # most inches of all tiles, down; on a narrow page, most height / width of the page
_OF_PLAIN = 1 / 3  # share of the height for tiles without an image below others
_LEAST, _MOST = 0.55, 4.2  # inches of the longer side of a tile
_BETWEEN = 0.05  # inches between two tiles where they are in lines


def patches_layout(block: Matrices, room: Room) -> Layout:
    """Lay out tiles with the number of columns that makes them largest.

    A block whose tiles belong in lines keeps them: the name of each line and column is written once beside them.
    """
    n, style, ruler, abreast = len(block.panels), room.style, room.ruler, max(room.in_line, 1)
    titles = [panel.title for panel in block.panels]
    width = (style.across - room.taken - BESIDE * (abreast - 1)) / abreast
    is_plain = room.of_patches > 1 and block.panels[0].image is None
    high = 2 * (_OF_PLAIN if is_plain else 1 - _OF_PLAIN) / room.of_patches if room.of_patches > 1 else 1.0
    high *= _COLUMN * (style.width or PAGE_WIDTH) if style.is_narrow else _HIGH
    space = Space(
        ruler,
        style.pixels,
        style.columns,
        width,
        high,
        fills=True,
        larger=math.inf,
        tile=_MOST,
        are_square=True,
        has_labels=False,
        names=("", ""),
    )
    if block.most_across < n and not style.columns:
        names = (title.rpartition(" ")[0] for title in titles[:: block.most_across])
        left = max(ruler.width(name, SMALL) for name in names) * DRAWN_WIDER + BESIDE_LABEL
        gap = snap(_BETWEEN, style.pixels)
        space = replace(
            space,
            columns=block.most_across,
            height=max(high, _LEAST * -(-n // block.most_across)),
            least_tile=0.0,
            left=snap(left, style.pixels),
            gap=gap,
            title=0.0,
            below=gap,
        )
    else:
        longest = max(ruler.width(title, SMALL, bold=True) for title in titles) * DRAWN_WIDER
        space = replace(space, least_tile=max(_LEAST, longest - GAP))
    return lay_out(n, block.rows, block.columns, space)
