"""mhaviz masks as a user types it."""

import json

import numpy as np
import pytest
from rounding import rounding

CLOSE = rounding()

SMALL = ("--d-model", "8", "--n-heads", "2", "--device", "cpu")


def test_one_sentence_has_a_causal_mask_here(mhaviz):
    data = json.loads(mhaviz("masks", "the cat sat", "--json", *SMALL).out)
    (one,) = data["sentences"]
    assert (data["kind"], data["heads"], data["dropout"]) == ("masked", [0], None)
    np.testing.assert_array_equal(one["hidden"][0], ~np.tri(3, dtype=bool))
    assert np.isfinite(one["scores"]).all(), "what they are before the mask"
    (drawn,) = json.loads(mhaviz("heatmap", "the cat sat", "--mask", "causal", "--json", *SMALL).out)["maps"]
    np.testing.assert_allclose(one["weights"][0], drawn["weights"][0], atol=CLOSE)


def test_several_sentences_are_padded(mhaviz):
    data = json.loads(mhaviz("masks", "the cat sat", "a", "--mask", "none", "--head", "all", "--json", *SMALL).out)
    assert data["kind"] == "self"
    first, second = data["sentences"]
    assert not np.any(first["hidden"])
    assert np.shape(second["scores"]) == (2, 3, 3)
    assert second["keys"] == ["a"]
    np.testing.assert_array_equal(second["hidden"][1], np.tile([False, True, True], (3, 1)))


def test_dropout_follows_the_seed(mhaviz):
    def dropped(*options):
        data = json.loads(mhaviz("masks", "the cat sat on the mat", "--dropout", "0.5", "--json", *options, *SMALL).out)
        return data["sentences"][0]["dropped"]

    assert dropped() == dropped("--seed", "0")
    assert dropped() != dropped("--seed", "1")


def test_without_a_sentence_the_worked_example(mhaviz):
    result = mhaviz("masks")
    assert (result.status, result.err) == (0, "")
    assert "sentence 2: hello what is a basic split" in result.out
    assert "d_model 8, 4 heads" in result.out


def test_of_a_translator_what_its_decoder_sees(mhaviz):
    result = mhaviz("masks", "the small black cat", "--model", "translation")
    assert (result.status, result.err) == (0, "")
    assert "masked self-attention" in result.out
    assert "<start> le petit chat noir" in result.out


def test_queries_of_a_target(mhaviz):
    data = json.loads(mhaviz("masks", "the cat", "--target", "le chat noir", "--json", *SMALL).out)
    assert data["kind"] == "cross"
    assert not np.any(data["sentences"][0]["hidden"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a b", "--dropout", "1"), "--dropout: expected a share from 0 to less than 1, got 1"),
        (("a b", "--dropout", "-0.1"), "--dropout: expected a share from 0 to less than 1, got -0.1"),
        (("a b", "--head", "2", *SMALL), "--head: there is no head 2; the layer has heads 0 to 1"),
        (("--model", "translation"), "no sentence: give one in quotes"),
        (("a b", "--target", "c", "--mask", "causal"), "a causal mask is for self-attention"),
    ],
)
def test_mistakes(mhaviz, words, message):
    result = mhaviz("masks", *words)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_the_seed_of_a_draw_from_learnt_weights(mhaviz):
    words = ("masks", "--model", "translation", "the small black cat", "--dropout", "0.3", "--json")
    first, other = (json.loads(mhaviz(*words, "--seed", seed).out) for seed in "12")
    assert first["sentences"] != other["sentences"]


def test_learnt_weights_have_no_seed_without_dropout(mhaviz):
    result = mhaviz("masks", "--model", "translation", "the cat", "--seed", "1")
    assert (result.status, result.out) == (2, "")
    assert "--seed is for a layer with random weights or a file of parameters; translation is a trained" in result.err
