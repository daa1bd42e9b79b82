"""Heads that are zeroed while a program runs, in whatever axes it holds them."""

import pytest
import torch
from rounding import rounding
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.mode import Observer

CLOSE = rounding()

Q, K, V = torch.randn(3, 2, 3, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()  # batch heads length features


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def matmul(q, k, v):
    return torch.softmax(q @ k.mT / 2, dim=-1) @ v


def batched_matrices(q, k, v):
    q, k, v = (x.reshape(6, 5, 4) for x in (q, k, v))
    return torch.bmm(F.softmax(torch.bmm(q, k.mT) / 2, dim=-1), v).view(2, 3, 5, 4)


def heads_third(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # batch length heads features
    A = torch.einsum("bqhd,bkhd->bhqk", q, k).mul(0.5).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", A, v).transpose(1, 2)


def with_dropout_and_cast(q, k, v):
    A = F.dropout(torch.softmax(q @ k.mT / 2, dim=-1), 0.0).to(v.dtype)
    return torch.matmul(A, v)


def values_in_halves(q, k, v):
    A = torch.softmax(q @ k.mT / 2, dim=-1)
    return torch.cat([A @ v[..., :2], A @ v[..., 2:]], dim=-1)


def elements_and_a_sum(q, k, v):
    A = torch.softmax(q @ k.mT / 2, dim=-1)
    return (A.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2, keepdim=True).squeeze(-2)


class Attending(torch.nn.Module):
    n_heads = num_heads = 3

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, q, k, v):
        return self.function(q, k, v)


@pytest.mark.parametrize(
    "function",
    [sdpa, matmul, batched_matrices, heads_third, with_dropout_and_cast, values_in_halves, elements_and_a_sum],
)
def test_one_head_is_zero_and_others_are_what_they_were(function):
    expected = sdpa(Q, K, V)
    expected[:, 1] = 0
    model = Attending(function)
    watch = Observer(lambda observed: observed.zero([1]), model)
    with torch.no_grad(), watch.watching():
        found = model(Q, K, V)
    assert not watch.missed
    assert torch.allclose(found, expected, atol=CLOSE)
    assert not found[:, 1].any()


def test_what_pytorch_has_projected_cannot_be_zeroed():
    model, zeros = torch.nn.MultiheadAttention(12, 3, batch_first=True).eval(), []
    x = torch.randn(2, 5, 12)
    with torch.no_grad(), Observer(lambda observed: zeros.append(observed.zero), model).watching():
        model(x, x, x)
    assert zeros == [None]
