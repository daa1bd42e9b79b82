"""mhaviz explain as a user types it."""

import json

import numpy as np
import pytest
from rounding import rounding

CLOSE = rounding()

SENTENCE = "I am going to deposit my money at the bank"
SMALL = ("--d-model", "16", "--n-heads", "4", "--device", "cpu")


def test_help_says_how_a_number_is_read(mhaviz):
    result = mhaviz("explain", "--help")
    assert (result.status, result.err) == (0, "")
    assert "#3 is always a position" in " ".join(result.out.replace("│", " ").split())


@pytest.mark.parametrize("token", ["deposit", "Deposit!", "4", "#4"])
def test_a_word_or_its_position(mhaviz, token):
    result = mhaviz("explain", SENTENCE, "--token", token, "--head", "2", *SMALL)
    assert (result.status, result.err) == (0, "")
    assert "L0 H2: “deposit” at position 4 looks most at " in result.out
    assert "random weights, seed 0, d_model 16, 4 heads, cpu" in result.out


def test_everything_in_numbers(mhaviz):
    data = json.loads(
        mhaviz("explain", SENTENCE, "--token", "to", "--head", "1", "--mask", "causal", "--json", *SMALL).out
    )
    assert (data["token"], data["position"], data["head"], data["kind"]) == ("to", 3, 1, "masked")
    assert (data["d_key"], data["keys"]) == (4, data["queries"])
    assert data["visible"] == [True] * 4 + [False] * 6
    assert data["scores"][4:] == [None] * 6
    np.testing.assert_allclose(np.sum(data["products"], axis=1), data["similarities"], atol=CLOSE)
    np.testing.assert_allclose(np.sum(data["contributions"], axis=0), data["output"], atol=CLOSE)
    (attention_map,) = json.loads(mhaviz("heatmap", SENTENCE, "--mask", "causal", "--json", *SMALL).out)["maps"]
    np.testing.assert_allclose(data["weights"], attention_map["weights"][1][3], atol=CLOSE)


def test_the_token_is_of_the_target(mhaviz):
    data = json.loads(mhaviz("explain", "a b c", "--target", "le chat", "--token", "chat", "--json", *SMALL).out)
    assert (data["token"], data["position"], data["keys"]) == ("chat", 1, ["a", "b", "c"])
    result = mhaviz("explain", "a b", "--target", "le chat", "--token", "b", *SMALL)
    assert "got 'b', which is a key; queries are #0 'le', #1 'chat'" in result.err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "no sentence"),
        (["a b"], 2, "--token: expected a token, or a position from 0 to 1, got nothing; there are #0 'a', #1 'b'"),
        (["a b a", "--token", "a"], 2, "--token: 'a' occurs 2 times; give a position: '#0', '#2'"),
        (["a b", "--token", "2"], 2, "a position from 0 to 1, got '2'"),
        (["deposit", "--token", "depost"], 2, "try 'deposit'"),
        (["a b", "--token", "a", "--head", "0,1"], 2, "--head: expected one head, such as 3, got '0,1'"),
        (["a b", "--token", "a", "--head", "8"], 2, "there is no head 8"),
        (["a", "b", "--token", "a"], 2, "expected one sentence, got 2; put it in quotes"),
        (["a", "--target", "b", "--token", "b", "--mask", "causal"], 2, "a causal mask is for self-attention"),
        (["a", "--target", "?", "--token", "b"], 2, "expected a sentence with at least one word, got '?'"),
        (["a", "--token", "a", "--dpi", "3"], 2, "dpi: expected at least 20"),
        (["a", "--token", "a", "-o", "a.gif"], 2, "expected a name ending in .png"),
        (["a", "--token", "a", "--d-model", "10", "--n-heads", "3"], 2, "try 2 or 5 heads"),
    ],
)
def test_bad_input_is_one_line_and_the_right_status(mhaviz, tmp_path, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    result = mhaviz("explain", *arguments)
    assert (result.status, result.out) == (status, "")
    (line,) = result.err.splitlines()
    assert line.startswith("mhaviz: ")
    assert message in line
    assert not list(tmp_path.iterdir())
