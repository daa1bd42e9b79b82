"""Attention over an image, as a picture, in the terminal and as data."""

import io
import json
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, texts
from hostile import KINDS, acts
from PIL import Image

from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.pages.colormaps import FILM
from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.registry import RESULT_SUFFIXES, entry_of
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM
from mhaviz.results.result import Source
from mhaviz.views.colours import colours, over_image
from mhaviz.views.data import document, write_json
from mhaviz.views.figure import sheet as sheets
from mhaviz.views.lab import to_lab
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style

PHOTO = np.zeros((28, 42, 3), np.uint8)
PHOTO[:, :21], PHOTO[:, 21:] = (240, 240, 240), (20, 20, 20)
GREY = np.full((20, 20, 3), 128, np.uint8)


def over(rows=2, columns=3, n_special=1, heads=2, layers=1, query=None, photo=PHOTO, module="", weights=None):
    tokens = patch_tokens(rows, columns, n_special)
    if weights is None:
        weights = np.random.default_rng(0).random((layers, heads, len(tokens), len(tokens))).astype(np.float32)
        weights /= weights.sum(axis=-1, keepdims=True)
    axis = Axis(tokens)
    maps = tuple(AttentionMap(w, axis, axis, layer=i, module=module) for i, w in enumerate(weights))
    return Attention(Source("made by hand"), maps).over_image(photo, query)


def pixels_of(sheet):
    stream = io.BytesIO()
    sheet.save(stream, "png")
    return np.asarray(Image.open(io.BytesIO(stream.getvalue())))


def place_of(image, sheet):
    left, right, bottom, top = (round(inches * sheet.dpi) for inches in image.get_extent())
    return slice(top, bottom), slice(left, right)


def patches_of(image, sheet, grid):
    """The pixels of each patch in the decoded PNG, (rows, columns, side, side, 3)."""
    rows, columns = grid
    seen = pixels_of(sheet)[place_of(image, sheet)]
    side = seen.shape[0] // rows
    assert seen.shape == (rows * side, columns * side, 3)
    return seen.reshape(rows, side, columns, side, 3).swapaxes(1, 2)


def test_heads_of_a_row_stand_over_the_image_and_without_it():
    for record in (over(heads=3), over(layers=3, heads=1)):
        laid, plain = np.split(np.array([tile.get_extent() for tile in images(figure_of(record), "L")]), 2)
        np.testing.assert_allclose(laid[:, 0], plain[:, 0], atol=1e-6)
        assert (laid[:, 2] < plain[:, 3]).all()


def test_what_is_drawn_twice_is_at_fewer_pixels_than_asked_for_too(monkeypatch):
    whole = figure_of(over(heads=1), Style(dpi=100))
    monkeypatch.setattr(sheets, "MOST_AREA", 100_000)
    small = figure_of(over(heads=1), Style(dpi=100))
    assert small.dpi < whole.dpi
    assert len(small.page.images) == len(whole.page.images) == 3  # with the colour bar


def test_every_head_has_its_picture():
    record = over(layers=2, heads=3)
    sheet = figure_of(record)
    tiles = images(sheet, "L")
    assert len(tiles) == 12, "over the image, and beside it without"
    assert len(images(sheet, "scale of × uniform")) == 1
    shown = texts(sheet)
    assert {"attention of token 0 to the image, made by hand, layers 0 to 1", "made by hand"} <= set(shown)
    heads = ["H0", "H1", "H2"]
    assert [text for text in shown if text[0] in "LH"] == [*heads, "L0", "L1", *heads]
    for number, tile in enumerate(tiles):
        left, right, _, top = tile.get_extent()
        layer, head = tile.get_label().split()
        (_, y), *_ = places_of_text(sheet, layer)
        x, _ = places_of_text(sheet, head)[number // 6]
        assert left < x < right
        assert top < y < top + right - left
    assert len(images(figure_of(record, Style(width=3.3)), "L")) == 6, "too small for both in a column"


def places_of_text(sheet, wanted):
    return [text.get_position() for text in sheet.page.texts if text.get_text() == wanted]


def test_layers_of_other_heads_have_a_name_over_each():
    record = over(layers=2, heads=3)
    sheet = figure_of(replace(record, maps=(record.maps[0], replace(record.maps[1], heads=(3, 4, 5)))))
    assert {"L0 H2", "L1 H3"} <= set(texts(sheet))
    assert any("2 × 3 patches; uniform: 1/7 of the weight to each key" in text for text in texts(sheet))
    inside(sheet)


def test_a_patch_has_the_colour_of_its_multiple_of_uniform_wherever_the_image_is_the_same():
    weights = np.zeros((1, 1, 5, 5), np.float32)
    weights[0, 0, 0] = 0.1, 0.0, 0.2, 0.3, 0.4
    record = over(2, 2, heads=1, weights=weights, photo=GREY)
    times = np.array([[0, 1], [1.5, 2]], np.float32)  # 0.2 is uniform: there are five keys
    np.testing.assert_allclose(record.numbers(record.maps[0]), [times])
    sheet = figure_of(record)
    laid, plain = images(sheet, "L0 H0")
    scale = Scale(FILM, 1.0, 2.0)
    light = 0.72 + 0.28 * 128 / 255
    for picture, wanted in ((laid, colours(times, scale) * light), (plain, colours(times, scale))):
        seen = patches_of(picture, sheet, (2, 2))
        for row, column in np.ndindex(2, 2):
            inner = seen[row, column, 3:-3, 3:-3]
            assert (inner == inner[0, 0]).all()  # nothing is smoothed
        np.testing.assert_allclose(seen[:, :, 20, 20], wanted, atol=0.51)
    assert (colours(times, scale)[0] == 255).all()  # no more than uniform: clear


@pytest.mark.parametrize("colormap", [FILM, "bone", "viridis"])
def test_the_image_is_grey_and_pale_under_the_colours_of_the_scale(colormap):
    weights = np.linspace(0, 1, 9, dtype=np.float32).reshape(3, 3)
    plain = colours(weights, Scale(colormap)).repeat(2, axis=0).repeat(2, axis=1)
    for light in (0, 100, 255):
        image = np.full((6, 6, 3), light, np.uint8)
        seen = over_image(Panel("", weights, Scale(colormap), image=image), 6, 6)
        np.testing.assert_allclose(seen, plain * (0.72 + 0.28 * light / 255), atol=0.51)


def test_one_scale_for_all_layers_and_heads():
    weights = np.zeros((2, 2, 5, 5), np.float32)
    weights[0, 0, 0, 2], weights[1, 1, 0, 3] = 0.3, 0.5
    sheet = figure_of(over(2, 2, weights=weights, photo=GREY))
    assert {"2.5", "≤ 1"} <= set(texts(sheet))
    faint, dark = (
        to_lab(patches_of(images(sheet, label)[0], sheet, (2, 2)))[..., 0].min() for label in ("L0 H0", "L1 H1")
    )
    assert faint > dark + 15


def test_what_goes_to_special_tokens_is_said():
    weights = np.zeros((1, 2, 5, 5), np.float32)
    weights[0, :, 0, 0] = 0.25, 1.0
    sheet = figure_of(over(2, 2, weights=weights))
    assert any("0.25 to 1 of the weight goes to token 0" in text for text in texts(sheet))
    assert not any("goes to" in text for text in texts(figure_of(over(n_special=0))))


def test_numbers_that_are_no_shares_have_their_own_scale():
    record = over()
    norms = replace(record, quantity=NORM, maps=tuple(replace(m, uniform=None) for m in record.maps))
    sheet = figure_of(norms)
    assert "norm" in texts(sheet)
    assert not any("uniform" in text for text in texts(sheet))
    np.testing.assert_array_equal(norms.numbers(norms.maps[0]), norms.maps[0].weights)


def test_the_query_is_outlined():
    record = over(4, 4, query="1,2", photo=GREY)
    sheet, without = figure_of(record), figure_of(replace(record, maps=(replace(record.maps[0], patch=None),)))
    assert "attention of patch 1,2 to the image, made by hand, layer 0" in texts(sheet)
    assert any("outlined: the query" in text for text in texts(sheet))
    tile = images(sheet, "L0 H1")[0]
    changed = (patches_of(tile, sheet, (4, 4)) != patches_of(tile, without, (4, 4))).any(axis=(2, 3, 4))
    around = np.zeros((4, 4), bool)
    around[0:3, 1:4] = True
    assert changed[~around].sum() == 0
    assert changed[1, 1] and changed[1, 3] and changed[0, 2] and changed[2, 2]  # noqa: PT018


@pytest.mark.parametrize(("rows", "columns"), [(14, 14), (7, 14), (1, 40), (40, 1), (37, 37), (96, 96)])
@pytest.mark.parametrize(("heads", "width"), [(1, None), (5, 3.3)])
def test_patches_are_squares_of_whole_pixels(rows, columns, heads, width):
    n = rows * columns
    record = over(2, 2, heads=heads, n_special=0)
    maps = (replace(record.maps[0], weights=np.full((heads, rows, columns), 1 / n, np.float32)),)
    sheet = figure_of(replace(record, maps=maps), Style(dpi=150 if width else 60, width=width))
    for tile in images(sheet, "L0"):
        down, across = place_of(tile, sheet)
        side, rest = divmod(down.stop - down.start, rows)
        assert rest == 0
        assert across.stop - across.start == side * columns
    inside(sheet)


def test_layers_of_other_grids_stand_below_each_other():
    record = over(2, 2, layers=2)
    coarse = replace(record.maps[1], weights=np.full((2, 7, 7), 0.02, np.float32))
    sheet = figure_of(replace(record, maps=(record.maps[0], coarse)))
    assert [len(images(sheet, f"L{layer} H0")) for layer in range(2)] == [2, 2]
    assert any("2 × 2 and 7 × 7 patches" in text for text in texts(sheet))
    inside(sheet)


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 20), (4, 4), (2, 12), (12, 1), (12, 12)])
def test_pages_of_all_sizes(layers, heads):
    sheet = figure_of(over(layers=layers, heads=heads, module="encoder.layers.0.attention"), Style(dpi=40))
    inside(sheet)
    tiles = [place_of(tile, sheet) for tile in images(sheet, "L")]
    assert len(set(map(str, tiles))) == layers * heads * (2 if layers * heads <= 20 else 1)
    assert min(across.stop - across.start for _, across in tiles) >= 0.45 * 40
    width, height = sheet.get_size_inches()
    assert width <= 10.2
    assert height < 1.3 * width


def test_twelve_layers_of_twelve_heads_are_one_column_of_a_paper():
    sheet = figure_of(over(14, 14, layers=12, heads=12), Style(width=3.3))
    inside(sheet)
    width, height = sheet.get_size_inches()
    assert height < 1.5 * width


def test_heads_of_several_layers_are_a_row_a_layer():
    sheet = figure_of(over(layers=5, heads=8))
    rows = [{tuple(tile.get_extent()[2:]) for tile in images(sheet, f"L{layer} ")} for layer in range(5)]
    assert [len(row) for row in rows] == [1] * 5


def of_a_program(heads, layers=2, passes=2, examples=2):
    one = over(heads=heads, layers=layers, module="attn")
    inputs = [(pass_number, example) for pass_number in range(passes) for example in range(examples)]
    maps = tuple(
        replace(m, pass_number=10 + pass_number, sentence=example, module=f"blocks.{m.layer}.attn")
        for pass_number, example in inputs
        for m in one.maps
    )
    return replace(one, maps=maps)


@pytest.mark.parametrize("heads", [1, 3])
def test_pictures_of_a_program_say_of_which_pass_and_example_they_are(show, heads):
    record = of_a_program(heads)
    sheet = figure_of(record)
    inside(sheet)
    expected = {f"pass {10 + n}, example {example} L1 H0" for n in range(2) for example in range(2)}
    assert {name if heads == 1 else name.removesuffix(" H0") for name in expected} <= set(texts(sheet))
    shown = plain(show(view_of(record), 80))
    assert "blocks.*.attn" in shown
    assert all(one in shown for one in expected)
    assert not any("…" in text or "sentence" in text for text in [*texts(sheet), shown])


def test_a_film_of_one_head_names_every_frame_and_is_no_tower():
    sheet = figure_of(of_a_program(1, layers=1, passes=20))
    inside(sheet)
    assert {"pass 10, example 0 L0 H0", "pass 29, example 1 L0 H0"} <= set(texts(sheet))
    assert "attention of token 0 to the image, made by hand, layer 0, blocks.0.attn" in texts(sheet)
    width, height = sheet.get_size_inches()
    assert height < 2 * width


def test_style_of_papers():
    record = over(heads=4)
    sheet = figure_of(record, Style(width=3.3, font_size=6, title="Mine", cmap="bone", columns=2))
    assert sheet.get_size_inches()[0] == pytest.approx(3.3, abs=0.05)
    assert "Mine" in texts(sheet)
    with pytest.raises(ArgumentError, match=r"width`: expected at least .* inches for what is drawn"):
        figure_of(over(14, 14, heads=12), Style(width=1.5, columns=12, dpi=20))
    assert figure_of(record, Style(title="")).heading == ""


def test_the_end_of_the_scale_is_in_times_uniform():
    assert {"4", "≤ 1"} <= set(texts(figure_of(over(), Style(vmax=4))))
    with pytest.raises(ArgumentError, match=r"vmax`: expected more than 1 × uniform, got 0\.5"):
        figure_of(over(), Style(vmax=0.5))


def test_logarithmic():
    sheet = figure_of(over(), Style(log=True))
    assert "× uniform, log" in texts(sheet)


def test_all_weights_are_zero():
    weights = np.zeros((1, 1, 5, 5), np.float32)
    sheet = figure_of(over(2, 2, weights=weights))
    assert "2" in texts(sheet)  # what is nowhere more than uniform has no maximum


def test_an_image_of_another_shape_is_said_to_be_stretched():
    wide = over(photo=np.zeros((10, 60, 3), np.uint8))
    said = "the image, 60 × 10, is stretched to its patches; if the model crops it, crop it first"
    assert said in " ".join(texts(figure_of(wide))[::-1])  # lines of the foot, from the last up
    assert not any("stretched" in text for text in texts(figure_of(over())))


def test_it_has_every_format_of_pictures(tmp_path):
    record = over()
    assert entry_of(record).formats == RESULT_SUFFIXES
    record.save(*(tmp_path / f"a{suffix}" for suffix in RESULT_SUFFIXES))
    record.save(tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_maps_are_saved_as_maps(tmp_path):
    with pytest.raises(ArgumentError, match=r"expected a name ending in \.png, \.svg, \.pdf, \.json$"):
        over().save(tmp_path / "a.safetensors")


def test_document(show):
    stream = io.StringIO()
    record = over(n_special=2, query="1,2", module="blocks.0.attn")
    write_json(document(record), stream)
    found = json.loads(stream.getvalue())
    assert found["image"] == {"name": None, "width": 42, "height": 28}
    assert (found["query"], found["quantity"], len(found["maps"])) == ("1,2", "weight", 1)
    (m,) = found["maps"]
    assert (m["grid"], m["query_patch"], m["heads"], m["module"]) == ([2, 3], [1, 2], [0, 1], "blocks.0.attn")
    assert np.array_equal(np.array(m["weights"], np.float32), record.maps[0].weights)
    assert m["special"]["tokens"] == ["token 0", "token 1"]
    assert np.array_equal(np.array(m["special"]["weights"], np.float32), record.maps[0].special)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_terminal_shows_every_head(show, width):
    weights = np.zeros((1, 2, 7, 7), np.float32)
    weights[0, 0, 0, [0, 3, 6]] = 0.5, 0.375, 0.125
    shown = plain(show(view_of(over(weights=weights, photo=np.zeros((10, 60, 3), np.uint8))), width))
    words = " ".join(shown.split())
    assert "token 0" in words
    assert "2.62 × uniform" in words
    assert "L0 H0" in words
    assert "L0 H1" in words
    assert "is stretched to its patches" in words
    assert "made by hand" in words


def test_the_terminal_lays_cells_over_the_image_where_it_has_all_colours(show):
    record = over(2, 2, heads=1, photo=GREY)
    weights = record.numbers(record.maps[0])[0]
    wanted = over_image(Panel("", weights, Scale(FILM, 1.0, max(2.0, weights.max())), image=GREY), 2, 2)
    shown = show(view_of(record), 80, "truecolor")
    for rgb in wanted.reshape(-1, 3):
        assert ";".join(map(str, rgb)) in shown


@pytest.mark.parametrize("token", KINDS)
def test_hostile_texts_are_shown_and_do_nothing(show, token):
    tokens = Tokens((token, "0,0", "0,1"), (0,), grid=(1, 2))
    weights = np.full((2, 3, 3), 1 / 3, np.float32)
    maps = tuple(AttentionMap(weights, Axis(tokens), Axis(tokens), layer=i, module=token) for i in range(2))
    record = Attention(Source(token), maps).over_image(PHOTO)
    record = replace(record, image_name=token)
    for one in (record, replace(record, maps=record.maps[:1])):
        sheet = figure_of(one, Style(dpi=40))
        if one is record:
            sheet.save(io.BytesIO(), "png")
        if "\u0301" * 9 not in token:  # which are as high as they are many
            inside(sheet)
        assert acts("".join(texts(sheet))) == []
        for width in (30, 100):
            assert acts(plain(show(view_of(one), width))) == []
    assert json.loads(json.dumps(document(record)["query"])) == (token or "token 0")


def test_a_notebook_shows_it():
    assert b64decode(over()._repr_mimebundle_()["image/png"]).startswith(b"\x89PNG")
