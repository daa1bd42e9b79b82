"""Photos that a user gives for what a program has read: others, turned, cut, in grey, too few, too many, or none."""

import io

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.errors import ArgumentError

MIDDLE, MIDDLE_OF_TALL = (0.0, 0.25, 1.0, 0.75), (0.25, 0.0, 0.75, 1.0)
"""What of a photo twice as wide as high, or as high as wide, is cut out."""
WHOLE = (0.0, 0.0, 1.0, 1.0)
ROTATED = 6
"""The value of a camera that was held upright."""


def photo_of(width=120, height=60, seed=0):
    """Smooth shapes that are nowhere alike."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


WIDE, TALL, OTHER = photo_of(), photo_of(60, 120, 1), photo_of(90, 90, 2)


def cut(photo, side=32):
    """The middle of a photo, (3, side, side), as CLIP's processor makes it."""
    photo = photo.convert("RGB")
    size = [round(one * side / min(photo.size)) for one in photo.size]
    left, top = ((one - side) // 2 for one in size)
    photo = photo.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + side, top + side))
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1) / 255


class Eye(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 8, 8)

    def forward(self, images):
        x = self.patches(images).flatten(2).mT[:, None]
        return F.scaled_dot_product_attention(x, x, x)


def over(read, given):
    """The attention of the first patch of each photo that is read, over those that are given."""
    torch.manual_seed(0)
    eye = Eye().eval()
    with torch.no_grad(), mhaviz.record(eye, examples="all") as recording:
        eye(torch.stack([cut(photo) for photo in read]))
    return recording.attention.over_image(given, 0)


def boxes(found):
    return [tuple(view.box) for m in found.maps for view in m.views]


def sizes(found):
    """Width and height of what is drawn upon."""
    return [(photo.shape[1], photo.shape[0]) for photo in found.photos]


def saved(photo, **options):
    stream = io.BytesIO()
    photo.save(stream, **options)
    return Image.open(io.BytesIO(stream.getvalue()))


def near(box):
    return pytest.approx(box, abs=0.02)


def is_drawn_as_read(found):
    """Over the picture that the program has read, and over no photo."""
    return (found.n_unplaced, sizes(found), boxes(found)) == (1, [(32, 32)], [WHOLE])


@pytest.mark.parametrize("factor", [0.5, 1, 7])
def test_a_photo_of_another_size_than_what_was_cut_out_of_it(factor):
    given = WIDE.resize([int(side * factor) for side in WIDE.size], Image.Resampling.BICUBIC)
    found = over([WIDE], given)
    assert (found.n_unplaced, sizes(found)) == (0, [given.size])
    assert boxes(found) == [near(MIDDLE)]


def test_a_tall_photo():
    assert boxes(over([TALL], TALL)) == [near(MIDDLE_OF_TALL)]


def test_a_photo_in_grey():
    grey = WIDE.convert("L")
    assert boxes(over([grey], grey)) == [near(MIDDLE)]
    assert boxes(over([grey], np.asarray(grey))) == [near(MIDDLE)]


def test_the_colours_of_a_photo_that_was_read_in_grey_are_its_own_or_no_photo():
    found = over([WIDE.convert("L")], WIDE)
    assert is_drawn_as_read(found) or boxes(found) == [near(MIDDLE)]


@pytest.mark.parametrize("opacity", [255, 100])
def test_a_photo_with_alpha(opacity):
    clear = WIDE.convert("RGBA")
    clear.putalpha(opacity)
    found = over([clear], clear)  # which the program reads without it, and is shown on white
    assert (found.n_unplaced, sizes(found)) == (0, [WIDE.size])
    assert boxes(found) == [near(MIDDLE)]


def test_a_photo_that_is_clear_in_parts_is_at_its_place_or_drawn_as_it_was_read():
    clear = WIDE.convert("RGBA")
    clear.paste((*WIDE.getpixel((80, 30)), 0), (40, 0, 80, 60))
    found = over([clear], clear)
    assert is_drawn_as_read(found) or boxes(found) == [near(MIDDLE)]


def test_a_photo_of_a_camera_that_was_turned():
    exif = Image.Exif()
    exif[0x0112] = ROTATED
    turned = saved(WIDE, format="JPEG", quality=95, exif=exif)
    upright = over([ImageOps.exif_transpose(turned)], turned)
    assert (upright.n_unplaced, sizes(upright)) == (0, [(60, 120)])
    assert boxes(upright) == [near(MIDDLE_OF_TALL)]
    assert is_drawn_as_read(over([turned], turned)), "the program has read it lying on its side"


@pytest.mark.parametrize("of", [lambda one: ImageOps.mirror(one), lambda one: ImageOps.flip(one)])
def test_a_photo_that_was_mirrored_is_another(of):
    assert is_drawn_as_read(over([WIDE], of(WIDE)))


@pytest.mark.parametrize("given", [[WIDE, TALL], [TALL, WIDE], [OTHER, TALL, WIDE]], ids=["both", "turned", "more"])
def test_photos_of_a_batch_are_each_in_its_place_in_any_order(given):
    found = over([WIDE, TALL], given)
    assert found.n_unplaced == 0
    drawn = [sizes(found)[found.numbers.index(view.image)] for m in found.maps for view in m.views]
    assert drawn == [WIDE.size, TALL.size]
    assert boxes(found) == [near(MIDDLE), near(MIDDLE_OF_TALL)]


def test_one_photo_of_a_batch_of_two():
    found = over([WIDE, TALL], WIDE)
    assert (found.n_unplaced, sizes(found)) == (1, [WIDE.size, (32, 32)])
    assert boxes(found) == [near(MIDDLE), WHOLE]


def test_of_two_photos_the_one_that_was_read():
    found = over([TALL], [WIDE, TALL])
    assert (found.n_unplaced, sizes(found)) == (0, [TALL.size])
    assert boxes(found) == [near(MIDDLE_OF_TALL)]


@pytest.mark.parametrize(
    "given",
    [[WIDE, TALL], WIDE, Image.new("RGB", (90, 90)), Image.new("RGB", (1, 1)), Image.effect_noise((90, 90), 80)],
    ids=["two", "one", "black", "pixel", "noise"],
)
def test_a_photo_that_was_not_read(given):
    assert is_drawn_as_read(over([OTHER], given))


def test_a_photo_of_one_colour_is_nowhere():
    red, grey = (Image.new("RGB", (90, 90), colour) for colour in ("red", "grey"))
    assert is_drawn_as_read(over([red], red))
    with pytest.raises(ArgumentError) as refused:
        over([grey], grey)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("place", [(0, 0, 60, 60), (15, 0, 75, 60)])
def test_what_is_in_a_photo_many_times_is_nowhere(place):
    tiled = Image.fromarray(np.tile(np.asarray(photo_of(30, 30)), (2, 4, 1)))
    assert is_drawn_as_read(over([tiled.crop(place)], tiled))


def test_a_text_without_an_image():
    pytest.importorskip("transformers")
    from seeing import language_model

    torch.manual_seed(0)
    model = language_model().eval()
    with torch.no_grad(), mhaviz.record(model, examples="all") as recording:
        model(input_ids=torch.arange(3, 15)[None])
    with pytest.raises(ArgumentError, match="it is not known which of 12 tokens are patches of an image") as refused:
        recording.attention.over_image(WIDE)
    assert "\n" not in str(refused.value)
