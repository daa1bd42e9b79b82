"""The attention of a trained model, against PyTorch's attention with the same weights."""

import numpy as np
import pytest
import torch
from looking import attend, calls
from rounding import rounding
from torch import nn

from mhaviz.errors import ArgumentError
from mhaviz.models.trained_model import KINDS, TrainedModel
from mhaviz.results.trace import follow_element
from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
from mhaviz.training.corpus import Corpus, Pair
from mhaviz.training.evaluation import most_words
from mhaviz.training.loading import load_checkpoint

CLOSE = rounding(depth=3)

SENTENCE = "The small black cat does not see my red car!"
SOURCE = ("the", "small", "black", "cat", "does", "not", "see", "my", "red", "car")
TARGET = ("le", "petit", "chat", "noir", "ne", "voit", "pas", "ma", "voiture", "rouge")


@pytest.fixture(scope="module")
def translator():
    return TrainedModel(load_checkpoint("translation"), "cpu")


def kinds(attention):
    return [m.kind for m in attention.maps]


def test_three_attentions_and_the_names_of_their_rows(translator):
    attention = attend(translator, [SENTENCE])
    encoder, masked, cross = attention.maps
    assert kinds(attention) == ["self", "masked", "cross"]
    assert encoder.queries == encoder.keys == SOURCE
    assert masked.queries == masked.keys == ("<start>", *TARGET)
    assert (cross.queries, cross.keys) == ((*TARGET, "<end>"), SOURCE)
    sides = [side.tokens.special for m in attention.maps for side in (m.rows, m.columns)]
    assert sides == [(), (), (0,), (0,), (len(TARGET),), ()], "the marks are no words"
    for m in attention.maps:
        np.testing.assert_allclose(m.weights.sum(axis=-1), 1, atol=CLOSE)
    assert attention.source.details["translations"] == [" ".join(TARGET)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_remark_names_queries_which_are_no_rows_in_pages_of_keys(translator, kind):
    chosen = translator.select(kind=kind)
    remark = chosen.describe(chosen.encode([SENTENCE])).remark
    assert remark == ("source-target queries are the words being produced" if kind == "cross" else "")


def test_weights_are_pytorchs(translator):
    """Source-target attention, its inputs worked out with PyTorch's own layers."""
    model = translator.checkpoint.model
    theirs = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    ours = model.decoder_source.attention
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.Wq.weight, ours.Wk.weight, ours.Wv.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.Wq.bias, ours.Wk.bias, ours.Wv.bias]))
        source = torch.tensor([translator.checkpoint.source_vocabulary.ids(SOURCE)])
        target = torch.tensor([translator.checkpoint.target_vocabulary.ids(["<start>", *TARGET])])
        memory, _ = model.encode(source)
        x = model.position(model.target_embeddings(target))
        later = torch.ones(11, 11).triu(1).bool()
        inside = model.decoder_self.attention
        mixed, _ = nn.functional.multi_head_attention_forward(
            x.transpose(0, 1),
            x.transpose(0, 1),
            x.transpose(0, 1),
            64,
            4,
            torch.cat([inside.Wq.weight, inside.Wk.weight, inside.Wv.weight]),
            torch.cat([inside.Wq.bias, inside.Wk.bias, inside.Wv.bias]),
            None,
            None,
            False,
            0.0,
            inside.Wo.weight,
            inside.Wo.bias,
            training=False,
            attn_mask=later,
        )
        x = model.decoder_self.norm(x + mixed.transpose(0, 1))
        _, weights = theirs(x, memory, memory, average_attn_weights=False)
    (cross,) = (m for m in attend(translator, [SENTENCE]).maps if m.kind == "cross")
    np.testing.assert_allclose(cross.weights, weights[0].numpy(), atol=CLOSE)


def test_each_word_looks_at_the_word_that_it_translates(translator):
    (cross,) = (m for m in attend(translator, [SENTENCE]).maps if m.kind == "cross")
    looked_at = dict(zip(cross.queries, (SOURCE[i] for i in cross.weights.mean(axis=0).argmax(axis=-1)), strict=True))
    expected = {"petit": "small", "chat": "cat", "noir": "black", "ne": "not", "voiture": "car", "rouge": "red"}
    assert {word: looked_at[word] for word in expected} == expected


def test_sentences_of_several_lengths_are_as_if_alone(translator):
    sentences = ["the cat sees a dog", SENTENCE, "some big red cows follow my new car and the horses"]
    together = attend(translator, sentences).maps
    assert [m.sentence for m in together] == [i for i in range(3) for _ in range(3)]
    alone = [m for sentence in sentences for m in attend(translator, [sentence]).maps]
    for one, other in zip(together, alone, strict=True):
        assert (one.queries, one.keys, one.kind) == (other.queries, other.keys, other.kind)
        np.testing.assert_allclose(one.weights, other.weights, atol=CLOSE)
    for k, seen in enumerate(calls(translator, sentences, batched=True)):
        for i, (A, queries, keys) in enumerate(zip(seen.call.weights(), seen.queries, seen.keys, strict=True)):
            m = together[3 * i + k]
            assert (queries.texts, keys.texts) == (m.queries, m.keys)
            np.testing.assert_allclose(A[:, : len(queries), : len(keys)], m.weights, atol=CLOSE)


def test_a_target_is_taken_as_it_is_given(translator):
    attention = attend(translator, ["the cat sees a dog"], "une vache rouge")
    assert attention.maps[2].queries == ("une", "vache", "rouge", "<end>")
    assert attention.source.details["target_given"] is True


def test_the_marks_are_cropped(translator):
    whole, cropped = (attend(translator, [SENTENCE], hide_special=hides).maps for hides in (False, True))
    assert cropped[1].queries == cropped[1].keys == TARGET
    np.testing.assert_array_equal(cropped[1].weights, whole[1].weights[:, 1:, 1:])
    np.testing.assert_allclose(cropped[1].to_special, whole[1].weights[:, 1:, 0].mean(1), atol=CLOSE)
    np.testing.assert_array_equal(cropped[2].weights, whole[2].weights[:, :-1])


@pytest.mark.parametrize("kind", ["self", "masked", "cross"])
def test_the_weights_are_those_of_the_textbook_layer(kind):
    model = TrainedModel(load_checkpoint("translation"), "cpu").select(kind=kind)
    (attention_map,) = attend(model, [SENTENCE]).maps
    assert attention_map.kind == kind
    textbook = model.trace(model.encode([SENTENCE]), values=True).step("A").values
    np.testing.assert_allclose(attention_map.weights, textbook[0], atol=CLOSE)


def test_values_make_the_output():
    cross = TrainedModel(load_checkpoint("translation"), "cpu").select(kind="cross")
    (seen,) = calls(cross, ["a cat"], "un")
    mixed = nn.functional.scaled_dot_product_attention(seen.call.query, seen.call.key, seen.call.value)
    concat = cross.trace(cross.encode(["a cat"], "un"), values=True).step("concat").values
    np.testing.assert_allclose(mixed.transpose(1, 2).flatten(2).numpy(), concat, atol=CLOSE)


@pytest.mark.parametrize(("kind", "first"), [("self", ["E", "X"]), ("masked", ["E", "X"]), ("cross", ["X source"])])
def test_traces(kind, first):
    model = TrainedModel(load_checkpoint("translation"), "cpu").select(kind=kind)
    trace = model.trace(model.encode([SENTENCE]))
    names = [step.name for step in trace.steps]
    assert names[: len(first)] == first
    assert names[-1] == "O"
    lengths = {"self": (10, 10), "masked": (11, 11), "cross": (11, 10)}[kind]
    assert trace.step("S").shape == (1, 4, *lengths)
    assert ("S masked" in names) == (kind == "masked")
    real = model.trace(model.encode([SENTENCE]), values=True)
    assert [(s.name, s.shape, s.flops, s.parameters) for s in real.steps] == [
        (s.name, s.shape, s.flops, s.parameters) for s in trace.steps
    ]
    followed = follow_element(trace, (0, 2, 5))
    assert followed.visits[0].step == "Q"
    parameters = sum(p.numel() for p in model.checkpoint.model.decoder_source.attention.parameters())
    assert sum(s.parameters for s in trace.steps) >= parameters


def test_a_model_still_works_after_it_was_traced(translator):
    before = attend(translator, [SENTENCE]).maps[2].weights
    translator.trace(translator.encode([SENTENCE]))
    np.testing.assert_array_equal(attend(translator, [SENTENCE]).maps[2].weights, before)


def test_unknown_words_are_named_with_words_near_by(translator):
    with pytest.raises(ArgumentError) as caught:
        attend(translator, ["the smal xylophone sees a carr"])
    message = str(caught.value)
    assert '"smal" (near: small' in message
    assert '"xylophone"' in message
    assert '"carr" (near: car' in message
    assert "the checkpoint has not learnt" in message
    assert "expected source words that it knows" in message
    assert "<start>" not in message
    with pytest.raises(ArgumentError, match=r'"elephant".*expected target words'):
        attend(translator, ["the cat"], "le elephant")
    many = " ".join(f"w{i}" for i in range(12))
    with pytest.raises(ArgumentError, match=r'"w7".* and 4 more'):
        attend(translator, [many])


@pytest.mark.parametrize(
    ("sentences", "target", "message"),
    [
        ([], None, "at least one sentence"),
        (["the cat", "a dog"], "le chat", "one sentence, got 2"),
        (["?!"], None, "at least one word"),
        (["the cat"], "?", "at least one word"),
        (["the " * 201], None, "at most 200 words, as a trained model takes them, got 201"),
        (["the"], "le " * 201, "at most 200 words"),
    ],
)
def test_what_cannot_be_attended_to(translator, sentences, target, message):
    with pytest.raises(ArgumentError, match=message):
        attend(translator, sentences, target)


def test_the_longest_sentence(translator):
    attention = attend(translator, ["the " * 200], "le " * 200)
    assert attention.maps[2].weights.shape == (4, 201, 200)


def test_a_device_without_a_name():
    with pytest.raises(ArgumentError, match="`device`: expected auto"):
        TrainedModel(load_checkpoint("translation"), "gpu")


def test_how_it_learnt(translator):
    history = translator.checkpoint.record(torch.device("cpu"))
    assert history.points[-1].step == history.steps == 1500
    assert (history.training_sentences, history.held_out_sentences, history.scored_sentences) == (7500, 500, 50)
    assert history.parameters == sum(p.numel() for p in translator.checkpoint.model.parameters())
    assert "1,500 steps from the built-in grammar; d_model 64" in history.source.footnote
    footnote = attend(translator, ["the cat"]).source.footnote
    assert "1,500 steps from the built-in grammar, exact match 1.00 on 50 of 500 held out; d_model 64" in footnote


def test_a_translation_that_does_not_end(monkeypatch):
    """It is cut off, has no row for an end mark that nobody has produced, and the footnote says so."""
    pair = Pair(("a",), ("b",))
    model = TrainedModel(Checkpoint.untrained(Corpus("t", (pair,), (pair,)), Sizes(8, 2, 8), Plan()))
    with torch.no_grad():
        model.checkpoint.model.output.bias[model.checkpoint.target_vocabulary.ids(["b"])] = 100.0
    attention = attend(model, ["a"])
    _, masked, cross = attention.maps
    assert cross.queries == ("b",) * most_words(1)
    assert masked.queries == ("<start>", *("b",) * (most_words(1) - 1))
    assert "did not end and was cut off" in attention.source.footnote
    assert "cut off" not in attend(model, ["a"], "b").source.footnote


def test_how_long_a_translation_may_be():
    assert [most_words(length) for length in (0, 1, 2, 10, 200)] == [10, 11, 13, 25, 310]
