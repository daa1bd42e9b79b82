"""Heads on which predictions hang, beside gradients of eager weights and heads that are zeroed by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf
from families import BERT_LIKE, V, word_pieces

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.pages.head_relevance import head_relevance_page

TEXTS = ["the cat sat on the mat", "a dog ran", "hello world"]
N_HEADS, D_HEAD = 4, 8


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=V, id2label={0: "NEGATIVE", 1: "POSITIVE"}, **BERT_LIKE)
    model = hf.BertForSequenceClassification(config).eval()
    for x in model.parameters():
        x.data *= 5 if x.ndim > 1 else 1
    return model


@pytest.fixture(scope="module")
def found(model):
    return mhaviz.load(model, word_pieces()).head_relevance(TEXTS, "label=NEGATIVE")


def logits_without(model, fields, layer, head):
    """Logits of the model whose output projection reads zeros in place of a head."""
    projection = model.bert.encoder.layer[layer].attention.output.dense

    def zero(module, args):
        x = args[0].clone()
        x[..., head * D_HEAD : (head + 1) * D_HEAD] = 0
        return (x,)

    hook = projection.register_forward_pre_hook(zero)
    try:
        with torch.no_grad():
            return model(**fields).logits[0]
    finally:
        hook.remove()


def by_hand(model, text):
    """Estimate, fall and change of each head, (n_layers, n_heads) each."""
    fields = word_pieces()(text, return_tensors="pt")
    with torch.no_grad():
        before = model(**fields).logits[0]
    estimate, fall, change = np.zeros((3, 2, N_HEADS))
    model.set_attn_implementation("eager")
    output = model(**fields, output_attentions=True)
    for A in output.attentions:
        A.retain_grad()
    output.logits[0, 0].backward()
    for layer, A in enumerate(output.attentions):
        estimate[layer] = (A.detach() * A.grad)[0].sum(dim=(1, 2)).abs().numpy()
        for head in range(N_HEADS):
            after = logits_without(model, fields, layer, head)
            fall[layer, head] = float(before[0] - after[0])
            p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
            change[layer, head] = float((p.exp() * (p - q)).sum()) / np.log(2)
    model.zero_grad()
    return estimate, fall, change


@pytest.mark.parametrize(("place", "name"), [(0, "estimate"), (1, "fall"), (2, "change")])
def test_numbers_are_means_over_texts(model, found, place, name):
    expected = np.mean([by_hand(model, text)[place] for text in TEXTS], axis=0)
    number = found.kinds[0].number(name).mean
    assert number == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(expected).max())


def test_the_estimate_is_compared_in_ranks(found):
    from scipy.stats import spearmanr

    (kind,) = found.kinds
    expected = spearmanr(kind.estimate.mean.ravel(), kind.change.mean.ravel()).statistic
    assert found.agreement == pytest.approx(expected)
    assert found.compared == "change"


def test_a_function_has_no_choices_to_compare(model):
    found = mhaviz.load(model, word_pieces()).head_relevance(TEXTS[:2], lambda output: output.logits[0, 0])
    assert not found.kinds[0].change.is_known
    assert found.compared == "fall"


def test_chosen_heads_alone_are_measured(model):
    found = mhaviz.load(model, word_pieces()).head_relevance(TEXTS[:1], layer=1, head=[2])
    (kind,) = found.kinds
    assert kind.layers == (1,)
    assert np.isfinite(kind.estimate.mean).tolist() == [[False, False, True, False]]


def test_a_label_that_is_not_there_is_refused(model):
    with pytest.raises(ArgumentError, match="no label 'X'"):
        mhaviz.load(model, word_pieces()).head_relevance(TEXTS, "label=X")


@pytest.mark.parametrize("times", [100, 1])
def test_the_page_says_whether_the_estimate_agrees(found, times):
    (kind,) = found.kinds
    kind = replace(kind, change=replace(kind.change, mean=kind.change.mean * times / kind.change.mean.max()))
    title = head_relevance_page(replace(found, kinds=(kind,))).title
    assert title.endswith(f": rank correlation {found.agreement:.2f}".replace("-", "−"))
    assert ("heads alike" in title) == (found.agreement >= 0.8)
    layer, head = np.unravel_index(kind.change.mean.argmax(), kind.change.mean.shape)
    estimated = np.unravel_index(kind.estimate.mean.argmax(), kind.estimate.mean.shape)
    assert (f", L{layer} H{head} first" in title) == ((layer, head) != estimated)


def test_heads_that_change_nothing_do_not_matter(found):
    (kind,) = found.kinds
    pale = replace(kind, change=replace(kind.change, mean=kind.change.mean * 1e-6))
    title = head_relevance_page(replace(found, kinds=(pale,))).title
    assert "no head alone matters: zeroing changes at most" in title
