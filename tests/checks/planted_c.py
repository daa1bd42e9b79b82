"""More mistakes, written from reports and from what people write, without a look at the probes."""

import math
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from checks.planting import Mistake
from torch import nn

MISTAKES: list[Mistake] = []


def seeded(make):
    torch.manual_seed(0)
    return make()


def mistake(name, code, style="module", **settings):
    def enter(make):
        MISTAKES.append(Mistake(name, style, code, partial(seeded, make), **settings))
        return make

    return enter


def split(x, n_heads=4):
    return x.view(x.size(0), x.size(1), n_heads, -1).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).contiguous().view(x.size(0), x.size(2), -1)


def future(t):
    return torch.ones(t, t, dtype=torch.bool).triu(1)


class Projected(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def qkv(self, x, context=None):
        context = x if context is None else context
        return (
            split(self.to_q(x), self.heads),
            split(self.to_k(context), self.heads),
            split(self.to_v(context), self.heads),
        )

    def scores(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)


class GPTAttention(nn.Module):
    def __init__(self, n_embd=32, n_head=4, block_size=256):
        super().__init__()
        self.n_head, self.n_embd = n_head, n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def weights(self, q, k):
        T = q.size(2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        return self.attn_dropout(F.softmax(att, dim=-1))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        y = self.weights(q, k) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPTBlock(nn.Module):
    def __init__(self, attention=GPTAttention, n_embd=32):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = attention(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


# Blocks of a GPT.


@mistake("gpt-block-unscaled", "scale", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            T = q.size(2)
            att = (q @ k.transpose(-2, -1)).masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            return F.softmax(att, dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-diagonal-one", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            T = q.size(2)
            seen = torch.tril(torch.ones(T, T), diagonal=1)
            return F.softmax(((q @ k.mT) / math.sqrt(k.size(-1))).masked_fill(seen == 0, float("-inf")), dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-mask-of-first-call", "shape", "gpt block")
def _():
    class Attention(GPTAttention):
        mask = None

        def weights(self, q, k):
            T = q.size(2)
            if self.mask is None:
                self.mask = future(T)
            att = (q @ k.mT) / math.sqrt(k.size(-1))
            return F.softmax(att.masked_fill(self.mask[:T, :T], float("-inf")), dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-mask-of-first-length", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        mask = None

        def weights(self, q, k):
            T = q.size(2)
            if self.mask is None:
                self.mask = future(T)
            n = min(T, len(self.mask))
            att = (q @ k.mT) / math.sqrt(k.size(-1))
            att[..., :n, :n] = att[..., :n, :n].masked_fill(self.mask[:n, :n], float("-inf"))
            return F.softmax(att, dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-residual-in-place", "input-changed", "gpt block")
def _():
    class Block(GPTBlock):
        def forward(self, x):
            x += self.attn(self.ln_1(x))
            x += self.mlp(self.ln_2(x))
            return x

    return Block()


@mistake("gpt-block-group-norm", "causal", "gpt block")
def _():
    class Block(GPTBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(1, 32)

        def forward(self, x):
            x = x + self.attn(self.norm(x.transpose(1, 2)).transpose(1, 2))
            return x + self.mlp(self.ln_2(x))

    return Block()


@mistake("gpt-block-batch-norm-of-batch", "batch", "gpt block")
def _():
    class Block(GPTBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(32, track_running_stats=False)

        def forward(self, x):
            x = x + self.attn(self.norm(x.transpose(1, 2)).transpose(1, 2))
            return x + self.mlp(self.ln_2(x))

    return Block()


@mistake("gpt-block-merge-without-transpose", "heads-layout", "gpt block")
def _():
    class Attention(GPTAttention):
        def forward(self, x):
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
            q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
            y = self.weights(q, k) @ v
            return self.c_proj(y.contiguous().view(B, T, C))

    return GPTBlock(Attention)


@mistake("gpt-block-same-chunk", "dead-parameter", "gpt block")
def _():
    class Attention(GPTAttention):
        def forward(self, x):
            qkv, C = self.c_attn(x), self.n_embd
            q, k, v = (split(t) for t in (qkv[..., :C], qkv[..., :C], qkv[..., 2 * C :]))
            return self.c_proj(merge(self.weights(q, k) @ v))

    return GPTBlock(Attention)


@mistake("gpt-block-position-of-batch", "batch", "gpt block")
def _():
    class Block(GPTBlock):
        def __init__(self):
            super().__init__()
            angle = torch.arange(500)[:, None] * torch.exp(torch.arange(0, 32, 2) * (-math.log(10000.0) / 32))
            pe = torch.zeros(500, 1, 32)
            pe[:, 0, 0::2], pe[:, 0, 1::2] = angle.sin(), angle.cos()
            self.register_buffer("pe", pe)

        def forward(self, x):
            return super().forward(x + self.pe[: x.size(0)])

    return Block()


@mistake("gpt-two-blocks-second-sees-all", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            return F.softmax((q @ k.mT) / math.sqrt(k.size(-1)), dim=-1)

    return nn.Sequential(GPTBlock(), GPTBlock(Attention))


@mistake("gpt-block-triangle-upside-down", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            T = q.size(2)
            att = (q @ k.mT) / math.sqrt(k.size(-1))
            return F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 1, -1e9), dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-prefix-rows", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            T = q.size(2)
            seen = torch.ones(T, T, dtype=torch.bool).tril()
            seen[:3, :] = True
            return F.softmax(((q @ k.mT) / math.sqrt(k.size(-1))).masked_fill(~seen, float("-inf")), dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-float-tril-added", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def forward(self, x):
            q, k, v = (split(t) for t in self.c_attn(x).chunk(3, dim=-1))
            tril = torch.tril(torch.ones(x.size(1), x.size(1)))
            return self.c_proj(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=tril)))

    return GPTBlock(Attention)


@mistake("gpt-block-chunk-of-queries", "causal", "gpt block")
def _():
    class Attention(GPTAttention):
        def forward(self, x):
            q, k, v = (split(t) for t in self.c_attn(x).chunk(3, dim=-1))
            rows = []
            for start in range(0, x.size(1), 4):
                part = q[:, :, start : start + 4]
                seen = torch.ones(part.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - part.size(2))
                rows.append(F.scaled_dot_product_attention(part, k, v, attn_mask=seen))
            return self.c_proj(merge(torch.cat(rows, dim=2)))

    return GPTBlock(Attention)


@mistake("gpt-block-roll", "causal", "gpt block")
def _():
    class Block(GPTBlock):
        def forward(self, x):
            mixed = 0.5 * x + 0.5 * x.roll(1, dims=1)
            return super().forward(mixed)

    return Block()


@mistake("gpt-block-drop-path-always", "eval-dropout", "gpt block")
def _():
    class Block(GPTBlock):
        def forward(self, x):
            kept = (torch.rand(x.size(0), 1, 1) > 0.2).float() / 0.8
            x = x + kept * self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    return Block()


@mistake("gpt-block-functional-dropout", "eval-dropout", "gpt block")
def _():
    class Attention(GPTAttention):
        def weights(self, q, k):
            T = q.size(2)
            att = F.dropout((q @ k.mT) / math.sqrt(k.size(-1)), 0.1)
            return F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf")), dim=-1)

    return GPTBlock(Attention)


@mistake("gpt-block-cache-in-module", "random", "gpt block")
def _():
    class Attention(GPTAttention):
        past = None

        def forward(self, x):
            q, k, v = (split(t) for t in self.c_attn(x).chunk(3, dim=-1))
            if self.past is not None and self.past[0].size(0) == x.size(0):
                k = torch.cat([self.past[0], k], dim=2)
                v = torch.cat([self.past[1], v], dim=2)
            self.past = k.detach(), v.detach()
            seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
            return self.c_proj(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=seen)))

    return GPTBlock(Attention)


# Scales.


@mistake("double-scale-before-sdpa", "scale", "sdpa")
class DoubleScale(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        q = q * self.head_dim**-0.5
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("power-before-division", "scale")
class Precedence(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / self.head_dim**1 / 2
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("root-of-length", "scale", "transposed", d_model=64)
class RootOfLength(Projected):
    def __init__(self):
        super().__init__(64, 4)

    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-2))
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("root-of-heads", "scale")
class RootOfHeads(Projected):
    def forward(self, query, key, value, mask=None):
        q = split(self.to_q(query), self.heads)
        k = split(self.to_k(key), self.heads)
        v = split(self.to_v(value), self.heads)
        scores = torch.matmul(q, k.transpose(2, 3)) / q.size(1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("vit-scale-of-model", "scale", "vit")
def _():
    class Block(nn.Module):
        def __init__(self, dim=48, heads=6):
            super().__init__()
            self.scale, self.heads = dim**-0.5, heads
            self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
            self.qkv = nn.Linear(dim, 3 * dim, bias=False)
            self.proj = nn.Linear(dim, dim)
            self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

        def forward(self, x):
            x = torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1)
            B, N, C = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            attn = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
            x = x + self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))
            return (x + self.mlp(self.norm2(x)))[:, 1:]

    return Block()


MISTAKES[-1] = Mistake(**{**vars(MISTAKES[-1]), "d_model": 48})


@mistake("cosine-divided-by-root", "scale", "cosine")
class CosineRoot(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT / math.sqrt(self.head_dim)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


# Softmax and what is summed.


@mistake("heads-last-softmax-last", "softmax-axis", "einsum")
class HeadsLast(Projected):
    def forward(self, x):
        q, k, v = (W(x).unflatten(-1, (self.heads, -1)) for W in (self.to_q, self.to_k, self.to_v))
        sim = torch.einsum("bihd,bjhd->bijh", q, k) * self.head_dim**-0.5
        return self.to_out(torch.einsum("bijh,bjhd->bihd", sim.softmax(dim=-1), v).flatten(2))


@mistake("softmax-implicit-axis", "softmax-axis", "folded")
class ImplicitAxis(Projected):
    def forward(self, x, keep=None):
        b, t, _ = x.shape
        q, k, v = (s.reshape(b * self.heads, t, -1) for s in self.qkv(x))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)
        if keep is not None:
            scores = scores.masked_fill(~keep.repeat_interleave(self.heads, 0)[:, None], -1e9)
        out = torch.bmm(nn.Softmax(dim=0)(scores), v)
        return self.to_out(merge(out.view(b, self.heads, t, -1)))


@mistake("softmax-over-heads-and-keys", "softmax-axis", "einsum")
class FlattenedSoftmax(Projected):
    def forward(self, x):
        q, k, v = (W(x).unflatten(-1, (self.heads, -1)) for W in (self.to_q, self.to_k, self.to_v))
        weights = torch.einsum("bqnc,bknc->bqnk", q * self.head_dim**-0.5, k)
        weights = F.softmax(weights.flatten(2), dim=-1).view_as(weights)
        return self.to_out(torch.einsum("bqnk,bknc->bqnc", weights, v).flatten(2))


@mistake("log-softmax", "row-sum")
class LogSoftmax(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if causal:
            scores = scores.masked_fill(future(x.size(1)), -1e4)
        return self.to_out(merge(F.log_softmax(scores, dim=-1) @ v))


@mistake("renormalised-over-queries", "row-sum")
class RenormalisedOverQueries(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        weights = self.scores(q, k).softmax(-1)
        if keep is not None:
            weights = weights * keep[:, None, None]
        weights = weights / weights.sum(dim=-2, keepdim=True).clamp(min=1e-9)
        return self.to_out(merge(weights @ v))


@mistake("softmax-in-bfloat16", "row-sum")
class HalfSoftmax(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k).to(torch.bfloat16)
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(scores.softmax(-1).float() @ v))


@mistake("divided-by-length", "row-sum")
class DividedByLength(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v / x.size(1)))


@mistake("linear-without-normaliser", "row-sum", "linear attention")
class LinearUnnormalised(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if keep is not None:
            k = k * keep[:, None, :, None]
        return self.to_out(merge(q @ (k.mT @ v)))


@mistake("linear-normaliser-of-features", "row-sum", "linear attention")
class LinearFeatures(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        z = 1 / (torch.einsum("bhnd,bhnd->bhn", q, k) + 1e-6)
        return self.to_out(merge(torch.einsum("bhnd,bhde,bhn->bhne", q, k.mT @ v, z)))


@mistake("linear-normaliser-sees-future", "causal", "linear attention")
class LinearFuture(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhnd,bhne->bhnde", k, v)
        kv = kv.cumsum(2) if causal else kv.sum(2, keepdim=True)
        z = torch.einsum("bhnd,bhd->bhn", q, k.sum(2))[..., None]
        return self.to_out(merge(torch.einsum("bhnd,bhnde->bhne", q, kv.expand(-1, -1, x.size(1), -1, -1)) / z))


@mistake("linear-normaliser-counts-padding", "padding", "linear attention")
class LinearPadding(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if keep is not None:
            v = v * keep[:, None, :, None]
        z = 1 / torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2))
        return self.to_out(merge(torch.einsum("bhnd,bhde,bhn->bhne", q, k.mT @ v, z)))


# Masks.


@mistake("causal-lost-beside-padding", "causal", "masks")
class CausalLost(Projected):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.qkv(x)
        mask = None
        if keep is not None:
            mask = keep[:, None, None, :]
        elif causal:
            mask = ~future(x.size(1))
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


@mistake("causal-or-padding", "causal", "masks")
class CausalOr(Projected):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        seen = ~future(x.size(1)) if causal else torch.ones(x.size(1), x.size(1), dtype=torch.bool)
        if keep is not None:
            seen = seen | keep[:, None, None, :] if causal else keep[:, None, None, :]
        return self.to_out(merge(scores.masked_fill(~seen, -1e9).softmax(-1) @ v))


@mistake("causal-inverted", "causal", "sdpa")
class CausalInverted(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=not causal)))


@mistake("strict-window", "causal", "masks")
class StrictWindow(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        i = torch.arange(x.size(1))
        distance = i[:, None] - i[None, :]
        seen = (distance < 8) & (distance > 0) if causal else distance.abs() < 8
        return self.to_out(merge(self.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v))


@mistake("window-both-sides", "causal", "masks")
class WindowBothSides(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        i = torch.arange(x.size(1))
        distance = i[:, None] - i[None, :]
        seen = distance < 6 if causal else distance.abs() < 6
        return self.to_out(merge(self.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v))


@mistake("causal-windows-rolled", "causal", "windows")
class CausalRolled(Projected):
    def forward(self, x, causal=False):
        t = x.size(1)
        pad = -t % 4
        x = F.pad(x, (0, 0, 0, pad)).roll(-2, dims=1)
        q, k, v = (s.unflatten(2, (-1, 4)) for s in self.qkv(x))
        i = torch.arange(t + pad).roll(-2).view(-1, 4)
        seen = (i < t)[:, None] & torch.ones(4, 4, dtype=torch.bool)
        if causal:
            seen = seen & ~future(4)
        out = (self.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v).flatten(2, 3)
        return self.to_out(merge(out)).roll(2, dims=1)[:, :t]


@mistake("conv-projection-sees-next", "causal", "convolution")
class ConvCausal(Projected):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(32, 32, 3, padding=1, groups=32)

    def forward(self, x, causal=False):
        q, k, v = self.qkv(self.conv(x.transpose(1, 2)).transpose(1, 2))
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("pooled-keys-see-next", "causal", "compressed memory")
class PooledKeys(Projected):
    def forward(self, x, causal=False):
        t = x.size(1)
        pooled = F.pad(x, (0, 0, 0, t % 2)).unflatten(1, (-1, 2)).mean(2)
        q, k, v = self.qkv(x, pooled)
        scores = self.scores(q, k)
        if causal:
            seen = torch.arange(pooled.size(1))[None] <= torch.arange(t)[:, None] // 2
            scores = scores.masked_fill(~seen, -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("norm-over-tokens", "causal", "normed queries")
class NormOverTokens(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)
        scores = q @ k.mT * 10
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("norm-over-heads", "not-attention", "normed queries")
class NormOverHeads(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
        scores = q @ k.mT * math.sqrt(self.head_dim)
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("norm-of-keys-and-values", "not-attention", "normed queries")
class NormOfKeysAndValues(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        k, v = F.rms_norm(k, (self.head_dim,)), F.rms_norm(v, (self.head_dim,))
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("norms-never-called", "dead-parameter", "normed queries")
class NormsNeverCalled(Projected):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(self.head_dim), nn.LayerNorm(self.head_dim)

    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("added-mask-of-ones", "mask-polarity", "added mask")
class AddedOnes(Projected):
    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if attention_mask is not None:
            scores = scores + attention_mask[:, None, None, :].to(scores.dtype) * -10000.0
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("torch-key-padding-of-real", "mask-polarity", "torch")
class TorchPolarity(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.attn = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, keep=None):
        h = self.norm(x)
        return x + self.attn(h, h, h, key_padding_mask=keep, need_weights=False)[0]


@mistake("torch-encoder-bool-tril", "causal", "torch")
class TorchTril(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x, causal=False):
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril(-1) if causal else None
        return self.layer(x, src_mask=mask)


@mistake("torch-second-layer-unmasked", "padding", "torch")
class TorchSecondLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(2))

    def forward(self, x, keep=None):
        x = self.layers[0](x, src_key_padding_mask=None if keep is None else ~keep)
        return self.layers[1](x)


@mistake("torch-length-first-by-default", "batch", "torch")
class TorchLengthFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.attn = nn.MultiheadAttention(32, 4)
        self.ff = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h)[0]
        return x + self.ff(self.norm2(x))


@mistake("tiny-in-place-of-min", "mask-value", "masks")
class Tiny(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None, :], torch.finfo(scores.dtype).tiny)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("minus-one-before-scale", "mask-value", "masks")
class MinusOneBeforeScale(Projected):
    def forward(self, x, mask=None):
        q, k, v = self.qkv(x)
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -10)
        return self.to_out(merge((scores / math.sqrt(self.head_dim)).softmax(-1) @ v))


@mistake("scores-times-mask", "mask-value", "masks")
class ScoresTimesMask(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores * (keep[:, :, None] & keep[:, None, :])[:, None]
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("mask-one-or-other", "padding", "masks")
class OneOrOther(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            pairs = keep[:, :, None].int() + keep[:, None, :].int()
            scores = scores.masked_fill((pairs == 0)[:, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("mask-on-values", "padding", "masks")
class MaskOnValues(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        if keep is not None:
            v = v.masked_fill(~keep[:, None, :, None], 0.0)
        return self.to_out(merge(self.scores(q, k).softmax(-1) @ v))


@mistake("mask-on-keys", "padding", "masks")
class MaskOnKeys(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        if keep is not None:
            k = k * keep[:, None, :, None]
        return self.to_out(merge(self.scores(q, k).softmax(-1) @ v))


@mistake("mask-folded-in-other-order", "padding", "folded")
class FoldedOrder(Projected):
    def forward(self, x, keep=None):
        q, k, v = (torch.cat(W(x).split(self.head_dim, dim=-1), dim=0) for W in (self.to_q, self.to_k, self.to_v))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)
        if keep is not None:
            scores = scores.masked_fill(~keep.repeat_interleave(self.heads, dim=0)[:, None], -1e9)
        return self.to_out(torch.cat(torch.bmm(scores.softmax(-1), v).split(x.size(0), dim=0), dim=-1))


@mistake("mask-of-rows-and-sentences", "shape", "masks")
class AccidentalBroadcast(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep, -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("mask-rows", "mask-side", "single head")
class MaskRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x, keep=None):
        scores = self.query(x) @ self.key(x).mT / math.sqrt(32)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, :, None], -1e9)
        return scores.softmax(-1) @ self.value(x)


@mistake("infinity-times-zero", "nan", "masks")
class InfinityTimesZero(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores + (1.0 - keep[:, None, None, :].float()) * float("-inf")
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("left-padding-and-causal", "nan", "masks")
class LeftPadding(Projected):
    def forward(self, x, keep=None, causal=True):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if causal:
            scores = scores + torch.full((x.size(1), x.size(1)), float("-inf")).triu(1)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("zero-over-zero", "nan", "exponentials")
class ZeroOverZero(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        if keep is not None:
            weights = weights * keep[:, None, None]
        return self.to_out(merge(weights / weights.sum(-1, keepdim=True) @ v))


@mistake("buffer-masked-in-place", "random", "masks")
class BufferMasked(Projected):
    def __init__(self):
        super().__init__()
        self.register_buffer("tril", torch.ones(256, 256, dtype=torch.bool).tril())

    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        seen = self.tril[: x.size(1), : x.size(1)]
        if keep is not None:
            seen.masked_fill_(~keep.all(0), False)
            seen.fill_diagonal_(True)
        return self.to_out(merge(self.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v))


@mistake("mask-of-last-call-kept", "padding", "masks")
class LastMask(Projected):
    mask = None

    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            if self.mask is None or self.mask.shape[0] != keep.shape[0] or self.mask.shape[-1] != keep.shape[1]:
                self.mask = ~keep[:, None, None].clone()
            scores = scores.masked_fill(self.mask, -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("mask-inverted-in-place", "input-changed", "masks")
class MaskInverted(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(keep.logical_not_()[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("padding-zeroed-in-place", "input-changed", "masks")
class PaddingZeroed(Projected):
    def forward(self, x, keep=None):
        if keep is not None:
            x[~keep] = 0.0
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("context-of-padding", "padding", "block")
class ContextOfPadding(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        out = self.to_out(merge(scores.softmax(-1) @ v))
        return x + out + out.mean(dim=1, keepdim=True)


@mistake("cls-mask-on-other-side", "padding", "vit")
class CLSMask(Projected):
    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, 32))

    def forward(self, x, keep=None):
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if keep is not None:
            keep = F.pad(keep, (0, 1), value=True)
            scores = scores.masked_fill(~keep[:, None, None], -1e9)
        return self.to_out(merge(scores.softmax(-1) @ v))[:, 1:]


@mistake("cls-dropped-at-end", "heads-layout", "vit")
class CLSDropped(Projected):
    def __init__(self):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, 32))

    def forward(self, x):
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        q, k, v = self.qkv(x)
        return (x + self.to_out(merge(self.scores(q, k).softmax(-1) @ v)))[:, :-1]


# Decoder blocks: the target and a memory.


class DecoderBlock(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.self_attn, self.cross_attn = Projected(d), Projected(d)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def attend(self, layer, x, memory, mask=None):
        q, k, v = layer.qkv(x, memory)
        scores = layer.scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return layer.to_out(merge(scores.softmax(-1) @ v))

    def forward(self, x, memory, keep=None):
        x = self.norm1(x + self.attend(self.self_attn, x, x, ~future(x.size(1))))
        x = self.norm2(x + self.cross(x, memory, keep))
        return self.norm3(x + self.ff(x))


@mistake("decoder-ignores-memory", "isolated", "decoder block")
class DecoderIgnores(DecoderBlock):
    def cross(self, x, memory, keep):
        return self.attend(self.cross_attn, x, x)


@mistake("decoder-memory-unmasked", "padding", "decoder block")
class DecoderUnmasked(DecoderBlock):
    def cross(self, x, memory, keep):
        return self.attend(self.cross_attn, x, memory)


@mistake("decoder-causal-memory", "isolated", "decoder block")
class DecoderCausalMemory(DecoderBlock):
    def cross(self, x, memory, keep):
        seen = torch.ones(x.size(1), memory.size(1), dtype=torch.bool).tril()
        return self.attend(self.cross_attn, x, memory, seen if keep is None else seen & keep[:, None, None])


@mistake("decoder-mask-of-memory-on-rows", "shape", "decoder block")
class DecoderMaskRows(DecoderBlock):
    def cross(self, x, memory, keep):
        return self.attend(self.cross_attn, x, memory, None if keep is None else keep[:, None, :, None])


@mistake("decoder-memory-polarity", "mask-polarity", "decoder block")
class DecoderPolarity(DecoderBlock):
    def cross(self, x, memory, keep):
        return self.attend(self.cross_attn, x, memory, None if keep is None else ~keep[:, None, None])


@mistake("cross-unscaled", "scale", "cross")
class CrossUnscaled(Projected):
    def forward(self, x, context, keep=None):
        q, k, v = self.qkv(x, context)
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, None], -torch.finfo(scores.dtype).max)
        return self.to_out(torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v).transpose(1, 2).flatten(2))


@mistake("cross-view", "heads-layout", "cross")
class CrossView(Projected):
    def forward(self, x, context):
        q = split(self.to_q(x))
        k = self.to_k(context).view(x.size(0), self.heads, context.size(1), -1)
        v = self.to_v(context).view(x.size(0), self.heads, context.size(1), -1)
        return self.to_out(merge(self.scores(q, k).softmax(-1) @ v))


# Heads.


@mistake("two-key-heads-by-view", "heads-layout", "grouped")
class GroupedView(Projected):
    def __init__(self):
        super().__init__()
        self.to_k, self.to_v = nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x, causal=False):
        b, t, _ = x.shape
        q = split(self.to_q(x))
        k, v = (W(x).view(b, 2, t, 8).repeat_interleave(2, dim=1) for W in (self.to_k, self.to_v))
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("groups-expanded-on-two-sides", "groups", "grouped")
class GroupsExpanded(Projected):
    def __init__(self):
        super().__init__()
        self.to_k, self.to_v = nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x, causal=False):
        b, t, _ = x.shape
        q, k, v = split(self.to_q(x)), split(self.to_k(x), 2), split(self.to_v(x), 2)
        k = k[:, :, None].expand(b, 2, 2, t, 8).reshape(b, 4, t, 8)
        v = v[:, None].expand(b, 2, 2, t, 8).reshape(b, 4, t, 8)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("fused-view", "heads-layout", "fused")
class FusedView(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96, bias=False), nn.Linear(32, 32)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, 4, t, 24).chunk(3, dim=-1)
        return self.out(merge(F.scaled_dot_product_attention(q, k, v)))


@mistake("folded-merge-by-view", "heads-layout", "folded")
class FoldedMerge(Projected):
    def forward(self, x):
        q, k, v = (torch.cat(W(x).split(self.head_dim, dim=-1), dim=0) for W in (self.to_q, self.to_k, self.to_v))
        weights = (torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)).softmax(-1)
        return self.to_out(torch.bmm(weights, v).view_as(x))


@mistake("einsum-heads-with-heads", "heads-layout", "einsum")
class HeadsWithHeads(Projected):
    def forward(self, x):
        q, k, v = (W(x).unflatten(-1, (self.heads, -1)) for W in (self.to_q, self.to_k, self.to_v))
        energy = torch.einsum("bnhd,bngd->bnhg", q, k) / math.sqrt(self.head_dim)
        return self.to_out(torch.einsum("bnhg,bngd->bnhd", energy.softmax(-1), v).flatten(2))


@mistake("einsum-free-letter", "not-attention", "einsum")
class FreeLetter(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        attention = torch.einsum("bhqd,bhkd->bhqk", q, k).div(math.sqrt(self.head_dim)).softmax(-1)
        return self.to_out(torch.einsum("bhqk,bhvd->bqhd", attention, v).flatten(2))


@mistake("einsum-weights-by-column", "not-attention", "einsum")
class ByColumn(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        attention = torch.einsum("bhqd,bhkd->bhqk", q, k).div(math.sqrt(self.head_dim)).softmax(-1)
        return self.to_out(torch.einsum("bhqk,bhqd->bkhd", attention, v).flatten(2))


@mistake("merge-wrong-in-causal-branch", "heads-layout", "two branches")
class MergeInBranch(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        if causal:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        else:
            out = merge(self.scores(q, k).softmax(-1) @ v)
        return self.to_out(out)


@mistake("head-order-of-one-branch", "heads-layout", "two branches")
class OrderInBranch(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        if keep is not None:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None])
            out = out.permute(0, 2, 3, 1).flatten(2)
        else:
            out = merge(F.scaled_dot_product_attention(q, k, v))
        return self.to_out(out)


@mistake("unscaled-in-masked-branch", "scale", "two branches")
class ScaleInBranch(Projected):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        if keep is None:
            return self.to_out(merge(F.scaled_dot_product_attention(q, k, v)))
        return self.to_out(merge((q @ k.mT).masked_fill(~keep[:, None, None], -1e9).softmax(-1) @ v))


@mistake("output-of-heads-averaged", "not-attention", "list of heads")
class HeadsAveraged(Projected):
    def __init__(self):
        super().__init__()
        self.to_out = nn.Linear(8, 32)

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.to_out(self.scores(q, k).softmax(-1) @ v).mean(dim=1)


@mistake("clones-of-one", "not-attention", "annotated")
class Clones(nn.Module):
    def __init__(self):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(32, 32)] * 4)

    def forward(self, query, key, value, mask=None):
        q, k, v = (split(W(x)) for W, x in zip(self.linears, (query, key, value), strict=False))
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.linears[-1](merge(scores.softmax(-1) @ v))


@mistake("heads-in-python-list", "dead-parameter", "list of heads")
class PythonList(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = [nn.ModuleList(nn.Linear(32, 8) for _ in range(3)) for _ in range(4)]
        self.proj = nn.Linear(32, 32)

    def forward(self, x):
        heads = []
        for query, key, value in self.heads:
            weights = (query(x) @ key(x).mT * 8**-0.5).softmax(-1)
            heads.append(weights @ value(x))
        return self.proj(torch.cat(heads, dim=-1))


@mistake("tokens-as-batch", "isolated", "torch")
class TokensAsBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.attn = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x).view(-1, 1, 32)
        return x + self.attn(h, h, h)[0].view_as(x)


@mistake("scores-over-largest", "batch")
class OverLargest(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        return self.to_out(merge((scores / scores.abs().max()).softmax(-1) @ v))


@mistake("assert-window", "shape", "windows")
class AssertWindow(Projected):
    def forward(self, x):
        q, k, v = (s.reshape(x.size(0), 4, -1, 4, 8) for s in self.qkv(x))
        out = (self.scores(q, k).softmax(-1) @ v).flatten(2, 3)
        return self.to_out(merge(out))


@mistake("squeezed", "shape", "single head")
class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(q, k, v).squeeze())


@mistake("temperature-item", "dead-parameter", "cosine")
class TemperatureItem(Projected):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.temperature.item()
        return self.to_out(merge(scores.softmax(-1) @ v))


@mistake("features-drawn-again", "random", "performer")
class FeaturesDrawn(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        omega = torch.randn(self.head_dim, 64)
        q, k = (t * self.head_dim**-0.25 for t in (q, k))
        q, k = (torch.exp(t @ omega - t.square().sum(-1, keepdim=True) / 2) for t in (q, k))
        return self.to_out(merge(q @ (k.mT @ v) / (q @ k.sum(2)[..., None])))


@mistake("monte-carlo-dropout", "eval-dropout")
class MonteCarlo(Projected):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, causal=False):
        self.dropout.train()
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(self.dropout(scores.softmax(-1)) @ v))


# Positions.


def tables(t, d=8, start=0):
    angle = torch.arange(start, start + t)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return angle.cos(), angle.sin()


def half(x, start=0):
    cos, sin = (torch.cat([a, a], -1) for a in tables(x.size(-2), x.size(-1), start))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Rotary(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        q, k = self.turn(q, k)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal)))


@mistake("rotary-tables-interleaved-halves-turned", "positions", "rotary")
class RotaryMixed(Rotary):
    def turn(self, q, k):
        cos, sin = (a.repeat_interleave(2, -1) for a in tables(q.size(-2)))
        return tuple(x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin for x in (q, k))


@mistake("rotary-over-heads", "positions", "rotary")
class RotaryOverHeads(Rotary):
    def turn(self, q, k):
        return tuple(half(x.transpose(1, 2)).transpose(1, 2) for x in (q, k))


@mistake("rotary-partial-swapped", "positions", "rotary")
class RotaryPartial(Rotary):
    def turn(self, q, k):
        q = torch.cat([half(q[..., :4]), q[..., 4:]], -1)
        return q, torch.cat([k[..., :4], half(k[..., 4:])], -1)


@mistake("rotary-conjugate", "positions", "rotary")
class RotaryConjugate(Rotary):
    def turn(self, q, k):
        turns = torch.polar(
            torch.ones(q.size(2), 4), torch.arange(q.size(2))[:, None] * 100.0 ** (-torch.arange(4) / 4)
        )
        q, k = (torch.view_as_complex(x.reshape(*x.shape[:-1], 4, 2)) for x in (q, k))
        return torch.view_as_real(q * turns).flatten(-2), torch.view_as_real(k * turns.conj()).flatten(-2)


@mistake("rotary-from-one-and-zero", "positions", "rotary")
class RotaryOffByOne(Rotary):
    def turn(self, q, k):
        return half(q, 1), half(k, 0)


@mistake("rotary-sign-lost", "positions", "rotary")
class RotarySign(Rotary):
    def turn(self, q, k):
        cos, sin = (torch.cat([a, a], -1) for a in tables(q.size(-2)))
        return tuple(x * cos + torch.cat([x[..., 4:], x[..., :4]], -1) * sin for x in (q, k))


@mistake("rotary-by-sentence", "batch", "rotary")
class RotarySentence(Projected):
    def forward(self, x):
        q, k, v = self.qkv(x)
        cos, sin = (torch.cat([a, a], -1)[:, None, None] for a in tables(x.size(0)))
        k = k * cos + torch.cat([-k[..., 4:], k[..., :4]], -1) * sin
        return self.to_out(merge(self.scores(q, k).softmax(-1) @ v))


class Biased(Projected):
    def forward(self, x, causal=False):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k) + self.bias(x.size(1))
        if causal:
            scores = scores.masked_fill(future(x.size(1)), float("-inf"))
        return self.to_out(merge(scores.softmax(-1) @ v))


def distances(t):
    return torch.arange(t)[None, :] - torch.arange(t)[:, None]


@mistake("alibi-favours-far", "positions", "bias")
class AlibiSign(Biased):
    def bias(self, t):
        slopes = 2.0 ** -torch.arange(2, 10, 2)
        return slopes[:, None, None] * distances(t).abs()


@mistake("alibi-of-query-position", "positions", "bias")
class AlibiRow(Biased):
    def bias(self, t):
        slopes = 2.0 ** -torch.arange(2, 10, 2)
        return slopes[:, None, None] * torch.arange(t)[None, :, None]


@mistake("relative-bias-viewed", "positions", "bias")
class BiasViewed(Biased):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(513, 4)

    def bias(self, t):
        return self.table(distances(t) + 256).view(4, t, t)


@mistake("relative-bias-data", "dead-parameter", "bias")
class BiasData(Biased):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(513, 4) * 0.2)

    def bias(self, t):
        return self.table.data[distances(t) + 256].permute(2, 0, 1)


@mistake("t5-buckets-of-future", "positions", "bias")
class BucketsOfFuture(Biased):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 4)

    def bias(self, t):
        relative = -distances(t)
        distance = -torch.min(relative, torch.zeros_like(relative))
        return self.table(distance.clamp(max=31)).permute(2, 0, 1)


# Caches.


class Cached(Projected):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))), (k, v)


@mistake("cache-along-heads", "cache", "cache")
class CacheHeads(Cached):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        out = F.scaled_dot_product_attention(q, k[:, : self.heads], v[:, : self.heads], is_causal=cache is None)
        return self.to_out(merge(out)), (k, v)


@mistake("cache-prefill-unmasked", "cache", "cache")
class CachePrefill(Cached):
    def forward(self, x, past=None):
        q, k, v = self.qkv(x)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, is_causal=past is None))), (k, v)


@mistake("cache-mask-from-top-left", "cache", "cache")
class CacheTopLeft(Cached):
    def forward(self, x, layer_past=None):
        q, k, v = self.qkv(x)
        if layer_past is not None:
            k, v = torch.cat([layer_past[0], k], dim=2), torch.cat([layer_past[1], v], dim=2)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1)
        return self.to_out(merge(out)), (k, v)


@mistake("cache-rotary-from-zero", "cache", "cache")
class CacheRotaryZero(Cached):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        q, k = half(q), half(k)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))), (k, v)


@mistake("cache-turned-again", "cache", "cache")
class CacheTurnedAgain(Cached):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        start = 0 if cache is None else cache[0].size(2)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        q, k = half(q, start), half(k)
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(start)
        return self.to_out(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))), (k, v)


@mistake("cache-window-too-short", "cache", "cache")
class CacheWindow(Cached):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        t, s = q.size(2), k.size(2)
        distance = torch.arange(s - t, s)[:, None] - torch.arange(s)[None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=(distance >= 0) & (distance < 4))
        return self.to_out(merge(out)), (k[:, :, -2:], v[:, :, -2:])


@mistake("cache-newest-first", "cache", "cache")
class CacheNewest(Cached):
    def forward(self, x, cache=None):
        q, k, v = self.qkv(x)
        if cache is not None:
            k, v = torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2)
        start = k.size(2) - q.size(2)
        scores = self.scores(half(q, start), half(k))
        seen = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(start)
        return self.to_out(merge(scores.masked_fill(~seen, -1e9).softmax(-1) @ v)), (k, v)


@mistake("cache-learned-positions-from-zero", "cache", "cache")
class CacheLearned(Cached):
    def __init__(self):
        super().__init__()
        self.wpe = nn.Embedding(256, 32)

    def forward(self, x, cache=None):
        return super().forward(x + self.wpe(torch.arange(x.size(1))), cache)


@mistake("start-pos-one-short", "cache", "cache")
class StartPos(Projected):
    def __init__(self):
        super().__init__()
        self.cache_k, self.cache_v = torch.zeros(8, 4, 256, 8), torch.zeros(8, 4, 256, 8)

    def forward(self, x, start_pos: int = 0):
        b, t, _ = x.shape
        q, k, v = self.qkv(x)
        with torch.no_grad():
            self.cache_k[:b, :, start_pos : start_pos + t] = k
            self.cache_v[:b, :, start_pos : start_pos + t] = v
        end = start_pos + t - (1 if start_pos else 0)
        seen = torch.ones(t, end, dtype=torch.bool).tril(start_pos)
        out = F.scaled_dot_product_attention(q, self.cache_k[:b, :, :end], self.cache_v[:b, :, :end], attn_mask=seen)
        return self.to_out(merge(out))


# Packed documents.


class Packed(Projected):
    def forward(self, x, documents=None):
        q, k, v = self.qkv(x)
        seen = ~future(x.size(1))
        if documents is not None:
            seen = (seen & self.same(documents))[:, None]
        return self.to_out(merge(self.scores(q, k).masked_fill(~seen, -1e9).softmax(-1) @ v))


@mistake("packed-at-least", "packed", "packed")
class PackedAtLeast(Packed):
    def same(self, documents):
        return documents[:, :, None] >= documents[:, None, :]


@mistake("packed-boundary-off", "packed", "packed")
class PackedBoundary(Packed):
    def same(self, documents):
        moved = torch.cat([documents[:, 1:], documents[:, -1:]], dim=1)
        return documents[:, :, None] == moved[:, None, :]


@mistake("packed-first-sentence", "packed", "packed")
class PackedFirst(Packed):
    def same(self, documents):
        return (documents[0, :, None] == documents[0, None, :])[None]


# Functions on heads.


@mistake("function-root-of-shape-one", "scale", "function")
def _():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[1] ** 0.5, dim=-1) @ v

    return attention


@mistake("function-softmax-over-queries", "softmax-axis", "function")
def _():
    def attention(q, k, v, mask=None):
        scores = torch.einsum("bhkd,bhqd->bhkq", k, q) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask.transpose(-1, -2), -1e9)
        return torch.einsum("bhkq,bhkd->bhqd", scores.softmax(dim=-1), v)

    return attention


@mistake("function-query-scaled-twice", "scale", "function")
def _():
    def attention(q, k, v, mask=None):
        d = q.size(-1)
        q, k = q / math.sqrt(d), k / math.sqrt(d)
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1) @ v

    return attention
