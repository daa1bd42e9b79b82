"""Runs of attentions that are told apart: steps of generation where layers share a module, and kinds."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz import record

LENGTH, ROOM = 8, 12


class Attend(nn.Module):
    """Holds no parameters, so that all layers of a program may share it."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask)


class Layer(nn.Module):
    """Writes keys and values into a cache that has room for more, or joins them to one that grows."""

    def __init__(self, attend: nn.Module, is_static: bool) -> None:
        super().__init__()
        self.attend, self.is_static, self.qkv = attend, is_static, nn.Linear(8, 24)
        self.keys, self.values, self.length = torch.zeros(1, 2, ROOM, 4), torch.zeros(1, 2, ROOM, 4), 0

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        start, self.length = self.length, self.length + x.shape[1]
        self.keys[:, :, start : self.length], self.values[:, :, start : self.length] = k, v
        n_keys = ROOM if self.is_static else self.length
        mask = torch.arange(n_keys) <= torch.arange(start, self.length)[:, None]
        H = self.attend(q, self.keys[:, :, :n_keys], self.values[:, :, :n_keys], mask)
        return x + H.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, is_static: bool) -> None:
        super().__init__()
        attend = Attend()
        self.layers = nn.ModuleList(Layer(attend, is_static) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Generation(nn.Module):
    """All steps in one forward pass."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, x: Tensor, lengths: list[int]) -> None:
        for part in x.split(lengths, dim=1):
            self.decoder(part)


@pytest.mark.parametrize(
    ("lengths", "is_one_pass"), [([5, 1, 1, 1], False), ([5, 1, 1, 1], True), ([4, 2, 1, 1], False)]
)
@pytest.mark.parametrize("is_static", [True, False])
@torch.no_grad()
def test_steps_join_the_pass_of_their_own_layer_where_layers_share_a_module(lengths, is_one_pass, is_static):
    torch.manual_seed(0)
    decoder, x = Decoder(is_static), torch.randn(1, LENGTH, 8)
    with record(decoder) as whole:
        decoder(x)
    for layer in decoder.layers:
        layer.length = 0
    with record(decoder) as steps:
        if is_one_pass:
            Generation(decoder)(x, lengths)
        else:
            for part in x.split(lengths, dim=1):
                decoder(part)
    assert steps.modules == ("layers.0.attend", "layers.0.attend #2", "layers.0.attend #3")
    for expected, joined in zip(whole.attention.maps, steps.attention.maps, strict=True):
        assert joined.kind == "masked"
        np.testing.assert_allclose(joined.weights, expected.weights, atol=1e-6)


class Block(nn.Module):
    """Each of its new tokens sees all of them, and what stands in the cache, as in block diffusion."""

    def forward(self, x: Tensor, cached: Tensor) -> Tensor:
        keys = torch.cat([cached, x], dim=2)
        return F.scaled_dot_product_attention(x, keys, keys)


def test_queries_that_see_later_keys_are_no_step_of_a_masked_map():
    block, x = Block(), torch.randn(1, 2, LENGTH, 4)
    with record(block, passes="0-") as recording:
        block(x[:, :, :4], x[:, :, :0])
        block(x[:, :, 4:], x[:, :, :4])
    for m in recording.attention.maps:
        np.testing.assert_allclose(m.weights.sum(axis=-1), 1, atol=1e-5)
    assert [m.weights.shape for m in recording.attention.maps] == [(2, 4, 4), (2, 4, 8)]


class Pooling(nn.Module):
    """A class token alone reads all tokens, as in CaiT."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand

    def forward(self, x: Tensor) -> Tensor:
        q = x[:, :, :1]
        return (q @ x.mT / 2).softmax(dim=-1) @ x if self.by_hand else F.scaled_dot_product_attention(q, x, x)


@pytest.mark.parametrize("by_hand", [True, False])
def test_one_query_that_begins_a_pass_is_not_called_masked(by_hand):
    with record() as recording:
        Pooling(by_hand)(torch.randn(1, 2, 5, 4))
    assert recording.attention.maps[0].kind == "cross"


class Grouped(nn.Module):
    """Heads share keys in groups, and have two axes; without an axis for the batch, as gpt-oss, or with it."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 6

    def forward(self, x: Tensor) -> Tensor:
        q, k = x.unflatten(-1, (2, 3, 8)).movedim(-4, -2), x[..., :16].unflatten(-1, (2, 8)).movedim(-3, -2)
        A = torch.einsum("...kgqd,...kld->...kgql", q, k).softmax(dim=-1)
        self.weights = A.flatten(-4, -3)
        return torch.einsum("...kgql,...kld->...kgqd", A, k)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_heads_in_groups_are_all_heads_of_one_example(batch):
    grouped = Grouped()
    with record(examples="all") as recording:
        grouped(torch.randn(*batch, 5, 48))
    weights = np.stack([m.weights for m in recording.attention.maps])
    np.testing.assert_array_equal(weights, grouped.weights.reshape(-1, 6, 5, 5))


class LastReads(nn.Module):
    """The last tokens read all: if they are all, it is self-attention."""

    def forward(self, x: Tensor, n_queries: int) -> Tensor:
        return F.scaled_dot_product_attention(x[:, :, -n_queries:], x, x)


def test_statistics_of_an_attention_whose_kind_changes_while_it_runs():
    reader, x = LastReads(), torch.randn(1, 2, 5, 4)
    with record(reader, statistics=True) as recording:
        for _ in range(2):
            reader(x[:, :, :4], 4)
            reader(x, 1)
        reader(x, 2)
    averages = recording.head_statistics.kinds
    assert [(one.kind, one.layers) for one in averages] == [("self", (0,)), ("masked", (0,))]
    assert recording.notices == ["drawn is the first of 3 forward passes; `passes` chooses others"]
