"""Layers that people have written: right layers that looked wrong to a probe, and mistakes that none saw."""

import copy
import math
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.api.checking import check

D_MODEL = 32


class Base(nn.Module):
    def __init__(self, n_heads=4, dtype=torch.float32):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(D_MODEL, D_MODEL, dtype=dtype) for _ in range(4))

    def split(self, x, y=None):
        given = zip((self.wq, self.wk, self.wv), (x, x, x) if y is None else (x, y, y), strict=True)
        return (W(z).view(*z.shape[:2], self.n_heads, -1).transpose(1, 2) for W, z in given)

    def merge(self, x):
        return self.wo(x.transpose(1, 2).flatten(2))


class Best(Base):
    """The two best keys of each query."""

    def forward(self, x):
        q, k, v = self.split(x)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        least = scores.topk(2, -1).values[..., -1:]
        return self.merge(scores.masked_fill(scores < least, -torch.inf).softmax(-1) @ v)


class Small(Base):
    """A residual beside which attention is small, as with LayerScale."""

    def forward(self, x):
        return x + 3e-5 * self.merge(F.scaled_dot_product_attention(*self.split(x)))


class Windows(Base):
    def forward(self, x):
        assert x.shape[1] % 4 == 0
        parts = x.view(-1, 4, D_MODEL)
        return self.merge(F.scaled_dot_product_attention(*self.split(parts))).view(x.shape)


class Rotary(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.merge(F.scaled_dot_product_attention(rotated(q), rotated(k), v))


def rotated(x):
    frequencies = 10_000 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = (torch.arange(x.shape[-2])[:, None] * frequencies).repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * angles.cos().to(x) + torch.cat((-second, first), -1) * angles.sin().to(x)


class Cached(Base):
    def forward(self, x, cache=None):
        q, k, v = self.split(x)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return self.merge(F.scaled_dot_product_attention(q, k, v, attn_mask=seen)), (k, v)


class SingleHead(nn.Module):
    """Its output has the features of a head."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(D_MODEL, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).mT / 4
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ self.value(x)


class HeadsFirst(Base):
    """Heads before sentences, (n_heads · batch_size, length, d_key)."""

    masks_all = True

    def forward(self, x, keep=None):
        q, k, v = (W(x).unflatten(-1, (self.n_heads, -1)).permute(2, 0, 1, 3) for W in (self.wq, self.wk, self.wv))
        scores = q.flatten(0, 1) @ k.flatten(0, 1).mT / math.sqrt(q.shape[-1])
        if keep is not None:
            hidden = ~keep.repeat(self.n_heads, 1)
            hidden[len(x) : 2 * len(x)] &= self.masks_all
            scores = scores.masked_fill(hidden[:, None], -1e9)
        out = (scores.softmax(-1) @ v.flatten(0, 1)).view(self.n_heads, *x.shape[:2], -1)
        return self.wo(out.permute(1, 2, 0, 3).flatten(2))


class Optional(Base):
    def forward(self, x, context=None):
        return self.merge(F.scaled_dot_product_attention(*self.split(x, context)))


class Experts(Base):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(D_MODEL, D_MODEL) for _ in range(4))

    def forward(self, x):
        return self.experts[2](self.merge(F.scaled_dot_product_attention(*self.split(x))))


RIGHT = {
    "the best keys": Best(),
    "a small residual": Small(),
    "windows": Windows(n_heads=8),
    "rotary, bfloat16": Rotary(dtype=torch.bfloat16),
    "rotary, float16": Rotary(dtype=torch.float16),
    "a cache, bfloat16": Cached(dtype=torch.bfloat16),
    "a single head": SingleHead(),
    "heads first": HeadsFirst(),
    "an optional memory": Optional(),
    "experts": Experts(),
    "PyTorch's, length first": nn.TransformerEncoderLayer(D_MODEL, 4),
    "PyTorch's decoder, length first": nn.TransformerDecoderLayer(D_MODEL, 4),
    "the kernel itself": F.scaled_dot_product_attention,
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_error_is_found(name):
    assert not check(RIGHT[name], d_model=D_MODEL).errors


class Unread(Base):
    def forward(self, x, context=None):
        return self.merge(F.scaled_dot_product_attention(*self.split(x)))


class OneSided(Base):
    def forward(self, query, key, value):
        return self.merge(F.scaled_dot_product_attention(*self.split(query)))


class OneHeadUnmasked(HeadsFirst):
    masks_all = False


@pytest.mark.parametrize(("make", "code"), [(Unread, "isolated"), (OneSided, "isolated"), (OneHeadUnmasked, "padding")])
def test_the_mistake_is_found(make, code):
    found = check(make(), d_model=D_MODEL)
    assert [one.code for one in found.errors] == [code]


def test_what_is_ignored_hides_nothing():
    class Both(Base):
        def forward(self, x):
            q, k, v = self.split(x)
            return self.merge(0.5 * (q @ k.mT).softmax(-1) @ v)

    torch.manual_seed(0)
    assert check(Both(), d_model=D_MODEL).codes == ("row-sum",)
    assert check(Both(), d_model=D_MODEL, ignore=["row-sum"]).codes == ("scale",)


def test_a_layer_keeps_nothing_of_a_check():
    class Keeping(Base):
        def forward(self, x):
            q, k, v = self.split(x)
            self.weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
            return self.merge(self.weights @ v)

    layer = Keeping()
    assert not check(layer)
    assert not hasattr(layer, "weights")
    copy.deepcopy(layer)


def test_modules_that_run_are_in_evaluation_wherever_they_are_held():
    trainer = types.SimpleNamespace(net=nn.Sequential(nn.Dropout(0.5), Optional()))
    assert not check(lambda x: trainer.net(x), d_model=D_MODEL)
    assert trainer.net.training


def test_the_line_is_that_of_the_attention_that_leaks():
    class Causal(Base):
        def forward(self, x):
            q, k, v = self.split(x)
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            return self.merge(scores.masked_fill(hidden(x), -torch.inf).softmax(-1) @ v)

    class Leaking(Base):
        def forward(self, x):
            q, k, v = self.split(x)
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            return self.merge(scores.masked_fill(hidden(x).triu(2), -torch.inf).softmax(-1) @ v)

    def hidden(x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)

    (found,) = check(nn.Sequential(Causal(), Leaking()), d_model=D_MODEL).errors
    assert found.code == "causal"
    assert "triu(2)" in found.line.text
    assert found.module.startswith("1")


def test_a_projection_that_a_function_detaches_is_told_by_its_number():
    """Modules of a function share the names of their parameters. A closure holds them by name: wk, wo, wq, wv."""
    torch.manual_seed(0)
    wq, wk, wv, wo = (nn.Linear(D_MODEL, D_MODEL) for _ in range(4))

    def attend(x):
        q, k, v = (one.view(*x.shape[:2], 4, -1).transpose(1, 2) for one in (wq(x).detach(), wk(x), wv(x)))
        return wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    (found,) = [one for one in check(attend, d_model=D_MODEL).errors if one.code == "dead-parameter"]
    assert found.found == "Linear 3 of 4.weight gets no gradient"
