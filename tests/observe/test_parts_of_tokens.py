"""Softmaxes over parts: of the keys, of the heads, of a window for each query. The oracle is the whole softmax."""

import itertools

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812
from truth import tokens_of_rows

import mhaviz

B, H, T, D = 2, 3, 8, 4
CLOSE = rounding()


class Layer(nn.Module):
    """Projects its input, and attends as it is told."""

    def __init__(self, attend):
        super().__init__()
        self.linear, self.attend = nn.Linear(H * D, 3 * H * D), attend

    def projected(self, x):
        return [y.view(B, -1, H, D).transpose(1, 2) for y in self.linear(x).chunk(3, -1)]

    def forward(self, x):
        return self.attend(*self.projected(x))


def recorded(attend):
    """The recording, and the weights of a plain softmax of each head, (n_heads, T, T), of the first example."""
    torch.manual_seed(0)
    layer, x = Layer(attend), torch.randn(B, T, H * D)
    with mhaviz.record(layer) as recording, torch.no_grad():
        layer(x)
        q, k, _ = layer.projected(x)
    return recording, (q @ k.mT).softmax(-1)[0]


def merged(several):
    """Flash-decoding: the outputs of several softmaxes by the logarithms of their sums."""
    outputs, sums = map(torch.stack, zip(*several, strict=True))
    return (outputs * sums.softmax(0)[..., None]).sum(0)


def by_hand(q, k, v):
    S = q @ k.mT
    return S.softmax(-1) @ v, S.logsumexp(-1)


def by_operator(q, k, v):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[:2]


def by_sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v), (q @ k.mT).logsumexp(-1)


CUTS = {
    "sliced": lambda x: [x[:, :, :5], x[:, :, 5:]],
    "chunked": lambda x: x.chunk(2, 2),
    "narrowed": lambda x: [x.narrow(2, 4, 4), x.narrow(2, 0, 4)],
    "overlapping": lambda x: [x[:, :, :5], x[:, :, 3:]],
    "every second": lambda x: [x[:, :, ::2], x[:, :, 1::2]],
    "viewed": lambda x: x.unflatten(2, (2, -1)).unbind(2),
}


@pytest.mark.parametrize("attend", [by_hand, by_operator, by_sdpa])
@pytest.mark.parametrize("cut", CUTS)
def test_softmaxes_over_parts_of_the_keys_are_not_shown(attend, cut):
    parts = CUTS[cut]
    recording, _ = recorded(lambda q, k, v: merged([attend(q, *pair) for pair in zip(parts(k), parts(v), strict=True)]))
    assert recording.is_empty
    assert "Layer: its softmax is computed for a part of the keys at a time" in recording.notices[0]


def split(q, k, v):
    return merged([by_hand(q, *pair) for pair in zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)])


def split_in_three(q, k, v):
    """Joined one after another."""
    (out, sums), *rest = [by_hand(q, *pair) for pair in zip(k.chunk(3, 2), v.chunk(3, 2), strict=True)]
    for o, one in rest:
        out = out + F.sigmoid(one - sums)[..., None] * (o - out)
        sums = torch.logaddexp(sums, one)
    return out


class Stack(nn.Module):
    """Layers with residuals: a plain one, one of parts of the keys, a plain one, and one with a gate."""

    def __init__(self, attend, has_output):
        super().__init__()
        self.layers = nn.ModuleList(map(Layer, (F.scaled_dot_product_attention, attend, *[by_whole] * 2)))
        self.out = nn.Linear(H * D, H * D) if has_output else nn.Identity()
        self.gate = nn.Linear(H * D, H * D)

    def forward(self, x):
        for layer in self.layers:
            y = layer(x).transpose(1, 2).flatten(2)
            x = x + self.out(y * self.gate(x).sigmoid() if layer is self.layers[-1] else y)
        return x


def by_whole(q, k, v):
    return by_hand(q, k, v)[0]


@pytest.mark.parametrize("attend", [split, split_in_three])
@pytest.mark.parametrize("has_output", [False, True])
def test_layers_beside_one_of_parts_are_shown(attend, has_output):
    with mhaviz.record(stack := Stack(attend, has_output)) as recording:
        stack(torch.randn(B, T, H * D))
    assert {m.module for m in recording.attention.maps} == {"layers.0", "layers.2", "layers.3"}


def by_sums(several, sums):
    return sum(o * one for o, one in zip(several, sums, strict=True)) / sum(sums)


def of_a_ring(several, sums):
    return several[0] - F.sigmoid(sums[1].log() - sums[0].log()) * (several[0] - several[1])


@pytest.mark.parametrize("join", [by_sums, of_a_ring])
def test_softmaxes_that_masks_divide_are_not_shown_where_sums_join_them(join):
    def halves(q, k, v):
        S, left = q @ k.mT, torch.arange(T) < 4
        several = [S.masked_fill(hidden, -torch.inf) for hidden in (left, ~left)]
        return join([S.softmax(-1) @ v for S in several], [S.exp().sum(-1, True) for S in several])

    assert recorded(halves)[0].is_empty


def test_masks_that_hide_other_keys_of_the_same_tokens_are_not_taken_for_padding():
    def added(q, k, v):
        left = (torch.arange(T) < 4).expand(T, T)
        return F.scaled_dot_product_attention(q, k, v, left) + F.scaled_dot_product_attention(q, k, v, ~left)

    recording, _ = recorded(added)
    assert recording.is_empty
    assert "Layer: its mask hides keys that another softmax sees" in recording.notices[0]


@pytest.mark.parametrize("attend", [by_hand, by_operator, by_sdpa])
def test_attentions_to_two_memories_whose_outputs_are_added_are_two(attend):
    def both(q, k, v):
        outputs, sums = zip(*(attend(q, k[:, :, i], v[:, :, i]) for i in (slice(3), slice(3, T))), strict=True)
        return sum(outputs).mean() + sum(sums).square().mean()  # a loss of each

    recording, _ = recorded(both)
    assert [m.keys for m in recording.attention.maps] == [tuple(map(str, range(3))), tuple(map(str, range(3, T)))]


def test_a_ring_of_queries_and_keys_is_not_shown():
    def ring(q, k, v):
        some = [
            merged([by_hand(one, *pair) for pair in zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)])
            for one in q.chunk(2, 2)
        ]
        return torch.cat(some, 2)

    assert recorded(ring)[0].is_empty


class OwnSums(nn.Module):
    """A residual layer whose output its own sums of exponentials weigh, as a gate."""

    def __init__(self, attend, gate):
        super().__init__()
        self.layer, self.gate = Layer(attend), gate

    def forward(self, x):
        output, sums = self.layer(x)
        return x + self.gate(output, sums[..., None]).transpose(1, 2).flatten(2), sums


GATES = {
    "none": lambda o, sums: o,
    "sigmoid": lambda o, sums: o * sums.sigmoid(),
    "sink": lambda o, sums: o * sums.exp() / (sums.exp() + 1),
    "lerp": lambda o, sums: torch.lerp(o, torch.zeros(()), sums.sigmoid()),
}


@pytest.mark.parametrize("attend", [by_hand, by_operator, by_sdpa])
@pytest.mark.parametrize("gate", GATES)
def test_layers_that_their_own_sums_weigh_are_wholes(attend, gate):
    """A loss of all sums, and a summary that holds them beside the outputs, join nothing either."""
    layers = nn.ModuleList(OwnSums(attend, GATES[gate]) for _ in range(3))

    def program(x):
        every = []
        for layer in layers:
            x, sums = layer(x)
            every.append(sums)
        return torch.cat([x, sum(every).transpose(1, 2)], -1), x.mean() * sum(every).mean()

    with mhaviz.record() as recording, torch.no_grad():
        program(torch.randn(B, T, H * D))
    assert len([m for m in recording.attention.maps if m.weights.shape[1:] == (T, T)]) == 3


SINK = torch.randn(H, 1, 1)
TIMES = {
    "a sink": (lambda o, sums, q: o * (sums[..., None] - SINK).sigmoid(), True),
    "one less the sink's share": (
        lambda o, sums, q: o * (1 - (SINK - torch.logaddexp(sums[..., None], SINK)).exp()),
        True,
    ),
    "a sink, heads last": (
        lambda o, sums, q: (o.transpose(1, 2) * (sums[..., None] - SINK).sigmoid().transpose(1, 2)).transpose(1, 2),
        True,
    ),
    "a gate for each head": (lambda o, sums, q: o * SINK.sigmoid(), True),
    "a gate for each head and query": (lambda o, sums, q: o * q.sum(-1, keepdim=True).sigmoid(), True),
    "a gate for each feature": (lambda o, sums, q: o * q.sigmoid(), False),
    "a mask of queries": (lambda o, sums, q: o * (torch.arange(T) < 5)[:, None], False),
    "a number": (lambda o, sums, q: o * 0.5, False),
    "a norm": (lambda o, sums, q: o * o.square().mean(-1, keepdim=True).rsqrt(), False),
}


@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
@pytest.mark.parametrize("times", TIMES)
def test_a_number_for_each_head_by_which_its_output_is_multiplied_is_said(attend, times):
    """It is as if the weights were multiplied, and their rows summed to something else."""
    multiplied, is_said = TIMES[times]
    recording, A = recorded(lambda q, k, v: multiplied(*attend(q, k, v), q))
    if attend is by_hand:
        np.testing.assert_allclose(recording.attention.maps[0].weights, A, atol=CLOSE)
    assert ("before a gate or a sink" in recording.attention.source.remark) == is_said


@pytest.mark.parametrize("normalise", [lambda l: l.softmax(2), lambda l: l.exp() / l.exp().sum(2, keepdim=True)])
def test_parts_of_the_keys_along_an_axis_are_not_shown(normalise):
    """Flash-decoding with a split axis: (B, H, parts, T, T / parts)."""

    def attend(q, k, v):
        output, sums = by_hand(q.unsqueeze(2), k.unflatten(2, (2, -1)), v.unflatten(2, (2, -1)))
        return (output * normalise(sums)[..., None]).sum(2)

    recording, _ = recorded(attend)
    assert recording.is_empty
    assert any("Layer: its softmax is computed for a part of the keys at a time" in line for line in recording.notices)


def in_two(x):
    return x.unflatten(2, (2, -1))


@pytest.mark.parametrize(
    ("attend", "lengths"),
    [
        (lambda q, k, v: by_whole(q.unsqueeze(2), in_two(k), in_two(v)).mean(2), "8 queries and 4 keys"),
        (lambda q, k, v: by_whole(in_two(q), k.unsqueeze(2), v.unsqueeze(2)), "4 queries and 8 keys"),
        (lambda q, k, v: by_whole(in_two(q).mean(3, keepdim=True), in_two(k), in_two(v)), "1 query and 4 keys"),
        (
            lambda q, k, v: F.scaled_dot_product_attention(
                q.unsqueeze(2).expand(-1, -1, 2, -1, -1), in_two(k), in_two(v)
            ).mean(2),
            "8 queries and 4 keys",
        ),
    ],
)
def test_parts_along_an_axis_are_no_examples(attend, lengths):
    recording, _ = recorded(attend)
    said = f"Layer: 2 windows of {lengths} each stand in its batch axis"
    assert any(line.startswith(said) for line in recording.notices)


def around(x, after):
    """Of each window of two tokens, those of the window before it, its own, and those of so many after it."""
    x = F.pad(x.unflatten(2, (-1, 2)), (0, 0, 0, 0, 1, after))
    return torch.cat([x[:, :, i : i + T // 2] for i in range(2 + after)], 3)


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("after", [0, 1])
def test_keys_of_neighbouring_windows_have_their_names(is_fused, after):
    """Local attention: before the first window there is none, and places there are no tokens."""
    places = around(torch.arange(1, T + 1).view(1, 1, T, 1), after)[0, 0, :, None, :, 0] - 1
    visible = (places >= 0) & (places <= torch.arange(T).view(-1, 2, 1))

    def local(q, k, v):
        q, k, v = q.unflatten(2, (-1, 2)), around(k, after), around(v, after)
        if is_fused:
            return F.scaled_dot_product_attention(q, k, v, visible, scale=1)
        return (q @ k.mT).masked_fill(~visible, -torch.inf).softmax(-1) @ v

    recording, A = recorded(local)
    (m,) = recording.attention.maps
    expected = np.zeros((H, 2, 4 + 2 * after))
    expected[..., 2:4] = A[:, :2, :2].tril() / A[:, :2, :2].tril().sum(-1, keepdim=True)
    np.testing.assert_allclose(m.weights, expected[..., : m.weights.shape[-1]], atol=CLOSE)
    assert m.queries == ("0", "1")
    assert m.keys == ("row 0", "row 1", *map(str, range(2 + 2 * after)))[: len(m.keys)]
    why = f"4 windows of 2 queries and {4 + 2 * after} keys each stand in its batch axis"
    assert any(line.endswith(why) for line in recording.notices)


@pytest.mark.parametrize("starts", [(0, 4), (4, 0)])
@pytest.mark.parametrize("more", [0, 2])
def test_blocks_of_queries_with_their_own_keys_have_their_own_names(starts, more):
    def local(q, k, v):
        return [
            F.scaled_dot_product_attention(q[:, :, i : i + 4], *(x[:, :, max(i - more, 0) : i + 4] for x in (k, v)))
            for i in starts
        ]

    recording, _ = recorded(local)
    found = {m.queries[0]: (m.queries, m.keys) for m in recording.attention.maps}
    names = {i: (range(i, i + 4), range(max(i - more, 0), i + 4)) for i in starts}
    assert found == {str(i): tuple(tuple(map(str, one)) for one in pair) for i, pair in names.items()}


def test_blocks_that_were_viewed_have_their_names():
    recording, _ = recorded(
        lambda q, k, v: [by_hand(*one) for one in zip(*map(CUTS["viewed"], (q, k, v)), strict=True)]
    )
    assert {m.queries for m in recording.attention.maps} == {tuple("0123"), tuple("4567")}


def windows(x):
    return F.pad(x, (0, 0, 2, 0)).unfold(2, 3, 1)


def gathered(x):
    return x[:, :, (torch.arange(T)[:, None] + torch.arange(-2, 1)).clamp(0)].mT


def shifted(x):
    return torch.stack([F.pad(x, (0, 0, 2, 0))[:, :, i : i + T] for i in range(3)], -1)


def scores_of_own_keys(q, k, v):
    return torch.einsum("bhid,bhimd->bhim", q, k), lambda A: torch.einsum("bhim,bhimd->bhid", A, v)


def scores_of_own_keys_by_rows(q, k, v):
    return (q[:, :, :, None] @ k.mT).squeeze(-2), lambda A: torch.einsum("bhim,bhimd->bhid", A, v)


def scores_of_one_own_key(q, k, v):
    return torch.einsum("bhid,bhid->bhi", q, k[:, :, :, 0])[..., None], lambda A: A * v[:, :, :, 0]


def scores_of_shared_keys(q, k, v):
    return q @ k[:, :, 0].mT, lambda A: A @ v[:, :, 0]


@pytest.mark.parametrize(
    "score", [scores_of_own_keys, scores_of_own_keys_by_rows, scores_of_one_own_key, scores_of_shared_keys]
)
@pytest.mark.parametrize("is_first", [False, True])
def test_keys_of_each_querys_own_beside_those_that_all_share_are_not_shown(score, is_first):
    """Wu et al. 2022, Memorizing Transformers, arXiv 2203.08913: each query has keys that were retrieved for it."""

    def attend(q, k, v):
        own, shared = k[:, :, (torch.arange(T)[:, None] + torch.arange(3)) % T], q @ k.mT
        S, weigh = score(q, own, own)
        A = torch.cat([S, shared] if is_first else [shared, S], -1).clamp(-50, 50).softmax(-1)
        n = S.shape[-1]
        outputs.append(weigh(A[..., :n]) + A[..., n:] @ v if is_first else weigh(A[..., T:]) + A[..., :T] @ v)

    outputs = []
    recording, _ = recorded(attend)
    assert recording.is_empty
    (line,) = recording.notices
    why = "each query's own keys, joined with those of keys that all share"
    assert (why if score is not scores_of_shared_keys else "a part of its softmax at a time") in line


@pytest.mark.parametrize("window", [windows, gathered, shifted])
@pytest.mark.parametrize("way", ["einsum", "matmul", "sdpa"])
def test_a_window_for_each_query_is_not_shown(window, way):
    def local(q, k, v):
        k, v = window(k), window(v)
        if way == "sdpa":
            return F.scaled_dot_product_attention(q[:, :, :, None], k.mT, v.mT)
        if way == "matmul":
            return (q[:, :, :, None] @ k).softmax(-1) @ v.mT
        A = torch.einsum("bhtd,bhtdw->bhtw", q, k).softmax(-1)
        return torch.einsum("bhtw,bhtdw->bhtd", A, v)

    recording, _ = recorded(local)
    assert recording.is_empty
    assert recording.notices == [
        "Layer: each of its queries has other keys, and it is not known whether these are windows of one text or texts "
        "of a batch; not shown"
    ]


def in_order(q, k, v):
    return [by_hand(q[:, h], k[:, h], v[:, h]) for h in range(H)]


def in_reverse(q, k, v):
    return [by_hand(q[:, h], k[:, h], v[:, h]) for h in reversed(range(H))]


def by_slices(q, k, v):
    return [F.scaled_dot_product_attention(*(x[:, a:b] * D**0.25 for x in (q, k, v))) for a, b in ((1, 3), (0, 1))]


def unbound(q, k, v):
    return [by_hand(*one) for one in zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True)]


def of_features(q, k, v):
    parts = (x.transpose(1, 2).flatten(2).split(D, -1) for x in (q, k, v))
    return [by_hand(*one) for one in zip(*parts, strict=True)]


def of_scores(q, k, v):
    S = q @ k.mT
    return [S[:, h].softmax(-1) @ v[:, h] for h in range(H)]


def every_second(attend):
    return lambda *three: [attend(*(x[:, start::2] for x in three)) for start in (1, 0)]


def of_a_slice(q, k, v):
    return [by_hand(*(x[:, :1] for x in (q, k, v))), *every_second(by_hand)(*(x[:, 1:] for x in (q, k, v)))]


@pytest.mark.parametrize(
    "attend",
    [in_order, in_reverse, by_slices, unbound, of_features, of_scores, every_second(by_hand), of_a_slice],
)
def test_heads_with_a_softmax_each_are_one_attention(attend):
    recording, A = recorded(attend)
    (m,) = recording.attention.maps
    assert (m.module, m.layer, m.heads) == ("Layer", 0, (0, 1, 2))
    np.testing.assert_allclose(m.weights, A, atol=CLOSE)
    assert "1 attention of 3 heads" in recording.attention.source.footnote


@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
def test_every_second_head_has_the_number_of_its_softmax(attend):
    recording, A = recorded(lambda *three: attend(*(x[:, ::2] for x in three)))
    (m,) = recording.attention.maps
    assert m.heads == (0, 2)
    if attend is by_hand:
        np.testing.assert_allclose(m.weights, A[::2], atol=CLOSE)


def test_groups_of_heads_that_share_their_keys_are_one_attention():
    def attend(q, k, v):
        return [F.scaled_dot_product_attention(q[:, i::2], k[:, i : i + 1], v[:, i : i + 1]) for i in (0, 1)]

    torch.manual_seed(0)
    layer, x = Layer(attend), torch.randn(B, T, H * D)
    with mhaviz.record(layer) as recording, torch.no_grad():
        layer(x)
        q, k, _ = layer.projected(x)
    (m,) = recording.attention.maps
    assert m.heads == (0, 1, 2)
    A = (q @ k[:, [0, 1, 0]].mT * D**-0.5).softmax(-1)
    np.testing.assert_allclose(m.weights, A[0], atol=CLOSE)


def test_heads_whose_features_stand_apart_are_one_attention():
    def parts(x):
        return [x.transpose(1, 2).flatten(2)[..., start::H] for start in range(H)]

    expected = []

    def attend(q, k, v):
        expected.extend((q @ k.mT).softmax(-1)[0].detach() for q, k in zip(parts(q), parts(k), strict=True))
        return [by_hand(*three) for three in zip(*map(parts, (q, k, v)), strict=True)]

    (m,) = recorded(attend)[0].attention.maps
    assert m.heads == (0, 1, 2)
    np.testing.assert_allclose(m.weights, torch.stack(expected), atol=CLOSE)


@pytest.mark.parametrize(
    "choose",
    [
        lambda x, heads: x[:, heads],
        lambda x, heads: x[:, torch.tensor(heads)],
        lambda x, heads: x.index_select(1, torch.tensor(heads)),
        lambda x, heads: x[:, [head in heads for head in range(H)]],
    ],
)
@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
def test_heads_that_are_chosen_by_indices_are_no_layers(choose, attend):
    recording, _ = recorded(
        lambda *three: [attend(*(choose(x, heads) for x in three)) for heads in ([0, 2], [0, 1], [1, 2])]
    )
    assert recording.is_empty
    assert "whether these are parts of one attention, such as some of its queries or heads" in recording.notices[0]


def test_heads_in_another_order_are_numbered_as_in_the_softmax():
    order = [2, 0, 1]
    recording, A = recorded(lambda q, k, v: by_hand(*(x[:, order] for x in (q, k, v))))
    (m,) = recording.attention.maps
    assert m.heads == (0, 1, 2)
    np.testing.assert_allclose(m.weights, A[order], atol=CLOSE)


def test_some_heads_keep_their_numbers():
    recording, A = recorded(lambda q, k, v: [by_hand(q[:, h], k[:, h], v[:, h]) for h in (2, 1)])
    (m,) = recording.attention.maps
    assert m.heads == (1, 2)
    np.testing.assert_allclose(m.weights, A[1:], atol=CLOSE)


def test_heads_whose_numbers_nothing_tells_are_said_to_be_unknown():
    q, k, v = torch.randn(3, B, H, T, D)
    with mhaviz.record() as recording:
        in_order(q, k, v)
    assert [m.heads for m in recording.attention.maps] == [(0,)] * H
    assert "it is not known which heads of which layer" in " ".join(recording.notices)


class Head(nn.Module):
    """One head, as lectures write it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        A = (self.q(x) @ self.k(x).mT / D**0.5).softmax(-1)
        return A @ self.v(x)


class Heads(nn.Module):
    """Heads in a list; ``add``: how they follow one another, as layers do; None: side by side."""

    def __init__(self, add=None):
        super().__init__()
        self.heads, self.add = nn.ModuleList(Head() for _ in range(2)), add

    def forward(self, x):
        if self.add is None:
            return sum(head(x) for head in self.heads)
        x = x.clone()
        for head in self.heads:
            x = self.add(x, head(x))
        return x


def test_heads_that_are_modules_each_are_one_attention():
    model, x = nn.Sequential(Heads(), Heads()), torch.randn(B, T, D)
    with torch.no_grad(), mhaviz.record(model, passes="0-") as recording:
        model(x)
        model(x)
    with torch.no_grad():
        want = [
            torch.stack([(h.q(y) @ h.k(y).mT / D**0.5).softmax(-1)[0] for h in layer.heads])
            for layer, y in zip(model, (x, model[0](x)), strict=True)
        ]
    found = recording.attention.maps
    assert [(m.layer, m.heads, m.module) for m in found] == [(i, (0, 1), f"{i}.heads.*") for i in (0, 1)] * 2
    for m, weights in zip(found, want * 2, strict=True):
        np.testing.assert_allclose(m.weights, weights, rtol=CLOSE, atol=CLOSE)


class BothWays(nn.Module):
    """One similarity, normalised over its keys and over its queries: two attentions of one module."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT
        return scores.softmax(-1) @ x + scores.softmax(-2).mT @ x


def test_several_softmaxes_of_one_module_in_a_list_are_no_heads():
    model = nn.Sequential(Heads(), BothWays())
    with torch.no_grad(), mhaviz.record(model) as recording:
        model(torch.randn(B, T, D))
    assert [(m.module, m.heads) for m in recording.attention.maps] == [
        ("0.heads.*", (0, 1)),
        ("1", (0,)),
        ("1 #2", (0,)),
    ]


@pytest.mark.parametrize("lengths", [(T, T), (T, T + 2)])
@pytest.mark.parametrize("are_projected", [True, False])
def test_two_softmaxes_of_one_similarity_are_two_attentions(lengths, are_projected):
    """Chen et al. 2017, ESIM, arXiv 1609.06038."""

    class Aligned(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(D, D) if are_projected else nn.Identity()

        def forward(self, a, b):
            scores = self.project(a) @ b.mT
            return scores.softmax(-1) @ b, scores.softmax(-2).mT @ a

    model, (a, b) = Aligned(), (torch.randn(B, n, D) for n in lengths)
    with torch.no_grad(), mhaviz.record(model) as recording:
        model(a, b)
        scores = model.project(a) @ b.mT
    found = recording.attention.maps
    assert not recording.missed
    for m, A in zip(found, (scores.softmax(-1), scores.mT.softmax(-1)), strict=True):
        np.testing.assert_allclose(m.weights, A[:1], rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("add", [torch.add, torch.Tensor.add_], ids=["add", "add_"])
def test_single_heads_that_read_what_others_have_made_are_layers(add):
    model = Heads(add)
    with torch.no_grad(), mhaviz.record(model) as recording:
        model(torch.randn(B, T, D))
    assert [(m.layer, m.heads, m.module) for m in recording.attention.maps] == [
        (i, (0,), f"heads.{i}") for i in range(2)
    ]


def causal_chunks(q, k, v, n=3):
    """As long inputs are read: a few queries at a time, each of which sees what is before it."""
    starts = range(0, T, n)
    masks = [torch.ones(T, T, dtype=torch.bool).tril()[i : i + n] for i in starts]
    return torch.cat(
        [F.scaled_dot_product_attention(q[:, :, i : i + n], k, v, m) for i, m in zip(starts, masks, strict=True)], 2
    )


def test_slices_of_queries_are_no_layers():
    """The causal mask of a slice hides later keys from all of its queries, and is no padding."""
    torch.manual_seed(0)
    layer, later = Layer(causal_chunks), torch.ones(T, T, dtype=torch.bool).triu(1)
    texts = torch.randn(2, B, T, H * D)
    with mhaviz.record(layer, passes="0-") as recording, torch.no_grad():
        for x in texts:
            layer(x)
    for pass_number, x in enumerate(texts):
        q, k, _ = layer.projected(x)
        A = (q @ k.mT * D**-0.5).masked_fill(later, -torch.inf).softmax(-1)[0].detach()
        slices = [m for m in recording.attention.maps if m.pass_number == pass_number]
        assert [m.layer for m in slices] == [0] * 3
        for m, start in zip(slices, (0, 3, 6), strict=True):
            queries, n_keys = range(start, min(start + 3, T)), m.weights.shape[2]
            np.testing.assert_allclose(m.weights, A[:, queries, :n_keys], atol=CLOSE)
            assert (m.queries, m.keys) == (tuple(map(str, queries)), tuple(map(str, range(n_keys))))
    assert "1 attention of 3 heads" in recording.attention.source.footnote


class Packed(nn.Module):
    """Documents in one sequence without padding, each with a softmax of its own, as Qwen2-VL reads images."""

    def __init__(self, attend, is_projected_first):
        super().__init__()
        self.linear, self.attend, self.is_first = nn.Linear(H * D, 3 * H * D), attend, is_projected_first

    def projected(self, x):
        return [y.view(1, -1, H, D).transpose(1, 2) for y in self.linear(x).chunk(3, -1)]

    def forward(self, x, lengths):
        if self.is_first:
            parts = zip(*(y.split(lengths, 2) for y in self.projected(x)), strict=True)
        else:
            parts = map(self.projected, x.split(lengths))
        return x + torch.cat([self.attend(*three)[0] for three in parts], 2)[0].transpose(0, 1).flatten(1)


class PackedStack(nn.Module):
    def __init__(self, attend, is_projected_first):
        super().__init__()
        self.layers = nn.ModuleList(Packed(attend, is_projected_first) for _ in range(2))

    def forward(self, x, lengths):
        for layer in self.layers:
            x = layer(x, lengths)
        return x


@pytest.mark.parametrize("is_projected_first", [True, False])
@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
def test_packed_documents_are_no_layers(attend, is_projected_first):
    """Passes may have any number of documents, and all of a pass have its number."""
    torch.manual_seed(0)
    model, packed = PackedStack(attend, is_projected_first), ([3, 5], [2, 2, 4], [6], [4, 2, 2])
    texts = [torch.randn(sum(lengths), H * D) for lengths in packed]
    with mhaviz.record(model, passes="0-", statistics=True) as recording, torch.no_grad():
        for x, lengths in zip(texts, packed, strict=True):
            model(x, lengths)
    scale = D**-0.5 if attend is by_sdpa else 1
    for pass_number, (x, lengths) in enumerate(zip(texts, packed, strict=True)):
        maps = [m for m in recording.attention.maps if m.pass_number == pass_number]
        for number, (layer, x_of_layer) in enumerate(zip(model.layers, (x, model.layers[0](x, lengths)), strict=True)):
            documents = [m for m in maps if m.layer == number]
            assert [m.module for m in documents] == [
                f"layers.{number}{f' #{i + 1}' * (i > 0)}" for i in range(len(lengths))
            ]
            starts = [0, *itertools.accumulate(lengths)]
            for m, (start, end) in zip(documents, itertools.pairwise(starts), strict=True):
                q, k, _ = layer.projected(x_of_layer[start:end])
                np.testing.assert_allclose(m.weights, (q @ k.mT * scale).softmax(-1)[0].detach(), atol=CLOSE)
                assert [name.removeprefix("row ") for name in m.queries] == list(map(str, range(start, end)))
    assert "2 attentions of 3 heads" in recording.attention.source.footnote
    (statistics,) = recording.head_statistics.kinds
    assert statistics.layers == (0, 1)
    assert recording.head_statistics.source.details["queries"] == sum(n for of in packed for n in of if n > 1)


class PackedModule(nn.Module):
    """Calls a module of PyTorch for each document."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(H * D, H, batch_first=True)

    def forward(self, x, lengths):
        return x + torch.cat([self.attention(part, part, part, need_weights=False)[0] for part in x.split(lengths)])


def test_documents_with_a_call_of_a_module_each_are_no_layers():
    model, lengths = PackedStack(by_hand, True), [1, 2, 1, 4]
    model.layers = nn.ModuleList(PackedModule() for _ in range(2))
    with mhaviz.record(model) as recording, torch.no_grad():
        model(torch.randn(8, H * D), lengths)
    texts = [("0",), ("1", "2"), ("3",), ("4", "5", "6", "7")]
    assert [(m.layer, m.queries, m.keys) for m in recording.attention.maps] == [
        (layer, text, text) for layer in (0, 1) for text in texts
    ]


@pytest.mark.parametrize("packed", [([3, 5], [2, 2, 4]), ([8], [3, 5])])
def test_documents_of_a_pass_that_is_not_drawn_are_not_drawn(packed):
    model = PackedStack(by_hand, True)
    with mhaviz.record(model) as recording, torch.no_grad():
        for lengths in packed:
            model(torch.randn(8, H * D), lengths)
    assert [(m.layer, len(m.queries)) for m in recording.attention.maps] == [(i, n) for i in (0, 1) for n in packed[0]]


def test_a_layer_that_runs_on_all_tokens_again_is_another_layer():
    layer = Packed(by_hand, True)
    with mhaviz.record(module := PackedStack(by_hand, True)) as recording, torch.no_grad():
        module.layers = nn.ModuleList([layer, layer])
        module(torch.randn(8, H * D), [3, 5])
    assert [(m.module, m.layer) for m in recording.attention.maps] == [
        ("layers.0", 0),
        ("layers.0 #2", 0),
        ("layers.0 #3", 1),
        ("layers.0 #4", 1),
    ]


@pytest.mark.parametrize("is_head_outside", [True, False])
def test_documents_with_a_softmax_for_each_head_are_one_layer(is_head_outside):
    cuts = [slice(0, 3), slice(3, T)]

    def attend(q, k, v):
        places = itertools.product(range(H), cuts) if is_head_outside else itertools.product(cuts, range(H))
        for place in places:
            head, cut = place if is_head_outside else place[::-1]
            by_hand(*(x[:, head, cut] for x in (q, k, v)))

    recording, _ = recorded(attend)
    assert {m.layer for m in recording.attention.maps} == {0}
    assert "1 attention of 3 heads" in recording.attention.source.footnote


def test_several_softmaxes_of_the_same_queries_and_keys_are_attentions_each():
    layer = Layer(lambda q, k, v: (q @ k.mT).softmax(-1) @ v + (2 * q @ k.mT).softmax(-1) @ v)
    with mhaviz.record(layer) as recording:
        layer(torch.randn(B, T, H * D))
    assert len(recording.attention) == 2


def test_statistics_leave_out_heads_with_a_softmax_each():
    layer = Layer(in_order)
    with mhaviz.record(layer, statistics=True) as recording:
        layer(torch.randn(B, T, H * D))
    assert "Layer: a softmax for each of its heads, which statistics do not count" in recording.notices


def test_statistics_leave_out_parts_of_keys():
    layer = Layer(
        lambda q, k, v: merged([by_hand(q, *pair) for pair in zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)])
    )
    with mhaviz.record(layer, statistics=True) as recording:
        layer(torch.randn(B, T, H * D))
    with pytest.raises(mhaviz.MhavizError, match="a part of the keys at a time"):
        _ = recording.head_statistics


class Towers(nn.Module):
    """Two stacks of layers, which read inputs of one length."""

    def __init__(self):
        super().__init__()
        self.left, self.right = (nn.ModuleList(Layer(self.attend) for _ in range(2)) for _ in range(2))

    @staticmethod
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def forward(self, x, y):
        for one, other in zip(self.left, self.right, strict=True):
            x, y = one(x), other(y)
        return x @ y.mT


def test_no_rollout_goes_through_two_towers():
    towers, x = Towers(), torch.randn(B, T, H * D)
    with mhaviz.record(towers) as recording:
        towers(x, x)
    with pytest.raises(mhaviz.ArgumentError, match=r"left.0 and right.0 that is not known, as of two towers"):
        _ = recording.rollout
    with mhaviz.record() as one:
        towers.left[0](x)
        towers.left[1](x)
    with pytest.raises(mhaviz.ArgumentError, match="two towers"):
        _ = one.rollout


def test_no_rollout_passes_over_attention_that_was_missed():
    def with_gates(q, k, v):
        return by_hand(q, k, v)[0] + (q @ k.mT).sigmoid() @ v

    with pytest.raises(mhaviz.ArgumentError, match=r"misses some: Layer: .* by sigmoid"):
        _ = recorded(with_gates)[0].rollout


def by_index(x):
    return x[:, :, torch.tensor([0, 2, 5])]


def by_roll(x):
    return x.roll(-2, 2)[:, :, :4]


REVERSED = list(range(T))[::-1]


def by_gather(x):
    return x.gather(2, x.sum(-1).argsort(-1)[..., None].expand_as(x))


MOVED = [
    *(by_index, by_roll, by_gather),
    *(lambda x: x.flip(2), lambda x: x.roll(dims=2, shifts=1), lambda x: x.flip(2, 1), lambda x: x.roll(1)),
    *(lambda x: x[:, :, REVERSED], lambda x: x.index_select(2, torch.tensor(REVERSED))),
    lambda x: F.pad(x, (0, 0, 1, 0))[:, :, :T],
    lambda x: torch.cat([x[:, :, 3:], x[:, :, :3]], 2),
    lambda x: torch.cat([x[:, :, 7:], x[:, :, :7]], 2),
    lambda x: torch.cat([x[:, :, ::2], x[:, :, 1::2]], 2),
    lambda x: torch.cat([x[:, :, :1] * 0, x[:, :, REVERSED]], 2),
    lambda x: torch.cat([torch.zeros(B, H, 1, D), by_gather(x)], 2),
    lambda x: torch.cat([torch.zeros(B, H, 1, D), x[:, :, :-1]], 2),
    lambda x: torch.cat([x[:, :, 1:], torch.zeros(B, H, 1, D)], 2),
    lambda x: written(torch.zeros_like(x), (..., slice(1, None), slice(None)), x[:, :, :-1]),
    lambda x: written(torch.zeros(B, H, T, D), (slice(None), slice(None), slice(0, 7)), x[:, :, 1:]),
    lambda x: copied(x.clone(), slice(1, None), x[:, :, :-1]),
    lambda x: x.index_copy(2, torch.arange(T).flip(0), x),
    lambda x: torch.zeros_like(x).index_copy_(2, torch.tensor(REVERSED), x),
    lambda x: torch.stack(x.unbind(2)[::-1], 2),
    lambda x: torch.stack([x[:, :, i] for i in (0, 2, 4)], 2),
    lambda x: torch.fliplr(x.transpose(1, 2)).transpose(1, 2),
    lambda x: torch.hstack([x.transpose(1, 2)[:, 4:], x.transpose(1, 2)[:, :4]]).transpose(1, 2),
    lambda x: torch.vstack([x.permute(2, 0, 1, 3)[4:], x.permute(2, 0, 1, 3)[:4]]).permute(1, 2, 0, 3),
    lambda x: x[:, :, :4].repeat(1, 1, 2, 1),
    lambda x: x[:, :, :4].repeat_interleave(2, 2),
    lambda x: x.unfold(2, 4, 4)[:, :, 1].mT,
    lambda x: torch.cat([x[:, :, :1], torch.zeros(B, H, 2, D), x[:, :, 1:]], 2),
    lambda x: F.pad(x, (0, 0, 1, 0)),
    lambda x: torch.zeros_like(x).scatter_(2, torch.tensor(REVERSED)[:, None].expand_as(x), x),
    lambda x: torch.slice_scatter(x, x[:, :, 4:], 2, 0, 4),
    lambda x: torch.select_scatter(x, x[:, :, 5], 2, 0),
    lambda x: (
        torch.zeros_like(x.transpose(0, 2)).index_put((torch.tensor(REVERSED),), x.transpose(0, 2)).transpose(0, 2)
    ),
    lambda x: x.unflatten(2, (4, 2)).transpose(2, 3).flatten(2, 3),
    lambda x: torch.stack([x[:, :, :4], x[:, :, 4:]], 3).flatten(2, 3),
    lambda x: x.unfold(2, 2, 2).transpose(3, 4).flatten(2, 3),
    lambda x: torch.cat([x[:, :, :3], x[:, :, 3:]], 2),
    lambda x: torch.cat([torch.zeros(B, H, 1, D), x[:, :, 1:]], 2),
    lambda x: copied(x.clone(), slice(2, 5), x[:, :, 2:5] * 2),
    lambda x: torch.stack([x[:, :, i] for i in range(T)], 2),
    lambda x: written(torch.zeros(B, H, T, D), (..., slice(2), slice(None)), x[:, :, :2]),
]
COMPUTED = [
    lambda x: x.sort(2).values,
    lambda x: x.topk(4, dim=2).values,
    lambda x: torch.zeros_like(x).index_add(2, torch.tensor(REVERSED), x),
    lambda x: torch.eye(T)[REVERSED] @ x,
    lambda x: torch.einsum("nt,bhtd->bhnd", torch.eye(T)[REVERSED], x),
    lambda x: nn.Linear(T, 3)(x.mT).mT,
    lambda x: x.unflatten(2, (4, 2)).mean(3),
    lambda x: F.avg_pool1d(x.flatten(0, 1).mT, 2).mT.unflatten(0, (B, H)),
    lambda x: F.interpolate(x.flatten(0, 1).mT, size=16).mT.unflatten(0, (B, H)),
    lambda x: F.conv1d(x.flatten(0, 1).mT, torch.ones(D, D, 2), stride=2).mT.unflatten(0, (B, H)),
    *(lambda x: torch.fft.fft2(x).real, lambda x: torch.fft.fft(x, dim=2).real, lambda x: torch.fft.fftshift(x, 2)),
    *(lambda x: x.cumsum(2), lambda x: x.diff(dim=2), lambda x: torch.msort(x.transpose(0, 2)).transpose(0, 2)),
    *(lambda x: torch.linalg.solve(torch.eye(T)[REVERSED], x), lambda x: torch.linalg.pinv(x).mT),
    lambda x: torch.channel_shuffle(x.transpose(1, 2), 4).transpose(1, 2),
]


def written(x, index, values):
    x[index] = values
    return x


def copied(x, place, values):
    x[:, :, place].copy_(values)
    return x


@pytest.mark.parametrize("take", [*MOVED, *COMPUTED])
def test_tokens_in_any_order_have_their_names(take):
    """What is no single token is a row."""
    recording, _ = recorded(lambda q, k, v: F.scaled_dot_product_attention(q, take(k), take(v)))
    (m,) = recording.attention.maps
    x = torch.randn(B, H, T, D, generator=torch.Generator().manual_seed(1))
    truth = tokens_of_rows(take, x, 2)[0]
    names = tuple(f"row {row}" if token is None else str(token) for row, token in enumerate(truth))
    rows = tuple(f"row {row}" for row in range(len(truth)))
    assert m.keys in ((names,) if take in MOVED else (names, rows))
    are_all = [token for token in truth if token is not None] == [*range(T)]
    assert m.kind == ("self" if are_all and m.keys == names else "other")  # statistics along a diagonal


def with_sink(q, k, v, sinks=None):
    S = q @ k.mT
    sinks = torch.zeros(B, H, T, 1) if sinks is None else sinks.expand(B, H, T, 2)
    return torch.cat([sinks, S], -1).softmax(-1)[..., sinks.shape[-1] :] @ v


def with_rows(q, k, v, rows=None, mask=None):
    rows = torch.zeros(B, H, 2, D) if rows is None else rows
    return F.scaled_dot_product_attention(q, *(torch.cat([rows, x], 2) for x in (k, v)), mask)


CAUSAL = torch.ones(T, T + 2, dtype=torch.bool).tril(2)


@pytest.mark.parametrize(
    ("attend", "rows"),
    [
        (with_sink, 0),
        (lambda *qkv: with_sink(*qkv, nn.Parameter(torch.ones(H)).view(1, H, 1, 1)), 0),
        (with_rows, 2),
        (lambda *qkv: with_rows(*qkv, torch.zeros(1, 1, 2, D).expand(B, H, 2, D)), 2),
        (lambda *qkv: with_rows(*qkv, torch.zeros(B, H, 9, D).exp()), 9),
        (lambda *qkv: with_rows(*qkv, mask=CAUSAL), 2),
    ],
)
def test_tokens_have_the_same_names_behind_rows_that_only_keys_have(attend, rows):
    recording, _ = recorded(attend)
    (m,) = recording.attention.maps
    assert m.queries == tuple(map(str, range(T)))
    assert m.keys == (*(f"row {i}" for i in range(rows)), *map(str, range(T)))


@pytest.mark.parametrize(
    ("write", "is_kept"),
    [
        (lambda x: x[:, 1:].copy_(torch.randn(B, T - 1, H * D)), False),
        (lambda x: x.transpose(0, 1)[0].copy_(torch.randn(H * D)), False),
        (lambda x: written(x, (slice(None), 0), torch.randn(H * D)), False),
        (lambda x: written(x.view(B * T, -1), 0, torch.randn(H * D)), False),
        (lambda x: written(x, (slice(None), [0, 1]), x[:, [1, 0]]), False),
        (lambda x: x.index_copy_(1, torch.tensor([0]), torch.randn(B, 1, H * D)), False),
        (lambda x: written(x, (..., slice(4)), x[..., 4:8]), True),
        (lambda x: written(x, (slice(None), slice(1, 3)), 2 * x[:, 1:3]), True),
        (lambda x: x[:, 1:].mul_(2), True),
    ],
)
def test_tokens_that_were_written_over_lose_their_names(write, is_kept):
    layer, embedding, ids = Layer(by_hand), nn.Embedding(50, H * D), torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]] * B)
    with mhaviz.record() as recording, torch.no_grad():
        x = embedding(ids)
        write(x)
        layer(x)
    (m,) = recording.attention.maps
    assert m.rows.tokens.ids == m.columns.tokens.ids == (tuple(ids[0].tolist()) if is_kept else ())


def test_tokens_of_an_input_without_a_batch_are_known():
    def attend(q, k, v):
        return by_hand(q, k.flip(0), v.flip(0)), by_hand(q, k[2:], v[2:])

    layer = Layer(attend)
    layer.projected = lambda x: layer.linear(x).chunk(3, -1)
    with mhaviz.record(layer) as recording:
        layer(torch.randn(T, H * D))
    keys = [m.keys for m in recording.attention.maps]
    assert keys == [
        tuple(f"row {place}" for place in reversed(range(T))),
        tuple(f"row {place}" for place in range(2, T)),
    ]


def test_one_token_that_is_cut_from_a_sequence_is_known():
    recording, _ = recorded(lambda q, k, v: by_hand(q, k[:, :, 3:4], v[:, :, 3:4]))
    (m,) = recording.attention.maps
    assert m.keys == ("3",)


def by_examples(attend):
    return lambda *three: [attend(*(x[b] for x in three)) for b in range(B)]


def by_examples_and_heads(*three):
    return [by_hand(*(x[b, h] for x in three)) for h in range(H) for b in range(B)]


def by_examples_split(*three):
    return [by_hand(*one) for one in zip(*(x.split(1) for x in three), strict=True)]


@pytest.mark.parametrize(
    "attend", [by_examples(by_hand), by_examples(by_sdpa), by_examples_and_heads, by_examples_split]
)
def test_a_loop_over_examples_is_not_shown(attend):
    recording, _ = recorded(attend)
    assert recording.is_empty
    assert "Layer: runs for some examples at a time" in recording.notices[0]


@pytest.mark.parametrize("cut", [lambda x: [x[:, 0], x[:, 1]], lambda x: x.unbind(1), lambda x: x.transpose(0, 1)])
@pytest.mark.parametrize("is_cut_first", [False, True])
def test_a_loop_over_examples_that_stand_behind_the_tokens_is_not_shown(cut, is_cut_first):
    class Loop(nn.Linear):
        def forward(self, x):
            if is_cut_first:
                parts = [super(Loop, self).forward(one).chunk(3, -1) for one in cut(x)]
            else:
                parts = zip(*map(cut, super().forward(x).chunk(3, -1)), strict=True)
            return torch.stack([by_hand(*one)[0] for one in parts], 1)

    with mhaviz.record() as recording:
        nn.Sequential(Loop(D, 3 * D), Loop(D, 3 * D))(torch.randn(T, B, D))
    assert recording.is_empty
    assert [line[:25] for line in recording.notices] == [f"{i}: runs for some examples" for i in (0, 1)]


@pytest.mark.parametrize("attend", [by_hand, by_sdpa])
@pytest.mark.parametrize("take", [lambda x, n: x.split(n), lambda x, n: [x[i : i + n] for i in range(0, len(x), n)]])
@pytest.mark.parametrize("size", range(1, B * H))
def test_slices_of_examples_and_heads_are_not_shown(attend, take, size):
    """Sliced attention of diffusers: the last slice may be as long as the batch."""
    recording, _ = recorded(
        lambda *three: [attend(*one) for one in zip(*(take(x.flatten(0, 1), size) for x in three), strict=True)]
    )
    assert recording.is_empty
    (line,) = recording.notices
    assert line.startswith("Layer: runs for some examples at a time")


def test_a_module_that_runs_for_some_examples_at_a_time_is_shown():
    layer, x = Layer(by_hand), torch.randn(2 * B, T, H * D)
    with mhaviz.record(layer, passes="0-") as recording:
        for one in x.split(B):
            layer(one)
    for m, one in zip(recording.attention.maps, x.split(B), strict=True):
        q, k, _ = layer.projected(one)
        np.testing.assert_allclose(m.weights, (q @ k.mT).softmax(-1)[0].detach(), atol=CLOSE)


@pytest.mark.parametrize("ends", [(0, 3, 6, 9), (0, 4, 8, 9)], ids=["threes", "fours and one"])
def test_chunks_of_queries_outside_of_modules_are_not_drawn_as_all(ends):
    layer, later = nn.Linear(16, 48), torch.ones(9, 9).triu(1).bool()
    with torch.no_grad(), mhaviz.record() as recording:
        q, k, v = (x.view(1, 9, 2, 8).transpose(1, 2) for x in layer(torch.randn(1, 9, 16)).chunk(3, -1))
        for a, b in itertools.pairwise(ends):
            (q[:, :, a:b] @ k.mT).masked_fill(later[a:b], -torch.inf).softmax(-1) @ v
    assert recording.is_empty
    assert any("whether these are parts of one attention" in line for line in recording.missed)
