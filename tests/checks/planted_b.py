"""Attention layers with one mistake each, after mistakes that were reported of real code.

Styles: F.scaled_dot_product_attention, cross-attention, grouped queries, rotary positions, a cache of keys and values,
plain functions on heads, and packed documents. Every layer runs, gives the right shape, and trains. Made with
`right=True` it is right in every respect: the flag changes nothing but what the mistake is. Issue numbers are of the
named GitHub repository.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from checks.planting import Mistake
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]

MISTAKES: list[Mistake] = []
RIGHT: list[tuple[str, Callable[[], Any], int, dict[str, Any]]] = []


def _seeded(maker: Callable[..., Any], **arguments: Any) -> Any:
    torch.manual_seed(0)
    return maker(**arguments)


def plant(style: str, code: str, d_model: int = 32) -> Callable[[Any], Any]:
    """Enter a class, or a function that makes a function on heads, as a mistake, and its right version beside it."""

    def enter(maker: Any) -> Any:
        sizes = {"d_model": d_model} if isinstance(maker, type) else {}
        make, make_right = (partial(_seeded, maker, right=right, **sizes) for right in (False, True))
        MISTAKES.append(Mistake(maker.__name__, style, code, make, d_model))
        RIGHT.append((maker.__name__, make_right, d_model, {}))
        return maker

    return enter


def masked_softmax(scores: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
    """Softmax over what is allowed; a row that is wholly hidden becomes zeros."""
    if allowed is None:
        return scores.softmax(dim)
    weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(dim)
    return weights.masked_fill(~allowed, 0.0)


def shown(mask: Tensor | None) -> Tensor | None:
    """A mask of booleans, or of 0 and 1, as booleans."""
    return None if mask is None else mask != 0


def triangle(n_queries: int, n_keys: int | None = None) -> Tensor:
    """Which keys a query sees where the last query belongs to the last key: bool, (n_queries, n_keys)."""
    n_keys = n_keys or n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(n_keys - n_queries)


def real_keys(keep: Tensor | None) -> Tensor | None:
    """Whether a key is a real token: bool, (batch_size, 1, 1, length), for all heads and queries."""
    return None if keep is None else keep[:, None, None, :]


def visible(length: int, keep: Tensor | None, causal: bool) -> Tensor | None:
    """Keys that are real tokens and, if causal, not later: bool, of a shape that broadcasts to the scores'."""
    real = real_keys(keep)
    if not causal:
        return real
    return triangle(length) if real is None else real & triangle(length)


class Heads(nn.Module):
    """Projections, and heads split and merged as they should be."""

    def __init__(self, right: bool, d_model: int, n_heads: int = 4, n_groups: int | None = None) -> None:
        super().__init__()
        self.right, self.n_heads, self.n_groups = right, n_heads, n_groups or n_heads
        self.d_key = d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, self.n_groups * self.d_key)
        self.v_proj = nn.Linear(d_model, self.n_groups * self.d_key)
        self.out_proj = nn.Linear(d_model, d_model)

    def split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (-1, self.d_key)).transpose(1, 2)

    def merge(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def project(self, x: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        memory = x if memory is None else memory
        return self.split(self.q_proj(x)), self.split(self.k_proj(memory)), self.split(self.v_proj(memory))

    def fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.out_proj(self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))


# F.scaled_dot_product_attention


@plant("sdpa", "scale")
class ScaledTwice(Heads):
    """The query is scaled at its projection, and the fused kernel scales again: huggingface/transformers #38290."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        q = q * self.d_key**-0.5
        scale = 1.0 if self.right else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(x.size(1), keep, causal), scale=scale)
        return self.out_proj(self.merge(y))


@plant("sdpa", "heads-layout")
class ViewedIntoHeads(Heads):
    """Heads by `view` alone, and back by `view` too, so that shapes agree everywhere: reczoo/FuxiCTR #30."""

    def split(self, t: Tensor) -> Tensor:
        batch_size, length, _ = t.shape
        if self.right:
            return t.view(batch_size, length, self.n_heads, self.d_key).transpose(1, 2)
        return t.view(batch_size, self.n_heads, length, self.d_key)

    def merge(self, heads: Tensor) -> Tensor:
        batch_size, _, length, _ = heads.shape
        heads = heads.transpose(1, 2) if self.right else heads
        return heads.reshape(batch_size, length, -1)

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        return self.fused(*self.project(x), visible(x.size(1), keep, causal))


@plant("sdpa", "heads-layout", d_model=48)
class MergedWithoutTranspose(nn.Module):
    """Split well, merged by `reshape` of (batch_size, n_heads, length, d_key): jsbaan/transformer-from-scratch #6."""

    def __init__(self, right: bool, d_model: int) -> None:
        super().__init__()
        self.right, self.n_heads = right, 6
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        batch_size, length, d_model = x.shape
        qkv = self.qkv(x).reshape(batch_size, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0), is_causal=causal)
        y = y.transpose(1, 2) if self.right else y
        return self.proj(y.reshape(batch_size, length, d_model))


@plant("sdpa", "heads-layout")
class LayoutOfFlashAttention(Heads):
    """Ported from flash_attn_func, which takes (batch_size, length, n_heads, d_key): heads attend to heads."""

    def split(self, t: Tensor) -> Tensor:
        t = t.unflatten(-1, (self.n_heads, self.d_key))
        return t.transpose(1, 2) if self.right else t

    def forward(self, x: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(*self.project(x))
        y = y.transpose(1, 2) if self.right else y
        return self.out_proj(y.flatten(2))


@plant("sdpa", "causal")
class TriangleOfHidden(Heads):
    """A triangle for masked_fill is given to SDPA, where True takes part: rasbt/LLMs-from-scratch #1061."""

    def forward(self, x: Tensor) -> Tensor:
        ones = torch.ones(x.size(1), x.size(1), dtype=torch.bool)
        return self.fused(*self.project(x), ones.tril() if self.right else ones.triu())


@plant("sdpa", "causal")
class CausalUnlessMasked(Heads):
    """SDPA takes is_causal or a mask, so the caller drops is_causal: FGA-DIKU/BONSAI #344, transformers #37807."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        mask = real_keys(keep)
        if self.right and mask is not None and causal:
            mask = mask & triangle(x.size(1))
        y = F.scaled_dot_product_attention(*self.project(x), attn_mask=mask, is_causal=causal and mask is None)
        return self.out_proj(self.merge(y))


@plant("sdpa", "padding")
class PaddingUnlessCausal(Heads):
    """Causal attention sees no padding to its right, but does to its left: tloen/alpaca-lora #107."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        mask = triangle(x.size(1)) if causal and not self.right else visible(x.size(1), keep, causal)
        return self.fused(*self.project(x), mask)


@plant("sdpa", "mask-polarity")
class MaskOfModules(Heads):
    """The mask as nn.MultiheadAttention takes it, True hides, handed to SDPA: mlwithme/TransformerTranslation #6."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        key_padding_mask = None if keep is None else ~keep
        mask = real_keys(keep if self.right else key_padding_mask)
        return self.fused(*self.project(x), mask)


@plant("sdpa", "mask-value")
class MaskOfFloats(Heads):
    """The mask is cast to the queries' dtype, for autocast, and SDPA adds 0 and 1: mlverse/torch #1208."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        mask = real_keys(keep)
        if mask is not None and not self.right:
            mask = mask.to(q.dtype)
        return self.fused(q, k, v, mask)


@plant("sdpa", "eval-dropout")
class DropoutOfFunction(Heads):
    """A function knows nothing of eval(): pytorch/pytorch #124464, huggingface/pytorch-image-models #1978."""

    def __init__(self, right: bool, d_model: int, dropout: float = 0.1) -> None:
        super().__init__(right, d_model)
        self.dropout = dropout

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        mask = visible(x.size(1), keep, causal)
        dropout = 0.0 if self.right and not self.training else self.dropout
        y = F.scaled_dot_product_attention(*self.project(x), attn_mask=mask, dropout_p=dropout)
        return self.out_proj(self.merge(y))


# Cross-attention


@plant("cross", "scale")
class ScaledByModel(Heads):
    """√d_model in place of √d_key: aladdinpersson/Machine-Learning-Collection #65."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        d_model = x.size(-1)
        q = self.q_proj(x).unflatten(-1, (self.n_heads, -1))
        k = self.k_proj(memory).unflatten(-1, (self.n_heads, -1))
        v = self.v_proj(memory).unflatten(-1, (self.n_heads, -1))
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k) / (self.d_key if self.right else d_model) ** 0.5
        weights = masked_softmax(energy, real_keys(keep))
        return self.out_proj(torch.einsum("nhqk,nkhd->nqhd", weights, v).flatten(2))


@plant("cross", "softmax-axis")
class HeadsLast(Heads):
    """Heads are the last axis of the scores, and the softmax is over the last axis, as everywhere."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (self.n_heads, -1)) * self.d_key**-0.5
        k = self.k_proj(memory).unflatten(-1, (self.n_heads, -1))
        v = self.v_proj(memory).unflatten(-1, (self.n_heads, -1))
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k)
        weights = masked_softmax(scores, None if keep is None else keep[:, None, :, None], 2 if self.right else -1)
        return self.out_proj(torch.einsum("bqkh,bkhd->bqhd", weights, v).flatten(2))


@plant("cross", "padding")
class MaskOfAnotherSentence(Heads):
    """Heads are folded into the batch, but `repeat` gives the masks in another order, as for nn.MultiheadAttention."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        q, k, v = (t.flatten(0, 1) for t in self.project(x, memory))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_key)
        mask = None
        if keep is not None:
            mask = keep.repeat_interleave(self.n_heads, 0) if self.right else keep.repeat(self.n_heads, 1)
            mask = mask[:, None, :]
        y = torch.bmm(masked_softmax(scores, mask), v)
        return self.out_proj(self.merge(y.unflatten(0, (x.size(0), self.n_heads))))


@plant("cross", "nan")
class InfiniteMask(Heads):
    """A sentence without a memory (an image with no caption) makes the whole batch NaN, through one softmax of -inf."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x, memory)
        scores = q @ k.mT / math.sqrt(self.d_key)
        if keep is not None and not self.right:
            weights = scores.masked_fill(~keep[:, None, None, :], float("-inf")).softmax(-1)
        else:
            weights = masked_softmax(scores, real_keys(keep))
        return self.out_proj(self.merge(weights @ v))


@plant("cross", "random")
class LayerMadeInForward(Heads):
    """The output's projection is made where it is called: other weights at each call, which no optimizer knows."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        y = self.merge(F.scaled_dot_product_attention(*self.project(x, memory), attn_mask=real_keys(keep)))
        out_proj = self.out_proj if self.right else nn.Linear(y.size(-1), x.size(-1))
        return out_proj(y)


@plant("cross", "dead-parameter")
class OutputNeverProjected(Heads):
    """The projection is in the constructor, in the checkpoint and in the count of parameters, but not in the call."""

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor | None = None) -> Tensor:
        y = self.merge(F.scaled_dot_product_attention(*self.project(x, memory), attn_mask=real_keys(keep)))
        return self.out_proj(y) if self.right else y


# Grouped queries


class Grouped(Heads):
    def __init__(self, right: bool, d_model: int) -> None:
        super().__init__(right, d_model, n_heads=d_model // 8, n_groups=2)
        self.n_per_group = self.n_heads // self.n_groups

    def repeated(self, t: Tensor) -> Tensor:
        return t.repeat_interleave(self.n_per_group, dim=1)

    def tiled(self, t: Tensor) -> Tensor:
        return t[:, None].expand(-1, self.n_per_group, -1, -1, -1).flatten(1, 2)


@plant("grouped", "groups", d_model=48)
class KeysTiled(Grouped):
    """A port of repeat_kv expands one dimension too early, for keys alone: ekzhang/jax-js #180."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        k = self.repeated(k) if self.right else self.tiled(k)
        return self.fused(q, k, self.repeated(v), visible(x.size(1), keep, causal))


@plant("grouped", "groups")
class KeysAndValuesTiled(Grouped):
    """Both tiled, a notice: it trains well, but a checkpoint of another implementation gives other outputs."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        k, v = (self.repeated(t) if self.right else self.tiled(t) for t in (k, v))
        return self.fused(q, k, v, visible(x.size(1), keep, causal))


@plant("grouped", "scale", d_model=48)
class ScaledByGroups(Grouped):
    """The width of a head is taken from the number of key heads, when grouped queries are added to an old layer."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        width = x.size(-1) // (self.n_heads if self.right else self.n_groups)
        scores = q @ self.repeated(k).mT * width**-0.5
        weights = masked_softmax(scores, visible(x.size(1), keep, causal))
        return self.out_proj(self.merge(weights @ self.repeated(v)))


@plant("grouped", "isolated")
class ValuesOfTheQuery(Grouped):
    """One letter of an einsum: the weights, which sum to 1, all multiply the value of the query's own token."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        q = q.unflatten(1, (self.n_groups, self.n_per_group)) / math.sqrt(self.d_key)
        mask = visible(x.size(1), keep, causal)
        mask = mask if mask is None or mask.dim() == 2 else mask[:, None]
        weights = masked_softmax(torch.einsum("bgnqd,bgkd->bgnqk", q, k), mask)
        y = torch.einsum("bgnqk,bgkd->bgnqd" if self.right else "bgnqk,bgqd->bgnqd", weights, v)
        return self.out_proj(self.merge(y.flatten(1, 2)))


@plant("grouped", "eval-dropout")
class FunctionalDropout(Grouped):
    """F.dropout drops unless it is told of eval(): its `training` is True where nobody gives it."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        scores = q @ self.repeated(k).mT / math.sqrt(self.d_key)
        weights = masked_softmax(scores, visible(x.size(1), keep, causal))
        weights = F.dropout(weights, 0.1, training=self.training) if self.right else F.dropout(weights, 0.1)
        return self.out_proj(self.merge(weights @ self.repeated(v)))


# Rotary positions


def angles(positions: Tensor, d_key: int) -> Tensor:
    """Angle of each position and each pair of features: (…, length, d_key / 2)."""
    return positions[..., None] * 10000.0 ** (-torch.arange(0, d_key, 2) / d_key)


def rotate_halves(t: Tensor, positions: Tensor, doubled: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Rotate feature i with feature i + d_key / 2, as GPT-NeoX and transformers do; t is (…, length, d_key)."""
    angle = angles(positions, t.size(-1))
    angle = torch.cat((angle, angle), -1) if doubled is None else doubled(angle)
    first, second = t.chunk(2, dim=-1)
    return t * angle.cos() + torch.cat((-second, first), -1) * angle.sin()


def rotate_pairs(t: Tensor, positions: Tensor) -> Tensor:
    """Rotate feature 2i with feature 2i + 1, as Llama's reference code does; t is (…, length, d_key)."""
    angle = angles(positions, t.size(-1))
    turned = torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2)


@plant("rotary", "positions")
class OnlyQueriesRotated(Heads):
    """The keys' rotated tensor is given another name and never used."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        positions = torch.arange(x.size(1))
        q, k_rotated = rotate_halves(q, positions), rotate_halves(k, positions)
        k = k_rotated if self.right else k
        return self.fused(q, k, v, visible(x.size(1), keep, causal))


@plant("rotary", "positions")
class ValuesRotatedToo(Heads):
    """All three are rotated before they are taken apart."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        positions = torch.arange(x.size(1))
        qkv = self.project(x)
        q, k, v = (rotate_pairs(t, positions) for t in qkv)
        v = qkv[2] if self.right else v
        weights = masked_softmax(q @ k.mT / math.sqrt(self.d_key), visible(x.size(1), keep, causal))
        return self.out_proj(self.merge(weights @ v))


@plant("rotary", "positions")
class PositionsOfHeads(Heads):
    """Rotated before the transpose, along axis -2: a head's number takes the place of a token's position.

    mlfoundations/open_lm #4, facebookresearch/xformers #841, NVIDIA/audio-flamingo #27, tensorgi/TPA #4.
    """

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        if self.right:
            q, k = (rotate_halves(t, torch.arange(t.size(-2))) for t in (q, k))
        else:
            q, k = (t.transpose(1, 2) for t in (q, k))  # (batch_size, length, n_heads, d_key)
            q, k = (rotate_halves(t, torch.arange(t.size(-2))).transpose(1, 2) for t in (q, k))
        return self.fused(q, k, v, visible(x.size(1), keep, causal))


@plant("rotary", "positions")
class PairsMixed(Heads):
    """Angles laid out for neighbouring features, features rotated by halves: no rotation at all."""

    def forward(self, x: Tensor, keep: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x)
        doubled = None if self.right else partial(torch.repeat_interleave, repeats=2, dim=-1)
        q, k = (rotate_halves(t, torch.arange(x.size(1)), doubled) for t in (q, k))
        return self.fused(q, k, v, visible(x.size(1), keep, causal))


@plant("rotary", "mask-side")
class MaskOfQueries(Heads):
    """A mask of queries, where -10000 lets nothing become NaN: hyunwoongko/transformer #40."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        q, k = (rotate_pairs(t, torch.arange(x.size(1))) for t in (q, k))
        scores = q @ k.mT / math.sqrt(self.d_key)
        if keep is not None and not self.right:
            weights = scores.masked_fill(keep.unsqueeze(1).unsqueeze(3) == 0, -10000.0).softmax(-1)
        else:
            weights = masked_softmax(scores, visible(x.size(1), keep, False))
        return self.out_proj(self.merge(weights @ v))


@plant("rotary", "causal")
class SeesTheNextToken(Heads):
    """The triangle of what is hidden begins a diagonal too late, so that the loss of the next token falls fast."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        q, k, v = self.project(x)
        q, k = (rotate_halves(t, torch.arange(length)) for t in (q, k))
        later = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1 if self.right else 2)
        scores = (q @ k.mT / math.sqrt(self.d_key)).masked_fill(later, float("-inf"))
        return self.out_proj(self.merge(scores.softmax(-1) @ v))


# A cache of keys and values

Cache = tuple[Tensor, Tensor] | None


def append(cache: Cache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values so far, (batch_size, n_heads, length, d_key), the new ones last."""
    return (k, v) if cache is None else (torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2))


class Cached(Heads):
    """Causal attention of new tokens to themselves and to what is cached."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.fused(q, k, v, triangle(q.size(2), k.size(2)))


@plant("cache", "cache")
class CausalInSteps(Cached):
    """Its one pass is right: is_causal with one query and many keys lets it see the first key alone: pytorch/pytorch
    #144858, #103082."""

    def forward(self, x: Tensor, cache: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        k, v = cache = append(cache, k, v)
        if self.right:
            return self.attend(q, k, v), cache
        return self.out_proj(self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))), cache


@plant("cache", "cache")
class PositionsBeginAgain(Cached):
    """The table of rotations is sliced by the new tokens' number, whatever start_pos is: pytorch/executorch #2010."""

    def __init__(self, right: bool, d_model: int) -> None:
        super().__init__(right, d_model)
        self.past: Cache = None

    def forward(self, x: Tensor, start_pos: int = 0) -> Tensor:
        q, k, v = self.project(x)
        positions = torch.arange(x.size(1)) + (start_pos if self.right else 0)
        q, k = rotate_pairs(q, positions), rotate_pairs(k, positions)
        past = None
        if start_pos > 0 and self.past is not None:
            past = (self.past[0][:, :, :start_pos], self.past[1][:, :, :start_pos])
        k, v = append(past, k, v)
        self.past = k.detach(), v.detach()
        return self.attend(q, k, v)


@plant("cache", "cache")
class RotatedInEachStep(Cached):
    """Keys are cached after the rotation, and all of them are rotated once more in the next step."""

    def forward(self, x: Tensor, cache: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(2)
        plain_k, v = append(cache, k, v)
        k = rotate_halves(plain_k, torch.arange(plain_k.size(2)))
        q = rotate_halves(q, torch.arange(start, plain_k.size(2)))
        return self.attend(q, k, v), (plain_k if self.right else k, v)


@plant("cache", "cache")
class StepWithoutItself(Cached):
    """The cache is appended to after it was read: the first call is right, later tokens do not see themselves."""

    def forward(self, x: Tensor, layer_past: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        present = append(layer_past, k, v)
        if layer_past is None or self.right:
            return self.attend(q, *present), present
        return self.out_proj(self.merge(F.scaled_dot_product_attention(q, *layer_past))), present


@plant("cache", "cache")
class ValuesInFront(Cached):
    """The arguments of one of the two torch.cat are the wrong way round."""

    def forward(self, x: Tensor, past_key_value: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        if past_key_value is not None:
            k = torch.cat((past_key_value[0], k), dim=2)
            v = torch.cat((past_key_value[1], v) if self.right else (v, past_key_value[1]), dim=2)
        return self.attend(q, k, v), (k, v)


@plant("cache", "cache")
class OffsetOfHeads(Cached):
    """The cache's length is read off axis 1, where another layout had it: each step is at position n_heads."""

    def forward(self, x: Tensor, cache: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        start = 0 if cache is None else cache[0].size(2 if self.right else 1)
        positions = torch.arange(start, start + x.size(1))
        q, k = rotate_halves(q, positions), rotate_halves(k, positions)
        k, v = cache = append(cache, k, v)
        return self.attend(q, k, v), cache


@plant("cache", "dead-parameter")
class CacheDetached(Cached):
    """What is cached is detached, to save memory, and read back under the same names: W_k and W_v never learn."""

    def forward(self, x: Tensor, cache: Cache = None) -> tuple[Tensor, Cache]:
        q, k, v = self.project(x)
        k, v = append(cache, k, v)
        cache = k.detach(), v.detach()
        k, v = (k, v) if self.right else cache
        return self.attend(q, k, v), cache


# Functions on heads: (batch_size, n_heads, length, d_key)


@plant("function", "scale")
def scaled_on_one_side(right: bool) -> Attention:
    """d^-1/4 on both sides is right, and safer in float16 (openai/improved-diffusion #54); here the keys lack it."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scale = 1 / math.sqrt(math.sqrt(q.shape[-1]))
        scores = torch.einsum("bhqd,bhkd->bhqk", q * scale, k * scale if right else k)
        return masked_softmax(scores, shown(mask)) @ v

    return attention


@plant("function", "scale")
def scaled_by_d_key(right: bool) -> Attention:
    """Divided by d_key where its root belongs."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        d_key = q.size(-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / (d_key**0.5 if right else d_key)
        return torch.matmul(masked_softmax(scores, shown(mask)), v)

    return attention


@plant("function", "softmax-axis")
def softmax_over_queries(right: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Scores are written keys by queries, as in some books, and the softmax keeps to the last axis."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = k @ q.transpose(-2, -1) / math.sqrt(k.size(-1))
        weights = F.softmax(scores, dim=-2 if right else -1)
        return weights.transpose(-2, -1) @ v

    return attention


@plant("function", "mask-after-softmax")
def zeroed_after_softmax(right: bool) -> Attention:
    """Weights are multiplied by the mask, and what is left does not sum to 1."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is None:
            return scores.softmax(-1) @ v
        return (masked_softmax(scores, shown(mask)) if right else scores.softmax(-1) * (mask != 0)) @ v

    return attention


@plant("function", "mask-value")
def tiny_in_place_of_huge(right: bool) -> Attention:
    """-1e-9 where -1e9 was meant: a score of nought, which an untrained layer's scores are near anyway."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if right:
            return masked_softmax(scores, shown(mask)) @ v
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e-9)
        return scores.softmax(-1) @ v

    return attention


@plant("function", "uniform-row")
def smallest_float(right: bool) -> Attention:
    """The smallest float for -inf: where all is hidden, all weights are alike, and padding is averaged."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is None:
            return scores.softmax(-1) @ v
        weights = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min).softmax(-1)
        return (weights.masked_fill(mask == 0, 0.0) if right else weights) @ v

    return attention


@plant("function", "not-attention")
def softmax_twice(right: bool) -> Attention:
    """A helper gives weights, its caller takes them for scores: rows still sum to 1, and are nearly uniform."""

    def scored(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        return masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), shown(mask))

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        weights = scored(q, k, mask)
        return (weights if right else masked_softmax(weights, shown(mask))) @ v

    return attention


@plant("function", "softmax-axis")
def weights_transposed(right: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Two letters of an einsum: a token gives what it should take. Numbers are those of a softmax over queries."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid" if right else "bhij,bhid->bhjd", weights, v)

    return attention


@plant("function", "input-changed")
def scaled_in_place(right: bool) -> Attention:
    """`*=` on an argument scales the caller's queries too, at each call anew."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        if right:
            q = q * q.size(-1) ** -0.5
        else:
            q *= q.size(-1) ** -0.5
        return masked_softmax(q @ k.transpose(-2, -1), shown(mask)) @ v

    return attention


# Packed documents


def within(documents: Tensor) -> Tensor:
    """Pairs of tokens of the same document: bool, (batch_size, 1, length, length)."""
    return (documents[:, :, None] == documents[:, None, :])[:, None]


@plant("packed", "packed")
class PositionsAloneAreReset(Heads):
    """Positions begin again in each document, which hides no other: alex-hh/profam #495, huggingface/nanoVLM #204."""

    def forward(self, x: Tensor, documents: Tensor | None = None) -> Tensor:
        positions, mask = torch.arange(x.size(1)), triangle(x.size(1))
        if documents is not None:
            new = F.pad(documents.diff(dim=-1) != 0, (1, 0), value=True)
            positions = (positions - (positions * new).cummax(-1).values)[:, None]
            mask = mask & within(documents) if self.right else mask
        q, k, v = self.project(x)
        q, k = rotate_halves(q, positions), rotate_halves(k, positions)
        return self.fused(q, k, v, mask)


@plant("packed", "packed")
class EarlierDocumentsSeen(Heads):
    """≥ compares documents where = belongs: the last document sees all others, the first is right."""

    def forward(self, x: Tensor, documents: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        mask = None
        if documents is not None:
            mask = within(documents) if self.right else (documents[:, :, None] >= documents[:, None, :])[:, None]
        weights = masked_softmax(q @ k.mT * self.d_key**-0.5, mask)
        return self.out_proj(self.merge(weights @ v))


@plant("packed", "packed")
class BoundaryTooLate(Heads):
    """Documents are counted from jumps in position_ids, padded on the wrong side: a first token joins the last ones."""

    def forward(self, x: Tensor, position_ids: Tensor | None = None) -> Tensor:
        q, k, v = self.project(x)
        mask, positions = triangle(x.size(1)), torch.arange(x.size(1))
        if position_ids is not None:
            jumps = F.pad(position_ids.diff(dim=-1) != 1, (1, 0) if self.right else (0, 1))
            mask = mask & within(jumps.cumsum(-1))
            positions = position_ids[:, None]
        q, k = rotate_halves(q, positions), rotate_halves(k, positions)
        return self.fused(q, k, v, mask)


@plant("packed", "packed")
class DocumentsOfFirstSentence(Heads):
    """The mask is built once, from the first row of the batch, when a data set of one row at a time gets larger."""

    def forward(self, x: Tensor, documents: Tensor | None = None, causal: bool = False) -> Tensor:
        mask = visible(x.size(1), None, causal)
        if documents is not None:
            same = within(documents if self.right else documents[:1])
            mask = same if mask is None else same & mask
        return self.fused(*self.project(x), mask)


@plant("packed", "causal")
class BlindToItself(Heads):
    """> compares positions where ≥ belongs: a token sees the earlier ones of its document, but not itself."""

    def forward(self, x: Tensor, documents: Tensor | None = None) -> Tensor:
        index = torch.arange(x.size(1))
        mask = index[:, None] >= index if self.right else index[:, None] > index
        mask = mask if documents is None else mask & within(documents)
        return self.fused(*self.project(x), mask)
