"""Maps that mhaviz has saved, read again; and files that contradict themselves."""

import io
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hostile import HOSTILE
from made import Edges, made_map, remade
from safetensors import safe_open
from safetensors.numpy import save_file

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import saved_array
from mhaviz.files.maps import read_maps
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import Quantity
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.views.data import document, safetensors_bytes, write_json


def save(attention, path):
    if path.suffix == ".json":
        with path.open("w", encoding="utf-8") as stream:
            write_json(document(attention), stream)
    else:
        path.write_bytes(safetensors_bytes(attention))
    return path


def same(one, other):
    assert one.source == other.source
    assert len(one.maps) == len(other.maps)
    for m, n in zip(one.maps, other.maps, strict=True):
        assert n.weights.dtype == np.float32
        np.testing.assert_array_equal(m.weights, n.weights)
        assert m.is_whole == n.is_whole
        sides = {"rows": None, "columns": None}
        for side in sides:
            assert getattr(m, side).is_same(getattr(n, side))
            assert getattr(m, side).tokens == getattr(n, side).tokens
        assert all_but_arrays(m) == all_but_arrays(n)


def all_but_arrays(m):
    arrays = ("weights", "rows", "columns")
    return {field.name: getattr(m, field.name) for field in fields(m) if field.name not in arrays}


@pytest.fixture(params=["x.json", "x.safetensors"])
def path(request, tmp_path):
    return tmp_path / request.param


def test_everything_comes_back(path, random_map):
    maps = (
        random_map(3, ("a", "b"), sentence=0).select((2, 0)),
        random_map(1, ("a", "b"), ("x", "y", "z"), kind="cross", layer=3, sentence=1),
    )
    source = Source("a footnote", {"seed": 1, "sizes": [1, 2.5], "none": None, "deep": {"a": [[1], []]}}, "a remark")
    attention = Attention(source, maps)
    saved = read_maps(save(attention, path))
    same(attention, saved.attention)
    assert saved.is_own
    assert not saved.notices


def test_cells_and_summaries_come_back(path):
    cells = Edges(np.array([10, 11, 14]), np.array([0, 2, 4]))
    head = HeadSummary(
        1.25, 0.1, (Sink(3, "z", 2.5),), None, Link(12, "c", 3, "z", 0.75), Link(10, "a", 0, "\udcff", 0.1)
    )
    mass = made_map(
        ("a", "b", "c", "d"),
        ("w", "x", "y", "z"),
        np.full((1, 2, 2), 0.5, np.float32),
        cells=cells,
        summary=MapSummary((head,), 4, 32, 0.1),
    )
    largest = replace(mass, quantity=Quantity(reduction="max"), summary=None)
    attention = Attention(Source("s"), (mass, largest))
    same(attention, read_maps(save(attention, path)).attention)


def test_a_nan_in_a_summary_is_null_and_comes_back(path, random_map):
    head = HeadSummary(float("nan"), 1.0, (), None, Link(0, "a", 0, "a", 1.0), None)
    m = random_map(1, summary=MapSummary((head,), 3, 32, 0.1))
    (only,) = read_maps(save(Attention(Source("s"), (m,)), path)).attention.maps
    assert np.isnan(only.summary.heads[0].entropy)


def test_what_only_maps_of_checkpoints_have_comes_back(path, random_map):
    band = np.where(np.abs(np.arange(3)[:, None] - np.arange(3)) > 0, 0, 1)[None].astype(np.float32)
    rare = {"special_queries": (0, 2), "special_keys": (2,), "reach": 1, "sink": True}
    tokens = ("[CLS]", " a", "[SEP]")
    whole = random_map(1, tokens)
    maps = (
        remade(whole, weights=whole.weights * (np.abs(np.arange(3)[:, None] - np.arange(3)) <= 1) / 2, **rare),
        replace(whole, weights=band, layer=1, reach=0),
        remade(whole, rollout=True),
        remade(whole, layer=1, rollout=True),
    )
    saved = read_maps(save(Attention(Source("s"), maps), path))
    same(Attention(Source("s"), maps), saved.attention)
    assert [m.reach for m in saved.attention.maps] == [1, 0, None, None]
    assert not saved.notices
    assert [m.name for m in saved.attention.maps[1:]] == [
        "layer 1, self",
        "layer 0, self, rollout",
        "layer 1, self, rollout",
    ]


def test_hostile_tokens_come_back(path, random_map):
    tokens = (*HOSTILE, "[1, 2, 3]", "NaN", '"', '\\"[0.5]', "]", "-Infinity")
    attention = Attention(Source(" ".join(HOSTILE[:6])), (random_map(1, tokens),))
    same(attention, read_maps(save(attention, path)).attention)


def test_the_text_of_a_json_file_may_be_another(tmp_path, random_attention):
    """As jq or a person would write it: indented, sorted, with whole numbers as such."""
    attention = random_attention(1, ("a", "b"))
    stream = io.StringIO()
    write_json(document(attention), stream)
    data = json.loads(stream.getvalue())
    data["maps"][0]["weights"] = [[[1, 0], [0.25, 0.75]]]
    (tmp_path / "x.json").write_text(json.dumps(data, indent=4, sort_keys=True), encoding="utf-8-sig")
    (only,) = read_maps(tmp_path / "x.json").attention.maps
    assert only.weights.tolist() == [[[1, 0], [0.25, 0.75]]]


def edited(random_map, path, edit):
    """A saved file with its metadata edited."""
    attention = Attention(Source("s"), (random_map(2, ("a", "b", "c")),))
    if path.suffix == ".json":
        stream = io.StringIO()
        write_json(document(attention), stream)
        data = json.loads(stream.getvalue())
        edit(data, data["maps"][0])
        path.write_text(json.dumps(data))
    else:
        save(attention, path)
        with safe_open(path, "np") as file:
            data, tensors = json.loads(file.metadata()["mhaviz"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        edit(data, data["maps"][0])
        save_file(tensors, path, {"mhaviz": json.dumps(data)})
    return path


CELLS = {"query_edges": [0, 1, 2, 3], "key_edges": [0, 1, 2, 3], "reduction": "mass"}
OF_NO_QUERY = {
    "queries": 0,
    "near": 1,
    "strong": 0.5,
    "heads": 2
    * [
        {
            "entropy": 0.0,
            "uniform_entropy": 0.0,
            "sinks": [{"key": 0, "token": "a", "received": 0.5}],
            "local": None,
            "strongest": {"query": 0, "query_token": "a", "key": 0, "key_token": "a", "weight": 0.5},
            "farthest": None,
        }
    ],
}
CONTRADICTIONS = [
    (lambda d, m: m.update(summary=OF_NO_QUERY), "summary: expected no keys that get weight from 0 queries"),
    (lambda d, m: m.update(summary=OF_NO_QUERY | {"near": -1}), "Expected `int` >= 0 - at `$.summary.near`"),
    (lambda d, m: m.update(queries=["a"]), "expected axis q_length to be 1, one per token, got 3"),
    (lambda d, m: m.update(keys=["a"] * 4), "expected axis k_length to be 4, one per token, got 3"),
    (lambda d, m: m.update(summary=[1, 2]), "Expected `object | null`, got `array` - at `$.summary`"),
    (lambda d, m: m.update(queries="abc"), "Expected `array`, got `str` - at `$.queries`"),
    (lambda d, m: m.update(queries=["a", None, "c"]), "Expected `str`, got `null` - at `$.queries[1]`"),
    (lambda d, m: m.pop("keys"), "Object missing required field `keys`"),
    (lambda d, m: m.update(heads=[0]), "expected axis n_heads to be 1, got 2"),
    (lambda d, m: m.update(heads=[1, 1]), "heads: expected each head once"),
    (lambda d, m: m.update(heads=[0, -1]), "Expected `int` >= 0 - at `$.heads[1]`"),
    (lambda d, m: m.update(heads=[0, 1.5]), "Expected `int`, got `float` - at `$.heads[1]`"),
    (lambda d, m: m.update(kind="both"), "Invalid enum value 'both' - at `$.kind`"),
    (lambda d, m: m.update(layer="0"), "Expected `int | null`, got `str` - at `$.layer`"),
    (lambda d, m: m.update(layer=-1), "Expected `int` >= 0 - at `$.layer`"),
    (lambda d, m: m.update(sentence=True), "Expected `int | null`, got `bool` - at `$.sentence`"),
    (lambda d, m: m.update({**CELLS, "key_edges": [0, 2, 2, 3]}), "edges: expected at least two increasing positions"),
    (lambda d, m: m.update({**CELLS, "key_edges": [0, 1, 3]}), "expected axis columns to be 2, as in cells, got 3"),
    (lambda d, m: m.update({**CELLS, "key_edges": [0, 1, 2, 4]}), "expected columns of 3 tokens, got 4"),
    (lambda d, m: m.update({**CELLS, "query_edges": [[0]]}), "Expected `int`, got `array` - at `$.query_edges[0]`"),
    (lambda d, m: m.update({**CELLS, "query_edges": [0.5, 1, 2, 3]}), "Expected `int`, got `float`"),
    (lambda d, m: m.update({**CELLS, "reduction": "mean"}), "Invalid enum value 'mean' - at `$.reduction`"),
    (lambda d, m: m.update(reduction="mass"), "expected query_edges, key_edges and reduction, or none"),
    (lambda d, m: m.update(summary={"heads": []}), "Object missing required field `queries` - at `$.summary`"),
    (lambda d, m: m.update(summary={"heads": [], "queries": 1, "near": 1, "strong": 0.1}), "summary: expected 2 heads"),
    (lambda d, m: m.update(special_queries=[3]), "special_queries: expected positions from 0 to 2, got 3 to 3"),
    (lambda d, m: m.update(special_keys=[0, -1]), "Expected `int` >= 0 - at `$.special_keys[1]`"),
    (lambda d, m: m.update(special_keys=["[CLS]"]), "Expected `int`, got `str`"),
    (lambda d, m: m.update(special_queries=1), "Expected `array`, got `int` - at `$.special_queries`"),
    (lambda d, m: m.update(special_queries=[10**30]), "Expected `int` <= 9223372036854775807"),
    (lambda d, m: m.update(to_special=[0.5, 2]), "Expected `float` <= 1.0 - at `$.to_special[1]`"),
    (lambda d, m: m.update(to_special=["a", {}]), "Expected `float`, got `str` - at `$.to_special[0]`"),
    (lambda d, m: m.update(to_special=[0.5]), "to_special: expected a share for each of 2 heads, got (1,)"),
    (lambda d, m: m.update(reach=-1), "Expected `int` >= 0 - at `$.reach`"),
    (lambda d, m: m.update(reach=True), "Expected `int | null`, got `bool` - at `$.reach`"),
    (lambda d, m: m.update(reach=2.5), "Expected `int | null`, got `float` - at `$.reach`"),
    (lambda d, m: m.update(sink="yes"), "Expected `bool`, got `str` - at `$.sink`"),
    (lambda d, m: m.update(rollout=1), "Expected `bool`, got `int` - at `$[...]`"),
    (lambda d, m: m.update(rollout=True), "rollout: expected one matrix for all heads, got 2"),
    (lambda d, m: d.update(maps=[]), "holds no attention maps"),
    (lambda d, m: d.update(maps=3), "holds no attention maps"),
    (lambda d, m: d.update(maps=["x"]), "holds no attention maps"),
    (lambda d, m: d.update(maps=[m, {**m}, {**m}]), "expected maps of different names, got two of layer."),
    (lambda d, m: d.pop("source"), "Object missing required field `source`"),
    (lambda d, m: d.update(source={"footnote": 3}), "Expected `str`, got `int` - at `$.footnote`"),
    (lambda d, m: d.pop("mhaviz"), "was not saved by mhaviz"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "message"), CONTRADICTIONS, ids=[message for _, message in CONTRADICTIONS])
def test_metadata_that_contradict_the_weights(path, random_map, edit, message):
    with pytest.raises(MhavizError, match=r".") as caught:
        read_maps(edited(random_map, path, edit))
    named = path.suffix == ".safetensors" and "there is no tensor" in str(caught.value)  # its name says kind and layer
    assert message in str(caught.value) or named
    assert not isinstance(caught.value, ArgumentError), "the command line was right"
    assert path.name in str(caught.value)


def test_a_tensor_that_is_missing(tmp_path, random_map):
    path = edited(random_map, tmp_path / "x.safetensors", lambda d, m: m.update(layer=7))
    with pytest.raises(MhavizError, match=r"map 0: there is no tensor layer\.7\.self"):
        read_maps(path)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (None, "weights: expected n_heads × q_length × k_length numbers"),
        ([[]], "weights: expected"),
        ([[1.0]], "weights: expected"),
        ([[[1.0, None]]], "weights: expected"),
        ([[["a", "b"]]], "weights: expected"),
        ([[[1.0, 0.0], [1.0]]], "inhomogeneous shape"),
        ([[[1.0, 0.0], [-0.5, 1.5]]], "expected weights from 0 to 1e+30, got -0.5 in row 1, column 0"),
        ([[[1.0, 0.0], [1e39, 0.0]]], "got inf in row 1"),
    ],
)
def test_weights_that_are_none(tmp_path, weights, message):
    about = {"mhaviz": "0", "source": {"footnote": ""}}
    one = {"layer": 0, "kind": "self", "queries": ["a", "b"], "keys": ["a", "b"], "weights": weights}
    (tmp_path / "x.json").write_text(json.dumps(about | {"maps": [one]}))
    with pytest.raises(MhavizError, match=r".") as caught:
        read_maps(tmp_path / "x.json")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b'{"maps": [NaN]}', "JSON has no NaN"),
        (b"[1, 2", "Expecting ',' delimiter"),
        (b"[1, 2]", "was not saved by mhaviz"),
        (b'"' + b'\\"' * 100_000, "Unterminated string"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
        ("{}".encode("utf-16"), "is not UTF-8: byte 0xff in line 1; convert it first"),
        (b'{"a": 01}', "delimiter"),
        (b"[01]", "delimiter"),
        (b"[" + b"1" * 5000 + b"]", "Exceeds the limit \\(4300 digits\\)"),
    ],
)
def test_json_that_is_none(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(MhavizError, match=message):
        read_maps(tmp_path / "x.json")


def test_a_file_that_is_cut_off(path, random_attention):
    save(random_attention(), path)
    whole = path.read_bytes()
    for length in (0, 5, 20, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:length])
        with pytest.raises(MhavizError, match=f"cannot read {path}: "):
            read_maps(path)


def test_maps_that_do_not_fit_into_memory(tmp_path, random_attention, monkeypatch):
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_bytes(random_attention()))
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: 100)
    with pytest.raises(MhavizError, match=r"x\.safetensors: its numbers need about 144 B of memory on cpu, where 100"):
        read_maps(path)


def test_nothing_said_of_special_tokens(path, random_map):
    nothing = {"special_queries": [], "special_keys": [], "reach": None, "sink": False, "rollout": False}
    (m,) = read_maps(edited(random_map, path, lambda d, m: m.update(nothing))).attention.maps
    assert (m.rows.tokens.special, m.columns.tokens.special) == ((), ())
    assert (m.reach, m.sink, m.quantity.key) == (None, False, "weight")


@pytest.mark.parametrize(("sums", "notice"), [((0.9, 0), None), ((0.5, 1.5), "row 1 of self L0 H0 sums to 1.5")])
def test_what_goes_to_a_sink_is_not_missed(path, sums, notice):
    maps = (replace(rows_that_sum_to(*sums), sink=True), replace(rows_that_sum_to(1, 1), layer=1))
    notices = read_maps(save(Attention(Source("s"), maps), path)).notices
    assert [notice in line for line in notices] == [True] * (notice is not None)


def rows_that_sum_to(*sums, cells=None, kind="self"):
    weights = np.array([[[s / 2, s / 2] for s in sums]], np.float32)
    return made_map(tuple("ab"[: len(sums)]), ("a", "b"), weights, kind, cells=cells)


@pytest.mark.parametrize(
    ("sums", "cells", "notice"),
    [
        ((1, 1), None, None),
        ((1, 0), None, "1 row has only zeros, of 2, as if no key were visible: row 1 of self L0 H0"),
        ((0, 0), None, "2 rows have only zeros, of 2, as if no key were visible; the first is row 0 of self L0 H0"),
        ((1, 1 - 2**-9), None, None),
        ((0.9, 0.5), None, "not all rows sum to 1; farthest from it, row 1 of self L0 H0 sums to 0.5"),
        ((1.5, 0.6), None, "row 0 of self L0 H0 sums to 1.5"),
        ((0.2, 0.5), "mass", None),
        ((1.2, 0.5), "mass", "row 0 of self L0 H0 sums to 1.2"),
        ((0.2, 1.5), "max", None),
    ],
)
def test_rows_that_do_not_sum_to_1_are_told(path, sums, cells, notice):
    cells = cells and Edges(np.array([4, 5, 6]), np.array([7, 8, 9]), cells)
    notices = read_maps(save(Attention(Source("s"), (rows_that_sum_to(*sums, cells=cells),)), path)).notices
    assert len(notices) == (notice is not None)
    if notice:
        assert notice in notices[0]
        assert str(path) in notices[0]
