"""Pictures are found in a photo by their pixels, wherever they were cut from it; the oracle is what PIL cuts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mhaviz.inputs.patches import PatchGrid
from mhaviz.results.photo_places import PhotoPlaces, joined_views, on_one_grid

HEIGHT, WIDTH = 240, 320


def made_photo(seed=0):
    """A photo of shapes of many sizes over a gradient: (HEIGHT, WIDTH, 3)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH] / HEIGHT
    photo = np.stack([0.3 + 0.4 * y, 0.5 - 0.2 * x, 0.4 + 0.3 * (x - y)], -1)
    for _ in range(60):
        inside = (x - rng.uniform(0, 1.33)) ** 2 + (y - rng.uniform(0, 1)) ** 2 < rng.uniform(0.02, 0.12) ** 2
        photo[inside] = rng.uniform(0, 1, 3)
    return np.round(np.clip(photo + rng.normal(0, 0.02, photo.shape), 0, 1) * 255).astype(np.uint8)


PHOTO = made_photo()
PLACES = PhotoPlaces(PHOTO)
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def cut(box, size, photo=PHOTO, resample=Image.Resampling.BICUBIC):
    """What a processor makes of a part of the photo: resized and normalised by the numbers of ImageNet."""
    top, left, bottom, right = box
    pixels = (left * WIDTH, top * HEIGHT, right * WIDTH, bottom * HEIGHT)
    picture = Image.fromarray(photo).resize(size, resample, box=pixels)
    return ((np.asarray(picture) / 255 - MEAN) / DEVIATION).astype(np.float32)


@pytest.mark.parametrize("resample", [Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.LANCZOS])
@pytest.mark.parametrize(
    ("box", "size"),
    [
        ((0.0, 0.0, 1.0, 1.0), (224, 224)),
        ((0.0, 0.125, 1.0, 0.875), (224, 224)),
        ((0.0625, 0.171875, 0.9375, 0.828125), (56, 56)),
        ((0.0, 0.0, 0.5, 0.5), (84, 84)),
        ((0.5, 2 / 3, 1.0, 1.0), (48, 48)),
    ],
    ids=["stretched", "the middle", "a smaller middle", "a tile of four", "a tile of six"],
)
def test_what_processors_cut_is_found(box, size, resample):
    correlation, found = PLACES.find(cut(box, size, resample=resample))
    assert correlation > 0.97
    np.testing.assert_allclose(found, box, atol=0.01)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.tuples(*[st.floats(0, 0.6)] * 2), st.tuples(*[st.floats(0.3, 0.4)] * 2))
def test_any_part_is_found_or_nothing(begin, size):
    box = *begin, begin[0] + size[0], begin[1] + size[1]
    found = PLACES.find(cut(box, (64, 64)))
    if found is not None:
        np.testing.assert_allclose(found[1], box, atol=0.02)


def test_padding_reaches_beyond_the_photo():
    picture = np.zeros((64, 64, 3), np.float32)
    picture[8:56] = cut((0.0, 0.0, 1.0, 1.0), (64, 48))
    _, box = PLACES.find(picture)
    np.testing.assert_allclose(box, (-1 / 6, 0.0, 7 / 6, 1.0), atol=0.01)


@pytest.mark.parametrize(
    "picture",
    [
        np.random.default_rng(0).normal(size=(48, 48, 3)).astype(np.float32),
        np.ones((48, 48, 3), np.float32),
        np.flip(cut((0.0, 0.0, 1.0, 1.0), (96, 96)), 1).copy(),
        cut((0.0, 0.0, 1.0, 1.0), (96, 96), made_photo(1)),
    ],
    ids=["noise", "one colour", "a mirror image", "another photo"],
)
def test_what_is_not_in_the_photo_is_not_found(picture):
    assert PLACES.find(picture) is None


def test_what_may_be_at_two_places_is_at_none():
    half = made_photo()[:, : WIDTH // 2]
    twice = np.concatenate([half, half], 1)
    assert PhotoPlaces(twice).find(cut((0.0, 0.0, 1.0, 0.5), (64, 64), twice)) is None


def test_a_tile_with_little_in_it_is_found_by_those_beside_it():
    photo = made_photo()
    photo[120:, 214:] = np.random.default_rng(2).normal(128, 6, (120, 106, 3)).round()
    places, tiles = PhotoPlaces(photo), [(r / 2, c / 3, (r + 1) / 2, (c + 1) / 3) for r in range(2) for c in range(3)]
    found = [places.find(cut(tile, (112, 112), photo)) for tile in tiles[:-1]]
    _, box = places.beside(cut(tiles[-1], (112, 112), photo), [box for _, box in found])
    np.testing.assert_allclose(box, tiles[-1], atol=0.02)


def test_tiles_that_are_found_nearly_are_put_on_the_grid_of_most():
    tiles = [(r / 2, c / 3, (r + 1) / 2, (c + 1) / 3) for r in range(2) for c in range(3)]
    found = [*tiles[:4], (0.5, 0.36, 1.0, 0.64), tiles[5]]
    np.testing.assert_allclose(on_one_grid(found), tiles, atol=1e-9)
    assert on_one_grid([tiles[0], (0.3, 0.3, 0.9, 0.7)]) == [tiles[0], (0.3, 0.3, 0.9, 0.7)]


def test_tiles_are_one_view_and_the_smaller_copy_another():
    tiles = [
        PatchGrid(2, 2, tuple(range(n, n + 4)), f"image {n}", n, box)
        for n, box in ((0, (0.0, 0.0, 0.5, 0.5)), (4, (0.0, 0.5, 0.5, 1.0)), (8, (0.5, 0.0, 1.0, 0.5)))
    ]
    whole = PatchGrid.run(2, 2, 12)
    joined = joined_views([tiles[0], whole, *tiles[1:]])
    assert [(view.shape, view.box) for view in joined] == [((4, 4), (0.0, 0.0, 1.0, 1.0)), ((2, 2), whole.box)]
    assert joined[0].places == (0, 1, 4, 5, 2, 3, 6, 7, 8, 9, -1, -1, 10, 11, -1, -1)
