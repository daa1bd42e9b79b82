"""Layers by the ways in which they are called, of PyTorch, of other packages, and by hand."""

import math

import torch
from checks.right_base import Heads, right, rotate, visible
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

# Other signatures


@right("annotated")
class Annotated(nn.Module):
    """As in The Annotated Transformer: (query, key, value, mask), with a mask of (batch_size, 1 or length, length)."""

    def __init__(self):
        super().__init__()
        self.linears, self.dropout = nn.ModuleList(nn.Linear(32, 32) for _ in range(4)), nn.Dropout(0.1)
        self.attn = None

    def forward(self, query, key, value, mask=None):
        n_batches = query.size(0)
        query, key, value = (
            linear(x).view(n_batches, -1, 4, 8).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(8)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        self.attn = self.dropout(scores.softmax(dim=-1))
        x = torch.matmul(self.attn, value).transpose(1, 2).contiguous().view(n_batches, -1, 32)
        return self.linears[-1](x)


@right("nanogpt-sdpa")
class NanoGpt(nn.Module):
    """As in nanoGPT: fused projections and a causal mask inside."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)
        self.dropout, self.resid_dropout = 0.1, nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(256, 256)).view(1, 1, 256, 256))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, 4, C // 4).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        y = self.mix(q, k, v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))

    def mix(self, q, k, v):
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)


@right("nanogpt-by-hand")
class NanoGptByHand(NanoGpt):
    def mix(self, q, k, v):
        T = q.size(-2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        return F.dropout(att, self.dropout, self.training) @ v


@right("mask-of-tokens")
class MaskOfTokens(nn.Module):
    """(x, mask) with a bool mask of tokens, True = real, and fused keys and values."""

    def __init__(self):
        super().__init__()
        self.norm, self.to_q, self.to_kv = (
            nn.LayerNorm(32),
            nn.Linear(32, 32, bias=False),
            nn.Linear(32, 64, bias=False),
        )
        self.to_out = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.1))

    def forward(self, x, mask=None):
        x = self.norm(x)
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
        if mask is not None:
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        return self.to_out(torch.einsum("bhij,bhjd->bihd", dots.softmax(dim=-1), v).flatten(2))


@right("mask-added")
class MaskAdded(Heads):
    """(x, mask) with a mask that is added, 0 or −∞, (length, length) or what broadcasts to the scores."""

    def forward(self, x, mask: Tensor | None = None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        scores = q @ k.mT / math.sqrt(self.d_key)
        if mask is not None:
            scores = scores + mask
        return self.Wo((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


@right("attention-mask-added")
class AttentionMaskAdded(nn.Module):
    """As in the first BERT: 1 keeps, and −10000 is added elsewhere."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, hidden_states, attention_mask=None):
        q, k, v = (
            W(hidden_states).unflatten(-1, (4, 8)).permute(0, 2, 1, 3) for W in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(8)
        if attention_mask is not None:
            scores = scores + (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * -10000.0
        probabilities = nn.Softmax(dim=-1)(scores)
        return self.dense((probabilities @ v).permute(0, 2, 1, 3).flatten(2)), probabilities


def attention(q, k, v):
    """softmax(q kᵀ / √d_key) v, as numpy would write it."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    powers = torch.exp(scores - torch.amax(scores, axis=-1, keepdims=True))
    return powers / torch.sum(powers, axis=-1, keepdims=True) @ v


def masked_attention(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, value), weights


right("function")(lambda: attention)
right("function-with-mask")(lambda: masked_attention)


@right("cross")
class Cross(Heads):
    """A sequence reads a memory, some of whose tokens are padding."""

    def forward(self, x, memory, keep=None):
        q, k, v = self.split(self.Wq(x)), self.split(self.Wk(memory)), self.split(self.Wv(memory))
        seen = torch.ones(1, 1, 1, memory.shape[1], dtype=torch.bool) if keep is None else keep[:, None, None]
        return self.Wo(self.mix(q, k, v, seen).transpose(1, 2).flatten(2))


@right("perceiver")
class Perceiver(Cross):
    """Latents read a context, both normalised, with latents among the keys, as in Flamingo's resampler."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm_context = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x, context, keep=None):
        latents, context = self.norm(x), self.norm_context(context)
        keep = keep if keep is None else torch.cat([keep, keep.new_ones(latents.shape[:2])], dim=1)
        return super().forward(latents, torch.cat([context, latents], dim=1), keep)


class MAB(nn.Module):
    """Set Transformer, Lee et al. 2019, with the scale of each head."""

    def __init__(self):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(32, 32) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x, memory, keep=None):
        Q, K, V = (torch.cat(t.split(8, 2), 0) for t in (self.fc_q(x), self.fc_k(memory), self.fc_v(memory)))
        scores = Q.bmm(K.transpose(1, 2)) / math.sqrt(8)
        if keep is not None:
            scores = scores.masked_fill(~keep.repeat(4, 1)[:, None], -1e9)
        O = self.ln0(torch.cat((Q + scores.softmax(2).bmm(V)).split(x.size(0), 0), 2))
        return self.ln1(O + F.relu(self.fc_o(O)))


@right("set-transformer-mab")
class CrossMAB(MAB):
    pass


@right("set-transformer-isab")
class ISAB(nn.Module):
    """Three learned points read the set, and the set reads them."""

    def __init__(self):
        super().__init__()
        self.points, self.reads, self.gives = nn.Parameter(torch.randn(1, 3, 32)), MAB(), MAB()

    def forward(self, x, keep=None):
        return self.gives(x, self.reads(self.points.repeat(x.size(0), 1, 1), x, keep))


@right("cache")
class Cached(Heads):
    """Keys and values of tokens that came before are given back, and in again."""

    def forward(self, x, cache=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return self.Wo(self.mix(q, k, v, seen).transpose(1, 2).flatten(2)), (k, v)


@right("start-pos")
class StartPos(Heads):
    """The reference code of Llama: rotary, grouped, and a cache of fixed size inside."""

    def __init__(self):
        super().__init__(n_key_heads=2)
        self.cache_k, self.cache_v = torch.zeros(16, 2, 256, 8), torch.zeros(16, 2, 256, 8)

    def forward(self, x, start_pos: int = 0):
        batch_size, length, _ = x.shape
        positions = torch.arange(start_pos, start_pos + length).expand(batch_size, -1)
        q, k = (rotate(self.split(W(x)), interleaved=True, positions=positions) for W in (self.Wq, self.Wk))
        v = self.split(self.Wv(x))
        before = slice(batch_size), slice(None), slice(start_pos)
        now = slice(batch_size), slice(None), slice(start_pos, start_pos + length)
        keys, values = torch.cat([self.cache_k[before], k], dim=2), torch.cat([self.cache_v[before], v], dim=2)
        self.cache_k[now], self.cache_v[now] = k.detach(), v.detach()
        seen = torch.ones(length, start_pos + length, dtype=torch.bool).tril(start_pos)
        mixed = self.mix(q, keys.repeat_interleave(2, dim=1), values.repeat_interleave(2, dim=1), seen)
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@right("packed")
class Packed(Heads):
    """Several documents in a row, none of which sees another."""

    def forward(self, x, documents=None):
        seen = visible(x, None, causal=True)
        if documents is not None:
            seen = seen & (documents[:, None, :, None] == documents[:, None, None, :])
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        return self.Wo(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


# PyTorch's modules and mhaviz's


@right("torch-batch-first")
def torch_batch_first():
    return nn.MultiheadAttention(32, 4, batch_first=True)


@right("torch-length-first")
def torch_length_first():
    return nn.MultiheadAttention(32, 4, dropout=0.1)


@right("torch-bias-kv")
def torch_bias_kv():
    return nn.MultiheadAttention(32, 4, batch_first=True, add_bias_kv=True)


@right("torch-zero-attn")
def torch_zero_attn():
    return nn.MultiheadAttention(32, 4, batch_first=True, add_zero_attn=True)


@right("torch-encoder-layer")
def torch_encoder_layer():
    return nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)


@right("torch-encoder-layer-norm-first")
def torch_encoder_layer_norm_first():
    return nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True)


@right("torch-decoder-layer")
def torch_decoder_layer():
    return nn.TransformerDecoderLayer(32, 4, 48, batch_first=True)


@right("torch-decoder-layer-norm-first")
def torch_decoder_layer_norm_first():
    return nn.TransformerDecoderLayer(32, 4, 48, batch_first=True, norm_first=True)


@right("torch-encoder")
def torch_encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, batch_first=True), 2)


@right("mhaviz")
def of_mhaviz():
    return mhaviz.MultiHeadAttention(32, 4)


# Classes of other packages


class WithKeep(nn.Module):
    """Gives ``keep`` to a module as that calls it."""

    def __init__(self, module, names="mask", axes=2):
        super().__init__()
        self.module, self.name, self.axes = module, names, axes

    def forward(self, x, keep=None):
        mask = keep[:, None, None] if keep is not None and self.axes == 4 else keep
        return self.module(x, **{self.name: mask})


def x_attention(**options):
    def make():
        from x_transformers.x_transformers import Attention

        return WithKeep(Attention(dim=32, dim_head=8, heads=4, **options))

    return make


def x_encoder(**options):
    def make():
        from x_transformers import Encoder

        return WithKeep(Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options))

    return make


def timm_class(name, *arguments, raw=False, **options):
    def make():
        from zoo.timm_models import import_timm

        import_timm()
        import timm.layers

        module = getattr(timm.layers, name)(32, *arguments, **options)
        return module if raw else WithKeep(module, "attn_mask", axes=4)

    return make


for _name, _options in {
    "by-hand": {},
    "flash": {"flash": True},
    "causal": {"causal": True},
    "qk-norm": {"qk_norm": True},
    "memory": {"num_mem_kv": 2},
    "talking": {"pre_talking_heads": True, "post_talking_heads": True},
    "gated": {"gate_values": True},
    "multi-query": {"one_kv_head": True},
    "sink": {"head_learned_sink": True},
}.items():
    right(f"x-transformers-{_name}", needs="x_transformers")(x_attention(**_options))
right("x-transformers-encoder-rotary", needs="x_transformers")(x_encoder(rotary_pos_emb=True))
right("x-transformers-encoder-alibi", needs="x_transformers")(x_encoder(alibi_pos_bias=True))
right("timm-normed", needs="timm")(timm_class("Attention", num_heads=4, qk_norm=True, norm_layer=nn.LayerNorm))
right("timm-raw", needs="timm")(timm_class("Attention", num_heads=4, qkv_bias=True, raw=True))
right("timm-gated", needs="timm")(timm_class("Attention", num_heads=4, gated=True))
right("timm-groups", needs="timm")(timm_class("AttentionRope", num_heads=4, num_kv_heads=2, qkv_fused=False))
