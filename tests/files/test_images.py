"""Images of every kind become the same pixels; what is none is said in one line."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import images
from mhaviz.files.images import as_pixels, read_image

RED, BLUE = (200, 10, 20), (0, 40, 250)


@pytest.fixture
def photo():
    """Red over blue, wider than high."""
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:2], pixels[2:] = RED, BLUE
    return pixels


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "gif", "webp", "ppm"])
def test_formats_without_loss(tmp_path, photo, suffix):
    path = tmp_path / f"photo.{suffix}"
    Image.fromarray(photo).save(path, **({"lossless": True} if suffix == "webp" else {}))
    assert np.array_equal(read_image(path), photo)
    assert np.array_equal(as_pixels(str(path)), photo)


def test_a_jpeg_is_nearly_the_same(tmp_path):
    flat = np.full((16, 16, 3), RED, np.uint8)
    Image.fromarray(flat).save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - flat).max() <= 4


def test_a_photo_is_turned_as_it_was_held(tmp_path, photo):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(photo).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png"), np.rot90(photo, -1))


def test_transparent_is_white(tmp_path, photo):
    alpha = np.full((4, 6, 1), 255, np.uint8)
    alpha[0] = 0
    Image.fromarray(np.concatenate([photo, alpha], axis=2)).save(tmp_path / "a.png")
    seen = read_image(tmp_path / "a.png")
    assert (seen[0] == 255).all()
    assert np.array_equal(seen[1:], photo[1:])
    assert (as_pixels(np.concatenate([photo, alpha], axis=2)) == seen).all()


def test_palettes_with_a_transparent_colour(tmp_path, photo):
    image = Image.fromarray(photo).quantize(4)
    image.save(tmp_path / "a.png", transparency=int(np.asarray(image)[3, 0]))
    seen = read_image(tmp_path / "a.png")
    assert np.array_equal(seen[:2], photo[:2])
    assert (seen[2:] == 255).all()


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "HSV", "I", "I;16", "RGBa"])
def test_every_mode_of_pil(mode):
    grey = Image.fromarray(np.full((3, 5), 255, np.uint8))
    if mode in ("I", "I;16"):
        image = Image.fromarray(np.full((3, 5), 65535, {"I": np.int32, "I;16": np.uint16}[mode]))
    else:
        image = grey.convert("RGBA" if mode == "RGBa" else "RGB").convert(mode)
    assert image.mode == mode
    seen = as_pixels(image)
    assert (seen.shape, seen.dtype) == ((3, 5, 3), np.uint8)
    assert seen.min() >= 254


def test_sixteen_bits_of_a_file(tmp_path):
    Image.fromarray(np.array([[0, 32768, 65535]], np.uint16)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png")[0, :, 0].tolist() == [0, 128, 255]


def test_arrays(photo):
    assert np.array_equal(as_pixels(photo), photo)
    for grey in (photo[..., 0], photo[..., :1]):
        assert np.array_equal(as_pixels(grey), photo[..., :1].repeat(3, axis=2))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 2, 2), np.uint8), r"expected a uint8 array, .*got uint8 \(2, 2, 2\)"),
        (np.zeros((0, 2, 3), np.uint8), "expected a uint8 array"),
        (np.zeros((1, 2, 2, 3), np.uint8), "expected a uint8 array"),
        (np.zeros((2, 2, 3)), r"expected a uint8 array, .*got float64 \(2, 2, 3\)"),
        (None, "expected a path, a PIL image, or a uint8 array, got None"),
        (torch.zeros(3, 2, 2), "expected a path, a PIL image, or a uint8 array"),
    ],
)
def test_what_is_no_image(image, message):
    with pytest.raises(ArgumentError, match=f"image`: .*{message}"):
        as_pixels(image)


def png(size=(64, 64)):
    stream = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, size[::-1], np.uint8)
    Image.fromarray(noise).save(stream, "png")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is not an image that can be read: expected PNG, JPEG"),
        (b"hello", "it is not an image that can be read"),
        (b"<svg/>", "it is not an image that can be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is not an image that can be read"),
        (png()[:900], "image file is truncated"),
        (png()[:60], "image file is truncated|Truncated File Read|it is not an image"),
        (png()[:100] + bytes(500), "broken data stream|image file is truncated"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(MhavizError, match=f"cannot read .*a.png: ({message})") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(MhavizError, match=r"nothing\.png: No such file"):
        read_image(tmp_path / "nothing.png")
    with pytest.raises(MhavizError, match="Is a directory"):
        read_image(tmp_path)
    with pytest.raises(MhavizError, match="cannot read"):
        read_image(tmp_path / "a\0b")


def test_what_pil_logs_of_a_broken_file(tmp_path, capsys):
    Image.new("RGB", (4, 3)).save(tmp_path / "a.tiff")
    content = (tmp_path / "a.tiff").read_bytes()
    samples = (277).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little")
    assert content.count(samples) == 1
    at = content.index(samples) + len(samples)
    (tmp_path / "a.tiff").write_bytes(content[:at] + b"\xff\xff" + content[at + 2 :])
    with pytest.raises(MhavizError, match=r"a\.tiff: "):
        read_image(tmp_path / "a.tiff")
    assert capsys.readouterr() == ("", "")


def test_bombs_are_refused_before_they_are_unpacked(tmp_path):
    for side in (10_100, 14_000):  # PIL warns of the first, and refuses the second by itself
        Image.new("1", (side, side)).save(tmp_path / "bomb.png")
        with pytest.raises(MhavizError, match="could be decompression bomb DOS attack"):
            read_image(tmp_path / "bomb.png")


def test_pixels_that_are_no_whole_numbers():
    with pytest.raises(MhavizError, match=r"`image`: it cannot be read \(expected whole numbers for pixels"):
        as_pixels(Image.new("F", (2, 2)))


def test_large_images_are_kept_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MOST_SIDE", 8)
    Image.new("RGB", (32, 16), RED).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").shape == (4, 8, 3)
    assert as_pixels(np.zeros((16, 64), np.uint8)).shape == (2, 8, 3)
    assert as_pixels(Image.fromarray(np.zeros((64, 16), np.uint16))).shape == (8, 2, 3)
