"""Patches of an image on a page: drawn over it and, where there is room, without it."""

from collections.abc import Iterator
from dataclasses import replace

from mhaviz.pages.blocks import Block, Grid, Matrices, Page

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
