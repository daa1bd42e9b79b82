"""The difference of two models over a corpus, beside transformers' eager attention and scipy."""

import numpy as np
import pytest
import torch
import transformers as hf
from families import bytes_and_words
from scipy.spatial.distance import jensenshannon

import mhaviz
from mhaviz.analyses import corpus_difference
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.pages.blocks import Matrices
from mhaviz.pages.corpus_difference import corpus_difference_page

TEXTS = ["the cat sat on the mat", "a dog", "hello world. the dog ran!", "the cat"]


def shaken(folder, by=0.05):
    """The model of a folder as it is, and with other parameters, as transformers runs it by itself; its tokenizer."""
    auto = hf.AutoModel
    before, after = (auto.from_pretrained(folder, attn_implementation="eager").eval() for _ in range(2))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in after.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=by)
    return before, after, hf.AutoTokenizer.from_pretrained(folder)


def of_models(before, after, tokenizer, texts=TEXTS, **options):
    return mhaviz.diff_models(*(mhaviz.load(model, tokenizer) for model in (before, after)), texts, **options)


def rows_by_hand(model, others, tokenizer, text):
    """(n_layers, n_heads, q_length) bits, by eager attention and scipy; what rows lack to 1 is a key of its own."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        pair = [
            torch.cat(one(input_ids=ids, output_attentions=True).attentions).double().numpy() for one in (model, others)
        ]
    pair = [np.append(A, 1 - A.sum(axis=-1, keepdims=True), axis=-1).clip(0) for A in pair]
    return jensenshannon(*pair, axis=-1, base=2) ** 2


@pytest.mark.parametrize("family", ["bert", "gpt_oss", "deberta"])
def test_beside_eager_and_scipy(model_folder, family):
    models = shaken(model_folder(family))
    rows = [rows_by_hand(*models, text) for text in TEXTS]
    record = of_models(*models)
    (kind,) = record.kinds
    each = np.array([bits.mean(axis=-1) for bits in rows])
    np.testing.assert_allclose(kind.divergence.mean, each.mean(axis=0), rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(kind.divergence.spread, each.std(axis=0, ddof=1), rtol=2e-3, atol=1e-7)
    assert kind.divergence.sentences == 4
    assert kind.divergence.queries == sum(bits.shape[-1] for bits in rows)
    for place in np.ndindex(kind.divergence.mean.shape):
        there = rows[kind.divergence.sentence[place]][(*place, kind.divergence.query[place])]
        assert kind.divergence.largest[place] == pytest.approx(there, rel=2e-3, abs=1e-7)
        assert there == pytest.approx(max(bits[place].max() for bits in rows), rel=2e-3, abs=1e-7)
    assert record.ranking[0]["mean"] == kind.divergence.mean.max() > 1e-3


@pytest.mark.parametrize("family", ["bart", "convbert"])
def test_a_model_and_itself(model_folder, family):
    """An encoder with a decoder, whose targets are written; and one that sees padding."""
    folder = model_folder(family)
    record = mhaviz.diff_models(folder, folder, TEXTS)
    assert {kind.kind for kind in record.kinds} >= {"self"}
    assert all(kind.divergence.sentences == 4 and not kind.divergence.largest.any() for kind in record.kinds)
    assert (record.kinds[0].divergence.sentence == -1).all()


def test_few_layers_at_a_time_give_the_same(model_folder, monkeypatch):
    models = shaken(model_folder("bert"))
    at_once = of_models(*models)
    monkeypatch.setattr(corpus_difference, "_KEPT_BYTES", 0)
    (one,), (other,) = at_once.kinds, of_models(*models).kinds
    np.testing.assert_array_equal(one.divergence.mean, other.divergence.mean)
    np.testing.assert_array_equal(one.divergence.largest, other.divergence.largest)


def test_layers_that_are_chosen(model_folder):
    models = shaken(model_folder("bert"))
    (whole,), (one,) = of_models(*models).kinds, of_models(*models, layer=1).kinds
    assert one.layers == (1,)
    np.testing.assert_array_equal(one.divergence.mean, whole.divergence.mean[1:])


def test_limits(model_folder):
    models = shaken(model_folder("bert"))
    free = of_models(*models)
    means = sorted(head["mean"] for head in free.ranking)
    strict = of_models(*models, fail_above=means[-3])
    assert [head["mean"] for head in strict.ranking if head["above"]] == [means[-1], means[-2]]
    assert "above" not in free.ranking[0]
    with pytest.raises(ArgumentError, match="expected bits from 0 to 1, got 2"):
        of_models(*models, fail_above=2)


def test_where_no_head_differs_there_is_no_picture_to_read(model_folder):
    bert = model_folder("bert")
    page = corpus_difference_page(mhaviz.diff_models(bert, bert, TEXTS))
    assert not any(isinstance(block, Matrices) for block in page.blocks)
    assert page.remark == ""


def test_models_that_cannot_be_compared(model_folder):
    bert = model_folder("bert")
    before, _, tokenizer = shaken(bert)
    torch.manual_seed(0)
    of_two_heads = hf.BertModel(hf.BertConfig(**before.config.to_dict() | {"num_attention_heads": 2}))
    other_tokens = mhaviz.load(before, bytes_and_words())
    with pytest.raises(
        MhavizError, match=r"tokens in both models, but a sample, 'The cat sat .*; compare models of one tokenizer"
    ):
        mhaviz.diff_models(bert, model_folder("gpt2"), TEXTS)
    one_kind = {"vocab_size": before.config.vocab_size, "n_embd": 16, "n_layer": 3, "n_head": 4}
    with pytest.raises(MhavizError, match="layer 0, self, has 4 heads in the first and 0 in the second; compare"):
        of_models(before, hf.GPT2LMHeadModel(hf.GPT2Config(**one_kind)), tokenizer)
    of_three = hf.BertModel(hf.BertConfig(**before.config.to_dict() | {"num_hidden_layers": 3}))
    with pytest.raises(MhavizError, match=r"has 0 heads in the first and 4 in the second; .* by `layer` or"):
        of_models(before, of_three, tokenizer)
    with pytest.raises(MhavizError, match="has 4 heads in the first and 2 in the second"):
        of_models(before, of_two_heads, tokenizer)
    with pytest.raises(MhavizError, match=r"sentence \d, '.*' has \d+ tokens in the first and \d+ in the second"):
        mhaviz.diff_models(mhaviz.load(before, tokenizer), other_tokens, TEXTS)
    with pytest.raises(ArgumentError, match="A: expected a transformers model"):
        mhaviz.diff_models("random", bert, TEXTS)
    with pytest.raises(ArgumentError, match="expected at least one sentence, got none"):
        mhaviz.diff_models(bert, bert, [])


MANY = [" ".join(["the cat", "a dog ran", "hello world"][i % 3 :] * (i % 5 + 1)) for i in range(120)]


def same(one, other):
    """Whether all numbers of both are those of the other, bit for bit."""
    pairs = [(a.divergence, b.divergence) for a, b in zip(one.kinds, other.kinds, strict=True)]
    arrays = [(np.asarray(vars(a)[name]), np.asarray(vars(b)[name])) for a, b in pairs for name in vars(a)]
    return all(np.array_equal(one, other, one.dtype.kind == "f") for one, other in arrays)


@pytest.mark.slow
def test_processes_find_what_one_finds(model_folder, as_processes):
    before, after, tokenizer = shaken(model_folder("bert"))
    models = [mhaviz.load(model, tokenizer) for model in (before, after)]
    whole = mhaviz.diff_models(*models, MANY)
    shared = as_processes(3, lambda rank: mhaviz.diff_models(*models, mhaviz.Corpus(MANY, torchrun=True)))
    assert shared.source == whole.source
    (one,), (other,) = whole.kinds, shared.kinds
    for name in ("mean", "spread"):
        np.testing.assert_allclose(vars(one.divergence)[name], vars(other.divergence)[name], rtol=1e-12)
    for name in ("largest", "sentence", "query", "key", "query_token", "key_token"):
        np.testing.assert_array_equal(vars(one.divergence)[name], vars(other.divergence)[name])
    with pytest.raises(MhavizError, match="process 2 and process 1 differ in their model"):
        as_processes(
            2, lambda rank: mhaviz.diff_models(*models[:: -1 if rank else 1], mhaviz.Corpus(MANY, torchrun=True))
        )


def test_a_run_that_was_killed_goes_on(model_folder, tmp_path, monkeypatch):
    from mhaviz.corpus import corpus as corpora

    before, after, tokenizer = shaken(model_folder("bert"))
    models = [mhaviz.load(model, tokenizer) for model in (before, after)]
    whole = mhaviz.diff_models(*models, MANY)
    monkeypatch.setattr(corpora, "_SECONDS", 0.0)
    monkeypatch.setattr(corpora, "_SHARE", 0.0)
    part = tmp_path / "part.safetensors"

    def killed(done, taken):
        if taken > 70:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mhaviz.diff_models(*models, mhaviz.Corpus(MANY, part=part), on_progress=killed)
    counted = []
    resumed = mhaviz.diff_models(
        *models, mhaviz.Corpus(MANY, part=part, resume=True), on_progress=lambda done, n: counted.append(n)
    )
    assert counted[0] > 60, "the first sentences were not read again"
    assert same(resumed, whole)
    kept = mhaviz.diff_models(*models, mhaviz.Corpus(MANY, part, resume=True), on_progress=pytest.fail)
    assert same(kept, whole)
