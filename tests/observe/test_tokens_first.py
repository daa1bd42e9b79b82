"""Programs that put tokens first, (length, batch_size, features), and generate: tokens have their places, or none.

The oracle is the program's own count of what it has read, and its own weights.
"""

import itertools

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

H, D, N_IDS = 2, 4, 20
CLOSE = rounding(depth=3)


def by_bmm(q, k, v, mask):
    """As fairseq writes it: heads and examples in one axis, (length, batch_size · n_heads, d_key)."""
    q, k, v = (x.contiguous().view(len(x), -1, D).transpose(0, 1) for x in (q, k, v))
    A = torch.bmm(q, k.transpose(1, 2)).mul(D**-0.5).masked_fill(mask, -torch.inf).softmax(-1)
    return torch.bmm(A, v).transpose(0, 1), A.unflatten(0, (-1, H))


def by_einsum(q, k, v, mask):
    q, k, v = (x.unflatten(-1, (H, D)) for x in (q, k, v))
    A = (torch.einsum("qbhd,kbhd->bhqk", q, k) * D**-0.5).masked_fill(mask, -torch.inf).softmax(-1)
    return torch.einsum("bhqk,kbhd->qbhd", A, v), A


def by_sdpa(q, k, v, mask):
    q, k, v = (x.unflatten(-1, (H, D)).permute(1, 2, 0, 3) for x in (q, k, v))
    A = (q @ k.mT * D**-0.5).masked_fill(mask, -torch.inf).softmax(-1)
    return F.scaled_dot_product_attention(q, k, v, ~mask).permute(2, 0, 1, 3), A


class Layer(nn.Module):
    """Keeps the keys and values of all tokens that it has read."""

    def __init__(self, attend):
        super().__init__()
        self.qkv, self.out, self.attend = nn.Linear(H * D, 3 * H * D), nn.Linear(H * D, H * D), attend
        self.cache, self.weights = None, []

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.cache is not None:
            k, v = (torch.cat(pair) for pair in zip(self.cache, (k, v), strict=True))
        self.cache = k, v
        mask = torch.ones(len(q), len(k), dtype=torch.bool).triu(len(k) - len(q) + 1)
        y, A = self.attend(q, k, v, mask)
        self.weights.append(A)
        return x + self.out(y.reshape(x.shape))


class Decoder(nn.Module):
    """Reads ids, (length, batch_size)."""

    def __init__(self, attend):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(N_IDS, H * D), nn.ModuleList(Layer(attend) for _ in range(2))
        self.out = nn.Linear(H * D, N_IDS)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def recorded(attend, batch_size, chunks):
    """The program and its recording; it reads so many tokens at a time."""
    torch.manual_seed(0)
    net, g = Decoder(attend), torch.Generator().manual_seed(1)
    with mhaviz.record(net, examples="all") as recording, torch.no_grad():
        for n in chunks:
            net(torch.randint(N_IDS, (n, batch_size), generator=g))
    return net, recording


@pytest.mark.parametrize(
    ("chunks", "batch_size"),
    [
        *itertools.product([(4,), (4, 1, 1, 1), (3, 2, 1)], [1, 2, 3]),
        ((1, 1, 1), 1),
        pytest.param((4, *[1] * 70), 3, id="long", marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("attend", [by_bmm, by_einsum, by_sdpa])
def test_tokens_have_their_places_in_every_step(attend, batch_size, chunks):
    net, recording = recorded(attend, batch_size, chunks)
    n, names = sum(chunks), [str(place) for place in range(sum(chunks))]
    ends = [*itertools.accumulate(chunks)]
    maps = recording.attention.maps
    assert len(maps) == 2 * batch_size
    for m in maps:
        assert [*m.queries] == [*m.keys] == names
        expected = np.zeros((H, n, n), np.float32)
        for begin, end, A in zip([0, *ends], ends, net.layers[m.layer].weights, strict=False):
            expected[:, begin:end, :end] = A[m.sentence or 0]
        np.testing.assert_allclose(m.weights, expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("attend", [by_bmm, by_einsum, by_sdpa])
def test_single_tokens_of_texts_are_not_told_from_tokens_of_one_text(attend):
    """Each of which attends to its own place in the texts before, as in strided attention."""
    _, recording = recorded(attend, 2, (1, 1, 1))
    assert {m.weights.shape for m in recording.attention.maps} == {(H, 1, 1)}
    assert any("windows of one text or texts of a batch" in line for line in recording.missed)
