import re

import numpy as np
import pytest
from made import Edges, made_map
from rich.cells import cell_len
from shown import difference_view, number_text

from mhaviz.analyses.difference import compare
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def widest(text):
    return max(cell_len(line) for line in text.split("\n"))


def words(text):
    return " ".join(text.split())


@pytest.fixture
def difference(random_map):
    def make(tokens=("a", "b", "c"), n_heads=2, **more):
        pair = (Attention(Source(f"seed {i}"), (random_map(n_heads, tokens, seed=i, **more),)) for i in range(2))
        return compare(*pair)

    return make


def pooled(cells, reduction="mass", n_heads=2, kind="self"):
    """Two maps of ten tokens a cell."""
    edges, tokens = 10 * np.arange(cells + 1), tuple(f"w{i}" for i in range(10 * cells))
    sides = []
    for seed in range(2):
        weights = np.random.default_rng(seed).dirichlet(np.ones(cells), size=(n_heads, cells)).astype(np.float32)
        weights = np.tril(weights) if kind == "masked" else weights
        m = made_map(tokens, tokens, weights, kind, cells=Edges(edges, edges, reduction))
        sides.append(Attention(Source(f"seed {seed}"), (m,)))
    return compare(*sides)


@pytest.mark.parametrize(("width", "colour"), [(40, None), (80, "truecolor"), (160, None)])
def test_every_number_is_there(show, difference, width, colour):
    d = difference()
    shown = plain(show(difference_view(d), width, colour))
    assert widest(shown) <= width
    (m,) = d.maps
    cells = shown.split("B − A, the change")[1]
    for number in m.change.weights.ravel():
        text = number_text(number, "+z.2f")
        assert (text.replace("+0.00", "0.00") in cells) == bool(text.strip("+0.")), "what rounds to 0 is not written"
    for divergence, change in ((head.divergence, head.largest) for head in m.heads):
        for text in (f"{divergence:.4f}", number_text(change.after - change.before, "+.3f"), f"{change.before:.3f}"):
            assert text in shown
    assert "in bits" in words(shown)
    assert "A: seed 0; B: seed 1" in words(shown)


def test_the_heads_stand_in_their_order(show, difference):
    d = difference(n_heads=5)
    table = show(difference_view(d), 120).split("the heads that changed most")[1].split("B − A")[0]
    heads = [int(head) for head in re.findall(r"^ +L0 H(\d+) +0\.\d{4}", table, re.MULTILINE)]
    assert heads == list(np.argsort(-d.maps[0].divergence))


def test_one_scale_around_0(show, difference):
    d = difference()
    largest = np.abs(d.maps[0].change.weights).max()
    assert f"−{largest:.3g} " in show(difference_view(d), 80)
    assert f" {largest:.3g}   rows are" in show(difference_view(d), 80)


def test_the_bar_of_several_layers_is_below_their_heads(show, random_map):
    sides = [tuple(random_map(2, layer=layer, seed=seed + layer) for layer in range(2)) for seed in (0, 5)]
    d = compare(*(Attention(Source("s"), side) for side in sides))
    largest = max(np.abs(m.change.weights).max() for m in d.maps)
    shown = show(difference_view(d), 100)
    assert "\nscale: mean divergence, bits 0–" in shown
    (bar,) = (line for line in shown.splitlines() if "   rows are" in line)
    assert bar.startswith(f"−{largest:.3g} ")


def test_colours_are_named_only_where_they_are_seen(show, difference):
    assert "red: more" in show(difference_view(difference()), 80, "truecolor")
    assert "red" not in show(difference_view(difference()), 80)


def test_no_ramp_that_looks_like_a_sign(show, difference):
    shown = show(difference_view(difference()), 80, encoding="ascii")
    assert not re.search(r"[-+]-\d|-\+\d", shown)
    assert not re.search(r"[-+]0\.00\b", shown.split("the heads")[0])


@pytest.mark.parametrize(("length", "n_heads", "width"), [
    (1, 1, 40), (3, 9, 160), (12, 9, 40), (60, 1, 160), (300, 1, 40), (300, 9, 160),
])  # fmt: skip
def test_any_size(show, difference, length, n_heads, width):
    d = difference(tuple(f"w{i}" for i in range(length)), n_heads)
    for colour in (None, "truecolor"):
        shown = plain(show(difference_view(d), width, colour))
        assert widest(shown) <= width
        assert f"L0 H{n_heads - 1}" in shown
        if length == 300:
            assert "farthest from 0 of up to" in words(shown)


@pytest.mark.parametrize(("reduction", "width", "kind"), [
    ("mass", 40, "self"), ("mass", 80, "masked"), ("max", 40, "masked"), ("max", 160, "self"),
])  # fmt: skip
def test_pooled_maps(show, reduction, width, kind):
    d = pooled(100, reduction, kind=kind)
    for colour in (None, "truecolor"):
        shown = plain(show(difference_view(d), width, colour))
        assert widest(shown) <= width
        assert ("they have no divergence" in words(shown)) == (reduction == "max")
        assert ("in bits" in words(shown)) == (reduction == "mass" and d.maps[0].divergence is not None)


def test_values_beyond_the_scale_are_told(show):
    shown = show(difference_view(pooled(100)), 240)
    assert "≤ −" in shown
    assert "≥ 0" in shown


def test_several_maps_and_heads_left_out(show, random_map):
    maps = [tuple(random_map(12, ("a", "b"), sentence=i, seed=seed + i) for i in range(2)) for seed in (0, 5)]
    d = compare(*(Attention(Source("s"), side) for side in maps))
    shown = show(difference_view(d), 100)
    assert "sentence 0" in shown
    assert "and 8 more; .json has all" in shown
