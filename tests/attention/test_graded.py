"""Attention × gradient from queries, keys, values and one gradient, beside autograd through the weights themselves."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mhaviz.attention import graded as module
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.graded import GradedAttention
from mhaviz.errors import MhavizError


def weights(call):
    """A of the definition, differentiable, with keys and values repeated for each head of a group."""
    n_q, n_k = call.query.shape[2], call.key.shape[2]
    key = call.key.repeat_interleave(call.group, dim=1)
    S = call.scale * call.query @ key.mT
    if call.softcap is not None:
        S = call.softcap * torch.tanh(S / call.softcap)
    if call.mask is not None:
        S = S.masked_fill(~call.mask, -torch.inf) if call.mask.dtype == torch.bool else S + call.mask
    if call.causal:
        S = S.masked_fill(~torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q), -torch.inf)
    if call.sinks is None:
        return S.softmax(dim=-1)
    sink = call.sinks.view(1, -1, 1, 1).expand(*S.shape[:3], 1)
    return torch.cat([S, sink], dim=-1).softmax(dim=-1)[..., :-1]


@st.composite
def calls(draw):
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n_kv, group, n_q = (draw(st.integers(1, 3)) for _ in range(3))
    n_k = n_q + draw(st.integers(0, 3))

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64)

    call = AttentionCall(normal(1, n_kv * group, n_q, 4), normal(1, n_kv, n_k, 4), normal(1, n_kv, n_k, 3), 0.7)
    mask = torch.rand(1, 1, n_q, n_k, generator=random) < 0.7
    mask[..., 0] = True  # so that each query sees a key
    masks = {"none": None, "bool": mask, "bias": normal(1, n_kv * group, n_q, n_k), "one row": mask[:, :, :1]}
    return replace(
        call,
        causal=draw(st.booleans()),
        mask=masks[draw(st.sampled_from(sorted(masks)))],
        softcap=draw(st.sampled_from([None, 1.5])),
        sinks=draw(st.sampled_from([None, normal(n_kv * group)])),
    )


def products(of):
    made = torch.zeros(of.call.shape[1:], dtype=torch.float64)
    for rows, block in of.blocks():
        made[:, rows, : block.shape[2]] = block
    return made


def by_autograd(call, g):
    A = weights(call).detach().requires_grad_()
    out = A @ call.value.repeat_interleave(call.group, dim=1)
    (out * g).sum().backward()
    return (A * A.grad)[0].detach(), out.detach()


@pytest.mark.numeric
@settings(max_examples=60, deadline=None)
@given(calls(), st.integers(0, 2**31), st.integers(1, 40))
def test_products_are_those_of_autograd(call, seed, cells):
    g = torch.randn(1, *call.shape[1:3], 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected, out = by_autograd(call, g)
    before, module._CELLS = module._CELLS, cells
    try:
        of = GradedAttention("layer 0", call, call.value, g, out)
        torch.testing.assert_close(products(of), expected, rtol=1e-10, atol=1e-12)
        given_weights = AttentionWeights(weights(call))
        value = call.value.repeat_interleave(call.group, dim=1)
        torch.testing.assert_close(products(replace(of, call=given_weights, value=value)), expected)
        bar = expected.clamp(min=0).mean(dim=0)
        r = torch.rand(2, call.shape[2], dtype=torch.float64)
        torch.testing.assert_close(of.row_times(r), r @ bar)
        c = torch.rand(call.shape[3], 2, dtype=torch.float64)
        torch.testing.assert_close(of.times_columns(c), bar @ c)
    finally:
        module._CELLS = before


def seen(seed=0):
    random = torch.Generator().manual_seed(seed)
    query, key, value, g = torch.randn(4, 1, 2, 5, 4, generator=random)
    call = AttentionCall(query, key, value, 0.5)
    return GradedAttention("layer 3", call, value, g, call.output())


def test_weights_that_do_not_give_the_output_are_refused():
    of = seen()
    dropped = replace(of, output=of.output * 1.3)
    with pytest.raises(MhavizError, match=r"^layer 3: its weights do not give its output"):
        dropped.row_times(torch.ones(1, 5))
    of.row_times(torch.ones(1, 5))


def test_an_output_that_is_not_known_any_more_is_not_compared():
    replace(seen(), output=None).row_times(torch.ones(1, 5))


def test_gradients_of_nan_are_refused():
    of = seen()
    of.gradient[0, 0, 2] = torch.nan
    with pytest.raises(MhavizError, match="finite gradients"):
        of.row_times(torch.ones(1, 5))


def test_queries_without_a_gradient_are_not_computed():
    of = seen()
    of.gradient[:, :, [0, 1, 3, 4]] = 0
    assert [rows for rows, _ in of.blocks(of.read)] == [slice(2, 3)]
