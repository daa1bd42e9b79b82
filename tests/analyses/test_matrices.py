"""The matrices of a layer, against PyTorch's own layer and against modules of transformers."""

import dataclasses

import numpy as np
import pytest
import torch
from looking import encoded, given_model
from rounding import rounding
from torch import nn

import mhaviz
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.layer.attention import causal_mask
from mhaviz.layer.seeding import seeded
from mhaviz.limits import MOST_LOOKED_INTO
from mhaviz.models.single_layer import RandomLayer

CLOSE = rounding()

SENTENCE = "I wonder what will come next"


def twin(layer):
    """PyTorch's layer with the same parameters, in float64."""
    with seeded(layer.seed):
        ours = mhaviz.MultiHeadAttention(layer.d_model, layer.n_heads)
    theirs = nn.MultiheadAttention(layer.d_model, layer.n_heads, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.Wq.weight, ours.Wk.weight, ours.Wv.weight]))
        theirs.out_proj.weight.copy_(ours.Wo.weight)
    return theirs


@pytest.mark.parametrize(("causal", "target"), [(False, None), (True, None), (False, "le chat noir")])
def test_against_pytorchs_layer(causal, target):
    layer = RandomLayer(16, 4, device_name="cpu", causal=causal)
    m = layer_matrices(*encoded(layer, [SENTENCE], target), [1, 3])
    X, memory = (torch.from_numpy((x or m.input).values).double()[None] for x in (m.input, m.memory))
    theirs = twin(layer)
    hidden = ~causal_mask(6)[0, 0] if causal else None
    O, A = theirs(X, memory, memory, attn_mask=hidden, average_attn_weights=False)
    np.testing.assert_allclose(m.output.values, O[0].detach(), atol=CLOSE)
    for head in m.heads:
        np.testing.assert_allclose(head.weights, A[0, head.head].detach(), atol=CLOSE)
    Q, K, V = (
        x @ weight.detach().T for x, weight in zip((X, memory, memory), theirs.in_proj_weight.chunk(3), strict=True)
    )
    for matrix, expected in ((m.query, Q), (m.key, K), (m.value, V)):
        np.testing.assert_allclose(matrix.values, expected[0], atol=CLOSE)
    assert [m.query.equation, m.key.equation, m.output.equation] == ["X Wq", "X Wk", "concat Wo"]
    assert [head.head for head in m.heads] == [1, 3]
    assert m.left_out == ""


def test_each_product_is_of_its_factors():
    m = layer_matrices(*encoded(RandomLayer(16, 4, device_name="cpu", causal=True), [SENTENCE]), range(4))
    for head in m.heads:
        columns = slice(4 * head.head, 4 * head.head + 4)
        for own, whole in ((head.query, m.query), (head.key, m.key), (head.value, m.value), (head.output, m.joined)):
            np.testing.assert_array_equal(own, whole.values[:, columns])
        Q, K, V = (x.astype(np.float64) for x in (head.query, head.key, head.value))
        S = Q @ K.T / np.sqrt(4)
        seen = np.tri(6, dtype=bool)
        np.testing.assert_allclose(head.scores[seen], S[seen], atol=CLOSE)
        assert np.isnan(head.scores[~seen]).all()
        A = np.where(seen, np.exp(S), 0) / np.where(seen, np.exp(S), 0).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(head.weights, A, atol=CLOSE)
        np.testing.assert_allclose(head.output, A @ V, atol=CLOSE)


def test_the_example_is_a_query_with_a_choice_and_its_key():
    m = layer_matrices(*encoded(RandomLayer(16, 4, device_name="cpu", causal=True), [SENTENCE]), [2])
    weights = m.heads[0].weights
    assert m.position > 0, "the first query sees itself alone"
    assert weights[m.position, m.key_position] == weights[1:].max()
    m = layer_matrices(*encoded(RandomLayer(16, 4, device_name="cpu", causal=True), [SENTENCE]), [2], 4)
    assert (m.position, m.key_position) == (4, int(m.heads[0].weights[4].argmax()))


def test_heads_that_share_their_keys(model_folder):
    """Llama: two key heads for four heads, and positions between the projection and the heads."""
    import transformers

    loaded = mhaviz.load(model_folder("llama"), device="cpu")
    m = loaded.matrices("the cat sat", layer=1)
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder("llama"), attn_implementation="eager").eval()
    made = {}
    attention = model.model.layers[1].self_attn
    attention.register_forward_hook(
        lambda module, args, kwargs, out: made.update(X=kwargs["hidden_states"], O=out[0]), with_kwargs=True
    )
    attention.k_proj.register_forward_hook(lambda module, args, out: made.update(K=out))
    attention.v_proj.register_forward_hook(lambda module, args, out: made.update(V=out))
    attention.o_proj.register_forward_hook(lambda module, args, out: made.update(concat=args[0]))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder("llama"))
    with torch.no_grad():
        weights = model(**tokenizer("the cat sat", return_tensors="pt"), output_attentions=True).attentions[1]
    for matrix, name in ((m.input, "X"), (m.value, "V"), (m.joined, "concat"), (m.output, "O")):
        np.testing.assert_allclose(matrix.values, made[name][0], atol=CLOSE)
    assert not np.allclose(m.key.values, made["K"][0], atol=1e-3), "positions have turned them"
    assert m.key.equation == "X k_proj, with positions"
    assert (m.n_heads, m.n_key_heads, [head.key_head for head in m.heads]) == (4, 2, [0, 0, 1, 1])
    for head in m.heads:
        np.testing.assert_allclose(head.weights, weights[0, head.head], atol=CLOSE)
        half = slice(head.key_head * m.d_key, (head.key_head + 1) * m.d_key)
        np.testing.assert_array_equal(head.key, m.key.values[:, half])


def test_what_is_not_known_is_left_out(monkeypatch):
    random = np.random.default_rng(0)
    model = given_model(*random.normal(size=(3, 2, 4, 5)))

    def refuse(*_, **__):
        raise MhavizError("it cannot be traced")

    monkeypatch.setattr(model, "trace", refuse)
    m = layer_matrices(*encoded(model, []), [0, 1])
    assert (m.input, m.memory, m.output, m.left_out) == (None, None, None, "it cannot be traced")
    assert m.query.equation == ""
    expected = nn.functional.scaled_dot_product_attention(*(x[0] for x in dataclasses.astuple(model.given[0])[:3]))
    np.testing.assert_allclose(m.joined.values, expected.transpose(0, 1).flatten(1), atol=CLOSE)


@pytest.mark.parametrize(
    ("sentence", "heads", "position", "message"),
    [
        ("a b", [2], None, "expected a head from 0 to 1, got 2"),
        ("a b", [0], 2, "expected a position from 0 to 1, got 2"),
        ("a " * (MOST_LOOKED_INTO + 1), [0], None, "expected at most 512 tokens, got 513; mhaviz heatmap draws"),
    ],
)
def test_what_cannot_be_shown(sentence, heads, position, message):
    with pytest.raises(ArgumentError, match=message):
        layer_matrices(*encoded(RandomLayer(8, 2, device_name="cpu"), [sentence]), heads, position)
