"""The layer against torch.nn.MultiheadAttention and F.scaled_dot_product_attention, with the same weights."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mhaviz import ArgumentError, MultiHeadAttention
from mhaviz.layer.attention import causal_mask, check_heads, padding_mask, weigh

CLOSE = {torch.float32: rounding(), torch.float64: rounding(dtype=np.float64)}


def same_weights(d_model, n_heads, dtype):
    """Our layer and torch's, with the same random weights and biases."""
    ours = MultiHeadAttention(d_model, n_heads).to(dtype).eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True, dtype=dtype).eval()
    with torch.no_grad():
        for projection in (ours.Wq, ours.Wk, ours.Wv, ours.Wo):
            projection.bias.normal_()
        theirs.in_proj_weight.copy_(torch.cat([ours.Wq.weight, ours.Wk.weight, ours.Wv.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.Wq.bias, ours.Wk.bias, ours.Wv.bias]))
        theirs.out_proj.load_state_dict(ours.Wo.state_dict())
    return ours, theirs


def compare(ours, theirs, query, key, mask, gradient):
    dtype = query.dtype
    hidden = None
    if mask is not None:
        n_heads, shape = ours.n_heads, (query.shape[0], ours.n_heads, query.shape[1], key.shape[1])
        hidden = (mask == 0).expand(shape).reshape(query.shape[0] * n_heads, *shape[2:])
    expected = theirs(query, key, key, attn_mask=hidden, need_weights=True, average_attn_weights=False)
    with torch.set_grad_enabled(gradient):
        got = ours(query, key, key, mask)
    for ours_is, theirs_is in zip(got, expected, strict=True):
        torch.testing.assert_close(ours_is, theirs_is, rtol=0, atol=CLOSE[dtype])


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "inference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["self", "cross", "causal", "padded", "padded and causal"])
def test_equals_torch(kind, dtype, gradient):
    torch.manual_seed(0)
    ours, theirs = same_weights(32, 4, dtype)
    query = torch.randn(3, 7, 32, dtype=dtype)
    key = torch.randn(3, 9, 32, dtype=dtype) if kind == "cross" else query
    mask = None
    if "padded" in kind:
        mask = padding_mask([7, 3, 1])
    if "causal" in kind:
        mask = causal_mask(7) if mask is None else mask & causal_mask(7)
    compare(ours, theirs, query, key, mask, gradient)


@given(
    batch=st.integers(1, 3),
    q_length=st.integers(1, 9),
    k_length=st.integers(1, 9),
    n_heads=st.integers(1, 5),
    d_key=st.integers(1, 6),
    seed=st.integers(0, 10**6),
)
def test_equals_torch_for_any_shape_and_mask(batch, q_length, k_length, n_heads, d_key, seed):
    torch.manual_seed(seed)
    ours, theirs = same_weights(n_heads * d_key, n_heads, torch.float64)
    query, key = (torch.randn(batch, n, n_heads * d_key, dtype=torch.float64) for n in (q_length, k_length))
    mask = torch.rand(batch, n_heads, q_length, k_length) < 0.7
    mask[..., 0] |= ~mask.any(dim=-1)  # torch gives NaN where all is hidden
    compare(ours, theirs, query, key, mask, gradient=False)


@given(
    seed=st.integers(0, 10**6), per_head=st.booleans(), dtype=st.sampled_from([torch.bool, torch.int64, torch.float32])
)
def test_output_equals_sdpa(seed, per_head, dtype):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(24, 3).double().eval()
    x = torch.randn(2, 6, 24, dtype=torch.float64)
    mask = torch.rand(2, 3 if per_head else 1, 6, 6) < 0.6
    mask[..., 1] |= ~mask.any(dim=-1)
    Q, K, V = (W(x).view(2, 6, 3, 8).transpose(1, 2) for W in (layer.Wq, layer.Wk, layer.Wv))
    mixed = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
    expected = layer.Wo(mixed.transpose(1, 2).reshape(2, 6, 24))
    output, weights = layer(x, x, x, mask.to(dtype))
    torch.testing.assert_close(output, expected, rtol=0, atol=CLOSE[torch.float64])
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 6, dtype=torch.float64))


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "inference"])
def test_a_query_that_sees_nothing_gets_zeros_and_the_bias(gradient):
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).eval()
    nn.init.normal_(layer.Wo.bias)
    x = torch.randn(2, 4, 8)
    mask = torch.ones(2, 1, 4, 4)
    mask[0, :, 2] = 0
    mask[1] = 0
    with torch.set_grad_enabled(gradient):
        output, weights = layer(x, x, x, mask)
    assert (weights[0, :, 2] == 0).all()
    assert (weights[1] == 0).all()
    torch.testing.assert_close(output[1], layer.Wo.bias.expand(4, 8))
    torch.testing.assert_close(weights[0, :, 0].sum(dim=-1), torch.ones(2))


def test_gradients_are_finite_where_nothing_is_seen():
    layer = MultiHeadAttention(8, 2)
    x = torch.randn(2, 4, 8, requires_grad=True)
    mask = torch.ones(2, 1, 4, 4)
    mask[1] = 0
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        output, _ = layer(x, x, x, mask)
        output.sum().backward()
    assert x.grad.isfinite().all()
    assert layer.Wq.weight.grad.isfinite().all()


@pytest.mark.parametrize("with_mask", [False, True])
def test_inference_leaves_the_inputs_alone_and_agrees_with_training_mode(with_mask):
    layer = MultiHeadAttention(8, 2, dropout=0.0)
    x = torch.randn(1, 5, 8)
    before = x.clone()
    mask = causal_mask(5) if with_mask else None
    kept = None if mask is None else mask.clone()
    with torch.no_grad():
        output, weights = layer(x, x, x, mask)
    expected, expected_weights = layer(x, x, x, mask)
    assert torch.equal(x, before)
    assert mask is None or torch.equal(mask, kept)
    torch.testing.assert_close(output, expected.detach())
    torch.testing.assert_close(weights, expected_weights.detach())


def test_weights_are_those_before_dropout():
    layer = MultiHeadAttention(8, 2, dropout=0.9).train()
    x = torch.randn(1, 6, 8)
    _, weights = layer(x, x, x)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 2, 6))


@pytest.mark.parametrize("with_mask", [False, True])
def test_compiles_without_a_graph_break(with_mask):
    layer = MultiHeadAttention(16, 4).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 5, 16)
    mask = causal_mask(5) if with_mask else None
    with torch.no_grad():
        for got, expected in zip(compiled(x, x, x, mask), layer(x, x, x, mask), strict=True):
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "inference"])
def test_vmap(gradient):
    layer = MultiHeadAttention(8, 2).eval()
    x = torch.randn(3, 2, 4, 8)
    mask = torch.ones(3, 1, 1, 4, 4).tril()
    with torch.set_grad_enabled(gradient):
        got = torch.func.vmap(lambda x, mask: layer(x, x, x, mask))(x, mask)
        expected = [layer(x[i], x[i], x[i], mask[i]) for i in range(3)]
    for i in range(3):
        torch.testing.assert_close(got[0][i], expected[i][0])
        torch.testing.assert_close(got[1][i], expected[i][1])


def test_inference_reuses_the_memory_of_the_scores():
    layer, x = MultiHeadAttention(8, 2).eval(), torch.randn(1, 5, 8)
    scores = torch.randn(1, 2, 5, 5)
    assert weigh(scores, overwrite=True).data_ptr() == scores.data_ptr()
    assert weigh(scores).data_ptr() != scores.data_ptr()
    with torch.no_grad(), torch.profiler.profile(profile_memory=True) as profile:
        layer(x, x, x)
    softmax = [e for e in profile.key_averages() if e.key == "aten::softmax" or e.key == "aten::_softmax"]
    assert sum(e.self_cpu_memory_usage for e in softmax) == 0


def test_dropout_reaches_the_output_in_training():
    layer, x = MultiHeadAttention(8, 2, dropout=0.9).train(), torch.randn(1, 6, 8)
    assert not torch.allclose(layer(x, x, x)[0], layer(x, x, x)[0])


def test_projections_keep_the_variance():
    torch.manual_seed(0)
    layer = MultiHeadAttention(512, 8)
    assert layer.Wq(torch.randn(500, 512)).var().item() == pytest.approx(1, abs=0.1)
    assert not layer.Wo.bias.any()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 4, 7), (1, 4, 8), (1, 4, 8)), "query: expected axis d_model to be 8, got 7"),
        (((1, 4, 8), (2, 4, 8), (2, 4, 8)), "key: expected axis batch_size to be 1, got 2"),
        (((1, 4, 8), (1, 4, 8), (1, 5, 8)), "value: expected axis k_length to be 4"),
        (((4, 8), (1, 4, 8), (1, 4, 8)), "query: expected 3 axes"),
    ],
)
def test_an_axis_that_does_not_fit_is_named(shapes, message):
    with pytest.raises(ArgumentError, match=message):
        MultiHeadAttention(8, 2)(*(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 1, 4, 3), "mask: expected axis k_length to be 4 or 1, got 3"),
        ((1, 3, 4, 4), "mask: expected axis n_heads to be 2 or 1, got 3"),
        ((1, 1, 1, 4, 4), "mask: expected at most 4 axes"),
    ],
)
def test_a_mask_that_does_not_fit_is_named(shape, message):
    x = torch.zeros(1, 4, 8)
    with pytest.raises(ArgumentError, match=message):
        MultiHeadAttention(8, 2)(x, x, x, torch.ones(shape))


@pytest.mark.parametrize("value", [-torch.inf, float("nan"), -1e4])
def test_a_mask_that_is_added_elsewhere_is_refused_and_not_inverted(value):
    x = torch.zeros(1, 2, 8)
    with pytest.raises(ArgumentError, match=r"mask: expected 0 \(hide\) and 1 \(show\), got negative or NaN"):
        MultiHeadAttention(8, 2)(x, x, x, torch.tensor([[0.0, value], [0.0, 0.0]]))


@pytest.mark.parametrize("size", [4.0, "4", None])
def test_sizes_that_are_no_numbers(size):
    with pytest.raises(ArgumentError, match="`n_heads`: expected a whole number, got"):
        MultiHeadAttention(8, size)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_sizes_that_do_not_divide_come_with_sizes_that_do(d_model, n_heads):
    if d_model % n_heads == 0:
        check_heads(d_model, n_heads)
        return
    with pytest.raises(ArgumentError) as raised:
        check_heads(d_model, n_heads)
    advice = str(raised.value).split("try ")[1]
    for number in (int(word) for word in advice.split() if word.isdecimal()):
        assert d_model % number == 0


@pytest.mark.parametrize(("d_model", "n_heads"), [(0, 1), (-8, 2), (8, 0), (8, -1)])
def test_sizes_below_one(d_model, n_heads):
    with pytest.raises(ArgumentError, match="expected at least 1"):
        MultiHeadAttention(d_model, n_heads)
