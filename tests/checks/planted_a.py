"""Layers with a mistake that somebody made, in four styles of writing multi-head attention.

Every layer runs, and most give the right shape and a loss that falls. A comment above each says where such a mistake
was reported. Unless the comment says otherwise, `right=True` builds the same layer with the mistaken line as it should
be: these layers hide nothing from a query but what the masks hide, and a query whose keys are all hidden gets weights
of zero.
"""

import math
from functools import partial

import torch
import torch.nn.functional as nnf
from checks.planting import Mistake
from torch import nn

MISTAKES = []
RIGHT = []


def seeded(build):
    torch.manual_seed(0)
    return build()


def planted(style, code, d_model=32, has_right=True):
    def register(layer):
        MISTAKES.append(Mistake(layer.__name__, style, code, partial(seeded, partial(layer, d_model)), d_model))
        if has_right:
            RIGHT.append((layer.__name__, partial(seeded, partial(layer, d_model, right=True)), d_model, {}))
        return layer

    return register


def visible(x, keep=None, causal=False):
    length = x.size(1)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool, device=x.device)
    mask = mask.tril() if causal else mask
    return mask if keep is None else mask & keep[:, None, None, :]


def masked_softmax(scores, mask):
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


# Einsum ---------------------------------------------------------------------------------------------------------------


class Einsum(nn.Module):
    n_heads = 4

    def __init__(self, d_model, right=False):
        super().__init__()
        self.right, self.d_key = right, d_model // self.n_heads
        projections = torch.randn(4, d_model, self.n_heads, self.d_key) * d_model**-0.5
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Parameter(projection) for projection in projections)

    def project(self, x):
        return (torch.einsum("bnm,mhd->bnhd", x, weight) for weight in (self.W_Q, self.W_K, self.W_V))

    def mix(self, weights, v):
        return torch.einsum("bhqk,bkhd,mhd->bqm", weights, v, self.W_O)


# PAIR-code/tiny-transformers #71, Kyubyong/transformer #60: √d_key is in the paper, not in the code.
@planted("einsum", "scale")
class NoScale(Einsum):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.project(x)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        if self.right:
            scores = scores / math.sqrt(self.d_key)
        return self.mix(masked_softmax(scores, visible(x, keep, causal)), v)


# openai/improved-diffusion #54 scales queries and keys by d^-¼ each, which is right. Who tidies it up loses a half.
@planted("einsum", "scale", d_model=48)
class QuarterOfTheScale(Einsum):
    n_heads = 3

    def forward(self, x, causal=False):
        q, k, v = self.project(x)
        scale = self.d_key**-0.25
        q = q * scale
        if self.right:
            k = k * scale
        weights = masked_softmax(torch.einsum("bqhd,bkhd->bhqk", q, k), visible(x, causal=causal))
        return self.mix(weights, v), weights


# TensorFlow's tutorials end in "softmax over the last axis", which is that of the keys only where heads come before it.
@planted("einsum", "softmax-axis")
class SoftmaxOverTheLastLetter(Einsum):
    def forward(self, x):
        q, k, v = self.project(x)
        weights = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(self.d_key)
        weights = weights.softmax(dim=2 if self.right else -1)
        return torch.einsum("bqkh,bkhd,mhd->bqm", weights, v, self.W_O)


# jsbaan/transformer-from-scratch pull request 6, meta-pytorch/opacus pull request 825: heads merged with no permute.
@planted("einsum", "heads-layout", d_model=24)
class MergedAsTheyLie(nn.Module):
    n_heads = 6

    def __init__(self, d_model, right=False):
        super().__init__()
        self.right = right
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, keep=None, causal=False):
        q, k, v = (layer(x).unflatten(-1, (self.n_heads, -1)) for layer in (self.query, self.key, self.value))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.size(-1) ** -0.5
        weights = masked_softmax(scores, visible(x, keep, causal))
        context = torch.einsum("bhqk,bkhd->bqhd" if self.right else "bhqk,bkhd->bhqd", weights, v)
        return self.out(context.reshape(x.shape)), weights


# `diagonal=1`, which belongs to triu, in a mask that says what is seen; RVC-Boss/GPT-SoVITS #965 is about such a line.
@planted("einsum", "causal")
class SeesTheNextToken(Einsum):
    def forward(self, x):
        q, k, v = self.project(x)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.d_key)
        seen = torch.ones_like(scores[0, 0]).tril(diagonal=0 if self.right else 1)
        return self.mix(scores.masked_fill(seen == 0, float("-inf")).softmax(dim=-1), v)


# Kyubyong/transformer #3: padding whose embedding is zero is thought to take no part; its score of 0 gives a weight.
@planted("einsum", "padding")
class PaddingIsZero(Einsum):
    def forward(self, x, keep=None):
        if keep is not None:
            x = x * keep.unsqueeze(-1)
        q, k, v = self.project(x)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_key)
        weights = masked_softmax(scores, visible(x, keep)) if self.right else scores.softmax(dim=-1)
        return self.mix(weights, v)


# Shujun-He/RibonanzaNet #5: -1e-9 for -1e9. In attention from a target to a source.
@planted("einsum", "mask-value")
class HiddenByNextToNothing(Einsum):
    def forward(self, x, memory, keep=None):
        q = torch.einsum("bqm,mhd->bqhd", x, self.W_Q)
        _, k, v = self.project(memory)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_key)
        if keep is None:
            return self.mix(scores.softmax(dim=-1), v)
        hidden = ~keep[:, None, None, :]
        if self.right:
            return self.mix(scores.masked_fill(hidden, -1e9).softmax(dim=-1).masked_fill(hidden, 0), v)
        return self.mix(scores.masked_fill(hidden, -1e-9).softmax(dim=-1), v)


# A letter missing in the output is summed over. wl-zhao/DIML #6, hw-native-sys/pypto-lib pull request 186: alike.
@planted("einsum", "batch")
class LetterForgotten(Einsum):
    def forward(self, x, causal=False):
        q, k, v = self.project(x)
        scores = torch.einsum("bqhd,bkhd->bhqk" if self.right else "bqhd,bkhd->hqk", q, k) / math.sqrt(self.d_key)
        weights = masked_softmax(scores, visible(x, causal=causal) if self.right else visible(x, causal=causal)[0])
        return torch.einsum("...hqk,...khd,mhd->...qm", weights, v, self.W_O)


# Copy and paste, as in huggingface/diffusers pull request 13533, where keys got what was meant for queries.
@planted("einsum", "dead-parameter")
class KeysOfTheQueries(Einsum):
    def forward(self, x, keep=None, causal=False):
        q = torch.einsum("bnm,mhd->bhnd", x, self.W_Q)
        k = torch.einsum("bnm,mhd->bhnd", x, self.W_K if self.right else self.W_Q)
        v = torch.einsum("bnm,mhd->bnhd", x, self.W_V)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.d_key**-0.5
        return self.mix(masked_softmax(scores, visible(x, keep, causal)), v)


# A softmax by hand, made stable above the fraction's line and forgotten below it, as in NumPy notebooks.
@planted("einsum", "row-sum")
class HalfStableSoftmax(Einsum):
    def forward(self, x, causal=False):
        q, k, v = self.project(x)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_key)
        scores = scores.masked_fill(~visible(x, causal=causal), float("-inf"))
        exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        total = exponentials if self.right else scores.exp()
        return self.mix(exponentials / total.sum(dim=-1, keepdim=True), v)


# pytorch/pytorch pull request 73249: "q is never used again", except by who passed it. A function on heads.
def scaled_in_place(q, k, v):
    q *= q.size(-1) ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(dim=-1), v)


def scaled_out_of_place(q, k, v):
    return scaled_in_place(q.clone(), k, v)


MISTAKES.append(Mistake("scaled_in_place", "einsum", "input-changed", lambda: scaled_in_place))
RIGHT.append(("scaled_in_place", lambda: scaled_out_of_place, 32, {}))


# View and transpose ---------------------------------------------------------------------------------------------------


class Separate(nn.Module):
    n_heads = 4

    def __init__(self, d_model, right=False):
        super().__init__()
        self.right, self.d_key = right, d_model // self.n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(x.size(0), -1, self.n_heads, self.d_key).transpose(1, 2)

    def project(self, x):
        return self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))

    def score(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.d_key)

    def merge(self, context):
        return self.out(context.transpose(1, 2).contiguous().view(context.size(0), -1, self.n_heads * self.d_key))


# esceptico/perceiver-io #9: the scale is the reciprocal already, and scores are divided by it.
@planted("view", "scale", d_model=64)
class DividedByTheReciprocal(Separate):
    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.query(query)), self.split(self.key(key)), self.split(self.value(value))
        scale = self.d_key**-0.5
        scores = q @ k.transpose(-2, -1)
        scores = scores * scale if self.right else scores / scale
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand_as(scores)
        weights = masked_softmax(scores, seen)
        return self.merge(weights @ v), weights


# The last axis of keys that are transposed already is their length: right in a test with as many tokens as d_key.
@planted("view", "scale")
class RootOfTheLength(Separate):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.project(x)
        k = k.transpose(-2, -1)
        scores = q @ k / math.sqrt(k.size(-2 if self.right else -1))
        return self.merge(masked_softmax(scores, visible(x, keep, causal)) @ v)


# FudanNLP/fastNLP #254: `dim=2`, from code of a single head, is the axis of the queries once heads are split.
@planted("view", "softmax-axis")
class AxisOfASingleHead(Separate):
    def forward(self, x):
        q, k, v = self.project(x)
        weights = self.score(q, k).softmax(dim=3 if self.right else 2)
        return self.merge(weights @ v), weights


# reczoo/FuxiCTR #30, 649453932/Chinese-Text-Classification-Pytorch #10 and #53.
@planted("view", "heads-layout")
class BatchTimesHeads(Separate):
    def flatten(self, x):
        if self.right:
            return self.split(x).reshape(-1, x.size(1), self.d_key)
        return x.view(x.size(0) * self.n_heads, -1, self.d_key)

    def forward(self, x):
        q, k, v = self.flatten(self.query(x)), self.flatten(self.key(x)), self.flatten(self.value(x))
        context = torch.bmm(self.score(q, k).softmax(dim=-1), v)
        if self.right:
            return self.merge(context.view(x.size(0), self.n_heads, -1, self.d_key))
        return self.out(context.view(x.size(0), -1, self.n_heads * self.d_key))


# hyunwoongko/transformer #15 and harvardnlp/annotated-transformer #17 ask why it should not be written like this.
@planted("view", "heads-layout", d_model=40)
class ViewedAsHeadsFirst(Separate):
    n_heads = 5

    def split(self, x):
        if self.right:
            return super().split(x)
        return x.view(x.size(0), self.n_heads, -1, self.d_key)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.query(q)), self.split(self.key(k)), self.split(self.value(v))
        scores = self.score(q, k)
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand_as(scores)
        return self.merge(masked_softmax(scores, seen) @ v)


# zhouhaoyi/Informer2020 #597 and karpathy/nanoGPT #170 ask: triu or tril? With no `diagonal=1` a query misses itself.
@planted("view", "causal")
class MissesItself(Separate):
    def forward(self, x, causal=False):
        q, k, v = self.project(x)
        scores = self.score(q, k)
        if causal:
            later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(diagonal=1 if self.right else 0)
            scores = scores.masked_fill(later, -1e9)
        return self.merge(scores.softmax(dim=-1) @ v)


# keras-team/keras #23038 and facebookresearch/xformers #103: a mask is dropped where both are asked for. It needs
# padding on the left, or in the middle, to be seen.
@planted("view", "padding")
class EitherMask(Separate):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.project(x)
        if self.right:
            mask = visible(x, keep, causal)
        elif causal:
            mask = visible(x, causal=True)
        elif keep is not None:
            mask = visible(x, keep)
        else:
            mask = visible(x)
        return self.merge(masked_softmax(self.score(q, k), mask) @ v)


# bentrevett/pytorch-seq2seq #96, hyunwoongko/transformer pull request 40, lucidrains/x-transformers #172.
@planted("view", "mask-side")
class MaskStandsUpright(Separate):
    def forward(self, x, keep=None):
        q, k, v = self.project(x)
        keep = torch.ones_like(x[..., 0], dtype=torch.bool) if keep is None else keep
        mask = keep.unsqueeze(1).unsqueeze(2 if self.right else 3).expand(-1, -1, x.size(1), x.size(1))
        return self.merge(masked_softmax(self.score(q, k), mask) @ v)


# georg-wolflein/good-features pull request 1: scores times a mask of 0 and 1, before the softmax.
@planted("view", "mask-value")
class ScoresTimesMask(Separate):
    def forward(self, x, keep=None):
        q, k, v = self.project(x)
        scores, mask = self.score(q, k), visible(x, keep)
        return self.merge((masked_softmax(scores, mask) if self.right else (scores * mask).softmax(dim=-1)) @ v)


# huggingface/pytorch-image-models pull request 2236, abisee/pointer-generator #88 before its division.
@planted("view", "mask-after-softmax")
class WeightsTimesMask(Separate):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.project(x)
        scores, mask = self.score(q, k), visible(x, keep, causal)
        weights = masked_softmax(scores, mask) if self.right else scores.softmax(dim=-1) * mask
        return self.merge(weights @ v), weights


# pytorch/pytorch #41508, tracel-ai/burn pull request 4697: a sentence of padding alone.
@planted("view", "nan")
class NothingIsLeft(Separate):
    def forward(self, x, keep=None):
        q, k, v = self.project(x)
        weights = self.score(q, k).masked_fill(~visible(x, keep), float("-inf")).softmax(dim=-1)
        if self.right:
            weights = weights.nan_to_num(0)
        return self.merge(weights @ v)


# rixwew/pytorch-fm #21: the function drops out unless it is told not to.
@planted("view", "eval-dropout")
class FunctionalDropout(Separate):
    def forward(self, x, causal=False):
        q, k, v = self.project(x)
        weights = masked_softmax(self.score(q, k), visible(x, causal=causal))
        weights = nnf.dropout(weights, p=0.1, training=self.training) if self.right else nnf.dropout(weights, p=0.1)
        return self.merge(weights @ v)


# KrishnaDN/Attentive-Statistics-Pooling #3: `squeeze()` for an axis of 1 that is not there, until a text has one token.
@planted("view", "shape")
class SqueezedScores(Separate):
    def forward(self, x):
        q, k, v = self.project(x)
        scores = self.score(q, k)
        scores = scores if self.right else scores.squeeze()
        return self.merge(scores.softmax(dim=-1) @ v)


# Fused projections ----------------------------------------------------------------------------------------------------


class Fused(nn.Module):
    n_head = 4

    def __init__(self, d_model, right=False):
        super().__init__()
        self.right = right
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def qkv(self, x):
        batch_size, length, d_model = x.shape
        qkv = self.c_attn(x).view(batch_size, length, 3, self.n_head, d_model // self.n_head)
        return qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def merge(self, y):
        return self.c_proj(y.transpose(1, 2).flatten(2))


# huggingface/transformers pull request 38290 (OPT): queries are scaled, and the kernel scales them once more.
@planted("fused", "scale")
class ScaledTwice(Fused):
    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        q = q * q.size(-1) ** -0.5
        mask = visible(x, None if attention_mask is None else attention_mask.bool())
        return self.merge(nnf.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0 if self.right else None))


# nerminnuraydogan/vision-transformer #1: `dim=1`, right for a matrix of scores, is that of the heads.
@planted("fused", "softmax-axis", d_model=48)
class SoftmaxOverHeads(Fused):
    n_head = 6

    def forward(self, x):
        q, k, v = self.qkv(x)
        attn = (q @ k.mT) * q.size(-1) ** -0.5
        return self.merge(attn.softmax(dim=-1 if self.right else 1) @ v)


# "Get keys in the shape the product needs": a reshape where a transpose belongs, in the keys alone.
@planted("fused", "heads-layout")
class KeysReshaped(Fused):
    def forward(self, x, causal=False):
        batch_size, length, d_model = x.shape
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        q, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in (q, v))
        if self.right:
            k = k.unflatten(-1, (self.n_head, -1)).permute(0, 2, 3, 1)
        else:
            k = k.reshape(batch_size, self.n_head, d_model // self.n_head, length)
        weights = masked_softmax(q @ k * q.size(-1) ** -0.5, visible(x, causal=causal))
        return self.merge(weights @ v)


# flash-attention takes (batch, length, heads, d_key); who changes to SDPA and keeps that attends from head to head.
@planted("fused", "heads-layout")
class LayoutOfAnotherKernel(Fused):
    def forward(self, x):
        q, k, v = self.c_attn(x).unflatten(-1, (3, self.n_head, -1)).unbind(2)
        if self.right:
            y = nnf.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(
                1, 2
            )
        else:
            y = nnf.scaled_dot_product_attention(q, k, v)
        return self.c_proj(y.flatten(2))


# rasbt/LLMs-from-scratch #1061: the buffer says what is hidden, and SDPA reads what is seen.
@planted("fused", "causal")
class BufferUpsideDown(Fused):
    def __init__(self, d_model, right=False):
        super().__init__(d_model, right)
        self.register_buffer("mask", torch.ones(256, 256).triu(diagonal=1))

    def forward(self, x):
        q, k, v = self.qkv(x)
        mask = self.mask[: x.size(1), : x.size(1)].bool()
        return self.merge(nnf.scaled_dot_product_attention(q, k, v, attn_mask=~mask if self.right else mask))


# line/lighthouse pull request 77, ArrowLuo/CLIP4Clip #22, lsdefine/attention-is-all-you-need-keras #36: masks tiled
# where heads lie side by side, so that a sentence gets the mask of another.
@planted("fused", "padding")
class MasksTiled(Fused):
    def forward(self, x, keep=None):
        q, k, v = (t.flatten(0, 1) for t in self.qkv(x))
        keep = torch.ones_like(x[..., 0], dtype=torch.bool) if keep is None else keep
        mask = keep.repeat_interleave(self.n_head, dim=0) if self.right else keep.repeat(self.n_head, 1)
        y = masked_softmax(torch.bmm(q, k.mT) * q.size(-1) ** -0.5, mask.unsqueeze(1)) @ v
        return self.merge(y.unflatten(0, (-1, self.n_head)))


# BERT's `(1 - mask) * -10000`, with the subtraction lost: transformers' attention_mask is 1 where it keeps.
@planted("fused", "mask-polarity")
class SubtractionLost(Fused):
    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        scores = q @ k.mT * q.size(-1) ** -0.5
        if attention_mask is None:
            return self.merge(scores.softmax(dim=-1) @ v)
        keep = attention_mask[:, None, None, :].to(x.dtype)
        if self.right:
            return self.merge((scores + (1 - keep) * -10000.0).softmax(dim=-1) * keep @ v)
        return self.merge((scores + keep * -10000.0).softmax(dim=-1) @ v)


# pytorch/pytorch #27968: in `key_padding_mask` of nn.MultiheadAttention True hides. No right layer: PyTorch's gives NaN
# to a sentence of padding alone.
@planted("fused", "mask-polarity", has_right=False)
class KeepAsKeyPaddingMask(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, 4, batch_first=True)

    def forward(self, x, keep=None):
        return self.attn(x, x, x, key_padding_mask=keep)[0]


# huggingface/transformers pull request 41443 (Qwen3), huggingface/diffusers #14342: a mask of bools is added.
@planted("fused", "mask-value")
class BoolsAdded(Fused):
    def forward(self, x, keep=None):
        q, k, v = self.qkv(x)
        scores, mask = q @ k.mT * q.size(-1) ** -0.5, visible(x, keep)
        return self.merge((masked_softmax(scores, mask) if self.right else (scores + mask).softmax(dim=-1)) @ v)


# IBM/TabFormer pull request 14, Exorust/TorchLeet #5, om-ai-lab/OmDet #19.
@planted("fused", "batch")
class BatchIsNotFirst(nn.Module):
    def __init__(self, d_model, right=False):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, 4, batch_first=right)

    def forward(self, x):
        return self.self_attn(x, x, x, need_weights=False)[0]


# karpathy/nanoGPT pull request 240, pytorch/pytorch #124464: SDPA knows of no eval().
@planted("fused", "eval-dropout")
class KernelDropout(Fused):
    def forward(self, x):
        q, k, v = self.qkv(x)
        dropout = 0.1 if self.training or not self.right else 0.0
        return self.merge(nnf.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True))


# Weights kept for a picture, detached, and then multiplied by the values: queries and keys never learn.
@planted("fused", "dead-parameter")
class DetachedForThePicture(Fused):
    def forward(self, x, keep=None, causal=False):
        q, k, v = self.qkv(x)
        weights = masked_softmax(q @ k.mT * q.size(-1) ** -0.5, visible(x, keep, causal))
        self.last_weights = weights.detach()
        return self.merge((weights if self.right else self.last_weights) @ v)


# fairseq's layers put the length first, and so does what is taken out of them; IBM/TabFormer pull request 14 is alike.
@planted("fused", "shape")
class LengthFirst(Fused):
    def forward(self, x):
        length, batch_size, d_model = x.transpose(0, 1).shape
        qkv = self.c_attn(x.transpose(0, 1)).view(length, batch_size * self.n_head, 3, d_model // self.n_head)
        q, k, v = (t.transpose(0, 1) for t in qkv.unbind(2))
        weights = torch.bmm(q, k.mT * q.size(-1) ** -0.5).softmax(dim=-1)
        y = self.c_proj(torch.bmm(weights, v).transpose(0, 1).reshape(length, batch_size, d_model))
        return y.transpose(0, 1) if self.right else y


# A list of heads ------------------------------------------------------------------------------------------------------


class Head(nn.Module):
    def __init__(self, d_model, head_size, right):
        super().__init__()
        self.right = right
        self.key, self.query, self.value = (nn.Linear(d_model, head_size, bias=False) for _ in range(3))

    def score(self, x):
        return self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5

    def forward(self, x, mask=None):
        scores = self.score(x)
        mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        return masked_softmax(scores, mask) @ self.value(x)


class ListOfHeads(nn.Module):
    head = Head
    n_heads = 4

    def __init__(self, d_model, right=False):
        super().__init__()
        self.right = right
        self.heads = nn.ModuleList(self.head(d_model, d_model // self.n_heads, right) for _ in range(self.n_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


# karpathy/ng-video-lecture pull request 6: C is the size of the input, not of the head.
@planted("list", "scale")
class ScaledByTheInput(ListOfHeads):
    class head(Head):  # noqa: N801
        def forward(self, x):
            _, T, C = x.shape
            k, q = self.key(x), self.query(x)
            wei = q @ k.transpose(-2, -1) * (k.size(-1) if self.right else C) ** -0.5
            wei = wei.masked_fill(torch.ones(T, T, device=x.device).tril() == 0, float("-inf"))
            return wei.softmax(dim=-1) @ self.value(x)


# PetrochukM/PyTorch-NLP #2; and softmax with no `dim`, which takes the first of three axes.
@planted("list", "softmax-axis")
class SoftmaxOverTheBatch(ListOfHeads):
    class head(Head):  # noqa: N801
        def forward(self, x):
            return self.score(x).softmax(dim=-1 if self.right else 0) @ self.value(x)


# hackiey/QAnet-pytorch #2: heads are stacked in front of the batch, and viewed as if they were not.
@planted("list", "heads-layout", d_model=36)
class StackedInFront(ListOfHeads):
    n_heads = 3

    def forward(self, x):
        heads = torch.stack([head(x) for head in self.heads])
        if self.right:
            heads = heads.permute(1, 2, 0, 3)
        return self.proj(heads.reshape(x.shape))


# A slice that suits a cache, the last rows and all columns so far, taken of the whole buffer: karpathy/nanoGPT #473 and
# facebookresearch/xformers pull request 66 are about masks that are longer than the text.
@planted("list", "causal")
class MaskOfAnotherLength(ListOfHeads):
    class head(Head):  # noqa: N801
        def __init__(self, d_model, head_size, right):
            super().__init__(d_model, head_size, right)
            self.register_buffer("tril", torch.ones(256, 256).tril())

        def forward(self, x):
            length = x.size(1)
            mask = self.tril[:length, :length] if self.right else self.tril[-length:, :length]
            return self.score(x).masked_fill(mask == 0, float("-inf")).softmax(dim=-1) @ self.value(x)


# The first head takes the mask out of the options that all heads share.
@planted("list", "causal")
class FirstHeadTakesTheMask(ListOfHeads):
    def forward(self, x, causal=False):
        options = {"mask": visible(x, causal=causal)[0]}
        take = options.get if self.right else options.pop
        return self.proj(torch.cat([head(x, mask=take("mask", None)) for head in self.heads], dim=-1))


# rasbt/LLMs-from-scratch #279: `tril` of the weights, of which the book divides each row by its sum afterwards.
@planted("list", "mask-after-softmax")
class LowerHalfOfTheWeights(ListOfHeads):
    class head(Head):  # noqa: N801
        def forward(self, x):
            if self.right:
                return super().forward(x, visible(x, causal=True)[0])
            return self.score(x).softmax(dim=-1).tril() @ self.value(x)


# Python binds `head` when it is called: every head is the last.
@planted("list", "dead-parameter")
class BoundTooLate(ListOfHeads):
    def forward(self, x):
        calls = [partial(head, x) if self.right else lambda: head(x) for head in self.heads]  # noqa: B023
        return self.proj(torch.cat([call() for call in calls], dim=-1))


# A projection that is made and never called: the first version of multi-head attention in karpathy's lecture has none.
@planted("list", "dead-parameter")
class NeverProjected(ListOfHeads):
    def forward(self, x, keep=None, causal=False):
        mask = visible(x, keep, causal)[:, 0]
        context = torch.cat([head(x, mask) for head in self.heads], dim=-1)
        return self.proj(context) if self.right else context


# NVIDIA/tacotron2 pull request 303, galsang/BiDAF-pytorch pull request 26: `squeeze()` and a batch of one sentence.
@planted("list", "shape")
class SqueezedBatch(ListOfHeads):
    def forward(self, x):
        context = torch.cat([head(x) for head in self.heads], dim=-1)
        return self.proj(context if self.right else context.squeeze())


# lucidrains/halonet-pytorch pull request 6: True is what shall be seen, and masked_fill fills it.
@planted("list", "mask-polarity")
class FilledWhereTrue(ListOfHeads):
    def forward(self, x, keep=None):
        if keep is None:
            return super().forward(x)
        mask = (keep if self.right else ~keep).unsqueeze(1)
        return self.proj(torch.cat([head(x, mask) for head in self.heads], dim=-1))


# Padding is cleared, which does no harm, in the tensor of who called: x is read again by the residual connection.
@planted("list", "input-changed")
class ClearedInPlace(ListOfHeads):
    def forward(self, x, keep=None):
        if keep is not None:
            padding = ~keep.unsqueeze(-1)
            x = x.masked_fill(padding, 0) if self.right else x.masked_fill_(padding, 0)
        mask = visible(x, keep)[:, 0]
        return self.proj(torch.cat([head(x, mask) for head in self.heads], dim=-1))
