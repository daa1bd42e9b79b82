"""Patches of an image on a sheet: squares without labels, in tiles as large as a slide or a column allows."""

import math
from collections.abc import Iterator
from dataclasses import replace

from mhaviz.pages.blocks import Block, Grid, Matrices, Page
from mhaviz.views.figure.measuring import text_width
from mhaviz.views.figure.mosaic import BESIDE, BESIDE_LABEL, GAP, TILE_TITLE, MosaicLayout, Side
from mhaviz.views.measures import DRAWN_WIDER, MARGIN, PAGE_WIDTH, SMALL, snap
from mhaviz.views.style import Style

_HIGH, _COLUMN = 4.8, 1.6  # most inches of all tiles, down; on a narrow page, most height / width of the page
_OF_PLAIN = 1 / 3  # share of the height for tiles without an image below others
_LEAST, _MOST = 0.55, 4.2  # inches of the longer side of a tile
_BETWEEN = 0.05  # inches between two tiles where they are in lines
_BAR = 0.85  # inches of the colour bar with its numbers
_MOST_PLAIN, _MOST_ABREAST = 24, 6  # most tiles that are drawn without the image, too, and most of a line


def with_plain(page: Page, is_narrow: bool) -> Page:
    """Return the page with tiles over an image drawn twice: over it, and without it. The others stand below; beside a
    single tile, and beside lines of tiles. Where there are too many tiles, there are no others."""

    def blocks() -> Iterator[Block]:
        for block in page.blocks:
            if not isinstance(block, Matrices) or block.panels[0].image is None:
                yield block
                continue
            plain = replace(block, panels=tuple(replace(panel, image=None) for panel in block.panels))
            in_lines = block.most_across < len(block.panels)
            if len(block.panels) > _MOST_PLAIN or (in_lines and (is_narrow or block.most_across > _MOST_ABREAST)):
                yield block
            elif in_lines or len(page.blocks) == len(block.panels) == 1:
                yield Grid(((block, plain),))
            else:
                yield from (block, plain)

    return replace(page, blocks=tuple(blocks()))


def patch_layout(block: Matrices, beside: int, below: int, style: Style) -> MosaicLayout:
    """Lay out tiles with the number of columns that makes them largest, or, without an image, the most that fit.

    A block whose tiles belong in lines keeps them: the name of each line and column is written once beside them.

    Args:
        block: the tiles.
        beside, below: numbers of blocks that share the width and the height of the page.
        style: style of the figure.
    """
    n, grid = len(block.panels), (len(block.rows), len(block.columns))
    down, across = (length / max(grid) for length in grid)
    titles = [panel.title for panel in block.panels]
    width = style.width or PAGE_WIDTH
    room = (width - 2 * MARGIN - (0.0 if style.is_narrow else BESIDE + _BAR) - BESIDE * (beside - 1)) / beside
    is_plain = below > 1 and block.panels[0].image is None
    high = 2 * (_OF_PLAIN if is_plain else 1 - _OF_PLAIN) / below if below > 1 else 1.0
    high *= _COLUMN * width if style.is_narrow else _HIGH
    if block.most_across < n and not style.columns:
        return _lines(block, room, high, style.dpi)
    longest = max(text_width(text, SMALL, bold=True) for text in titles) * DRAWN_WIDER
    least = max(_LEAST, max(grid) / style.dpi, (longest - GAP) / across)

    def by_width(columns: int) -> float:
        return ((room + GAP) / columns - GAP) / across

    def side(columns: int) -> float:
        return min(by_width(columns), (high / -(-n // columns) - TILE_TITLE - GAP) / down, _MOST)

    choices = [style.columns] if style.columns else range(1, n + 1)
    if fitting := [k for k in choices if side(k) >= least]:
        columns = max(fitting) if is_plain else max(fitting, key=side)
        inches = side(columns)
    else:
        columns = max((k for k in choices if by_width(k) >= least), default=choices[0])
        inches = min(by_width(columns), _MOST)
    cell = max(math.floor(inches * style.dpi / max(grid)), 1) / style.dpi
    rows, keys = (Side(length, cell, 0.0) for length in grid)
    return MosaicLayout(min(columns, n), -(-n // columns), rows, keys, label_size=SMALL, turned=False)


def _lines(block: Matrices, room: float, high: float, dpi: float) -> MosaicLayout:
    """Lay out lines of ``block.most_across`` tiles without titles."""
    n_lines, longest = -(-len(block.panels) // block.most_across), max(len(block.rows), len(block.columns))
    names = (panel.title.rpartition(" ")[0] for panel in block.panels[:: block.most_across])
    left = max(text_width(name, SMALL) for name in names) * DRAWN_WIDER + BESIDE_LABEL
    pitch = min((room - left) * longest / len(block.columns) / block.most_across, max(high / n_lines, _LEAST))
    cell = max(math.floor((pitch - _BETWEEN) * dpi / longest), 1) / dpi
    rows, columns = Side(len(block.rows), cell, snap(left, dpi)), Side(len(block.columns), cell, 0.0)
    gap = snap(_BETWEEN, dpi)
    return MosaicLayout(block.most_across, n_lines, rows, columns, SMALL, turned=False, gap=gap, title=0.0, below=gap)
