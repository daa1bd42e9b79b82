"""Layers by hand: the ways to write the softmax, its scale and its mask, and the positions."""

import math

import torch
from checks.right_base import Heads, right, rotate, weigh
from torch import nn
from torch.nn import functional as F  # noqa: N812

# The softmax, its scale and its mask


@right("plain")
class Plain(Heads):
    """As the paper has it."""


@right("one-head", d_model=24)
class OneHead(Heads):
    def __init__(self):
        super().__init__(24, n_heads=1)


@right("odd-sizes", d_model=30)
class OddSizes(Heads):
    def __init__(self):
        super().__init__(30, n_heads=6)


@right("d-key-apart")
class DKeyApart(Heads):
    """Heads that are wider than their share of d_model."""

    def __init__(self):
        super().__init__(32, n_heads=3, d_key=16)


@right("sdpa")
class Fused(Heads):
    def mix(self, q, k, v, seen):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


@right("query-scaled-first")
class QueryScaledFirst(Heads):
    def mix(self, q, k, v, seen):
        return weigh((q * self.d_key**-0.5) @ k.mT, seen) @ v


@right("fourth-root-of-both")
class FourthRoot(Heads):
    def mix(self, q, k, v, seen):
        return weigh((q * self.d_key**-0.25) @ (k * self.d_key**-0.25).mT, seen) @ v


@right("sdpa-scale-given")
class FusedScaleGiven(Heads):
    def mix(self, q, k, v, seen):
        return F.scaled_dot_product_attention(q / math.sqrt(self.d_key), k, v, attn_mask=seen, scale=1.0)


@right("mup")  # a notice
class MuP(Heads):
    def mix(self, q, k, v, seen):
        return weigh(q @ k.mT / self.d_key, seen) @ v


@right("learned-temperature")
class LearnedTemperature(Heads):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((self.n_heads, 1, 1), -0.5 * math.log(self.d_key)))

    def mix(self, q, k, v, seen):
        return weigh(q @ k.mT * self.log_scale.exp(), seen) @ v


@right("cosine")
class Cosine(Heads):
    """Query-Key Normalization, Henry et al. 2020, with a scale of 10."""

    def mix(self, q, k, v, seen):
        return weigh(10 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT, seen) @ v


@right("cosine-learned-scale")
class CosineLearnedScale(Heads):
    """As in Swin Transformer V2."""

    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.full((self.n_heads, 1, 1), math.log(10)))

    def mix(self, q, k, v, seen):
        scale = self.logit_scale.clamp(max=math.log(100)).exp()
        return weigh(F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * scale, seen) @ v


@right("softcap")
class Softcap(Heads):
    def mix(self, q, k, v, seen):
        return weigh(5 * torch.tanh(q @ k.mT / math.sqrt(self.d_key) / 5), seen) @ v


@right("renormalised")  # a notice
class Renormalised(Heads):
    def mix(self, q, k, v, seen):
        weights = (q @ k.mT / math.sqrt(self.d_key)).softmax(dim=-1) * seen
        return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9) @ v


@right("float32-softmax")
class Float32Softmax(Heads):
    """In bfloat16 but for the softmax."""

    def __init__(self):
        super().__init__()
        self.bfloat16()

    def forward(self, x, keep=None, causal=False):
        return super().forward(x.bfloat16(), keep, causal).to(x.dtype)

    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).float()
        return F.softmax(scores.masked_fill(~seen, -1e9), dim=-1, dtype=torch.float32).to(v.dtype) @ v


@right("exponentials")
class Exponentials(Heads):
    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -1e30)
        powers = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        return powers / powers.sum(dim=-1, keepdim=True) @ v


@right("divided-last")
class DividedLast(Heads):
    """The sum of exponentials divides the output, not the weights."""

    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -1e30)
        powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return powers @ v / powers.sum(dim=-1, keepdim=True)


@right("logsumexp")
class LogSumExp(Heads):
    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -math.inf)
        total = torch.logsumexp(scores, dim=-1, keepdim=True)
        return (scores - total.masked_fill(total.isinf(), 0)).exp() @ v


@right("online-softmax")
class OnlineSoftmax(Heads):
    """Blocks of three keys, as FlashAttention has them."""

    def mix(self, q, k, v, seen):
        q = q / math.sqrt(self.d_key)
        highest = torch.full_like(q[..., :1], torch.finfo(q.dtype).min)
        total, output = torch.zeros_like(highest), torch.zeros_like(q)
        for start in range(0, k.shape[2], 3):
            block = slice(start, start + 3)
            scores = (q @ k[:, :, block].mT).masked_fill(~seen[..., block], torch.finfo(q.dtype).min)
            higher = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
            powers, fade = (scores - higher).exp(), (highest - higher).exp()
            total = total * fade + powers.sum(dim=-1, keepdim=True)
            output = output * fade + powers @ v[:, :, block]
            highest = higher
        return output / total


@right("rows-of-queries")
class RowsOfQueries(Heads):
    """Blocks of two queries, to save memory."""

    def mix(self, q, k, v, seen):
        blocks = range(0, q.shape[2], 2)
        return torch.cat(
            [super(RowsOfQueries, self).mix(q[:, :, i : i + 2], k, v, seen[..., i : i + 2, :]) for i in blocks], 2
        )


@right("softmax-module")
class SoftmaxModule(Heads):
    """Infinite scores, and rows of NaN that become zeros."""

    def __init__(self):
        super().__init__()
        self.softmax, self.drop = nn.Softmax(dim=-1), nn.Dropout(0.2)

    def mix(self, q, k, v, seen):
        scores = torch.where(seen, torch.matmul(q, k.transpose(-2, -1)) / self.d_key**0.5, -math.inf)
        return torch.matmul(self.drop(torch.nan_to_num(self.softmax(scores))), v)


@right("sink")  # a notice
class Sink(Heads):
    """A learned score of nothing, as gpt-oss has it."""

    def __init__(self):
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(self.n_heads))

    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, torch.finfo(q.dtype).min)
        sink = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1] @ v


@right("softmax-plus-one")  # a notice
class SoftmaxPlusOne(Heads):
    """exp(s) / (1 + Σ exp(s)), which is add_zero_attn of PyTorch."""

    def mix(self, q, k, v, seen):
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(~seen, -math.inf)
        highest = scores.amax(dim=-1, keepdim=True).clamp(min=0)
        powers = (scores - highest).exp()
        return powers / (powers.sum(dim=-1, keepdim=True) + (-highest).exp()) @ v


@right("memory-keys")
class MemoryKeys(Heads):
    """Three learned keys and values, which each query sees."""

    def __init__(self):
        super().__init__()
        self.mem_k, self.mem_v = (nn.Parameter(torch.randn(1, self.n_heads, 3, self.d_key)) for _ in range(2))

    def mix(self, q, k, v, seen):
        k, v = (torch.cat([m.expand(len(q), -1, -1, -1), t], dim=2) for m, t in ((self.mem_k, k), (self.mem_v, v)))
        return super().mix(q, k, v, F.pad(seen, (3, 0), value=True))


@right("talking-heads-before")
class TalkingBefore(Heads):
    """Scores are mixed over heads, Shazeer et al. 2020."""

    def __init__(self):
        super().__init__()
        self.talk = nn.Parameter(torch.randn(self.n_heads, self.n_heads) * self.n_heads**-0.5)

    def mix(self, q, k, v, seen):
        scores = torch.einsum("bhqk,hg->bgqk", q @ k.mT / math.sqrt(self.d_key), self.talk)
        return weigh(scores, seen) @ v


@right("talking-heads-both")
class TalkingBoth(TalkingBefore):
    """Weights are mixed too, from heads as they are onwards."""

    def __init__(self):
        super().__init__()
        self.talk_after = nn.Conv2d(self.n_heads, self.n_heads, 1, bias=False)
        nn.init.dirac_(self.talk_after.weight)

    def mix(self, q, k, v, seen):
        scores = torch.einsum("bhqk,hg->bgqk", q @ k.mT / math.sqrt(self.d_key), self.talk)
        return self.talk_after(weigh(scores, seen)) @ v


@right("local-window")
class LocalWindow(Heads):
    def mix(self, q, k, v, seen):
        place = torch.arange(q.shape[2])
        return super().mix(q, k, v, seen & ((place[:, None] - place).abs() <= 2))


@right("windows-in-blocks")
class WindowsInBlocks(Heads):
    """Windows of three tokens apart, as in Swin Transformer; the last may hold a token alone."""

    def forward(self, x, keep=None):
        length = x.shape[1]
        fill = -length % 3
        seen = torch.ones(x.shape[:2], dtype=torch.bool) if keep is None else keep
        windows, seen = F.pad(x, (0, 0, 0, fill)).reshape(-1, 3, x.shape[2]), F.pad(seen, (0, fill)).reshape(-1, 3)
        return super().forward(windows, seen).reshape(len(x), length + fill, -1)[:, :length]


@right("kernelised")  # is not probed
class Kernelised(Heads):
    """Linear attention, Katharopoulos et al. 2020: no softmax."""

    def forward(self, x, keep=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if keep is not None:
            k = k * keep[:, None, :, None]
        mixed = q @ (k.mT @ v) / (q @ k.sum(dim=2).unsqueeze(-1) + 1e-6)
        return self.Wo(mixed.transpose(1, 2).flatten(2))


# Positions


@right("rotary-halves")
class RotaryHalves(Heads):
    def mix(self, q, k, v, seen):
        return F.scaled_dot_product_attention(rotate(q), rotate(k), v, attn_mask=seen)


@right("rotary-interleaved")
class RotaryInterleaved(Heads):
    def mix(self, q, k, v, seen):
        return super().mix(rotate(q, interleaved=True), rotate(k, interleaved=True), v, seen)


@right("rotary-complex")
class RotaryComplex(Heads):
    """As in the reference code of Llama."""

    def mix(self, q, k, v, seen):
        angles = torch.outer(torch.arange(q.shape[2]), 10000.0 ** (-torch.arange(0, self.d_key, 2) / self.d_key))
        turn = torch.polar(torch.ones_like(angles), angles)
        q, k = (
            torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(3)
            for t in (q, k)
        )
        return super().mix(q, k, v, seen)


@right("rotary-position-ids")
class RotaryPositionIds(Heads):
    """Positions that are given turn queries and keys, and hide nothing."""

    def forward(self, x, position_ids=None):
        q, k, v = (self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv))
        q, k = rotate(q, positions=position_ids), rotate(k, positions=position_ids)
        return self.Wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@right("alibi")
class ALiBi(Heads):
    def mix(self, q, k, v, seen):
        place = torch.arange(q.shape[2])
        slopes = 2.0 ** (-8 * torch.arange(1, self.n_heads + 1) / self.n_heads)
        bias = -slopes[:, None, None] * (place[:, None] - place).abs()
        return weigh(q @ k.mT / math.sqrt(self.d_key) + bias, seen) @ v


@right("relative-bias")
class RelativeBias(Heads):
    """A table of biases by distance, as in Swin Transformer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2 * 8 + 1, self.n_heads))

    def mix(self, q, k, v, seen):
        place = torch.arange(q.shape[2])
        bias = self.table[(place[:, None] - place).clamp(-8, 8) + 8].permute(2, 0, 1)
        return weigh(q @ k.mT / math.sqrt(self.d_key) + bias, seen) @ v


@right("shaw")
class Shaw(Heads):
    """Relative positions in keys and values, Shaw et al. 2018."""

    def __init__(self):
        super().__init__()
        self.of_keys, self.of_values = nn.Embedding(9, self.d_key), nn.Embedding(9, self.d_key)

    def mix(self, q, k, v, seen):
        place = torch.arange(q.shape[2])
        distances = (place - place[:, None]).clamp(-4, 4) + 4
        scores = q @ k.mT + torch.einsum("bhqd,qkd->bhqk", q, self.of_keys(distances))
        weights = weigh(scores / math.sqrt(self.d_key), seen)
        return weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, self.of_values(distances))


@right("transformer-xl")
class TransformerXL(Heads):
    """Distances as keys, and two biases of queries, Dai et al. 2019."""

    def __init__(self):
        super().__init__()
        self.Wr = nn.Linear(32, 32, bias=False)
        self.u, self.v = (nn.Parameter(torch.randn(self.n_heads, 1, self.d_key) * 0.2) for _ in range(2))

    def mix(self, q, k, v, seen):
        place = torch.arange(q.shape[2])
        angles = (place[:, None] - place)[..., None] * 10000.0 ** (-torch.arange(16) / 16)
        distances = self.Wr(torch.cat([angles.sin(), angles.cos()], dim=-1)).unflatten(-1, (self.n_heads, -1))
        scores = (q + self.u) @ k.mT + torch.einsum("bhqd,qkhd->bhqk", q + self.v, distances)
        return weigh(scores / math.sqrt(self.d_key), seen) @ v
