"""The part of a photo that a processor shows, against the photo cut there by PIL."""

import numpy as np
import pytest
import transformers as hf
from PIL import Image

from mhaviz.inputs.patches import WHOLE, within
from mhaviz.models.transformers.photo_crop import shown_parts

CROPPED = {"size": {"shortest_edge": 64}, "crop_size": {"height": 64, "width": 64}}
PROCESSORS = {
    "stretched": (hf.ViTImageProcessor, {"size": {"height": 64, "width": 64}}),
    "cut at its sides": (hf.CLIPImageProcessor, CROPPED),
    "cut on all sides": (hf.BitImageProcessor, CROPPED | {"size": {"shortest_edge": 80}}),
    "padded": (hf.LlavaImageProcessor, CROPPED | {"do_pad": True}),
    "whole at the shortest edge": (hf.DetrImageProcessor, {"size": {"shortest_edge": 64, "longest_edge": 200}}),
    "without a scale": (hf.ViTImageProcessor, {"size": {"height": 64, "width": 64}, "do_normalize": False}),
}
SIZES = [(120, 80), (100, 300), (640, 480), (64, 64)]


def photo_of(width, height):
    """Smooth waves, so that ways to resize differ little."""
    y, x = np.mgrid[:height, :width] / np.array([height, width])[:, None, None]
    waves = [np.sin(5 * x + 3 * y), np.cos(7 * y - 2 * x), np.sin(4 * x * y)]
    return Image.fromarray(np.uint8(127 + 120 * np.stack(waves, -1)))


@pytest.fixture(autouse=True)
def _quiet():
    before = hf.logging.get_verbosity()
    hf.logging.set_verbosity_error()
    yield
    hf.logging.set_verbosity(before)


def pixels_of(processor):
    return lambda image: processor(images=[image], return_tensors="np")["pixel_values"]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_photo_cut_there_is_what_the_model_reads(name, size):
    kind, options = PROCESSORS[name]
    process, photo = pixels_of(kind(**options)), photo_of(*size)
    ((top, left, bottom, right),) = shown_parts(process, *size)
    black, white, shown = (
        process(image)[0] for image in (Image.new("RGB", size), Image.new("RGB", size, "white"), photo)
    )
    rows, columns = shown.shape[1:]
    y, x = (
        np.round((low + (high - low) * (np.arange(n) + 0.5) / n) * side - 0.5).astype(int)
        for low, high, n, side in ((top, bottom, rows, size[1]), (left, right, columns, size[0]))
    )
    inside = np.ix_((y >= 0) & (y < size[1]), (x >= 0) & (x < size[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        undone = ((shown - black) / (white - black)).transpose(1, 2, 0)[inside]
    expected = (np.asarray(photo) / 255)[np.ix_(y[(y >= 0) & (y < size[1])], x[(x >= 0) & (x < size[0])])]
    assert np.nanmax(np.abs(undone - expected)) < 0.12  # half a pixel of the photo at its edges
    assert np.nanmean(np.abs(undone - expected)) < 0.015
    assert np.isnan(undone).mean() < 0.1  # the photo is where it is said to be


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("stretched", (120, 80), WHOLE),
        ("cut at its sides", (120, 80), (0, 1 / 6, 1, 5 / 6)),
        ("cut on all sides", (120, 80), (0.1, 28 / 120, 0.9, 92 / 120)),
        ("padded", (120, 80), (-0.25, 0, 1.25, 1)),
        ("whole at the shortest edge", (640, 480), WHOLE),
    ],
)
def test_parts_as_calculated_by_hand(name, size, expected):
    kind, options = PROCESSORS[name]
    (found,) = shown_parts(pixels_of(kind(**options)), *size)
    assert found == pytest.approx(expected, abs=0.006)


def test_tiles_and_the_smaller_copy_before_them():
    processor = hf.LlavaNextImageProcessor(**CROPPED, image_grid_pinpoints=[[64, 128], [128, 64]])
    copy, left, right = shown_parts(pixels_of(processor), 200, 100)
    assert copy == WHOLE
    assert left == pytest.approx((0, 0, 1, 0.5), abs=0.006)
    assert right == pytest.approx((0, 0.5, 1, 1), abs=0.006)


def test_patches_without_rows_show_all_or_are_not_known():
    processor = hf.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=28 * 28 * 64)
    assert shown_parts(pixels_of(processor), 120, 80) == (WHOLE,)
    half = lambda image: pixels_of(processor)(image.crop((0, 0, 60, 80)))  # noqa: E731
    assert shown_parts(half, 120, 80) == (None,)


@pytest.mark.parametrize("turn", [Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_90])
def test_a_photo_that_does_not_stand_upright_is_not_known(turn):
    process = pixels_of(hf.ViTImageProcessor(size={"height": 64, "width": 64}))
    assert shown_parts(lambda image: process(image.transpose(turn)), 120, 80) == (None,)


def test_a_part_of_a_part():
    assert within((0.5, 0, 1, 0.5), (0.2, 0.1, 0.6, 0.9)) == pytest.approx((0.4, 0.1, 0.6, 0.5))
    assert within(WHOLE, (-0.25, 0, 1.25, 1)) == (-0.25, 0, 1.25, 1)
