"""What goes into the first layer of a transformers model, against the hidden states and the modules of its own."""

import math

import numpy as np
import pytest
import torch
import transformers as hf
from families import EAGER, FAMILIES, bytes_and_words, word_pieces
from torch.nn import functional

import mhaviz
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.results.embeddings import SINUSOIDS

TEXT, TARGET = "the cat sat on the mat", "a dog ran"
WITH_ENCODER = ("t5", "bart")
SMALL = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 1}
PARTS = {
    "bert": ["E", "PE", "T", "X"],
    "roberta": ["E", "PE", "T", "X"],
    "distilbert": ["E", "PE", "X"],
    "modernbert": ["E", "X"],
    "bart": ["E", "PE", "X"],
    "deberta": ["E", "PE", "X"],
    "gpt2": ["E", "PE", "X"],
    "bloom": ["E", "X"],
}
"""Of those that do not read their embeddings as they are."""
WITHIN = {
    **dict.fromkeys(("llama", "mistral", "qwen3", "gemma2", "gpt_oss", "modernbert", "gptj", "falcon"), ("rotary",)),
    "t5": ("distance",),
    "bloom": ("alibi",),
}


def in_memory(model_class, config, tokenizer=word_pieces):
    torch.manual_seed(0)
    model = model_class(config).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return model, mhaviz.load(model, tokenizer())


def weights_of(module, ids):
    return functional.embedding(torch.tensor(ids), module.weight).detach().numpy()


@pytest.mark.parametrize("name", FAMILIES | EAGER)
def test_x_is_the_first_hidden_state(pretrained, name):
    model = pretrained(name)
    for target in (None, TARGET) if name in WITH_ENCODER else (None,):
        e = model.embed(TEXT, target)
        fields = {"input_ids": torch.tensor([model.loaded.tokenizer(TEXT)["input_ids"]])}
        which = "hidden_states"
        if name in WITH_ENCODER:
            fields["decoder_input_ids"] = torch.tensor([e.tokens.ids if target else [0]])
            which = "decoder_hidden_states" if target else "encoder_hidden_states"
        with torch.no_grad():
            out = model.loaded.model.base_model(**fields, output_hidden_states=True)
        np.testing.assert_array_equal(e["X"], out[which][0][0].numpy())
        assert [part.symbol for part in e.parts] == PARTS.get(name, ["X"])
        scale = " · √d_model" if name == "gemma2" else ""
        assert e.parts[-1].equation == ("X" if name in PARTS else f"X = E = lookup(ids){scale}")
        assert (e.within, e.added) == (WITHIN.get(name, ()), None)


def test_the_parts_of_bert_are_rows_of_its_tables(pretrained):
    model = pretrained("bert")
    e, modules = model.embed(TEXT), model.loaded.model.base_model.embeddings
    length = len(e.tokens)
    np.testing.assert_array_equal(e["E"], weights_of(modules.word_embeddings, e.tokens.ids))
    np.testing.assert_array_equal(e["PE"], weights_of(modules.position_embeddings, range(length)))
    np.testing.assert_array_equal(e["T"], weights_of(modules.token_type_embeddings, [0] * length))
    with torch.no_grad():
        np.testing.assert_array_equal(e["X"], modules(torch.tensor([e.tokens.ids]))[0])
    assert e.repeated == (1, 5)  # "the", not [CLS]


def test_positions_that_do_not_begin_at_0(pretrained):
    roberta = pretrained("roberta")
    e = roberta.embed(TEXT)
    tables = roberta.loaded.model.base_model.embeddings
    positions = tables.create_position_ids_from_input_ids(torch.tensor([e.tokens.ids]), tables.padding_idx)[0].tolist()
    assert positions[1] == tables.padding_idx + 1
    np.testing.assert_array_equal(e["PE"], weights_of(tables.position_embeddings, positions))
    sizes = {"vocab_size": 300, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 48}
    sizes |= {"hidden_size": 32, "word_embed_proj_dim": 32, "max_position_embeddings": 64}
    opt, loaded = in_memory(hf.OPTModel, hf.OPTConfig(**sizes), bytes_and_words)
    e = loaded.embeddings(TEXT)
    np.testing.assert_array_equal(e["PE"], weights_of(opt.decoder.embed_positions, range(2, 2 + len(e.tokens))))


def test_embeddings_of_fewer_features_than_the_layers_have():
    sizes = {"hidden_size": 32, "embedding_size": 16, "num_attention_heads": 4, "intermediate_size": 48}
    _, loaded = in_memory(hf.AlbertModel, hf.AlbertConfig(vocab_size=300, num_hidden_layers=2, **sizes))
    e = loaded.embeddings(TEXT)
    assert (e["E"].shape, e["X"].shape) == ((8, 16), (8, 32))


def test_sinusoids_beside_embeddings_that_are_scaled():
    sizes = {side + name: size for side in ("encoder_", "decoder_") for name, size in (("layers", 1), ("ffn_dim", 48))}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_start_token_id": 0}
    config = hf.MarianConfig(vocab_size=300, d_model=32, scale_embedding=True, pad_token_id=0, **sizes)
    torch.manual_seed(0)
    model = hf.MarianMTModel(config).eval()
    loaded = mhaviz.load(model, word_pieces())
    for target, stack in ((None, model.get_encoder()), (TARGET, model.get_decoder())):
        e = loaded.embeddings(TEXT, target)
        np.testing.assert_array_equal(e["E"], weights_of(stack.embed_tokens, e.tokens.ids))  # scaled after the lookup
        assert [part.equation for part in e.parts] == ["E = lookup(ids)", SINUSOIDS, "X"]
        assert e.added is None  # and in which order sines and cosines stand is not known


def test_what_no_layer_reads(model_folder):
    with pytest.raises(MhavizError, match="does not show what goes into its first layer"):
        mhaviz.load(model_folder("hy_v4")).embeddings(TEXT)


def test_broken_embeddings_and_targets_without_a_decoder():
    model, loaded = in_memory(hf.BertModel, hf.BertConfig(vocab_size=300, **SMALL))
    with pytest.raises(ArgumentError, match="`target` is for an encoder with a decoder"):
        loaded.embeddings(TEXT, TARGET)
    torch.nn.init.constant_(model.embeddings.word_embeddings.weight, math.nan)
    with pytest.raises(MhavizError, match="its embeddings hold NaN or infinity"):
        loaded.embeddings(TEXT)


def test_a_model_is_left_as_it_was(pretrained):
    model = pretrained("bert")
    hooks = [(dict(m._forward_hooks), dict(m._forward_pre_hooks)) for m in model.loaded.model.modules()]
    before = model.embed(TEXT)
    assert [(dict(m._forward_hooks), dict(m._forward_pre_hooks)) for m in model.loaded.model.modules()] == hooks
    np.testing.assert_array_equal(model.embed(TEXT)["X"], before["X"])
