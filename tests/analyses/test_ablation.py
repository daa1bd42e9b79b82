"""What changes without a head, beside transformers run by hand on edited parameters, and scipy's divergences."""

import numpy as np
import pytest
import torch
import transformers as hf
from families import BERT_LIKE, ENDS, V, bytes_and_words, sentence_pieces, word_pieces
from rounding import rounding
from scipy.spatial.distance import cosine
from scipy.special import log_softmax, rel_entr

import mhaviz
from mhaviz.analyses.ablation import AblationStudy
from mhaviz.analyses.predictions import cosine_distance, divergence
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.models.transformers.model import model_in_memory

CLOSE = rounding(depth=2)

TEXTS = ["the cat sat on the mat", "hello cat", "a dog ran playing on the mat"]


def made(model_class, config, tokenizer):
    torch.manual_seed(0)
    model = model_class(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower() and "ln" not in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return model, tokenizer


@pytest.fixture(scope="module")
def gpt2():
    config = hf.GPT2Config(vocab_size=V, n_positions=64, n_embd=32, n_layer=2, n_head=4, **ENDS)
    return made(hf.GPT2LMHeadModel, config, bytes_and_words())


def with_mask():
    tokenizer = word_pieces()
    tokenizer.mask_token = "[MASK]"
    return tokenizer


@pytest.fixture(scope="module")
def masked_bert():
    return made(hf.BertForMaskedLM, hf.BertConfig(vocab_size=V, **BERT_LIKE), with_mask())


def divergences(p, q):
    """By scipy, in bits, of logits."""
    p, q = (log_softmax(x.double().numpy(), axis=-1) for x in (p, q))
    return rel_entr(np.exp(p), np.exp(q)).sum(axis=-1) / np.log(2)


def zero(projection, head, size):
    """Zero what a layer of GPT-2 reads of a head."""
    with torch.no_grad():
        projection.weight[head * size : (head + 1) * size] = 0


def test_numbers_are_those_of_scipy():
    random = np.random.default_rng(0)
    x, y = (torch.from_numpy(random.normal(size=(7, 50), scale=3)) for _ in range(2))
    tokens = np.array([3, -1, 0, 49, 7, 7, -1])
    change, loss = divergence(x, y, tokens)
    assert np.allclose(change, divergences(x, y), rtol=1e-12)
    p, q = (log_softmax(one.numpy(), axis=-1) / np.log(2) for one in (x, y))
    expected = [0 if token < 0 else p[row, token] - q[row, token] for row, token in enumerate(tokens)]
    assert np.allclose(loss, expected, rtol=1e-12)
    assert np.allclose(cosine_distance(x, y), [cosine(u, v) for u, v in zip(x.numpy(), y.numpy(), strict=True)])
    assert not divergence(x, x, tokens)[0].any()
    assert not cosine_distance(x, x).any()


def test_what_has_no_probability_adds_nothing():
    x, y = torch.tensor([[0.0, 1.0, -torch.inf]]), torch.tensor([[0.0, 1.0, 5.0]])
    change, _ = divergence(x, y, np.array([-1]))
    assert np.isclose(change[0], -np.log2(np.exp([0, 1]).sum() / np.exp([0, 1, 5]).sum()))
    assert divergence(y, x, np.array([-1]))[0] == np.inf


def test_next_tokens_beside_a_run_by_hand(gpt2):
    model, tokenizer = gpt2
    found = mhaviz.load(model, tokenizer).ablate(TEXTS)
    assert (found.prediction, found.sentences) == ("next token", 3)
    (effects,) = found.kinds
    for layer, head in [(0, 1), (1, 3)]:
        changes, losses, before = [], [], []
        for text in TEXTS:
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.no_grad():
                p = model(input_ids=ids).logits[0]
                projection = model.transformer.h[layer].attn.c_proj
                weight = projection.weight.clone()
                zero(projection, head, 8)
                q = model(input_ids=ids).logits[0]
                projection.weight.copy_(weight)
            changes.append(divergences(p, q).mean())
            loss = [torch.nn.functional.cross_entropy(x[:-1].double(), ids[0, 1:]).item() / np.log(2) for x in (p, q)]
            before.append(loss[0])
            losses.append(loss[1] - loss[0])
        assert np.isclose(effects.change.mean[layer, head], np.mean(changes), rtol=1e-4)
        assert np.isclose(effects.change.spread[layer, head], np.std(changes, ddof=1), rtol=1e-4)
        assert np.isclose(effects.loss.mean[layer, head], np.mean(losses), rtol=1e-4)
        assert np.isclose(found.loss, np.mean(before), rtol=CLOSE)
    tokens = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    assert (effects.change.predictions, effects.loss.predictions) == (sum(tokens), sum(tokens) - 3)
    assert np.isnan([effects.change.low, effects.change.high]).all(), "of three sentences there is no interval"


def test_masked_tokens_beside_a_run_by_hand(masked_bert):
    model, tokenizer = masked_bert
    looked_at = model_in_memory(model, tokenizer)
    assert looked_at.predictor.prediction == "masked token"
    study = AblationStudy(looked_at)
    study.add(looked_at.encode_unnamed(TEXTS), [0, 1, 2])
    found = study.result(looked_at.describe())
    positions = study._outputs(looked_at.encode_unnamed(TEXTS)).positions
    changes = []
    for text, places in zip(TEXTS, positions, strict=True):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        assert 1 <= len(places) <= 2
        assert 0 not in places
        ids[0, list(places)] = tokenizer.mask_token_id
        dense = model.bert.encoder.layer[1].attention.output.dense
        with torch.no_grad():
            p = model(input_ids=ids).logits[0, list(places)]
            weight = dense.weight.clone()
            dense.weight[:, 16:24] = 0
            q = model(input_ids=ids).logits[0, list(places)]
            dense.weight.copy_(weight)
        changes.append(divergences(p, q).mean())
    assert np.isclose(found.kinds[0].change.mean[1, 2], np.mean(changes), rtol=1e-4)


def test_masked_tokens_depend_on_their_sentence_alone(masked_bert):
    whole, alone = (mhaviz.load(*masked_bert).ablate(texts).kinds[0] for texts in (TEXTS, TEXTS[::-1]))
    assert np.allclose(whole.change.mean, alone.change.mean, rtol=CLOSE)


def test_embeddings_of_a_model_that_predicts_nothing():
    model, tokenizer = made(hf.BertModel, hf.BertConfig(vocab_size=V, **BERT_LIKE), word_pieces())
    found = mhaviz.load(model, tokenizer).ablate(TEXTS, layer=1, head=[2])
    effects = found.kinds[0]
    assert (found.prediction, effects.layers) == ("embedding", (1,))
    assert np.isnan(found.loss)
    assert not effects.loss.is_known
    distances = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        dense = model.encoder.layer[1].attention.output.dense
        with torch.no_grad():
            before = model(input_ids=ids).last_hidden_state[0].mean(dim=0)
            weight = dense.weight.clone()
            dense.weight[:, 16:24] = 0
            after = model(input_ids=ids).last_hidden_state[0].mean(dim=0)
            dense.weight.copy_(weight)
        distances.append(cosine(before.double().numpy(), after.double().numpy()))
    assert np.isclose(effects.change.mean[0, 2], np.mean(distances), rtol=1e-4)
    assert list(effects.heads()) == [(0, 2)]


def test_an_encoder_with_a_decoder_predicts_what_it_writes():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    config = hf.T5Config(vocab_size=V, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **sizes)
    found = mhaviz.load(*made(hf.T5ForConditionalGeneration, config, sentence_pieces())).ablate(TEXTS[1], head=0)
    assert found.prediction == "next token"
    assert [kind.kind for kind in found.kinds] == ["self", "masked", "cross"]
    assert all(kind.change.mean[0, 0] > 0 for kind in found.kinds)
    assert all(kind.loss.predictions == kind.change.predictions for kind in found.kinds)


def test_padding_and_batches_change_nothing(gpt2):
    loaded = mhaviz.load(*gpt2)
    together = loaded.ablate(mhaviz.Corpus(TEXTS)).kinds[0].change.mean
    apart = np.mean([loaded.ablate(text).kinds[0].change.mean for text in TEXTS], axis=0)
    assert np.allclose(together, apart, rtol=1e-4)


def test_progress_and_errors(gpt2):
    loaded, told = mhaviz.load(*gpt2), []
    loaded.ablate(TEXTS, layer=0, on_progress=lambda done, taken: told.append((done, taken)))
    assert len(told) % 5 == 0  # the whole model, and four heads, a batch
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][1] == 3
    with pytest.raises(ArgumentError, match="there is no head 4"):
        loaded.ablate(TEXTS, head=4)
    with pytest.raises(ArgumentError, match="without torchrun and part"):
        loaded.ablate(mhaviz.Corpus(TEXTS, torchrun=True))
    with pytest.raises(ArgumentError, match="at least one sentence"):
        loaded.ablate([])
    with pytest.raises(ArgumentError, match="expected a transformers model"):
        mhaviz.load("random").ablate(TEXTS)


def test_a_model_that_predicts_nonsense_is_refused(gpt2):
    model, tokenizer = gpt2
    looked_at = model_in_memory(model, tokenizer)
    weight = model.transformer.ln_f.weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            weight[0] = torch.nan
        with pytest.raises(MhavizError, match="numbers as its output"):
            looked_at.predictor.logits(looked_at.encode_unnamed(TEXTS[:1]), [(0,)])
    finally:
        with torch.no_grad():
            weight.copy_(before)
