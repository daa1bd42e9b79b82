"""Models that do not show their attention through transformers' interface: it is recorded as they run."""

import gc
import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from by_hand import ByHandConfig, ByHandModel
from families import ENDS, GROUPED, OTHERS, SIZES, V, bytes_and_words, with_encoder, word_pieces
from looking import attend, calls, encoded, traced
from rounding import rounding

from mhaviz.analyses.explanation import explain
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.rollout import rollout
from mhaviz.analyses.verification import verify
from mhaviz.attention.call import AttentionCall
from mhaviz.errors import MhavizError
from mhaviz.models.transformers.model import model_in_memory

CLOSE = rounding(depth=2)

TEXT, TARGET = "the cat sat on the mat playing hello", "the mat ran"
SHORT = "hello cat"


@dataclass(frozen=True)
class Family:
    """How to make a small model, and which of its kinds are not drawn."""

    model: str
    config: str
    fields: dict[str, Any]
    unshown: tuple[str, ...] = ()

    @property
    def has_encoder(self):
        return "decoder_layers" in self.fields or "num_decoder_layers" in self.fields


WORDS = {"vocab_size": V}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4}
XLM = WORDS | {"emb_dim": 32, "n_layers": 2, "n_heads": 4}
BERT = WORDS | SIZES
POSITIONS = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
PROPHET = {
    "hidden_size": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "num_encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
REFORMER = {
    "hidden_size": 32,
    "feed_forward_size": 48,
    "num_attention_heads": 2,
    "attention_head_size": 16,
    "attn_layers": ["local", "lsh"],
    "axial_pos_embds": False,
    "max_position_embeddings": 128,
    "hash_seed": 0,
}
FUNNEL = {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48}

RECORDED = {
    "codegen": Family("CodeGenModel", "CodeGenConfig", WORDS | GPT | {"rotary_dim": 4} | ENDS),
    "cpmant": Family(
        "CpmAntModel",
        "CpmAntConfig",
        WORDS | {"hidden_size": 32, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 48, "num_hidden_layers": 2},
    ),
    "deberta": Family("DebertaModel", "DebertaConfig", BERT | POSITIONS),
    "deberta-v2": Family("DebertaV2Model", "DebertaV2Config", BERT | POSITIONS | {"position_buckets": 4}),
    "diffllama": Family("DiffLlamaModel", "DiffLlamaConfig", WORDS | GROUPED | ENDS),
    "gpt_neo": Family(
        "GPTNeoModel",
        "GPTNeoConfig",
        WORDS
        | {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4, "intermediate_size": 48}
        | {"attention_types": [[["global", "local"], 1]]},
    ),
    "mpt": Family("MptModel", "MptConfig", WORDS | {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    "mvp": Family("MvpModel", "MvpConfig", with_encoder()),
    "openai-gpt": Family("OpenAIGPTModel", "OpenAIGPTConfig", WORDS | GPT),
    "prophetnet": Family("ProphetNetModel", "ProphetNetConfig", WORDS | PROPHET, ("cross",)),
    "reformer": Family("ReformerModel", "ReformerConfig", WORDS | REFORMER),
    "roformer": Family("RoFormerModel", "RoFormerConfig", BERT | {"embedding_size": 32}),
    "squeezebert": Family(
        "SqueezeBertModel", "SqueezeBertConfig", BERT | {"embedding_size": 32, "q_groups": 2, "k_groups": 2}
    ),
    "xlm": Family("XLMModel", "XLMConfig", XLM),
    "xlnet": Family("XLNetModel", "XLNetConfig", WORDS | {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
}

REFUSED = {
    "canine": Family("CanineModel", "CanineConfig", SIZES | {"local_transformer_stride": 4, "num_hash_buckets": 64}),
    "funnel": Family("FunnelModel", "FunnelConfig", WORDS | FUNNEL),
    "longformer": Family("LongformerModel", "LongformerConfig", BERT | {"attention_window": 4}),
    "rwkv": Family("RwkvModel", "RwkvConfig", WORDS | {"hidden_size": 32, "num_hidden_layers": 2}),
}
"""Those whose weights are of blocks, or of other tokens than those that were read, or that make none."""


def made(family, tokenizer=word_pieces):
    torch.manual_seed(0)
    model = getattr(hf, family.model)(getattr(hf, family.config)(**family.fields)).eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower() and "ln" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return model, tokenizer()


@cache
def recorded(name):
    """The model, and the same for ``model_in_memory``."""
    model, tokenizer = made(RECORDED[name])
    return model, model_in_memory(model, tokenizer)


def own_weights(model, family, ids, target_ids):
    """What the model gives itself by output_attentions, in the order of kinds and layers."""
    fields = {} if target_ids is None else {"decoder_input_ids": target_ids}
    if model._can_set_attn_implementation():
        model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True, **fields)
    if target_ids is None:
        return list(out.attentions)
    names = {"self": "encoder_attentions", "masked": "decoder_attentions", "cross": "cross_attentions"}
    return [A for kind, name in names.items() if kind not in family.unshown for A in getattr(out, name)]


@pytest.mark.parametrize("name", RECORDED)
def test_what_the_model_gives_itself(name):
    model, source = recorded(name)
    family = RECORDED[name]
    attention = attend(source, [TEXT], TARGET if family.has_encoder else None)
    assert not source.loaded.by_interface or model._supports_attention_backend
    assert source.loaded.unshown == family.unshown
    inputs = source.encode([TEXT], TARGET if family.has_encoder else None)
    fields = source.texts.batch(inputs.texts)
    expected = own_weights(model, family, fields["input_ids"], fields.get("decoder_input_ids"))
    maps = sorted(attention.maps, key=lambda m: ("self", "masked", "cross").index(m.kind))
    assert len(maps) == len(expected)
    for m, A in zip(maps, expected, strict=True):
        if (name, m.kind) in (("squeezebert", "self"), ("prophetnet", "self")):  # they give their scores
            A = torch.softmax(A, dim=-1)
        np.testing.assert_allclose(m.weights, A.reshape(m.weights.shape), atol=CLOSE)
        assert m.weights.std() > 0.01
    assert [m.layer for m in maps if m.kind == maps[0].kind] == list(range(sum(m.kind == maps[0].kind for m in maps)))


@pytest.mark.parametrize("name", [name for name, family in RECORDED.items() if not family.has_encoder])
def test_a_padded_batch(name):
    _, source = recorded(name)
    texts = [TEXT, SHORT, "the dog sat on a mat"]
    together = calls(source, texts, batched=True)
    alone = attend(source, texts).maps
    if len(together) == len(alone):  # padding is seen
        assert name in ("cpmant", "reformer", "squeezebert", "xlnet")
        return
    for i, batch in enumerate(together):
        A = batch.call.weights()
        for j in range(len(texts)):
            one = alone[j * len(together) + i].weights
            length = one.shape[1]
            np.testing.assert_allclose(A[j, :, :length, :length], one, atol=CLOSE)
            assert length == A.shape[2] or float(A[j, :, :length, length:].max()) == 0


@pytest.mark.parametrize("name", REFUSED)
def test_weights_of_something_else_are_not_drawn(name):
    with pytest.raises(MhavizError, match="computes attention in a form of its own"):
        model_in_memory(*made(REFUSED[name]))


def test_the_weights_of_all_layers_are_never_in_memory():
    """Some models hand them to the loop over their layers, which keeps them until the next have been made."""
    made = ByHandModel(ByHandConfig(vocab_size=V, num_hidden_layers=5))
    model, kept, alive, study = model_in_memory(made, bytes_and_words()), [], [], HeadStudy()

    def look(seen):
        alive.append(sum(weights() is not None for weights in kept))
        kept.append(weakref.ref(seen.call.given.untyped_storage()))
        study.add(seen, [0])

    model.run(model.encode_unnamed([TEXT]), look, batched=True)
    assert len(kept) == 5
    assert max(alive) <= 1


def test_nothing_runs_after_the_last_attention_that_is_looked_at(pretrained):
    model, ran = pretrained("by_hand"), []
    hooks = [layer.mlp.register_forward_hook(lambda *_: ran.append(1)) for layer in model.loaded.model.base_model.h]
    try:
        attend(model.select((0,)), [TEXT])
        assert ran == []
        attend(model, [TEXT])
        assert ran == [1]
    finally:
        for hook in hooks:
            hook.remove()


def test_a_run_that_ends_early_keeps_nothing(pretrained):
    model, kept = pretrained("by_hand"), []
    gc.disable()
    try:
        model.select((0,)).run(model.encode([TEXT]), lambda seen: kept.append(weakref.ref(seen.call.given)))
        assert [weights() for weights in kept] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [ZeroDivisionError, MhavizError, KeyboardInterrupt])
def test_an_error_of_a_visitor_comes_through(pretrained, error):
    def look(seen):
        raise error("mine")

    model = pretrained("by_hand")
    with pytest.raises(error, match="mine") as raised:
        model.run(model.encode([TEXT]), look)
    assert type(raised.value) is error


def test_calls_of_a_model_that_runs_on_sdpa_without_the_interface(pretrained):
    """Falcon: nothing is refused of it."""
    model = pretrained("falcon").select((1,))
    (seen,) = calls(model, [TEXT])
    assert isinstance(seen.call, AttentionCall)
    assert model.notices == []
    explained = explain(*encoded(model, [TEXT]), 3, 2)
    np.testing.assert_allclose(explained.weights, seen.call.weights()[0, 2, 3, : len(explained.weights)], atol=CLOSE)
    steps = traced(model, [TEXT]).steps
    assert (steps[-1].name, steps[-1].equation) == ("O", "concat dense")
    assert model.require_outputs() == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rule_that_is_not_known(monkeypatch, dtype):
    """What Gemma 2's own eager function makes is not what its call says: the weights that it makes are recorded."""
    from transformers.models.gemma2 import modeling_gemma2

    model, tokenizer = made(Family("Gemma2Model", "Gemma2Config", WORDS | GROUPED | ENDS))
    model = model.to(dtype)
    assert model_in_memory(model, tokenizer).loaded.by_interface
    own = modeling_gemma2.eager_attention_forward
    monkeypatch.setattr(
        modeling_gemma2,
        "eager_attention_forward",
        lambda module, query, *others, **given: own(module, query * 1.5, *others, **given),
    )
    source = model_in_memory(model, tokenizer)
    assert not source.loaded.by_interface
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = model(torch.tensor([source.encode([TEXT]).texts[0].source.ids]), output_attentions=True).attentions
    for m, A in zip(attend(source, [TEXT]).maps, attentions, strict=True):
        np.testing.assert_allclose(m.weights, A[0].float(), atol=CLOSE)


def test_an_attention_of_a_class_of_ones_own():
    """Its eager function is the one that its forward names, and stands in another module."""
    model, tokenizer = made(Family("Gemma2Model", "Gemma2Config", WORDS | GROUPED | ENDS))
    expected = attend(model_in_memory(model, tokenizer), [TEXT]).maps
    for layer in model.layers:
        layer.self_attn.__class__ = type("OwnAttention", (type(layer.self_attn),), {"__module__": __name__})
    source = model_in_memory(model, tokenizer)
    assert source.loaded.by_interface
    for m, own in zip(expected, attend(source, [TEXT]).maps, strict=True):
        np.testing.assert_array_equal(own.weights, m.weights)


def test_a_bias_that_eager_attention_adds_twice():
    """As Falcon's does with ALiBi, in transformers 5.23: what runs is SDPA, whose outputs tell."""
    model, tokenizer = made(Family("FalconModel", "FalconConfig", BERT | {"alibi": True}))
    source = model_in_memory(model, tokenizer)
    assert source.loaded.by_hand == frozenset()
    deviations = verify(*encoded(source, [TEXT]))
    assert [d.difference / d.size < CLOSE for d in deviations] == [True, True]


@pytest.mark.parametrize("name", ["by_hand", "bloom", "deberta"])
def test_rollout(pretrained, name):
    model = pretrained(name)
    maps = rollout(*encoded(model, [TEXT])).maps
    np.testing.assert_allclose(maps[-1].weights.sum(axis=2), 1, atol=CLOSE)
    assert "by hand" in model.notices[0]


def test_the_model_is_left_as_it_was():
    model_class, config, _ = OTHERS["xlnet"]
    model = model_class(config())
    ids = torch.arange(5, 13)[None]
    model.eval()
    with torch.no_grad():
        before = model(input_ids=ids).last_hidden_state
    attend(model_in_memory(model, bytes_and_words()), [TEXT])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids).last_hidden_state, before)
    assert not model._forward_hooks
    assert torch.overrides._get_current_function_mode_stack() == []
