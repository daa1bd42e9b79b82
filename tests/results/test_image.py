"""What a query gives to the patches of images, and patches to a key."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made import hiding
from PIL import Image

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens, patch_names, patch_tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, QUANTITIES
from mhaviz.results.result import Source

PHOTO = np.full((20, 30, 3), 128, np.uint8)


def weights_of(*shape, seed=0):
    weights = np.random.default_rng(seed).random(shape).astype(np.float32)
    return weights / weights.sum(axis=-1, keepdims=True)


def attention_of(rows=2, columns=3, n_special=1, heads=2, layers=2, grid=True, kind="self"):
    tokens = patch_tokens(rows, columns, n_special)
    tokens = tokens if grid else Tokens(tuple(map(str, range(len(tokens)))))
    axis = Axis(tokens)
    several = weights_of(layers, heads, len(tokens), len(tokens))
    return Attention(
        Source("made by hand"),
        tuple(AttentionMap(w, axis, axis, kind, i, module=f"blocks.{i}.attn") for i, w in enumerate(several)),
    )


def of_map(weights, queries, keys=None, kind="self", **more):
    keys = queries if keys is None else keys
    return Attention(
        Source(""), (AttentionMap(np.asarray(weights, np.float32), Axis(queries), Axis(keys), kind, **more),)
    )


@pytest.fixture
def attention():
    return attention_of()


def test_the_class_token_is_the_usual_query(attention):
    over = attention.over_image(PHOTO)
    assert (over.query, over.kind, len(over.maps)) == ("#0", "position", 2)
    for m, one in zip(attention.maps, over.maps, strict=True):
        assert np.array_equal(one.weights, m.weights[:, 0, 1:].reshape(2, 2, 3))
        assert one.inside == pytest.approx(1 - m.weights[:, 0, 0])
        ((kind, texts, share),) = [(aside.kind, aside.texts, aside.weights) for aside in one.aside]
        assert (kind, texts) == ("others", ())
        assert np.array_equal(share, m.weights[:, 0, 0])
        assert (one.views[0].grid, one.views[0].patch) == ((2, 3), None)
        assert (one.layer, one.heads, one.module) == (m.layer, m.heads, m.module)
    assert np.array_equal(over.image, PHOTO)
    assert attention.over_image().image is None


def test_without_special_tokens_it_is_the_mean_of_all_queries():
    attention = attention_of(n_special=0)
    over = attention.over_image(PHOTO)
    assert (over.query, over.kind, over.maps[0].aside) == ("", "all", ())
    assert over.maps[0].weights.reshape(2, 6) == pytest.approx(attention.maps[0].weights.mean(axis=1))


@pytest.mark.parametrize("query", ["1,2", " (1, 2) ", "1;2", "patch 1,2", (1, 2), 7, "7", "#7", np.int64(7)])
def test_a_patch_is_a_place_or_a_position(query):
    attention = attention_of(n_special=2)
    over = attention.over_image(PHOTO, query)
    assert (over.query, over.kind, over.maps[0].views[0].patch) == ("1,2", "patch", (1, 2))
    assert np.array_equal(over.maps[0].weights, attention.maps[0].weights[:, 7, 2:].reshape(2, 2, 3))
    assert over.maps[0].aside[0].weights == pytest.approx(attention.maps[0].weights[:, 7, :2].sum(axis=1))


@pytest.mark.parametrize("query", [1, "1", "token 1"])
def test_a_special_token_by_its_position_or_its_text(query):
    over = attention_of(n_special=2).over_image(PHOTO, query)
    assert (over.query, over.maps[0].views[0].patch) == ("#1", None)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("2,0", "a patch from 0,0 to 1,2, got 2,0"),
        ((0, -1), "a patch from 0,0 to 1,2, got 0,-1"),
        ("frame 2 0,0", "a patch of one view, such as '0,0', got 'frame 2 0,0'"),
        (7, "a position from 0 to 6, got 7"),
        ("-1", "a position from 0 to 6, got '-1'"),
        (10**80, "a position from 0 to 6, got a number of more than 60 digits"),
        ("cat", "a token, or a position from 0 to 6, got 'cat'"),
        ("x" * 5000, "got 'x{25,30}…x{25,30}'; there are #0 'token 0'"),
    ],
)
def test_queries_that_are_not_there(attention, query, message):
    for name in ("query", "key"):
        with pytest.raises(ArgumentError, match=f"{name}`: expected .*{message}"):
            attention.over_image(PHOTO, **{name: query})


def test_a_query_or_a_key(attention):
    with pytest.raises(ArgumentError, match="`key`: expected a query or a key, got both"):
        attention.over_image(PHOTO, "0,0", key=0)


def test_layers_and_heads_are_chosen(attention):
    over = attention.over_image(PHOTO, layer=1, head=1)
    assert [(m.layer, m.heads) for m in over.maps] == [(1, (1,))]
    with pytest.raises(ArgumentError, match="there is no layer 5"):
        attention.over_image(PHOTO, layer=5)


@pytest.mark.parametrize("n_special", [0, 1, 5])
def test_a_grid_with_its_first_token(n_special):
    bare, known = (attention_of(n_special=n_special, grid=grid) for grid in (False, True))
    over, other = bare.over_image(PHOTO, "1,1", grid=(2, 3, n_special)), known.over_image(PHOTO, "1,1")
    assert np.array_equal(over.maps[0].weights, other.maps[0].weights)
    assert bare.over_image(PHOTO, grid=(3, 2, n_special)).maps[0].views[0].grid == (3, 2)
    moved = bare.over_image(PHOTO, 0, grid=(2, 2, n_special + 1))
    assert np.array_equal(moved.maps[0].weights[0, 0, 0], bare.maps[0].weights[0, 0, n_special + 1])
    assert bare.over_image(PHOTO, grid=(2, 3, n_special)).query == ("#0" if n_special else "")


@pytest.mark.parametrize("grid", [(2, 2), (2, 2, 3), (3, 2)])
def test_a_grid_of_a_text_is_refused_where_nothing_tells_which_tokens(grid):
    """As of cases/grid_offset.py: 64 of 70 tokens, of which the first patch is token 1."""
    weights = np.full((1, 1, 70, 70), 0.1 / 68, np.float32)
    weights[..., 1], weights[..., 66] = 0.6, 0.3
    attention = of_map(weights[0], Tokens(tuple(map(str, range(70)))))
    over = attention.over_image(PHOTO, "#69", grid=(8, 8, 1))
    assert np.unravel_index(over.maps[0].times_uniform(0)[0].argmax(), (8, 8)) == (0, 0)
    said = (
        r"grid`: 8 × 8 = 64 of 70 tokens, and nothing tells which; say \(8, 8, 0\) to \(8, 8, 6\) \(\(8, 8, 1\) if one"
    )
    with pytest.raises(ArgumentError, match=said):
        attention.over_image(PHOTO, "#69", grid=(8, 8))
    with pytest.raises(ArgumentError, match=r"expected patches among 70 tokens, got 8 × 8 = 64 from #7 on"):
        attention.over_image(PHOTO, "#69", grid=(8, 8, 7))


@pytest.mark.parametrize(
    ("texts", "special", "first"),
    [
        ((*"abcdef", "[sep]"), (6,), 0),
        (("[CLS]", *"abcdef"), (), 1),
        (("<s>", *"abcdef", "</s>", "w"), (), 1),
        (("cls_token", "register_tokens 0", *"abcdef"), (), 2),
    ],
)
def test_special_tokens_that_leave_one_run_tell_where_patches_stand(texts, special, first):
    weights = weights_of(1, len(texts), len(texts))
    over = of_map(weights, Tokens(texts, special)).over_image(PHOTO, 0, grid=(2, 3))
    assert np.array_equal(over.maps[0].weights, weights[:, 0, first : first + 6].reshape(1, 2, 3))


def test_special_tokens_that_leave_two_runs_do_not():
    tokens = Tokens((*"abcd", "[SEP]", *"efgh"), (4,))
    with pytest.raises(ArgumentError, match="2 × 2 = 4 of 9 tokens, and nothing tells which"):
        of_map(weights_of(1, 9, 9), tokens).over_image(PHOTO, grid=(2, 2))


def test_a_known_grid_may_only_be_reshaped(attention):
    assert attention.over_image(PHOTO, grid=(3, 2)).maps[0].views[0].grid == (3, 2)
    for grid in ((2, 2), (1, 7)):
        with pytest.raises(ArgumentError, match="the patches of layer 0, self are known: 2 × 3; leave it out"):
            attention.over_image(PHOTO, grid=grid)


@pytest.mark.parametrize(
    ("n_tokens", "shape", "hints"),
    [
        (197, (20, 20), r"\(14, 14, 1\)"),
        (196, (20, 20), r"\(14, 14, 0\)"),
        (48, (30, 40), r"\(6, 8, 0\)"),
        (49, (30, 40), r"\(6, 8, 1\)"),
        (70, (20, 20), r"\(8, 8, 6\)"),
        (2, (20, 20), r"\(14, 14, 1\)"),
    ],
)
def test_hints_are_grids_of_the_shape_of_the_photo(n_tokens, shape, hints):
    bare = of_map(weights_of(1, n_tokens, n_tokens), Tokens(tuple(map(str, range(n_tokens)))))
    with pytest.raises(ArgumentError, match=rf"which of {n_tokens} tokens are patches.*add `grid`.* such as {hints}"):
        bare.over_image(np.zeros((*shape, 3), np.uint8))


@pytest.mark.parametrize("grid", [(15, 15), (10**9, 10**9), (1, 1)])
def test_a_grid_that_does_not_fit_says_which_would(grid):
    bare = attention_of(14, 14, 1, heads=1, layers=1, grid=False)
    with pytest.raises(
        ArgumentError, match=r"grid`: expected rows × columns = 197 tokens, .*\(14, 14, 1\).* would fit"
    ):
        bare.over_image(np.zeros((9, 9, 3), np.uint8), grid=grid)


@pytest.mark.parametrize("grid", [(0, 3), (-2, -3), (2,), "2x3", 6, (2.0, 3.0), (2, 3, -1), (2, 3, 1, 1)])
def test_grids_that_are_none(attention, grid):
    with pytest.raises(ArgumentError, match="grid`: expected rows and columns, or rows, columns and the position"):
        attention.over_image(PHOTO, grid=grid)


def test_labels_tell_patches():
    tokens = Tokens(("<s>", *patch_names(2, 2), "a", *(f"thumbnail {name}" for name in patch_names(1, 2)), " 1,5"))
    over = of_map(weights_of(1, 9, 9), tokens).over_image(None, "a")
    assert [(view.name, view.grid) for view in over.maps[0].views] == [("", (2, 2)), ("thumbnail", (1, 2))]


def test_maps_without_patches(attention):
    first = attention.maps[0]
    axis = Axis(first.rows.tokens, np.array([0, 3, 7]))
    pooled = replace(first, weights=first.weights[:, :2, :2], rows=axis, columns=axis)
    part = Axis(first.rows.tokens[2:5], np.arange(2, 6))
    window = replace(first, weights=first.weights[:, :3, :3], rows=part, columns=part)
    changes = replace(first, quantity=replace(first.quantity, is_signed=True))
    for m, message in (
        (pooled, "expected a column for each patch, got cells of up to 4 tokens"),
        (window, "expected all tokens of the image, got 2 to 4"),
        (changes, "got changes of weights"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Attention(Source(""), (m,)).over_image(PHOTO, grid=(2, 3))
    masked = attention_of(grid=False, kind="masked", layers=1).maps[0]
    both = Attention(Source(""), (first, replace(masked, layer=1)))
    assert [m.layer for m in both.over_image(PHOTO).maps] == [0]
    assert both.over_image(PHOTO).left_out == 1
    others = Attention(Source(""), (first, replace(pooled, layer=1)))
    over = others.over_image(PHOTO)
    assert ([m.layer for m in over.maps], over.left_out, over.n_pooled) == ([0], 0, 1)
    assert "1 map with cells of several patches left out, which a larger size keeps" in over.to_html()
    with pytest.raises(ArgumentError, match="maps of one quantity"):
        Attention(Source(""), (first, replace(first, quantity=QUANTITIES[0]))).over_image(PHOTO)


def test_words_that_look_at_an_image():
    words, patches = Tokens(("<s>", "a", "cat"), (0,)), patch_tokens(2, 2)
    weights = weights_of(1, 3, 4)
    attention = of_map(weights, words, patches, "cross")
    assert (attention.over_image(PHOTO).query, attention.over_image(PHOTO).kind) == ("", "all")
    over = attention.over_image(PHOTO, "cat")
    assert (over.query, over.kind, over.maps[0].views[0].patch) == ("cat", "word", None)
    assert np.array_equal(over.maps[0].weights, weights[:, 2].reshape(1, 2, 2))
    with pytest.raises(ArgumentError, match="queries of layer 0, cross are not patches"):
        attention.over_image(PHOTO, "0,0")


def test_a_word_of_several_pieces_is_the_mean_of_its_rows_and_the_sum_of_its_columns():
    words, patches = Tokens((" a", " kit", "ten", " sat")), patch_tokens(2, 2)
    weights = weights_of(1, 4, 4)
    over = of_map(weights, words, patches, "cross").over_image(PHOTO, "kitten")
    assert over.query == "kitten"
    assert over.maps[0].weights.reshape(4) == pytest.approx(weights[0, 1:3].mean(axis=0))
    of_key = of_map(weights, patches, words, "cross").over_image(PHOTO, key="kitten")
    assert (of_key.query, of_key.is_key) == ("kitten", True)
    assert of_key.maps[0].weights.reshape(4) == pytest.approx(weights[0, :, 1:3].sum(axis=1))


def test_a_key_is_drawn_over_the_patches_that_are_queries():
    weights = weights_of(2, 6, 3)
    over = of_map(weights, patch_tokens(2, 3), Tokens((" a", " cat", " mat")), "cross").over_image(PHOTO, key="cat")
    (m,) = over.maps
    column = weights[:, :, 1]
    assert np.array_equal(m.weights, column.reshape(2, 2, 3))
    assert m.inside == pytest.approx(column.mean(axis=1))
    assert m.times_uniform(1)[0] == pytest.approx((column[1] / column[1].mean()).reshape(2, 3), rel=1e-5)
    assert m.aside == ()
    patch = attention_of(n_special=0).over_image(PHOTO, key="1,1").maps[0]
    assert patch.views[0].patch == (1, 1)
    assert np.array_equal(patch.weights.reshape(2, 6), attention_of(n_special=0).maps[0].weights[:, :, 4])


def vision_language(kind="masked", views=None, n_after=3, heads=1):
    """Words, the patches of views, and words."""
    views = views or [("", 2, 2, 0)]
    texts, grids = ["<s>", " see"], []
    for name, rows, columns, image in views:
        grids.append(PatchGrid.run(rows, columns, len(texts)))
        grids[-1] = replace(grids[-1], name=name, image=image)
        texts += [f"{name} {patch}".strip() for patch in patch_names(rows, columns)]
    texts += [" what", " is", " it"][:n_after]
    tokens = Tokens(tuple(texts), (0,), images=tuple(grids))
    m = AttentionMap(weights_of(heads, len(texts), len(texts)), Axis(tokens), Axis(tokens), kind)
    return Attention(Source(""), (hiding(m),))


def test_in_a_decoder_it_is_the_mean_of_what_follows_the_image():
    attention = vision_language()
    over = attention.over_image(PHOTO)
    assert (over.query, over.kind) == ("", "after")
    weights = attention.maps[0].weights[:, 6:].mean(axis=1)
    assert over.maps[0].weights.reshape(4) == pytest.approx(weights[0, 2:6])
    found = {one.kind: float(one.weights[0]) for one in over.maps[0].aside}
    assert found == pytest.approx({"special": weights[0, 0], "words": weights[0, [1, 6, 7, 8]].sum()})
    for other in (vision_language("self"), vision_language(n_after=0)):
        assert other.over_image(PHOTO).kind == "all"


def test_what_a_mask_hides_is_no_number():
    over = vision_language().over_image(PHOTO, "1,0")
    (m,) = over.maps
    assert np.array_equal(np.isnan(m.times_uniform(0)[0]), [[False, False], [False, True]])
    assert m.n_patches == 3
    assert np.nanmean(m.times_uniform(0)[0]) == pytest.approx(1)


def test_views_share_what_a_head_gives_all_of_them():
    views = [("image 1", 2, 2, 0), ("image 2", 1, 2, 1)]
    attention = vision_language(views=views)
    over = attention.over_image([PHOTO, PHOTO[:10]], "it")
    (m,) = over.maps
    assert [view.grid for view in m.views] == [(2, 2), (1, 2)]
    patches = attention.maps[0].weights[0, -1, 2:8]
    shares = patches / patches.sum()
    assert m.view_shares(0) == pytest.approx((shares[:4].sum(), shares[4:].sum()))
    assert m.uniform_shares == pytest.approx((4 / 6, 2 / 6))
    assert m.times_uniform(0)[1].ravel() == pytest.approx(shares[4:] * 6, rel=1e-5)
    assert over.photo(m.views[1]).shape == (10, 30, 3)
    named = attention.over_image([PHOTO, PHOTO], "image 2 0,1")
    assert (named.query, [view.patch for view in named.maps[0].views]) == ("image 2 0,1", [None, (0, 1)])
    with pytest.raises(ArgumentError, match="a patch of one view, such as 'image 1 0,1', 'image 2 0,1', got '0,1'"):
        attention.over_image([PHOTO, PHOTO], "0,1")
    with pytest.raises(ArgumentError, match="see the weights of each"):
        _ = m.weights


@pytest.mark.parametrize("images", [PHOTO, [PHOTO], [PHOTO] * 3])
def test_a_photo_for_each_image(images):
    attention = vision_language(views=[(f"frame {i}", 1, 2, i) for i in range(2)])
    if len(images) == 3 and isinstance(images, list):
        assert len(attention.over_image(images).photos) == 2
        return
    with pytest.raises(ArgumentError, match="`image`: expected 2 images, as many as the patches are of, got 1"):
        attention.over_image(images)


@pytest.mark.slow
def test_frames_of_an_animation_and_of_an_array(tmp_path):
    frames = [np.full((8, 8, 3), value, np.uint8) for value in (0, 100, 200)]
    first, *others = map(Image.fromarray, frames)
    first.save(tmp_path / "a.gif", save_all=True, append_images=others)
    attention = vision_language(views=[(f"frame {i}", 1, 2, i) for i in range(3)])
    with Image.open(tmp_path / "a.gif") as opened:
        for images in (tmp_path / "a.gif", opened, np.stack(frames), frames):
            photos = attention.over_image(images).photos
            assert [int(photo.mean()) for photo in photos] == pytest.approx([0, 100, 200], abs=2)
    with pytest.raises(ArgumentError, match="at least one image"):
        attention.over_image([])


def windows(heads=1):
    """Four windows of 2 × 2 patches of an image of 4 × 4, as of Swin."""
    maps = []
    for number in range(4):
        places = np.full((4, 4), -1)
        rows, columns = (slice(2 * k, 2 * k + 2) for k in divmod(number, 2))
        places[rows, columns] = np.arange(4).reshape(2, 2)
        grid = PatchGrid(4, 4, tuple(places.ravel().tolist()))
        axis = Axis(Tokens(tuple(grid.labels()[i] for i in range(4)), images=(grid,)))
        maps.append(AttentionMap(weights_of(heads, 4, 4, seed=number), axis, axis, sentence=number, module="attn"))
    return Attention(Source(""), tuple(maps))


def test_a_patch_selects_its_window():
    attention = windows()
    over = attention.over_image(PHOTO, "3,1")
    (m,) = over.maps
    assert (m.sentence, m.n_patches, over.left_out) == (2, 4, 3)
    times = m.times_uniform(0)[0]
    assert np.array_equal(~np.isnan(times), np.pad(np.ones((2, 2), bool), ((2, 0), (0, 2))))
    assert times[2:, :2].ravel() == pytest.approx(attention.maps[2].weights[0, 3] * 4, rel=1e-5)


def test_a_patch_of_a_window_that_is_not_there():
    attention = windows()
    with pytest.raises(
        ArgumentError, match=r"patch 3,1 is not among the tokens of .*, which are the patches 0,0 to 1,1"
    ):
        Attention(Source(""), attention.maps[:1]).over_image(PHOTO, "3,1")


def test_all_windows_make_one_image():
    attention = windows(heads=2)
    (m,) = attention.over_image(PHOTO).maps
    assert (m.sentence, m.n_patches) == (None, 16)
    means = [one.weights[1].mean(axis=0).reshape(2, 2) for one in attention.maps]
    assert m.weights[1] == pytest.approx(np.block([means[:2], means[2:]]) / 4)
    assert np.isfinite(m.times_uniform(1)[0]).all()


def test_examples_of_one_size_are_no_windows():
    attention = attention_of(n_special=0, layers=1)
    both = Attention(Source(""), tuple(replace(attention.maps[0], sentence=i) for i in range(2)))
    assert [m.sentence for m in both.over_image(PHOTO).maps] == [0, 1]


def test_the_fewest_patches_with_half():
    weights = np.zeros((3, 26, 26), np.float32)
    weights[0, :, 1:4] = 0.3, 0.2, 0.1
    weights[0, :, 4:] = 0.4 / 22
    weights[1] = 1 / 26
    over = of_map(weights, patch_tokens(5, 5, 1)).over_image(PHOTO, 0)
    (m,) = over.maps
    assert m.half == (2, 13, None)
    assert [m.spread(head) for head in range(3)] == ["half", "even", "nothing"]
    assert np.argwhere(m.outlined(0)[0]).tolist() == [[0, 0], [0, 1]]
    assert not m.outlined(1)[0].any()
    assert not m.outlined(2)[0].any()
    assert m.times_uniform(0)[0][0, 0] == pytest.approx(0.3 * 25)
    assert m.times_uniform(1)[0] == pytest.approx(1)
    assert np.isnan(m.times_uniform(2)[0]).all()
    unknown = weights.copy()
    unknown[0, 0, 7] = np.nan
    assert of_map(unknown, patch_tokens(5, 5, 1)).over_image(PHOTO, 0).maps[0].half == (None, 13, None)


def test_a_patch_stands_out_of_what_is_even_though_a_sink_takes_most():
    """As of cases/sink_overlay.py: a sink takes 0.9, and a patch 10 × as much as each other patch."""
    patches = np.full(64, 0.0012)
    patches[3 * 8 + 5] = 0.012
    row = np.concatenate([[0], patches, [0.002] * 5])
    row[0] = 1 - row.sum()
    weights = np.broadcast_to(row, (2, 70, 70))
    (m,) = of_map(weights, Tokens(tuple(map(str, range(70))))).over_image(PHOTO, "#69", grid=(8, 8, 1)).maps
    assert m.spread(0) == "peaks"
    assert np.argwhere(m.outlined(0)[0]).tolist() == [[3, 5]]
    assert m.times_uniform(0)[0][3, 5] > 6
    assert [(one.kind, one.texts) for one in m.aside] == [("sink", ("#0",)), ("others", ())]
    assert m.aside[0].weights == pytest.approx(0.9, abs=0.01)


def test_noise_is_even_and_has_no_peaks():
    logits = 0.2 * np.random.default_rng(0).normal(size=(8, 197, 197))
    weights = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    (m,) = of_map(weights, patch_tokens(14, 14, 1)).over_image(PHOTO, 0).maps
    assert {m.spread(head) for head in range(8)} == {"even"}


def test_numbers_that_are_no_weights_have_shares_too(attention):
    m = replace(attention.maps[0], weights=attention.maps[0].weights * 7, quantity=NORM)
    over = Attention(Source(""), (m,)).over_image(PHOTO, 0)
    assert over.maps[0].times_uniform(0)[0] == pytest.approx(attention.over_image(PHOTO, 0).maps[0].times_uniform(0)[0])
    assert over.maps[0].aside[0].weights == pytest.approx(attention.maps[0].weights[:, 0, 0])


def test_the_term_of_a_softmax_without_a_key_is_stated(attention):
    m = replace(attention.maps[0], weights=attention.maps[0].weights / 2, sink=True)
    (one,) = Attention(Source(""), (m,)).over_image(PHOTO, 0).maps
    assert {aside.kind: float(aside.weights[0]) for aside in one.aside}["none"] == pytest.approx(0.5)


def test_the_mean_over_heads_and_layers(attention):
    every = np.stack([m.weights for m in attention.maps])
    over = attention.over_image(PHOTO, "1,1", mean="heads")
    assert [(m.layer, m.heads) for m in over.maps] == [(0, (0,)), (1, (0,))]
    assert over.maps[1].weights[0].ravel() == pytest.approx(every[1, :, 5, 1:].mean(axis=0))
    assert (dict(over.mean_over), over.quantity.of_all_heads) == ({"heads": 2}, True)
    over = attention.over_image(PHOTO, "1,1", mean=("layers", "heads"))
    ((m,), counts) = over.maps, dict(over.mean_over)
    assert (m.layer, counts) == (None, {"heads": 4, "layers": 2})
    assert m.weights[0].ravel() == pytest.approx(every[:, :, 5, 1:].mean(axis=(0, 1)))
    assert m.aside[0].weights == pytest.approx([every[:, :, 5, 0].mean()])
    averaged = attention.mean("heads", "layers").over_image(PHOTO, "1,1").maps[0]
    assert averaged.weights == pytest.approx(m.weights, rel=1e-5)
    with pytest.raises(ArgumentError, match="expected heads, too, got layers"):
        attention.over_image(PHOTO, mean="layers")
    with pytest.raises(ArgumentError, match="`mean`: expected heads, layers"):
        attention.over_image(PHOTO, mean="rows")


def test_layers_of_other_grids_are_laid_over_each_other_without_smoothing():
    words = Tokens((" a", " cat"))
    fine, coarse = weights_of(1, 16, 2), weights_of(1, 4, 2, seed=1)
    maps = tuple(
        AttentionMap(w, Axis(patch_tokens(n, n)), Axis(words), "cross", layer)
        for layer, (n, w) in enumerate(((4, fine), (2, coarse)))
    )
    attention = Attention(Source(""), maps)
    over = attention.over_image(PHOTO, key="cat", mean=("heads", "layers"))
    (m,) = over.maps
    over_each_other = (fine[0, :, 1].reshape(4, 4) + coarse[0, :, 1].reshape(2, 2).repeat(2, 0).repeat(2, 1)) / 2
    assert m.weights[0] == pytest.approx(over_each_other)
    assert over.source_grids == ((4, 4), (2, 2))
    turned = tuple(replace(m, weights=m.weights.swapaxes(1, 2), rows=m.columns, columns=m.rows) for m in maps)
    (m,) = Attention(Source(""), turned).over_image(PHOTO, "cat", mean=("heads", "layers")).maps
    over_each_other = (fine[0, :, 1].reshape(4, 4) + coarse[0, :, 1].reshape(2, 2).repeat(2, 0).repeat(2, 1) / 4) / 2
    assert m.weights[0] == pytest.approx(over_each_other)
    square = tuple(
        AttentionMap(weights_of(1, n * n, n * n), m.rows, m.rows, "self", m.layer)
        for m, n in zip(maps, (4, 2), strict=True)
    )
    with pytest.raises(ArgumentError, match=r"as many patches in all layers.* 2 × 2 and 4 × 4"):
        Attention(Source(""), square).over_image(PHOTO, "1,1", mean=("heads", "layers"))


def test_without_special_tokens_it_is_not_known_what_goes_to_them():
    patches = Axis(Tokens(patch_tokens(2, 2).texts))
    cropped = AttentionMap(
        np.full((1, 4, 4), 0.2, np.float32), patches, patches, to_special=np.array([0.2], np.float32)
    )
    with pytest.raises(ArgumentError, match="expected all tokens of the image; leave out `hide_special`"):
        Attention(Source(""), (cropped,)).over_image(PHOTO, 3, grid=(2, 2))


def test_stretched_is_more_than_a_tenth(attention):
    for width, stretched in ((30, False), (32, False), (35, True), (25, True)):
        photo = attention.over_image(np.zeros((20, width, 3), np.uint8)).stretched
        assert (photo is not None) == stretched


def test_an_image_that_cannot_be_read(attention, tmp_path):
    with pytest.raises(MhavizError, match="No such file"):
        attention.over_image(tmp_path / "no.png")
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    assert attention.over_image(tmp_path / "a.png").image_name == "a.png"


def test_a_layer_is_a_number_and_never_its_text(attention):
    assert len(attention.select(layer=np.int64(1))) == 1
    with pytest.raises(ArgumentError, match="`layer`: expected a whole number, or several, got '0'"):
        attention.select(layer="0")
    with pytest.raises(ArgumentError, match="`head`: expected a whole number, or several, got '0'"):
        attention.select(head="0")


def placed(attention, seen, box=(0.0, 0.0, 1.0, 1.0)):
    """The attention with the pixels that the program has read, as a recording has them."""
    maps = []
    for m in attention.maps:
        images = tuple(replace(grid, seen=seen, box=box) for grid in m.rows.tokens.images)
        axis = Axis(replace(m.rows.tokens, images=images))
        maps.append(replace(m, rows=axis, columns=axis))
    return replace(attention, maps=tuple(maps))


def photo_of(height=60, width=80):
    """A photo in which no part looks like another."""
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def test_a_photo_whose_place_is_found_is_not_said_to_be_stretched(attention):
    photo = photo_of()
    read = np.asarray(Image.fromarray(photo).resize((48, 48)), np.float32) / 255
    over = placed(attention_of(4, 4), read).over_image(photo)
    assert over.stretched is None
    assert all(view.is_placed for m in over.maps for view in m.views)
    assert (over.n_given, over.n_unplaced, over.photo_boxes) == (1, 0, ((0, 0, 1, 1),))
    assert attention_of(4, 4).over_image(photo).stretched is not None


def test_what_is_in_no_photo_is_drawn_as_it_was_read_and_counted():
    read = photo_of(48, 48).astype(np.float32) / 255
    attention = placed(attention_of(4, 4), read)
    other = np.random.default_rng(8).integers(0, 256, (40, 50, 3), np.uint8)
    over = attention.over_image(other)
    assert (over.n_given, over.n_unplaced) == (1, 1)
    assert over.image.shape == (48, 48, 3)
    assert over.to_dict()["drawn_as_read"] == 1
    without = attention.over_image()
    assert (without.n_given, without.n_unplaced) == (0, 1)


def test_padding_is_known():
    photo = photo_of(60, 80)
    square = np.full((80, 80, 3), 100, np.uint8)
    square[10:70] = photo
    over = placed(attention_of(4, 4), square.astype(np.float32)).over_image(photo)
    assert over.image.shape[0] == pytest.approx(80, abs=2)
    assert over.photo_boxes[0] == pytest.approx((1 / 8, 0, 7 / 8, 1), abs=0.02)
    assert over.to_dict()["image"]["without_padding"] == over.photo_boxes[0]


def test_a_key_that_is_a_word_leaves_layers_out_in_which_it_is_the_place_of_a_patch():
    pixels, words = patch_tokens(2, 3), Tokens(("a", "red", "cat", "."))
    self_attention = of_map(weights_of(2, 6, 6), pixels).maps[0]
    cross = of_map(weights_of(2, 6, 4), pixels, words, "cross", layer=1).maps[0]
    attention = Attention(Source(""), (self_attention, cross))
    for key in (2, "#2"):
        over = attention.over_image(PHOTO, key=key)
        assert (over.query, over.kind, [m.layer for m in over.maps], over.left_out) == ("cat", "word", [1], 1)
        assert [m.layer for m, _ in over.sources] == [1]
    assert [m.layer for m in attention.over_image(PHOTO, key="0,2").maps] == [0]


def test_default_queries_are_of_one_kind():
    tower, tokens = patch_tokens(2, 3), patch_tokens(2, 3, 1, 2)
    maps = (
        of_map(weights_of(2, 6, 6), tower).maps[0],
        hiding(of_map(weights_of(2, 9, 9), tokens, kind="masked", layer=1).maps[0]),
    )
    over = Attention(Source(""), maps).over_image(PHOTO)
    assert (over.kind, [m.layer for m in over.maps], over.left_out) == ("after", [1], 1)
    assert over.queries == "tokens"


def test_tokens_before_the_image_that_see_nothing_of_it_are_no_class_token():
    weights = weights_of(1, 9, 9)
    weights[:, 0, 1:] = 0
    weights[:, 0, 0] = 1
    over = of_map(weights, patch_tokens(2, 3, 1, 2)).over_image(PHOTO)
    assert over.kind == "after"
    assert of_map(weights_of(1, 9, 9), patch_tokens(2, 3, 1, 2)).over_image(PHOTO).kind == "position"


def test_patches_of_padding_that_are_no_tokens_need_no_room():
    photo = photo_of(60, 80)
    square = np.full((80, 80, 3), 100, np.uint8)
    square[10:70] = photo
    places = [-1] * 8 + [*range(48)] + [-1] * 8
    grid = PatchGrid(8, 8, tuple(places), seen=square.astype(np.float32))
    tokens = Tokens(tuple(grid.labels()[i] for i in range(48)), images=(grid,))
    over = of_map(weights_of(1, 48, 48), tokens).over_image(photo, "1,0")
    assert over.photo_boxes[0] == pytest.approx((0, 0, 1, 1), abs=0.02)
    (view,) = over.maps[0].views
    assert view.seen_box == pytest.approx((0, 0, 1, 1), abs=0.02)
    assert (view.patch, view.grid) == ((1, 0), (8, 8)), "as they are called"


@pytest.mark.parametrize(
    ("n_tokens", "size", "expected"),
    [(197, (400, 300), "(14, 14, 1)"), (48, (400, 300), "(6, 8, 0)"), (300, (400, 300), "(15, 20, 0)")],
)
def test_the_first_grid_that_is_named_is_the_likely_one(n_tokens, size, expected):
    axis = Axis.numbered(n_tokens)
    m = AttentionMap(np.full((1, n_tokens, n_tokens), 1 / n_tokens, np.float32), axis, axis)
    with pytest.raises(ArgumentError, match=rf"such as {re.escape(expected)}"):
        Attention(Source("test"), (m,)).over_image(np.zeros((size[1], size[0], 3), np.uint8))


def test_patches_that_look_at_words_need_a_key():
    rows, columns = Axis(patch_tokens(4, 4)), Axis.of(["a", "red", "cat"])
    m = AttentionMap(np.full((1, 16, 3), 1 / 3, np.float32), rows, columns, "cross")
    attention = Attention(Source("test"), (m,))
    with pytest.raises(ArgumentError, match=r"its queries are patches, and its keys are none; choose a key.*`key`"):
        attention.over_image()
    assert attention.over_image(key="cat").is_key
