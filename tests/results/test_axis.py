"""The tokens of one side of a map, and the cells that they fall into."""

import numpy as np
import pytest

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import ROLLOUT, WEIGHT, Cells


def part(start, *edges):
    """Tokens from a position on, in cells that end at these."""
    return Axis(Tokens(tuple(f"t{i}" for i in range(start, edges[-1]))), np.array([start, *edges]))


def test_a_cell_for_every_token():
    axis = Axis.of("abc")
    assert (len(axis), axis.start, axis.end, axis.widest, axis.is_pooled) == (3, 0, 3, 1, False)
    assert axis.edges.tolist() == [0, 1, 2, 3]


def test_cells_of_several_tokens():
    axis = part(10, 12, 13, 16)
    assert (len(axis), axis.start, axis.end, axis.widest, axis.is_pooled) == (3, 10, 16, 3, True)
    assert [axis.cell_of(position) for position in range(10, 16)] == [0, 0, 1, 2, 2, 2]


def test_fewer_cells_have_the_same_tokens():
    axis = part(10, *range(11, 17))
    pooled = axis.pooled(3)
    assert pooled.edges.tolist() == [10, 12, 14, 16]
    assert pooled.tokens is axis.tokens
    assert axis.pooled(6) is axis


@pytest.mark.parametrize(("texts", "start", "expected"), [("01", 0, True), ("12", 1, True), ("12", 0, False)])
def test_tokens_that_are_nothing_but_positions(texts, start, expected):
    assert Axis(Tokens(tuple(texts)), np.arange(start, start + 3)).are_positions == expected


def test_what_is_the_same():
    assert Axis.of("abc").is_same(Axis(Tokens(tuple("abc")), np.arange(4)))
    assert not Axis.of("abc").is_same(Axis.of("abd"))
    assert not part(0, 1, 3).is_same(part(0, 2, 3))


@pytest.mark.parametrize(("quantity", "name"), [(WEIGHT, "weight"), (ROLLOUT, "share")])
def test_of_single_numbers_the_largest_stays_and_cells_keep_their_rule(quantity, name):
    tokens, cells = Cells(Axis.of("abcd"), Axis.of("ab"), quantity), Cells(part(0, 2, 4), Axis.of("ab"), quantity)
    assert (tokens.are_tokens, cells.are_tokens) == (True, False)
    assert tokens.pooled(2, 2).quantity.reduction == "max"
    assert cells.pooled(1, 2).quantity.reduction == "mass"
    assert tokens.pooled(4, 2) is tokens
    assert tokens.pooled(2, 2).quantity.name == name
