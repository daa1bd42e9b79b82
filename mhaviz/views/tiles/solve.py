"""The layout of a block of matrices in its room. What each kind of matrices asks for is in a file of its name."""

from mhaviz.pages.blocks import Matrices
from mhaviz.views.tiles.heads import heads_layout
from mhaviz.views.tiles.layout import Layout
from mhaviz.views.tiles.numbers import numbers_layout
from mhaviz.views.tiles.overview import is_overview, overview_layout
from mhaviz.views.tiles.panels import panels_layout
from mhaviz.views.tiles.room import Room


def solve(block: Matrices, room: Room) -> Layout:
    """Lay out matrices side by side, with cells of whole pixels.

    Args:
        block: the matrices, on the scales that they are drawn on.
        room: their room on the page.
    """
    if block.maps:
        return (overview_layout if is_overview(block, room.style) else heads_layout)(block, room)
    if block.are_numbers:
        return numbers_layout(block, room)
    return panels_layout(block, room)
