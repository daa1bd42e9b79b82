"""Layers by hand: the ways to split and group heads, and what comes around them."""

import math

import torch
from checks.right_base import Heads, right, visible, weigh
from torch import nn
from torch.nn import functional as F  # noqa: N812

# Heads and their groups


@right("groups-repeated")
class GroupsRepeated(Heads):
    def __init__(self):
        super().__init__(n_key_heads=2)

    def mix(self, q, k, v, seen):
        return super().mix(q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1), seen)


@right("groups-expanded", d_model=48)
class GroupsExpanded(Heads):
    def __init__(self):
        super().__init__(48, n_heads=6, n_key_heads=2)

    def mix(self, q, k, v, seen):
        k, v = (t[:, :, None].expand(-1, -1, 3, -1, -1).reshape(q.shape) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


@right("groups-of-sdpa")
class GroupsOfSdpa(GroupsRepeated):
    def mix(self, q, k, v, seen):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


@right("groups-five-axes")
class GroupsFiveAxes(GroupsRepeated):
    def mix(self, q, k, v, seen):
        scores = torch.einsum("bgrqd,bgkd->bgrqk", q.unflatten(1, (2, 2)), k) / math.sqrt(self.d_key)
        weights = weigh(scores, seen if seen.ndim == 2 else seen[:, None])
        return torch.einsum("bgrqk,bgkd->bgrqd", weights, v).flatten(1, 2)


@right("groups-tiled")  # a notice
class GroupsTiled(GroupsRepeated):
    def mix(self, q, k, v, seen):
        return Heads.mix(self, q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), seen)


@right("multi-query")
class MultiQuery(Heads):
    def __init__(self):
        super().__init__(n_key_heads=1)


@right("multi-query-rows", d_model=40)
class MultiQueryRows(nn.Module):
    """The heads of all queries are rows of one product."""

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(40, 40, bias=False), nn.Linear(40, 20), nn.Linear(40, 40)

    def forward(self, x):
        batch_size, length, _ = x.shape
        q = self.q(x).reshape(batch_size, length * 4, 10)
        k, v = self.kv(x).split(10, dim=-1)
        return self.out((torch.bmm(q, k.mT).mul(10**-0.5).softmax(-1) @ v).reshape(batch_size, length, 40))


class Head(nn.Module):
    def __init__(self, d_model, d_key):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(d_model, d_key, bias=False) for _ in range(3))

    def forward(self, x, seen):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return weigh(q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5, seen) @ v


@right("list-of-heads")
class ListOfHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.proj = nn.ModuleList(Head(32, 8) for _ in range(4)), nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        seen = visible(x, keep, causal)
        seen = seen if seen.ndim == 2 else seen[:, 0]
        return self.proj(torch.cat([head(x, seen) for head in self.heads], dim=-1))


@right("loop-over-heads")
class LoopOverHeads(Heads):
    def mix(self, q, k, v, seen):
        seen = seen if seen.ndim == 2 else seen[:, 0]
        heads = (weigh(q[:, h] @ k[:, h].mT / self.d_key**0.5, seen) @ v[:, h] for h in range(self.n_heads))
        return torch.stack(list(heads), dim=1)


@right("einsum-bhqk")
class EinsumHeadsFirst(nn.Module):
    """Weights that are tensors of three axes, as in TensorFlow and JAX."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(32, 4, 8) * 32**-0.5) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(4, 8, 32) * 32**-0.5)

    def forward(self, x, keep=None, causal=False):
        q, k, v = (torch.einsum("btm,mhd->bthd", x, w) for w in (self.wq, self.wk, self.wv))
        weights = weigh(torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(8), visible(x, keep, causal))
        return torch.einsum("bhqk,bkhd,hdm->bqm", weights, v, self.wo)


@right("einsum-bqhk")
class EinsumQueriesFirst(Heads):
    def mix(self, q, k, v, seen):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.einsum("bqhd,bkhd->bqhk", q, k) * self.d_key**-0.5
        weights = weigh(scores, seen[:, None] if seen.ndim == 2 else seen.transpose(1, 2))
        return torch.einsum("bqhk,bkhd->bhqd", weights, v)


@right("features-before-heads")
class FeaturesBeforeHeads(Heads):
    """Heads are every fourth feature, in and out."""

    def forward(self, x, keep=None, causal=False):
        q, k, v = (
            W(x).unflatten(-1, (self.d_key, self.n_heads)).permute(0, 3, 1, 2) for W in (self.Wq, self.Wk, self.Wv)
        )
        return self.Wo(self.mix(q, k, v, visible(x, keep, causal)).permute(0, 2, 3, 1).flatten(2))


@right("folded-into-batch")
class FoldedIntoBatch(nn.Module):
    """Batch and heads as one axis, for bmm, as fairseq has them."""

    def __init__(self):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x, key_padding_mask=None):
        batch_size, length, _ = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch_size, length, 4, 8).transpose(1, 2).reshape(-1, length, 8) for t in (q * 8**-0.5, k, v))
        scores = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask.repeat_interleave(4, dim=0)[:, None], -1e9)
        mixed = torch.bmm(scores.softmax(dim=-1), v).view(batch_size, 4, length, 8)
        return self.out_proj(mixed.transpose(1, 2).reshape(batch_size, length, 32))


@right("qkv-by-head")
class QkvByHead(nn.Module):
    """Each head's query, key and value are neighbours, as in Megatron."""

    def __init__(self):
        super().__init__()
        self.query_key_value, self.dense = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        q, k, v = self.query_key_value(x).view(*x.shape[:2], 4, 24).transpose(1, 2).chunk(3, dim=-1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(x, keep, causal))
        return self.dense(mixed.transpose(1, 2).flatten(2))


@right("values-wider")
class ValuesWider(nn.Module):
    """Values of 12 features where keys have 4, and weights given too."""

    def __init__(self):
        super().__init__()
        self.to_qk, self.to_v, self.to_out = nn.Linear(32, 32), nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x, keep=None, causal=False):
        q, k = self.to_qk(x).unflatten(-1, (2, 4, 4)).permute(2, 0, 3, 1, 4)
        v = self.to_v(x).unflatten(-1, (4, 12)).transpose(1, 2)
        weights = weigh(q @ k.mT / 4**0.5, visible(x, keep, causal))
        return self.to_out((weights @ v).transpose(1, 2).flatten(2)), weights


@right("no-projections")
class NoProjections(nn.Module):
    def forward(self, x):
        return (x @ x.mT / math.sqrt(x.shape[-1])).softmax(dim=-1) @ x


# What comes around it


@right("gated-output")
class GatedOutput(Heads):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(x, keep, causal))
        return self.Wo(mixed.transpose(1, 2).flatten(2) * self.gate(x).sigmoid())


@right("gated-values")
class GatedValues(Heads):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        q, k, v = (self.split(t) for t in (self.Wq(x), self.Wk(x), self.Wv(x) * self.gate(x).sigmoid()))
        return self.Wo(self.mix(q, k, v, visible(x, keep, causal)).transpose(1, 2).flatten(2))


@right("gated-heads")
class GatedHeads(Heads):
    """A learned factor of each head."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(self.n_heads, 1, 1) + 0.5)

    def mix(self, q, k, v, seen):
        return super().mix(q, k, v, seen) * self.factor


@right("residual-and-norm")
class ResidualAndNorm(Heads):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(32), nn.Dropout(0.1)

    def forward(self, x, keep=None, causal=False):
        return x + self.drop(super().forward(self.norm(x), keep, causal))


@right("zero-output-projection")
class ZeroOutputProjection(Heads):
    """Before training it adds nothing to the residual stream."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.Wo.weight)
        nn.init.zeros_(self.Wo.bias)

    def forward(self, x, keep=None, causal=False):
        return x + super().forward(x, keep, causal)


@right("vit-normed-queries")
class VitNormedQueries(nn.Module):
    """As in timm: norms of each head's queries and keys."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)
        self.q_norm, self.k_norm = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attn_drop, self.proj_drop = nn.Dropout(0.1), nn.Dropout(0.1)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, 4, C // 4).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (self.q_norm(q) * (C // 4) ** -0.5) @ self.k_norm(k).transpose(-2, -1)
        x = self.attn_drop(attn.softmax(dim=-1)) @ v
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(B, N, C)))
