"""mhaviz compare-projections as a user types it."""

import json

import numpy as np
import pytest
from rounding import rounding

CLOSE = rounding()

SMALL = ("--d-model", "16", "--n-heads", "2")


def test_the_sample_sentence(mhaviz):
    result = mhaviz("compare-projections")
    assert result.status == 0
    title, subtitle = result.out.split("\n")[:2]
    assert title == "Why projections: i → going scores −0.5, going → i 3.9"
    assert subtitle == "self-attention, random weights: i am going to deposit my money at the bank"
    for part in (
        "stage 1, plain: S",
        "stage 2, one projection W",
        "stage 3, Wq and Wk",
        "stage 4, Wv as well",
        "L0 H7",
    ):
        assert part in result.out
    assert "random weights, seed 0, d_model 512, 8 heads, cpu" in result.out
    assert not result.err


def test_everything_in_numbers(mhaviz):
    data = json.loads(mhaviz("compare-projections", "one two three", "--include-self", "--json", *SMALL).out)
    assert (data["tokens"], data["d_model"], data["include_self"]) == (["one", "two", "three"], 16, True)
    assert [np.shape(stage["scores"]) for stage in data["stages"]] == [(3, 3)] * 4
    assert [np.shape(stage["outputs"]) for stage in data["stages"]] == [(3, 16)] * 4
    assert [stage["asymmetry"] > 1e-9 for stage in data["stages"]] == [False, False, True, True]
    assert [stage["departure"] > 1e-9 for stage in data["stages"]] == [False, False, False, True]
    assert np.shape(data["divergence"]) == (2, 2)
    assert data["mean_divergence"] == pytest.approx(data["divergence"][0][1])
    maps = json.loads(mhaviz("heatmap", "one two three", "--json", *SMALL).out)["maps"]
    np.testing.assert_allclose(data["heads"], maps[0]["weights"], atol=CLOSE)


def test_left_out_is_null(mhaviz):
    data = json.loads(mhaviz("compare-projections", "one two", "--json", *SMALL).out)
    assert not data["include_self"]
    for stage in data["stages"]:
        assert [stage["scores"][i][i] for i in range(2)] == [None, None]
        assert stage["weights"] == [[0, 1], [1, 0]]
    assert sorted(data["pair"]["tokens"]) == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["I", "deposit"], 2, "expected one sentence, got 2; put it in quotes"),
        (["money"], 2, "expected at least two words, as a word is left out of its own sum, got one"),
        (["?!"], 2, "at least one word, got '?!'"),
        (["a", "--d-model", "10", "--n-heads", "3"], 2, "try 2 or 5 heads"),
        (["a", "--mask", "causal"], 2, "--mask"),
        (["a", "-o", "a.safetensors"], 2, "expected a name ending in .png, .svg, .pdf, .json"),
        (["a", "--d-model", "16777216"], 1, "PiB of memory on cpu, where"),
    ],
)
def test_bad_input_is_one_line_and_the_right_status(mhaviz, tmp_path, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    result = mhaviz("compare-projections", *arguments)
    assert (result.status, result.out) == (status, "")
    (line,) = result.err.splitlines()
    assert line.startswith("mhaviz: ")
    assert message in line
    assert not list(tmp_path.iterdir())
