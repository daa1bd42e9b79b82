"""The tokens of a side, and those that are patches of an image."""

import numpy as np
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.saved_form import describe, restore


def test_patches_are_called_by_row_and_column():
    tokens = patch_tokens(2, 3, 2)
    assert tokens.texts == ("token 0", "token 1", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert (tokens.special, tokens.grid, tokens.patches) == ((0, 1), (2, 3), (2, 3, 4, 5, 6, 7))
    assert patch_tokens(1, 2).texts == ("0,0", "0,1")
    assert Tokens(("a", "b")).patches == ()


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (2, 2, -1)])
def test_patches_that_cannot_be(sizes):
    with pytest.raises(ArgumentError, match="expected at least 1 × 1 patches"):
        patch_tokens(*sizes)


@pytest.mark.parametrize("grid", [(2, 2), (0, 0), (-1, -2), (3, 2)])
def test_a_grid_of_another_number_of_tokens(grid):
    with pytest.raises(ArgumentError, match="grid: expected rows × columns of 2 patches, got"):
        Tokens(("token 0", "a", "b"), (0,), grid=grid)


def test_only_all_tokens_are_a_whole_image():
    tokens = patch_tokens(2, 2, 1)
    assert tokens[:] == tokens[0:5] == tokens
    for part in (tokens[1:], tokens[:4], tokens[:0], tokens.at((1, 2, 3, 4)), tokens + tokens, tokens + Tokens(())):
        assert part.grid is None


@pytest.fixture
def patches():
    axis = Axis(patch_tokens(2, 3, 1))
    weights = np.full((2, 7, 7), 1 / 7, np.float32)
    return AttentionMap(weights, axis, axis)


def test_a_grid_is_saved_and_restored(patches):
    description = describe(patches)
    assert (description["query_grid"], description["key_grid"]) == ((2, 3), (2, 3))
    again = restore(description, patches.weights)
    assert (again.rows.tokens, again.columns.tokens) == (patches.rows.tokens, patches.columns.tokens)


def test_maps_of_texts_say_nothing_of_grids(random_map):
    assert not {"query_grid", "key_grid"} & set(describe(random_map(1, ("a", "b"))))


@pytest.mark.parametrize(
    "grid", [7, [6], [1, 2, 3], [-2, -3], [2.0, 3.5], [[2, 3]], ["2", "3"], [2, 4], [0, 6], {}, "2x3", [True, True]]
)
def test_grids_of_hostile_files(patches, grid):
    with pytest.raises(ValueError, match=r"grid: expected|key_grid"):
        restore({**describe(patches), "key_grid": grid}, patches.weights)


def test_a_grid_of_huge_numbers_is_no_grid(patches):
    with pytest.raises(ValueError, match="grid: expected"):
        restore({**describe(patches), "query_grid": [2**62, 2**62]}, patches.weights)


def test_ids_are_of_all_tokens_or_of_none():
    """Steps with a cache of keys may have no ids: a page would take those that are there for those of all."""
    with_ids, without = Tokens(("a", "b"), (), (7, 4)), Tokens(("c",))
    assert (with_ids + with_ids).ids == (7, 4, 7, 4)
    assert (with_ids + without).ids == (without + with_ids).ids == ()
    assert (Tokens(()) + with_ids).ids == (7, 4)
