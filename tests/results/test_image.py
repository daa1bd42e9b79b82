"""What a query gives to the patches of an image."""

from dataclasses import replace

import numpy as np
import pytest
from made import hiding
from PIL import Image

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, QUANTITIES
from mhaviz.results.result import Source

PHOTO = np.full((20, 30, 3), 128, np.uint8)


def attention_of(rows=2, columns=3, n_special=1, heads=2, layers=2, grid=True, kind="self", labels=None):
    tokens = patch_tokens(rows, columns, n_special)
    if not grid:
        tokens = Tokens(labels or tuple(map(str, range(len(tokens)))))
    weights = np.random.default_rng(0).random((layers, heads, len(tokens), len(tokens))).astype(np.float32)
    weights /= weights.sum(axis=-1, keepdims=True)
    axis = Axis(tokens)
    maps = tuple(AttentionMap(w, axis, axis, kind, i, module=f"blocks.{i}.attn") for i, w in enumerate(weights))
    return Attention(Source("made by hand"), maps)


@pytest.fixture
def attention():
    return attention_of()


def test_the_class_token_is_the_usual_query(attention):
    over = attention.over_image(PHOTO)
    assert (over.query, len(over.maps)) == ("token 0", 2)
    for m, one in zip(attention.maps, over.maps, strict=True):
        assert np.array_equal(one.weights, m.weights[:, 0, 1:].reshape(2, 2, 3))
        assert np.array_equal(one.special, m.weights[:, 0, 0])
        assert (one.grid, one.patch, one.special_texts) == ((2, 3), None, ("token 0",))
        assert (one.layer, one.heads, one.module) == (m.layer, m.heads, m.module)
    assert np.array_equal(over.image, PHOTO)


def test_without_special_tokens_it_is_the_mean_of_all_queries():
    attention = attention_of(n_special=0)
    over = attention.over_image(PHOTO)
    assert (over.query, over.maps[0].patch, over.maps[0].special_texts) == ("", None, ())
    assert over.maps[0].weights.reshape(2, 6) == pytest.approx(attention.maps[0].weights.mean(axis=1))
    assert (over.maps[0].special == 0).all()


@pytest.mark.parametrize("query", ["1,2", " (1, 2) ", "1;2", (1, 2), 7, "7", np.int64(7), (np.int64(1), 2)])
def test_a_patch_is_a_place_or_a_position(query):
    attention = attention_of(n_special=2)
    over = attention.over_image(PHOTO, query)
    assert (over.query, over.maps[0].patch) == ("1,2", (1, 2))
    assert np.array_equal(over.maps[0].weights, attention.maps[0].weights[:, 7, 2:].reshape(2, 2, 3))
    assert over.maps[0].special == pytest.approx(attention.maps[0].weights[:, 7, :2].sum(axis=1))


@pytest.mark.parametrize("query", [1, "1", "token 1"])
def test_a_special_token_by_its_position_or_its_text(query):
    over = attention_of(n_special=2).over_image(PHOTO, query)
    assert (over.query, over.maps[0].patch) == ("token 1", None)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("2,0", "a patch from 0,0 to 1,2, got 2,0"),
        ((0, -1), "a patch from 0,0 to 1,2, got 0,-1"),
        (7, "a position from 0 to 6, got 7"),
        ("-1", "a position from 0 to 6, got '-1'"),
        (10**80, "a position from 0 to 6, got a number of more than 60 digits"),
        ("cat", "a token, or a position from 0 to 6, got 'cat'"),
        ("x" * 5000, "got 'x{25,30}…x{25,30}'; there are #0 'token 0'"),
    ],
)
def test_queries_that_are_not_there(attention, query, message):
    with pytest.raises(ArgumentError, match=f"query`: expected .*{message}"):
        attention.over_image(PHOTO, query)


def test_layers_and_heads_are_chosen(attention):
    over = attention.over_image(PHOTO, layer=1, head=1)
    assert [(m.layer, m.heads) for m in over.maps] == [(1, (1,))]
    with pytest.raises(ArgumentError, match="there is no layer 5"):
        attention.over_image(PHOTO, layer=5)


@pytest.mark.parametrize("n_special", [0, 1, 5])
def test_a_grid_can_be_given(n_special):
    bare, known = (attention_of(n_special=n_special, grid=grid) for grid in (False, True))
    over, other = bare.over_image(PHOTO, "1,1", grid=(2, 3)), known.over_image(PHOTO, "1,1")
    assert np.array_equal(over.maps[0].weights, other.maps[0].weights)
    assert over.maps[0].special_texts == other.maps[0].special_texts  # positions are no names of special tokens
    assert bare.over_image(PHOTO, grid=(3, 2)).maps[0].grid == (3, 2)
    assert bare.over_image(PHOTO, grid=(2, 3)).query == ("token 0" if n_special else "")


def test_special_tokens_that_are_known_may_stand_at_the_end():
    tokens = Tokens((*"abcdef", "[sep]"), (6,))
    weights = np.random.default_rng(0).random((1, 7, 7)).astype(np.float32)
    attention = Attention(Source(""), (AttentionMap(weights, Axis(tokens), Axis(tokens)),))
    over = attention.over_image(PHOTO, grid=(2, 3))
    assert over.query == "[sep]"
    assert np.array_equal(over.maps[0].weights, weights[:, 6, :6].reshape(1, 2, 3))


def test_no_grid_is_known_and_none_given():
    bare = attention_of(14, 14, 1, heads=1, layers=1, grid=False)
    with pytest.raises(ArgumentError, match=r"which of 197 tokens are patches of an image; add `grid`.* such as 14x14"):
        bare.over_image(PHOTO)


@pytest.mark.parametrize("grid", [(13, 13), (15, 15), (10**9, 10**9), (1, 1)])
def test_a_grid_that_does_not_fit_says_which_would(grid):
    bare = attention_of(14, 14, 1, heads=1, layers=1, grid=False)
    message = r"rows × columns = 197 tokens, minus 0 to 16 .*\(14x14 would fit\), got"
    with pytest.raises(ArgumentError, match=f"grid`: expected {message}"):
        bare.over_image(PHOTO, grid=grid)


@pytest.mark.parametrize("grid", [(0, 3), (-2, -3), (2,), "2x3", 6, (2.0, 3.0), (2, 3, 1)])
def test_grids_that_are_none(attention, grid):
    with pytest.raises(ArgumentError, match="grid`: expected"):
        attention.over_image(PHOTO, grid=grid)


def test_maps_without_patches(attention):
    first = attention.maps[0]
    axis = Axis(first.rows.tokens, np.array([0, 3, 7]))
    pooled = replace(first, weights=first.weights[:, :2, :2], rows=axis, columns=axis)
    part = Axis(first.rows.tokens[2:5], np.arange(2, 6))
    window = replace(first, weights=first.weights[:, :3, :3], rows=part, columns=part)
    masked = attention_of(grid=False, kind="masked", layers=1).maps[0]
    changes = replace(first, quantity=replace(first.quantity, is_signed=True))
    for m, message in (
        (pooled, "expected a column for each patch, got cells of up to 4 tokens"),
        (window, "expected all tokens of the image, got 2 to 4"),
        (masked, "expected attention to an image, got masked attention of a text"),
        (changes, "got changes of weights"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Attention(Source(""), (m,)).over_image(PHOTO, grid=(2, 3))
    both = Attention(Source(""), (first, replace(masked, layer=1)))
    assert [m.layer for m in both.over_image(PHOTO).maps] == [0]
    assert both.over_image(PHOTO).left_out == 1
    with pytest.raises(ArgumentError, match="maps of one quantity"):
        Attention(Source(""), (first, replace(first, quantity=QUANTITIES[0]))).over_image(PHOTO)


def test_words_that_look_at_an_image():
    words, patches = Axis(Tokens(("<s>", "a", "cat"), (0,))), Axis(patch_tokens(2, 2))
    weights = np.random.default_rng(0).random((1, 3, 4)).astype(np.float32)
    attention = Attention(Source(""), (AttentionMap(weights, words, patches, "cross"),))
    assert attention.over_image(PHOTO).query == ""
    over = attention.over_image(PHOTO, "cat")
    assert (over.query, over.maps[0].patch) == ("cat", None)
    assert np.array_equal(over.maps[0].weights, weights[:, 2].reshape(1, 2, 2))
    with pytest.raises(ArgumentError, match="queries of layer 0, cross are not patches"):
        attention.over_image(PHOTO, "0,0")


def test_without_special_tokens_it_is_not_known_what_goes_to_them():
    patches = Axis(Tokens(patch_tokens(2, 2).texts))
    weights = np.full((1, 4, 4), 0.2, np.float32)
    cropped = AttentionMap(weights, patches, patches, to_special=np.array([0.2], np.float32))
    with pytest.raises(ArgumentError, match="expected all tokens of the image; leave out `hide_special`"):
        Attention(Source(""), (cropped,)).over_image(PHOTO, 3, grid=(2, 2))


def test_stretched_is_more_than_a_tenth(attention):
    for width, stretched in ((30, False), (32, False), (35, True), (25, True)):
        assert attention.over_image(np.zeros((20, width, 3), np.uint8)).stretched == stretched


def test_uniform_is_a_share_of_the_keys_that_the_query_sees(attention):
    assert attention.over_image(PHOTO).maps[0].uniform == 1 / 7
    m = attention.maps[0]
    norms = replace(m, quantity=NORM)
    assert Attention(Source(""), (norms,)).over_image(PHOTO).maps[0].uniform is None
    causal = hiding(replace(m, kind="masked"))
    assert Attention(Source(""), (causal,)).over_image(PHOTO, 3).maps[0].uniform == 1 / 4
    window = hiding(replace(m, reach=1))
    assert Attention(Source(""), (window,)).over_image(PHOTO, "0,1").maps[0].uniform == 1 / 3


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
