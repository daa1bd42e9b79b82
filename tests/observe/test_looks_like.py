"""What looks like attention and is not drawn is said in a line, beside the attention that is drawn."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import uses_torch_jit, watch

from mhaviz import record

B, H, T, D = 2, 3, 6, 4


def sigmoid(q, k, v):
    return torch.sigmoid(q @ k.mT - 1) @ v


def exp2(q, k, v):
    E = torch.exp2(q @ k.mT)
    return (E / E.sum(-1, keepdim=True)) @ v


def divided_afterwards(q, k, v):
    E = (q @ k.mT).exp()
    return E @ v / E.sum(-1, keepdim=True)


def divided_afterwards_and_summed(q, k, v):
    E = (q @ k.mT).exp()
    return (E.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2) / E.sum(-1, keepdim=True)


def relu(q, k, v):
    return torch.einsum("bhqk,bhkd->bhqd", F.relu(torch.einsum("bhqd,bhkd->bhqk", q, k)) ** 2 / T, v)


def hard(q, k, v):
    """Of each query the key of the largest score alone (Xu et al. 2015, arXiv 1502.03044)."""
    return F.one_hot((q @ k.mT).argmax(-1), T).float() @ v


def hard_by_places(q, k, v):
    S = q @ k.mT
    return torch.zeros_like(S).scatter_(-1, S.argmax(-1, keepdim=True), 1.0) @ v


def gumbel(q, k, v):
    return F.gumbel_softmax(q @ k.mT, tau=1.0, dim=-1) @ v


def sparsemax(q, k, v):
    """Martins and Astudillo 2016, arXiv 1602.02068."""
    z = q @ k.mT
    ordered = z.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, T + 1)
    sums = ordered.cumsum(-1) - 1
    size = (ordered * ranks > sums).sum(-1, keepdim=True)
    return torch.clamp(z - sums.gather(-1, size - 1) / size, min=0) @ v


def over_the_queries(q, k, v):
    """Slots compete for tokens (Locatello et al. 2020, arXiv 2006.15055)."""
    A = (q @ k.mT).softmax(dim=-2)
    return (A / A.sum(-1, keepdim=True)) @ v


def gated_within_the_product(q, k, v):
    A = (q @ k.mT).softmax(-1)
    return torch.einsum("bhqk,bhkd,bhk->bhqd", A, v, torch.sigmoid(k.sum(-1)))


def largest_of_each_query(q, k, v):
    """The values of the largest scores are gathered for each query."""
    largest = (q @ k.mT).topk(3)
    E = largest.values.exp()
    rows = v.unsqueeze(2).expand(-1, -1, T, -1, -1).gather(3, largest.indices.unsqueeze(-1).expand(-1, -1, -1, -1, D))
    return ((E / E.sum(-1, keepdim=True)).unsqueeze(-2) @ rows).squeeze(-2)


def stick_breaking(q, k, v):
    """Tan et al. 2024, arXiv 2410.17980."""
    S, seen = q @ k.mT, torch.ones(T, T).tril(-1).bool()
    taken, left = F.logsigmoid(S).masked_fill(~seen, -1e9), F.logsigmoid(-S).masked_fill(~seen, 0)
    return (taken + left.flip(-1).cumsum(-1).flip(-1) - left).exp() @ v


def silu(q, k, v):
    """Zhai et al. 2024, HSTU, arXiv 2402.17152."""
    return F.silu(q @ k.mT) @ v


def scores_put_in_place(q, k, v):
    """As Longformer's windows (Beltagy et al. 2020, arXiv 2004.05150)."""
    S = torch.zeros(B, H, T, T)
    S[:, :, :, :] = q @ k.mT
    return F.pad(S.softmax(-1), (0, 1)).flatten(2)[:, :, : T * T].view(B, H, T, T) @ v


def linear(q, k, v):
    """Katharopoulos et al. 2020, arXiv 2006.16236."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2).unsqueeze(-1))


def without_a_softmax(q, k, v):
    return (q @ k.mT).tril() @ v


U = torch.randn(D)
CHANNELS = torch.randn(H * D, H * D, 1)


def pooled(q, k, v):
    """Yang et al. 2016, hierarchical attention networks."""
    S = F.linear(torch.tanh(k), U[None])
    return (S.softmax(-2) * v).sum(-2, keepdim=True).expand_as(v)


def pooled_by_einsum(q, k, v):
    return torch.einsum("bht,bhtd->bhd", F.linear(k, U[None]).squeeze(-1).softmax(-1), v).unsqueeze(2).expand_as(v)


def channels_first(x):
    return x.transpose(1, 2).flatten(2).mT  # (B, H · D, T)


def pooled_with_channels_first(q, k, v):
    scores = F.conv1d(torch.tanh(channels_first(k)), U.repeat(H)[None, :, None])
    return (scores.softmax(-1) * channels_first(v)).sum(-1).view(B, H, 1, D).expand_as(v)


def pooled_by_a_softmax_for_each_channel(q, k, v):
    """Okabe et al. 2018, attentive statistics pooling, arXiv 1803.10963, as ECAPA-TDNN has it."""
    scores = F.conv1d(torch.tanh(channels_first(k)), CHANNELS)
    return (scores.softmax(dim=2) * channels_first(v)).sum(dim=2).view(B, H, 1, D).expand_as(v)


def additive_by_sums(q, k, v):
    """Bahdanau et al. 2015, arXiv 1409.0473."""
    S = F.linear(torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)), U[None])
    return (v.unsqueeze(-3) * S.softmax(-2)).sum(dim=-2)


def mean_of_heads(q, k, v):
    return ((q @ k.mT).softmax(-1).mean(1) @ v[:, 0]).unsqueeze(1).expand_as(v)


def assigned(q, k, v):
    A = torch.zeros(B, H, T, T)
    A[:] = (q @ k.mT).softmax(-1)
    A[..., 0] = 0
    return A @ v


def by_numpy(q, k, v):
    return torch.from_numpy((q @ k.mT).softmax(-1).detach().numpy()) @ v


def by_sparse_matrices(q, k, v):
    A = (q @ k.mT).softmax(-1).flatten(0, 1)
    return torch.stack(
        [torch.sparse.mm(one.to_sparse(), x) for one, x in zip(A, v.flatten(0, 1), strict=True)]
    ).view_as(v)


def of_sparse_scores(q, k, v):
    """As of a graph's edges, here from each token to those before it."""
    S, edges = (q @ k.mT).flatten(0, 1), torch.ones(T, T).tril().nonzero().T
    scores = [torch.sparse_coo_tensor(edges, one[edges[0], edges[1]], (T, T), check_invariants=True) for one in S]
    return torch.stack(
        [torch.sparse.softmax(one, 1) @ x for one, x in zip(scores, v.flatten(0, 1), strict=True)]
    ).view_as(v)


def by_embedding_bags(q, k, v):
    A, bags = (q @ k.mT).softmax(-1).reshape(-1, T), torch.arange(B * H * T).view(-1, 1, T).expand(-1, T, -1)
    return F.embedding_bag(bags.reshape(-1, T), v.reshape(-1, D), per_sample_weights=A, mode="sum").view_as(v)


def over_two_axes(q, k, v):
    """As of the patches of an image."""
    A = (q @ k.mT).softmax(-1).unflatten(-1, (2, T // 2))
    return torch.einsum("bhqxy,bhxyd->bhqd", A, v.unflatten(2, (2, T // 2)))


EDGES = torch.cartesian_prod(torch.arange(T), torch.arange(T)).T


def over_edges(q, k, v):
    """As torch_geometric.utils.softmax has it, and GATConv's messages (Veličković et al. 2018, arXiv 1710.10903)."""
    to, of = EDGES
    S = F.leaky_relu(F.linear(q, U[None])[..., to, 0] + F.linear(k, U[None])[..., of, 0]).flatten(0, 1).T
    index = to[:, None].expand_as(S)
    largest = S.new_full((T, B * H), -torch.inf).scatter_reduce(0, index, S.detach(), "amax")
    E = (S - largest.index_select(0, to)).exp()
    A = E / (E.new_zeros(T, B * H).scatter_add_(0, index, E) + 1e-16).index_select(0, to)
    messages = A[..., None] * v.flatten(0, 1).transpose(0, 1)[of]
    return messages.new_zeros(T, B * H, D).index_add_(0, to, messages).transpose(0, 1).view_as(v)


def over_edges_divided_afterwards(q, k, v):
    to, of = EDGES
    E = (q[:, :, to] * k[:, :, of]).sum(-1, keepdim=True).exp()
    return torch.zeros_like(v).index_add(2, to, E * v[:, :, of]) / torch.zeros(B, H, T, 1).index_add(2, to, E)


def in_one_product(q, k, v):
    return torch.einsum("bhqd,bhkd,bhke->bhqe", q, k, v)


def scores_by_distances(q, k, v):
    return (-torch.cdist(q, k)).softmax(-1) @ v


OTHERS = [
    assigned,
    by_numpy,
    by_sparse_matrices,
    scores_put_in_place,
    by_embedding_bags,
    of_sparse_scores,
    over_two_axes,
    in_one_product,
    over_edges,
    over_edges_divided_afterwards,
    scores_by_distances,
    largest_of_each_query,
    stick_breaking,
    silu,
    mean_of_heads,
    sigmoid,
    exp2,
    divided_afterwards,
    divided_afterwards_and_summed,
    relu,
    hard,
    hard_by_places,
    gumbel,
    sparsemax,
    over_the_queries,
    linear,
    without_a_softmax,
    pooled,
    pooled_by_einsum,
    pooled_with_channels_first,
    pooled_by_a_softmax_for_each_channel,
    additive_by_sums,
    gated_within_the_product,
]


class _Both(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.attend, self.other = _Layer(_plain), _Layer(other)

    def forward(self, x):
        return self.other(self.attend(x))


class _Layer(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.qkv = function, nn.Linear(H * D, 3 * H * D)

    def forward(self, x):
        q, k, v = self.qkv(x).view(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
        return self.function(q, k, v).transpose(1, 2).flatten(2)


def _plain(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize("other", OTHERS)
def test_what_looks_like_attention_is_said(other):
    seen, _ = watch(lambda model, x: model(model(x)), _Both(other), torch.randn(B, T, H * D))
    assert seen.names == ["attend", "attend"]
    (line,) = seen.missed
    assert line.startswith("other: ")
    assert "is not drawn" in line or "not drawn unless" in line or "not shown" in line


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (largest_of_each_query, "weighs the keys of each query's largest scores or weights"),
        (stick_breaking, "multiplied by log_sigmoid and exp and no softmax"),
        (silu, "multiplied by silu and no softmax"),
    ],
)
def test_what_it_looks_like_is_said_in_its_own_words(other, words):
    seen, _ = watch(_Both(other), torch.randn(B, T, H * D))
    (line,) = seen.missed
    assert words in line


E = torch.randn(3, D, D)
NOTHING = {
    "a product of three matrices, as of LoRA": lambda q, k, v: v @ (E[0] @ E[1]),
    "experts": lambda q, k, v: (
        F.linear(q, E[:, 0]).softmax(-1).unsqueeze(-1) * torch.stack([F.linear(v, one) for one in E], -2)
    ).sum(-2),
    "two of the experts": lambda q, k, v: (
        lambda best: (
            best.values.softmax(-1).unsqueeze(-1)
            * torch.einsum("bhtd,edf->bhtef", v, E).gather(-2, best.indices.unsqueeze(-1).expand(-1, -1, -1, -1, D))
        ).sum(-2)
    )(F.linear(q, E[:, 0]).topk(2, -1)),
    "experts by einsum": lambda q, k, v: torch.einsum(
        "bhte,bhted->bhtd", F.linear(q, E[:, 0]).softmax(-1), torch.einsum("bhtd,edf->bhtef", v, E)
    ),
    "channels that are weighed": lambda q, k, v: (
        (F.linear(v.mean(2, keepdim=True), E[0]).softmax(-1) * v).sum(-1, keepdim=True).expand_as(v)
    ),
    "channels first that are weighed": lambda q, k, v: (
        (F.conv1d(channels_first(v).mean(-1, keepdim=True), CHANNELS).softmax(1) * channels_first(v))
        .sum(1)
        .view(B, 1, T, 1)
        .expand_as(v)
    ),
    "an expectation": lambda q, k, v: (F.linear(v, E[0]).softmax(-1) * torch.arange(D)).sum(-1, True).expand_as(v),
    "a hidden layer of parameters": lambda q, k, v: (
        torch.sigmoid(v @ nn.Parameter(torch.ones(D, 8))) @ nn.Parameter(torch.ones(8, D))
    ),
    "a norm that is weighed": lambda q, k, v: v * torch.einsum("bhtd,bhtd,bht->bh", q, k, v[..., 0])[..., None, None],
    "a draw from a normal distribution": lambda q, k, v: (lambda z: z / z.sum(-2, keepdim=True))(
        v + torch.ones_like(v) * (k / 2).exp()
    ),
    "sums of what decays": lambda q, k, v: torch.zeros_like(v).index_add(2, EDGES[0][:T], (-k.abs()).exp() * v),
    "shares of what is alike, as in a contrastive loss": lambda q, k, v: (  # Khosla et al. 2020, arXiv 2004.11362
        lambda E: (E * torch.eye(T)).sum(-1, keepdim=True) / E.sum(-1, keepdim=True) * v
    )((q @ k.mT).exp()),
    "a gate": lambda q, k, v: torch.sigmoid(q @ k.mT).mean(-1, keepdim=True) * v,
    "capped scores": lambda q, k, v: (5 * torch.tanh((q @ k.mT) / 5)).softmax(-1) @ v,
    "sums of weights": lambda q, k, v: (lambda A: A @ v + A.sum(-2).unsqueeze(-1) + A.sum(-1, keepdim=True))(
        (q @ k.mT).softmax(-1)
    ),
}


def _by_vector(q, k, v):
    return torch.stack([v[0, 0].T.mv(k[0, 0].mv(one).softmax(0)) for one in q[0, 0]]).expand(*q.shape[:-1], -1)


def _vector_first(q, k, v):
    return torch.stack([(k[0, 0] @ one).softmax(0) @ v[0, 0] for one in q[0, 0]]).expand(*q.shape[:-1], -1)


def _by_operators(q, k, v):
    return torch.ops.aten.matmul(torch.ops.aten._softmax(q @ k.mT, -1, False), v)


def _at_points(q, k, v):
    """Deformable attention (Zhu et al. 2021, arXiv 2010.04159)."""
    A = F.linear(q.flatten(0, 1), torch.ones(3, D)).softmax(-1)[:, None]
    points = F.linear(q.flatten(0, 1), torch.ones(6, D)).tanh().unflatten(-1, (3, 2))
    read = F.grid_sample(v.flatten(0, 1).mT[..., None], points, align_corners=False)
    return (read * A).sum(-1).mT.view_as(v)


def _expected(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize("other", [_by_vector, _vector_first, _by_operators, _at_points])
def test_it_is_said_of_what_no_product_of_matrices_weighs(other):
    model, x = _Both(other), torch.randn(B, T, H * D)
    if other is not _at_points:
        q, k, v = torch.randn(3, 1, 1, T, D)
        torch.testing.assert_close(other(q, k, v), _expected(q, k, v))
    seen, _ = watch(lambda model, x: model(model(x)), model, x)
    assert seen.names == ["attend", "attend"]
    (line,) = seen.missed
    assert line.startswith("other: ")
    assert line.endswith("looks like attention and is not drawn")


@uses_torch_jit
@pytest.mark.parametrize("compile_", [torch.jit.script, lambda layer: torch.jit.trace(layer, torch.randn(B, T, D))])
def test_it_is_said_of_what_torch_has_compiled_before(compile_):
    class Attend(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(torch.softmax(torch.matmul(x, x.transpose(-1, -2)), dim=-1), x)

    model = nn.Sequential(compile_(Attend()))
    seen, _ = watch(model, torch.randn(B, T, D))
    assert seen.missed == ["0: runs compiled by torch.jit, and is not seen"]


def test_weights_that_values_of_another_module_meet_again_are_said():
    """LazyFormer (Ying et al. 2021, arXiv 2102.12702): layers that attend by the weights of the layer before."""

    class Values(nn.Module):
        def forward(self, A, v):
            return A @ v + A @ (v + 1)  # twice in one module is the same attention

    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again = Values(), Values()

        def forward(self, x):
            A = (x @ x.mT).softmax(-1)
            return self.again(A, self.first(A, x))

    seen, _ = watch(Lazy(), torch.randn(B, T, D))
    assert seen.names == ["first"]
    assert seen.missed == [
        "again: values are multiplied by the weights of first, which looks like attention and is not drawn"
    ]


def _attend(q, k, v):
    return torch.softmax(torch.matmul(q, k.transpose(-1, -2)), dim=-1) @ v


def _fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@uses_torch_jit
@pytest.mark.parametrize("function", [_attend, _fused])
def test_it_is_said_of_functions_that_torch_has_compiled_before(function):
    call = torch.jit.ScriptFunction.__call__
    seen, result = watch(model := _Both(torch.jit.script(function)), x := torch.randn(B, T, H * D))
    assert seen.names == ["attend"]
    (line,) = seen.missed
    assert line.startswith("other: ")
    assert line.endswith("a function compiled by torch.jit, which looks like attention and is not drawn")
    assert torch.equal(result, model(x))
    assert torch.jit.ScriptFunction.__call__ is call


def test_it_is_said_of_what_was_exported():
    class Attend(nn.Module):
        def forward(self, x):
            return (x @ x.mT).softmax(-1) @ x

    x = torch.randn(B, T, D)
    seen, _ = watch(torch.export.export(Attend(), (x,)).module(), x)
    (line,) = seen.missed
    assert "a softmax by the operator aten::softmax" in line


class Interest(nn.Module):
    """Deep Interest Network: what a layer makes of a candidate and each item weighs the items, without a softmax."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(9, D)
        self.score = nn.Sequential(nn.Linear(3 * D, D), nn.PReLU(), nn.Linear(D, 1))

    def forward(self, candidate, history):
        k = self.items(history)
        q = self.items(candidate)[:, None].expand_as(k)
        return self.score(torch.cat([k, q, q * k], -1)).mT @ k


def test_tokens_that_a_layer_weighs_without_a_softmax_are_said():
    seen, _ = watch(Interest(), torch.tensor([3]), torch.tensor([[1, 2, 4, 5]]))
    assert not seen.names
    assert "weighed by numbers that a layer has made of each" in seen.missed[0]


def test_learned_slots_that_compete_for_tokens_are_said():
    """The softmax runs over fixed rows, and yet tokens are weighed."""

    class Slots(nn.Module):
        def __init__(self):
            super().__init__()
            self.slots = nn.Parameter(torch.randn(1, 3, D))

        def forward(self, x):
            return over_the_queries(self.slots.expand(len(x), -1, -1), x, x)

    seen, _ = watch(Slots(), torch.randn(B, T, D))
    (line,) = seen.missed
    assert line.endswith("looks like attention and is not drawn")


@pytest.mark.parametrize(
    "attend",
    [
        lambda q, k, v: torch.linalg.matmul(torch.linalg.matmul(q, k.mT).softmax(-1), v),
        lambda q, k, v: F.softmin(-(q @ k.mT), dim=-1) @ v,
    ],
)
def test_other_names_of_the_same_functions(attend):
    q, k, v = torch.randn(3, 1, 1, T, D, dtype=torch.float64)
    seen, _ = watch(attend, q, k, v)
    assert seen.missed == []
    torch.testing.assert_close(seen.weights(), (q @ k.mT).softmax(-1))


def test_layers_whose_matrices_are_no_parameters_are_no_attention():
    """x W K^T V: W is a plain tensor, and x W no scores."""

    def program(x, W):
        q, k, v = (x @ W, x @ W + 1, x @ W + 2)
        return (q @ k.mT).softmax(-1) @ v

    seen, _ = watch(program, torch.randn(B, T, D), torch.randn(D, D))
    assert not any("without a softmax" in line for line in seen.missed)


@pytest.mark.parametrize("name", NOTHING)
def test_what_does_not_look_like_attention(name):
    seen, _ = watch(_Both(NOTHING[name]), torch.randn(B, T, H * D))
    assert seen.names[0] == "attend"
    assert seen.missed == []


def test_products_of_three_factors():
    scale, w = torch.rand(H, D) + 0.5, torch.randn(H, D, 5)

    def program(q, k, v):
        A = torch.einsum("bhqd,bhkd,hd->bhqk", q, k, scale).softmax(-1)
        return torch.einsum("bhqk,bhkd,hdm->bqm", A, v, w), A

    seen, (_, A) = watch(program, *torch.randn(3, B, H, T, D))
    assert seen.missed == []
    assert torch.equal(seen.weights(), A)


@pytest.mark.parametrize("with_a_product", [True, False])
def test_additive_attention_is_drawn_where_it_is_asked_for(with_a_product):
    """Bahdanau et al. 2015, arXiv 1409.0473, for one query."""

    class Additive(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)

        def forward(self, q, memory):
            self.A = self.v(torch.tanh(self.q(q)[:, None] + self.k(memory)))[..., 0].softmax(-1)
            return (self.A[:, None] @ memory)[:, 0] if with_a_product else (self.A[..., None] * memory).sum(1)

    model = nn.ModuleDict({"attend": Additive()})
    for module in (None, "attend"):
        with record(model, module=module) as recording:
            model["attend"](torch.randn(2, D), nn.Identity()(torch.randn(2, T, D)))
        assert any("scores not seen to be queries times keys" in line for line in recording.notices)
        assert recording.is_empty == (module is None)
    (found,) = recording.attention.maps
    np.testing.assert_array_equal(found.weights[0, 0], model["attend"].A[0].detach())


class _Attending(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend, self.layer = attend, nn.Linear(D, D)

    def forward(self, x):
        q = self.layer(x)
        return self.attend(q, q + 1, x)


@pytest.mark.parametrize(
    "outside",
    [
        _Attending(F.scaled_dot_product_attention),
        _Attending(_expected),
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: nn.MultiheadAttention(D, 2)(x, x, x)[0],
    ],
)
def test_attention_outside_of_the_model_is_said_to_be_outside(outside):
    inside, x = nn.Sequential(_Attending(_expected)), torch.randn(1, T, D)
    with record(inside) as recording:
        outside(inside(x))
    (line,) = recording.notices
    assert line.endswith("attention runs outside of the recorded model, and is not drawn")
    assert recording.attention.maps
    assert recording.missed == []  # of the model, so that a rollout through it is whole
    with record(inside) as recording:
        outside(x)
    assert recording.is_empty
    assert line.partition(":")[0] in recording.notices[0]


def test_a_router_outside_of_the_model_is_no_attention():
    with record(nn.Linear(D, D)) as recording:
        _Attending(lambda q, k, v: F.linear(q, E[0]).softmax(-1) @ E[1])(torch.randn(1, T, D))
    assert recording.notices == []
