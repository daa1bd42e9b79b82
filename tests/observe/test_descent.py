"""Whether a softmax runs over tokens, or over fixed rows such as experts: what is drawn is attention alone."""

import gc
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import watch

import mhaviz
from mhaviz.observe.descent import FixedRows

B, T, D, E, H = 2, 6, 8, 4, 2


def tokens():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


class _Program(nn.Module):
    """Keeps the weights that it computes in ``A``: (batch_size, n_heads, q_length, k_length)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.n_heads = 1
        self.w = nn.Parameter(torch.randn(E, D))
        self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(E))
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def mixture(self, gates, x):
        """Of the experts' outputs, by gates (batch, tokens, experts)."""
        self.A = gates.unsqueeze(1)
        return torch.einsum("bte,ebtd->btd", gates, torch.stack([expert(x) for expert in self.experts]))

    def attend(self, q, k, v):
        """(batch, n, heads × d) each."""
        q, k, v = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in (q, k, v))
        self.A = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        self.A_all = [*getattr(self, "A_all", ()), self.A]
        return (self.A @ v).transpose(1, 2).flatten(2)


class RouterScaled(_Program):
    def forward(self, x):
        return self.mixture(((x @ (self.w * 0.5).T) / 2).softmax(-1), x)


class RouterCast(_Program):
    def forward(self, x):
        return self.mixture(torch.matmul(x.double(), self.w.double().t()).float().softmax(-1), x)


class RouterNormalised(_Program):
    """Cosine router, of X-MoE (Chi et al. 2022, arXiv 2204.09179)."""

    def forward(self, x):
        return self.mixture((F.normalize(x, dim=-1) @ F.normalize(self.w, dim=-1).mT).softmax(-1), x)


class RouterOfABuffer(_Program):
    def __init__(self):
        super().__init__()
        self.register_buffer("random", torch.randn(D, E))

    def forward(self, x):
        return self.mixture((x @ self.random).softmax(dim=-1), x)


class ExpertsOfThreeAxes(_Program):
    """Experts whose parameters stand in one tensor, and gates that are put before them by an axis."""

    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.randn(E, D, D))

    def forward(self, x):
        outputs = torch.einsum("btd,edf->btef", x, self.up)
        gates = (x @ self.w.T).softmax(-1)
        self.A = gates.unsqueeze(1)
        return (gates.unsqueeze(2) @ outputs).squeeze(2)


class HypernetworkGate(_Program):
    """Gates by a matrix that another network makes of the mean token."""

    def __init__(self):
        super().__init__()
        self.hyper = nn.Linear(D, E * D)

    def forward(self, x):
        w = self.hyper(x.mean(1)).view(-1, E, D)
        return self.mixture(torch.einsum("btd,bed->bte", x, w).softmax(-1), x)


class HypernetworkOfExperts(HypernetworkGate):
    """The same, of experts in one tensor, and a product of matrices."""

    def forward(self, x):
        w = self.hyper(x.mean(1)).view(-1, E, D)
        gates = (x @ w.mT).softmax(-1)
        self.A = gates.unsqueeze(1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=2)
        return torch.matmul(gates.unsqueeze(-2), outputs).squeeze(-2)


class NearestNeighbours(_Program):
    """Votes of a bank of examples that is kept beside the parameters."""

    def __init__(self):
        super().__init__()
        self.bank, self.labels = torch.randn(20, D), F.one_hot(torch.arange(20) % 3).float()

    def forward(self, x):
        self.A = (x @ self.bank.T / 0.07).softmax(-1).unsqueeze(1)
        return self.A.squeeze(1) @ self.labels


class NearestNeighboursWithin(_Program):
    """The same, as a part of another module."""

    def __init__(self):
        super().__init__()
        self.votes = NearestNeighbours()

    def forward(self, x):
        y = self.votes(self.q(x))
        self.A = self.votes.A
        return y


class Codebook(_Program):
    """Soft vector quantisation: keys and values are the entries of an embedding, by distance."""

    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(16, D)

    def forward(self, x):
        codes = self.codes.weight
        distance = x.pow(2).sum(-1, keepdim=True) - 2 * x @ codes.t() + codes.pow(2).sum(-1)
        self.A = (-distance).softmax(-1).unsqueeze(1)
        return self.A.squeeze(1) @ codes


class CodebookOfMeans(_Program):
    """Entries that follow the tokens, as those of van den Oord et al. 2017 (arXiv 1711.00937), appendix A.1."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(5, D))

    def forward(self, x):
        self.codes.mul_(0.9).add_(0.1 * x.mean((0, 1)))
        self.A = (x @ self.codes.T).softmax(-1).unsqueeze(1)
        return self.A.squeeze(1) @ self.codes


class Memory(_Program):
    """A memory that is projected as keys and values: a Hopfield lookup."""

    def __init__(self):
        super().__init__()
        self.memory, self.n_heads = nn.Parameter(torch.randn(1, 5, D)), H

    def forward(self, x):
        memory = self.memory.expand(len(x), -1, -1)
        return self.attend(self.q(x), self.k(memory), self.v(memory))


class MemoryOfPyTorch(_Program):
    def __init__(self):
        super().__init__()
        self.memory, self.attention = nn.Parameter(torch.randn(5, D)), nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x):
        memory = self.memory[None].expand(len(x), -1, -1)
        output, self.A = self.attention(x, memory, memory, average_attn_weights=False)
        return output


class Prototypes(_Program):
    """Tokens are assigned to classes, and each class stands for a vector."""

    def __init__(self):
        super().__init__()
        self.register_buffer("prototypes", torch.randn(E, D))
        self.register_buffer("vectors", torch.randn(E, D))

    def forward(self, x):
        self.A = F.softmax(torch.cdist(x, self.prototypes) * 0 + x @ self.prototypes.T, dim=-1).unsqueeze(1)
        return torch.einsum("bhtc,cd->btd", self.A, self.vectors)


NO_ATTENTION = [
    RouterScaled,
    RouterCast,
    RouterNormalised,
    RouterOfABuffer,
    ExpertsOfThreeAxes,
    HypernetworkGate,
    HypernetworkOfExperts,
    NearestNeighbours,
    NearestNeighboursWithin,
    Codebook,
    CodebookOfMeans,
    Memory,
    MemoryOfPyTorch,
    Prototypes,
]


@pytest.mark.parametrize("make", NO_ATTENTION)
def test_fixed_rows_are_drawn_where_they_are_asked_for(make):
    model, x = make(), tokens()
    with mhaviz.record(model) as recording:
        model(x)
    assert recording.is_empty
    (line,) = recording.notices
    assert line.endswith("not drawn unless `module` names it")
    with pytest.raises(mhaviz.MhavizError, match=r"fixed rows|rows, and it is not|each query's own"):
        recording.attention  # noqa: B018
    with mhaviz.record(model, module="*", examples="all") as recording:
        model(x)
    maps = recording.attention.maps
    assert recording.notices == [line.split(";")[0]]
    assert [m.weights.shape for m in maps] == [one.shape for one in model.A]
    for m, one in zip(maps, model.A, strict=True):
        torch.testing.assert_close(torch.as_tensor(m.weights), one.detach(), rtol=0, atol=1e-6)
        if "fixed rows" in line and "tokens whose" not in line:
            assert m.columns.tokens.texts[0] == "fixed 0"
        if "not known" in line:
            assert m.columns.tokens.texts[0] == "row 0"
        assert m.kind in ("cross", "other")


@pytest.mark.parametrize("n_before", [0, 1])
def test_a_vote_among_labels_is_drawn_where_it_is_asked_for(n_before):
    """Matching networks (Vinyals et al. 2016, arXiv 1606.04080), equation 1: labels of a support set, one each."""
    queries, support = torch.randn(2, 6, D).unbind()
    labels = F.one_hot(torch.tensor([0, 2, 1, 1, 0, 2])).float()
    queries, support, labels = (x[(None,) * n_before] for x in (queries, support, labels))

    def vote(labels):
        return (queries @ support.mT).softmax(-1) @ labels

    with mhaviz.record() as recording:
        vote(labels)
    (line,) = recording.notices
    assert recording.is_empty
    assert "one-hot rows, which are labels, or numbers of tokens; not drawn unless `module` names it" in line
    for values, module in ((labels, "*"), (labels * 0.9, None), (labels + labels.flip(-1), None)):
        with mhaviz.record(module=module) as recording:
            vote(values)
        (m,) = recording.attention.maps
        A = (queries @ support.mT).softmax(-1)
        torch.testing.assert_close(torch.as_tensor(m.weights)[0], A[0] if n_before else A, rtol=0, atol=1e-6)


class RouterOfGroups(_Program):
    """A router for each group of experts: weights of three axes."""

    def __init__(self):
        super().__init__()
        self.groups = nn.Parameter(torch.randn(3, D, E))

    def forward(self, x):
        gates = torch.einsum("btd,gde->gbte", x, self.groups).softmax(-1)
        return torch.einsum("gbte,ebtd->btd", gates, torch.stack([expert(x) for expert in self.experts]))


class RouterOfTokens(_Program):
    """A router whose gates are put before the experts' outputs by an axis."""

    def forward(self, x):
        outputs = torch.stack([expert(x) for expert in self.experts], 2)
        return (self.q(x)[..., :E].softmax(-1).unsqueeze(2) @ outputs).squeeze(2)


class RouterOfHalves(_Program):
    """A router for each half of the features, by one layer."""

    def forward(self, x):
        gates = self.q(x).unflatten(-1, (2, E)).softmax(-1)
        return torch.einsum("bthe,bted->bthd", gates, torch.stack([expert(x) for expert in self.experts], 2))


@pytest.mark.parametrize("make", [RouterOfGroups, RouterOfTokens, RouterOfHalves])
def test_tokens_and_groups_of_experts_are_not_called_heads_where_they_are_asked_for(make):
    model = make()
    with torch.no_grad(), mhaviz.record(model, module="*") as recording:
        model(tokens())
    assert recording.is_empty
    assert "before the queries is heads; not shown" in recording.notices[1]


@pytest.mark.parametrize("to", ["bijh", "bhij", "hbij"])
def test_heads_of_additive_attention_are_factors_of_the_features(to):
    """GAT on a graph that has all edges: Velickovic et al. 2018, arXiv 1710.10903. Three heads, two graphs."""
    layer, own, others = nn.Linear(D, 12), torch.randn(3, 4), torch.randn(3, 4)

    class Graph(nn.Module):
        def forward(self, x):
            h = layer(x).unflatten(-1, (3, 4))
            S = ((h * own).sum(-1).unsqueeze(2) + (h * others).sum(-1).unsqueeze(1)).relu()
            S = torch.einsum(f"bijh->{to}", S)
            return torch.einsum(f"{to},bjhc->bihc", S.softmax(to.index("j")), h)

    h = layer(tokens()).unflatten(-1, (3, 4)).detach()
    expected = [
        torch.stack([((one[:, i] @ own[i])[:, None] + one[:, i] @ others[i]).relu().softmax(-1) for i in range(3)])
        for one in h
    ]
    with torch.no_grad(), mhaviz.record(model := Graph(), module="*", examples="all") as recording:
        model(tokens())
    for m, one in zip(recording.attention.maps, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(m.weights), one, rtol=0, atol=1e-6)


class _Looked(_Program):
    """Keys and values that a function of the program and of its tokens makes."""

    def __init__(self, keys, values=lambda m, k: k):
        super().__init__()
        self.table, self.keys, self.values = nn.Embedding(E, D), keys, values

    def forward(self, x):
        k = self.keys(self, x)
        self.A = (self.q(x) @ k.mT).softmax(-1)
        y = self.A @ self.values(self, k)
        self.A = self.A.unsqueeze(1)
        return y


def _filled(x, w):
    x[:] = w
    return x


MADE = [
    lambda m, x: torch.eye(D),
    lambda m, x: torch.linspace(-1, 1, 5 * D).view(5, D),
    lambda m, x: torch.tensor([[0.5] * D, [-1.0] * D]),
    lambda m, x: m.w + torch.arange(E)[:, None],
    lambda m, x: torch.arange(E)[:, None] * m.w,
    lambda m, x: _filled(x.new_zeros(E, D), m.w),
    lambda m, x: torch.empty(E, D).copy_(m.w),
    lambda m, x: _filled(x.new_empty(E, D)[1:], m.w[1:]),
    lambda m, x: m.table(torch.arange(E)),
    lambda m, x: m.k(F.one_hot(torch.arange(D)).float()),
    lambda m, x: m.w * torch.bernoulli(torch.full((E, 1), 0.9)),
    lambda m, x: torch.bernoulli(torch.full((E, 1), 0.9)) * m.w,
    lambda m, x: m.w * torch.ones(E, 1, dtype=torch.bool),
    lambda m, x: m.w * (torch.rand(E, 1) > 0.1),
    lambda m, x: (torch.rand(E, 1) > 0.1).float() / 0.9 * m.w,
    lambda m, x: m.w * torch.empty(E, 1).bernoulli_(0.9),
    lambda m, x: torch.where(torch.rand(E, 1) > 0.1, m.w, 0.0),
    lambda m, x: torch.cat([x.new_full((1, D), 0.1), m.w]),
    lambda m, x: torch.stack([torch.arange(5.0), *torch.ones(D - 1, 5)], -1),
    lambda m, x: torch.zeros_like(x[0]).cumsum(0) + torch.ones_like(x[0]),
]


@pytest.mark.parametrize("keys", MADE)
def test_what_a_module_makes_of_nothing_is_fixed(keys):
    model = _Looked(keys)
    with mhaviz.record(model) as recording:
        model(tokens())
    assert recording.is_empty
    assert "weighs a memory of fixed rows" in recording.notices[0]


@pytest.mark.parametrize("choose", [lambda w, i: w[i], lambda w, i: w.index_select(0, i), lambda w, i: w[i.long()]])
def test_of_rows_that_a_module_chooses_by_its_own_numbers_it_is_not_known_whether_they_are_tokens(choose):
    model = _Looked(lambda m, x: choose(m.w, torch.tensor([0, 2])))
    with mhaviz.record(model) as recording:
        model(tokens())
    assert recording.is_empty
    assert "weighs rows, and it is not known whether they are tokens" in recording.notices[0]


@pytest.mark.parametrize("by_linear", [True, False])
def test_keys_and_values_that_a_learned_matrix_mixes_are_rows(by_linear):
    """Linformer (Wang et al. 2020, arXiv 2006.04768)."""
    mix = nn.Linear(T, E, bias=False)
    model = _Looked(lambda m, x: mix(m.k(x).mT).mT if by_linear else mix.weight @ m.k(x))
    with mhaviz.record(model) as recording:
        model(tokens())
    (m,) = recording.attention.maps
    torch.testing.assert_close(torch.from_numpy(m.weights), model.A[0].detach())
    assert m.queries == tuple(map(str, range(T)))
    assert m.keys == tuple(f"row {i}" for i in range(E))


def test_values_that_a_module_writes_down_are_fixed():
    labels = torch.tensor  # as of a classifier that weighs texts
    model = _Looked(lambda m, x: m.k(x), lambda m, k: labels([[float(one)] for one in range(T)]))
    with mhaviz.record(model) as recording:
        model(tokens())
    assert "weighs tokens whose values are fixed rows" in recording.notices[0]


def _positions(n):
    angles = torch.arange(n)[:, None] / 100 ** (torch.arange(D // 2) / D)
    return torch.cat([angles.sin(), angles.cos()], -1)


def _turned(x):
    cos, sin = _positions(x.shape[1]).flip(-1), _positions(x.shape[1])
    return cos * x + sin * torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1)


def _cached(x, into, write):
    cache = into(len(x), T, D)
    for i in range(T):
        write(cache, i, x[:, i])
    return cache[:, :T]


def _written(write, into=torch.zeros):
    return lambda m, x: _cached(m.k(x), into, write)


def _padded(x):
    return x.new_zeros(B, T, D).masked_scatter(torch.ones(B, T, 1, dtype=torch.bool), x)


READ = [
    _written(lambda c, i, x: c[:, i].copy_(x)),
    _written(lambda c, i, x: c[:, i].copy_(x), torch.empty),
    _written(lambda c, i, x: c.__setitem__((slice(None), i), x)),
    _written(lambda c, i, x: c[:, i].add_(x)),
    _written(lambda c, i, x: torch.mul(x, 2, out=c.select(1, i))),
    _written(lambda c, i, x: c.index_copy_(1, torch.tensor([i]), x[:, None])),
    _written(lambda c, i, x: c.detach()[:, i].copy_(x)),
    lambda m, x: torch.zeros_like(x).add_(m.k(x)),
    lambda m, x: _positions(T) + x,
    lambda m, x: _turned(x),
    lambda m, x: torch.cat([x.new_zeros(B, 1, D), x, torch.ones(B, 2, D)], 1),
    lambda m, x: torch.full((T, T), 1 / T).tril() @ x,
    lambda m, x: torch.where(x > 0, torch.zeros(()), x),
    lambda m, x: _padded(x),
    lambda m, x: m.table(torch.tensor([[0, 3, 1, 2]]).expand(B, -1)) + m.table(torch.arange(4)),
    lambda m, x: m.table(torch.arange(4)) + m.table(torch.tensor([[0, 3, 1, 2]]).expand(B, -1)),
    lambda m, x: torch.eye(D)[x.argmax(-1)],
    lambda m, x: torch.zeros(B, T, D).scatter_(2, x.argmax(-1, keepdim=True), 1.0),
    lambda m, x: torch.randn(B, T, D),
    lambda m, x: torch.rand(B, T, D),
    lambda m, x: m.q(torch.rand(B, T, D)),
    lambda m, x: x * (torch.rand(T, 1) > 0.1),
    lambda m, x: torch.empty(B, T, D).normal_(),
]


@pytest.mark.parametrize("keys", READ)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_is_written_into_what_a_module_makes_is_no_longer_fixed(keys, mode):
    model = _Looked(keys)
    with mode(), mhaviz.record(model, examples="all") as recording:
        model(tokens())
    assert recording.notices == []
    for m, one in zip(recording.attention.maps, model.A, strict=True):
        torch.testing.assert_close(torch.as_tensor(m.weights), one, rtol=0, atol=1e-6)
        assert m.columns.tokens.texts[0] in {"0", "row 0"}


class Pooling(_Program):
    """One learned query for each head."""

    def __init__(self):
        super().__init__()
        self.query, self.n_heads = nn.Parameter(torch.randn(1, 1, D)), H

    def forward(self, x):
        return self.attend(self.query.expand(len(x), -1, -1), self.k(x), self.v(x))


class PoolingByMatrix(_Program):
    """A structured sentence embedding (Lin et al. 2017, arXiv 1703.03130): (rows, d) times tokens."""

    def forward(self, x):
        self.A = (self.w @ x.mT).softmax(-1).unsqueeze(1)
        return self.A.squeeze(1) @ x


class PoolingByVector(_Program):
    """A vector times tokens, the softmax over the axis of these."""

    def __init__(self):
        super().__init__()
        self.vector = nn.Parameter(torch.randn(D))

    def forward(self, x):
        weights = torch.einsum("btd,d->bt", torch.tanh(self.k(x)), self.vector).softmax(dim=1)
        self.A = weights[:, None, None]
        return torch.einsum("bt,btd->bd", weights, x)


class PoolingByColumns(_Program):
    """Queries as the columns of a matrix, so that the axis of the keys is not the last."""

    def forward(self, x):
        A = (x @ self.w.T).softmax(dim=1)
        self.A = A.mT.unsqueeze(1)
        return A.transpose(1, 2) @ x


class Perceiver(_Program):
    """Latents read tokens, and then each other; both in float16's place, by a cast."""

    def __init__(self):
        super().__init__()
        self.latents, self.n_heads, self.norm = nn.Parameter(torch.randn(3, D)), H, nn.LayerNorm(D)

    def forward(self, x):
        latents = self.latents.to(x.dtype).unsqueeze(0).repeat(len(x), 1, 1)
        latents = latents + self.attend(self.q(self.norm(latents)), self.k(x), self.v(x))
        return self.attend(self.q(latents), self.k(latents), self.v(latents))


class ObjectQueries(_Program):
    """DETR's decoder layer (Carion et al. 2020, arXiv 2005.12872): queries read themselves, then the image."""

    def __init__(self):
        super().__init__()
        self.queries, self.n_heads = nn.Embedding(5, D), H

    def forward(self, x):
        positions = self.queries.weight.unsqueeze(0).repeat(len(x), 1, 1)
        target = torch.zeros_like(positions)
        target = target + self.attend(self.q(target + positions), self.k(target + positions), self.v(target))
        return self.attend(self.q(target + positions), self.k(x), self.v(x))


class ClassTokenAsQuery(_Program):
    """A class token that alone asks, as CaiT's, of itself and of the patches."""

    def __init__(self):
        super().__init__()
        self.cls, self.n_heads = nn.Parameter(torch.randn(1, 1, D)), H

    def forward(self, x):
        cls = self.cls.expand(x.shape[0], -1, -1)
        u = torch.cat((cls, x), dim=1)
        return cls + self.attend(self.q(cls), self.k(u), self.v(u))


class ParameterAsQueryOfPyTorch(_Program):
    def __init__(self):
        super().__init__()
        self.query, self.attention = nn.Parameter(torch.randn(3, D)), nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x):
        output, self.A = self.attention(self.query.expand(len(x), -1, -1), x, x, average_attn_weights=False)
        return output


class InducingPoints(_Program):
    """A Set Transformer's block (Lee et al. 2019, arXiv 1810.00825): points read the set, and the set reads these."""

    def __init__(self):
        super().__init__()
        self.points, self.n_heads = nn.Parameter(torch.randn(1, 3, D)), H

    def forward(self, x):
        points = self.points.repeat(x.size(0), 1, 1)
        hidden = points + self.attend(self.q(points), self.k(x), self.v(x))
        return x + self.attend(self.q(x), self.k(hidden), self.v(hidden))


class MemoryTokens(_Program):
    """Keys are tokens beside slots of a memory (Burtsev et al. 2020, arXiv 2006.11527)."""

    def __init__(self):
        super().__init__()
        self.memory, self.n_heads = nn.Parameter(torch.randn(1, 3, D)), H

    def forward(self, x):
        both = torch.cat([self.memory.expand(len(x), -1, -1), x], dim=1)
        return self.attend(self.q(x), self.k(both), self.v(both))


class CacheInABuffer(_Program):
    """Keys and values are written into buffers before they are read."""

    def __init__(self):
        super().__init__()
        self.n_heads = H
        self.register_buffer("keys", torch.zeros(B, T, D))
        self.values = torch.zeros(B, T, D)

    def forward(self, x):
        self.keys[:, :T] = self.k(x)
        self.values[: len(x)].copy_(self.v(x))
        return self.attend(self.q(x), self.keys, self.values)


class CacheByItsData(CacheInABuffer):
    """Written without a gradient."""

    def forward(self, x):
        self.keys.data[:, :T] = self.k(x)
        self.values.data[: len(x)].copy_(self.v(x))
        return self.attend(self.q(x), self.keys, self.values)


class _Decoder(_Program):
    def forward(self, x):
        return self.attend(self.q(x), self.k(self.memory), self.v(self.memory))


class MemoryOfADecoder(_Program):
    """An attribute of the decoder, which it is given before it first runs."""

    def __init__(self):
        super().__init__()
        self.decoder = _Decoder()

    def forward(self, x):
        self.decoder.memory = self.v(x)
        y = self.decoder(x)
        self.A = self.decoder.A
        return y


class Prompted(_Program):
    """A prefix for keys and values alone (Li and Liang 2021, arXiv 2101.00190), and registers in the sequence."""

    def __init__(self):
        super().__init__()
        self.n_heads = H
        self.prefix, self.registers = nn.Parameter(torch.randn(2, 1, 2, D)), nn.Parameter(torch.randn(2, D))

    def forward(self, x):
        x = torch.cat([self.registers.expand(len(x), -1, -1), x], 1)
        before = self.prefix.expand(-1, len(x), -1, -1)
        k, v = torch.cat([before[0], self.k(x)], 1), torch.cat([before[1], self.v(x)], 1)
        return self.attend(self.q(x), k, v)


ATTENTION = {
    Pooling: [True],
    PoolingByMatrix: [True],
    PoolingByVector: [True],
    PoolingByColumns: [True],
    Perceiver: [True, False],
    ObjectQueries: [True, True],
    ClassTokenAsQuery: [True],
    ParameterAsQueryOfPyTorch: [True],
    InducingPoints: [True, False],
    MemoryTokens: [False],
    CacheInABuffer: [False],
    CacheByItsData: [False],
    MemoryOfADecoder: [False],
    Prompted: [False],
}


@pytest.mark.parametrize("make", ATTENTION)
def test_learned_queries_and_memory_tokens_are_attention(make):
    model = make()
    with torch.no_grad(), mhaviz.record(model, examples="all") as recording:
        model(tokens())
    assert recording.notices == []
    maps = sorted(recording.attention.maps, key=lambda m: (m.module, m.sentence))
    expected = [one for A in getattr(model, "A_all", [model.A]) for one in A]
    assert len(maps) == len(expected)
    for m, one in zip(maps, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(m.weights), one, rtol=0, atol=1e-6)
    assert ("fixed rows" in recording.attention.source.remark) is any(ATTENTION[make])
    are_fixed = [m.rows.tokens.texts[0] == "fixed 0" for m in maps[::B]]
    assert are_fixed == ATTENTION[make]


class Slots(nn.Module):
    """Learned queries (experts, slots, features), as of soft mixtures of experts: Puigcerver et al. 2024, arXiv
    2308.00951. ``way``: how they meet tokens; of "split keys" experts are heads.
    """

    def __init__(self, way, has_layer, sizes, make=nn.Parameter):
        super().__init__()
        self.way, self.k = way, nn.Linear(D, D) if has_layer or way == "split keys" else nn.Identity()
        self.phi = make(torch.randn(*sizes, D // sizes[0] if way == "split keys" else D))

    def forward(self, x):
        k, phi = self.k(x), self.phi
        if self.way == "split keys":
            k = k.unflatten(-1, (len(phi), -1)).transpose(1, 2)
            self.A = (phi @ k.mT).softmax(-1)
            return self.A @ k
        if self.way == "matmul":
            self.A = (phi @ k[:, None].mT).softmax(-1)
            return self.A @ k[:, None]
        if self.way == "matrix":
            S = (k @ phi.flatten(0, 1).T).unflatten(-1, phi.shape[:2])
        else:
            S = torch.einsum("bnd,esd->bnes", k, phi)
        A = S.softmax(1)
        self.A = A.permute(0, 2, 3, 1)
        return torch.einsum("bnes,bnd->besd", A, k)


@pytest.mark.parametrize("has_layer", [False, True])
@pytest.mark.parametrize("sizes", [(4, 3), (B, 3), (1, 3)])
@pytest.mark.parametrize("way", ["einsum", "matrix", "matmul", "split keys"])
def test_an_axis_of_learned_queries_is_of_heads_where_features_are_split_into_it(way, sizes, has_layer):
    model = Slots(way, has_layer, sizes)
    with torch.no_grad(), mhaviz.record(model, examples="all") as recording:
        model(tokens())
    if way != "split keys" and sizes[0] > 1:
        assert recording.is_empty
        (line,) = recording.notices
        assert re.search(
            "not known whether (one of its axes of .* is heads|heads or the batch are on its axes of 2 and 2)",
            line,
        )
        return
    for m, one in zip(recording.attention.maps, model.A, strict=True):
        torch.testing.assert_close(torch.as_tensor(m.weights), one, rtol=0, atol=1e-6)
        assert m.queries == ("fixed 0", "fixed 1", "fixed 2")


def test_queries_of_several_axes_that_may_be_learned_are_refused_likewise():
    model = Slots("einsum", True, (4, 3), make=lambda phi: phi)
    with torch.no_grad(), mhaviz.record(model) as recording:
        model(tokens())
    assert recording.is_empty
    assert "not known whether one of its axes of 2 and 4 before the queries is heads" in recording.notices[0]


class GivenBefore(_Program):
    """Reads what was kept on it before the call, as pix2pix does."""

    def __init__(self, make):
        super().__init__()
        self.make, self.words, self.places, self.queries = make, nn.Embedding(9, D), nn.Embedding(T, D), torch.ones(T)
        self.pytorch = nn.MultiheadAttention(D, H, batch_first=True)

    def set_input(self, x, other):
        self.x, self.other, self.ids, self.mask = x, other, torch.arange(B * T).view(B, T) % 5, torch.ones(B, T, 1)
        self.latents = torch.randn(B, T, D)

    def forward(self, given):
        queries, keys, masked = self.make(self, given)
        q, k, v = self.q(queries), self.k(keys), self.v(keys)
        if masked == "pytorch":
            return self.pytorch(queries, keys, keys)[0]
        if masked == "fused":
            return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
        S = q @ k.mT
        return (S.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf) if masked else S).softmax(-1) @ v


def _copied(model):
    x = torch.zeros(B, T, D)
    x[:, :] = model.x
    return x


ROWS, NUMBERS = (tuple(f"{called}{place}" for place in range(T)) for called in ("row ", ""))
KEPT = {
    "by hand": (lambda m, x: (m.x, m.x, ""), ROWS, ROWS),
    "fused": (lambda m, x: (m.x, m.x, "fused"), ROWS, ROWS),
    "a layer of PyTorch": (lambda m, x: (m.x, m.x, "pytorch"), ROWS, ROWS),
    "numbers of tokens": (lambda m, x: (m.words(m.ids), m.words(m.ids), ""), ROWS, ROWS),
    "with positions and a mask": (lambda m, x: ((m.places.weight + m.x) * m.mask,) * 2 + ("",), ROWS, ROWS),
    "copied": (lambda m, x: (_copied(m),) * 2 + ("",), ROWS, ROWS),
    "causal": (lambda m, x: (m.x, m.x, "causal"), NUMBERS, NUMBERS),
    "queries": (lambda m, x: (m.latents, x, "fused"), ROWS, NUMBERS),
    "queries by hand": (lambda m, x: (m.latents, x, ""), ROWS, NUMBERS),
    "beside what is given": (lambda m, x: (x + m.x, x + m.x, ""), NUMBERS, NUMBERS),
    "keys": (lambda m, x: (x, m.x, "fused"), None, None),
    "keys by hand": (lambda m, x: (x, m.x, ""), None, None),
    "keys of another": (lambda m, x: (m.x, m.other, ""), None, None),
    "keys of another, fused": (lambda m, x: (m.x, m.other, "fused"), None, None),
    "keys of another, with the same mask": (lambda m, x: (m.x * m.mask, m.other * m.mask, ""), None, None),
    "keys, copied": (lambda m, x: (x, _copied(m), "fused"), None, None),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("n_before", [0, 1])
def test_what_is_kept_on_a_module_before_the_call_may_be_an_input_or_a_constant(name, n_before):
    make, queries, keys = KEPT[name]
    model = GivenBefore(make)

    def run():
        for _ in range(n_before + 1):
            model.set_input(tokens(), tokens() + 1)
            model(tokens())

    with torch.no_grad(), mhaviz.record(model, passes=n_before) as recording:
        run()
    if queries is None:
        (line,) = recording.notices
        assert "rows, and it is not known whether they are tokens; not drawn unless `module` names it" in line
        with torch.no_grad(), mhaviz.record(model, module="*", passes=n_before) as recording:
            run()
        queries, keys = (ROWS if "another" in name else NUMBERS), ROWS
    (m,) = recording.attention
    assert (m.queries, m.keys) == (queries, keys)
    assert "fixed" not in recording.attention.source.remark
    assert ("constant of the program" in recording.attention.source.remark) is (ROWS in (queries, keys))


def test_a_plain_script_knows_no_fixed_rows():
    q, k = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 7, 8)
    seen, _ = watch(lambda: (q @ k.mT).softmax(-1) @ k)
    assert seen.only().are_fixed == (False, False)


def test_no_fixed_tensor_is_kept_alive():
    model = Memory()
    seen, _ = watch(model, tokens())
    known = len(seen.watch.fixed)
    assert known <= 2, "what was made of parameters is gone"


class CrossCache(nn.Module):
    """Keeps the keys of a memory in a buffer, and reads them again where it is given none."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 5, 4))

    def forward(self, q, k=None):
        if k is not None:
            self.keys.copy_(k)
        return F.scaled_dot_product_attention(q, self.keys, self.keys)


def test_whether_a_buffer_that_was_written_before_holds_tokens_is_not_known():
    cross = CrossCache()
    seen, _ = watch(lambda: [cross(torch.randn(1, 2, 3, 4), k) for k in (torch.randn(1, 2, 5, 4), None)])
    assert len(seen) == 1
    (line,) = seen.missed
    assert "weighs rows, and it is not known whether they are tokens" in line


class _Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.W, self.A, self.B = (nn.Parameter(torch.randn(*sizes)) for sizes in ((D, 9), (2, 9), (D, 2)))

    def forward(self, x):
        return F.linear(x, self.W + self.B @ self.A)


class _Dequantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randint(-99, 99, (D, 9), dtype=torch.int8))
        self.register_buffer("scale", torch.tensor(0.01))

    def forward(self, x):
        return F.linear(x, self.codes.float() * self.scale)


class _Sliced(nn.Module):
    def __init__(self, whole, head):
        super().__init__()
        self.whole, self.head = whole, head

    def forward(self, x):
        return F.linear(x, self.whole[self.head])


class _HeadsApart(nn.Module):
    """Heads with a layer each, as many as examples: the layers alone tell which axis is which."""

    def __init__(self, layers):
        super().__init__()
        self.q, self.k, self.v = (nn.ModuleList(layers()) for _ in range(3))

    def forward(self, x):
        q, k, v = (torch.stack([layer(x) for layer in layers]) for layers in (self.q, self.k, self.v))
        self.A = (q @ k.mT).softmax(-1)
        return self.A @ v


def _sliced():
    whole = nn.Parameter(torch.randn(3, D, 9))
    return [_Sliced(whole, head) for head in range(3)]


MADE_ANEW = {
    "LoRA": lambda: [_Lora() for _ in range(3)],
    "weight norm": lambda: [nn.utils.parametrizations.weight_norm(nn.Linear(9, D)) for _ in range(3)],
    "dequantised": lambda: [_Dequantised() for _ in range(3)],
    "slices": _sliced,
}


@pytest.mark.parametrize("layers", MADE_ANEW.values(), ids=MADE_ANEW)
def test_matrices_made_anew_are_told_apart_by_what_they_are_made_of(layers):
    """Not by an id, which the next matrix is given once one is gone: runs of one program would differ."""
    for run in range(12):
        model, held = _HeadsApart(layers), [torch.empty(D, 9) for _ in range(run % 4)]
        with torch.no_grad():
            seen, _ = watch(model, torch.randn(3, T, 9))
        held.clear()
        gc.collect()
        assert seen.missed == []
        assert torch.equal(seen.weights(), model.A.transpose(0, 1))


@pytest.mark.parametrize("layers", [lambda: [_Lora()] * 3, lambda: [nn.Linear(9, D)] * 3], ids=["LoRA", "plain"])
def test_the_same_layer_at_each_call_makes_no_heads(layers):
    for _ in range(5):
        with torch.no_grad():
            seen, _ = watch(_HeadsApart(layers), torch.randn(3, T, 9))
        assert not seen
        assert "whether heads or the batch" in seen.missed[0]


def test_no_parameter_is_given_the_root_of_another_that_is_gone():
    fixed = FixedRows(lambda: True)
    roots = [fixed.root(nn.Parameter(torch.ones(1))) for _ in range(50)]
    assert len(set(roots)) == 50
