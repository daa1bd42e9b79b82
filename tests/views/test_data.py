import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import attend, traced
from made import Edges, made_map
from safetensors import safe_open
from safetensors.numpy import load

import mhaviz
from mhaviz.analyses.scaling import compare_scaling, sweep_scaling
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import Quantity
from mhaviz.results.report import Report
from mhaviz.results.result import Source
from mhaviz.results.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.results.trace import follow_element
from mhaviz.views.data import document, safetensors_bytes, write_csv, write_json


def as_json(record):
    return written(document(record))


def written(whole):
    stream = io.StringIO()
    write_json(whole, stream)
    return json.loads(stream.getvalue())


def test_one_map(random_attention):
    attention = random_attention(3, ("a", "b"), ("x", "y", "z"), kind="cross")
    data = as_json(attention)
    assert set(data) == {"mhaviz", "source", "maps"}
    assert data["mhaviz"] == mhaviz.__version__
    assert data["source"] == {"footnote": "made by a test", "kind": "test"}
    (only,) = data["maps"]
    assert set(only) == {"layer", "kind", "queries", "keys", "weights"}
    assert (only["layer"], only["kind"], only["queries"], only["keys"]) == (0, "cross", ["a", "b"], ["x", "y", "z"])
    assert np.array_equal(np.array(only["weights"], np.float32), attention.maps[0].weights)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=9))
def test_weights_have_the_digits_that_they_need(weights):
    numbers = np.array(weights, np.float32)
    m = made_map(("a",), tuple("abcdefghi"[: len(weights)]), numbers[None, None], "cross")
    stream = io.StringIO()
    write_json(document(Attention(Source("test"), (m,))), stream)
    text = stream.getvalue()
    assert np.array_equal(np.array(json.loads(text)["maps"][0]["weights"], np.float32), m.weights)
    written = re.search(r'"weights": \[\[\[(.*?)\]', text)[1].split(",")
    assert all(len(digits.replace("0.", "").split("e")[0].lstrip("0")) <= 10 for digits in written)


def test_several_sentences_and_chosen_heads(random_map):
    maps = tuple(random_map(3, ("a",) * n, sentence=i).select((2, 0)) for i, n in enumerate((2, 3)))
    data = as_json(Attention(Source("test"), maps))
    assert [m["sentence"] for m in data["maps"]] == [0, 1]
    assert [m["heads"] for m in data["maps"]] == [[2, 0], [2, 0]]
    assert len(data["maps"][0]["weights"]) == 2


def test_safetensors_hold_the_same(random_map, tmp_path):
    maps = (random_map(2, ("a", "b"), sentence=0), random_map(2, ("a", "b", "c"), sentence=1, kind="masked", layer=4))
    attention = Attention(Source("test"), maps)
    blob = safetensors_bytes(attention)
    tensors = load(blob)
    assert sorted(tensors) == ["sentence.0.layer.0.self", "sentence.1.layer.4.masked"]
    assert np.array_equal(tensors["sentence.1.layer.4.masked"], maps[1].weights)
    assert tensors["sentence.0.layer.0.self"].dtype == np.float32
    (tmp_path / "x.safetensors").write_bytes(blob)
    with safe_open(tmp_path / "x.safetensors", "np") as file:
        metadata = file.metadata()
    assert set(metadata) == {"mhaviz"}
    rest = as_json(attention)
    for described in rest["maps"]:
        del described["weights"]
    assert json.loads(metadata["mhaviz"]) == rest


def test_one_sentence_has_the_short_name(random_attention):
    assert list(load(safetensors_bytes(random_attention()))) == ["layer.0.self"]


@given(st.lists(st.text(st.characters()), min_size=1, max_size=4))
def test_any_token_survives(tokens):
    weights = np.full((1, len(tokens), len(tokens)), 1 / len(tokens), np.float32)
    attention = Attention(Source("test"), (made_map(tuple(tokens), tuple(tokens), weights),))
    assert as_json(attention)["maps"][0]["queries"] == tokens
    assert safetensors_bytes(attention)


def test_labels_in_a_table_are_the_tokens_themselves():
    """No quote is put before what a spreadsheet reads as a formula."""
    tokens = ("=1+1", " cat", 'a"b', "a\nb")
    stream = io.StringIO(newline="")
    weights = np.full((1, 4, 4), 0.25, np.float32)
    write_csv(Attention(Source("test"), (made_map(tokens, tokens, weights),)), stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))
    assert [row["key"] for row in rows[:4]] == [row["query"] for row in rows[::4]] == list(tokens)


def test_trace_and_follow():
    trace = traced(RandomLayer(8, 4, device_name="cpu"), WORKED_EXAMPLE, values=True)
    data = as_json(trace)
    q = next(step for step in data["steps"] if step["name"] == "Q")
    assert (q["equation"], q["axes"], q["shape"]) == ("X Wq", ["batch_size", "q_length", "d_model"], [3, 6, 8])
    assert np.array(q["values"]).shape == (3, 6, 8)
    followed = written({"follow": follow_element(trace, (0, 2, 5))})["follow"]
    assert followed["wrong"] == [0, 1, 4, 1]
    assert followed["visits"][0] == {"step": "Q", "coordinates": [0, 2, 5], "offset": 21, "same_number": True}


def test_scaling_sweep_and_report():
    layer = RandomLayer(16, 2, causal=True, device_name="cpu")
    comparison = compare_scaling(layer, layer.encode(["one two"]), [1])
    data = as_json(comparison)
    (head,) = data["heads"]
    assert head["head"] == 1
    assert head["scaled"]["score_std"] == comparison.scaled.statistics[0].score_std
    assert head["unscaled"]["scores"][0][1] is None, "hidden: JSON has no NaN"
    sweep = as_json(sweep_scaling(["one", "two"], 0, (2, 4), draws=2))
    assert [size["d_key"] for size in sweep["sweep"]] == [2, 4]
    report = as_json(Report(attend(layer, ["one two"]), layer.trace(layer.encode(["one two"])), comparison))
    assert set(report) == {"mhaviz", "source", "maps", "trace", "scaling"}
    assert report["trace"]["steps"]


@pytest.fixture
def pooled_attention():
    """A map of four tokens in two by two cells, by mass and by largest weights, as a window of a longer input."""
    cells = Edges(np.array([10, 11, 14]), np.array([0, 2, 4]))
    tokens, keys = ("a", "b", "\x1b[1m", "d"), ("w", "x", "y", "z")
    head = HeadSummary(1.0, 1.5, (Sink(3, "z", 2.5),), None, Link(12, "b", 3, "z", 0.75), None)
    mass = made_map(
        tokens, keys, np.full((1, 2, 2), 0.5, np.float32), cells=cells, summary=MapSummary((head,), 4, 32, 0.1)
    )
    largest = replace(
        mass, weights=np.full((1, 2, 2), 0.25, np.float32), quantity=Quantity(reduction="max"), summary=None
    )
    return Attention(Source("test"), (mass, largest))


def test_maps_of_cells_say_what_they_are(pooled_attention):
    mass, largest = as_json(pooled_attention)["maps"]
    assert list(mass["queries"]) == ["a", "b", "\x1b[1m", "d"]
    for described, reduction in ((mass, "mass"), (largest, "max")):
        assert described["query_edges"] == [10, 11, 14]
        assert described["key_edges"] == [0, 2, 4]
        assert described["reduction"] == reduction
        assert np.array(described["weights"]).shape == (1, 2, 2)
    assert mass["summary"] == {
        "heads": [
            {
                "entropy": 1.0,
                "uniform_entropy": 1.5,
                "sinks": [{"key": 3, "token": "z", "received": 2.5}],
                "local": None,
                "strongest": {"query": 12, "query_token": "b", "key": 3, "key_token": "z", "weight": 0.75},
                "farthest": None,
                "entropies": [],
            }
        ],
        "queries": 4,
        "near": 32,
        "strong": 0.1,
    }
    assert "summary" not in largest


def test_ordinary_maps_have_no_cells(random_attention):
    (only,) = as_json(random_attention())["maps"]
    assert not {"query_edges", "key_edges", "reduction", "summary"} & set(only)
    assert json.loads(metadata(random_attention()))["maps"][0].keys() == only.keys() - {"weights"}


def test_largest_weights_alone_have_the_plain_name(pooled_attention):
    _, largest = pooled_attention.maps
    assert set(load(safetensors_bytes(replace(pooled_attention, maps=(largest,))))) == {"layer.0.self"}


def test_safetensors_of_cells(pooled_attention):
    blob = safetensors_bytes(pooled_attention)
    tensors = load(blob)
    assert set(tensors) == {"layer.0.self", "layer.0.self.max"}
    assert (tensors["layer.0.self.max"] == 0.25).all()
    assert (tensors["layer.0.self"] == 0.5).all()
    rest = as_json(pooled_attention)
    for described in rest["maps"]:
        del described["weights"]
    assert json.loads(metadata(pooled_attention), parse_constant=refuse) == rest


def test_the_max_map_of_a_sentence_has_both_in_its_name(pooled_attention):
    maps = tuple(replace(m, sentence=2) for m in pooled_attention.maps)
    assert set(load(safetensors_bytes(Attention(Source("test"), maps)))) == {
        "sentence.2.layer.0.self",
        "sentence.2.layer.0.self.max",
    }


def test_json_has_no_nan(pooled_attention):
    """json.loads would take NaN: other programs do not."""
    mass = pooled_attention.maps[0]
    nan = replace(mass.summary.heads[0], entropy=float("nan"))
    attention = replace(
        pooled_attention, maps=(replace(mass, summary=replace(mass.summary, heads=(nan,))), pooled_attention.maps[1])
    )
    stream = io.StringIO()
    write_json(document(attention), stream)
    assert json.loads(stream.getvalue(), parse_constant=refuse)["maps"][0]["summary"]["heads"][0]["entropy"] is None
    json.loads(metadata(attention), parse_constant=refuse)


def metadata(attention):
    """Of the safetensors file: eight bytes with the length of a JSON header, then the header."""
    blob = safetensors_bytes(attention)
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return header["__metadata__"]["mhaviz"]


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")
