"""Attention written by hand, in each style that is common: what is observed are the program's own weights."""

import gc
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812
from watched import watch

from mhaviz.observe.descent import Axes, FixedRows
from mhaviz.observe.marks import Marks
from mhaviz.observe.stages import Scores

B, H, L, K, D = 2, 3, 5, 7, 4
STYLES = {}


def style(function):
    STYLES[function.__name__] = function
    return function


def qkv(q_length=L, k_length=K):
    torch.manual_seed(0)
    return [torch.randn(B, H, n, D, requires_grad=True) for n in (q_length, k_length, k_length)]


def hidden():
    return torch.arange(K) > torch.arange(L)[:, None] + 2


@style
def operators(q, k, v):
    A = ((q @ k.transpose(-2, -1)) / math.sqrt(D)).softmax(-1)
    return A @ v, A


@style
def matmul_and_functions(q, k, v):
    A = F.softmax(torch.matmul(q, k.mT) * D**-0.5, dim=-1)
    return torch.matmul(A, v), A


@style
def einsum(q, k, v):
    A = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k), dim=3)
    return torch.einsum("bhqk,bhkd->bqhd", A, v), A


@style
def einsum_with_dots(q, k, v):
    A = torch.softmax(torch.einsum("...id,...jd->...ij", q, k), dim=-1)
    return torch.einsum("...ij,...jd->...id", A, v), A


@style
def einsum_with_keys_before_queries(q, k, v):
    A = torch.einsum("bhkd,bhqd->bhkq", k, q).softmax(dim=2)
    return torch.einsum("bhkq,bhkd->bhqd", A, v), A.transpose(2, 3)


@style
def einsum_with_heads_last(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    A = torch.einsum("bqhd,bkhd->bqkh", q, k).softmax(dim=2)
    return torch.einsum("bqkh,bkhd->bqhd", A, v), A.permute(0, 3, 1, 2)


@style
def elements_and_a_sum(q, k, v):
    A = (q @ k.mT).softmax(-1)
    return (A.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2), A


@style
def elements_and_a_sum_that_keeps_its_axis(q, k, v):
    A = (q @ k.mT).softmax(-1)
    return torch.sum(torch.mul(v.mT[:, :, None], A[..., None, :]), -1, keepdim=True)[..., 0], A


@style
def elements_and_a_sum_of_what_is_dropped(q, k, v):
    A = F.dropout((q @ k.mT).softmax(-1), 0.0)
    return (v[:, :, None] * A[..., None]).sum(dim=3), A


def of_one_head(product):
    def program(q, k, v):
        A = (q[0, 0] @ k[0, 0].mT).softmax(-1)
        return product(A, v[0, 0]), A

    return program


STYLES["F.linear"] = of_one_head(lambda A, V: F.linear(A, V.mT))
STYLES["F.linear with the weights last"] = of_one_head(lambda A, V: F.linear(V.mT, A).mT)
STYLES["tensordot"] = of_one_head(lambda A, V: torch.tensordot(A, V, dims=1))
STYLES["tensordot of named axes"] = of_one_head(lambda A, V: torch.tensordot(V, A, dims=([0], [1])).mT)
STYLES["inner"] = of_one_head(lambda A, V: torch.inner(A, V.mT))


@style
def heads_in_the_batch(q, k, v):
    A = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)).softmax(-1)
    return torch.bmm(A, v.flatten(0, 1)), A.view(B, H, L, K)


@style
def added_product(q, k, v):
    A = torch.baddbmm(torch.zeros(B * H, 1, K), q.flatten(0, 1), k.flatten(0, 1).mT, beta=1, alpha=0.5).softmax(-1)
    A = A.view(B, H, L, K)
    return A @ v, A


@style
def scores_viewed_and_masked(q, k, v):
    S = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT).view(B, H, L, K)
    S = S.masked_fill(hidden(), float("-inf")).view(B * H, L, K)
    A = F.dropout(F.softmax(S, dim=-1), p=0.0)
    return torch.bmm(A, v.flatten(0, 1)), A.view(B, H, L, K)


@style
def softmax_written_out(q, k, v):
    S = q @ k.mT
    S = S - S.max(dim=-1, keepdim=True).values
    E = torch.exp(S)
    A = E / E.sum(dim=-1, keepdim=True)
    return A @ v, A


@style
def softmax_written_out_with_axes_put_back(q, k, v):
    E = (q @ k.mT).exp()
    A = E / E.sum(-1).unsqueeze(-1)
    return A @ v, A


@style
def logarithms(q, k, v):
    A = F.log_softmax(q @ k.mT, dim=-1).exp()
    return A @ v, A


@style
def masked_in_place(q, k, v):
    S = q @ k.mT
    S.masked_fill_(hidden(), -1e9)
    A = S.softmax(-1)
    return A @ v, A


@style
def mask_added_in_place(q, k, v):
    S = q @ k.mT
    S += torch.zeros(L, K).masked_fill(hidden(), -torch.inf)
    A = S.softmax(-1)
    return A @ v, A


@style
def where(q, k, v):
    A = torch.where(hidden(), torch.tensor(-1e4), q @ k.mT).softmax(-1)
    return A @ v, A


@style
def mask_by_index(q, k, v):
    S = (q @ k.mT).clone()
    S[hidden().expand(B, H, L, K)] = -1e9
    A = S.softmax(-1)
    return A @ v, A


@style
def added_by_function(q, k, v):
    A = torch.add(q @ k.mT, torch.randn(1, H, L, K)).softmax(-1)
    return A @ v, A


@style
def capped(q, k, v):
    A = (5.0 * torch.tanh((q @ k.mT) / 5.0)).softmax(-1)
    return A @ v, A


@style
def sink(q, k, v):
    S = torch.cat([q @ k.mT, torch.ones(B, H, L, 1)], dim=-1)
    A = S.softmax(-1)[..., :-1]
    return A @ v, A


@style
def cast_and_back(q, k, v):
    A = F.softmax(q.half().float() @ k.mT, dim=-1, dtype=torch.float32).to(v.dtype)
    return A @ v, A


@style
def one_of_the_keys_for_all_heads(q, k, v):
    A = torch.einsum("bhqd,bkd->bhqk", q, k[:, 0]).softmax(-1)
    return torch.einsum("bhqk,bkd->bhqd", A, v[:, 0]), A


@style
def grouped_heads(q, k, v):
    k, v = (x[:, :1].repeat_interleave(H, dim=1) for x in (k, v))
    A = (q @ k.mT).softmax(-1)
    return A @ v, A


@style
def values_times_weights(q, k, v):
    A = (q @ k.mT).softmax(-1)
    return v.mT @ A.mT, A


@style
def weights_made_transposed(q, k, v):
    A = (k @ q.mT).softmax(dim=-2)
    return (v.mT @ A).mT, A.mT


@style
def relative_positions(q, k, v):
    S = q @ k.mT + torch.einsum("bhqd,qkd->bhqk", q, torch.randn(L, K, D))
    A = S.softmax(-1)
    return A @ v + torch.einsum("bhqk,qkd->bhqd", A, torch.randn(L, K, D)), A


HEADS = torch.rand(H, H)


@style
def scores_of_heads_mixed_by_einsum(q, k, v):
    """Shazeer et al. 2020, talking heads, arXiv 2003.02436."""
    A = torch.einsum("bhqk,hg->bgqk", q @ k.mT, HEADS).softmax(-1)
    return A @ v, A


@style
def scores_of_heads_mixed_by_a_parameter(q, k, v):
    A = ((q @ k.mT).permute(0, 2, 3, 1) @ nn.Parameter(HEADS)).permute(0, 3, 1, 2).softmax(-1)
    return A @ v, A


@style
def sinkhorn_in_logarithms(q, k, v):
    """Sinkformers (Sander et al. 2022, arXiv 2110.11773): rows and columns that sum to 1 in turn."""
    S = q @ k.mT
    for _ in range(3):
        S = S.log_softmax(-1).log_softmax(-2)
    A = S.exp()
    return A @ v, A


@style
def sinkhorn_by_sums_of_columns_first(q, k, v):
    S = q @ k.mT
    for _ in range(3):
        S = S - S.logsumexp(-2, keepdim=True)
        S = S - S.logsumexp(-1, keepdim=True)
    A = S.exp()
    return A @ v, A


@style
def module_of_softmax_and_dropout(q, k, v):
    A = nn.Softmax(dim=-1)(q @ k.mT)
    return nn.Dropout(0.0)(A) @ v, A


@style
def head_by_head(q, k, v):
    """What is observed last counts: here each head is an attention of its own."""
    A = (q[:, 0] @ k[:, 0].mT).softmax(-1)
    return A @ v[:, 0], A[:, None]


@pytest.mark.parametrize("name", STYLES)
def test_weights_are_the_programs_own(name):
    q, k, v = qkv()
    torch.manual_seed(1)
    output, A = STYLES[name](q, k, v)
    grads = torch.autograd.grad(output.sum(), (q, k, v), allow_unused=True)
    torch.manual_seed(1)
    seen, (again, _) = watch(STYLES[name], q, k, v)
    assert torch.equal(again, output), "the program computes what it did"
    for one, other in zip(torch.autograd.grad(again.sum(), (q, k, v), allow_unused=True), grads, strict=True):
        assert one is other is None or torch.equal(one, other)
    assert seen.missed == []
    assert torch.equal(seen.weights().reshape(A.shape), A.float())


def test_dropout_in_training_is_the_same_with_and_without():
    class Model(nn.Module):
        def forward(self, q, k, v):
            return F.dropout((q @ k.mT).softmax(-1), 0.3, self.training) @ v

    q, k, v = qkv()
    torch.manual_seed(1)
    expected = Model()(q, k, v)
    torch.manual_seed(1)
    seen, output = watch(Model(), q, k, v)
    assert torch.equal(output, expected)
    assert torch.equal(seen.weights(), (q @ k.mT).softmax(-1))


def test_a_single_head_of_two_axes():
    def program(x):
        A = (x @ x.T / 2).softmax(-1)
        return A @ x, A

    seen, (_, A) = watch(program, torch.randn(6, 4))
    assert torch.equal(seen.weights(), A[None, None])


def test_one_query_without_an_axis():
    """A pool of keys, as Bahdanau's attention and many a classifier's: (batch, d) and (batch, keys, d)."""

    def program(q, k):
        A = torch.einsum("bd,bkd->bk", q, k).softmax(-1)
        return torch.einsum("bk,bkd->bd", A, k), A

    class Pool(nn.Module):
        def forward(self, q, k):
            return program(q, k)

    seen, (_, A) = watch(Pool(), torch.randn(2, 4), torch.randn(2, 7, 4))
    assert torch.equal(seen.weights(), A[:, None, None])


@pytest.mark.parametrize("multiply", [F.linear, torch.inner, lambda q, k: torch.tensordot(q, k, ([1], [1]))])
def test_scores_by_the_functions_of_other_products(multiply):
    class Scored(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(6, 18)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return multiply(q, k).softmax(-1) @ v

    model, x = Scored(), torch.randn(5, 6)
    seen, _ = watch(model, x)
    q, k, _ = model.qkv(x).chunk(3, -1)
    assert not seen.missed
    torch.testing.assert_close(seen.weights(), (q @ k.T).softmax(-1)[None, None])


@pytest.mark.parametrize("adds_scores", [True, False])
@pytest.mark.parametrize("adds_values", [True, False])
def test_products_that_are_added_to_something(adds_scores, adds_values):
    class Added(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.bias = nn.Linear(6, 18), nn.Parameter(torch.randn(5, 5))

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            S = torch.addmm(self.bias, q, k.T, alpha=0.5) if adds_scores else self.bias + q @ k.T / 2
            return torch.addmm(x, S.softmax(-1), v) if adds_values else x + S.softmax(-1) @ v

    model, x = Added(), torch.randn(5, 6)
    seen, output = watch(model, x)
    q, k, v = model.qkv(x).chunk(3, -1)
    A = (model.bias + q @ k.T / 2).softmax(-1)
    torch.testing.assert_close(output, x + A @ v)
    assert not seen.missed
    torch.testing.assert_close(seen.weights(), A[None, None])


@pytest.mark.parametrize("n_queries", [1, 3])
@pytest.mark.parametrize("width", [1, 4])
def test_elements_and_a_sum_of_few_queries_and_features(n_queries, width):
    q, k, v = torch.randn(B, H, n_queries, D), torch.randn(B, H, K, D), torch.randn(B, H, K, width)

    def program(q, k, v):
        A = (q @ k.mT).softmax(-1)
        return (A[..., None] * v[:, :, None]).sum(3), A

    seen, (output, A) = watch(program, q, k, v)
    torch.testing.assert_close(A @ v, output)
    if width > 1:
        assert torch.equal(seen.weights(), A)
    else:  # weights times one number for each key may be weights that were scaled
        assert seen.names == []
        assert len(seen.missed) == 1


class _Heads(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(n_heads * 4, 3 * n_heads * 4)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, 4)).permute(2, 0, 3, 1, 4).flatten(1, 2)
        self.A = torch.bmm(q, k.mT).softmax(-1)
        return torch.bmm(self.A, v)


def test_heads_in_the_batch_are_told_by_the_module():
    model = _Heads(3)
    seen, _ = watch(model, torch.randn(2, 5, 12))
    assert seen.names == ["_Heads"]
    assert torch.equal(seen.weights(), model.A.view(2, 3, 5, 5))


def _router(x, w):
    gates = F.linear(x, w).softmax(-1)
    return torch.einsum("bte,ebtd->btd", gates, torch.randn(w.shape[0], *x.shape))


def _router_of_a_residual_stream(x, w):
    """What a product has made runs down the residual stream, to a router."""
    state = x @ (x.mT @ x)  # linear attention
    state = x + F.linear(state, torch.randn(x.shape[-1], x.shape[-1]))
    state = state * torch.rsqrt(state.pow(2).mean(-1, keepdim=True))
    return _router(state, w)


def _clip(x, w):
    image, text = F.linear(x[:, 0], w), F.linear(x[:, 1], w)
    return (100 * image @ text.T).softmax(-1)


NO_ATTENTION = {
    "classifier": lambda x, w: F.linear(x, w).softmax(-1),
    "router": _router,
    "router of a residual stream": _router_of_a_residual_stream,
    "CLIP": _clip,
    "softmax over the queries": lambda x, w: (x @ x.mT).softmax(-2) @ x,
    "product of weights with parameters": lambda x, w: (
        (x @ x.mT).softmax(-1) @ nn.Parameter(torch.randn(x.shape[1], 2))
    ),
    "greatest score": lambda x, w: (x @ x.mT).max(-1).values.softmax(-1) @ x,
    "no product": lambda x, w: torch.rand(2, 6, 6).softmax(-1) @ x,
}


SAID = {
    "CLIP",
    "softmax over the queries",
    "product of weights with parameters",
    "greatest score",
    "no product",
}


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_what_is_no_attention(name):
    seen, _ = watch(NO_ATTENTION[name], torch.randn(2, 6, 8), torch.randn(4, 8))
    assert seen.names == []
    assert len(seen.missed) == (name in SAID)


def test_a_look_that_fails_is_no_concern_of_the_programs(monkeypatch):
    def fail(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(FixedRows, "root", fail)
    seen, (output, _) = watch(STYLES["operators"], *qkv())
    assert output.shape == (B, H, L, D)
    assert "not followed, RuntimeError: ours" in seen.missed[0]


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_nested_tensors_run():
    x = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)], layout=torch.jagged)
    strided = torch.nested.nested_tensor([torch.randn(3, 4), torch.randn(5, 4)])

    def program():
        first = (x * 2 + 1).relu()
        return (
            first,
            nn.Linear(4, 4)(strided),
            torch.softmax(strided, -1),
            torch.matmul(strided, strided.transpose(1, 2)),
        )

    seen, _ = watch(program)
    assert not seen


def test_a_mark_is_of_its_tensor_alone():
    """Python gives the number of a tensor that is gone to another."""
    table, x, y = Marks(), torch.zeros(1), torch.zeros(1)
    table.set(x, Scores(Axes({}, ())))
    table._marks[id(y)] = table._marks[id(x)]
    assert table.get(x) is not None
    assert table.get(y) is None


def test_no_mark_outlives_its_tensor():
    q, k, v = qkv()
    seen, results = watch(lambda: [program(q, k, v) for program in STYLES.values()])
    marks = seen.watch._by_hand._marks
    assert len(marks)
    seen.clear()
    results.clear()
    gc.collect()
    assert len(marks) == 0


_MASKS = st.lists(st.lists(st.booleans(), min_size=K, max_size=K), min_size=L, max_size=L)


@given(_MASKS, st.sampled_from(["bhqd,bhkd->bhqk", "bhqd,bhkd->qkbh", "bhqd,bhkd->hkqb", "bhqd,bhkd->kbqh"]), st.data())
def test_any_order_of_axes_and_any_mask(mask, equation, data):
    letters = equation[-4:]
    order = "".join(data.draw(st.permutations("bhqd")))
    seen_keys = torch.tensor(mask)
    q, k, v = (x.detach() for x in qkv())

    def program():
        S = torch.einsum(equation, q, k)
        shape = [{"q": L, "k": K}.get(letter, 1) for letter in letters]
        m = seen_keys if letters.index("q") < letters.index("k") else seen_keys.T
        A = S.masked_fill(~m.reshape(shape), -1e9).softmax(letters.index("k"))
        return torch.einsum(f"{letters},bhkd->{order}", A, v), A

    seen, (_, A) = watch(program)
    expected = A.permute(*(letters.index(letter) for letter in "bhqk"))
    observed = seen.weights()
    assert torch.equal(observed.flatten().sort().values, A.flatten().sort().values)
    assert torch.equal(observed, expected)


class BySum(nn.Module):
    """Weights times values, element by element, and their sum over the keys."""

    def __init__(self, change=lambda A, p: None):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.change = nn.Linear(8, 8), nn.Linear(8, 8), change

    def forward(self, x):
        self.A = (self.q(x) @ self.k(x).mT).softmax(-1)
        p = self.A[..., None] * x[:, None]
        self.change(self.A, p)
        return p.sum(-2)


@pytest.mark.parametrize(
    "change",
    [
        lambda A, p: p.masked_fill_(torch.arange(5)[:, None] == 1, 0.0),
        lambda A, p: p.mul_(3),
        lambda A, p: p[:, 0].zero_(),
        lambda A, p: A.zero_(),
    ],
)
def test_a_product_that_is_changed_before_its_sum_is_not_drawn_as_it_was(change):
    with torch.no_grad():
        seen, _ = watch(BySum(change), torch.randn(2, 5, 8))
    assert not seen
    assert "not seen to be multiplied by values" in " ".join(seen.missed)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_product_and_its_sum_are_seen_in_inference_too(mode):
    model = BySum()
    with mode():
        seen, _ = watch(model, torch.randn(2, 5, 8))
    torch.testing.assert_close(seen[0].call.weights()[:, 0], model.A)


def _pairs_of_heads(q, k, pair):
    """Scores, computed by a loop over examples, heads, queries and keys."""
    return torch.stack(
        [
            torch.stack(
                [torch.stack([torch.stack([pair(x, y) for y in K]) for x in Q]) for Q, K in zip(*one, strict=True)]
            )
            for one in zip(q, k, strict=True)
        ]
    )


def _filled(q, k):
    S = torch.empty(*q.shape[:3], k.shape[2])
    for i in range(q.shape[2]):
        for j in range(k.shape[2]):
            S[:, :, i, j] = (q[:, :, i] * k[:, :, j]).sum(-1)
    return S


def _filled_through_views(q, k):
    S = torch.zeros(*q.shape[:3], k.shape[2])
    for i, x in enumerate(q.unbind(2)):
        for j, y in enumerate(k.unbind(2)):
            S[:, :, i][..., j] = torch.linalg.vecdot(x, y)
    return S


def _repeated(q, k):
    return q.unsqueeze(3).repeat(1, 1, 1, k.shape[2], 1), k.unsqueeze(2).repeat(1, 1, q.shape[2], 1, 1)


SCORES_OF_PAIRS = {
    "vecdot": lambda q, k: torch.linalg.vecdot(q.unsqueeze(-2), k.unsqueeze(-3)),
    "vecdot along another axis": lambda q, k: torch.linalg.vecdot(q.mT.unsqueeze(-1), k.mT.unsqueeze(-2), dim=2),
    "products and their sum": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1),
    "expanded": lambda q, k: (q.unsqueeze(-2).expand(-1, -1, -1, 6, -1) * k.unsqueeze(-3)).sum(dim=-1),
    "a sum that keeps its axis": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1, keepdim=True).squeeze(-1),
    "a mean": lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).mean(-1) * 4,
    "bilinear": lambda q, k: F.bilinear(*_repeated(q, k), torch.eye(4)[None]).squeeze(-1),
    "nn.Bilinear": lambda q, k: _identity()(*_repeated(q, k))[..., 0],
    "a loop over pairs by dot": lambda q, k: _pairs_of_heads(q, k, torch.dot),
    "a loop over pairs by sums": lambda q, k: _pairs_of_heads(q, k, lambda x, y: (x * y).sum()),
    "a loop over queries": lambda q, k: torch.stack([(k @ x.unsqueeze(-1))[..., 0] for x in q.unbind(2)], 2),
    "a loop over queries, last": lambda q, k: torch.stack([(k @ x.unsqueeze(-1))[..., 0] for x in q.unbind(2)], -1).mT,
    "a loop over heads": lambda q, k: torch.stack([q[:, head] @ k[:, head].mT for head in range(3)], 1),
    "a loop over examples": lambda q, k: torch.stack([x @ y.mT for x, y in zip(q, k, strict=True)]),
    "a loop that fills a table": _filled,
    "a loop that fills a table through views": _filled_through_views,
}


def _identity():
    layer = nn.Bilinear(4, 4, 1, bias=False)
    nn.init.eye_(layer.weight[0])
    return layer


class _Pairs(nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.qkv, self.scores = nn.Linear(12, 36), scores

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        self.A = (self.scores(q, k) / 2).softmax(-1)
        self.q, self.k = q, k
        return (self.A @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("scores", SCORES_OF_PAIRS.values(), ids=SCORES_OF_PAIRS)
def test_scores_of_pairs_of_queries_and_keys(scores):
    model = _Pairs(scores)
    with torch.no_grad():
        seen, _ = watch(model, torch.randn(2, 6, 12))
    assert torch.equal(seen.weights(), model.A)
    torch.testing.assert_close(model.A, (model.q @ model.k.mT / 2).softmax(-1))
    assert seen.missed == []


@pytest.mark.parametrize("heads", [(2, 0, 1), (0, 2, 1)])
def test_scores_that_a_loop_joins_in_another_order_are_not_drawn(heads):
    """Its first head would be called head 0."""

    class Turned(_Pairs):
        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
            return torch.stack([q[:, head] @ k[:, head].mT for head in heads], 1).softmax(-1) @ v[:, heads]

    seen, _ = watch(Turned(None), torch.randn(2, 6, 12))
    (line,) = seen.missed
    assert not seen
    assert "joins scores in another order" in line


class _Luong(nn.Module):
    """Luong et al. 2015, arXiv 1508.04025, as the chatbot of PyTorch's tutorials: the length is first."""

    def __init__(self, is_general):
        super().__init__()
        self.embed, self.gru = nn.Embedding(9, 8), nn.GRU(8, 8)
        self.layer = nn.Linear(8, 8) if is_general else nn.Identity()

    def forward(self, ids):
        memory, state = self.gru(self.embed(ids))
        self.A = []
        for _ in range(3):
            x, state = self.gru(state[:1], state)
            A = F.softmax(torch.sum(x * self.layer(memory), dim=2).t(), dim=1).unsqueeze(1)
            self.A.append(A)
            state = state + A.bmm(memory.transpose(0, 1)).transpose(0, 1)
        return state


@pytest.mark.parametrize("is_general", [False, True])
def test_scores_of_one_query_by_products_and_sums(is_general):
    model = _Luong(is_general)
    with torch.no_grad():
        seen, _ = watch(model, torch.randint(9, (5, 2)))
    assert [one.call.weights().shape for one in seen] == [(2, 1, 1, 5)] * 3
    for one, A in zip(seen, model.A, strict=True):
        assert torch.equal(one.call.weights()[:, 0], A)
    assert seen.missed == []


def test_a_weight_for_each_token_by_a_product_of_its_own_features_is_no_attention():
    """Queries and keys are of the same tokens, each with its own: no query meets the keys of others."""

    class Own(_Pairs):
        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return ((q * k).sum(-1).softmax(-1).unsqueeze(-1) * v).sum(-2)

    seen, _ = watch(Own(None), torch.randn(2, 6, 12))
    (line,) = seen.missed
    assert not seen
    assert "not seen to be queries times keys" in line


class _Softmaxes(_Pairs):
    """Computes a softmax for each query or each head, and joins them."""

    def __init__(self, join):
        super().__init__(None)
        self.join = join

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        self.A = self.join(q, k)
        return self.A @ v


def _row(q, k, i):
    return (k @ q[:, :, i, :, None])[..., 0].softmax(-1)


@pytest.mark.parametrize(
    "join",
    [
        lambda q, k: torch.stack([_row(q, k, i) for i in range(6)], 2),
        lambda q, k: torch.stack([_row(q, k, i) for i in range(6)], -1).mT,
        lambda q, k: torch.stack([(x @ y.mT).softmax(-1) for x, y in zip(q.unbind(1), k.unbind(1), strict=True)], 1),
    ],
)
def test_softmaxes_that_a_loop_joins(join):
    model = _Softmaxes(join)
    seen, _ = watch(model, torch.randn(2, 6, 12))
    assert torch.equal(seen.weights(), model.A)
    assert seen.missed == []


@pytest.mark.parametrize(
    "join",
    [
        lambda q, k: torch.stack([_row(q, k, i) for i in range(6)], -1),  # its columns are queries
        lambda q, k: torch.stack([_row(q, k, i) for i in range(6)][::-1], 2),
        lambda q, k: torch.stack([(q[:, head] @ k[:, head].mT).softmax(-1) for head in (2, 0, 1)], 1),
        lambda q, k: torch.cat([q[:, head:][:, :1] @ k[:, head:][:, :1].mT for head in (2, 0, 1)], 1).softmax(-1),
    ],
)
def test_softmaxes_that_are_joined_along_the_wrong_axis_or_in_another_order_are_not_drawn(join):
    seen, _ = watch(_Softmaxes(join), torch.randn(2, 6, 12))
    assert not seen
    assert len(seen.missed) == 1


class _Bilinear(nn.Module):
    """Scores x W y with a matrix for each head (Luong et al. 2015, arXiv 1508.04025, "general")."""

    def __init__(self, n_heads, is_layer):
        super().__init__()
        self.layer, self.v, self.is_layer = nn.Bilinear(8, 8, n_heads), nn.Linear(8, 8), is_layer

    def forward(self, x):
        if self.is_layer:
            every = torch.arange(x.shape[1])
            S = self.layer(*(x[:, one] for one in torch.meshgrid(every, every, indexing="ij"))).permute(0, 3, 1, 2)
        else:
            S = torch.einsum("bqi,hij,bkj->bhqk", x, self.layer.weight, x)
        self.A = S.softmax(-1)
        return self.A @ self.v(x).unflatten(-1, (len(self.layer.weight), -1)).transpose(1, 2)


@pytest.mark.parametrize("is_layer", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_a_matrix_for_each_head_between_queries_and_keys(batch_size, is_layer):
    model = _Bilinear(4, is_layer)
    seen, _ = watch(model, torch.randn(batch_size, 5, 8))
    assert seen.missed == []
    assert torch.equal(seen.weights(), model.A)
