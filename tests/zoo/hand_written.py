"""Attention as people write it by hand: every style returns its output and the weights that it has computed.

x: (2, 10, 24), a batch of two; 3 heads of 8. The weights are (batch_size, n_heads, q_length, k_length).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, einsum, nn
from torch.nn import functional as F  # noqa: N812

from zoo.program import Entry, Program, spread

BATCH, LENGTH, WIDTH, HEADS, SIZE = 2, 10, 24, 3, 8
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


@dataclass
class Made:
    """What a style is given: queries, keys and values, (batch_size, n_heads, length, 8), of a layer's projections."""

    layer: "Layer"
    q: Tensor
    k: Tensor
    v: Tensor
    x: Tensor


class Layer(nn.Module):
    """Projections, a style of attention, and the projection of its output. It keeps the weights, for the oracle."""

    def __init__(self, style: Callable[[Made], tuple[Tensor, Tensor]]):
        super().__init__()
        self.style = style
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.table = nn.Embedding(2 * LENGTH - 1, HEADS)
        self.sink = nn.Parameter(torch.zeros(HEADS))
        self.dropout = nn.Dropout(0.1)
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(len(x), -1, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        output, weights = self.style(Made(self, q, k, v, x))
        several = weights if isinstance(weights, list) else [weights]  # a loop makes those of each head by themselves
        self.kept += [A.detach().clone() for A in several]
        if output.shape != x.shape:
            output = output.transpose(1, 2).reshape(x.shape)
        result: Tensor = self.out(output)
        return result


STYLES: dict[str, Callable[[Made], tuple[Tensor, Tensor]]] = {}


def style(name):
    def keep(function):
        STYLES[name] = function
        return function

    return keep


@style("`@`, softmax, `@`")
def plain(m):
    A = (m.q @ m.k.transpose(-2, -1) / math.sqrt(SIZE)).softmax(dim=-1)
    return A @ m.v, A


@style("queries scaled first (timm)")
def scaled_first(m):
    A = F.softmax(m.q * SIZE**-0.5 @ m.k.mT, dim=-1)
    return A @ m.v, A


@style("torch.matmul, masked_fill(−∞), nn.Dropout (nanoGPT, manual)")
def filled(m):
    S = torch.matmul(m.q, m.k.transpose(-2, -1)) * (1.0 / math.sqrt(SIZE))
    S = S.masked_fill(LATER, float("-inf"))
    A = m.layer.dropout(F.softmax(S, dim=-1))
    return torch.matmul(A, m.v), A


@style("scores += mask, in place")
def added(m):
    S = m.q @ m.k.mT
    S /= math.sqrt(SIZE)
    S += torch.zeros(LENGTH, LENGTH).masked_fill(LATER, -torch.inf)
    A = torch.softmax(S, -1)
    return A @ m.v, A


@style("torch.where for the mask")
def where(m):
    S = m.q @ m.k.mT / math.sqrt(SIZE)
    A = torch.where(LATER, torch.full_like(S, torch.finfo(S.dtype).min), S).softmax(-1)
    return A @ m.v, A


@style("scores[mask] = −∞, by indexing")
def indexed(m):
    S = m.q @ m.k.mT / math.sqrt(SIZE)
    S[:, :, LATER] = -torch.inf
    A = S.softmax(-1)
    return A @ m.v, A


@style("masked_fill_, softmax in float32, back to the type")
def in_float32(m):
    S = (m.q @ m.k.mT / math.sqrt(SIZE)).masked_fill_(LATER, -1e9)
    A = F.softmax(S, dim=-1, dtype=torch.float32).type_as(m.q)
    return A @ m.v, A


@style("einsum bhid,bhjd->bhij (lucidrains)")
def einsum_heads(m):
    A = (einsum("b h i d, b h j d -> b h i j", m.q, m.k) * SIZE**-0.5).softmax(dim=-1)
    return einsum("b h i j, b h j d -> b h i d", A, m.v), A


@style("einsum nqhd,nkhd->nhqk (Aladdin Persson)")
def einsum_lengths(m):
    q, k, v = (x.transpose(1, 2) for x in (m.q, m.k, m.v))
    A = torch.softmax(torch.einsum("nqhd,nkhd->nhqk", [q, k]) / WIDTH**0.5, dim=3)
    return torch.einsum("nhql,nlhd->nqhd", [A, v]).reshape(m.x.shape), A


@style("einsum ibnd,jbnd->ijbn, softmax along the keys in the middle (Transformer-XL)")
def einsum_keys_inside(m):
    q, k, v = (x.permute(2, 0, 1, 3) for x in (m.q, m.k, m.v))
    A = torch.softmax(torch.einsum("ibnd,jbnd->ijbn", q, k) / SIZE**0.5, dim=1)
    output = torch.einsum("ijbn,jbnd->ibnd", A, v)
    return output.permute(1, 0, 2, 3).reshape(m.x.shape), A.permute(2, 3, 0, 1)


@style("bmm, heads in the batch axis (fairseq)")
def bmm(m):
    q, k, v = (x.reshape(BATCH * HEADS, LENGTH, SIZE) for x in (m.q, m.k, m.v))
    A = F.softmax(torch.bmm(q / SIZE**0.5, k.transpose(1, 2)), dim=-1)
    A = F.dropout(A, p=0.1, training=m.layer.training)
    return torch.bmm(A, v).view(BATCH, HEADS, LENGTH, SIZE), A.view(BATCH, HEADS, LENGTH, LENGTH)


@style("baddbmm with ALiBi (BLOOM)")
def baddbmm(m):
    q, k, v = (x.reshape(BATCH * HEADS, LENGTH, SIZE) for x in (m.q, m.k, m.v))
    slopes = torch.tensor([0.5, 0.25, 0.125]).repeat(BATCH)[:, None, None]
    alibi = slopes * torch.arange(LENGTH)
    S = torch.baddbmm(alibi, q, k.mT, beta=1.0, alpha=SIZE**-0.5).view(BATCH, HEADS, LENGTH, LENGTH)
    A = F.softmax(S.masked_fill(LATER, torch.finfo(S.dtype).min), dim=-1)
    return torch.bmm(A.view(BATCH * HEADS, LENGTH, LENGTH), v).view(BATCH, HEADS, LENGTH, SIZE), A


@style("mm, one head, one sentence, two axes")
def two_axes(m):
    q, k, v = (x[0].transpose(0, 1).reshape(LENGTH, WIDTH) for x in (m.q, m.k, m.v))
    A = torch.softmax(q.mm(k.t()) / WIDTH**0.5, dim=1)
    output = A.mm(v)
    return output.expand(BATCH, -1, -1), A[None, None]


@style("one head, three axes")
def three_axes(m):
    q, k, v = (x.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) for x in (m.q, m.k, m.v))
    A = F.softmax(q @ k.mT / WIDTH**0.5, dim=-1)
    return A @ v, A[:, None]


@style("softmax as exp / sum")
def exponentials(m):
    S = m.q @ m.k.mT / math.sqrt(SIZE)
    powers = torch.exp(S - S.max(dim=-1, keepdim=True).values)
    A = powers / powers.sum(dim=-1, keepdim=True)
    return A @ m.v, A


@style("log_softmax, then exp")
def logarithms(m):
    A = F.log_softmax(m.q @ m.k.mT / math.sqrt(SIZE), dim=-1).exp()
    return A @ m.v, A


@style("softmax of a flat view, reshaped afterwards")
def reshaped(m):
    S = (m.q @ m.k.mT / math.sqrt(SIZE)).view(-1, LENGTH)
    A = F.softmax(S, dim=-1).view(BATCH, HEADS, LENGTH, LENGTH)
    return A @ m.v, A


@style("nn.Softmax, nn.Dropout(inplace=True)")
def modules(m):
    A = nn.Softmax(dim=-1)(m.q @ m.k.mT / math.sqrt(SIZE))
    kept = nn.Dropout(0.1, inplace=True).eval()(A)
    return kept @ m.v, A


@style("scores capped by tanh (Gemma 2)")
def capped(m):
    S = 5 * torch.tanh(m.q @ m.k.mT / math.sqrt(SIZE) / 5)
    A = S.masked_fill(LATER, -torch.inf).softmax(-1)
    return A @ m.v, A


@style("a sink column, cut off again (gpt-oss)")
def with_sink(m):
    S = m.q @ m.k.mT / math.sqrt(SIZE)
    sink = m.layer.sink.view(1, -1, 1, 1).expand(BATCH, -1, LENGTH, 1)
    A = torch.cat([S, sink], dim=-1).softmax(dim=-1)[..., :-1]
    return A @ m.v, A


@style("softmax with one more in the denominator (off by one)")
def off_by_one(m):
    S = m.q @ m.k.mT / math.sqrt(SIZE)
    powers = S.exp()
    A = powers / (1 + powers.sum(-1, keepdim=True))
    return A @ m.v, A


@style("relative position bias from a table (T5, Swin)")
def relative(m):
    places = torch.arange(LENGTH)
    bias = m.layer.table(places[None] - places[:, None] + LENGTH - 1).permute(2, 0, 1)
    A = (m.q @ m.k.mT + bias.unsqueeze(0)).softmax(-1)
    return A @ m.v, A


@style("queries over relative positions (Shaw)")
def shaw(m):
    places = torch.arange(LENGTH)
    positions = m.layer.table(places[None] - places[:, None] + LENGTH - 1)[..., :1].expand(-1, -1, SIZE)
    S = torch.einsum("bhid,bhjd->bhij", m.q, m.k) + torch.einsum("bhid,ijd->bhij", m.q, positions)
    A = (S / math.sqrt(SIZE)).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", A, m.v) + torch.einsum("bhij,ijd->bhid", A, positions), A


@style("one key for all heads (multi-query)")
def multi_query(m):
    k, v = m.k[:, :1], m.v[:, :1]
    A = (m.q @ k.mT / math.sqrt(SIZE)).softmax(-1)
    return A @ v, A


@style("talking heads: a linear layer over the heads after the softmax (CaiT)")
def talking(m):
    mix = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]])
    A = (m.q @ m.k.mT / math.sqrt(SIZE)).softmax(-1)
    mixed = (A.permute(0, 2, 3, 1) @ mix).permute(0, 3, 1, 2)
    return mixed @ m.v, mixed


@style("cosine similarity and a temperature (Swin v2)")
def cosine(m):
    A = (F.normalize(m.q, dim=-1) @ F.normalize(m.k, dim=-1).mT * 10).softmax(dim=-1)
    return A @ m.v, A


@style("keys before queries, softmax along dim=-2")
def keys_first(m):
    A = (m.k @ m.q.mT / math.sqrt(SIZE)).softmax(dim=-2)
    return A.mT @ m.v, A.mT


@style("product by broadcasting and a sum")
def broadcast(m):
    A = ((m.q[:, :, :, None] * m.k[:, :, None]).sum(-1) / math.sqrt(SIZE)).softmax(-1)
    return (A[..., None] * m.v[:, :, None]).sum(3), A


@style("additive scores: tanh(q + k) · v (Bahdanau)")
def additive(m):
    S = torch.tanh(m.q[:, :, :, None] + m.k[:, :, None]).sum(-1)
    A = S.softmax(-1)
    return A @ m.v, A


@style("heads before the batch, and a module that says how many")
def heads_first(m):
    q, k, v = (x.transpose(0, 1) for x in (m.q, m.k, m.v))
    A = (q @ k.mT / math.sqrt(SIZE)).softmax(-1)
    return (A @ v).transpose(0, 1), A.transpose(0, 1)


@style("a loop over heads")
def loop(m):
    A = [(m.q[:, i] @ m.k[:, i].mT / math.sqrt(SIZE)).softmax(-1) for i in range(HEADS)]
    return torch.stack([A[i] @ m.v[:, i] for i in range(HEADS)], 1), torch.stack(A, 1)


@style("windows in the batch axis (Swin)")
def windows(m):
    q, k, v = (x.reshape(BATCH, HEADS, 2, 5, SIZE).transpose(1, 2).flatten(0, 1) for x in (m.q, m.k, m.v))
    A = (q @ k.mT / math.sqrt(SIZE)).softmax(-1)
    output = (A @ v).view(BATCH, 2, HEADS, 5, SIZE).transpose(1, 2).reshape(m.q.shape)
    return output, A


@style("windows on an axis of their own (Hiera)")
def five_axes(m):
    q, k, v = (x.reshape(BATCH, HEADS, 2, 5, SIZE) for x in (m.q, m.k, m.v))
    A = (q @ k.mT / math.sqrt(SIZE)).softmax(-1)
    return (A @ v).reshape(m.q.shape), A.transpose(1, 2).flatten(0, 1)


@style("channels as a sequence (XCiT)")
def channels(m):
    q, k = F.normalize(m.q, dim=-2), F.normalize(m.k, dim=-2)
    A = (q.mT @ k * 3).softmax(-1)
    return (A @ m.v.mT).mT, A


@style("F.scaled_dot_product_attention, is_causal (nanoGPT, flash)")
def fused(m):
    S = (m.q @ m.k.mT / math.sqrt(SIZE)).masked_fill(LATER, -torch.inf)
    return F.scaled_dot_product_attention(m.q, m.k, m.v, is_causal=True), S.softmax(-1)


@style("F.scaled_dot_product_attention, bool mask and scale")
def fused_masked(m):
    S = (m.q @ m.k.mT * 0.3).masked_fill(LATER, -torch.inf)
    return F.scaled_dot_product_attention(m.q, m.k, m.v, attn_mask=~LATER, scale=0.3), S.softmax(-1)


@style("F.scaled_dot_product_attention, grouped heads")
def fused_grouped(m):
    A = (m.q @ m.k[:, :1].mT / math.sqrt(SIZE)).softmax(-1)
    return F.scaled_dot_product_attention(m.q, m.k[:, :1], m.v[:, :1], enable_gqa=True), A


def program(chosen: Callable[[Made], tuple[Tensor, Tensor]]) -> Program:
    torch.manual_seed(0)
    layer = spread(Layer(chosen), 2.0)
    if chosen is heads_first:
        layer.num_heads = HEADS
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))

    def run() -> Tensor:
        with torch.no_grad():
            output: Tensor = layer(x)
        return output

    def own() -> Any:
        layer.kept.clear()
        run()
        return [(f"weights {i}", A) for i, A in enumerate(layer.kept)]

    return Program(layer, run, own, "the weights that it has computed")


MISSED = {
    additive: "its scores are no product of queries and keys",
}

HAND_WRITTEN = [
    Entry(name, "by hand", partial(program, function), missed=int(function in MISSED), why=MISSED.get(function, ""))
    for name, function in STYLES.items()
]
