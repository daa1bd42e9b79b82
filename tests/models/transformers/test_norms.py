"""Norms of what keys add to outputs, beside the same in float64 by hand: transformers' own weights, and the modules of
each family by their names."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf
from by_hand import ByHandConfig, ByHandModel
from rounding import rounding

import mhaviz
from mhaviz.analyses.pooled_maps import SUMMED_UP, pooled_maps
from mhaviz.analyses.weights import attention_weights
from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import MhavizError
from mhaviz.models.transformers.model import model_in_memory
from tests.families import BERT_LIKE, ENDS, GROUPED, V, bytes_and_words, word_pieces


def norms_of(seen):
    return seen.call.weights() * seen.call.value_norms[:, :, None]


CLOSE = rounding(depth=2)

BERT = (r"layer\.(\d+)\.attention\.self\.value", r"layer\.(\d+)\.attention\.output\.dense")
LLAMA = (r"layers\.(\d+)\.self_attn\.v_proj", r"layers\.(\d+)\.self_attn\.o_proj")
OF_FAMILY = {
    "bert": BERT,
    "roberta": BERT,
    "distilbert": (r"layer\.(\d+)\.attention\.v_lin", r"layer\.(\d+)\.attention\.out_lin"),
    "modernbert": (r"layers\.(\d+)\.attn\.Wqkv", r"layers\.(\d+)\.attn\.Wo"),
    "gpt2": (r"h\.(\d+)\.attn\.c_attn", r"h\.(\d+)\.attn\.c_proj"),
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen3": LLAMA,
    "gemma2": LLAMA,
    "gpt_oss": LLAMA,
    "jamba": LLAMA,
    "t5": (r"encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.v", r"encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.o"),
    "bart": (r"encoder\.layers\.(\d+)\.self_attn\.v_proj", r"encoder\.layers\.(\d+)\.self_attn\.out_proj"),
}
"""The modules that make values, and those that read the heads, of each layer."""

BY_HAND = {
    "by_hand": (
        lambda: ByHandModel(ByHandConfig(vocab_size=V, **ENDS)),
        bytes_and_words,
        (r"h\.(\d+)\.attn\.v_proj", r"h\.(\d+)\.attn\.out_proj"),
    ),
    "bloom": (
        lambda: hf.BloomModel(hf.BloomConfig(vocab_size=V, hidden_size=32, n_layer=2, n_head=4, **ENDS)),
        bytes_and_words,
        (r"h\.(\d+)\.self_attention\.query_key_value", r"h\.(\d+)\.self_attention\.dense"),
    ),
    "deberta-v2": (
        lambda: hf.DebertaV2Model(
            hf.DebertaV2Config(vocab_size=V, relative_attention=True, pos_att_type=["c2p", "p2c"], **BERT_LIKE)
        ),
        word_pieces,
        (r"layer\.(\d+)\.attention\.self\.value_proj", BERT[1]),
    ),
}
"""Models whose attention is recorded: how to make one, its tokenizer, and as ``OF_FAMILY``."""

OF_EXPERTS = ("gpt_oss", "jamba")
"""Their products are of no float64: the model runs in float32, and what is made of it is computed in float64."""

TEXT = "the cat sat on a mat"


def by_hand(model, family, ids):
    """‖A_ij · v_j W_O‖ in float64 of each layer, (n_heads, q_length, k_length); the model is made float64."""
    if family not in OF_EXPERTS:
        model = model.double()
    values, projections = OF_FAMILY[family] if family in OF_FAMILY else BY_HAND[family][2]
    made, weights = {}, {}
    for name, module in model.named_modules():
        if match := re.fullmatch(rf"(?:.*\.)?{values}", name):
            module.register_forward_hook(lambda _, __, out, layer=int(match[1]): made.update({layer: out[0].double()}))
        elif match := re.fullmatch(rf"(?:.*\.)?{projections}", name):
            weight = module.weight.T if isinstance(module, torch.nn.Linear) else module.weight
            weights[int(match[1])] = weight.double()
    fields = {"decoder_input_ids": ids[:, :1]} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        out = model(input_ids=ids, output_attentions=True, **fields)
        attentions = out.encoder_attentions if model.config.is_encoder_decoder else out.attentions
        found = []
        for A, layer in zip(attentions, sorted(made), strict=True):
            W_out = weights[layer].view(A.shape[1], -1, weights[layer].shape[1])  # n_heads d_value d_model
            V = made[layer]
            if family in ("gpt2", "modernbert"):  # one layer makes queries, keys and values
                V = V.chunk(3, dim=-1)[2]
            if family == "bloom":
                V = V.view(len(V), -1, 3, W_out.shape[1])[:, :, 2]
            V = V.reshape(len(V), -1, W_out.shape[1]).transpose(0, 1)  # n_kv_heads k_length d_value
            V = V.repeat_interleave(len(W_out) // len(V), dim=0)
            parts = A[0].double()[..., None] * (V @ W_out)[:, None]  # n_heads q_length k_length d_model
            found.append(parts.norm(dim=-1).numpy())
        return found


@pytest.mark.parametrize("family", OF_FAMILY)
def test_norms_are_those_by_hand(pretrained, model_folder, family):
    model = pretrained(family)
    model = model.select(kind="self" if family in ("t5", "bart") else None).with_norms()
    inputs = model.encode([TEXT])
    maps = attention_weights(model, inputs, keep=True).maps
    own = hf.AutoModel.from_pretrained(model_folder(family), attn_implementation="eager").eval()
    expected = by_hand(own, family, torch.tensor([inputs.texts[0].source.ids]))
    assert len(maps) == len(expected) > 0
    for m, norms in zip(maps, expected, strict=True):
        assert m.quantity.key == "norm"
        np.testing.assert_allclose(m.weights, norms, rtol=CLOSE, atol=CLOSE * norms.max())


def recorded(family):
    """A model that computes its attention by hand, with weights that are far from equal, and the same to be read."""
    torch.manual_seed(0)
    make, tokenizer, _ = BY_HAND[family]
    model = make().eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower() and "ln" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return model, model_in_memory(model, tokenizer())


@pytest.mark.parametrize("family", BY_HAND)
def test_norms_of_attention_that_is_computed_by_hand(family):
    """Alone, in a batch beside a longer text, pooled, and of a chosen layer and heads."""
    model, source = recorded(family)
    assert source.loaded.by_hand
    source = source.with_norms()
    inputs = source.encode([TEXT])
    maps = attention_weights(source, inputs, keep=True).maps
    pooled = pooled_maps(source, inputs, Pooling(len(maps[0].weights[0]) // 2)).maps
    (some,) = attention_weights(source.select([1]), inputs, [3, 1]).maps
    batched = []
    source.run(
        source.encode([TEXT, f"{TEXT} {TEXT}"]),
        lambda seen: batched.append(norms_of(seen)),
        batched=True,
    )
    expected = by_hand(model, family, torch.tensor([inputs.texts[0].source.ids]))
    assert len(maps) == len(expected) == 2
    length = len(expected[0][0])
    for layer, norms in enumerate(expected):
        close = {"rtol": CLOSE, "atol": CLOSE * norms.max()}
        np.testing.assert_allclose(maps[layer].weights, norms, **close)
        np.testing.assert_allclose(batched[layer][0, :, :length, :length], norms, **close)
        np.testing.assert_allclose(pooled[layer].weights.sum(axis=-1).mean(), norms.sum(axis=-1).mean(), rtol=CLOSE)
    np.testing.assert_allclose(some.weights, expected[1][[3, 1]], rtol=CLOSE, atol=CLOSE * expected[1].max())


def test_pooled_norms_and_what_is_told_of_them(pretrained):
    """Cells, and a summary in shares of each query's norms; hidden special tokens have a share of all."""
    model = pretrained("bert").with_norms()
    inputs = model.encode([TEXT])
    whole = attention_weights(model, inputs).maps[1].weights.astype(np.float64)  # n_heads 8 8
    poolings = (replace(SUMMED_UP, size=4, reduce=reduce) for reduce in ("mass", "max"))
    pooled = [pooled_maps(model, inputs, pooling).maps[1] for pooling in poolings]
    cells = whole.reshape(4, 4, 2, 4, 2)
    np.testing.assert_allclose(pooled[0].weights, cells.sum(axis=4).mean(axis=2), rtol=CLOSE)
    np.testing.assert_allclose(pooled[1].weights, cells.max(axis=(2, 4)), rtol=CLOSE)
    shares = whole[0].sum(axis=0) / whole[0].sum()
    summary = pooled[0].summary.heads[0]
    assert [sink.key for sink in summary.sinks] == np.argsort(-shares, kind="stable")[:5].tolist()
    np.testing.assert_allclose([s.received / 8 for s in summary.sinks], np.sort(shares)[::-1][:5], rtol=CLOSE)
    assert summary.local == pytest.approx(1, rel=CLOSE)
    assert summary.strongest.weight == pytest.approx(whole[0].max(), rel=CLOSE)

    share = whole[:, 1:-1, [0, -1]].sum((1, 2)) / whole[:, 1:-1].sum((1, 2))
    cropped = pooled_maps(model, inputs, Pooling(3), hide_special=True).maps[1]
    np.testing.assert_allclose(cropped.to_special, share, rtol=1e-4)
    np.testing.assert_allclose(attention_weights(model, inputs, hide_special=True).maps[1].to_special, share, rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: hf.BitNetForCausalLM(hf.BitNetConfig(vocab_size=V, **GROUPED, **ENDS)),
            "no linear layer reads the output of its heads",
        ),
        (
            lambda: hf.DiffLlamaModel(hf.DiffLlamaConfig(vocab_size=V, **GROUPED, **ENDS)),
            "no linear layer reads the output of its heads",
        ),
        (lambda: with_values_twice(), "its weights are multiplied by values more than once"),
        (lambda: with_another_reader(), "goes through 2 linear layers"),
        (lambda: with_half_of_the_heads_read(), "no linear layer reads the output of its heads"),
        (lambda: with_other_output(), r"the output differs from A V W_O, by \d"),
        (lambda: with_something_between(lambda x: x.clamp(-1, 1)), "no linear layer reads the output of its heads"),
        (lambda: with_something_between(lambda x: x / 2), "no linear layer reads the output of its heads"),
    ],
    ids=["norm between", "cat", "two products", "two readers", "half read", "another output", "clamp", "factor"],
)
def test_where_w_o_is_not_right_behind_the_heads(make, why):
    torch.manual_seed(0)
    model = model_in_memory(make().eval(), bytes_and_words())
    with pytest.raises(MhavizError, match=f"norms need W_O, .* in layer 0, masked, .*{why}.*; leave out `show` norms"):
        model.with_norms()


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=V, **GROUPED, **ENDS))


def with_values_twice():
    """As where positions have values of their own; a part that nobody reads is seen all the same."""
    model = ByHandModel(ByHandConfig(vocab_size=V, **ENDS))
    attend = model.h[0].attn.attend

    def twice(query, key, value, *others):
        output, weights = attend(query, key, value, *others)
        weights @ value.flip(2)
        return output, weights

    model.h[0].attn.attend = twice
    return model


def with_something_between(change):
    """Heads make numbers beyond 1, which are changed before they are projected."""
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.v_proj.weight.data *= 1000
        layer.self_attn.o_proj.register_forward_pre_hook(lambda module, args: (change(args[0]),))
    return model


def with_another_reader():
    """As an adapter beside W_O."""
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.o_proj = Beside(layer.self_attn.o_proj)
    return model


class Beside(torch.nn.Module):
    def __init__(self, first):
        super().__init__()
        self.first, self.second = first, torch.nn.Linear(first.in_features, first.out_features)

    def forward(self, x):
        return self.first(x) + self.second(x)


def with_half_of_the_heads_read():
    """As where a gate takes the other half."""
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.o_proj = OfHalf(layer.self_attn.o_proj)
    return model


class OfHalf(torch.nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.linear = torch.nn.Linear(whole.in_features // 2, whole.out_features)

    def forward(self, x):
        read, gate = x.chunk(2, dim=-1)
        return self.linear(read) * gate.sum(dim=-1, keepdim=True)


class Doubled(torch.nn.Linear):
    """Which makes something else of what it reads than its weight says."""

    def forward(self, x):
        return super().forward(2 * x)


def with_other_output():
    model = llama()
    for layer in model.model.layers:
        layer.self_attn.o_proj.__class__ = Doubled
    return model


def test_half_precision_and_models_as_they_were(pretrained):
    torch.manual_seed(0)
    made = llama().bfloat16().eval()
    before = {name: p.clone() for name, p in made.named_parameters()}
    (m, _) = mhaviz.load(made, bytes_and_words()).attend("the cat", show="norms").maps
    assert np.isfinite(m.weights).all()
    assert all(torch.equal(p, before[name]) for name, p in made.named_parameters())


def test_heads_and_layers_that_are_chosen(pretrained):
    torch.manual_seed(0)
    loaded = mhaviz.load(hf.BertModel(hf.BertConfig(vocab_size=V, **BERT_LIKE)).eval(), bytes_and_words())
    every = loaded.attend("the cat", show="norms")
    (some,) = loaded.attend("the cat", show="norms", layer=1, head=[3, 1]).maps
    np.testing.assert_allclose(some.weights, every.maps[1].weights[[3, 1]], rtol=CLOSE)


def test_a_model_of_no_numbers_is_told_so():
    model = llama().eval()
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight[0, 0] = torch.nan
    with pytest.raises(MhavizError, match="layer 1, masked: expected numbers, got NaN or infinity; take another copy"):
        model_in_memory(model, bytes_and_words()).with_norms()
