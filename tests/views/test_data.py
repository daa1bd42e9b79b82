import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.records import Attention, AttentionMap, Report, Source
from mhaviz.sources.random_layer import RandomLayer
from mhaviz.studies.following import follow_element
from mhaviz.studies.scaling import compare_scaling, sweep_scaling
from mhaviz.views.data import document, safetensors_bytes, write_json


def as_json(record):
    stream = io.StringIO()
    write_json(document(record), stream)
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
    attention = Attention(Source("test"), (AttentionMap(tuple(tokens), tuple(tokens), weights),))
    assert as_json(attention)["maps"][0]["queries"] == tokens
    assert safetensors_bytes(attention)


def test_trace_and_follow():
    trace = RandomLayer(8, 4, device="cpu").trace(values=True)
    data = as_json(trace)
    q = next(step for step in data["steps"] if step["name"] == "Q")
    assert (q["equation"], q["axes"], q["shape"]) == ("X Wq", ["batch_size", "q_length", "d_model"], [3, 6, 8])
    assert np.array(q["values"]).shape == (3, 6, 8)
    followed = as_json(follow_element(trace, (0, 2, 5)))
    assert followed["wrong"] == [0, 1, 4, 1]
    assert followed["visits"][0] == {"step": "Q", "coordinates": [0, 2, 5], "offset": 21, "same_number": True}


def test_scaling_sweep_and_report():
    layer = RandomLayer(16, 2, causal=True, device="cpu")
    (comparison,) = compare_scaling(layer.head_inputs(["one two"]), [1])
    data = as_json(comparison)
    (head,) = data["heads"]
    assert head["head"] == 1
    assert head["scaled"]["score_std"] == comparison.scaled.statistics[0].score_std
    assert head["unscaled"]["scores"][0][1] is None, "hidden: JSON has no NaN"
    sweep = as_json(sweep_scaling(["one", "two"], 0, (2, 4), draws=2))
    assert [size["d_key"] for size in sweep["sweep"]] == [2, 4]
    report = as_json(Report(layer.attend(["one two"]), layer.trace(["one two"]), comparison))
    assert set(report) == {"mhaviz", "source", "maps", "trace", "scaling"}
    assert report["trace"]["steps"]


def test_what_has_no_json():
    with pytest.raises(MhavizError, match="got int"):
        document(3)
