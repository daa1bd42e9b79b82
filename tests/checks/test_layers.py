"""Signatures of layers: each is called as its user would call it, and what cannot be called is said."""

import math
import threading
from functools import partial

import pytest
import torch
from checks.right_base import Heads, weigh
from torch import nn

from mhaviz.api.checking import check
from mhaviz.checks.held_modules import modules_of
from mhaviz.checks.signatures import adapted
from mhaviz.errors import ArgumentError, MhavizError

D_MODEL, LENGTH, K_LENGTH = 32, 6, 8
X, MEMORY = torch.randn(3, LENGTH, D_MODEL), torch.randn(3, K_LENGTH, D_MODEL)
KEEP = torch.arange(LENGTH) < torch.tensor([[6], [4], [5]])
MEMORY_KEEP = torch.arange(K_LENGTH) < torch.tensor([[8], [3], [5]])
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
HIDDEN_KEYS = ~KEEP[:, None]
PROJECTIONS = Heads().eval()


def attended(hidden):
    """What a layer of ``PROJECTIONS`` gives where these keys are hidden from all heads, (batch_size, …, k_length)."""
    q, k, v = (PROJECTIONS.split(W(X)) for W in (PROJECTIONS.Wq, PROJECTIONS.Wk, PROJECTIONS.Wv))
    return mixed(q, k, v, ~hidden[:, None])


def mixed(q, k, v, seen):
    weights = weigh(q @ k.mT / math.sqrt(q.shape[-1]), seen)
    return PROJECTIONS.Wo((weights @ v).transpose(1, 2).flatten(2))


class Masked(Heads):
    """Keys are seen where ``read`` says so of the mask; it broadcasts to (batch_size, n_heads, q_length, k_length)."""

    def __init__(self, read):
        super().__init__()
        self.load_state_dict(PROJECTIONS.state_dict())
        self.read = read

    def attend(self, query, key, value, mask):
        q, k, v = (self.split(W(x)) for W, x in ((self.Wq, query), (self.Wk, key), (self.Wv, value)))
        seen = torch.ones(1, dtype=torch.bool) if mask is None else self.read(mask)
        return mixed(q, k, v, seen)


class OfTriple(Masked):
    def forward(self, query, key, value, mask=None):
        return self.attend(query, key, value, mask)


class OfTripleNeedsMask(Masked):
    def forward(self, q, k, v, mask):
        return self.attend(q, k, v, mask)


class OfX(Masked):
    def forward(self, x, mask=None):
        return self.attend(x, x, x, mask)


class Adding(OfX):
    def attend(self, query, key, value, mask):
        q, k, v = (self.split(W(x)) for W, x in ((self.Wq, query), (self.Wk, key), (self.Wv, value)))
        scores = q @ k.mT / math.sqrt(self.d_key)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        return self.Wo((weights @ v).transpose(1, 2).flatten(2))


class OfTransformers(Masked):
    def forward(self, hidden_states, attention_mask=None):
        return self.attend(hidden_states, hidden_states, hidden_states, attention_mask)


READINGS = {
    "True is seen, of scores": (lambda mask: mask, True),
    "True is hidden, of scores": (lambda mask: ~mask, True),
    "True is seen, of sentences": (lambda mask: mask[:, None], True),
    "True is hidden, of sentences": (lambda mask: ~mask[:, None], True),
    "True is seen, of tokens": (lambda mask: mask[:, None, None].expand(3, 1, 1, -1), False),
    "True is hidden, of tokens": (lambda mask: ~mask[:, None, None].expand(3, 1, 1, -1), False),
    "0 is hidden, of tokens": (lambda mask: mask[:, None, None].eq(0).logical_not(), False),
}


@pytest.mark.parametrize("kind", [OfTriple, OfTripleNeedsMask, OfX])
@pytest.mark.parametrize("reading", READINGS)
def test_a_mask_is_read_either_way(kind, reading):
    read, takes_causal = READINGS[reading]
    layer = adapted(kind(read), D_MODEL)
    assert layer.takes_keep
    assert layer.takes_causal == takes_causal
    torch.testing.assert_close(layer(X, KEEP), attended(HIDDEN_KEYS))
    torch.testing.assert_close(layer(X), attended(torch.zeros(1, 1, 1, dtype=torch.bool)))
    if takes_causal:
        torch.testing.assert_close(layer(X, causal=True), attended(LATER[None]))
        torch.testing.assert_close(layer(X, KEEP, causal=True), attended(LATER | HIDDEN_KEYS))


@pytest.mark.parametrize("kind", [Adding])
def test_a_mask_that_is_added(kind):
    layer = adapted(kind(None), D_MODEL)
    torch.testing.assert_close(layer(X, KEEP), attended(HIDDEN_KEYS))
    torch.testing.assert_close(layer(X, KEEP, causal=True), attended(LATER | HIDDEN_KEYS))


def test_attention_mask_is_true_of_tokens():
    """The reading that would be tried otherwise is that of a mistake."""
    upside_down = adapted(OfTransformers(lambda mask: mask[:, None, None] == 0), D_MODEL)
    assert not torch.allclose(upside_down(X, KEEP), attended(HIDDEN_KEYS))
    right = adapted(OfTransformers(lambda mask: mask[:, None, None] != 0), D_MODEL)
    torch.testing.assert_close(right(X, KEEP), attended(HIDDEN_KEYS))


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_of_pytorch(batch_first):
    module = nn.MultiheadAttention(D_MODEL, 4, batch_first=batch_first).eval()
    layer = adapted(module, D_MODEL)
    given = X if batch_first else X.transpose(0, 1)
    expected, _ = module(given, given, given, key_padding_mask=~KEEP, attn_mask=LATER)
    torch.testing.assert_close(layer(X, KEEP, causal=True), expected if batch_first else expected.transpose(0, 1))


def test_encoder_layer_of_pytorch():
    module = nn.TransformerEncoderLayer(D_MODEL, 4, 48, batch_first=True).eval()
    layer = adapted(module, D_MODEL)
    expected = module(X, src_key_padding_mask=~KEEP, src_mask=LATER)
    torch.testing.assert_close(layer(X, KEEP, causal=True), expected)


def test_decoder_layer_of_pytorch():
    module = nn.TransformerDecoderLayer(D_MODEL, 4, 48, batch_first=True).eval()
    layer = adapted(module, D_MODEL)
    assert layer.is_cross
    torch.testing.assert_close(layer(X, memory=MEMORY), module(X, MEMORY))


@pytest.mark.parametrize(
    "module", [nn.MultiheadAttention(D_MODEL, 4), nn.TransformerEncoderLayer(D_MODEL, 4, 48, batch_first=True)]
)
def test_keep_and_causal_alone(module):
    layer = adapted(module.eval(), D_MODEL)
    both = layer(X, KEEP, causal=True)
    for one in (layer(X, KEEP), layer(X, causal=True), layer(X)):
        assert not torch.allclose(one[1], both[1], atol=1e-3)


def test_names_of_the_page():
    """``keep`` and ``causal``, together or one of them."""
    layer = adapted(PROJECTIONS, D_MODEL)
    torch.testing.assert_close(layer(X, KEEP, causal=True), attended(LATER | HIDDEN_KEYS))
    layer = adapted(lambda x, keep: PROJECTIONS(x, keep), D_MODEL)
    assert (layer.takes_keep, layer.takes_causal) == (True, False)
    torch.testing.assert_close(layer(X, KEEP), attended(HIDDEN_KEYS))
    layer = adapted(lambda x, causal: PROJECTIONS(x, None, causal), D_MODEL)
    assert (layer.takes_keep, layer.takes_causal) == (False, True)
    torch.testing.assert_close(layer(X, causal=True), attended(LATER[None]))


@pytest.mark.parametrize("name", ["memory", "context", "encoder_hidden_states"])
def test_cross_attention(name):
    attend = nn.MultiheadAttention(D_MODEL, 4, batch_first=True).eval()
    signature = {"memory": None, "attend": attend}
    program = f"lambda x, {name}, keep=None: attend(x, {name}, {name}, None if keep is None else ~keep)[0]"
    layer = adapted(eval(program, signature), D_MODEL)
    assert layer.is_cross
    expected, _ = attend(X, MEMORY, MEMORY, key_padding_mask=~MEMORY_KEEP)
    torch.testing.assert_close(layer(X, MEMORY_KEEP, memory=MEMORY), expected)


def test_a_memory_that_may_be_left_out_is_left_out():
    def attend(x, context=None):
        assert context is None
        return PROJECTIONS(x)

    layer = adapted(attend, D_MODEL)
    assert not layer.is_cross
    torch.testing.assert_close(layer(X), PROJECTIONS(X))


@pytest.mark.parametrize(("asked", "n_heads"), [(None, 2), (4, 4), (1, 1)])
def test_functions_on_heads(asked, n_heads):
    """They are called with queries, keys and values that differ, of heads of the right size."""
    given = []

    def attention(q, k, v, mask=None):
        given.append((q, k, v))
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return (weights if mask is None else weigh(q @ k.mT / math.sqrt(q.shape[-1]), mask != 0)) @ v

    layer = adapted(attention, D_MODEL, asked)
    assert layer.on_heads == n_heads
    output = layer(X, KEEP)
    assert output.shape == X.shape
    q, k, v = given[-1]
    assert q.shape == k.shape == v.shape == (3, n_heads, LENGTH, D_MODEL // n_heads)
    assert not any(torch.allclose(a, b) for a, b in ((q, k), (k, v), (q, v)))
    expected = nn.functional.scaled_dot_product_attention(q, k, v, KEEP[:, None, None])
    torch.testing.assert_close(output, expected.transpose(1, 2).flatten(2))


def test_heads_divide_the_features():
    with pytest.raises(MhavizError, match="n_heads that divides d_model, got 5 and 32"):
        adapted(lambda q, k, v: v, D_MODEL, 5)
    assert adapted(lambda q, k, v: v, 7).on_heads == 1


def test_others_that_a_layer_may_take():
    layer = adapted(lambda x, past_key_value=None, position_ids=None, doc_ids=None: x, D_MODEL)
    assert (layer.cache, layer.positions, layer.documents, layer.start) == (
        "past_key_value",
        "position_ids",
        "doc_ids",
        None,
    )
    layer = adapted(lambda x, start_pos: x + start_pos, D_MODEL)
    assert layer.start == "start_pos"
    torch.testing.assert_close(layer(X), X)


OUTPUTS = {
    "a tensor": lambda x: x,
    "a pair": lambda x: (x, None),
    "a list": lambda x: [x],
    "a dict": lambda x: {"output": x},
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_with_more_beside_them(name):
    torch.testing.assert_close(adapted(OUTPUTS[name], D_MODEL)(X), X)


UNFIT = {
    "a class": (
        nn.MultiheadAttention,
        "got the class MultiheadAttention; make an instance, such as MultiheadAttention(32)",
    ),
    "a number": (3, "expected a module or a function, got int"),
    "no parameters": (
        lambda: 0,
        "a lambda: expected a layer that takes x (batch_size, length, d_model), got one without",
    ),
    "an unknown parameter": (
        lambda x, wobble: x,
        "a lambda: takes wobble, and nothing tells what it is; wrap the layer, such as lambda x: layer(x, wobble=…)",
    ),
    "an unknown parameter beside memory": (
        lambda x, memory, wobble: x,
        "such as lambda x, memory: layer(x, memory, wobble=…)",
    ),
    "no signature": (torch.softmax, "softmax: its signature is not known; wrap it, such as lambda x: layer(x)"),
    "nothing": (
        lambda x: None,
        "a lambda: expected a tensor (batch_size, length, d_model), or a pair of it and weights",
    ),
    "an empty pair": (lambda x: (), "got tuple; wrap it, such as lambda x: layer(x).output"),
    "an empty dict": (lambda x: {}, "got dict; wrap it, such as lambda x: layer(x).output"),
    "token ids": (lambda x: x.argmax(-1), "a lambda: expected numbers (batch_size, length, d_model), got torch.int64"),
    "what raises": (
        nn.Linear(5, 5),
        "Linear: expected a layer that takes x (3, 7, 32), and it raises RuntimeError: mat1",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_layer_is_said_in_a_line(name):
    attend, message = UNFIT[name]
    with pytest.raises(MhavizError) as raised:
        check(attend, d_model=D_MODEL)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not isinstance(raised.value, ArgumentError)


class Owner:
    def __init__(self, module):
        self.module = module

    def method(self, x):
        return self.module(x)

    def __call__(self, x):
        return self.module(x)


class Module(nn.Module):
    def method(self, x):
        return x

    forward = method


GLOBAL = Module()


def helper(x):
    return GLOBAL(x)


def closing_over(*held):
    def attend(x):
        for module in held:
            x = module(x)
        return x

    return attend


def test_modules_that_a_callable_runs():
    one, other = Module(), Module()
    assert modules_of(one) == (one,)
    assert modules_of(one.method) == (one,)
    assert modules_of(closing_over(one, other)) == (one, other)
    assert modules_of(partial(closing_over, one)) == (one,)
    assert modules_of(partial(lambda x, module: module(x), module=one)) == (one,)
    assert modules_of(lambda x, module=one: module(x)) == (one,)
    assert modules_of(lambda x: GLOBAL(x)) == (GLOBAL,)
    assert set(modules_of(lambda x: other(one(x)))) == {one, other}
    assert modules_of(lambda x, layers=(one, other): layers[0](x)) == (one, other)
    assert modules_of(Owner(one)) == (one,)
    assert modules_of(torch.relu) == ()
    assert modules_of(threading.Lock().acquire) == ()


def test_modules_of_what_holds_them_in_turn():
    one = Module()
    assert modules_of(Owner(one).method) == (one,)
    assert modules_of(partial(Owner(one), 1)) == (one,)
    assert modules_of(closing_over(closing_over(one))) == (one,)
    assert modules_of(closing_over(Owner(one).method)) == (one,)
    assert modules_of(lambda x: helper(x)) == (GLOBAL,)


def test_only_attributes_that_a_method_names():
    """Others of its owner may be anything, and their parameters get no gradient."""
    owner = Owner(Module())
    owner.other = Module()
    assert modules_of(owner.method) == (owner.module,)
    assert set(modules_of(owner)) == {owner.module, owner.other}


def test_what_holds_itself_has_an_end():
    held = []
    held.append(held)
    assert modules_of(closing_over(held)) == ()


def test_an_empty_cell_is_passed_over():
    def attend(x):
        return later(x)

    assert modules_of(attend) == ()
    later = Module()
    assert modules_of(attend) == (later,)
