"""Which token of which example each row is, where programs look up vectors of ids, or put examples in another order."""

import pytest
import torch
from torch import nn

import mhaviz

D = 8
IDS = torch.tensor([[3, 7, 1], [9, 2, 5]])


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, y=None):
        y = x if y is None else y
        return (self.q(x) @ self.k(y).mT / D**0.5).softmax(-1) @ y


class Program(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.words, self.attend, self.again, self.run = nn.Embedding(30, D), Attend(), Attend(), run
        self.conv, self.mix = nn.Conv1d(D, D, 3, padding=2), nn.Linear(3, 3)

    def forward(self, *args):
        return self.run(self, *args)


def recorded(run, *args):
    with mhaviz.record(model := Program(run), examples="all", passes="0-") as recording, torch.no_grad():
        model(*args)
    return recording.attention.maps


def by_columns(p, ids):
    return p.attend(torch.stack([p.words(ids[:, i]) for i in range(ids.shape[1])], 1))


def flat(p, ids):
    return p.attend(p.words(ids.reshape(-1)).view(*ids.shape, D))


def given_columns(p, x):
    return p.attend(x[..., None] * torch.ones(D))


@pytest.mark.parametrize(
    ("run", "given"), [(by_columns, IDS), (flat, IDS), (given_columns, torch.randn(2, 3)), (given_columns, IDS / 2)]
)
def test_tokens_are_those_of_their_example(run, given):
    maps = recorded(run, given)
    assert [(m.kind, m.sentence, m.queries, m.keys) for m in maps] == [
        ("self", example, tuple("012"), tuple("012")) for example in (0, 1)
    ]


def test_tokens_of_a_loop_over_columns_go_on():
    def loop(p, ids):
        cache = []
        for i in range(ids.shape[1]):
            cache.append(p.words(ids[:, i])[:, None])
            p.attend(cache[-1], torch.cat(cache, 1))

    maps = recorded(loop, IDS)
    assert [(m.sentence, m.queries, m.keys[1:]) for m in maps] == [(i, tuple("012"), tuple("12")) for i in (0, 1)]


def test_examples_in_another_order_keep_their_numbers():
    order = torch.tensor([1, 0])
    run = lambda p, ids: p.again(p.attend(p.words(ids))[order])[order]  # noqa: E731
    maps = recorded(run, IDS)
    both = [tuple(row) for row in IDS.tolist()]
    assert [(m.module, m.sentence, m.rows.tokens.ids) for m in maps] == [
        (name, example, both[example]) for example in (0, 1) for name in ("attend", "again")
    ]


@pytest.mark.parametrize(
    "mix",
    [
        lambda p, x: p.conv(x.mT)[..., : x.shape[1]].mT,
        lambda p, x: p.mix(x.mT).mT,
        lambda p, x: nn.functional.avg_pool1d(x.mT, 2).mT,
        lambda p, x: nn.functional.conv1d(x.mT, torch.ones(D, D, 2), stride=2).mT,
    ],
    ids=["a causal convolution", "a layer over tokens", "a pool", "a convolution with a stride"],
)
def test_mixtures_of_tokens_are_rows(mix):
    (m, *_) = recorded(lambda p, ids: p.attend(mix(p, p.words(ids))), IDS)
    assert m.keys == tuple(f"row {row}" for row in range(len(m.keys)))


def test_decoders_memory_of_the_same_text_is_not_the_text_itself():
    model = nn.Transformer(D, 2, 1, 2, 16, 0.0, batch_first=True).eval()
    x = torch.randn(1, 4, D)
    with mhaviz.record(model) as recording, torch.no_grad():
        model(x, x)
    kinds = {m.module: m.kind for m in recording.attention.maps}
    assert [kinds[f"decoder.layers.{layer}.multihead_attn"] for layer in (0, 1)] == ["cross"] * 2
    assert [m.layer for m in recording.attention.maps if "multihead" in m.module] == [0, 1]


def test_a_second_text_in_the_cache_of_the_first_begins_at_0():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.kv = nn.Embedding(30, D), nn.Linear(D, 2 * D)

        def forward(self, ids, cache, i):
            x = self.words(ids)[:, None]
            k, v = self.kv(x).chunk(2, -1)
            cache[0][:, i : i + 1], cache[1][:, i : i + 1] = k, v
            S = (x @ cache[0].mT).masked_fill(torch.arange(8) > i, -torch.inf)
            return S.softmax(-1) @ cache[1]

    model, cache = Cached(), torch.zeros(2, 1, 8, D)
    with mhaviz.record(model, passes="0-") as recording, torch.no_grad():
        for text in ([3, 4, 5], [7, 8]):
            for i, token in enumerate(text):
                model(torch.tensor([token]), cache, i)
    found = [(m.queries, m.keys) for m in recording.attention.maps]
    assert found[-1] == (tuple("01"), tuple("01"))
    assert {name for pair in found for side in pair for name in side} <= {*"012"}


def test_rows_that_an_index_of_two_axes_takes_are_the_tokens_of_each():
    slots = torch.tensor([[2, 0, 1]])
    (m,) = recorded(lambda p, ids: p.attend(p.words(ids[:1]), p.words(ids[:1])[0][slots]), IDS)
    assert (m.queries, m.keys) == (tuple("012"), tuple("201"))
