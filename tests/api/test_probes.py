"""Random repeats and needles in a model of which it is known what each head is for."""

import copy
import csv
import json
from io import StringIO

import msgspec
import numpy as np
import pytest
import torch
import transformers as hf
from families import BERT_LIKE, V, sentence_pieces, word_pieces
from rounding import rounding

import mhaviz
from mhaviz import ArgumentError, Needle, RandomRepeats
from mhaviz.inputs.probes import Probe
from mhaviz.results.head_statistics import STATISTICS

CLOSE = rounding(depth=2)

NEEDLE = Needle("w20 w21 w22 w23", "w15")
TEXTS = ["w3 w4 w5 w6 w7 w8 w9 w1 w12 w14 w2 w5", "w1 w7 w8 w10 w11"]


@pytest.fixture(scope="module")
def loaded(induction_model):
    return mhaviz.load(*induction_model)


@pytest.fixture(scope="module")
def repeats(loaded):
    return loaded.head_statistics(probe=RandomRepeats(15, 32))


def test_induction_heads_stand_first(repeats):
    (kind,) = repeats.kinds
    assert set(kind.induction.mean[1]) == set(np.sort(kind.induction.mean.ravel())[2:])
    assert kind.induction.low[1].min() > 0.5
    assert kind.induction.high[0].max() < 0.1
    assert kind.induction.chance[0, 0] == pytest.approx(np.mean([1 / n for n in range(17, 32)]))
    assert (kind.sentences, kind.copies.queries) == (32, 32 * 15)


def test_as_transformers_gives_its_weights(induction_model, repeats):
    from mhaviz.models.transformers.probe_texts import random_repeats

    model, tokenizer = induction_model
    ids = torch.tensor(random_repeats(tokenizer, 15, 32))
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(input_ids=ids, output_attentions=True).attentions
    model.set_attn_implementation(before)
    rows = torch.arange(16, 31)
    for layer, a in enumerate(weights):
        on_what_followed = a[:, :, rows, rows - 14].mean(dim=(0, 2))
        np.testing.assert_allclose(repeats.kinds[0].induction.mean[layer], on_what_followed, atol=CLOSE)


def test_heads_that_read_a_needle(loaded):
    found = loaded.head_statistics(TEXTS, probe=NEEDLE)
    (kind,) = found.kinds
    assert kind.sentences == 10, "two texts, five depths"
    assert kind.retrieval.queries == 40
    assert kind.retrieval.mean[1].min() > 0.6, "of four tokens the first is not told by what stands before it"
    assert kind.retrieval.mean[0].max() < 0.2
    assert kind.needle.mean[1].min() > 0.5 > kind.needle.mean[0].max()


def test_of_few_texts_at_several_depths_there_is_no_interval(loaded):
    (kind,) = loaded.head_statistics(TEXTS[0], probe=NEEDLE).kinds
    assert (kind.sentences, kind.needle.is_known) == (5, True)
    assert np.isnan([kind.needle.low, kind.needle.high]).all()
    (effects,) = loaded.ablate(TEXTS[0], probe=NEEDLE, head=0).kinds
    assert np.isnan([effects.change.low, effects.change.high]).all()


@pytest.mark.slow
def test_processes_share_the_texts_of_a_probe(loaded, as_processes):
    def read(texts, needle=NEEDLE):
        return loaded.head_statistics(texts, probe=needle)

    whole = read(TEXTS * 20)
    shared = as_processes(2, lambda rank: read(mhaviz.Corpus(TEXTS * 20, torchrun=True)))
    assert shared.probe == NEEDLE
    for name in STATISTICS:
        for field in ("mean", "spread", "low", "high", "chance"):
            one, other = (getattr(found.kinds[0].number(name), field) for found in (whole, shared))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=f"{name} {field}")
        np.testing.assert_array_equal(whole.kinds[0].number(name).counts, shared.kinds[0].number(name).counts)
    with pytest.raises(mhaviz.MhavizError, match="differ in their probe"):
        as_processes(
            2, lambda rank: read(mhaviz.Corpus(TEXTS, torchrun=True), NEEDLE if rank else mhaviz.Needle("a dog"))
        )


def test_a_row_a_head_and_number(repeats, tmp_path):
    repeats.save(tmp_path / "heads.csv")
    rows = list(csv.DictReader(StringIO((tmp_path / "heads.csv").read_text())))
    known = [name for name in STATISTICS if repeats.kinds[0].number(name).is_known]
    assert len(rows) == 4 * len(known)
    row = next(row for row in rows if (row["layer"], row["head"], row["number"]) == ("1", "0", "induction"))
    induction = repeats.kinds[0].induction
    assert row["kind"] == "masked"
    for name in ("mean", "spread", "low", "high", "chance"):
        assert float(row[name]) == getattr(induction, name)[1, 0]
    assert (row["sentences"], row["queries"]) == ("32", "480")
    frame = repeats.to_dataframe()
    assert list(frame) == list(row)
    assert len(frame) == len(rows)


def test_json_says_what_it_is_of(repeats, tmp_path):
    repeats.save(tmp_path / "heads.json")
    data = json.loads((tmp_path / "heads.json").read_text())
    assert data["probe"] == {"kind": "random repeats", "n_tokens": 15, "sequences": 32, "seed": 0}
    assert data["bootstrap"] == {"replicates": 1000, "seed": 0, "level": 0.95}
    counts = np.array(data["kinds"][0]["statistics"]["induction"]["counts"])
    assert counts.sum(axis=-1).tolist() == [[32, 32], [32, 32]]
    assert len(data["edges"]["induction"]) == counts.shape[-1]


@pytest.mark.parametrize("probe", [None, RandomRepeats(7), NEEDLE])
def test_probes_come_back_from_json(probe):
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(probe))), Probe | None) == probe


@pytest.mark.parametrize("values", [
    "x", {}, {"kind": "x"}, {"kind": []}, {"kind": "needle"}, {"kind": "needle", "text": ""},
    {"kind": "needle", "text": 5}, {"kind": "needle", "text": "x", "depths": 3},
    {"kind": "needle", "text": "x", "depths": ["x"]}, {"kind": "random repeats", "n_tokens": "x"},
    {"kind": "random repeats", "n_tokens": [1]}, {"kind": "random repeats", "n_tokens": True},
])  # fmt: skip
def test_json_that_is_no_probe(values):
    with pytest.raises(ValueError, match=r"Object|Expected|Invalid|expected"):
        msgspec.convert(values, Probe | None)


def test_heads_are_zeroed_on_random_repeats(loaded):
    found = loaded.ablate(probe=RandomRepeats(15, 4))
    assert found.probe == RandomRepeats(15, 4)
    assert found.sentences == 4
    change = found.kinds[0].change.mean
    assert np.unravel_index(change.argmax(), change.shape)[0] == 0, "what the induction heads read is gone"


@torch.no_grad()
def test_the_repeat_alone_is_scored_from_its_second_token_on(induction_model, loaded):
    """Beside transformers, each head's columns of W_O zeroed: the losses of the tokens that a copy tells."""
    from mhaviz.models.transformers.probe_texts import random_repeats

    model, tokenizer = copy.deepcopy(induction_model[0]), induction_model[1]
    ids = torch.tensor(random_repeats(tokenizer, 15, 8))
    again = slice(1 + 15, 1 + 15 + 14)  # queries; <s> stands first

    def log_p():
        return torch.log_softmax(model(ids).logits.double(), dim=-1)[:, again] / np.log(2)

    before = log_p()
    there = ids[:, again.start + 1 : again.stop + 1, None]
    found = loaded.ablate(probe=RandomRepeats(15, 8))
    (kind,) = found.kinds
    assert found.loss == pytest.approx(-before.gather(2, there).mean().item(), abs=1e-4)
    assert kind.loss.predictions == kind.change.predictions == 8 * 14
    for layer in range(2):
        weight = model.gpt_neox.layers[layer].attention.dense.weight
        for head in range(2):
            kept = weight.clone()
            weight[:, 16 * head : 16 * (head + 1)] = 0
            after = log_p()
            weight.copy_(kept)
            loss = (before - after).gather(2, there).mean().item()
            change = (before.exp2() * (before - after)).sum(dim=-1).mean().item()
            assert kind.loss.mean[layer, head] == pytest.approx(loss, abs=1e-4)
            assert kind.change.mean[layer, head] == pytest.approx(change, abs=1e-4)
    assert (kind.loss.mean[1] > 0).all(), "without an induction head the repeat is predicted worse"


def test_masked_tokens_are_of_the_repeat():
    torch.manual_seed(0)
    model = hf.BertForMaskedLM(hf.BertConfig(vocab_size=V, **BERT_LIKE)).eval()
    tokenizer = word_pieces()
    tokenizer.mask_token = "[MASK]"
    seen = []
    hook = model.bert.embeddings.word_embeddings.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    found = mhaviz.load(model, tokenizer).ablate(probe=RandomRepeats(6, 3))
    hook.remove()
    assert found.kinds[0].change.predictions == 3  # 15% of five tokens, and at least one
    hidden = torch.cat([ids for ids in seen if ids.shape[1] == 14]) == tokenizer.mask_token_id
    assert set(hidden.nonzero()[:, 1].tolist()) <= set(range(1 + 7, 1 + 12))  # [CLS] stands first


def test_a_decoder_beside_an_encoder_repeats_nothing():
    torch.manual_seed(0)
    config = hf.T5Config(vocab_size=V, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0)
    translator = mhaviz.load(hf.T5ForConditionalGeneration(config).eval(), sentence_pieces())
    with pytest.raises(ArgumentError, match="predicts what its decoder writes"):
        translator.ablate(probe=RandomRepeats(4, 2))


def test_what_cannot_be(loaded):
    with pytest.raises(ArgumentError, match="random repeats take the place of texts"):
        loaded.head_statistics("w1", probe=RandomRepeats(3))
    with pytest.raises(ArgumentError, match="`random_repeat`: expected at most 31 tokens"):
        loaded.head_statistics(probe=RandomRepeats(40))
