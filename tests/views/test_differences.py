"""The words and colours of a difference."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import Edges, hiding, made_map
from shown import difference_figure, difference_view

from mhaviz.analyses.difference import compare
from mhaviz.files.maps import SavedMaps
from mhaviz.pages.blocks import Dots, Drawn, Matrices
from mhaviz.pages.difference import cell_text, difference_page, reading_text
from mhaviz.pages.pooling import pool_map
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import NORM
from mhaviz.results.result import Source
from mhaviz.views.scales import change_scale
from mhaviz.views.style import Style

AUTO = Style("RdBu_r", vmax=None)


def changed(*values, **more):
    weights = np.array([values], np.float32)
    return made_map(("a",), tuple("abcdefgh"[: len(values)]), weights[None], "cross", **more)


@pytest.mark.parametrize(
    ("values", "high", "decimals", "text"),
    [
        ((0.25, -0.5), 0.5, 2, "+0.50"),
        ((0.05, 0), 0.05, 3, "+0.050"),
        ((-0.002, 0), 0.002, 4, "+0.0020"),
        ((0, 0), 1.0, 2, "+1.00"),
        ((1e-9, 0), 1e-9, 6, ""),
    ],
)
def test_the_scale_has_0_in_its_middle(values, high, decimals, text):
    scale = change_scale(AUTO, [changed(*values)])
    assert (scale.low, scale.high) == pytest.approx((-high, high))
    assert scale.decimals == decimals
    assert scale.text(high) == text
    assert scale.text(-0.0) == "", "no change is not written"


def test_vmax_is_the_change_with_the_last_colour():
    scale = change_scale(replace(AUTO, vmax=0.25), [changed(0.5)])
    assert (scale.low, scale.high) == (-0.25, 0.25)


def test_a_single_cell_of_a_long_map_does_not_make_all_others_pale():
    values = np.full((1, 100, 100), 0.01, np.float32)
    values[0, 3, 4] = -0.9
    tokens = tuple(map(str, range(100)))
    assert change_scale(AUTO, [made_map(tokens, tokens, values)]).high == pytest.approx(0.01)
    assert change_scale(AUTO, [made_map(tokens, tokens, np.where(values > 0, 0, values))]).high == pytest.approx(0.9)


def test_colours_are_named_where_they_are_seen():
    changes = [changed(0.5)]
    assert reading_text(changes, Drawn(ends=("blue", "red"))).endswith("blue: less weight than before, red: more")
    assert reading_text(changes, Drawn()).endswith("below 0: less weight than before, above 0: more")


def pooled(reduction, cells=2):
    edges = np.arange(cells + 1) * 3
    tokens = tuple(map(str, range(3 * cells)))
    weights = np.random.default_rng(0).dirichlet(np.ones(cells), size=(1, cells)).astype(np.float32)
    return made_map(tokens, tokens, weights, cells=Edges(edges, edges, reduction))


def test_what_a_cell_is(random_map):
    tokens = random_map(1, tuple("abcdef"))
    assert cell_text(tokens, tokens.cells) == ""
    assert cell_text(tokens, pool_map(tokens, 2, 3).cells) == "each cell is the change farthest from 0 of up to 3 × 2"
    mass, largest = pooled("mass", 4), pooled("max", 4)
    assert cell_text(mass, mass.cells) == "each cell is the mean over up to 3 queries of their weight on up to 3 keys"
    assert "up to 6 queries" in cell_text(mass, pool_map(mass, 2, 2).cells)
    assert cell_text(largest, largest.cells) == "each cell is the largest of up to 3 × 3 weights"
    assert cell_text(largest, pool_map(largest, 2, 2).cells) == (
        "each cell is the largest of up to 3 × 3 weights; where several share a place, the change farthest from 0"
    )


def test_the_change_farthest_from_0_stays():
    m = changed(0.1, -0.4, 0.3, -0.2)
    np.testing.assert_allclose(pool_map(m, 1, 2).weights, [[[-0.4, 0.3]]])


def test_what_is_hidden_and_which_layer_it_is(show, random_map):
    maps = [[random_map(1, "abc", kind="masked", seed=s, layer=i, reach=(None, 1)[i]) for i in (0, 1)] for s in (0, 5)]
    difference = compare(*(Attention(Source("s"), tuple(map(hiding, layers))) for layers in maps))
    hidden = "hidden keys, later, or more than 1 position away in layer 1"
    lines = difference_figure(difference).page.texts[::-1]  # those of the foot are written from the last up
    drawn = " ".join(text.get_text() for text in lines)
    assert f"outside the thin outline: {hidden}" in drawn
    for colour in ("truecolor", None):
        shown = " ".join(show(difference_view(difference), 200, colour).split())
        assert f"·: {hidden}" in shown
    assert "masked self-attention, layers 0 to 1: a b c" in drawn
    for layer in (0, 1):
        assert f"masked self-attention, layer {layer}: a b c" in shown


def saved(weights, sentence=None, **more):
    tokens = tuple("abc"[: weights.shape[-1]])
    return made_map(tokens, tokens, np.asarray(weights, np.float32), sentence=sentence, **more)


def page_of_sides(*sides, names=("x, y (1)/a.npy", "b.npy")):
    named = [
        SavedMaps(Attention(Source("s"), tuple(maps))).named(Path(name))
        for name, maps in zip(names, sides, strict=True)
    ]
    return difference_page(compare(*named))


def test_the_title_says_what_differs_without_a_divergence(random_map):
    A = random_map(2).weights
    B = 1.5 * A
    head, query, key = np.unravel_index((B - A).argmax(), A.shape)
    page = page_of_sides([saved(A)], [saved(B)])
    assert page.title == f"a.npy and b.npy differ most in L0 H{head}: weight +{(B - A)[head, query, key]:.3f}"
    norms = [replace(saved(w), quantity=NORM) for w in (A, A + np.reshape([1.0, 0.5], (2, 1, 1)))]
    assert page_of_sides(norms[:1], norms[1:]).title == "a.npy and b.npy differ most in L0 H0: norm +1.000"


def test_the_title_counts_heads_once_for_all_sentences_and_has_no_most_of_one(random_map):
    A, B = random_map(2).weights, random_map(2, seed=1).weights
    same = [saved(A, sentence) for sentence in range(3)]
    equal = page_of_sides(same, same)
    assert equal.title == "a.npy and b.npy do not differ in 2 heads"
    assert not any(isinstance(block, Matrices) for block in equal.blocks), "no blank maps"
    bits = compare(*(Attention(Source("s"), (saved(w[:1]),)) for w in (A, B))).maps[0].divergence[0]
    assert page_of_sides([saved(A[:1])], [saved(B[:1])]).title == f"a.npy and b.npy differ in L0 H0: {bits:.4f} bits"


def test_two_of_one_name_are_named_once():
    same = [saved(np.eye(3)[None])]
    assert page_of_sides(same, same, names=("x/maps.npy", "maps.npy")).title.startswith("maps.npy: A and B do not")


def test_the_cell_beside_a_dot_is_that_of_all_sentences():
    A = np.full((1, 3, 3), 1 / 3)
    B, C = A.copy(), A.copy()
    B[0] = (0.5, 0.5, 0)  # all rows change a little more in bits
    C[0, 2] = (0, 1, 0)  # one weight changes most
    page = page_of_sides([saved(A, 0), saved(A, 1)], [saved(B, 0), saved(C, 1)])
    (dots,) = (block for block in page.blocks if isinstance(block, Dots))
    assert dots.dots[0].note == "2 c → 1 b"
    assert dots.notes.startswith(
        "beside it: the query → key whose weight changes most, of all sentences; whisker: from"
    )
