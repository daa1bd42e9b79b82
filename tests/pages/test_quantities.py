"""A quantity that mhaviz does not have yet: what pictures and files say of it follows from its row."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import texts
from shown import heatmap_figure, heatmap_view

from mhaviz.results import saved_form
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import QUANTITIES, Quantity
from mhaviz.results.result import Source

SQUARED = Quantity(
    "squared",
    name="squared weight",
    title_prefix="squares of ",
    remark="squared: of each weight (nobody 2026)",
    is_distribution=False,
)


@pytest.fixture
def squares(random_map, monkeypatch):
    monkeypatch.setattr(saved_form, "QUANTITIES", (SQUARED, *QUANTITIES))
    m = random_map(2)
    return Attention(Source("s"), (replace(m, weights=m.weights**2, quantity=SQUARED),))


def test_pictures_say_what_it_is(squares, show):
    written = texts(heatmap_figure(squares))
    assert "squared weight" in written
    assert any(text.startswith("squares of self-attention, s: ") for text in written)
    reading = "rows are queries, columns keys; squared: of each weight (nobody 2026); blank: below 0.005"
    assert reading in written, "rows have no sums"
    assert "squares of self-attention" in show(heatmap_view(squares), 80)


def test_files_hold_what_it_is(squares):
    (m,) = squares.maps
    description = saved_form.describe(m)
    assert description["squared"] is True
    assert saved_form.tensor_names([description]) == ["layer.0.self.squared"]
    again = saved_form.restore(description, m.weights)
    assert again.quantity == SQUARED
    assert again.name == m.name == "layer 0, self, squared"
    np.testing.assert_array_equal(again.weights, m.weights)


def test_data_frames_tell_quantities_apart(squares, random_map):
    frame = replace(squares, maps=(*squares.maps, random_map(2))).to_dataframe()
    assert set(frame["quantity"]) == {"squared", "weight"}


def test_a_plot_says_what_it_is(squares):
    assert "squared weight" in [text.get_text() for text in squares.plot().page.texts]
