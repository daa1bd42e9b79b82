"""mhaviz embeddings as a user types it."""

import json

import numpy as np
import pytest
import torch
from rounding import rounding

import mhaviz as package

CLOSE = rounding()

SENTENCE = "The cat sat on the mat"
SMALL = ("--d-model", "16", "--device", "cpu")


def test_everything_in_numbers(mhaviz):
    data = json.loads(mhaviz("embeddings", SENTENCE, *SMALL, "--json").out)
    assert data["tokens"] == ["the", "cat", "sat", "on", "the", "mat"]
    assert data["ids"] == [1, 2, 3, 4, 1, 5]
    assert (data["added"], data["within"], data["is_target"]) == ("sinusoids", [], False)
    parts = {part["symbol"]: part for part in data["parts"]}
    assert list(parts) == ["E", "PE", "X"]
    E, PE, X = (np.array(part["values"]) for part in parts.values())
    np.testing.assert_allclose(E + PE, X, atol=CLOSE)
    np.testing.assert_allclose(PE, package.sinusoids(6, 16).values, atol=CLOSE)
    assert parts["E"]["cosines"][0][4] == pytest.approx(1)
    assert parts["X"]["norms"] == pytest.approx(np.linalg.norm(X, axis=1))


def test_sinusoids_alone(tmp_path):
    table = package.sinusoids(d_model=7)
    assert table.source.footnote.endswith("length 100, d_model 7")
    table.save(tmp_path / "positions.json")
    data = json.loads((tmp_path / "positions.json").read_text())
    assert (np.shape(data["values"]), np.shape(data["cosines"])) == ((100, 7), (100, 100))
    for sizes, message in (
        ({"length": 0}, "`length`: expected at least 1, got 0"),
        ({"d_model": 0}, "`d_model`: expected at least 1, got 0"),
        ({"length": 5000}, "at most 4,096 positions, as every two of them are compared, got 5,000"),
    ):
        with pytest.raises(package.ArgumentError, match=message):
            package.sinusoids(**sizes)


def test_d_model_need_not_suit_any_heads(mhaviz):
    data = json.loads(mhaviz("embeddings", "one two", "--d-model", "7", "--json").out)
    assert np.shape(data["parts"][2]["values"]) == (2, 7)


def test_of_the_translator(mhaviz):
    data = json.loads(mhaviz("embeddings", "the cat", "--target", "le chat", "--model", "translation", "--json").out)
    assert (data["tokens"], data["is_target"]) == (["<start>", "le", "chat"], True)


def test_of_a_checkpoint(mhaviz, model_folder):
    result = mhaviz("embeddings", "the cat!", "--model", str(model_folder("bert")))
    assert (result.status, result.err) == (0, "")
    assert "X   (5, 32)" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no sentence: give one in quotes"),
        (["--model", "translation"], "no sentence: give one in quotes"),
        (["--target", "x"], "no sentence: give one in quotes"),
        (["a", "--target", "b"], "has no decoder; leave out --target"),
        (["a", "--d-model", "0"], "--d-model: expected at least 1, got 0"),
        (["a", "b"], "expected one sentence, got 2; put it in quotes"),
        (["a", "--cmap", "nothing"], "--cmap: expected a matplotlib colormap"),
        (["a", "-o", "a.gif"], "expected a name ending in .png"),
        (["a", "--layer", "1"], "--layer"),
        (["a", "--n-heads", "2"], "--n-heads"),
    ],
)
def test_bad_input_is_one_line(mhaviz, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = mhaviz("embeddings", *arguments)
    assert (result.status, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith("mhaviz: ")
    assert message in line
    assert not list(tmp_path.iterdir())


def test_the_parameters_of_an_attention_are_one_line(mhaviz, tmp_path):
    torch.save(torch.nn.MultiheadAttention(8, 2).state_dict(), tmp_path / "layer.pt")
    result = mhaviz("embeddings", "a b", "--model", str(tmp_path / "layer.pt"))
    assert result.err.splitlines() == [
        "mhaviz: expected a model with embeddings, got only the parameters of an attention; name another by --model"
    ]
