"""Layout of weights between spans: how wide a cell is, how many panels stand side by side, and which labels are turned.

Lengths are in inches.
"""

import math
from dataclasses import dataclass

from mhaviz.pages.blocks import SpanGrid
from mhaviz.pages.labels import every
from mhaviz.views.measures import DRAWN_WIDER, POINTS, SMALL
from mhaviz.views.tiles.labels import Ruler

ROW, _LEAST_ROW = 0.165, 0.05  # height of a row with numbers, and least of one with colours
GAP, APART = 0.12, 0.035  # between panels; between the other rows or columns and those that are apart
BESIDE = 0.06  # between a label and its cell
TITLE = 0.19  # above the cells of a panel
NUMBER = 6.5  # points
_AROUND, _OF_COLOURS = 0.03, 0.045  # blank around a number in its cell; least width of a cell with a colour alone
_OF_HEADS, _OF_NAMES = 0.21, 0.75  # most width of a cell under a number, and under a name
_OF_MANY, _MOST_NUMBERS = 0.1, 1500  # most width of a cell among many, and most cells with numbers
_MOST_LABELLED = 12  # rows with a label each, also where their cells have no numbers
_LABELS = 0.42  # most of the room that labels of rows may take
_LONGEST, _LONGEST_TITLE = 1.1, 1.6  # most height of turned labels, and width of a title that is not cut
_BELOW = 0.14  # height of labels that are not turned


@dataclass(frozen=True)
class SpanLayout:
    """Layout of panels of weights between spans.

    Attributes:
        left: width of the labels of rows, with the gap beside them.
        title: width for the title of a panel, of which its cells may take less.
        cell: width of a cell.
        across: number of panels side by side.
        has_numbers: whether cells have room for their numbers.
        is_turned: whether labels of columns read from bottom to top.
        below: height of the labels of columns.
        row: height of a row.
        steps: from one row, and from one column, with a label to the next.
        size: rows and columns of a panel, and how many of each are apart.
    """

    left: float
    title: float
    cell: float
    across: int
    has_numbers: bool
    is_turned: bool
    below: float
    row: float
    steps: tuple[int, int]
    size: tuple[int, int, int, int]

    @property
    def width(self) -> float:
        """Width of all panels with the labels of rows."""
        return self.left + self.across * self.panel_width + (self.across - 1) * GAP

    @property
    def panel_width(self) -> float:
        """Width of the cells of a panel, or of its title."""
        _, columns, _, apart = self.size
        return max(columns * self.cell + APART * bool(apart), self.title)

    @property
    def cells_height(self) -> float:
        """Height of the cells of a panel."""
        rows, _, apart, _ = self.size
        return rows * self.row + APART * bool(apart)

    def line_height(self, has_titles: bool) -> float:
        """Return the height of a line of panels with their labels."""
        return TITLE * has_titles + self.cells_height + self.below + GAP

    def x(self, column: int) -> float:
        """Return the left side of a column in its panel."""
        _, columns, _, apart = self.size
        return column * self.cell + APART * (bool(apart) and column >= columns - apart)

    def y(self, row: int) -> float:
        """Return the top of a row in its panel."""
        rows, _, apart, _ = self.size
        return row * self.row + APART * (bool(apart) and row >= rows - apart)


def lay_out_spans(block: SpanGrid, room: float, ruler: Ruler) -> SpanLayout:
    """Lay out panels in a width of ``room``: as many side by side as have room for numbers, else for colours."""
    labels = max(ruler.width(name, SMALL) for name in block.rows) * DRAWN_WIDER + BESIDE
    left = min(labels, _LABELS * room)
    size = len(block.rows), len(block.columns), *block.apart
    names = max(ruler.width(name, SMALL) for name in block.columns) * DRAWN_WIDER
    are_heads = all(name.isdecimal() for name in block.columns)
    n_panels, n_columns = len(block.panels), len(block.columns)

    def cell(across: int) -> float:
        return (room - left - (across - 1) * GAP - across * APART * bool(block.apart[1])) / (across * n_columns)

    title = max(ruler.width(panel.title, SMALL, bold=True) for panel in block.panels) * DRAWN_WIDER
    title = min(title, room - left if n_panels == 1 else _LONGEST_TITLE, room - left)
    most_across = min(n_panels, int((room - left + GAP) / (title + GAP)))
    least = ruler.width(block.longest_text, NUMBER) + _AROUND
    most = max(_OF_HEADS, least) if are_heads else _OF_NAMES
    are_many = len(block.rows) * n_columns * n_panels > _MOST_NUMBERS
    fitting = [n for n in range(1, most_across + 1) if cell(n) >= least and not are_many]
    has_numbers = bool(fitting)
    fitting = fitting or [n for n in range(1, most_across + 1) if cell(n) >= _OF_COLOURS] or [1]
    if are_many:
        most = _OF_MANY
    lines = math.ceil(n_panels / fitting[-1])
    across = math.ceil(n_panels / lines)
    width = min(cell(across), most)
    is_turned = not are_heads and names + BESIDE > width
    below = (min(names, _LONGEST) if is_turned else _BELOW) + BESIDE
    step = every(n_columns, int(n_columns * width / (names + BESIDE / 2))) if are_heads else 1
    if is_turned and width < SMALL / POINTS:
        step = every(n_columns, int(n_columns * width * POINTS / SMALL))
    are_few = len(block.rows) <= _MOST_LABELLED and not are_many
    row = ROW if has_numbers or are_few else min(max(width, _LEAST_ROW), ROW)
    row_step = every(len(block.rows), int(len(block.rows) * row * POINTS / SMALL))
    return SpanLayout(left, title, width, across, has_numbers, is_turned, below, row, (row_step, step), size)
