"""Every family of models: what is seen on the fast kernel gives the weights of transformers' eager attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import EAGER, FAMILIES
from looking import attend, calls, encoded
from made import made_map
from rounding import rounding

from mhaviz.analyses.pooled_maps import pooled_maps
from mhaviz.analyses.rollout import rollout
from mhaviz.analyses.verification import require_verified, verify
from mhaviz.analyses.weights import without_special
from mhaviz.attention import short_map, tiles
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.pooled_map import Pooling
from mhaviz.errors import ArgumentError, MhavizError

CLOSE = rounding(depth=4)

TEXTS = ["the cat sat on the mat playing hello", "hello cat"]
TARGET = "the mat ran"
ENCODERS = ("bert", "roberta", "distilbert", "modernbert", "deberta")
WITH_ENCODER = ("t5", "bart")
SLIDING = {"mistral": 3, "gemma2": 3, "gpt_oss": 3, "modernbert": 3}
"""How far a query of a layer with a window sees."""


def ids_of(model, text, target=None):
    source = torch.tensor([model.loaded.tokenizer(text)["input_ids"]])
    if target is None:
        return source, None
    produced = model.loaded.tokenizer(target)["input_ids"]
    return source, torch.tensor([[model.loaded.model.config.decoder_start_token_id, *produced[:-1]]])


def of_map(weights, kind, layer, name):
    """The fixture does not know the kind of a model that has one alone; of jamba every second layer has attention."""
    return weights[kind, layer] if (kind, layer) in weights else weights[name, layer // 2 if name == "jamba" else layer]


@pytest.mark.parametrize("name", FAMILIES | EAGER)
def test_the_weights_of_every_head(pretrained, eager, name):
    model = pretrained(name)
    assert model.loaded.by_interface == (name in FAMILIES or EAGER[name][0]._supports_attention_backend)
    target = TARGET if name in WITH_ENCODER else None
    for text in TEXTS if target is None else TEXTS[:1]:
        attention = attend(model, [text], target)
        expected = eager(name, *[ids_of(model, text, target)[0], None, ids_of(model, text, target)[1]])
        assert len(attention.maps) == len(expected)
        for m in attention.maps:
            np.testing.assert_allclose(m.weights, of_map(expected, m.kind, m.layer, name)[0], atol=CLOSE)
            assert m.weights.std() > 0.02  # weights that are all alike would hide a wrong scale, mask or rotation
    kinds = {m.kind for m in attention.maps}
    assert kinds == ({"self", "masked", "cross"} if target else {"self" if name in ENCODERS else "masked"})


@pytest.mark.parametrize("name", FAMILIES | EAGER)
def test_a_padded_batch(pretrained, eager, name):
    if name in WITH_ENCODER:
        pytest.skip("it writes its own targets: below")
    model = pretrained(name)
    texts = [model.loaded.tokenizer(text)["input_ids"] for text in TEXTS]
    long, short = map(len, texts)
    ids = torch.tensor([texts[0], texts[1] + [texts[1][0]] * (long - short)])
    mask = torch.ones_like(ids)
    mask[1, short:] = 0
    expected = eager(name, ids, mask)
    seen = calls(model, TEXTS, batched=True)
    assert len(seen) == len(expected)
    for batch in seen:
        of_layer, weights = of_map(expected, batch.site.kind, batch.site.layer, name), batch.call.weights()
        np.testing.assert_allclose(weights[0], of_layer[0], atol=CLOSE)
        np.testing.assert_allclose(weights[1, :, :short], of_layer[1, :, :short], atol=CLOSE)
        assert float(weights[1, :, :short, short:].max()) == 0
        assert list(map(len, batch.queries)) == mask.sum(dim=1).tolist()


@pytest.mark.parametrize("name", WITH_ENCODER)
def test_a_padded_batch_writes_its_targets(pretrained, name):
    model = pretrained(name)
    seen = calls(model, TEXTS, batched=True)
    alone = [attend(model, [text]).maps for text in TEXTS]
    for i, batch in enumerate(seen):
        for j, maps in enumerate(alone):
            q_length, k_length = maps[i].weights.shape[1:]
            np.testing.assert_allclose(batch.call.weights()[j, :, :q_length, :k_length], maps[i].weights, atol=CLOSE)
            assert len(batch.queries[j]) == q_length


@pytest.mark.parametrize("name", [*FAMILIES, "falcon"])
def test_the_outputs_of_the_model_itself(pretrained, name):
    target = TARGET if name in WITH_ENCODER else None
    deviations = verify(*encoded(pretrained(name), TEXTS[:1], target))
    assert len(deviations) == len(pretrained(name).sites())
    assert all(deviation.size > 0 for deviation in deviations)
    assert max(deviation.difference / deviation.size for deviation in deviations) < CLOSE


def test_wrong_weights_give_other_outputs(pretrained, monkeypatch):
    model, inputs = encoded(pretrained("llama"), TEXTS[:1])
    right = verify(model, inputs)
    assert require_verified(right, torch.float32) in right
    select = AttentionCall.select
    flipped = lambda call, heads: select(replace(call, key=call.key.flip(1)), heads)  # noqa: E731
    monkeypatch.setattr(AttentionCall, "select", flipped)  # groups of heads with one another's keys
    deviations = verify(model, inputs, range(4))
    assert all(d.difference > 1e-3 for d in deviations)
    with pytest.raises(MhavizError, match="not verified: the weights do not give the model's own outputs"):
        require_verified(deviations, torch.float32)


@pytest.mark.parametrize(("name", "length"), [*((name, 300) for name in FAMILIES), ("bart", 4096)])
@pytest.mark.slow
def test_many_tokens(pretrained, eager, monkeypatch, name, length):
    """So many that their queries come in several blocks, which they do even where no key is hidden."""
    if length < 4096:  # blocks that are as much smaller
        monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)
        monkeypatch.setattr(tiles, "_QUERIES", (16, 128))
        monkeypatch.setattr(tiles, "_TILE", (128, 256))
    model = pretrained(name)
    cells = 32
    text = " ".join(TEXTS[0].split()[i % 7] for i in range(length))
    tokenizer = model.loaded.tokenizer
    words = tokenizer(text)["input_ids"]
    while len(words) > length:  # of byte pieces a word has several
        text = text[: len(text) * length // len(words)]
        words = tokenizer(text)["input_ids"]
    target = TARGET if name in WITH_ENCODER else None
    one = model.select((1,), "self" if target else None)
    ids, target_ids = ids_of(model, text, target)
    (pooled,) = pooled_maps(*encoded(one, [text], target), Pooling(cells)).maps
    expected = of_map(eager(name, ids, None, target_ids), pooled.kind, 1, name)[0]
    edges = [torch.from_numpy(side) for side in (pooled.rows.edges, pooled.columns.edges)]
    rows = torch.stack([expected[:, a:b].mean(dim=1) for a, b in zip(edges[0][:-1], edges[0][1:], strict=True)], dim=1)
    sums = [rows[:, :, a:b].sum(dim=2) for a, b in zip(edges[1][:-1], edges[1][1:], strict=True)]
    np.testing.assert_allclose(pooled.weights, torch.stack(sums, dim=2), atol=CLOSE)


@pytest.mark.parametrize("heads", [(3, 2, 1, 0), (1, 2), (2,), (0, 1, 2, 3)])
@pytest.mark.parametrize("name", ["llama", "gpt_oss", "t5", "by_hand"])
def test_chosen_heads_have_the_keys_of_their_group(pretrained, name, heads):
    model, target = pretrained(name), TARGET if name in WITH_ENCODER else None
    whole = attend(model, TEXTS[1:], target)
    chosen = pooled_maps(*encoded(model, TEXTS[1:], target), Pooling(), heads)
    for m, all_heads in zip(chosen.maps, whole.maps, strict=True):
        assert m.heads == heads
        np.testing.assert_allclose(m.weights, all_heads.weights[list(heads)], atol=CLOSE)


@pytest.mark.parametrize(("name", "reach"), SLIDING.items())
def test_a_window_is_told(pretrained, name, reach):
    maps = attend(pretrained(name), TEXTS[:1]).maps
    assert reach in {m.reach for m in maps}
    for m in maps:
        if m.reach is not None:
            assert float(np.abs(m.weights[:, m.hidden]).max()) == 0
            assert float(m.weights[:, ~m.hidden].min()) > 0


def test_a_sink_is_told(pretrained):
    for m in attend(pretrained("gpt_oss"), TEXTS[:1]).maps:
        assert m.sink
        assert float(m.weights.sum(axis=2).min()) < 0.9
    assert not any(m.sink for m in attend(pretrained("gemma2"), TEXTS[:1]).maps)


def test_layers_have_the_numbers_of_the_model(pretrained):
    model = pretrained("jamba")
    assert [m.layer for m in attend(model, TEXTS[:1]).maps] == [1, 3]
    one = model.select((3,))
    assert "layer 3 of 1 and 3" in attend(one, TEXTS[:1]).source.footnote


def test_nothing_runs_after_the_last_attention_that_is_looked_at(pretrained):
    model = pretrained("llama")
    ran = []
    hooks = [
        layer.mlp.register_forward_hook(lambda *_: ran.append(1)) for layer in model.loaded.model.base_model.layers
    ]
    try:
        attend(model.select((0,)), TEXTS[:1])
        assert ran == []
        attend(model, TEXTS[:1])
        assert ran == [1]
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("name", ["gpt_oss", "bert"])
def test_rollout_of_several_sentences(pretrained, eager, name):
    """Each has its own, in float64; rows that a sink has taken part of are shares of the keys again."""
    model = pretrained(name)
    maps = rollout(*encoded(model, TEXTS)).maps
    assert [(m.sentence, m.layer) for m in maps] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for i, text in enumerate(TEXTS):
        layers = eager(name, ids_of(model, text)[0]).values()
        R = None
        for m, weights in zip(maps[2 * i : 2 * i + 2], layers, strict=True):
            A = weights[0].double().mean(dim=0)
            mixed = 0.5 * A / A.sum(dim=-1, keepdim=True) + 0.5 * torch.eye(len(A))
            R = mixed if R is None else mixed @ R
            np.testing.assert_allclose(m.weights[0], R, atol=CLOSE)


def test_special_tokens_in_the_middle_leave_no_window():
    """What is cut out between two tokens brings them nearer, so that a window is no band any more."""
    weights = np.full((1, 4, 4), 0.25, np.float32)

    def without(position):
        special = {"special_queries": (position,), "special_keys": (position,)}
        return without_special(made_map("abcd", "abcd", weights, "masked", reach=2, **special))

    assert (without(1).reach, without(0).reach) == (None, 2)


def test_tokens_of_the_text_keep_their_numbers_where_special_ones_are_left_out():
    weights = np.full((1, 4, 4), 0.25, np.float32)
    m = without_special(made_map("abcd", "abcd", weights, special_queries=(0, 3), special_keys=(0,)))
    assert (m.rows.edges.tolist(), m.columns.edges.tolist()) == ([1, 2, 3], [1, 2, 3, 4])


def test_nothing_but_special_tokens():
    weights = np.full((1, 1, 2), 0.5, np.float32)
    with pytest.raises(ArgumentError, match="got only special ones"):
        without_special(made_map("a", "ab", weights, "cross", special_queries=(0,)))
    assert without_special(made_map("a", "ab", weights, "cross", special_keys=(0,))).keys == ("b",)


def test_models_that_ask_for_sdpa_run_on_it(pretrained):
    for name, implementation in (("llama", "sdpa"), ("gemma2", "eager"), ("by_hand", "eager")):
        assert pretrained(name).loaded.model.config._attn_implementation == implementation


def test_transformers_is_left_as_it_was(pretrained):
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    model = pretrained("llama")
    attend(model, TEXTS)
    with pytest.raises(ZeroDivisionError):
        model.run(model.encode(TEXTS), lambda seen: 1 / 0)
    attend(pretrained("gemma2"), TEXTS)
    assert AttentionInterface()["sdpa"] is sdpa_attention_forward
    assert "eager" not in AttentionInterface()
    assert AttentionMaskInterface()["eager"] is eager_mask
