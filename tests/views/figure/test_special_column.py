"""The column beside a map, which is what goes to special tokens."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, texts
from made import made_map
from shown import heatmap_figure

from mhaviz.records import Attention, Source, SpecialKeys
from mhaviz.views.style import Style


def with_column(n_tokens, texts=("[CLS]", "[SEP]")):
    tokens = tuple(f"t{i}" for i in range(n_tokens))
    rest = np.linspace(0, 1, n_tokens, dtype=np.float32)
    weights = np.repeat(((1 - rest) / n_tokens)[:, None], n_tokens, axis=1)[None]
    m = replace(made_map(tokens, tokens, weights), special=SpecialKeys(rest[None], texts))
    return Attention(Source("s"), (m,))


@pytest.mark.parametrize("n_tokens", [1, 3, 12, 40, 200])
def test_it_stands_right_of_the_map_in_colours_of_its_own(n_tokens):
    attention = with_column(n_tokens)
    sheet = heatmap_figure(attention)
    inside(sheet)
    (cells,) = images(sheet, "head 0, [CLS] [SEP]")
    (whole, _) = images(sheet, "head 0")
    assert cells.get_extent()[0] > whole.get_extent()[1], "beside it"
    assert cells.get_extent()[2:] == whole.get_extent()[2:], "as high"
    np.testing.assert_array_equal(cells.get_array()[:, 0], attention.maps[0].special.weights[0])
    assert (cells.norm.vmin, cells.norm.vmax) == (0, 1)
    colours = cells.to_rgba(np.array([0.0, 0.5, 1.0]))[:, :3]
    assert (colours[0] == 1).all(), "0 is paper"
    np.testing.assert_allclose(colours, colours[:, :1].repeat(3, axis=1), err_msg="grey")
    assert "[CLS] [SEP]" in texts(sheet)


def test_it_does_not_change_the_scale_of_the_weights():
    attention = with_column(8)
    alone = Attention(attention.source, (replace(attention.maps[0], special=None),))
    assert Style().scales(attention.maps, attention.maps) == Style().scales(alone.maps, alone.maps)


def test_hostile_names_are_shown_as_they_are():
    sheet = heatmap_figure(with_column(3, ("$x$", "\x1b[1m")))
    assert "$x$ \\x1b[1m" in texts(sheet)
