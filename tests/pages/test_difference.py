"""The heads that changed most, as a table."""

from dataclasses import replace

import numpy as np
import pytest
from made import Edges, made_map

from mhaviz.analyses.difference import compare
from mhaviz.pages.blocks import Matrices
from mhaviz.pages.difference import difference_page, ranking_table
from mhaviz.results.attention import Attention
from mhaviz.results.difference import RowChange
from mhaviz.results.quantity import QUANTITIES
from mhaviz.results.result import Source
from mhaviz.views.data import document


def table(d):
    return ranking_table(d)


def rows(d, most):
    return table(d).texts()[:most]


def notes(d):
    return table(d).notes


def pair(*maps_after):
    """Each map, before with its weights the other way round."""
    before = tuple(replace(m, weights=m.weights[..., ::-1]) for m in maps_after)
    return compare(Attention(Source("s"), before), Attention(Source("s"), maps_after))


def test_rows_name_the_place():
    d = pair(made_map(("q\x1b",), ("k", "l"), np.array([[[1, 0]], [[0.5, 0.5]]], np.float32), "cross"))
    assert table(d).headings() == ("head", "divergence", "worst row", "before", "change", "where")
    assert rows(d, 9) == [
        ("L0 H0", "1.0000", "1.0000 at 0 q\\x1b", "0.000", "+1.000", "0 q\\x1b → 0 k"),
        ("L0 H1", "0.0000", "–", "–", "–", "–"),
    ]
    assert len(rows(d, 1)) == 1
    assert replace(table(d), most=1).limited()[1] == "and 1 more; .json has all"


def test_heads_that_were_left_out_are_no_blank_cells(random_map):
    sides = [[random_map(3, layer=layer, seed=seed + layer) for layer in range(2)] for seed in (0, 5)]
    for heads, n_blocks in (((0, 1, 2), 1), ((0, 2), 0)):
        d = compare(*(Attention(Source("s"), tuple(m.select(heads) for m in side)) for side in sides))
        assert sum(isinstance(block, Matrices) and not block.maps for block in difference_page(d).blocks) == n_blocks


@pytest.mark.parametrize("n_heads", [1, 4])
def test_dots_stand_beside_chance_where_there_is_another_head(random_map, n_heads):
    tokens = ("a", "b", "c")
    d = compare(*(Attention(Source("s"), (random_map(n_heads, tokens, seed=seed),)) for seed in (0, 1)))
    dots, said = difference_page(d).blocks[0], "the mean divergence of a head before from another head after"
    assert {dot.chance if n_heads > 1 else None for dot in dots.dots} == {d.maps[0].chance}
    assert (f"chance: {said}" in dots.notes) == (f", {said}" in notes(d)) == (n_heads > 1)


def test_small_numbers_do_not_become_nothing():
    d = pair(made_map(("a",), ("k", "l"), np.array([[[0.5001, 0.4999]]], np.float32), "cross"))
    ((_, divergence, _, _, change, _),) = rows(d, 1)
    assert (divergence, change) == ("2.9e−08", "+2e−04")


def test_maps_are_told_apart_by_what_differs(random_map):
    maps = [random_map(1, layer=layer, kind=kind, sentence=0) for layer, kind in ((0, "self"), (1, "cross"))]
    assert {row[0] for row in rows(pair(*maps), 9)} == {"self", "cross"}
    maps = [random_map(1, sentence=i) for i in range(2)]
    assert {row[0] for row in rows(pair(*maps), 9)} == {"sentence 0", "sentence 1"}


def pooled(reduction, cells=2):
    edges = np.arange(cells + 1) * 3
    tokens = tuple(map(str, range(3 * cells)))
    weights = np.random.default_rng(0).dirichlet(np.ones(cells), size=(1, cells)).astype(np.float32)
    return made_map(tokens, tokens, weights, cells=Edges(edges, edges, reduction))


def test_cells_and_their_positions():
    d = pair(pooled("mass"))
    assert rows(d, 1)[0][-1] in ("0 to 2 → 0 to 2", "3 to 5 → 0 to 2")
    assert "of pooled cells, or of a window" in notes(d)
    assert "largest weights of cells are no distribution" not in notes(d)


def test_largest_weights_have_no_divergence():
    d = pair(pooled("max"))
    assert rows(d, 1)[0][1:3] == ("–", "–")
    assert "largest weights of cells are no distribution: they have no divergence" in notes(d)
    assert "Jensen" not in notes(d)


def test_rows_that_are_no_distributions():
    d = pair(made_map(("a",), ("k", "l"), np.array([[[3, 0]]], np.float32), "cross"))
    assert "rows that do not sum to 1 are no distribution" in notes(d)


def test_nothing_differs():
    m = made_map(("0", "1"), ("0", "1"), np.eye(2, dtype=np.float32)[None])
    same = compare(*[Attention(Source("s"), (m,))] * 2)
    assert table(same).heading == "no weight differs"
    assert rows(same, 9) == [("L0 H0", "0.0000", "–", "–", "–", "–")]
    assert "change" not in notes(same).replace("changed", "")
    assert "worst" not in notes(same)
    assert document(same)["differences"][0]["largest"] == (None,)


def test_positions_are_written_once():
    d = pair(made_map(("0",), ("0", "1"), np.array([[[1, 0]]], np.float32), "cross"))
    assert table(d).heading == "the heads that changed most"
    assert rows(d, 9)[0][2::3] == ("1.0000 at 0", "0 → 0")


def test_rows_of_zeros_are_told():
    d = pair(made_map(("a", "b"), ("k", "l"), np.array([[[1, 0], [0, 0]]], np.float32), "cross"))
    assert "1 row that is zeros in both is left out of the mean" in notes(d)
    assert rows(d, 1)[0][1] == "1.0000"
    assert document(d)["differences"][0]["zero_rows"] == (1,)


def test_the_worst_row_in_json():
    d = pair(made_map(("a", "b"), ("k", "l"), np.array([[[0.5, 0.5], [1, 0]]], np.float32), "cross"))
    data = document(d)
    assert data["differences"][0]["worst_row"][0] == RowChange(1, pytest.approx(1))
    assert data["ranking"][0]["worst_row"] == pytest.approx(1)


WEIGHTS = np.array([[[0.75, 0.25], [0.5, 0.5]]], np.float32)


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.key)
def test_the_scale_of_a_change_is_named_change(quantity):
    (changed,) = pair(replace(made_map("ab", "ab", WEIGHTS), quantity=quantity)).maps
    change = changed.change.quantity
    assert change.drawn_name == "change"
    assert quantity.drawn_name == quantity.name
