"""What met the values is drawn, whatever a mask was meant to hide: the oracle is the output of the program itself."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site, SiteCall, show
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.map_words import hidden_text
from mhaviz.views.html.contents import contents_of
from mhaviz.views.style import Style

CLOSE = rounding()
T = 8
LEAST = torch.finfo(torch.float32).min
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)
UPSIDE_DOWN = LATER.mT
FORGOT_DIAGONAL = torch.ones(T, T, dtype=torch.bool).triu(0)  # hides a query's own key, and all keys from the first
BLIND = LATER | (torch.arange(T) == 5)[:, None]
PADDED_QUERIES = LATER | (torch.arange(T) > 5)[:, None]
HIDES = {
    "causal": LATER,
    "upside down": UPSIDE_DOWN,
    "forgot the diagonal": FORGOT_DIAGONAL,
    "blind": BLIND,
    "on the queries": PADDED_QUERIES,
    "one off": torch.ones(T, T, dtype=torch.bool).triu(2),
    "all": torch.ones(T, T, dtype=torch.bool),
}


def tensors(seed=0):
    """Queries, keys, and values of which the output of an attention is twice its weights."""
    q, k = torch.randn(2, 1, 2, T, 16, generator=torch.Generator().manual_seed(seed)).unbind()
    return q, k, 2 * torch.eye(T).expand(1, 2, T, T)


def by_hand(q, k, v, mask):
    return (q @ k.mT / 4 + mask).softmax(-1) @ v


def filled(q, k, v, mask):
    return (q @ k.mT / 4).masked_fill(mask < 0, float(mask.min())).softmax(-1) @ v


def written_out(q, k, v, mask):
    e = (q @ k.mT / 4 + mask - (q @ k.mT / 4 + mask).amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) @ v


@pytest.mark.parametrize("name", HIDES)
@pytest.mark.parametrize("number", [LEAST, -1e9, -1e4])
@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand, filled, written_out])
def test_weights_are_those_that_met_the_values(attend, number, name):
    mask = torch.where(HIDES[name], number, 0.0)
    with mhaviz.record() as recording:
        output = attend(*tensors(), mask)
    (m,) = recording.attention
    expected = output[0].numpy() / 2
    if name == "on the queries" and attend is not written_out:  # which the same mask would hide if they were padding
        expected = expected[:, :6, :6]
        assert any("left out tokens 6 to 7, queries and keys" in line for line in recording.notices)
    # A sum with −1e4 is rounded to 2⁻¹⁰, and how it is rounded depends on the order of the sums.
    np.testing.assert_allclose(m.weights, expected, atol=2e-3 if number == -1e4 else CLOSE)
    if m.hidden is not None:
        assert not expected[:, m.hidden].any()
    if name in ("causal", "forgot the diagonal", "blind", "on the queries"):
        is_gone = attend is written_out and name != "causal"  # by the largest score of a query that sees no key
        assert m.kind == ("other" if is_gone else "masked")


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_blind_query_of_torchs_layer(need_weights):
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x, mask = torch.randn(1, T, 16), torch.where(BLIND, LEAST, 0.0)
    with torch.no_grad():
        expected = layer(x, x, x, attn_mask=mask, average_attn_weights=False)[1][0]
        with mhaviz.record(layer) as recording:
            layer(x, x, x, attn_mask=mask, need_weights=need_weights)
    (m,) = recording.attention
    np.testing.assert_allclose(m.weights, expected, atol=CLOSE)
    assert m.kind == "masked"
    assert any("query 5 weighs keys that the mask hides from it" in line for line in recording.notices)


@pytest.mark.parametrize("how", ["weights", "weights of a batch", "dropout", "fast path", "output"])
def test_a_softmax_that_is_nan_is_said(how):
    """A query sees no key: PyTorch's layer makes NaN of it where it returns weights, and on its fast path."""
    layer = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True).train(how == "dropout")
    x, mask = torch.randn(2 if how.endswith("batch") else 1, T, 16), BLIND
    with torch.set_grad_enabled(how != "fast path"), mhaviz.record(layer, examples="all") as recording:
        output, _ = layer(x, x, x, attn_mask=mask, need_weights=how.startswith("weights") or how == "dropout")
    assert output[:, 5].isnan().all() == (how != "output")
    assert not output[:, :5].isnan().any()
    for m in recording.attention:
        assert not m.weights[:, 5].any()
        np.testing.assert_allclose(m.weights.sum(-1)[:, :5], 1, atol=CLOSE)
    said = {"output": 0, "weights of a batch": 2}.get(how, 1)
    assert sum("NaN" in line for line in recording.notices) == said
    if how in ("weights", "dropout"):
        assert "the softmax of query 5 is NaN, as it sees no key; drawn as 0" in "".join(recording.notices)


def test_the_nan_of_a_softmax_by_hand_is_that_of_a_layer():
    with mhaviz.record() as recording:
        by_hand(*tensors(), torch.where(BLIND, -torch.inf, 0.0))
    (m,) = recording.attention
    assert not m.weights[:, 5].any()
    assert "the softmax of query 5 is NaN, as it sees no key; drawn as 0" in "".join(recording.notices)
    with mhaviz.record() as recording:
        by_hand(*tensors(), torch.where(BLIND, torch.nan, 0.0))
    with pytest.raises(MhavizError, match="got NaN or infinity in all heads"):
        _ = recording.attention


def test_an_example_alone_says_which_it_is():
    x = torch.randn(3, T, 16)
    x[:2] = math.nan
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    with mhaviz.record(layer, examples="all") as recording:
        layer(x, x, x)
    assert [m.sentence for m in recording.attention] == [2]


def test_nan_of_padding_is_left_out_with_it():
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x, padding = torch.randn(1, T, 16), torch.where(torch.arange(T)[None] < 2, -torch.inf, 0.0)
    with mhaviz.record(layer) as recording:
        _, weights = layer(x, x, x, padding, attn_mask=torch.where(LATER, -torch.inf, 0.0), average_attn_weights=False)
    assert weights[:, :, :2].isnan().all()
    (m,) = recording.attention
    np.testing.assert_allclose(m.weights, weights.detach()[0, :, 2:, 2:], atol=CLOSE)


def test_what_is_shown_of_a_blind_query(tmp_path):
    with mhaviz.record(page=True) as recording:
        filled(*tensors(), torch.where(BLIND, LEAST, 0.0))
    attention = recording.attention
    (m,) = attention
    assert m.hidden.sum() == LATER.sum() - (T - 6)
    assert hidden_text(attention.maps, "·") == "·: later keys, hidden, though 1 of 8 rows gives weight to some"
    (described,) = contents_of(attention, Style()).document["maps"]
    assert described["hiddenLater"]
    assert described["weighedBeyond"]["shape"] == [1, T, T]
    for suffix in ("json", "safetensors", "npz"):
        attention.save(tmp_path / f"x.{suffix}")
        np.testing.assert_array_equal(mhaviz.read(tmp_path / f"x.{suffix}")[0].weights, m.weights)
    assert mhaviz.diff(tmp_path / "x.json", tmp_path / "x.npz").maps[0].divergence.max() == 0


@pytest.mark.parametrize("number", [-math.inf, LEAST, -1e9, -1e4])
def test_a_causal_mask_of_any_number_is_causal(number):
    """Heads are compared with uniform weights on the keys that a query sees."""
    mask, (q, k, v) = torch.where(LATER, number, 0.0), tensors()
    with mhaviz.record(statistics=True, page=True) as recording:
        F.scaled_dot_product_attention(q, k, v, mask)
    with mhaviz.record(statistics=True) as built_in:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (kind,), (expected,) = (one.head_statistics.kinds for one in (recording, built_in))
    assert kind.kind == expected.kind == "masked"
    np.testing.assert_allclose(kind.previous.chance, expected.previous.chance)
    assert recording.attention[0].queries_and_keys.bias is None
    assert not any("weigh" in line for line in recording.notices)


@pytest.mark.parametrize("attend", [F.scaled_dot_product_attention, by_hand, filled])
def test_chance_of_a_mask_that_differs_by_head(attend):
    """Head 0 sees up to 3 keys, head 1 all earlier ones; the entropy of uniform weights on n keys is log n."""
    mask, (q, k, v) = torch.where(torch.stack([LATER | LATER.mT.triu(-T).tril(-3), LATER]), LEAST, 0.0), tensors()
    with mhaviz.record(statistics=True) as recording:
        attend(q, k, v, mask)
    (kind,) = recording.head_statistics.kinds
    expected = [np.log([min(i, most) for i in range(1, T + 1)]).mean() for most in (3, T)]
    np.testing.assert_allclose(kind.entropy.chance, [expected], rtol=CLOSE)


def test_a_later_pass_that_is_not_causal():
    class Attend(nn.Module):
        def forward(self, q, k, v, is_causal):
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    attend, outputs = Attend(), []
    with mhaviz.record(attend, passes="0-1") as recording:
        outputs += [attend(*tensors(seed), is_causal) for seed, is_causal in ((0, True), (1, False))]
    assert [m.kind for m in recording.attention] == ["masked", "self"]
    for m, output in zip(recording.attention, outputs, strict=True):
        np.testing.assert_allclose(m.weights, output[0] / 2, atol=CLOSE)


def test_rows_that_are_left_out_and_why():
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x, padded = torch.randn(3, 6, 16), torch.tensor([[False] * 6, [False] * 4 + [True] * 2, [True] + [False] * 5])
    with torch.no_grad(), mhaviz.record(layer, examples="all") as recording:
        layer(x, x, x, key_padding_mask=padded)
    why = "queries and keys, as padding: the mask hides them from all queries"
    assert [line.partition(": ")[2] for line in recording.notices] == [
        f"of example 1, left out tokens 4 to 5, {why}",
        f"of example 2, left out token 0, {why}",
    ]


def test_a_step_that_sees_the_first_key_alone():
    """SDPA counts from the first key: with `is_causal` the query of a step with a cache sees that key."""
    q, k, v = tensors()
    with mhaviz.record() as recording:
        output = F.scaled_dot_product_attention(q[:, :, :1], k, v, is_causal=True)
    (m,) = recording.attention
    np.testing.assert_allclose(m.weights, output[0].numpy()[..., :1] / 2, atol=CLOSE)
    assert any("left out keys 1 to 7: the mask hides them from all queries" in line for line in recording.notices)


LEVELS = [0.0, 0.0, 0.0, -1e4, -1e9, LEAST, -math.inf, 2.5]


@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from([0.25, 400.0]))
@settings(max_examples=150)
def test_the_simplest_mask_gives_the_same_weights(data, q_length, k_length, causal, may_be_causal, scale):
    rows = data.draw(st.sampled_from([1, q_length]))
    levels = [LEVELS, LEVELS[:4], [0.0, -math.inf]][data.draw(st.integers(0, 2))]
    mask = torch.tensor([[data.draw(st.sampled_from(levels)) for _ in range(k_length)] for _ in range(rows)])
    generator = torch.Generator().manual_seed(q_length)
    q, k, v = (torch.randn(1, 2, n, 4, generator=generator) for n in (q_length, k_length, k_length))
    call = AttentionCall(q, k, v, scale, causal, mask[None, None])
    plain, window = call.with_plain_mask(may_be_causal)
    torch.testing.assert_close(plain.weights(), call.weights(), atol=CLOSE, rtol=0)
    if window is not None and q_length == k_length:
        far = (torch.arange(q_length)[:, None] - torch.arange(k_length)).abs() > window
        assert not bool(call.weights()[..., far].any())
    if scale < 1:  # larger scores outweigh −1e4
        weighed = call.weighed()
        assert weighed is not None
        assert not bool((call.weights() > 0)[~weighed.expand(call.shape)].any())


@pytest.mark.parametrize("number", [-1e4, -6000.0, -1e9, LEAST])
def test_scores_that_outweigh_a_mask(number):
    q, k, v = tensors()
    k = k * torch.linspace(1, 5e4, T)[:, None]
    mask = torch.where(LATER, number, 0.0)
    with mhaviz.record() as recording:
        output = F.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(recording.attention[0].weights, output[0].numpy() / 2, atol=CLOSE)


@pytest.mark.parametrize("number", [-1e4, -5001.0])
def test_a_column_that_scores_outweigh_is_not_left_out(number):
    q, k, v = tensors()
    q, k = q.abs(), k.abs() * torch.linspace(1, 4e3, T)[:, None]
    mask = torch.zeros(T, T)
    mask[:, -1] = number
    with mhaviz.record() as recording:
        output = F.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(recording.attention[0].weights, output[0].numpy() / 2, atol=CLOSE)


def test_queries_of_another_text_that_are_left_out_are_said():
    layer = nn.TransformerDecoderLayer(16, 2, 16, batch_first=True).eval()
    padded = torch.arange(6)[None] > 3
    with torch.no_grad(), mhaviz.record(layer) as recording:
        layer(torch.randn(1, 6, 16), torch.randn(1, 5, 16), tgt_key_padding_mask=padded)
    assert recording.attention[1].weights.shape == (2, 4, 5)
    assert any("multihead_attn, pass 0: left out queries 4 to 5: padding" in line for line in recording.notices)


def test_a_sink_takes_all_of_a_blind_query():
    q, k, v = tensors()
    mask = torch.where(BLIND, -1e9, 0.0)[None, None]
    call = AttentionCall(q, k, v, 0.25, mask=mask, sinks=torch.zeros(2))
    assert not bool(call.weights()[:, :, 5].any())
    assert call.weighing_hidden() is None
    torch.testing.assert_close(call.with_plain_mask(causal=True)[0].weights(), call.weights(), atol=CLOSE, rtol=0)


@pytest.mark.parametrize(
    ("batch_size", "mask", "most"),
    [
        (1, torch.where(LATER, -1e9, 0.0), 2),  # for what numbers may fail to hide, and for the simplest mask
        (3, torch.where(LATER, -1e9, 0.0), 4),  # of the batch, and of each example
        (1, torch.linspace(-1, 1, T * T).view(T, T), 0),  # hides nothing
        (1, LATER, 0),
    ],
)
def test_how_often_a_mask_is_looked_through(monkeypatch, batch_size, mask, most):
    looks, beside = [], AttentionCall._beside_highest
    monkeypatch.setattr(AttentionCall, "_beside_highest", lambda call: looks.append(call) or beside(call))
    q, k, v = (x.expand(batch_size, -1, -1, -1) for x in tensors())
    with mhaviz.record(examples="all") as recording:
        F.scaled_dot_product_attention(q, k, v, mask)
    assert len(recording.attention.maps) == batch_size
    assert len(looks) <= most


def test_the_largest_norms_are_computed_once(monkeypatch):
    norms, norm = [], torch.Tensor.norm
    monkeypatch.setattr(torch.Tensor, "norm", lambda x, *args, **kwargs: norms.append(x) or norm(x, *args, **kwargs))
    call = AttentionCall(*tensors(), 0.25, mask=torch.where(LATER, -1e9, 0.0)[None, None])
    names, seen = Tokens(tuple("abcdefgh")), []
    show(seen.append, SiteCall(Site("self", 0, 2, 16), call, (0, 1), (names,), (names,)), "a model", "")
    assert len(seen) == 1
    assert len(norms) == 2  # of queries and of keys
