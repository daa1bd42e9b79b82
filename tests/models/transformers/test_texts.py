"""Sentences as a model reads them: padded, with targets, and never beyond what the model has weights for."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as hf
from families import ENDS, V, bytes_and_words
from hostile import HOSTILE
from looking import attend, calls
from rounding import rounding
from safetensors.torch import load_file, save_file

import mhaviz
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.models.transformers.texts import WRITTEN, Texts

CLOSE = rounding(depth=4)

TEXTS = ["the cat sat on the mat playing hello", "hello cat", "the mat ran"]


def given(texts, target=None):
    return Given(tuple(texts), target)


@pytest.fixture(scope="module")
def writer(model_folder):
    """GPT-2 with what writes text."""
    from mhaviz.models.transformers.load import load_checkpoint

    return load_checkpoint(str(model_folder("gpt2")), torch.device("cpu"), predicts=True)


@pytest.fixture
def changed(pretrained, writer, monkeypatch):
    """A family's texts, whose model or tokenizer is another for one test."""

    def texts(name, generate=0, tokenizer=None, generation=(), **config):
        loaded = writer if name == "gpt2" else pretrained(name).loaded
        for field, value in config.items():
            monkeypatch.setattr(loaded.model.config, field, value, raising=False)
        for field, value in dict(generation).items():
            monkeypatch.setattr(loaded.model.generation_config, field, value, raising=False)
        return Texts(replace(loaded, tokenizer=tokenizer or loaded.tokenizer), generate)

    return texts


@pytest.fixture(scope="module")
def languages():
    """A tokenizer as NLLB's: a text begins with the token of its language."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"thecas", "eng_Latn", "fra_Latn"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    return hf.NllbTokenizer(vocab=vocabulary, merges=[], src_lang="eng_Latn", tgt_lang="fra_Latn")


def weights_of_padded(model, texts):
    """Of every text in a padded batch and alone."""
    seen = calls(model, texts, batched=True)
    for i, text in enumerate(texts):
        for batch, alone in zip(seen, attend(model, [text]).maps, strict=True):
            _, q_length, k_length = alone.weights.shape
            yield batch.call.weights()[i, :, :q_length, :k_length].numpy(), alone.weights


@pytest.mark.parametrize("name", ["mobilebert", "bert", "gpt2", "bart"])
def test_padding_changes_nothing(pretrained, name):
    model = pretrained(name)
    assert not Texts(model.loaded).padding_is_seen
    for padded, alone in weights_of_padded(model, TEXTS):
        np.testing.assert_allclose(padded, alone, atol=CLOSE)


def test_padding_that_is_seen(pretrained):
    model = pretrained("convbert")
    assert Texts(model.loaded).padding_is_seen


def test_padding_is_the_tokenizers_or_the_models(changed):
    words = bytes_and_words()
    words.pad_token = "a"
    assert changed("gpt2", tokenizer=words).batch(texts_of([3, 4], [5]))["input_ids"].tolist() == [
        [3, 4],
        [5, words.pad_token_id],
    ]
    words.pad_token = None
    assert changed("gpt2", tokenizer=words, pad_token_id=7).batch(texts_of([3, 4], [5]))["input_ids"][1, 1] == 7
    for no_token in (None, -1, V):
        assert (
            changed("gpt2", tokenizer=words, pad_token_id=no_token).batch(texts_of([3, 4], [5]))["input_ids"][1, 1] == 5
        )


def texts_of(*rows):
    return [Text(Tokens(("",) * len(ids), (), tuple(ids))) for ids in rows]


def test_a_batch_of_different_lengths(changed):
    texts = changed("bart")
    batch = texts.read_without_names(TEXTS)
    fields = texts.batch(batch)
    ids, mask, target_ids = (fields[name] for name in ("input_ids", "attention_mask", "decoder_input_ids"))
    sources, targets = [text.source.ids for text in batch], [text.target.ids for text in batch]
    assert mask.sum(dim=1).tolist() == [len(source) for source in sources]
    for row, source, target_row, target in zip(ids.tolist(), sources, target_ids.tolist(), targets, strict=True):
        assert row == [*source, *[0] * (len(row) - len(source))]
        assert target_row[: len(target)] == list(target)
    assert texts.batch(batch[:1])["attention_mask"].all()


def test_a_target_is_in_its_own_language(changed, languages):
    (text,) = changed("bart", tokenizer=languages).read(given(["the cat"], "the cat"))
    assert text.source.texts[0] == "eng_Latn"
    assert text.produced.texts == ("fra_Latn", " ", "t", "h", "e", " ", "c", "a", "t", "</s>")
    assert text.produced.special == (0, 9)
    assert text.target.ids == (2, *text.produced.ids[:-1])


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"decoder_start_token_id": 5, "bos_token_id": 7}, 5),
        ({"generation": {"decoder_start_token_id": 6}, "bos_token_id": 7}, 6),
        ({"bos_token_id": 7, "pad_token_id": 8}, 7),
        ({"generation": {"bos_token_id": 9}, "pad_token_id": 8}, 9),
        ({"pad_token_id": 8}, 8),
        ({}, 0),
    ],
)
def test_what_a_decoder_begins_with(changed, fields, start):
    none = dict.fromkeys(("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    generation = none | fields.pop("generation", {})
    texts = changed("bart", generation=generation, **none | fields)
    (of_target,) = texts.read(given(TEXTS[1:2], "play a"))
    assert of_target.target.ids[0] == start
    (written,) = texts.read(given(TEXTS[1:2]))
    assert written.target.ids[0] == start


def test_a_decoder_that_cannot_begin(changed):
    words = bytes_and_words()
    words.pad_token = None
    none = dict.fromkeys(("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    texts = changed("bart", tokenizer=words, generation=none, **none)
    for target in ("play a", None):
        with pytest.raises(MhavizError, match=r"expected a decoder_start_token_id in its config\.json, got none"):
            texts.read(given(["a"], target))


def test_a_start_that_the_configuration_does_not_have(changed, monkeypatch):
    texts = changed("bart")
    monkeypatch.delattr(texts.loaded.model.config, "decoder_start_token_id")
    (text,) = texts.read(given(TEXTS[1:2], "play a"))
    assert text.target.ids[0] == texts.loaded.model.generation_config.decoder_start_token_id


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.strip()])
def test_hostile_texts(changed, text):
    texts = changed("gpt2")
    try:
        (one,) = texts.read(given([text[:200]]))
    except ArgumentError:  # it has too many tokens for the model, or none
        return
    (same,) = texts.read_without_names([text[:200]])
    assert one.source.ids == same.source.ids
    assert len(one.source.texts) == len(one.source.ids)


def test_lengths_of_lone_surrogates(pretrained):
    assert pretrained("gpt2").lengths(["a\udcff", "a\ufffd"]) == [4, 4]


def test_what_is_written_needs_positions():
    tokenizer = bytes_and_words()
    length = len(tokenizer("the cat").input_ids)

    def gpt2(n_positions):
        config = hf.GPT2Config(vocab_size=V, n_positions=n_positions, n_embd=8, n_layer=1, n_head=2, **ENDS)
        return mhaviz.load(hf.GPT2LMHeadModel(config).eval(), tokenizer)

    gpt2(length + 3).attend("the cat", generate=3)
    with pytest.raises(ArgumentError, match=rf"expected at most {length + 2} tokens, .*got {length + 3}"):
        gpt2(length + 2).attend("the cat", generate=3)


ROPE = {"rope_theta": 100.0}
FACTOR = ROPE | {"factor": 2.0}
SIZES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.mark.parametrize(
    ("model_class", "config_class", "options"),
    [
        *(
            (hf.LlamaForCausalLM, hf.LlamaConfig, {"intermediate_size": 8, "rope_parameters": rope})
            for rope in (
                ROPE | {"rope_type": "default"},
                FACTOR | {"rope_type": "dynamic"},
                FACTOR | {"rope_type": "linear"},
                FACTOR | {"rope_type": "yarn", "original_max_position_embeddings": 6},
            )
        ),
        (hf.FalconForCausalLM, hf.FalconConfig, {"alibi": True}),
        (hf.LlamaForCausalLM, hf.LlamaConfig, {"intermediate_size": 8, "max_position_embeddings": V}),
    ],
    ids=["default", "dynamic", "linear", "yarn", "alibi", "as many as tokens in the vocabulary"],
)
def test_positions_that_are_computed_never_end(model_class, config_class, options):
    """Beside transformers' eager weights, at a length above ``max_position_embeddings``."""
    torch.manual_seed(0)
    options = {"max_position_embeddings": 12} | options
    config = config_class(attn_implementation="eager", **SIZES, **options)
    model, ids = model_class(config).eval(), torch.randint(5, 60, (1, options["max_position_embeddings"] + 18))
    with torch.no_grad():
        (expected,) = model(ids, output_attentions=True).attentions
    (m,) = mhaviz.load(model, bytes_and_words()).attend(ids=ids[0].tolist())
    np.testing.assert_allclose(m.weights, expected[0], atol=CLOSE)


@pytest.fixture(scope="module")
def small_bart(model_folder, tmp_path_factory):
    """BART with learnt positions for 12 tokens, and a decoder that ends no sentence."""
    from mhaviz.models.transformers.load import load_checkpoint

    folder = Path(shutil.copytree(model_folder("bart"), tmp_path_factory.mktemp("small") / "bart"))
    config = hf.AutoConfig.from_pretrained(folder)
    config.max_position_embeddings = 12
    model = hf.BartForConditionalGeneration(config)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    return load_checkpoint(str(folder), torch.device("cpu"))


def test_a_target_needs_positions(small_bart):
    for generate in (12, 0):
        (text,) = Texts(small_bart, generate).read(given(["the cat"]))
        assert len(text.target) == len(text.produced) == 12 < WRITTEN
    (text,) = Texts(small_bart).read_without_names(["the cat"])
    assert len(text.target) == 12
    with pytest.raises(ArgumentError, match=r"expected a target of at most 12 tokens, .*got 13; shorten it$"):
        Texts(small_bart, 13).read(given(["the cat"]))
    assert len(Texts(small_bart).read(given(["the cat"], "the " * 10))[0].target) == 12
    with pytest.raises(ArgumentError, match=r"expected a target of at most 12 tokens, .*got 13; shorten it$"):
        Texts(small_bart).read(given(["the cat"], "the " * 11))


def test_positions_of_encoder_and_decoder(pretrained):
    loaded = pretrained("bart").loaded
    config = SimpleNamespace(
        is_encoder_decoder=True, max_encoder_position_embeddings=7, max_decoder_position_embeddings=5
    )
    model = SimpleNamespace(config=config, named_modules=loaded.model.named_modules)
    texts = Texts(replace(loaded, model=model))
    assert (texts.max_length, texts._max_target_length) == (7, 5)


def test_positions_of_roberta_begin_after_its_padding(pretrained):
    model = pretrained("roberta")
    table = model.loaded.model.embeddings.position_embeddings
    assert model.max_length == table.num_embeddings - table.padding_idx - 1 == 4198
    most = "the " * (4198 - 2)
    assert model.encode([most]).longest == 4198
    with pytest.raises(ArgumentError, match=r"at most 4,198 tokens, .*got 4,199; shorten it, or let mhaviz heads"):
        model.encode([most + "cat"])
    ids = torch.full((1, 4198), 5)
    with torch.no_grad():
        assert model.loaded.model.embeddings(ids).shape[1] == 4198
        with pytest.raises(RuntimeError, match="out of bounds"):
            model.loaded.model.embeddings(torch.full((1, 4199), 5))


OTHER_WAYS = (
    {"num_beams": 4},
    {"do_sample": True, "num_return_sequences": 3},
    {"return_dict_in_generate": True, "output_attentions": True},
)


@pytest.mark.parametrize("other", OTHER_WAYS)
@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_it_writes_greedily_whatever_it_is_made_to_do(changed, name, other):
    (plain,) = changed(name, generate=6).read(given(TEXTS[:1]))
    (same,) = changed(name, generate=6, generation=other).read(given(TEXTS[:1]))
    assert same == plain


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_tokens_without_embeddings(changed, name):
    words = bytes_and_words()
    words.add_tokens([f"<new{i}>" for i in range(V)])
    number = words.convert_tokens_to_ids(f"<new{V - 1}>")
    message = f"expected tokens below {V}, as it has embeddings, got number {number}"
    texts = changed(name, tokenizer=words)
    for asked in (lambda sentences: texts.read(given(sentences)), texts.read_without_names):
        with pytest.raises(MhavizError, match=message):
            asked([f"a <new{V - 1}>"])
    if name == "bart":
        with pytest.raises(MhavizError, match=message):
            texts.read(given(["a"], f"<new{V - 1}> a"))
    last = next(i for i in range(V) if words.convert_tokens_to_ids(f"<new{i}>") == V - 1)
    texts.read(given([f"a <new{last}>"]))
    with pytest.raises(MhavizError, match=f"got number {V}"):
        texts.read(given([f"a <new{last + 1}>"]))


def test_a_target_is_not_written_by_random_weights(model_folder, tmp_path):
    """A BART whose files hold its encoder and decoder alone: its lm_head would be random."""
    folder = tmp_path / "bart"
    shutil.copytree(model_folder("bart"), folder)
    config = hf.BartConfig.from_pretrained(folder, tie_word_embeddings=False)
    hf.BartForConditionalGeneration(config).save_pretrained(folder)
    arrays = load_file(folder / "model.safetensors")
    del arrays["lm_head.weight"]
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    model = mhaviz.load(str(folder))
    assert model.attend(["hello cat"], target="a dog").maps
    with pytest.raises(MhavizError, match="no weights of its language modelling head"):
        model.attend(["hello cat"])
