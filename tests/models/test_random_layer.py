import sys

import numpy as np
import pytest
import torch
from forked import run_forked
from looking import attend, calls, traced
from rounding import rounding

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.models import layer_inputs
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer

CLOSE = rounding()

SENTENCE = "I wonder what will come next!"


def weights(layer=None, sentences=(SENTENCE,), **options):
    return [m.weights for m in attend(layer or RandomLayer(64, 4), list(sentences), **options).maps]


def test_a_seed_gives_the_same_weights_and_another_seed_others():
    (first,), (again,), (other,) = weights(), weights(), weights(RandomLayer(64, 4, seed=1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(("keep_case", "same"), [(True, "a b c"), (False, "a b a")])
def test_words_that_differ_in_case_have_embeddings_of_their_own_where_capitals_are_kept(keep_case, same):
    layer = RandomLayer(64, 4, keep_case=keep_case)
    (found,) = attend(layer, ["Der Hund, der"]).maps
    assert found.keys == (("Der", "Hund", "der") if keep_case else ("der", "hund", "der"))
    assert np.array_equal(found.weights, weights(sentences=[same])[0])
    assert layer.embed("Der Hund, der").tokens.texts == layer.projection_inputs("Der Hund, der").tokens == found.keys
    assert layer.describe(layer.encode(["a"])).details.get("keep_case", False) == keep_case


def test_the_seed_of_the_caller_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    weights()
    assert torch.equal(torch.rand(3), expected)


def test_the_record_says_what_made_it():
    attention = attend(RandomLayer(64, 4, seed=7, device_name="cpu"), [SENTENCE])
    assert attention.source.footnote == "random weights, seed 7, d_model 64, 4 heads, cpu"
    assert attention.source.details["sentences"] == [SENTENCE]
    (attention_map,) = attention.maps
    assert attention_map.queries == ("i", "wonder", "what", "will", "come", "next")
    assert attention_map.weights.dtype == np.float32
    assert attention_map.sentence is None


def test_padding_changes_nothing_but_rounding_and_is_not_in_the_record():
    alone = weights(sentences=["the cat sat"])
    batch = attend(RandomLayer(64, 4), ["the cat sat", "the cat sat on the mat"])
    assert [m.weights.shape for m in batch.maps] == [(4, 3, 3), (4, 6, 6)]
    assert [m.sentence for m in batch.maps] == [0, 1]
    # The words that the longer sentence adds take other rows of the table; those of the first stay what they are.
    np.testing.assert_allclose(batch.maps[0].weights, alone[0], atol=CLOSE)
    for attention_map in batch.maps:
        np.testing.assert_allclose(attention_map.weights.sum(axis=-1), 1, atol=CLOSE)


def test_a_causal_mask_hides_the_future():
    layer = RandomLayer(64, 4, causal=True)
    (attention_map,) = attend(layer, [SENTENCE]).maps
    assert attention_map.kind == "masked"
    assert (attention_map.weights[:, ~np.tri(6, dtype=bool)] == 0).all()
    np.testing.assert_allclose(attention_map.weights.sum(axis=-1), 1, atol=CLOSE)


def test_a_target_asks_and_the_sentence_answers():
    (attention_map,) = attend(RandomLayer(64, 4), ["the black cat"], target="le chat").maps
    assert attention_map.kind == "cross"
    assert attention_map.queries == ("le", "chat")
    assert attention_map.keys == ("the", "black", "cat")
    assert attention_map.weights.shape == (4, 2, 3)


@pytest.mark.parametrize("d_model", [8, 64, 512, 1024])
def test_scaled_weights_are_neither_flat_nor_one_hot(d_model):
    sentence = " ".join(f"word{i}" for i in range(20))
    (scaled,) = weights(RandomLayer(d_model, 2), [sentence])
    largest = scaled.max(axis=-1).mean()
    assert 0.1 < largest < 0.7, "flat would be 0.05, one-hot 1"


def test_unscaled_weights_saturate():
    (seen,) = calls(RandomLayer(512, 1), [SENTENCE])
    unscaled = torch.softmax(seen.call.query @ seen.call.key.mT, dim=-1)
    assert unscaled.amax(dim=-1).mean() > 0.9


@pytest.mark.parametrize("causal", [False, True])
def test_the_weights_are_those_of_the_textbook_layer(causal):
    layer = RandomLayer(64, 4, causal=causal)
    sentences = ["the cat sat", "the cat sat on the mat"]
    textbook = layer.trace(layer.encode(sentences), values=True).step("A").values
    for i, (expected, own) in enumerate(zip(textbook, weights(layer, sentences), strict=True)):
        length = len(sentences[i].split())
        np.testing.assert_allclose(own, expected[:, :length, :length], atol=CLOSE)


def test_what_the_attention_is_called_with_makes_the_output():
    layer = RandomLayer(64, 4)
    (seen,) = calls(layer, ["the cat sat"])
    heads = torch.nn.functional.scaled_dot_product_attention(seen.call.query, seen.call.key, seen.call.value)
    concat = torch.from_numpy(layer.trace(layer.encode(["the cat sat"]), values=True).step("concat").values)
    torch.testing.assert_close(heads.transpose(1, 2).flatten(2), concat, atol=CLOSE, rtol=0)


@pytest.mark.parametrize(
    ("sentences", "target", "causal", "message"),
    [
        ([], None, False, "at least one sentence"),
        (["a", "b"], "c", False, "one sentence, got 2"),
        (["a"], "c", True, "causal mask is for self-attention"),
        (["?!"], None, False, "at least one word"),
        (["a"], "?!", False, "at least one word"),
    ],
)
def test_what_cannot_be_attended_to(sentences, target, causal, message):
    with pytest.raises(ArgumentError, match=message):
        attend(RandomLayer(8, 2, causal=causal), sentences, target)


def test_what_does_not_fit_is_refused_before_it_starts(monkeypatch):
    def started(*_):
        raise AssertionError

    monkeypatch.setattr(RandomLayer, "_attention", started)
    with pytest.raises(MhavizError, match=r"needs about [\d.,]+ PiB of memory on cpu, where [\d.]+ GiB are free"):
        attend(RandomLayer(2**26, 4, device_name="cpu"), [SENTENCE])


def test_sizes_that_cannot_be_counted():
    with pytest.raises(MhavizError, match="Storage size calculation overflowed"):
        traced(RandomLayer(4_000_000_000, 1), ["one"])


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range(seed):
    with pytest.raises(ArgumentError, match="`seed`: expected a number from 0"):
        RandomLayer(seed=seed)


MEASURE = """
from benchmarks.measure import peak_memory
from mhaviz.models.single_layer import RandomLayer
from mhaviz.analyses import weights
from mhaviz.analyses.scaling import compare_scaling

needs = []
weights.require_memory = lambda needed, device, what: needs.append(needed)
sentence = " ".join(f"w{i}" for i in range(800))
for causal in (False, True):
    layer = RandomLayer(64, 8, device_name="cpu", causal=causal)
    compare_scaling(layer, layer.encode(["warm up"]), [0])
    weights.attention_weights(layer, layer.encode(["warm up"]))
    for name, work in {
        "attend": lambda: weights.attention_weights(layer, layer.encode([sentence])),
        "study": lambda: compare_scaling(layer, layer.encode([sentence]), range(8)),
    }.items():
        used = peak_memory(work)
        print(name, causal, needs[-1], used * 2**20)
"""


@pytest.fixture(scope="module")
def memory_used():
    """What was estimated, and what was used, in a process of its own that gives freed memory back."""
    ((status, out, err),) = run_forked(MEASURE)
    assert status == 0, err
    rows = map(str.split, out.splitlines())
    return {(what, causal): (float(needed), float(used)) for what, causal, needed, used in rows}


@pytest.mark.skipif(sys.platform != "linux", reason="the high-water mark of the memory is Linux's")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("what", ["attend", "study"])
def test_the_estimate_of_memory_is_near_what_is_used(memory_used, causal, what):
    needed, used = memory_used[what, str(causal)]
    assert 0.5 * needed < used < 1.1 * needed


def test_the_worked_example():
    assert [len(m.queries) for m in attend(RandomLayer(8, 4), WORKED_EXAMPLE).maps] == [6, 6, 6]


@pytest.mark.parametrize("piece", [1, 3, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_pieces_of_a_long_input_give_the_weights_of_the_layer(monkeypatch, piece, causal):
    monkeypatch.setattr(layer_inputs, "PIECE", piece)
    sentences = ["the cat sat", "the cat sat on the mat again"]
    layer = RandomLayer(64, 4, causal=causal)
    textbook = layer.trace(layer.encode(sentences), values=True).step("A").values
    for i, m in enumerate(attend(layer, sentences, heads=(3, 1)).maps):
        words = sentences[i].split()
        np.testing.assert_allclose(m.weights, textbook[i, [3, 1], : len(words), : len(words)], atol=CLOSE)
        assert (m.queries, m.kind, m.sentence, m.heads) == (tuple(words), "masked" if causal else "self", i, (3, 1))


def test_the_weights_of_a_target_are_those_of_the_textbook_layer():
    layer = RandomLayer(64, 4)
    textbook = layer.trace(layer.encode(["the cat sat"], "le chat"), values=True).step("A").values
    (m,) = attend(layer, ["the cat sat"], "le chat").maps
    np.testing.assert_allclose(m.weights, textbook[0], atol=CLOSE)


def test_an_input_that_does_not_fit():
    with pytest.raises(MhavizError, match="the input needs about"):
        attend(RandomLayer(2**24, 1, device_name="cpu"), ["a"])


def test_the_kind_of_its_attention_follows_from_the_texts():
    model = RandomLayer(8, 2)
    pair, alone = model.encode(["a b"], "c d"), model.encode(["a b"])
    assert [site.kind for site in model.select(kind="cross").sites(pair)] == ["cross"]
    assert [site.kind for site in model.select(kind="self").sites(alone)] == ["self"]
    with pytest.raises(ArgumentError, match="`kind`: expected cross, as there is a target, got self"):
        model.select(kind="self").sites(pair)
    with pytest.raises(ArgumentError, match="`kind`: expected self, as there is no target, got cross"):
        model.select(kind="cross").sites(alone)


@pytest.mark.parametrize(
    ("sentence", "keep_case", "remark"),
    [
        ("Hello, what's 3.14?", False, "words in lower case, without punctuation"),
        ("Hello, you", True, "words without punctuation"),
        ("Hello you", False, "words in lower case"),
        ("hello  你好 l'été", False, ""),
        ("Hello", True, ""),
    ],
)
def test_what_is_read_otherwise_than_it_was_given_is_said(sentence, keep_case, remark):
    layer = RandomLayer(8, 2, keep_case=keep_case)
    assert layer.describe(layer.encode([sentence])).remark == layer.embed(sentence).source.remark == remark
