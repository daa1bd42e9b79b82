"""The tokens of a side, and those that are patches of an image."""

import json

import numpy as np
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.saved_form import describe, restore
from mhaviz.views.data import _pieces


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
        PatchGrid(*grid, (1, 2))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([PatchGrid.run(1, 3, 1)], "positions of patches among 3 tokens"),
        ([PatchGrid(1, 2, (0, -2))], "positions of patches among 3 tokens"),
        ([PatchGrid.run(1, 2), PatchGrid.run(1, 2, 1)], "got one in two"),
        ([PatchGrid(1, 2, (1, 1))], "got one in two"),
    ],
)
def test_patches_that_are_no_tokens(images, message):
    with pytest.raises(ArgumentError, match=message):
        Tokens(("a", "b", "c"), images=tuple(images))


def test_views_of_images_among_words_are_no_grid_of_all():
    grids = PatchGrid.run(1, 2, 1), PatchGrid(2, 2, (4, -1, 5, -1), "thumbnail", box=(0, 0, 0.5, 1))
    tokens = Tokens(("a", "0,0", "0,1", "b", "c", "d"), images=grids)
    assert (tokens.grid, tokens.patches) == (None, ())
    assert grids[1].labels() == {4: "thumbnail 0,0", 5: "thumbnail 1,0"}
    assert (grids[1].cell(5), grids[1].cell(1), grids[1].cell(-1)) == ((1, 0), None, None)


def test_only_all_tokens_are_a_whole_image():
    tokens = patch_tokens(2, 2, 1)
    assert tokens[:] == tokens[0:5] == tokens
    for part in (tokens[:4], tokens[:0], tokens.at((1, 2, 4)), tokens + tokens):
        assert part.grid is None
    for part in (tokens[1:], tokens.at((1, 2, 3, 4))):
        assert (part.grid, part.images[0].places) == ((2, 2), (0, 1, 2, 3))
    assert tokens.at((4, 0, 1)).images[0].places == (2, -1, -1, 0)


@pytest.fixture
def patches():
    axis = Axis(patch_tokens(2, 3, 1))
    weights = np.full((2, 7, 7), 1 / 7, np.float32)
    return AttentionMap(weights, axis, axis)


def test_a_grid_is_saved_and_restored(patches):
    description = describe(patches)
    again = restore(json.loads("".join(_pieces(description))), patches.weights)
    assert (again.rows.tokens, again.columns.tokens) == (patches.rows.tokens, patches.columns.tokens)
    views = PatchGrid.run(1, 2, 1), PatchGrid(2, 2, (4, -1, 5, -1), "thumbnail", 1, (0, 0, 0.5, 1))
    axis = Axis(Tokens(tuple("abcdef"), images=views))
    several = AttentionMap(np.full((1, 6, 6), 1 / 6, np.float32), axis, axis)
    again = restore(json.loads("".join(_pieces(describe(several)))), several.weights)
    assert again.rows.tokens.images == again.columns.tokens.images == views


def test_a_file_of_an_older_version_has_a_grid_of_all_its_patches(patches):
    old = _older(patches) | {"key_grid": [2, 3], "query_grid": [3, 2]}
    again = restore(old, patches.weights)
    assert (again.columns.tokens.grid, again.rows.tokens.grid) == ((2, 3), (3, 2))
    assert again.columns.tokens == patches.columns.tokens


def _older(m):
    return {name: value for name, value in describe(m).items() if name not in ("query_images", "key_images")}


def test_maps_of_texts_say_nothing_of_grids(random_map):
    assert not {"query_images", "key_images", "query_grid", "key_grid"} & set(describe(random_map(1, ("a", "b"))))


@pytest.mark.parametrize(
    "grid", [7, [6], [1, 2, 3], [-2, -3], [2.0, 3.5], [[2, 3]], ["2", "3"], [2, 4], [0, 6], {}, "2x3", [True, True]]
)
def test_grids_of_hostile_files(patches, grid):
    with pytest.raises(ValueError, match=r"grid: expected|key_grid"):
        restore({**_older(patches), "key_grid": grid}, patches.weights)


def test_a_grid_of_huge_numbers_is_no_grid(patches):
    with pytest.raises(ValueError, match="grid: expected"):
        restore({**_older(patches), "query_grid": [2**62, 2**62]}, patches.weights)


def test_ids_are_of_all_tokens_or_of_none():
    """Steps with a cache of keys may have no ids: a page would take those that are there for those of all."""
    with_ids, without = Tokens(("a", "b"), (), (7, 4)), Tokens(("c",))
    assert (with_ids + with_ids).ids == (7, 4, 7, 4)
    assert (with_ids + without).ids == (without + with_ids).ids == ()
    assert (Tokens(()) + with_ids).ids == (7, 4)
