"""Weights and inputs from files, as a user asks for them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rounding import rounding
from safetensors.torch import save_file
from torch import nn

CLOSE = rounding()

COMMANDS = {
    "heatmap": (),
    "compare-scaling": (),
    "explain": ("--token", "2"),
    "report": (),
    "trace-shapes": (),
}
WEIGHTS = ("--model", "w.safetensors#layers.1.self_attn", "--n-heads", "4", "--device", "cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the weights of an encoder, and inputs; returns the encoder."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_(std=0.3)
    save_file(encoder.state_dict(), "w.safetensors")
    save_file({"x": torch.randn(5, 16)}, "x.safetensors")
    save_file({"input": torch.randn(3, 5, 16)}, "many.safetensors")
    save_file({"query": torch.randn(2, 16), "key": torch.randn(5, 16)}, "qk.safetensors")
    return encoder


@pytest.mark.parametrize("given", [["--input", "x.safetensors"], ["the cat sat on it"], ["--input", "qk.safetensors"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_shows(mhaviz, folder, command, given):
    token = ("--token", "1") if command == "explain" else ()
    result = mhaviz(command, *given, *WEIGHTS, *token, "--json")
    assert (result.status, result.err) == (0, ""), result.err
    source = json.loads(result.out)["source"]
    on = "; random embeddings, seed 0" if len(given) == 1 else "; on "
    assert source["footnote"].startswith("weights of w.safetensors, prefix layers.1.self_attn" + on)
    shown = mhaviz(command, *given, *WEIGHTS, *token)
    assert shown.status == 0, shown.err
    assert "weights of w.safetensors" in shown.out


def test_the_weights_are_those_of_pytorch(mhaviz, folder):
    from safetensors.torch import load_file

    X = load_file("x.safetensors")["x"]
    with torch.no_grad():
        _, expected = folder.layers[1].self_attn(X, X, X, average_attn_weights=False)
    result = mhaviz("heatmap", "the cat sat on it", "--input", "x.safetensors", *WEIGHTS, "--head", "2,0", "--json")
    (m,) = json.loads(result.out)["maps"]
    np.testing.assert_allclose(m["weights"], expected[[2, 0]].numpy(), atol=CLOSE)
    assert m["keys"] == ["the", "cat", "sat", "on", "it"]
    result = mhaviz("heatmap", "--input", "x.safetensors", *WEIGHTS, "--mask", "causal", "--json")
    (m,) = json.loads(result.out)["maps"]
    assert m["kind"] == "masked"
    assert (np.array(m["weights"])[:, ~np.tri(5, dtype=bool)] == 0).all()


def test_several_inputs_and_pooled_ones(mhaviz, folder):
    result = mhaviz("heatmap", "--input", "many.safetensors", *WEIGHTS, "--json")
    assert [m["sentence"] for m in json.loads(result.out)["maps"]] == [0, 1, 2]
    result = mhaviz("heatmap", "--input", "many.safetensors", *WEIGHTS, "--size", "2", "--json")
    assert [m["query_edges"] for m in json.loads(result.out)["maps"]] == [[0, 2, 5]] * 3
    assert "5 tokens become 2 × 2 cells" in result.err


def test_heads_that_nobody_has_named_are_not_guessed(mhaviz, folder):
    without = [option for option in WEIGHTS if option not in ("--n-heads", "4")]
    result = mhaviz("heatmap", "a b", *without, "-o", "a.json")
    assert (result.status, Path("a.json").exists()) == (2, False)
    assert result.err == "mhaviz: a file of parameters does not hold the number of heads; add --n-heads\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["a", "--d-model", "16"], 2, "with random weights; w.safetensors is a file of parameters"),
        (["a", "--kind", "cross"], 2, "--kind: expected self, as there is no target, got cross"),
        (["--input", "x.safetensors", "--seed", "1"], 2, "takes the place of random embeddings; leave out --seed"),
        (["a", "--model", "w.safetensors#layers.7"], 2, "layers.7 in w.safetensors; it has layers.0.self_attn, "),
        (["a", "--n-heads", "3"], 2, "got d_model 16 and 3 heads; try 2 or 4 heads"),
        (["a b", "--input", "x.safetensors"], 2, "expected 5 words, one for each position of the input, got 2"),
        (["--input", "x.safetensors#y"], 2, "there is no tensor y in x.safetensors; it has x"),
        (["--input", "nothing.safetensors"], 1, "cannot read nothing.safetensors: No such file or directory"),
        (["a", "--model", "nothing.pt"], 1, "cannot read nothing.pt: No such file or directory"),
        (["--input", "w.safetensors#layers.0.norm1.bias"], 1, "got (16)"),
        (["--input", "w.safetensors#layers.0.linear2.weight"], 1, "expected 16 features"),
        ([], 2, "no sentence: give one in quotes"),
    ],
)  # fmt: skip
def test_what_cannot_be(mhaviz, folder, arguments, status, message):
    result = mhaviz("heatmap", *WEIGHTS, *arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_a_file_need_weights(mhaviz, folder, command):
    result = mhaviz(command, "a b c", "--input", "x", *COMMANDS[command])
    assert (result.status, result.out) == (2, "")
    assert "--input is for a file of parameters; random is a layer with random weights" in result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_without_sentence_needs_weights(mhaviz, folder, command):
    result = mhaviz(command, "--input", "x.safetensors", *COMMANDS[command])
    assert (result.status, result.out) == (2, "")
    assert result.err == "mhaviz: --input is for a file of parameters; random is a layer with random weights\n"


@pytest.mark.parametrize("command", ["compare-scaling", "explain", "report"])
def test_commands_that_take_one_sentence(mhaviz, folder, command):
    result = mhaviz(command, "--input", "many.safetensors", *WEIGHTS, *COMMANDS[command])
    assert (result.status, result.out) == (2, "")
    assert result.err == "mhaviz: expected one sentence, got 3; give one of them\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_sentence_and_input_there_is_nothing_to_show(mhaviz, folder, command):
    result = mhaviz(command, *WEIGHTS, *COMMANDS[command])
    assert (result.status, result.out) == (2, "")
    assert "no sentence" in result.err


@pytest.mark.parametrize(
    ("largest", "command", "what"),
    [
        ({"Wq": 3e38}, ("explain", "--token", "0"), "queries"),
        ({"Wq": 1e20, "Wk": 1e20}, ("heatmap",), "weights"),
        ({"Wq": 1e20, "Wk": 1e20}, ("heatmap", "--size", "2"), "weights"),
        ({"Wq": 1e20, "Wk": 1e20}, ("compare-scaling",), "weights"),
        ({"Wq": 1e20, "Wk": 1e20}, ("trace-shapes", "--values"), "numbers"),
        ({"Wv": 3e38}, ("report",), "values"),
        ({"Wv": 3e38}, ("trace-shapes", "--values"), "numbers"),
    ],
)
def test_weights_that_are_too_large_are_never_shown(mhaviz, tmp_path, largest, command, what):
    """Finite, as a file must have them; what comes of them is not."""
    from mhaviz import MultiHeadAttention

    torch.manual_seed(0)
    weights = MultiHeadAttention(16, 4).state_dict()
    save_file({name: x * largest.get(name[:2], 1) for name, x in weights.items()}, tmp_path / "large.safetensors")
    given = ("the cat sat", "--model", str(tmp_path / "large.safetensors"), "--n-heads", "4", "--device", "cpu")
    result = mhaviz(command[0], *given, *command[1:])
    assert (result.status, result.out) == (1, "")
    assert f"expected {what}" in result.err
    assert "got NaN or infinity" in result.err
