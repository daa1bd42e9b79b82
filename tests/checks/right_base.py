"""What the layers that are right have in common, and how each is entered."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn


@dataclass(frozen=True)
class RightLayer:
    """``make()`` gives the layer, always with the same weights.

    ``needs``: a module without which it cannot be made. ``kwargs``: further arguments of the check.
    """

    name: str
    make: Callable[[], Any]
    d_model: int = 32
    kwargs: dict[str, Any] = field(default_factory=dict)
    needs: str = ""


RIGHT: list[RightLayer] = []


def made(right):
    """The layer, or the test is skipped where the module that it needs is not installed."""
    try:
        return right.make()
    except ModuleNotFoundError as error:
        if not right.needs:
            raise
        pytest.skip(f"needs {error.name}")


def seeded(make):
    torch.manual_seed(0)
    return make()


def right(name, **settings):
    def enter(make):
        RIGHT.append(RightLayer(name, partial(seeded, make), **settings))
        return make

    return enter


def visible(x, keep, causal):
    """What a query sees, (length, length) or (batch_size, 1, length, length)."""
    seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    if causal:
        seen = seen.tril()
    return seen if keep is None else seen & keep[:, None, None, :]


def weigh(scores, seen):
    return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(dim=-1)


class Heads(nn.Module):
    """Four projections; a subclass says how its heads mix their values."""

    def __init__(self, d_model=32, n_heads=4, d_key=None, n_key_heads=None):
        super().__init__()
        self.n_heads, self.d_key = n_heads, d_key or d_model // n_heads
        width, key_width = n_heads * self.d_key, (n_key_heads or n_heads) * self.d_key
        self.Wq, self.Wo = nn.Linear(d_model, width), nn.Linear(width, d_model)
        self.Wk, self.Wv = nn.Linear(d_model, key_width), nn.Linear(d_model, key_width)

    def split(self, x):
        return x.unflatten(-1, (-1, self.d_key)).transpose(1, 2)

    def forward(self, x, keep=None, causal=False):
        mixed = self.mix(*(self.split(W(x)) for W in (self.Wq, self.Wk, self.Wv)), visible(x, keep, causal))
        return self.Wo(mixed.transpose(1, 2).flatten(2))

    def mix(self, q, k, v, seen):
        return weigh(q @ k.mT / math.sqrt(self.d_key), seen) @ v


def rotate(x, interleaved=False, positions=None, base=10000.0):
    """Rotary embedding of (batch_size, n_heads, length, d_key)."""
    half = x.shape[-1] // 2
    positions = torch.arange(x.shape[2]) if positions is None else positions[:, None]
    angles = positions[..., None] * base ** (-torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
