"""The outline of what a query may see, beside a count of every cell's four sides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mhaviz.views.figure.outline import outline

masks = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.booleans())


LINE = 1 / 8


@given(masks)
def test_it_is_around_what_is_visible_and_covers_none_of_it(visible):
    """Painted at eight pixels a cell."""
    inside = np.kron(np.pad(visible, 1), np.ones((8, 8), bool))
    painted = np.zeros(inside.shape, bool)
    for x, y, width, height in outline(visible, (1, 1), LINE):
        assert min(width, height) == LINE
        x0, y0, x1, y1 = (round(8 * (1 + end)) for end in (x, y, x + width, y + height))
        painted[y0:y1, x0:x1] = True
    beside = np.zeros(inside.shape, bool)  # pixels that have a visible one above, below, left or right
    beside[1:] |= inside[:-1]
    beside[:-1] |= inside[1:]
    beside[:, 1:] |= inside[:, :-1]
    beside[:, :-1] |= inside[:, 1:]
    np.testing.assert_array_equal(painted, beside & ~inside)


def test_a_line_is_as_long_as_it_goes_straight_on():
    bars = outline(np.array([[True, False], [True, True]]), (2, 3), 0.5)
    assert sorted(bars) == [
        (-0.5, 0, 0.5, 6),
        (0, -0.5, 2, 0.5),
        (0, 6, 4, 0.5),
        (2, 0, 0.5, 3),
        (2, 2.5, 2, 0.5),
        (4, 3, 0.5, 3),
    ]
