"""Heads that share latent keys, in axes (batch, query, head, key), as of DeepSeek's MLA; and scores by a vector."""

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn

import mhaviz

pytestmark = pytest.mark.numeric

CLOSE = rounding()


class Absorbed(nn.Module):
    """Three heads of features that a matrix for each head takes to the latent, with rotary positions beside them."""

    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary
        self.wq, self.wkv = nn.Linear(18, 3 * (4 + rotary)), nn.Linear(18, 6 + rotary)
        self.up = nn.Linear(6, 12, bias=False)
        self.register_buffer("cache", torch.zeros(2, 12, 6 + rotary))

    def turned(self, x, first):
        x = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        angles = torch.arange(first, first + x.shape[1])[:, None, None].expand(-1, 1, x.shape[-1]) * 0.3
        return torch.view_as_real(x * torch.polar(torch.ones_like(angles), angles)).flatten(3)

    def forward(self, x, first=0):
        n = x.shape[1]
        q, q_turned = self.wq(x).view(2, n, 3, -1).split([4, self.rotary], -1)
        latent, k_turned = self.wkv(x).split([6, self.rotary], -1)
        k_turned = self.turned(k_turned.unsqueeze(2), first).squeeze(2)
        self.cache[:, first : first + n] = torch.cat([latent, k_turned], -1)
        latent, k_turned = self.cache[:, : first + n].split([6, self.rotary], -1)
        q = torch.einsum("bshd,hdc->bshc", q, self.up.weight.view(3, 4, 6))
        scores = torch.einsum("bshc,btc->bsht", q, latent)
        scores = scores + torch.einsum("bshr,btr->bsht", self.turned(q_turned, first), k_turned)
        self.weights = scores.softmax(-1)
        return torch.einsum("bsht,btc->bshc", self.weights, latent)


@pytest.mark.parametrize("rotary", [2, 4])
@pytest.mark.parametrize("n", [5, 1])
def test_heads_that_share_latent_keys_are_heads(rotary, n):
    """One query of three heads was drawn as three queries of one head, five tokens as channels."""
    torch.manual_seed(0)
    program, x = Absorbed(rotary), torch.randn(2, 7, 18)
    with torch.no_grad():
        program(x[:, : 7 - n])
        with mhaviz.record() as recording:
            program(x[:, 7 - n :], 7 - n)
    m = recording.attention.maps[0]
    assert (m.heads, m.weights.shape) == ((0, 1, 2), (3, n, 7))
    np.testing.assert_allclose(m.weights, program.weights[0].transpose(0, 1), atol=CLOSE)
    assert not any("channel" in text for text in (*m.queries, *recording.notices, recording.attention.source.remark))


def additive(query, key, scores):
    """Attention by a vector v of parameters: Σ v tanh(q + k), one query a step."""

    class Additive(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12), nn.Parameter(torch.randn(12))

        def forward(self, state, context):
            k = self.k(context)
            weights = scores(torch.tanh(query(self.q(state), k.shape[1]) + key(k)), self.v).softmax(-1)
            return weights[:, None] @ k

    return Additive()


SCORES = {
    "matmul": lambda x, v: x @ v,
    "einsum": lambda x, v: torch.einsum("btd,d->bt", x, v),
    "bmm": lambda x, v: torch.bmm(v.expand(len(x), 1, -1), x.mT).squeeze(1),
}
QUERIES = {"unsqueezed": lambda q, n: q[:, None], "repeated": lambda q, n: q[:, None].repeat(1, n, 1)}


@pytest.mark.parametrize("n", [5, 1])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("scores", SCORES)
def test_the_vector_of_additive_attention_is_no_query(scores, query, n):
    """The query is the state, whose name nobody knows; the vector was drawn in its place, as "fixed 0"."""
    program = additive(QUERIES[query], lambda k: k, SCORES[scores])
    with mhaviz.record() as recording:
        program(torch.randn(3, 12), torch.randn(3, n, 12))
    assert recording.is_empty
    assert "as in additive attention" in recording.notices[0]


def test_a_learned_query_of_tokens_that_have_read_others_is_one():
    """Pooling behind a residual, of one text: what is added there has tokens of its own."""

    class Pooling(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = nn.MultiheadAttention(12, 2, batch_first=True)
            self.k, self.v = nn.Linear(12, 12), nn.Parameter(torch.randn(1, 12))

        def forward(self, x):
            x = x + self.attn(x, x, x)[0]
            return (self.v @ torch.tanh(self.k(x)).mT).softmax(-1) @ x

    with mhaviz.record() as recording:
        Pooling()(torch.randn(1, 5, 12))
    assert [m.queries for m in recording.attention.maps if m.kind == "cross"] == [("fixed 0",)]
