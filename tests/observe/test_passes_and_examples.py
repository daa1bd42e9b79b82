"""Passes and examples of programs that route, refuse and repeat: numbers are those of the program, or it is said."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

D, H, N_IDS = 8, 2, 20


def ids(*shape, seed=0):
    return torch.randint(N_IDS, shape, generator=torch.Generator().manual_seed(seed))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, memory=None, is_causal=False):
        memory = x if memory is None else memory
        q, k, v = (
            f(y).unflatten(-1, (H, -1)).transpose(1, 2) for f, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(2))


class Program(nn.Module):
    def __init__(self, run, **layers):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.others, self.run = nn.Embedding(N_IDS, D), nn.Embedding(N_IDS, D), run
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *args):
        return self.run(self, *args)


def recorded(net, *args, **how):
    with mhaviz.record(net, examples="all", passes="0-", **how) as recording, torch.no_grad():
        net(*args)
    return recording


def test_the_second_decoder_layer_over_the_same_ids_is_cross_attention():
    def run(net, source, target):
        memory = net.words(source)
        for layer in net.encoder:
            memory = memory + layer(memory)
        x = net.others(target)
        for layer, cross in zip(net.decoder, net.cross, strict=True):
            x = x + layer(x, is_causal=True)
            x = x + cross(x, memory)
        return x

    lists = {name: nn.ModuleList(Attention() for _ in range(2)) for name in ("encoder", "decoder", "cross")}
    text = ids(1, 4)
    found = [(m.module, m.layer, m.kind) for m in recorded(Program(run, **lists), text, text).attention.maps]
    kinds = {"encoder": "self", "decoder": "masked", "cross": "cross"}
    assert sorted(found) == sorted((f"{name}.{n}", n, kind) for name, kind in kinds.items() for n in range(2))


def test_texts_over_one_memory_are_passes_of_a_decoder():
    def run(net, source, first, second):
        memory = net.words(source)
        for text in (first, second):
            x = net.others(text)
            x = x + net.own(x, is_causal=True)
            net.cross(x, memory)

    net = Program(run, own=Attention(), cross=Attention())
    recording = recorded(net, ids(1, 5), ids(1, 4, seed=1), ids(1, 3, seed=2))
    found = [(m.module, m.layer, m.pass_number, m.weights.shape[1:]) for m in recording.attention.maps]
    expected = [("own", 0, 0, (4, 4)), ("cross", 0, 0, (4, 5)), ("own", 0, 1, (3, 3)), ("cross", 0, 1, (3, 5))]
    assert sorted(found) == sorted(expected)


class Stacked(Attention):
    """Stacks the scores of each head, so that nothing tells heads from a batch of as many examples."""

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (H, -1)) for f in (self.q, self.k, self.v))
        S = torch.stack([q[:, :, head] @ k[:, :, head].mT for head in range(H)], 1)
        return self.out((S.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2, 3), (2, 2, 3), (3, 3)])
def test_a_pass_that_is_refused_counts(sizes):
    net = Program(lambda net, ids: net.attend(net.words(ids)), attend=Stacked())
    with mhaviz.record(net, passes="0-") as recording, torch.no_grad():
        for n, size in enumerate(sizes):
            net(ids(size, 4 + n))
    found = {m.pass_number: m.weights.shape[1] for m in recording.attention.maps}
    assert found == {n: 4 + n for n, size in enumerate(sizes) if size != H}


def test_examples_that_go_through_different_attentions_are_said_to_be_others():
    def run(net, ids):
        x = net.words(ids)
        return net.even(x[[0, 2]]), net.odd(x[[1, 3]])

    recording = recorded(Program(run, even=Attention(), odd=Attention()), ids(4, 5))
    for name, examples in (("even", "0, 2"), ("odd", "1, 3")):
        assert any(f"{name}: its batch axis holds examples {examples} of" in line for line in recording.missed)


def test_examples_in_another_order_are_numbered_as_they_were_read():
    recording = recorded(Program(lambda net, ids: net.attend(net.words(ids)[[2, 0, 1]]), attend=Attention()), ids(3, 5))
    assert not any("batch axis holds" in line for line in recording.missed)


def test_weights_values_and_the_output_matrix_in_one_product():
    class InOne(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.ParameterList(torch.randn(H, D, D // H) for _ in range(3))
            self.out = nn.Parameter(torch.randn(H, D // H, D))

        def forward(self, x):
            q, k, v = (torch.einsum("bld,hde->bhle", x, matrix) for matrix in self.qkv)
            return torch.einsum("bhqk,bhke,hed->bqd", (q @ k.mT).softmax(-1), v, self.out)

    def run(net, ids):
        x = net.words(ids)
        for layer in net.layers:
            x = x + layer(x)

    recording = recorded(Program(run, layers=nn.ModuleList([InOne(), InOne()])), ids(2, 5))
    assert [m.weights.shape for m in recording.attention.maps] == [(H, 5, 5)] * 4
    assert recording.missed == []


@pytest.mark.parametrize("is_image", [False, True])
def test_the_mean_of_all_is_none_of_them(is_image):
    def run(net, x):
        memory = net.patches(x).flatten(2).mT if is_image else net.words(x)
        query = net.query(memory.mean(1))[:, None]
        return (query @ memory.mT).softmax(-1) @ memory

    net = Program(run, patches=nn.Conv2d(3, D, 2, 2), query=nn.Linear(D, D))
    (m,) = recorded(net, torch.randn(1, 3, 4, 6) if is_image else ids(1, 5)).attention.maps
    assert (m.kind, m.queries) == ("other", ("row 0",))
    assert not any(name.startswith("row") for name in m.keys)


def test_what_stands_before_each_example_is_of_the_first_alone():
    def run(net, ids):
        x = net.words(ids)
        return net.attend(torch.cat([x[:1, :2].expand(len(x), -1, -1), x], dim=1))

    for m in recorded(Program(run, attend=Attention()), ids(2, 4)).attention.maps:
        before = ("0", "1") if m.sentence == 0 else ("row 0", "row 1")
        assert m.queries == m.keys == (*before, "0", "1", "2", "3")
