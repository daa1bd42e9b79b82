"""Relevance of checkpoints, beside eager weights with gradients, and the paper's formulas on whole matrices."""

import warnings
from itertools import pairwise

import pytest
import torch
import transformers as hf
from families import BERT_LIKE, EAGER, FAMILIES, SEE_PADDING, V, bytes_and_words, word_pieces

import mhaviz
from mhaviz.analyses.word_relevance import relevance_of_tokens
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.given import Given
from mhaviz.models.transformers.model import model_in_memory

CLASSIFIER = (hf.BertForSequenceClassification, lambda: hf.BertConfig(vocab_size=V, **BERT_LIKE), word_pieces)
BY_INTERFACE = {name: kind for name, kind in FAMILIES.items() if name not in ("jamba", "gpt_oss")}
TEXT = "the cat sat on the mat"


def made(kind, seed=1, dtype=torch.float64):
    """A model and its tokenizer; weights are so large that attention is far from uniform."""
    of, config, tokenizer = kind
    config = config()
    model, random = of(config), torch.Generator().manual_seed(seed)
    for name, x in model.named_parameters():
        is_scale = x.ndim == 1 and "norm" in name.lower() and "weight" in name
        x.data = torch.randn(x.shape, generator=random) * (0.3 if x.ndim > 1 else 0.1) + is_scale
    return model.eval().to(dtype), tokenizer()


def last_logit(output):
    x = output["logits"] if "logits" in output else output["last_hidden_state"]
    return x[0, -1, 7] if x.ndim == 3 else x[0, 1]


def bar(A):
    """Equation 5."""
    return (A.detach() * A.grad)[0].clamp(min=0).mean(dim=0)


def normalised(R):
    """Equations 8 and 9."""
    gained = R - torch.eye(len(R), dtype=R.dtype)
    sums = gained.sum(dim=-1, keepdim=True)
    return torch.where(sums > 0, gained / sums, 0.0) + torch.eye(len(R), dtype=R.dtype)


def by_the_paper(model, fields):
    """R − I of the tokens themselves, and R_sq of a decoder's tokens and the encoder's, by equations 5 to 10."""
    model.set_attn_implementation("eager")
    output = model(**fields, output_attentions=True, use_cache=False, return_dict=True)
    names = ("encoder_attentions", "decoder_attentions", "cross_attentions")
    sets = [output[name] for name in (names if model.config.is_encoder_decoder else ("attentions",))]
    for A in (A for weights in sets for A in weights):
        A.retain_grad()
    last_logit(output).backward()
    eyes = [torch.eye(weights[0].shape[-1], dtype=weights[0].dtype) for weights in sets]
    R = eyes[0]
    for A in sets[0]:
        R = R + bar(A) @ R
    if len(sets) == 1:
        return R - eyes[0], None
    R_ss, R_sq = eyes[1], torch.zeros(len(eyes[1]), len(R), dtype=R.dtype)
    for A, across in zip(*sets[1:], strict=True):
        R_ss, R_sq = R_ss + bar(A) @ R_ss, R_sq + bar(A) @ R_sq
        R_sq = R_sq + normalised(R_ss).T @ bar(across) @ normalised(R)
    return R_ss - eyes[1], R_sq


def relevances(model, tokenizer, why=last_logit, text=TEXT):
    whole = model_in_memory(model, tokenizer)
    inputs = whole.read(Given((text,)))
    (text,) = inputs.texts
    of_tokens = relevance_of_tokens(whole.graded(text, whole.target(why, text)))
    return of_tokens, whole.texts.batch([text])


def require_equal(found, row):
    torch.testing.assert_close(torch.from_numpy(found), row.double(), rtol=1e-8, atol=1e-10 * float(row.abs().max()))


QUICK = ("gpt2", "mistral", "gemma2", "t5", "by_hand", "classifier")


def each(names):
    """The others, which cost 8 seconds in all, are slow."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", each([*BY_INTERFACE, "classifier"]))
def test_relevance_is_that_of_eager_weights(name, monkeypatch):
    softmax = torch.nn.functional.softmax  # eager functions round it to float32
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim=-1, dtype=None, **_: softmax(x, dim=dim))
    model, tokenizer = made(CLASSIFIER if name == "classifier" else FAMILIES[name])
    (of_text, of_written), fields = relevances(model, tokenizer)
    own, across = by_the_paper(model, fields)
    row = 0 if name == "classifier" else -1
    require_equal(of_text, (own if across is None else across)[row])
    if across is not None:
        require_equal(of_written, own[row])


@pytest.mark.parametrize("name", each(EAGER))
def test_relevance_of_weights_by_hand_is_that_of_eager_weights(name):
    model, tokenizer = made(EAGER[name])
    if name == "falcon":
        model = made((hf.FalconForCausalLM, lambda: with_eager(EAGER[name][1]()), bytes_and_words))[0]
    (of_text, _), fields = relevances(model, tokenizer)
    require_equal(of_text, by_the_paper(model, fields)[0][-1])


def with_eager(config):
    config._attn_implementation = "eager"
    return config


def test_padding_does_not_change_relevance():
    model, tokenizer = made(CLASSIFIER)
    (alone, _), fields = relevances(model, tokenizer)
    padded = {
        "input_ids": torch.cat([fields["input_ids"], torch.zeros(1, 3, dtype=torch.long)], dim=1),
        "attention_mask": torch.cat([fields["attention_mask"], torch.zeros(1, 3, dtype=torch.long)], dim=1),
    }
    with mhaviz.record(model) as recording:
        y = model(**padded).logits[0, 1]
    found = recording.relevance(y).text.relevance
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(alone), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_coarser_numbers_rank_alike(dtype):
    exact, _ = relevances(*made(CLASSIFIER))
    coarse, _ = relevances(*made(CLASSIFIER, dtype=dtype))
    found = torch.corrcoef(torch.stack([torch.from_numpy(x[0]) for x in (exact, coarse)]))[0, 1]
    assert found > (0.95 if dtype == torch.bfloat16 else 0.9999)


def test_parameters_are_as_before_and_have_no_gradients():
    model, tokenizer = made(CLASSIFIER)
    model.classifier.weight.requires_grad_(False)
    before = {name: x.requires_grad for name, x in model.named_parameters()}
    relevances(model, tokenizer)
    assert {name: x.requires_grad for name, x in model.named_parameters()} == before
    assert all(x.grad is None for x in model.parameters())


def test_relevance_runs_within_no_grad_and_inference_mode():
    model, tokenizer = made(CLASSIFIER)
    expected, _ = relevances(model, tokenizer)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            found, _ = relevances(model, tokenizer)
        assert (found[0] == expected[0]).all()


def test_a_model_in_training_is_explained_without_its_dropout():
    model, tokenizer = made(CLASSIFIER)
    expected, _ = relevances(model, tokenizer)
    found, _ = relevances(model.train(), tokenizer)
    assert (found[0] == expected[0]).all()
    assert model.training


@pytest.mark.parametrize(
    ("kind", "why"),
    [(FAMILIES["jamba"], "mixes tokens outside of attention"), (SEE_PADDING["convbert"], "mixes tokens outside")],
    ids=["jamba", "convbert"],
)
def test_layers_that_mix_tokens_otherwise_are_refused(kind, why):
    model, tokenizer = made(kind, dtype=torch.float32)
    with pytest.raises(MhavizError, match=why):
        relevances(model, tokenizer)


def test_quantised_layers_without_gradients_are_refused():
    model, tokenizer = made(CLASSIFIER, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        int8 = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
        with pytest.raises(MhavizError, match="no gradient arrives"):
            relevances(int8, tokenizer)


@pytest.fixture
def classifier():
    model, tokenizer = made(CLASSIFIER, dtype=torch.float32)
    model.config.id2label = {0: "NEGATIVE", 1: "POSITIVE"}
    return mhaviz.load(model, tokenizer)


@pytest.fixture
def writer():
    return mhaviz.load(*made(FAMILIES["gpt2"], dtype=torch.float32))


def test_y_is_the_logit_of_the_label(classifier):
    found = classifier.attend(TEXT, show="relevance", why="label=negative")
    model, tokenizer = made(CLASSIFIER, dtype=torch.float32)
    with torch.no_grad():
        logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0]
    assert found.y == pytest.approx(float(logits[0]), rel=1e-5)
    assert (found.explained.kind, found.explained.choice) == ("label", "NEGATIVE")
    assert found.chosen == ["NEGATIVE", "POSITIVE"][int(logits.argmax())]


def test_falls_are_those_of_texts_without_the_word(classifier):
    found = classifier.attend(TEXT, show="relevance", why="label=NEGATIVE", removal="all")
    model, tokenizer = made(CLASSIFIER, dtype=torch.float32)
    words = TEXT.split()
    for place, word in enumerate(words):
        rest = " ".join(words[:place] + words[place + 1 :])
        with torch.no_grad():
            y = float(model(**tokenizer(rest, return_tensors="pt")).logits[0, 0])
        assert found.text.words.texts[place + 1].strip() == word
        assert found.y - found.text.falls[place + 1] == pytest.approx(y, rel=1e-4, abs=1e-5)


def test_the_top_prediction_is_explained_unless_another_is_named(classifier, writer):
    for model in (classifier, writer):
        found = model.attend(TEXT, show="relevance")
        assert found.explained.is_top
        assert found.chosen == found.explained.choice


def test_the_next_token_is_explained(writer):
    found = writer.attend("the cat", show="relevance", why=" the")
    model, tokenizer = made(FAMILIES["gpt2"], dtype=torch.float32)
    (number,) = tokenizer(" the", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        y = model(**tokenizer("the cat", return_tensors="pt")).logits[0, -1, number]
    assert found.y == pytest.approx(float(y), rel=1e-5)


def test_what_is_written_is_explained(writer):
    found = writer.attend("the cat", show="relevance", generate=3)
    assert found.explained.kind == "written"
    assert found.text.aside[-1]  # what is written is not of the text
    assert not found.text.aside[0]


def test_a_prompt_is_not_removed_whole(writer):
    found = writer.attend("cat", show="relevance", generate=3)
    assert len(found.text.ranked) == 1
    assert found.text.removed == []


@pytest.mark.parametrize(
    ("sizes", "kind", "is_top"),
    [
        ({"num_labels": 1}, "score", False),
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "label", False),
    ],
)
def test_outputs_that_are_no_choices_choose_nothing(sizes, kind, is_top):
    config = hf.BertConfig(vocab_size=V, **BERT_LIKE, **sizes)
    model, tokenizer = made((hf.BertForSequenceClassification, lambda: config, word_pieces), dtype=torch.float32)
    found = mhaviz.load(model, tokenizer).attend(TEXT, show="relevance", why="top")
    assert (found.explained.kind, found.explained.is_top, found.chosen) == (kind, False, "")


def test_scores_of_a_regression_have_no_top():
    config = hf.BertConfig(vocab_size=V, num_labels=3, problem_type="regression", **BERT_LIKE)
    model, tokenizer = made((hf.BertForSequenceClassification, lambda: config, word_pieces), dtype=torch.float32)
    loaded = mhaviz.load(model, tokenizer)
    with pytest.raises(ArgumentError, match="gives scores and chooses none"):
        loaded.attend(TEXT, show="relevance", why="top")
    assert loaded.attend(TEXT, show="relevance", why="label=LABEL_2").explained.kind == "score"


def test_a_masked_token_is_explained():
    kind = hf.BertForMaskedLM, lambda: hf.BertConfig(vocab_size=V, **BERT_LIKE), word_pieces
    model, tokenizer = made(kind, dtype=torch.float32)
    tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    found = mhaviz.load(model, tokenizer).attend("the [MASK] sat", show="relevance", why="cat")
    fields = tokenizer("the [MASK] sat", return_tensors="pt")
    place = fields["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        y = model(**fields).logits[0, place, tokenizer.convert_tokens_to_ids("cat")]
    assert found.y == pytest.approx(float(y), rel=1e-5)


@pytest.mark.parametrize(
    ("why", "message"),
    [
        ("label=NEUTRAL", r"no label 'NEUTRAL'; it has 'NEGATIVE', 'POSITIVE'"),
        ("cat", r"expected label=NAME, as the model is a classifier"),
    ],
)
def test_labels_that_are_not_there_are_refused(classifier, why, message):
    with pytest.raises(ArgumentError, match=message):
        classifier.attend(TEXT, show="relevance", why=why)


def test_a_token_of_several_pieces_is_refused_with_its_pieces(writer):
    with pytest.raises(ArgumentError, match="expected a single token of the model, got 'cats'"):
        writer.attend(TEXT, show="relevance", why="cats")


def test_a_target_outside_of_what_is_written_is_refused(writer):
    with pytest.raises(ArgumentError, match="is not among the written tokens"):
        writer.attend("the cat", show="relevance", why="zebra", generate=2)


def test_a_model_without_a_head_is_refused():
    with pytest.raises(ArgumentError, match="has no head that predicts"):
        mhaviz.load(*made(FAMILIES["bert"], dtype=torch.float32)).attend(TEXT, show="relevance")


def test_a_function_that_gives_no_scalar_is_refused(classifier):
    with pytest.raises(ArgumentError, match="expected a scalar"):
        classifier.attend(TEXT, show="relevance", why=lambda output: output.logits)


def test_y_of_nan_is_refused(classifier):
    with pytest.raises(MhavizError, match="expected a finite y"):
        classifier.attend(TEXT, show="relevance", why=lambda output: output.logits[0, 0] * torch.nan)


@pytest.mark.parametrize("n_tokens", [9, 20])
def test_maps_of_heads_are_weights_times_gradients(n_tokens):
    model, tokenizer = made(CLASSIFIER)
    text = " ".join(["the", "cat", "sat"] * 7).split()[: n_tokens - 2]
    loaded = mhaviz.load(model, tokenizer)
    found = loaded.attend(" ".join(text), show="relevance", why=last_logit, layer=1, head=[1, 3], size=12)
    model.set_attn_implementation("eager")
    output = model(**tokenizer(" ".join(text), return_tensors="pt"), output_attentions=True)
    A = output.attentions[1]
    A.retain_grad()
    last_logit(output).backward()
    expected = (A.detach() * A.grad)[0, [1, 3]]
    if n_tokens <= 12:
        (m,) = found.maps
        torch.testing.assert_close(torch.from_numpy(m.weights).double(), expected, rtol=1e-4, atol=1e-9)
        return
    for m, sign in zip(found.maps, (1, -1), strict=True):
        part = (expected * sign).clamp(min=0)
        columns = torch.stack([part[..., a:b].sum(-1) for a, b in pairwise(m.columns.edges)], -1)
        cells = torch.stack([columns[:, a:b].mean(1) for a, b in pairwise(m.rows.edges)], 1)
        torch.testing.assert_close(torch.from_numpy(m.weights).double(), cells, rtol=1e-4, atol=1e-9)
