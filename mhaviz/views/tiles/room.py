"""Room of a block of matrices on its page, as far as the page has decided it."""

from collections.abc import Sequence
from dataclasses import dataclass

from mhaviz.views.style import LayoutStyle
from mhaviz.views.tiles.labels import Ruler
from mhaviz.views.tiles.layout import Layout


@dataclass(frozen=True)
class Room:
    """Room of a block of matrices.

    Attributes:
        ruler: measures texts.
        style: style of the page, with its width.
        taken: inches beside the matrices for colour bars, tables and bars along the sides.
        stacked: number of blocks of heads that share the height of the page.
        text_length: characters of the longest number in a cell of heads.
        like: layouts of other heads to align with: with the same size of cells, columns and room for labels.
        in_line: number of matrices side by side in a grid, whose axes are drawn to one measure; 0: not in a grid.
        of_numbers: numbers of panels of all blocks of numbers, which have the same number of columns.
    """

    ruler: Ruler
    style: LayoutStyle
    taken: float = 0.0
    stacked: int = 1
    text_length: int = 4
    like: Sequence[Layout] = ()
    in_line: int = 0
    of_numbers: Sequence[int] = ()
