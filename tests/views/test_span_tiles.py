"""What is decided about the room of weights between spans, without a picture of them."""

import numpy as np
import pytest

from mhaviz.pages.blocks import SpanPanel
from mhaviz.pages.span_weights import span_grid
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.measures import DRAWN_WIDER, SMALL
from mhaviz.views.tiles.span_grid import NUMBER, lay_out_spans

ROWS = ("system (27)", "document 1 (205)", "answer (42)", "(rest)", "<s>")
RULER = Fonts()


def of_heads(n_layers, n_heads, largest=1.0):
    shares = np.full((len(ROWS), n_heads), largest)
    panels = [SpanPanel(f"layer {i}", shares, shares * 2) for i in range(n_layers)]
    return span_grid(panels, ROWS, tuple(map(str, range(n_heads))), (2, 0))


@pytest.mark.parametrize("room", [2.9, 4.6, 6.6, 12.9])
@pytest.mark.parametrize("n_heads", [12, 32, 64])
@pytest.mark.parametrize("n_layers", [4, 12, 32])
def test_panels_of_heads(n_layers, n_heads, room):
    layout = lay_out_spans(of_heads(n_layers, n_heads), room, RULER)
    assert layout.width <= room + 1e-9
    assert 1 <= layout.across <= n_layers
    assert layout.left <= 0.42 * room
    needed = RULER.width("100", NUMBER)
    are_many = n_layers * n_heads * len(ROWS) > 1500  # as numbers they would be read by nobody
    assert layout.cell > needed if layout.has_numbers else layout.cell < needed + 0.05
    assert not (are_many and layout.has_numbers)
    name = RULER.width(str(n_heads - 1), SMALL) * DRAWN_WIDER
    _, step = layout.steps
    assert step == 1 or step * layout.cell > name
    assert layout.cell >= name or step > 1
    lines = -(-n_layers // layout.across)
    assert lines == 1 or (lines - 1) * layout.across < n_layers, "no line is empty"
    assert layout.has_numbers or layout.across == 1 or layout.cell >= 0.045, "a colour can be seen"


def test_numbers_of_two_digits_need_less_room():
    few, many = (lay_out_spans(of_heads(1, 32, largest), 6.3, RULER) for largest in (0.5, 1.0))
    assert (few.has_numbers, many.has_numbers) == (True, False)
    nothing = lay_out_spans(of_heads(1, 32, np.nan), 6.3, RULER)
    assert nothing.cell == few.cell


@pytest.mark.parametrize(("n", "is_turned"), [(2, False), (4, False), (12, True), (60, True)])
def test_names_of_columns_are_turned_where_they_have_no_room(n, is_turned):
    names = tuple(f"document {i}" for i in range(n))
    shares = np.full((n, n + 1), 1 / n)
    grid = span_grid([SpanPanel("mean", shares, shares)], names, (*names, "<s>"), (0, 1))
    layout = lay_out_spans(grid, 6.6, RULER)
    assert layout.is_turned == is_turned
    assert layout.width <= 6.6 + 1e-9
    widths = [RULER.width(name, SMALL) * DRAWN_WIDER for name in names]
    assert layout.below >= max(widths) if is_turned else layout.cell >= max(widths)
    assert layout.x(n) - layout.x(n - 1) > layout.cell, "sinks stand apart"
    if is_turned:
        assert min(layout.steps[0] * layout.row, layout.steps[1] * layout.cell) * 72 >= SMALL
