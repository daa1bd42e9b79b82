"""Layers that are right though few people write them: none of them may be given an error."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from checks.right_base import Heads, RightLayer, rotate, seeded, visible, weigh
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

UNUSUAL: list[RightLayer] = []


def unusual(name, **settings):
    def enter(make):
        UNUSUAL.append(RightLayer(name, partial(seeded, make), **settings))
        return make

    return enter


def offsets(t, s=None):
    return torch.arange(t)[:, None] - torch.arange(s or t)[None, :]


def real(x, keep):
    """``x`` with zeros for padded tokens, as a convolution has beyond the ends of a sentence."""
    return x if keep is None else x * keep[..., None].to(x.dtype)


# What a query sees.


@unusual("prefix-lm")
class PrefixLM(Heads):
    def forward(self, x):
        seen = offsets(x.shape[1]) >= 0
        seen[:, :4] = True
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        return self.Wo(self.mix(q, k, v, seen).transpose(1, 2).flatten(2))


class Sparse(Heads):
    def mix(self, q, k, v, seen):
        return super().mix(q, k, v, seen & self.pattern(q.shape[2]))


@unusual("dilated")
class Dilated(Sparse):
    def pattern(self, t):
        return offsets(t) % 2 == 0


@unusual("strided")
class Strided(Sparse):
    def pattern(self, t):
        return (offsets(t).abs() < 4) | (torch.arange(t) % 4 == 3)


@unusual("global-tokens")
class GlobalTokens(Sparse):
    def pattern(self, t):
        first = torch.arange(t) == 0
        return (offsets(t).abs() <= 2) | first[None] | first[:, None]


@unusual("global-tokens-apart")
class GlobalTokensApart(Heads):
    def __init__(self):
        super().__init__()
        self.Gq, self.Gk, self.Gv = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        t = x.shape[1]
        local = self.mix(q, k, v, (offsets(t).abs() <= 2) | (torch.arange(t) == 0))
        q, k, v = self.split(self.Gq(x[:, :1])), self.split(self.Gk(x)), self.split(self.Gv(x))
        whole = self.mix(q, k, v, torch.ones(1, t, dtype=torch.bool))
        return self.Wo(torch.cat([whole, local[:, :, 1:]], dim=2).transpose(1, 2).flatten(2))


@unusual("blocks-with-overlap")
class BlocksWithOverlap(Sparse):
    def pattern(self, t):
        block = torch.arange(t) // 4
        return (block[:, None] - block[None, :]).abs() <= 1


@unusual("random-blocks")
class RandomBlocks(Sparse):
    def __init__(self):
        super().__init__()
        self.register_buffer("chosen", torch.rand(512, 512) < 0.3)

    def pattern(self, t):
        return self.chosen[:t, :t] | (offsets(t).abs() <= 1)


@unusual("window-of-each-head")
class WindowOfEachHead(Sparse):
    def pattern(self, t):
        return offsets(t).abs() <= torch.tensor([1, 2, 4, 1000])[:, None, None]


@unusual("neighbourhood")
class Neighbourhood(Heads):
    def forward(self, x):
        t = x.shape[1]
        start = (torch.arange(t) - 2).clamp(0, max(t - 5, 0))[:, None]
        seen = (torch.arange(t) >= start) & (torch.arange(t) < start + 5)
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        return self.Wo(self.mix(q, k, v, seen).transpose(1, 2).flatten(2))


@unusual("swin")
class Swin(nn.Module):
    """Windows of four, moved by two, with a bias for each distance and a mask where the ends meet."""

    def __init__(self):
        super().__init__()
        self.heads = Heads()
        self.bias = nn.Parameter(torch.randn(4, 7) * 0.1)

    def forward(self, x, keep=None):
        b, t, d = x.shape
        keep = torch.ones(b, t, dtype=torch.bool) if keep is None else keep
        pad = -t % 4
        x, keep = F.pad(x, (0, 0, 0, pad)), F.pad(keep, (0, pad))
        group = torch.arange(t + pad).roll(-2)
        group[-2:] -= t + pad
        x, keep = x.roll(-2, 1).reshape(-1, 4, d), keep.roll(-2, 1).reshape(-1, 4)
        seen = ((group.view(-1, 4, 1) < 0) == (group.view(-1, 1, 4) < 0)).repeat(b, 1, 1)[:, None]
        q, k, v = (self.heads.split(W(x)) for W in (self.heads.Wq, self.heads.Wk, self.heads.Wv))
        scores = q @ k.mT / math.sqrt(8) + self.bias[:, offsets(4) + 3]
        mixed = weigh(scores, seen & keep[:, None, None]) @ v
        return self.heads.Wo(mixed.transpose(1, 2).flatten(2)).reshape(b, t + pad, d).roll(2, 1)[:, :t]


@unusual("register-tokens")
class RegisterTokens(Heads):
    def __init__(self):
        super().__init__()
        self.registers = nn.Parameter(torch.randn(1, 3, 32))

    def forward(self, x, keep=None):
        x = torch.cat([x, self.registers.expand(len(x), -1, -1)], dim=1)
        return super().forward(x, None if keep is None else F.pad(keep, (0, 3), value=True))[:, :-3]


@unusual("null-key")
class NullKey(Heads):
    def __init__(self):
        super().__init__()
        self.null = nn.Parameter(torch.randn(2, 4, 1, 8))

    def mix(self, q, k, v, seen):
        null_k, null_v = self.null[:, None].expand(-1, len(q), -1, -1, -1)
        seen = F.pad(seen, (1, 0), value=True)
        return super().mix(q, torch.cat([null_k, k], 2), torch.cat([null_v, v], 2), seen)


@unusual("drop-key")
class DropKey(Heads):
    def mix(self, q, k, v, seen):
        scores = q @ k.mT / math.sqrt(self.d_key)
        if self.training:
            scores = scores + torch.bernoulli(torch.full_like(scores, 0.1)) * -1e12
        return weigh(scores, seen) @ v


# Blocks.


@dataclass
class Output:
    hidden: torch.Tensor
    weights: torch.Tensor | None = None


class Around(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner or Heads()
        self.norm = nn.LayerNorm(32)


@unusual("rezero")
class ReZero(Around):
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x, keep=None, causal=False):
        return x + self.alpha * self.inner(x, keep, causal)


@unusual("layer-scale")
class LayerScale(Around):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((32,), 1e-6))

    def forward(self, x, keep=None, causal=False):
        return x + self.gamma * self.inner(self.norm(x), keep, causal)


@unusual("skip-init-whole-block")
class SkipInit(Around):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
        self.ff = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x, keep=None):
        x = x + self.a * self.inner(self.norm(x), keep)
        return x + self.b * self.ff(x)


@unusual("parallel-block")
class ParallelBlock(Around):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128, bias=False), nn.Linear(64, 32, bias=False)
        self.norm = nn.RMSNorm(32)

    def forward(self, x, keep=None, causal=False):
        h = self.norm(x)
        a, b = self.up(h).chunk(2, -1)
        return x + self.inner(h, keep, causal) + self.down(F.silu(a) * b)


@unusual("sandwich-norm")
class Sandwich(Around):
    def __init__(self):
        super().__init__()
        self.after = nn.LayerNorm(32)

    def forward(self, x, keep=None, causal=False):
        return x + self.after(self.inner(self.norm(x), keep, causal))


@unusual("norm-of-mixed-heads")
class SubNorm(Heads):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def mix(self, q, k, v, seen):
        return self.norm(super().mix(q, k, v, seen))


@unusual("sequential-of-norm-and-attention")
def _():
    return nn.Sequential(nn.LayerNorm(32), Heads(), nn.Linear(32, 32))


@unusual("gpt-of-two-blocks")
class TwoBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(ParallelBlock() for _ in range(2))
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, causal=True)
        return self.norm(x)


@unusual("decoder-block")
class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.cross = Heads(), Heads()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x, memory, keep=None):
        x = self.norms[0](x + self.own(x, causal=True))
        q, k, v = self.cross.Wq(x), self.cross.Wk(memory), self.cross.Wv(memory)
        seen = torch.ones(1, memory.shape[1], dtype=torch.bool) if keep is None else keep[:, None, None]
        mixed = self.cross.mix(*map(self.cross.split, (q, k, v)), seen)
        x = self.norms[1](x + self.cross.Wo(mixed.transpose(1, 2).flatten(2)))
        return self.norms[2](x + self.ff(x))


@unusual("cross-with-gate-at-zero")
class GatedCross(nn.Module):
    def __init__(self):
        super().__init__()
        self.cross, self.gate, self.norm = Heads(), nn.Parameter(torch.zeros(1)), nn.LayerNorm(32)

    def forward(self, x, context, keep=None):
        h = self.norm(x)
        q, k, v = self.cross.Wq(h), self.cross.Wk(context), self.cross.Wv(context)
        seen = torch.ones(1, context.shape[1], dtype=torch.bool) if keep is None else keep[:, None, None]
        mixed = self.cross.mix(*map(self.cross.split, (q, k, v)), seen)
        return x + self.gate.tanh() * self.cross.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("slot-attention")
class SlotAttention(nn.Module):
    """The softmax runs over slots on purpose, and weights are divided by their sum over inputs."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32, bias=False) for _ in range(3))

    def forward(self, x, context):
        weights = (self.q(x) @ self.k(context).mT / math.sqrt(32)).softmax(dim=1) + 1e-8
        return weights / weights.sum(-1, keepdim=True) @ self.v(context)


@unusual("torch-decoder")
def _():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), 2)


@unusual("torch-encoder-of-three-norm-first")
def _():
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(32), enable_nested_tensor=False)


# Projections.


@unusual("convolution-projections")
class ConvProjections(Heads):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(32, 32, 3, padding=1, groups=32)

    def forward(self, x, keep=None):
        return super().forward(self.conv(real(x, keep).mT).mT, keep)


@unusual("causal-convolution-of-projections")
class Primer(Heads):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(32, 32, 3, groups=32) for _ in range(3))

    def forward(self, x):
        q, k, v = (
            self.split(conv(F.pad(W(x).mT, (2, 0))).mT)
            for conv, W in zip(self.convs, (self.Wq, self.Wk, self.Wv), strict=True)
        )
        return self.Wo(self.mix(q, k, v, visible(x, None, True)).transpose(1, 2).flatten(2))


@unusual("token-shift")
class TokenShift(Heads):
    def forward(self, x):
        return super().forward(torch.cat([x[..., :16], F.pad(x, (0, 0, 1, -1))[..., 16:]], -1), causal=True)


@unusual("convolution-of-width-one")
class WidthOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Conv1d(32, 96, 1), nn.Conv1d(32, 32, 1)

    def forward(self, x, keep=None):
        q, k, v = self.qkv(x.mT).view(len(x), 3, 4, 8, -1).unbind(1)
        scores = torch.einsum("bhdi,bhdj->bhij", q, k) / math.sqrt(8)
        mixed = torch.einsum("bhij,bhdj->bhdi", weigh(scores, visible(x, keep, False)), v)
        return self.out(mixed.flatten(1, 2)).mT


@unusual("hypernetwork")
class Hypernetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(4, 8))
        self.maker = nn.Linear(8, 32 * 32)

    def forward(self, x, keep=None, causal=False):
        Wq, Wk, Wv, Wo = self.maker(self.embedding).view(4, 32, 32) / 8
        q, k, v = ((x @ W).unflatten(-1, (4, 8)).transpose(1, 2) for W in (Wq, Wk, Wv))
        weights = weigh(q @ k.mT / math.sqrt(8), visible(x, keep, causal))
        return (weights @ v).transpose(1, 2).flatten(2) @ Wo


@unusual("low-rank")
def _():
    layer = Heads()
    for name in ("Wq", "Wk", "Wv", "Wo"):
        setattr(layer, name, nn.Sequential(nn.Linear(32, 4, bias=False), nn.Linear(4, 32)))
    return layer


class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A, self.B = nn.Linear(32, 4, bias=False), nn.Linear(4, 32, bias=False)
        nn.init.zeros_(self.B.weight)

    def forward(self, x):
        return self.base(x) + 2 * self.B(self.A(x))


@unusual("lora")
def _():
    layer = Heads().requires_grad_(False)
    layer.Wq, layer.Wv = LoRA(layer.Wq), LoRA(layer.Wv)
    return layer


@unusual("frozen")
def _():
    return Heads().requires_grad_(False)


class Int8(nn.Module):
    def __init__(self, base):
        super().__init__()
        scale = base.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (base.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("bias", base.bias.detach())

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


@unusual("quantised")
def _():
    layer = Heads()
    for name in ("Wq", "Wk", "Wv", "Wo"):
        setattr(layer, name, Int8(getattr(layer, name)))
    return layer


@unusual("weight-norm")
def _():
    layer = Heads()
    for name in ("Wq", "Wk", "Wv", "Wo"):
        parametrizations.weight_norm(getattr(layer, name))
    return layer


@unusual("spectral-norm")
def _():
    layer = Heads()
    for name in ("Wq", "Wk", "Wv"):
        parametrizations.spectral_norm(getattr(layer, name))
    return layer


@unusual("queries-tied-to-keys")
class Tied(Heads):
    """A token sees itself only where it sees no other (Reformer)."""

    def __init__(self):
        super().__init__()
        del self.Wk

    def forward(self, x):
        q = self.split(self.Wq(x))
        scores = q @ F.normalize(q, dim=-1).mT / math.sqrt(self.d_key)
        scores = scores.masked_fill(torch.eye(x.shape[1], dtype=torch.bool), -1e5)
        scores = scores.masked_fill(offsets(x.shape[1]) < 0, -1e9)
        return self.Wo((scores.softmax(-1) @ self.split(self.Wv(x))).transpose(1, 2).flatten(2))


@unusual("keys-are-values")
class KeysAreValues(Heads):
    def __init__(self):
        super().__init__()
        del self.Wv

    def forward(self, x, keep=None, causal=False):
        q, k = self.split(self.Wq(x)), self.split(self.Wk(x))
        return self.Wo(self.mix(q, k, k, visible(x, keep, causal)).transpose(1, 2).flatten(2))


@unusual("no-query-projection")
def _():
    layer = Heads()
    layer.Wq = nn.Identity()
    return layer


@unusual("no-output-projection")
def _():
    layer = Heads()
    layer.Wo = nn.Identity()
    return layer


@unusual("latent-keys")
class Latent(nn.Module):
    """Keys and values from a narrow latent, and a rotary part apart that all heads share."""

    def __init__(self):
        super().__init__()
        self.q, self.down, self.k_rope = nn.Linear(32, 4 * 12), nn.Linear(32, 8), nn.Linear(32, 4)
        self.norm, self.up, self.out = nn.RMSNorm(8), nn.Linear(8, 4 * 16), nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        q, q_rope = self.q(x).unflatten(-1, (4, 12)).transpose(1, 2).split([8, 4], -1)
        k, v = self.up(self.norm(self.down(x))).unflatten(-1, (4, 16)).transpose(1, 2).split([8, 8], -1)
        k_rope = rotate(self.k_rope(x)[:, None]).expand(-1, 4, -1, -1)
        q, k = torch.cat([q, rotate(q_rope)], -1), torch.cat([k, k_rope], -1)
        mixed = weigh(q @ k.mT / math.sqrt(12), visible(x, keep, causal)) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


@unusual("routed-heads")
class RoutedHeads(Heads):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(32, 4)

    def forward(self, x, keep=None, causal=False):
        gate = self.router(x).softmax(-1)
        gate = gate * (gate >= gate.topk(2, -1).values[..., -1:])
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        mixed = self.mix(q, k, v, visible(x, keep, causal)) * gate.mT[..., None]
        return self.Wo(mixed.transpose(1, 2).flatten(2))


# Scores.


@unusual("t5-buckets")
class T5Buckets(Heads):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def mix(self, q, k, v, seen):
        distance = -offsets(q.shape[2])
        bucket = 8 * (distance > 0) + distance.abs().clamp(max=7)
        return weigh(q @ k.mT / math.sqrt(self.d_key) + self.table(bucket).permute(2, 0, 1), seen) @ v


@unusual("t5-initialised-for-no-scale", needs="transformers")
def _():
    from transformers.models.t5.modeling_t5 import T5Config, T5LayerSelfAttention

    config = T5Config(d_model=32, d_kv=8, num_heads=4, d_ff=64, num_layers=1)
    layer = T5LayerSelfAttention(config, has_relative_attention_bias=True, layer_idx=0)
    nn.init.normal_(layer.SelfAttention.q.weight, std=(32 * 8) ** -0.5)
    for W in (layer.SelfAttention.k, layer.SelfAttention.v, layer.SelfAttention.o):
        nn.init.normal_(W.weight, std=32**-0.5)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, keep=None):
            mask = torch.zeros(len(x), 1, x.shape[1], x.shape[1])
            if keep is not None:
                mask = mask.masked_fill(~keep[:, None, None], torch.finfo(torch.float32).min)
            return self.layer(x, attention_mask=mask)[0]

    return Layer()


@unusual("alibi-both-sides")
class AlibiBothSides(Heads):
    def mix(self, q, k, v, seen):
        bias = -(2.0 ** -torch.arange(2, 10, 2.0))[:, None, None] * offsets(q.shape[2]).abs()
        return weigh(q @ k.mT / math.sqrt(self.d_key) + bias, seen) @ v


@unusual("xpos")
class XPos(Heads):
    def mix(self, q, k, v, seen):
        t = q.shape[2]
        decay = ((torch.arange(0, 8, 2) / 8 + 0.4) / 1.4).repeat(2) ** ((torch.arange(t)[:, None] - t // 2) / 64)
        return super().mix(rotate(q) * decay, rotate(k) / decay, v, seen)


@unusual("rotary-part")
class RotaryPart(Heads):
    def mix(self, q, k, v, seen):
        q, k = (torch.cat([rotate(a[..., :4]), a[..., 4:]], -1) for a in (q, k))
        return super().mix(q, k, v, seen)


@unusual("scale-by-visible-keys")
class ScalableSoftmax(Heads):
    """The scores are multiplied by s · log n, where n keys are visible (scalable softmax)."""

    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.full((4, 1, 1), 0.43))

    def mix(self, q, k, v, seen):
        n = seen.sum(-1, keepdim=True).clamp(min=1)
        return weigh(q @ k.mT / math.sqrt(self.d_key) * self.s * n.log(), seen) @ v


@unusual("scale-of-each-head")
class ScaleOfEachHead(Heads):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((4, 1, 1), self.d_key**-0.5))

    def mix(self, q, k, v, seen):
        return weigh(q @ k.mT * self.scale, seen) @ v


@unusual("normalised-transformer")
class NormalisedTransformer(Heads):
    def __init__(self):
        super().__init__()
        self.s = nn.Parameter(torch.ones(4, 1, 8))

    def mix(self, q, k, v, seen):
        q, k = self.s * F.normalize(rotate(q), dim=-1), self.s * F.normalize(rotate(k), dim=-1)
        return weigh(q @ k.mT * math.sqrt(self.d_key), seen) @ v


@unusual("squared-distance")
class SquaredDistance(Heads):
    def mix(self, q, k, v, seen):
        return weigh(-torch.cdist(q, k).square() / (2 * math.sqrt(self.d_key)), seen) @ v


@unusual("additive")
class Additive(Heads):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 1, 1, 8))

    def mix(self, q, k, v, seen):
        return weigh(((q[:, :, :, None] + k[:, :, None]).tanh() * self.w).sum(-1), seen) @ v


@unusual("synthesizer-random")
class RandomSynthesizer(Heads):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 512, 512))
        del self.Wq, self.Wk

    def forward(self, x, keep=None, causal=False):
        scores = self.table[:, : x.shape[1], : x.shape[1]].expand(len(x), -1, -1, -1)
        mixed = weigh(scores, visible(x, keep, causal)) @ self.split(self.Wv(x))
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("synthesizer-dense")
class DenseSynthesizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 512))
        self.value = nn.Linear(32, 32)

    def forward(self, x, keep=None, causal=False):
        seen = visible(x, keep, causal)
        return weigh(self.scores(x)[..., : x.shape[1]], seen if seen.ndim == 2 else seen[:, 0]) @ self.value(x)


@unusual("forgetting")
class Forgetting(Heads):
    def __init__(self):
        super().__init__()
        self.forget = nn.Linear(32, 4)

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        total = F.logsigmoid(self.forget(x)).cumsum(1).mT
        scores = q @ k.mT / math.sqrt(self.d_key) + total[..., None] - total[..., None, :]
        return self.Wo((weigh(scores, visible(x, None, True)) @ v).transpose(1, 2).flatten(2))


@unusual("differential")
class Differential(Heads):
    def __init__(self):
        super().__init__()
        self.Wq2, self.Wk2 = nn.Linear(32, 32), nn.Linear(32, 32)
        self.lamb, self.norm = nn.Parameter(torch.full((4, 1, 1), 0.3)), nn.RMSNorm(8)

    def forward(self, x, keep=None, causal=False):
        seen = visible(x, keep, causal)
        q, k, q2, k2, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wq2, self.Wk2, self.Wv))
        first, second = weigh(q @ k.mT / math.sqrt(8), seen), weigh(q2 @ k2.mT / math.sqrt(8), seen)
        return self.Wo((0.7 * self.norm((first - self.lamb * second) @ v)).transpose(1, 2).flatten(2))


@unusual("sigmoid")
class Sigmoid(Heads):
    def mix(self, q, k, v, seen):
        n = seen.sum(-1, keepdim=True).clamp(min=1)
        return (q @ k.mT / math.sqrt(self.d_key) - n.log()).masked_fill(~seen, -1e9).sigmoid() @ v


@unusual("sigmoid-bias-fixed")
class SigmoidFixed(Heads):
    def mix(self, q, k, v, seen):
        return (q @ k.mT / math.sqrt(self.d_key) - 3).masked_fill(~seen, float("-inf")).sigmoid() @ v


@unusual("squared-relu")
class SquaredReLU(Heads):
    def mix(self, q, k, v, seen):
        scores = F.relu(q @ k.mT / math.sqrt(self.d_key)).square().masked_fill(~seen, 0)
        return scores / seen.sum(-1, keepdim=True).clamp(min=1) @ v


def sparsemax(z):
    s = z.sort(-1, descending=True).values
    n = torch.arange(1, z.shape[-1] + 1)
    total = s.cumsum(-1) - 1
    support = (n * s > total).sum(-1, keepdim=True)
    return (z - total.gather(-1, support - 1) / support).clamp(min=0)


@unusual("sparsemax")
class Sparsemax(Heads):
    def mix(self, q, k, v, seen):
        return sparsemax((q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -1e4)) @ v


@unusual("entmax")
class Entmax(Heads):
    def mix(self, q, k, v, seen):
        z = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -1e4) / 2
        low = z.amax(-1, keepdim=True) - 1
        high = low + 1
        for _ in range(40):
            middle = (low + high) / 2
            enough = (z - middle).clamp(min=0).square().sum(-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        p = (z - low).clamp(min=0).square()
        return p / p.sum(-1, keepdim=True) @ v


@unusual("top-k")
class TopK(Heads):
    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -1e9)
        least = scores.topk(min(4, scores.shape[-1]), -1).values[..., -1:]
        return weigh(scores, seen & (scores >= least)) @ v


@unusual("stick-breaking")
class StickBreaking(Heads):
    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        z = q @ k.mT / math.sqrt(self.d_key)
        before = offsets(x.shape[1]) > 0
        left = F.logsigmoid(-z).masked_fill(~before, 0)
        log_weights = F.logsigmoid(z) + left.flip(-1).cumsum(-1).flip(-1) - left
        weights = log_weights.masked_fill(~before, float("-inf")).exp()
        return self.Wo((weights @ v + (1 - weights.sum(-1, keepdim=True)) * v).transpose(1, 2).flatten(2))


@unusual("mixture-of-softmaxes")
class MixtureOfSoftmaxes(Heads):
    def __init__(self):
        super().__init__()
        self.share = nn.Linear(8, 2)

    def mix(self, q, k, v, seen):
        scores = q @ k.mT / math.sqrt(self.d_key)
        share = self.share(q).softmax(-1)
        return (share[..., :1] * weigh(scores, seen) + share[..., 1:] * weigh(scores.tanh(), seen)) @ v


# Attention without a softmax of scores, and none at all.


@unusual("performer")
class Performer(Heads):
    def __init__(self):
        super().__init__()
        self.register_buffer("omega", torch.randn(8, 64))

    def phi(self, x):
        x = x * self.d_key**-0.25
        return (x @ self.omega - x.square().sum(-1, keepdim=True) / 2).exp() + 1e-4

    def forward(self, x, keep=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = self.phi(q), self.phi(k) if keep is None else self.phi(k) * keep[:, None, :, None]
        mixed = q @ (k.mT @ v) / (q @ k.sum(2)[..., None] + 1e-6)
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("performer-causal")
class CausalPerformer(Performer):
    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = self.phi(q), self.phi(k)
        kv = (k[..., :, None] * v[..., None, :]).cumsum(2)
        mixed = torch.einsum("bhtm,bhtmd->bhtd", q, kv) / (q * k.cumsum(2)).sum(-1, keepdim=True)
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("efficient-attention")
class Efficient(Heads):
    """Softmax of queries over features, and of keys over tokens (Shen et al. 2018)."""

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        mixed = q.softmax(-1) @ (k.softmax(-2).mT @ v)
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("cross-covariance")
class CrossCovariance(Heads):
    """Features attend to features (XCiT)."""

    def forward(self, x):
        q, k, v = (self.split(W(x)).mT for W in (self.Wq, self.Wk, self.Wv))
        weights = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(-1)
        return self.Wo((weights @ v).permute(0, 3, 1, 2).flatten(2))


@unusual("nystrom")
class Nystrom(Heads):
    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = q * self.d_key**-0.25, k * self.d_key**-0.25
        q_mean, k_mean = (F.adaptive_avg_pool1d(a.flatten(0, 1).mT, 4).mT.unflatten(0, a.shape[:2]) for a in (q, k))
        left, middle, right = (q @ k_mean.mT).softmax(-1), (q_mean @ k_mean.mT).softmax(-1), (q_mean @ k.mT).softmax(-1)
        mixed = left @ (torch.linalg.pinv(middle, rtol=1e-3) @ (right @ v))
        return self.Wo(mixed.transpose(1, 2).flatten(2))


@unusual("linformer")
class Linformer(Heads):
    def __init__(self):
        super().__init__()
        self.E, self.F = nn.Parameter(torch.randn(8, 512) / 8), nn.Parameter(torch.randn(8, 512) / 8)

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        k, v = self.E[:, : x.shape[1]] @ k, self.F[:, : x.shape[1]] @ v
        return self.Wo(((q @ k.mT / math.sqrt(self.d_key)).softmax(-1) @ v).transpose(1, 2).flatten(2))


@unusual("retention")
class Retention(Heads):
    def __init__(self):
        super().__init__()
        self.norm, self.gate = nn.RMSNorm(8), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        decay = (1 - 2.0 ** -torch.arange(3.0, 7.0))[:, None, None] ** offsets(x.shape[1]).clamp(min=0)
        weights = rotate(q) @ rotate(k * self.d_key**-0.5).mT * decay * (offsets(x.shape[1]) >= 0)
        mixed = self.norm(weights @ v).transpose(1, 2).flatten(2)
        return self.Wo(F.silu(self.gate(x)) * mixed)


@unusual("gated-linear")
class GatedLinear(Heads):
    def __init__(self):
        super().__init__()
        self.forget = nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        forget = self.split(self.forget(x).sigmoid())
        state, rows = 0, []
        for t in range(x.shape[1]):
            state = forget[:, :, t, :, None] * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            rows.append(torch.einsum("bhd,bhde->bhe", q[:, :, t] * self.d_key**-0.5, state))
        return self.Wo(torch.stack(rows, 2).transpose(1, 2).flatten(2))


@unusual("delta-rule")
class DeltaRule(Heads):
    def __init__(self):
        super().__init__()
        self.beta = nn.Linear(32, 4)

    def forward(self, x):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k, beta = F.normalize(q, dim=-1), F.normalize(k, dim=-1), self.beta(x).sigmoid().mT[..., None]
        state, rows = torch.zeros(len(x), 4, 8, 8, dtype=x.dtype), []
        for t in range(x.shape[1]):
            known = (k[:, :, t, None] @ state)[:, :, 0]
            state = state + k[:, :, t, :, None] * (beta[:, :, t] * (v[:, :, t] - known))[:, :, None]
            rows.append((q[:, :, t, None] @ state)[:, :, 0])
        return self.Wo(torch.stack(rows, 2).transpose(1, 2).flatten(2))


@unusual("attention-free")
class AttentionFree(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.w = nn.Parameter(torch.randn(512, 512) * 0.1)

    def forward(self, x, causal=False):
        t = x.shape[1]
        w = self.w[:t, :t].masked_fill(~visible(x, None, causal), float("-inf"))
        weights = (w[None, :, :, None] + self.k(x)[:, None]).softmax(2)
        return self.o(self.q(x).sigmoid() * (weights * self.v(x)[:, None]).sum(2))


@unusual("rwkv-time-mix")
class TimeMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.r, self.k, self.v, self.o = (nn.Linear(32, 32, bias=False) for _ in range(4))
        self.decay, self.first, self.share = (nn.Parameter(torch.rand(32)) for _ in range(3))

    def forward(self, x):
        h = x * self.share + F.pad(x, (0, 0, 1, -1)) * (1 - self.share)
        r, k, v = self.r(h).sigmoid(), self.k(h).clamp(max=30), self.v(h)
        a, b, rows = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            now = (self.first + k[:, t]).exp()
            rows.append((a + now * v[:, t]) / (b + now))
            decay = (-self.decay.exp()).exp()
            a, b = decay * a + k[:, t].exp() * v[:, t], decay * b + k[:, t].exp()
        return self.o(r * torch.stack(rows, 1))


@unusual("causal-convolution")
class CausalConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.conv, self.out = nn.Linear(32, 64), nn.Conv1d(32, 32, 4, groups=32), nn.Linear(32, 32)

    def forward(self, x):
        h, gate = self.inner(x).chunk(2, -1)
        return self.out(F.silu(self.conv(F.pad(h.mT, (3, 0))).mT) * F.silu(gate))


@unusual("hyena")
class Hyena(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out, self.filter = nn.Linear(32, 96), nn.Linear(32, 32), nn.Parameter(torch.randn(32, 512) / 8)

    def forward(self, x):
        t = x.shape[1]
        a, b, v = self.inner(x).chunk(3, -1)
        spectrum = torch.fft.rfft((a * v).mT, 2 * t) * torch.fft.rfft(self.filter[:, :t], 2 * t)
        return self.out(b * torch.fft.irfft(spectrum, 2 * t)[..., :t].mT)


@unusual("mixer")
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(512, 512) / 8)
        self.norm, self.ff = nn.LayerNorm(32), nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        x = x + self.tokens[: x.shape[1], : x.shape[1]] @ self.norm(x)
        return x + self.ff(x)


@unusual("spatial-gate-causal")
class SpatialGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 64), nn.Linear(32, 32), nn.LayerNorm(32)
        self.weight, self.bias = nn.Parameter(torch.randn(512, 512) / 8), nn.Parameter(torch.ones(512, 1))

    def forward(self, x):
        t = x.shape[1]
        u, v = F.gelu(self.up(x)).chunk(2, -1)
        return self.down(u * (self.weight[:t, :t].tril() @ self.norm(v) + self.bias[:t]))


@unusual("fourier")
class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        return self.norm(x + torch.fft.fft2(x).real)


@unusual("moving-average-and-one-head")
class MovingAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.randn(32))
        self.k, self.v, self.o = nn.Linear(32, 16), nn.Linear(32, 32), nn.Linear(32, 32)
        self.scale, self.shift = nn.Parameter(torch.randn(2, 16)), nn.Parameter(torch.randn(2, 16))

    def forward(self, x):
        alpha, state, rows = self.alpha.sigmoid(), 0, []
        for t in range(x.shape[1]):
            state = alpha * x[:, t] + (1 - alpha) * state
            rows.append(state)
        z = F.silu(self.k(torch.stack(rows, 1)))
        q, k = z * self.scale[0] + self.shift[0], z * self.scale[1] + self.shift[1]
        return self.o(weigh(q @ k.mT / 4, visible(x, None, True)) @ F.silu(self.v(x)))


@unusual("lstm")
class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 32, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


@unusual("feed-forward")
def _():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))


# Numbers and what is returned.


@unusual("bfloat16")
def _():
    return Heads().to(torch.bfloat16)


@unusual("float16")
def _():
    return Heads().to(torch.float16)


@unusual("float64")
def _():
    return Heads().double()


@unusual("autocast")
class Autocast(Heads):
    def forward(self, x, keep=None, causal=False):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x, keep, causal).float()


@unusual("complex-scores")
class Complex(Heads):
    def mix(self, q, k, v, seen):
        q, k = (torch.view_as_complex(a.unflatten(-1, (-1, 2)).contiguous()) for a in (q, k))
        return weigh((q @ k.mH).real / math.sqrt(self.d_key), seen) @ v


@unusual("returns-dict")
class ReturnsDict(Heads):
    def forward(self, x, keep=None, causal=False):
        return {"hidden": super().forward(x, keep, causal), "loss": None}


@unusual("returns-dataclass")
class ReturnsDataclass(Heads):
    def forward(self, x, keep=None, causal=False):
        return Output(super().forward(x, keep, causal))


Named = namedtuple("Named", "output weights cache")


@unusual("returns-named-tuple")
class ReturnsNamed(Heads):
    def forward(self, x, keep=None, causal=False):
        return Named(super().forward(x, keep, causal), None, None)


@unusual("returns-three")
class ReturnsThree(Heads):
    def forward(self, x, keep=None, causal=False):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        weights = weigh(q @ k.mT / math.sqrt(8), visible(x, keep, causal))
        return self.Wo((weights @ v).transpose(1, 2).flatten(2)), weights, (k, v)


@unusual("returns-model-output", needs="transformers")
class ReturnsModelOutput(Heads):
    def forward(self, x, keep=None, causal=False):
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=super().forward(x, keep, causal))


@unusual("returns-list")
class ReturnsList(Heads):
    def forward(self, x, keep=None, causal=False):
        return [super().forward(x, keep, causal), None]


# How it is called and run.


@unusual("partial")
def _():
    return partial(Heads(), causal=True)


@unusual("bound-method")
def _():
    return Heads().forward


@unusual("lambda")
def _():
    layer = Heads()
    return lambda x, keep=None: layer(x, keep)


@unusual("closure-of-tensors")
def _():
    Wq, Wk, Wv, Wo = (torch.randn(4, 32, 8, requires_grad=True), *(torch.randn(4, 32, 8) for _ in range(3)))

    def attend(x, keep=None, causal=False):
        q, k, v = (torch.einsum("btc,hcd->bhtd", x, W / math.sqrt(32)) for W in (Wq, Wk, Wv))
        weights = weigh(q @ k.mT / math.sqrt(8), visible(x, keep, causal))
        return torch.einsum("bhqk,bhkd,hcd->bqc", weights, v, Wo / math.sqrt(32))

    return attend


@unusual("vmap")
class Vmap(Heads):
    def forward(self, x, causal=False):
        def sentence(x):
            q, k, v = (W(x).unflatten(-1, (4, 8)).transpose(0, 1) for W in (self.Wq, self.Wk, self.Wv))
            return self.Wo(self.mix(q, k, v, visible(x[None], None, causal)).transpose(0, 1).flatten(1))

        return torch.vmap(sentence)(x)


@unusual("checkpointed")
class Checkpointed(Heads):
    def forward(self, x, keep=None, causal=False):
        return checkpoint(super().forward, x, keep, causal, use_reentrant=False)


@unusual("sentence-by-sentence")
class SentenceBySentence(Heads):
    """Only the real tokens of each sentence go through the layer, as with packed kernels."""

    def forward(self, x, keep=None):
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if keep is None else keep
        out = torch.zeros_like(x)
        for i, row in enumerate(keep):
            if row.any():
                out[i, row] = super().forward(x[i, row][None])[0]
        return out


@unusual("unpadded")
class Unpadded(Heads):
    def forward(self, x, keep=None):
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if keep is None else keep
        sentence = torch.arange(len(x))[:, None].expand(keep.shape)[keep]
        q, k, v = (self.split(W(x[keep][None])) for W in (self.Wq, self.Wk, self.Wv))
        mixed = self.mix(q, k, v, sentence[:, None] == sentence[None, :])
        out = torch.zeros_like(x)
        out[keep] = self.Wo(mixed.transpose(1, 2).flatten(2))[0]
        return out


@unusual("script")
def _():
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.qkv(x).view(x.size(0), x.size(1), 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
            weights = (q @ k.transpose(-2, -1) * 8**-0.5).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).flatten(2))

    return torch.jit.script(Small())


@unusual("hooks-and-names")
def _():
    parts = OrderedDict(norm=nn.LayerNorm(32), attention=Heads(), drop=nn.Dropout(0.5))
    model = nn.Sequential(parts)
    model.attention.register_forward_hook(lambda module, given, output: output * 2)
    return model


@unusual("window-cache")
class WindowCache(Heads):
    """The cache holds the last five tokens, which are all that a window of six needs."""

    def forward(self, x, cache=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        t, s = q.shape[2], k.shape[2]
        distance = offsets(s)[s - t :]
        mixed = self.mix(q, k, v, (distance >= 0) & (distance < 6))
        return self.Wo(mixed.transpose(1, 2).flatten(2)), (k[:, :, -5:], v[:, :, -5:])


@unusual("linear-attention-cache")
class LinearCache(Heads):
    def forward(self, x, cache=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv, z = (k[..., :, None] * v[..., None, :]).cumsum(2), k.cumsum(2)
        if cache is not None:
            kv, z = kv + cache[0], z + cache[1]
        mixed = torch.einsum("bhtd,bhtde->bhte", q, kv) / (q * z).sum(-1, keepdim=True)
        return self.Wo(mixed.transpose(1, 2).flatten(2)), (kv[:, :, -1:], z[:, :, -1:])


@unusual("quantised-cache")
class RotaryCacheInHalf(Heads):
    def forward(self, x, cache=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        start = 0 if cache is None else cache[0].shape[2]
        positions = torch.arange(start, start + x.shape[1])[None].expand(len(x), -1)
        q, k, v = rotate(q, positions=positions), rotate(k, positions=positions).half(), v.half()
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        mixed = self.mix(q, k.float(), v.float(), offsets(k.shape[2])[start:] >= 0)
        return self.Wo(mixed.transpose(1, 2).flatten(2)), (k, v)


# Whole small models of transformers, called with embeddings.


class Whole(nn.Module):
    def __init__(self, model, masked=True):
        super().__init__()
        self.model = model
        if not masked:
            self.forward = self.unmasked

    def forward(self, x, keep=None):
        mask = torch.ones(x.shape[:2], dtype=torch.long) if keep is None else keep.long()
        return self.model(inputs_embeds=x, attention_mask=mask).last_hidden_state

    def unmasked(self, x):
        return self.model(inputs_embeds=x).last_hidden_state


def whole(family, masked=True, model="Model", **settings):
    def make():
        import transformers

        config = getattr(transformers, f"{family}Config")
        common = {
            "vocab_size": 50,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "attn_implementation": "eager",
        }
        made = getattr(transformers, f"{family}{model}")(config(**(common | settings)))
        return Whole(made.eval(), masked)

    UNUSUAL.append(RightLayer(f"transformers-{family.lower()}", partial(seeded, make), needs="transformers"))


long = {"max_position_embeddings": 600}
for name in ("Roberta", "Electra", "Camembert", "Ernie", "MPNet", "RoFormer", "Albert", "MegatronBert", "XLMRoberta"):
    whole(name, **long, **({"embedding_size": 32} if name in ("Electra", "RoFormer", "Albert") else {}))
for name in ("StableLm", "Starcoder2", "Phi3", "Nemotron", "Persimmon", "BioGpt", "Olmo", "SmolLM3", "Exaone4", "Glm"):
    whole(name, num_key_value_heads=2 if name in ("Starcoder2", "Phi3", "SmolLM3", "Exaone4", "Glm") else 4, **long)
for name in (
    "Apertus",
    "Helium",
    "Cohere2",
    "Ministral",
    "HunYuanDenseV1",
    "NanoChat",
    "Granite",
    "Jais2",
    "VaultGemma",
):
    whole(name, num_key_value_heads=2, head_dim=8, **long)
whole("Gemma", num_key_value_heads=2, head_dim=8)
whole("OPT", word_embed_proj_dim=32, ffn_dim=64, **long)
whole("Bloom", n_head=4, n_layer=1)
whole("Mpt", d_model=32, n_heads=4, n_layers=1, max_seq_len=600)
whole("XLNet", d_model=32, n_head=4, n_layer=1, d_inner=64)
whole("XLM", emb_dim=32, n_heads=4, n_layers=1, masked=False, **long)
whole("Longformer", attention_window=[8], **long)
whole("BigBird", attention_type="original_full", **long)
whole("FNet", masked=False, **long)
whole("SqueezeBert", embedding_size=32, q_groups=1, k_groups=1, v_groups=1, post_attention_groups=1, **long)
whole("ConvBert", embedding_size=32, num_groups=1, head_ratio=2, masked=False, **long)
whole("ModernBert", global_attn_every_n_layers=2, local_attention=8, num_hidden_layers=2)
whole("Esm", position_embedding_type="rotary", mask_token_id=3, **long)
whole("CodeGen", n_embd=32, n_head=4, n_layer=1, rotary_dim=4, n_positions=600)
whole("GPTBigCode", n_embd=32, n_head=4, n_layer=1, n_positions=600)
whole("XGLM", d_model=32, attention_heads=4, num_layers=1, ffn_dim=64, masked=False, **long)
whole("Mamba2", masked=False, head_dim=8, num_heads=8, state_size=8, n_groups=1, chunk_size=16)
whole("Mamba", masked=False, state_size=8)
whole("FalconMamba", masked=False, state_size=8)
whole("Rwkv", masked=False, num_hidden_layers=2, attention_hidden_size=32, context_length=600)
whole("RecurrentGemma", masked=False, num_key_value_heads=2, head_dim=8, num_hidden_layers=3, attention_window_size=8)
whole(
    "Jamba",
    num_key_value_heads=2,
    num_hidden_layers=2,
    attn_layer_period=2,
    attn_layer_offset=1,
    use_mamba_kernels=False,
)
whole("DiffLlama", num_key_value_heads=2)
whole(
    "Zamba2",
    masked=False,
    num_hidden_layers=2,
    layers_block_type=["mamba", "hybrid"],
    mamba_d_state=8,
    mamba_headdim=8,
    n_mamba_heads=8,
    mamba_ngroups=1,
    chunk_size=16,
)
whole(
    "Bamba",
    masked=False,
    num_key_value_heads=2,
    num_hidden_layers=2,
    attn_layer_indices=[1],
    mamba_n_heads=8,
    mamba_d_head=8,
    mamba_d_state=8,
    mamba_n_groups=1,
)
whole("Lfm2", masked=False, num_key_value_heads=2, num_hidden_layers=2, layer_types=["conv", "full_attention"])
whole("GptOss", num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1)
whole("Mixtral", num_key_value_heads=2, num_local_experts=2)
whole("Olmoe", num_key_value_heads=2, num_experts=2, num_experts_per_tok=1)
whole(
    "Qwen3Next",
    num_key_value_heads=2,
    head_dim=8,
    num_hidden_layers=2,
    layer_types=["linear_attention", "full_attention"],
    num_experts=2,
    num_experts_per_tok=1,
    moe_intermediate_size=16,
    shared_expert_intermediate_size=16,
    linear_num_key_heads=2,
    linear_num_value_heads=2,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
)


@unusual("transformers-gemma3-text", needs="transformers")
def _():
    from transformers import Gemma3TextConfig, Gemma3TextModel

    config = Gemma3TextConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=64, sliding_window=6, layer_types=["sliding_attention", "full_attention"],
        attn_implementation="eager",
    )  # fmt: skip
    return Whole(Gemma3TextModel(config).eval())


class Decoder(nn.Module):
    """A decoder of target and memory."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, x, memory, keep=None):
        mask = torch.ones(memory.shape[:2], dtype=torch.long) if keep is None else keep.long()
        return self.decoder(
            inputs_embeds=x, encoder_hidden_states=memory, encoder_attention_mask=mask
        ).last_hidden_state


for family, module in (("MBart", "mbart"), ("M2M100", "m2m_100"), ("Marian", "marian"), ("Pegasus", "pegasus")):

    def _make(family=family, module=module):
        import importlib

        here = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
        config = getattr(here, f"{family}Config")(
            vocab_size=50, d_model=32, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=64,
            max_position_embeddings=600, pad_token_id=0, attn_implementation="eager",
        )  # fmt: skip
        return Decoder(getattr(here, f"{family}Decoder")(config).eval())

    unusual(f"transformers-{family.lower()}-decoder", needs="transformers")(_make)
