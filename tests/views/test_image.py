"""Attention over images, as a picture, in the terminal and as data."""

import io
import json
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, letters, texts
from hostile import KINDS, acts
from PIL import Image

from mhaviz.errors import ArgumentError
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens, patch_names, patch_tokens
from mhaviz.pages.image import SCALE
from mhaviz.pages.overlays import PatchPicture
from mhaviz.pages.registry import RESULT_SUFFIXES, entry_of, page_of
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.views.colours import colours
from mhaviz.views.data import document, write_json
from mhaviz.views.lab import to_lab
from mhaviz.views.photos import COLOUR, LIGHT, lit_photo
from mhaviz.views.showing import figure_of, figures_of, view_of
from mhaviz.views.style import Style
from mhaviz.views.terminal.safe_console import SafeConsole

PHOTO = np.zeros((28, 42, 3), np.uint8)
PHOTO[:, :21], PHOTO[:, 21:] = (240, 120, 30), (20, 20, 60)
PLAIN = np.full((60, 60, 3), (200, 100, 0), np.uint8)


def of_weights(weights, tokens, photo=PHOTO, query=None, name="made by hand", **more):
    """Weights (layers, heads, n, n) over a photo."""
    axis = Axis(tokens)
    maps = tuple(AttentionMap(np.asarray(w, np.float32), axis, axis, layer=i, **more) for i, w in enumerate(weights))
    return Attention(Source(name), maps).over_image(photo, query)


def over(rows=6, columns=9, heads=2, layers=1, query=None, photo=PHOTO, peaked=3.0, **more):
    n = rows * columns + 1
    logits = peaked * np.random.default_rng(0).normal(size=(layers, heads, n, n))
    weights = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return of_weights(weights, patch_tokens(rows, columns, 1), photo, query, **more)


def of_row(row, rows, columns, photo=PLAIN, **more):
    """One head all of whose queries have the same weights of a class token and patches."""
    tokens = Tokens(("[CLS]", *patch_names(rows, columns)), (0,), images=(PatchGrid.run(rows, columns, 1),))
    return of_weights(np.broadcast_to(np.array(row), (1, 1, len(row), len(row))), tokens, photo, **more)


def peaks(rows=6, columns=6, cls=0.5):
    """Half of what lies on the patches is on two of them; the others are even."""
    row = np.full(rows * columns, 0.5 / (rows * columns - 2))
    row[[0, columns + 1]] = 0.3, 0.2
    return np.array([cls, *(row * (1 - cls))])


def pixels_of(sheet):
    stream = io.BytesIO()
    sheet.save(stream, "png")
    return np.asarray(Image.open(io.BytesIO(stream.getvalue())))


def middles(image, sheet, rows, columns):
    """Colour in the middle of each patch in the decoded PNG, (rows, columns, 3)."""
    left, right, bottom, top = (inches * sheet.dpi for inches in image.get_extent())
    ys = np.round(top + (np.arange(rows) + 0.5) * (bottom - top) / rows).astype(int)
    xs = np.round(left + (np.arange(columns) + 0.5) * (right - left) / columns).astype(int)
    return pixels_of(sheet)[ys][:, xs]


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_photo_and_its_map_are_in_line():
    sheet = figure_of(over(heads=4))
    assert [one.get_label() for one in images(sheet, "photo")] == [f"photo of L0 H{i}" for i in range(4)]
    for photo, cells in zip(images(sheet, "photo"), images(sheet, "L0"), strict=True):
        above, below = photo.get_extent(), cells.get_extent()
        assert above[:2] == pytest.approx(below[:2])
        assert 0 < below[3] - above[2] < 0.2
        assert (above[1] - above[0]) / (above[2] - above[3]) == pytest.approx(42 / 28, rel=0.05)
    alone = figure_of(over(heads=1))
    photo, cells = images(alone, "photo")[0].get_extent(), images(alone, "L0")[0].get_extent()
    assert photo[2:] == pytest.approx(cells[2:])
    assert photo[1] < cells[0]


def test_patches_that_hold_half_keep_their_light_and_others_are_dim():
    sheet = figure_of(of_row(peaks(), 6, 6))
    seen = middles(images(sheet, "photo")[0], sheet, 6, 6).astype(float)
    colour = PLAIN[0, 0].astype(float)
    dim = LIGHT * (COLOUR * colour + (1 - COLOUR) * colour.mean())
    lit = np.zeros((6, 6), bool)
    lit[[0, 1], [0, 1]] = True
    np.testing.assert_allclose(seen, np.where(lit[..., None], colour, dim), atol=1)
    assert (LIGHT, COLOUR) == (0.72, 0.45)


def test_an_even_photo_is_untouched():
    sheet = figure_of(of_row(np.full(37, 1 / 37), 6, 6))
    assert (middles(images(sheet, "photo")[0], sheet, 6, 6) == PLAIN[0, 0]).all()
    assert any("half in 18 of 36: even" in text for text in texts(sheet))
    assert texts(sheet)[0] == "[CLS] looks evenly at the image: half of it takes 18 of 36 patches"
    assert not any("outlined" in text for text in texts(sheet))


def test_a_cell_has_the_colour_of_its_multiple_of_uniform():
    row = np.array([0.2, *(np.array([16, 8, 4, 2, 1, 0.5, 0.25, 0.125, 0.06, 0, *[0.8] * 26]) / 100)])
    record = of_row(row, 6, 6)
    times = record.maps[0].times_uniform(0)[0]
    sheet = figure_of(record)
    cells = images(sheet, "L0 H0")[0]
    wanted = colours(np.clip(times, 1 / 8, 8).astype(np.float32), SCALE)
    np.testing.assert_allclose(middles(cells, sheet, 6, 6).astype(int), wanted, atol=1)
    assert (cells.norm.vmin, cells.norm.vmax) == (1 / 8, 8)
    assert (colours(np.float32([1.0]), SCALE) >= 254).all()
    assert {"≤ 1/8", "1", "≥ 8"} <= set(texts(sheet))


def test_the_scale_runs_from_grey_through_white_to_dark_red():
    lightness = to_lab(colours(np.geomspace(1 / 8, 8, 65).astype(np.float32), SCALE))[:, 0]
    assert (np.diff(lightness[:33]) >= -1e-9).all()
    assert (np.diff(lightness[32:]) <= 1e-9).all()
    assert lightness[-1] < lightness[0] - 20, "what stands out is darkest"


def test_the_query_is_outlined_in_both_pictures_and_stays_visible():
    record = over(6, 6, photo=PLAIN, query="2,3")
    sheet = figure_of(record)
    without = replace(record, maps=(replace(record.maps[0], views=(replace(record.maps[0].views[0], patch=None),)),))
    bare = figure_of(without)
    for label in ("photo of L0 H1", "L0 H1"):
        first, second = (pixels_of(one) for one in (sheet, bare))
        changed = np.argwhere((first != second).any(axis=2)) if first.shape == second.shape else None
        assert changed is None or len(changed)
        assert (
            middles(images(sheet, label)[0], sheet, 6, 6)[2, 3] == middles(images(bare, label)[0], bare, 6, 6)[2, 3]
        ).all()
    assert any("cyan: the query" in text for text in texts(sheet))
    assert not any("cyan" in text for text in texts(bare))


def test_titles_say_in_how_many_patches_half_lies():
    assert texts(figure_of(of_row(peaks(), 6, 6)))[0] == "In the image, [CLS] looks mostly at 2 of 36 patches"
    several = of_weights(
        np.stack([np.broadcast_to(row, (1, 37, 37)) for row in (peaks(), np.full(37, 1 / 37))]),
        patch_tokens(6, 6, 1),
        PLAIN,
        "1,1",
    )
    said = "In the image, patch 1,1 looks mostly at 2 of 36 patches (L0 H0; even in L1 H0)"
    assert page_of(several).title == said
    few = of_row([0.2, 0.5, 0.1, 0.1, 0.1], 2, 2)
    assert page_of(few).title == "In the image, [CLS] looks most at patch 0,0: 2.5 × uniform"
    row = np.full(65, 0.005)
    row[30] = 0.05
    assert page_of(of_row(row, 8, 8)).title == "In the image, [CLS] looks evenly, except at patch 3,5: 8.8 × uniform"
    row = np.full(197, 0.005)
    row[[10, 11, 30]] = 0.05
    said = "In the image, [CLS] looks evenly, except at 3 of 196 patches: up to 8.8 × uniform"
    assert page_of(of_row(row, 14, 14)).title == said
    assert page_of(of_row([1.0, *[0] * 36], 6, 6)).title == "[CLS] does not look at the image"
    by_chance = replace(over(), source=Source("seed 0", {"kind": RANDOM_WEIGHTS}))
    assert page_of(by_chance).title.endswith(", by chance: the weights are random")


def test_titles_of_means_and_of_keys():
    axis = Axis(patch_tokens(6, 6))
    weights = np.random.default_rng(0).dirichlet(np.full(36, 0.1), (2, 2, 36)).astype(np.float32)
    attention = Attention(Source("made"), tuple(AttentionMap(w, axis, axis, layer=i) for i, w in enumerate(weights)))
    title = page_of(attention.over_image(PLAIN)).title
    assert title.startswith(
        (
            "In the image, the average patch looks mostly at",
            "Half of what the average patch looks at",
            "The average patch looks evenly at",
        )
    )
    key = page_of(attention.over_image(PLAIN, key="1,1", layer=0, head=0))
    assert re.fullmatch(r"Patch 1,1 is looked at mostly by \d+ of 36 patches", key.title)
    (block,) = key.blocks
    assert any("on average" in form for forms in block.heads[0].notes for form in forms)
    mean = page_of(attention.over_image(PLAIN, "1,1", mean=("heads", "layers"))).title
    assert mean.endswith(" patches (mean over heads and 2 layers)")


def test_what_goes_elsewhere_is_said_by_name():
    sheet = figure_of(of_row(peaks(cls=0.9), 6, 6))
    assert {"half in 2 of 36", "[CLS] takes 90%"} <= set(texts(sheet))
    assert any("; 90% of the weight goes to [CLS]" in text for text in texts(sheet))


def test_no_token_is_called_by_its_number_where_it_has_a_name():
    record = over(query="2,3")
    said = " ".join([page_of(record).title, *texts(figure_of(record))])
    assert "patch 2,3" in said
    assert not re.search(r"token 0|query \d", said)
    assert "token #0" in page_of(over()).title


@pytest.mark.slow
@pytest.mark.parametrize("width", [None, 3.3, 5.0, 7.0])
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 4), (3, 4), (1, 20), (4, 4), (12, 1), (12, 12), (5, 8)])
def test_every_head_has_its_map_in_pages_of_all_sizes(layers, heads, width):
    sheet = figure_of(over(6, 6, heads=heads, layers=layers, photo=PLAIN), Style(dpi=60, width=width))
    inside(sheet)
    found = {one.get_label() for one in images(sheet, "L")}
    assert found == {f"L{layer} H{head}" for layer in range(layers) for head in range(heads)}
    n_photos = layers * heads if layers * heads <= 12 else 1
    assert len(images(sheet, "photo")) == n_photos
    assert min(letters(sheet)) >= 6
    across, down = sheet.get_size_inches()
    assert across <= (width or 10.2) + 0.05
    assert down < 2.6 * across


@pytest.mark.slow
@pytest.mark.parametrize("room", ["slide", "column", "page"])
@pytest.mark.parametrize("n_heads", [1, 4, 12, 144])
def test_a_page_fits_its_room(room, n_heads):
    sizes = {"slide": (13.3, 7.5), "column": (3.3, 9.0), "page": (6.5, 9.0)}
    layers = 12 if n_heads == 144 else 1
    (sheet,) = figures_of(over(6, 6, heads=n_heads // layers, layers=layers, photo=PLAIN), Style(room=room, dpi=60))
    across, down = sheet.get_size_inches()
    assert across == pytest.approx(sizes[room][0], abs=0.1)
    assert down <= sizes[room][1] + 0.1
    assert min(letters(sheet)) >= 6
    assert len({one.get_label() for one in images(sheet, "L")}) == n_heads


def test_many_heads_have_the_photo_once_and_names_of_rows_and_columns():
    sheet = figure_of(over(6, 6, heads=12, layers=12, photo=PLAIN))
    assert len(images(sheet, "photo")) == 1
    assert {f"L{i}" for i in range(12)} | {f"H{i}" for i in range(12)} <= set(texts(sheet))
    (block,) = page_of(over(6, 6, heads=12, layers=12, photo=PLAIN)).blocks
    assert block.by_peak[0].name in texts(sheet)
    corners = {one.get_label(): one.get_extent() for one in images(sheet, "L")}
    assert corners["L3 H4"][0] == pytest.approx(corners["L7 H4"][0])
    assert corners["L3 H4"][3] == pytest.approx(corners["L3 H9"][3])


def test_without_a_photo_the_maps_are_outlined():
    record = of_row(peaks(), 6, 6, photo=None)
    sheet = figure_of(record)
    assert not images(sheet, "photo")
    assert len(images(sheet, "L0 H0")) == 1
    assert "outlined: the fewest patches that hold half" in " ".join(texts(sheet))


def frames(n=4, heads=1, photo=True):
    grids = tuple(PatchGrid.run(3, 4, 1 + 12 * i) for i in range(n))
    grids = tuple(replace(grid, name=f"frame {i}", image=i) for i, grid in enumerate(grids))
    names = [label for grid in grids for label in grid.labels().values()]
    row = np.full(1 + 12 * n, 0.4 / (12 * n))
    row[1 + 12 + 3], row[1 + 24 + 3], row[0] = 0.3, 0.2, 0.1
    row /= row.sum()
    axis = Axis(Tokens(("[CLS]", *names), (0,), images=grids))
    maps = (AttentionMap(np.broadcast_to(row, (heads, len(row), len(row))).astype(np.float32), axis, axis),)
    return Attention(Source("made by hand"), maps).over_image([PHOTO] * n if photo else None, "frame 2 0,1")


@pytest.mark.parametrize("width", [None, 3.3])
def test_frames_are_a_strip_with_a_bar_each(width):
    record = frames()
    sheet = figure_of(record, Style(width=width))
    inside(sheet)
    said = "In the frames, patch 0,1 of frame 2 looks mostly at 2 of 48 patches, in frames 1 and 2"
    assert page_of(record).title == said
    shares = [round(100 * share) for share in record.maps[0].view_shares(0)]
    name = "" if width else "frame "  # of all frames in one form
    assert {f"{name}{i}: {share}%" for i, share in enumerate(shares)} <= set(texts(sheet))
    assert len(images(sheet, "photo")) == len(images(sheet, "L0 H0")) == 4
    assert len({one.get_extent()[3] for one in images(sheet, "photo")}) == 1
    bold = [text.get_text() for text in sheet.page.texts if text.get_weight() == "bold"]
    assert {f"{name}1: {shares[1]}%", f"{name}2: {shares[2]}%"} <= set(bold)


def test_heads_of_frames_that_have_no_room_are_said_to_be_left_out():
    sheet = figure_of(frames(heads=20), Style(dpi=40))
    assert any("most peaked heads are drawn; 14 more have no room" in notice for notice in sheet.notices)


def test_tiles_cover_their_part_of_the_photo():
    picture = PatchPicture(
        np.ones((2, 2), np.float32), np.zeros((2, 2), bool), photo=PLAIN, box=(0.0, 0.5, 0.5, 1.0), name="tile 2"
    )
    seen = lit_photo(picture, 40, 40)
    assert (seen[:20, 20:] == PLAIN[0, 0]).all()
    assert (seen[20:] != PLAIN[0, 0]).any(axis=2).all()
    assert (seen[:, :20] != PLAIN[0, 0]).any(axis=2).all()
    assert picture.slope == 1
    assert replace(picture, photo=None).slope == 1


def test_what_a_query_does_not_see_is_blank_and_dim():
    grid = PatchGrid(
        4, 4, tuple(int(i) for i in np.where(np.arange(16) % 4 < 2, np.arange(16) // 4 * 2 + np.arange(16) % 4, -1))
    )
    tokens = Tokens(tuple(grid.labels()[i] for i in range(8)), images=(grid,))
    record = of_weights(np.full((1, 1, 8, 8), 1 / 8), tokens, PLAIN, "0,0")
    sheet = figure_of(record)
    seen = middles(images(sheet, "photo")[0], sheet, 4, 4)
    assert (seen[:, :2] == PLAIN[0, 0]).all()
    assert (seen[:, 2:] != PLAIN[0, 0]).any(axis=2).all()
    assert np.array_equal(
        np.isnan(images(sheet, "L0 H0")[0].get_array().filled(np.nan)), np.arange(16).reshape(4, 4) % 4 > 1
    )
    assert any("blank: not seen" in text for text in texts(sheet))


def test_pictures_of_a_program_say_of_which_pass_and_example_they_are(show):
    one = over(heads=3, layers=2)
    maps = tuple(
        replace(m, pass_number=10 + n, sentence=example, module=f"blocks.{m.layer}.attn")
        for n in range(2)
        for example in range(2)
        for m in one.maps
    )
    record = replace(one, maps=maps)
    sheet = figure_of(record, Style(dpi=40))
    inside(sheet)
    names = {head.name for head in page_of(record).blocks[0].heads}
    assert {f"pass {10 + n}, example {e} L1 H2" for n in range(2) for e in range(2)} <= names
    assert "pass 1" in plain(show(view_of(record), 100))


def test_layers_of_other_grids_share_a_page():
    fine, coarse = over(8, 8, heads=2), over(6, 6, heads=2)
    record = replace(fine, maps=(fine.maps[0], replace(coarse.maps[0], layer=1)))
    sheet = figure_of(record)
    inside(sheet)
    shapes = [one.get_array().shape for one in images(sheet, "L")]
    assert shapes == [(8, 8), (8, 8), (6, 6), (6, 6)]
    assert any("8 × 8 and 6 × 6 patches" in text for text in texts(sheet))


def test_numbers_that_are_no_weights_are_named():
    record = replace(over(), quantity=NORM)
    assert not any("of the weight" in text for text in texts(figure_of(record)))


def test_style_of_papers():
    record = over(heads=4)
    sheet = figure_of(record, Style(width=3.3, font_size=6, title="Mine", cmap="bone", columns=2))
    assert sheet.get_size_inches()[0] == pytest.approx(3.3, abs=0.05)
    assert "Mine" in texts(sheet)
    assert len({round(one.get_extent()[0], 3) for one in images(sheet, "L")}) == 2
    assert figure_of(record, Style(title="")).heading == ""


def test_the_end_of_the_scale_may_be_chosen():
    assert {"≤ 1/4", "≥ 4"} <= set(texts(figure_of(over(), Style(vmax=4))))
    with pytest.raises(
        ArgumentError, match=r"vmax`: expected more than 1 × uniform, the middle of the scale, got 0\.5"
    ):
        figure_of(over(), Style(vmax=0.5))


def test_an_image_of_another_shape_is_said_to_be_stretched():
    said = "the image, 60 × 10, is stretched to its patches; if the model crops it, crop it first"
    wide = figure_of(over(photo=np.zeros((10, 60, 3), np.uint8)))
    assert said in " ".join(texts(wide)[::-1])  # lines of the foot, from the last up
    assert not any("stretched" in text for text in texts(figure_of(over())))


def of_tiles(n_heads=1, layers=1):
    """A thumbnail of 4 × 4 patches and tiles of 8 × 8, of one photo; half of all is in two patches of the tiles."""
    small, large = replace(PatchGrid.run(4, 4), name="thumbnail"), replace(PatchGrid.run(8, 8, 16), name="tiles")
    grids = (small, large)
    names = [label for grid in grids for label in grid.labels().values()]
    row = np.full(81, 0.4 / 78)
    row[[20, 21]], row[80] = 0.3, 0.1
    row[:16] += 0.001
    axis = Axis(Tokens((*names, "cat"), images=grids))
    weights = np.broadcast_to(row / row.sum(), (n_heads, 81, 81)).astype(np.float32)
    maps = tuple(AttentionMap(weights, axis, axis, layer=layer) for layer in range(layers))
    return Attention(Source("made by hand"), maps).over_image(PHOTO, "cat")


@pytest.mark.parametrize("width", [None, 3.3, 5.0, 7.0])
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 4)])
def test_tiles_and_thumbnail_are_named_with_their_shares(layers, heads, width):
    record = of_tiles(heads, layers)
    sheet = figure_of(record, Style(dpi=60, width=width))
    inside(sheet)
    said = texts(sheet)
    assert {"tiles", "thumbnail"} <= {text.partition(":")[0] for text in said}
    assert not any("…" in text for text in said)
    assert min(letters(sheet)) >= 6
    assert "thumbnail 4 × 4 and tiles 8 × 8 patches" in " ".join(said)
    where = "" if layers == heads == 1 else " (L0 H0)"
    assert page_of(record).title == f"In the image, “cat” looks mostly at 2 of 80 patches, in the tiles{where}"


def test_heads_with_few_views_stand_side_by_side_and_fill_the_page():
    sheet = figure_of(of_tiles(4, 2))
    photos = images(sheet, "photo")
    assert len(photos) == 16
    assert len({round(one.get_extent()[3], 2) for one in photos}) == 2, "a row for each layer"
    right = max(one.get_extent()[1] for one in photos)
    assert right > 0.9 * sheet.get_size_inches()[0]


@pytest.mark.slow
def test_one_head_of_many_that_has_room_is_said_to_be_one():
    sheet = figure_of(frames(n=40, heads=9), Style(dpi=40, room="slide"))
    assert not any("1 most peaked heads" in notice for notice in sheet.notices)


def test_what_lies_outside_of_the_patches_is_pale_and_said():
    whole = over(6, 6, heads=1, photo=PLAIN)
    part = replace(whole.maps[0], views=(replace(whole.maps[0].views[0], box=(0.0, 0.25, 1.0, 0.75), is_placed=True),))
    record = replace(whole, maps=(part,))
    sheet = figure_of(record)
    photo = middles(images(sheet, "photo")[0], sheet, 6, 12).astype(int)
    assert photo[:, [0, 1, -1]].sum(axis=2).min() > photo[:, 3:9].sum(axis=2).max()
    said = " ".join(texts(sheet))
    assert "pale: outside of the patches" in said
    assert "the patches cover the middle 50% of the image" in said
    assert not any("pale" in text or "cover" in text for text in texts(figure_of(whole)))


def test_padding_is_striped_and_said():
    whole = over(6, 6, heads=1, photo=PLAIN)
    record = replace(whole, photo_boxes=((0.25, 0.0, 0.75, 1.0),))
    sheet = figure_of(record)
    assert any("striped: padding" in text for text in texts(sheet))
    photo = images(sheet, "photo")[0].get_array()
    assert len(np.unique(photo[0].reshape(-1, photo.shape[2])[:, 0])) == 2
    assert "cover" not in " ".join(texts(sheet)), "all of the photo"


def test_patches_that_are_not_there_beyond_the_photo_are_not_drawn():
    times = np.ones((6, 4), np.float32)
    times[[0, -1]] = np.nan
    picture = PatchPicture(times, times > 2, photo=PLAIN, box=(-0.25, 0.0, 1.25, 1.0), query=(1, 2))
    found = picture.within_photo()
    assert (found.times.shape, found.box, found.query) == ((4, 4), (0, 0, 1, 1), (0, 2))
    assert found.seen.all()
    inner = replace(picture, box=(0.0, 0.0, 1.0, 1.0))
    assert inner.within_photo() is inner, "hidden"


@pytest.mark.parametrize(
    ("n_given", "said"),
    [
        (0, "the picture is what the model has read"),
        (1, "the model has read an image that is not among those given; drawn as it was read"),
    ],
)
def test_photos_that_are_what_was_read_are_said(show, n_given, said):
    record = replace(over(), n_given=n_given, n_unplaced=1)
    assert said in " ".join(texts(figure_of(record)))
    assert said in " ".join(plain(show(view_of(record), 200)).split())


def test_small_print_has_one_range_of_percents_for_each_kind():
    rows = np.stack([np.broadcast_to(peaks(cls=share), (1, 37, 37)) for share in (0.0001, 0.23)])
    tokens = Tokens(("cls_token", *patch_names(6, 6)), (0,), images=(PatchGrid.run(6, 6, 1),))
    record = of_weights(rows, tokens, PLAIN)
    assert "; at most 23% of the weight goes to the class token" in " ".join(texts(figure_of(record)))
    assert page_of(record).title == "In the image, the class token looks mostly at 2 of 36 patches (L0 H0)"
    low = of_weights(rows[1:], tokens, PLAIN)
    assert "; 23% of the weight goes to the class token" in " ".join(texts(figure_of(low)))


@pytest.mark.parametrize(("height", "heads"), [(24, 12), (50, 12), (30, 2)])
def test_it_takes_no_more_than_a_screen_of_the_terminal(height, heads):
    stream = io.StringIO()
    console = SafeConsole(file=stream, width=80, height=height, color_system="truecolor", force_terminal=True)
    console.most_lines = 3 * height
    console.print(view_of(over(14, 14, heads=heads, photo=PLAIN)))
    shown = plain(stream.getvalue()).splitlines()
    assert len(shown) < height
    assert all(len(line) <= 80 for line in shown)
    assert any(line.startswith("  ") and "L0 H" in line for line in shown), "a map"


def test_it_has_every_format_of_pictures(tmp_path):
    record = over(query="2,3")
    assert set(RESULT_SUFFIXES) <= set(entry_of(record).formats)
    record.save(*(tmp_path / f"a{suffix}" for suffix in RESULT_SUFFIXES))
    record.save(tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_maps_are_saved_as_maps(tmp_path):
    with pytest.raises(ArgumentError, match=r"expected a name ending in \.png, \.svg, \.pdf, \.json"):
        over().save(tmp_path / "a.safetensors")


def test_document():
    stream = io.StringIO()
    record = over(2, 3, query="1,2", module="blocks.0.attn")
    write_json(document(record), stream)
    found = json.loads(stream.getvalue())
    assert found["image"] == {"name": None, "width": 42, "height": 28}
    assert (found["query"], found["of"], found["quantity"], len(found["maps"])) == ("1,2", "patch", "weight", 1)
    (m,) = found["maps"]
    assert (m["grid"], m["query_patch"], m["heads"], m["module"]) == ([2, 3], [1, 2], [0, 1], "blocks.0.attn")
    weights = record.maps[0].weights
    assert np.array(m["weights"]) == pytest.approx(weights, rel=1e-6)
    assert m["inside"] == pytest.approx(weights.sum(axis=(1, 2)), rel=1e-6)
    assert m["special"]["kinds"] == ["others"]
    assert np.array(m["special"]["weights"][0]) == pytest.approx(1 - np.array(m["inside"]), abs=1e-6)
    (view,) = m["views"]
    assert (view["grid"], view["box"], view["image"], view["uniform_share"]) == (
        [2, 3],
        [0, 0, 1, 1],
        0,
        pytest.approx(1),
    )
    assert np.array(view["times_uniform"]) == pytest.approx(
        6 * weights / weights.sum(axis=(1, 2), keepdims=True), rel=1e-5
    )
    assert m["half"] == list(record.maps[0].half)


def test_a_document_of_frames_has_their_views():
    stream = io.StringIO()
    write_json(document(frames()), stream)
    found = json.loads(stream.getvalue())
    assert len(found["images"]) == 4
    (m,) = found["maps"]
    assert "weights" not in m
    assert [view["name"] for view in m["views"]] == [f"frame {i}" for i in range(4)]
    assert [view["query_patch"] for view in m["views"]] == [None, None, [0, 1], None]


@pytest.mark.parametrize("colour", [None, "256", "truecolor"])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_terminal_says_what_each_head_does_and_shows_it(show, width, colour):
    record = of_row(peaks(cls=0.9), 6, 6)
    shown = plain(show(view_of(record), width, colour) if colour else show(view_of(record), width))
    words = " ".join(shown.split())
    assert "L0 H0: half in 2 of 36 patches, at most 11 × uniform; [CLS] takes 90%" in words
    assert "made by hand" in words
    assert words.count("L0 H0") == 2, "and the map"


def test_the_most_peaked_heads_come_first_in_the_terminal(show):
    record = over(6, 6, heads=12, photo=PLAIN)
    lines = [line for line in plain(show(view_of(record), 120)).splitlines() if re.match(r"L0 H\d+: half", line)]
    counts = [int(re.search(r"half in (\d+) of", line)[1]) for line in lines]
    assert len(lines) == 8
    assert counts == sorted(counts)
    assert "… 4 heads more" in plain(show(view_of(record), 120))


@pytest.mark.parametrize("token", KINDS)
def test_hostile_texts_are_shown_and_do_nothing(show, token):
    tokens = Tokens((token, "0,0", "0,1"), (0,), images=(PatchGrid(1, 2, (1, 2)),))
    weights = np.full((2, 3, 3), 1 / 3, np.float32)
    maps = tuple(AttentionMap(weights, Axis(tokens), Axis(tokens), layer=i, module=token) for i in range(2))
    record = Attention(Source(token), maps).over_image(PHOTO)
    views = tuple(replace(view, name=token) for view in record.maps[0].views)
    record = replace(record, image_name=token)
    for one in (record, replace(record, maps=(replace(record.maps[0], views=views * 2),))):
        sheet = figure_of(one, Style(dpi=40))
        if one is record:
            sheet.save(io.BytesIO(), "png")
        if "\u0301" * 9 not in token:  # which are as high as they are many
            inside(sheet)
        assert acts("".join(texts(sheet))) == []
        for width in (30, 100):
            assert acts(plain(show(view_of(one), width))) == []
    assert json.loads(json.dumps(document(record)["query"])) in (token.strip(), "#0")


def test_a_notebook_shows_it():
    shown = over()._repr_mimebundle_()
    assert b64decode(shown["image/png"]).startswith(b"\x89PNG") if "image/png" in shown else "text/html" in shown


@pytest.mark.slow
def test_a_map_with_fewer_pixels_than_patches_keeps_those_with_most():
    row = np.full(48 * 48, 0.5 / (48 * 48 - 1))
    row[17 * 48 + 30] = 0.5
    tokens = patch_tokens(48, 48)
    axis = Axis(Tokens((" a",)))
    weights = np.broadcast_to(row, (24, 1, len(row))).astype(np.float32)
    maps = tuple(AttentionMap(weights, axis, Axis(tokens), "cross", layer=i) for i in range(24))
    sheet = figure_of(Attention(Source("made by hand"), maps).over_image(PLAIN), Style(dpi=40))
    assert min(one.get_array().shape[0] for one in images(sheet, "L")) < 48
    assert all(one.get_array().max() > 8 for one in images(sheet, "L"))
