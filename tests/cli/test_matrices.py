"""mhaviz matrices as a user types it."""

import json

import numpy as np
import pytest
from rounding import rounding

CLOSE = rounding()

SMALL = ("--d-model", "8", "--n-heads", "2", "--device", "cpu")


def test_without_a_sentence_the_worked_example(mhaviz):
    data = json.loads(mhaviz("matrices", "--json").out)
    assert data["queries"] == ["i", "wonder", "what", "will", "come", "next"]
    assert np.shape(data["input"]["values"]) == np.shape(data["output"]["values"]) == (6, 8)
    assert [head["head"] for head in data["heads"]] == [0, 1, 2, 3]
    steps = {step["name"]: step for step in json.loads(mhaviz("trace-shapes", "--values", "--json").out)["steps"]}
    np.testing.assert_allclose(data["output"]["values"], steps["O"]["values"][0], atol=CLOSE)
    for head, scores in zip(data["heads"], steps["S"]["values"][0], strict=True):
        np.testing.assert_allclose(head["scores"], scores, atol=CLOSE)


def test_heads_and_a_token(mhaviz):
    data = json.loads(mhaviz("matrices", "the cat sat", "--head", "1", "--mask", "causal", "--json", *SMALL).out)
    (head,) = data["heads"]
    assert (head["head"], data["kind"], data["rule"]) == (1, "masked", "/ √4")
    assert head["scores"][0][1:] == [None, None]
    assert head["weights"][0] == [1, 0, 0]
    result = mhaviz("matrices", "the cat sat", "--token", "sat", *SMALL)
    assert "example: the query “sat” at position 2" in " ".join(result.out.split())


def test_of_many_heads_the_first(mhaviz):
    heads = json.loads(mhaviz("matrices", "the cat", "--d-model", "16", "--n-heads", "8", "--json").out)["heads"]
    assert [head["head"] for head in heads] == [0]


def test_of_a_translator_the_source_target_attention(mhaviz):
    data = json.loads(mhaviz("matrices", "the small black cat", "--model", "translation", "--json").out)
    assert (data["kind"], data["keys"]) == ("cross", ["the", "small", "black", "cat"])
    assert (data["input"]["name"], data["memory"]["name"]) == ("X target", "X source")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("a b", "--token", "c"),
            "--token: expected a token, or a position from 0 to 1, got 'c'",
        ),
        (("a b", "--head", "2", *SMALL), "--head: there is no head 2; the layer has heads 0 to 1"),
        (("a b", "c d e"), "expected one sentence, got 2"),
        (("--model", "translation"), "no sentence: give one in quotes"),
        (("--target", "a"), "no sentence: give one in quotes"),
    ],
)
def test_mistakes(mhaviz, words, message):
    result = mhaviz("matrices", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
