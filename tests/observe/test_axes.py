"""Which axes are of heads, however a program lays out its tensors: against weights that are computed head by head."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from transformers import MistralConfig, MistralForCausalLM
from watched import watch
from zoo.program import spread

import mhaviz
from mhaviz.attention.call import AttentionCall

LENGTH, SIZE = 5, 4
SDPA = F.scaled_dot_product_attention


class Layer(nn.Module):
    """Projections of x, and a style of attention of heads (batch, length, heads, features)."""

    def __init__(self, style, n_heads):
        super().__init__()
        self.style, self.parts = style, n_heads
        self.qkv = nn.Linear(n_heads * SIZE, 3 * n_heads * SIZE)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.parts, SIZE)) for y in self.qkv(x).chunk(3, dim=-1))
        return self.style(q, k, v)

    def expected(self, x):
        """Of each example and head by itself, in float64."""
        q, k, _ = self.double().qkv(x.double()).chunk(3, dim=-1)
        A = [
            [
                torch.softmax(q[b][:, at] @ k[b][:, at].T / 2, dim=-1)
                for at in torch.arange(self.parts * SIZE).split(SIZE)
            ]
            for b in range(len(x))
        ]
        return torch.stack([torch.stack(heads) for heads in A])


def attend(q, k, v):
    return (q @ k.mT / 2).softmax(-1) @ v


STYLES = {}


def style(function):
    STYLES[function.__name__] = function
    return function


@style
def batch_first(q, k, v):
    return attend(*(x.transpose(1, 2) for x in (q, k, v)))


@style
def heads_first(q, k, v):
    return attend(*(x.permute(2, 0, 1, 3) for x in (q, k, v)))


@style
def heads_first_fused(q, k, v):
    return SDPA(*(x.permute(2, 0, 1, 3) for x in (q, k, v)))


@style
def heads_first_by_einsum_of_one(q, k, v):
    return SDPA(*(torch.einsum("bnhd->hbnd", x) for x in (q, k, v)))


@style
def heads_first_contiguous(q, k, v):
    return attend(*(x.permute(2, 0, 1, 3).contiguous() * 1.0 for x in (q, k, v)))


@style
def heads_first_by_einsum(q, k, v):
    A = torch.einsum("bqhd,bkhd->hbqk", q, k).div(2).softmax(-1)
    return torch.einsum("hbqk,bkhd->bqhd", A, v)


@style
def keys_before_queries(q, k, v):
    A = torch.einsum("bqhd,bkhd->khqb", q, k).div(2).softmax(0)
    return torch.einsum("khqb,bkhd->bqhd", A, v)


@style
def batch_and_heads_joined(q, k, v):
    return attend(*(x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)))


@style
def heads_and_batch_joined(q, k, v):
    return attend(*(x.permute(2, 0, 1, 3).flatten(0, 1) for x in (q, k, v)))


@style
def heads_and_batch_joined_fused(q, k, v):
    return SDPA(*(x.permute(2, 0, 1, 3).flatten(0, 1) for x in (q, k, v)))


@style
def heads_cut_and_joined_to_the_batch(q, k, v):
    return attend(*(torch.cat(x.flatten(2).split(x.shape[-1], dim=2), dim=0) for x in (q, k, v)))


@style
def heads_cut_and_stacked(q, k, v):
    return attend(*(torch.stack(x.flatten(2).chunk(x.shape[2], dim=-1), dim=1) for x in (q, k, v)))


@style
def flat_scores(q, k, v):
    q, k, v = (x.permute(2, 0, 1, 3).flatten(0, 1) for x in (q, k, v))
    A = (q @ k.mT / 2).view(-1, LENGTH).softmax(-1).view(len(q), LENGTH, LENGTH)
    return A @ v


@style
def groups(q, k, v):
    """Each head has keys of its own here; they stand in groups of two."""
    return attend(*(x.unflatten(2, (-1, 2)).movedim(1, -2) for x in (q, k, v)))


@style
def groups_first_fused(q, k, v):
    return SDPA(*(x.unflatten(2, (-1, 2)).permute(2, 3, 0, 1, 4) for x in (q, k, v)))


@style
def turned(q, k, v):
    """With positions by rotation, as in GPT-NeoX."""

    def turn(x):
        a, b = x.chunk(2, dim=-1)
        angle = torch.zeros(1, 1, LENGTH, SIZE)
        return x * angle.cos() + torch.cat((-b, a), dim=-1) * angle.sin()

    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    return attend(turn(q), turn(k), v)


@style
def complex_numbers(q, k, v):
    """The same, as in Llama's own code."""

    def turn(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * torch.ones(LENGTH, 1, SIZE // 2)).flatten(3)

    return attend(*(x.permute(2, 0, 1, 3) for x in (turn(q), turn(k), v)))


@style
def mixed_heads(q, k, v):
    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    S = F.linear((q @ k.mT / 2).permute(1, 2, 3, 0), torch.eye(len(q))).permute(3, 0, 1, 2)
    return S.softmax(-1) @ v


@pytest.mark.parametrize(("batch_size", "n_heads"), [(2, 4), (4, 4), (4, 2), (1, 4), (LENGTH, 2)])
@pytest.mark.parametrize("name", STYLES)
def test_heads_are_heads_however_they_lie(name, batch_size, n_heads):
    torch.manual_seed(0)
    layer, x = Layer(STYLES[name], n_heads), torch.randn(batch_size, LENGTH, n_heads * SIZE)
    with torch.no_grad():
        seen, _ = watch(layer, x)
        assert seen.missed == []
        torch.testing.assert_close(seen.weights().double(), layer.expected(x), rtol=0, atol=1e-5)


class Axial(nn.Module):
    """Over space in (batch, time, space, features): time stands beside the batch, or is joined to it."""

    def __init__(self, is_joined, fused, n_heads=3):
        super().__init__()
        self.is_joined, self.fused, self.parts = is_joined, fused, n_heads
        self.qkv = nn.Linear(n_heads * SIZE, 3 * n_heads * SIZE)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.parts, SIZE)).transpose(2, 3) for y in self.qkv(x).chunk(3, dim=-1))
        if self.is_joined:
            q, k, v = (y.flatten(0, 1) for y in (q, k, v))
        self.weights = torch.softmax(q @ k.mT / 2, dim=-1).detach().reshape(-1, self.parts, LENGTH, LENGTH)
        return SDPA(q, k, v) if self.fused else attend(q, k, v)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize(("batch_size", "time"), [(2, 3), (3, 3), (3, 2)])
def test_time_is_no_head(batch_size, time, is_joined, fused):
    layer = Axial(is_joined, fused)
    seen, _ = watch(layer, torch.randn(batch_size, time, LENGTH, 3 * SIZE))
    torch.testing.assert_close(seen.weights(), layer.weights)


@pytest.mark.parametrize("n_heads", [2, 4])
@pytest.mark.parametrize("attention", [SDPA, attend])
def test_heads_of_one_feature_each(n_heads, attention):
    project = nn.Linear(n_heads, 3 * n_heads)

    def run(x):
        parts = project(x).chunk(3, dim=-1)
        return attention(*(part.unflatten(-1, (n_heads, 1)).transpose(1, 2) for part in parts))

    seen, _ = watch(run, torch.randn(3, LENGTH, n_heads))
    assert seen.only().call.shape == (3, n_heads, LENGTH, LENGTH)


def test_one_head_over_one_of_two_axes():
    """Nothing is split: all that stands before the queries is batch, though PyTorch calls the last of it heads."""
    project = nn.Linear(SIZE, SIZE)
    for attention in (SDPA, attend):
        x = torch.randn(2, 3, LENGTH, SIZE)
        seen, _ = watch(lambda x, attention=attention: attention(project(x), x, x), x)
        assert seen.only().call.shape == (6, 1, LENGTH, LENGTH)


class SequenceFirst(nn.Module):
    """As in fairseq: (length, batch, features), then batch and heads in one axis."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(3 * SIZE, 3 * SIZE) for _ in range(3))

    def forward(self, x):
        q, k, v = (f(x).contiguous().view(LENGTH, -1, SIZE).transpose(0, 1) for f in (self.q, self.k, self.v))
        A = torch.bmm(q, k.transpose(1, 2)).div(2).softmax(dim=-1)
        self.weights = A.detach().view(-1, 3, LENGTH, LENGTH)
        return torch.bmm(A, v).transpose(0, 1).reshape(x.shape)


@pytest.mark.parametrize("batch_size", [1, 3, LENGTH])
def test_sequence_first(batch_size):
    x = torch.randn(LENGTH, batch_size, 3 * SIZE)
    layer = SequenceFirst()
    seen, _ = watch(nn.Sequential(nn.Linear(3 * SIZE, 3 * SIZE), nn.LayerNorm(3 * SIZE), layer), x)
    assert torch.equal(seen.weights(), layer.weights)
    layer = nn.MultiheadAttention(3 * SIZE, 3)
    seen, (_, weights) = watch(layer, x, x, x, average_attn_weights=False)
    torch.testing.assert_close(seen.weights(), weights)
    seen, _ = watch(nn.TransformerDecoderLayer(3 * SIZE, 3, 8).eval(), x, x)
    assert [tuple(observed.call.shape) for observed in seen] == 2 * [(batch_size, 3, LENGTH, LENGTH)]


class OfEachHead(nn.Module):
    """Layers of each head, in every form: (batch, length, 3 · 4) or (batch, length, 12) → (batch, 3, length, 4)."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.shared = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(2))
        self.own = nn.ModuleList(nn.Linear(3 * SIZE, SIZE) for _ in range(6))
        self.table = nn.Parameter(torch.randn(2, 3, 3 * SIZE, SIZE))

    def project(self, x, which):
        if self.form == "shared":  # as Aladdin Persson has it
            return self.shared[which](x.reshape(*x.shape[:2], 3, SIZE)).transpose(1, 2)
        if self.form == "own":
            return torch.stack([f(x) for f in self.own[3 * which :][:3]], dim=1)
        if self.form == "einsum":
            return torch.einsum("bld,hdk->bhlk", x, self.table[which])
        return x[:, None] @ self.table[which]

    def forward(self, x):
        q, k = (self.project(x, which) for which in range(2))
        self.weights = torch.softmax(q @ k.mT / 2, dim=-1).detach()
        q, k = (y.transpose(0, 1) for y in (q, k))
        return attend(q, k, k)


@pytest.mark.parametrize("form", ["shared", "own", "einsum", "matmul"])
@pytest.mark.parametrize("batch_size", [2, 3])
def test_layers_of_each_head(form, batch_size):
    layer = OfEachHead(form)
    seen, _ = watch(layer, torch.randn(batch_size, LENGTH, 3 * SIZE))
    torch.testing.assert_close(seen.weights(), layer.weights)


@pytest.mark.parametrize("dims", [2, 3])
def test_no_module_at_all(dims):
    """Matrices that are no parameters: of each example, and of a batch."""
    Wq, Wk, Wv = torch.randn(3, 8, 8).unbind()

    def program(x):
        q, k, v = ((x @ W).unflatten(-1, (2, SIZE)).movedim(-2, 0) for W in (Wq, Wk, Wv))
        return attend(q, k, v), (q @ k.mT / 2).softmax(-1)

    seen, (_, A) = watch(program, torch.randn(2, LENGTH, 8) if dims == 3 else torch.randn(LENGTH, 8))
    assert torch.equal(seen.weights(), A.transpose(0, 1) if dims == 3 else A[None])


def test_queries_that_are_learned():
    learned = nn.Parameter(torch.randn(2, SIZE, SIZE))
    project = nn.Linear(8, 8)
    for attention in (SDPA, attend):

        def program(x, attention=attention):
            k = project(x).unflatten(-1, (2, SIZE)).transpose(1, 2)
            return attention(learned.expand(len(x), -1, -1, -1), k, k), (learned @ k.mT / 2).softmax(-1)

        seen, (_, A) = watch(program, torch.randn(3, LENGTH, 8))
        torch.testing.assert_close(seen.weights(), A.detach())


@pytest.mark.parametrize("fused", [True, False])
def test_heads_of_a_group_in_the_axis_of_the_queries(fused):
    """Heads that share keys are multiplied by them at once: (batch, groups, heads of a group · queries, features)."""
    query, key = nn.Linear(16, 16), nn.Linear(16, 8)

    def program(x):
        q = query(x).unflatten(-1, (2, 2, SIZE)).permute(0, 2, 3, 1, 4)
        k = key(x).unflatten(-1, (2, SIZE)).transpose(1, 2)
        A = torch.softmax(q @ k[:, :, None].mT / 2, dim=-1)
        return (SDPA if fused else attend)(q.reshape(len(x), 2, -1, SIZE), k, k), A.flatten(1, 2)

    for batch_size in (2, 1):
        seen, (_, A) = watch(program, torch.randn(batch_size, LENGTH, 16))
        (line,) = seen.missed  # the softmax that is compared with
        assert "was not seen to be multiplied by values" in line
        torch.testing.assert_close(seen.weights(), A.detach())
        call = seen.only().call
        assert not isinstance(call, AttentionCall) or call.key.shape[1] == 2
        assert seen.only().order.tokens.are_same


def test_one_query_that_has_no_axis_but_that_of_heads():
    query, key = nn.Linear(16, 16), nn.Linear(16, 16)

    def program(x):
        q, k = query(x[:, 0]).unflatten(-1, (4, SIZE)), key(x).unflatten(-1, (4, SIZE))
        A = torch.einsum("bhd,bkhd->bhk", q, k).div(2).softmax(-1)
        return torch.einsum("bhk,bkhd->bhd", A, k), A

    seen, (_, A) = watch(program, torch.randn(2, LENGTH, 16))
    assert torch.equal(seen.weights(), A[:, :, None])


FORMS = {
    "heads before queries": "bnhd,bmd->bhnm",
    "queries before heads": "bnhd,bmd->bnhm",
    "keys in between": "bnhd,bmd->bnmh",
    "queries first": "bnhd,bmd->nbhm",
    "keys first": "bnhd,bmd->mbnh",
}


class SharedKeys(nn.Module):
    """Heads of queries that share their keys, (batch, keys, features), written in many ways."""

    def __init__(self, way, n_heads=3, keys_of=None):
        super().__init__()
        self.way, self.n_heads, self.keys_of = way, n_heads, keys_of
        self.q, self.k = nn.Linear(8, n_heads * SIZE), nn.Linear(8, SIZE)
        self.up = nn.Parameter(torch.randn(n_heads, SIZE, SIZE))

    def forward(self, x):
        q, k = self.q(x).unflatten(-1, (self.n_heads, SIZE)), self.k(x if self.keys_of is None else self.keys_of)
        if self.way == "matmul":
            return (q @ k.mT[:, None] / 2).softmax(-1) @ k[:, None]
        if self.way.startswith("latent"):  # DeepSeek-V3, inference/model.py
            S = torch.einsum("bshc,btc->bsht", torch.einsum("bshd,hdc->bshc", q, self.up), k)
            if self.way != "latent":
                S = S + torch.einsum("bshr,btr->bsht", q[..., :2], k[..., :2])
            return torch.einsum("bsht,btc->bshc", (S / 2).softmax(-1), k)
        if self.way == "a loop over examples":
            A = [torch.einsum("nhd,md->nhm", *pair).div(2).softmax(-1) for pair in zip(q, k, strict=True)]
            return torch.stack([torch.einsum("nhm,md->nhd", *pair) for pair in zip(A, k, strict=True)])
        form = FORMS[self.way]
        A = torch.einsum(form, q, k).div(2).softmax(form[-4:].index("m"))
        return torch.einsum(f"{form[-4:]},bmd->bnhd", A, k)

    def expected(self, x):
        """Of each example and head by itself, in float64."""
        self.double()
        q, k = self.q(x.double()), self.k((x if self.keys_of is None else self.keys_of).double())
        found = []
        for at in range(self.n_heads):
            own = q[..., at * SIZE : (at + 1) * SIZE]
            read = own @ self.up[at] if self.way.startswith("latent") else own
            S = read @ k.mT + (own[..., :2] @ k[..., :2].mT if self.way == "latent with positions" else 0)
            found.append(torch.softmax(S / 2, dim=-1))
        return torch.stack(found, dim=1)


@pytest.mark.parametrize("n_heads", [3, 1])
@pytest.mark.parametrize("batch_size", [2, 1, LENGTH])
@pytest.mark.parametrize("way", ["matmul", "latent", "latent with positions", "a loop over examples", *FORMS])
def test_heads_that_share_keys_stand_anywhere(way, batch_size, n_heads):
    torch.manual_seed(0)
    layer, x = SharedKeys(way, n_heads), torch.randn(batch_size, LENGTH, 8)
    with torch.no_grad():
        seen, _ = watch(layer, x)
        if way == "a loop over examples":
            maps = torch.cat([observed.call.weights() for observed in seen])
        else:
            maps = seen.weights()
        torch.testing.assert_close(maps.double(), layer.expected(x), rtol=0, atol=1e-5)
    assert seen.missed == []


def test_grouped_heads_behind_their_queries():
    """As in ports of JAX: (batch, queries, groups, heads of a group, keys)."""
    query, key = nn.Linear(16, 24), nn.Linear(16, 8)
    for form in ("bqgrk", "bgqrk", "bgrqk", "bqrgk"):

        def program(x, form=form):
            q, k = query(x).unflatten(-1, (2, 3, SIZE)), key(x).unflatten(-1, (2, SIZE))
            A = torch.einsum(f"bqgrd,bkgd->{form}", q, k).softmax(-1)
            return torch.einsum(f"{form},bkgd->bqgrd", A, k), q, k

        seen, (_, q, k) = watch(program, torch.randn(2, LENGTH, 16))
        expected = [[q[b, :, g, r] @ k[b, :, g].T for g in range(2) for r in range(3)] for b in range(2)]
        expected = torch.stack([torch.stack(of_one) for of_one in expected]).softmax(-1)
        torch.testing.assert_close(seen.weights().detach(), expected.detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (2, 2), (2, 1), (1, 3), (4, 2)])
@pytest.mark.parametrize("is_split_twice", [False, True])
@pytest.mark.parametrize("to", ["bghnd", "gbhnd", "hbgnd", "bhgnd", "ghbnd"])
def test_heads_of_two_axes_are_numbered_by_the_features(sizes, is_split_twice, to):
    """Of "b n (h g) d → b g h n d", h heads of keys: a head has the rows of W_Q that it has in the program."""
    h, g = sizes
    query, key = nn.Linear(16, h * g * SIZE), nn.Linear(16, h * SIZE)

    def program(x):
        q, k = query(x), key(x).unflatten(-1, (h, SIZE))
        q = q.unflatten(-1, (h * g, SIZE)).unflatten(-2, (h, g)) if is_split_twice else q.unflatten(-1, (h, g, SIZE))
        q = torch.einsum(f"bnhgd->{to}", q).contiguous()
        made = to.replace("d", "s")
        A = torch.einsum(f"{to},bshd->{made}", q / 2, k).softmax(-1)
        return torch.einsum(f"{made},bshd->{to}", A, k)

    x = torch.randn(2, LENGTH, 16)
    with torch.no_grad(), mhaviz.record() as recording:
        program(x)
    q, k = (layer.double()(x[0].double()).split(SIZE, -1) for layer in (query, key))
    expected = torch.stack([(q[i] @ k[i // g].T / 2).softmax(-1) for i in range(h * g)]).detach()
    (m,) = recording.attention.maps
    torch.testing.assert_close(torch.as_tensor(m.weights).double(), expected, rtol=0, atol=1e-5)
    assert not recording.attention.source.remark


def test_heads_of_which_no_order_is_known_are_said_to_be_numbered_by_the_softmax():
    query, key = nn.Linear(16, 6 * SIZE), nn.Linear(16, 2 * SIZE)
    with torch.no_grad(), mhaviz.record() as recording:
        q, k = (f(torch.randn(2, LENGTH, 16)) for f in (query, key))
        q = torch.stack(q.chunk(3, -1)[::-1], 1).unflatten(-1, (2, SIZE)).transpose(2, 3)
        k = k.unflatten(-1, (2, SIZE)).transpose(1, 2)[:, None]
        A = (q @ k.mT).softmax(-1)
        A @ k
    assert recording.attention.source.remark == "some heads are numbered as they stand in the softmax"
    np.testing.assert_allclose(recording.attention.maps[0].weights, A[0].flatten(0, 1), atol=1e-6)


def test_of_two_axes_that_keys_lack_no_batch_is_taken_for_queries():
    """One query of each example to keys that all share, (batch, heads) · keys, or queries of one example."""
    layer, other = SharedKeys("matmul"), torch.randn(1, 6, 8)

    def program(x):
        q, k = layer.q(x).unflatten(-1, (3, SIZE)), layer.k(other)[0]
        return torch.einsum("nhm,md->nhd", torch.einsum("nhd,md->nhm", q, k).softmax(-1), k)

    seen, _ = watch(program, torch.randn(LENGTH, 8), model=None)
    assert not seen
    assert "it is not known whether its axis of 5 that the keys lack is queries or batch" in seen.missed[0]


def test_queries_before_heads_whose_keys_are_repeated_by_hand_are_not_drawn():
    layer = SharedKeys("matmul")

    def program(x):
        q, k = layer.q(x).unflatten(-1, (3, SIZE)), layer.k(x)[:, None].expand(-1, LENGTH, -1, -1)
        return SDPA(q, k, k)

    seen, _ = watch(program, torch.randn(2, LENGTH, 8))
    assert not seen
    assert "its axis of queries holds heads" in seen.missed[0]


def test_heads_that_read_each_other():
    """Of each token: its heads are the queries and keys."""
    query, key = nn.Linear(16, 16), nn.Linear(16, 16)

    def program(x):
        q, k = (f(x).unflatten(-1, (4, SIZE)) for f in (query, key))
        return attend(q, k, k), (q @ k.mT / 2).softmax(-1)

    seen, (_, A) = watch(program, torch.randn(2, LENGTH, 16))
    assert torch.equal(seen.weights(), A.reshape(-1, 1, 4, 4))


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((5, 3, 1, 4), (1, 2, 0, 3)),  # the sequence first: three examples of a head, or a batch and three heads
        ((1, 2, 3, 5, 4), (0, 1, 2, 3, 4)),  # one example of two groups of three heads, or two examples
    ],
)
def test_axes_of_which_nothing_is_known_are_taken_for_heads_where_pytorch_has_them_alone(shape, order):
    def program():
        q, k, v = (torch.randn(shape).permute(order) for _ in range(3))
        return (q @ k.mT).softmax(-1) @ v

    seen, _ = watch(program)
    assert not seen
    (line,) = seen.missed
    assert "whether heads or the batch are on its axes of" in line


def test_what_fits_two_readings_is_refused():
    class Model(nn.Module):
        def forward(self, x):
            q = x.repeat(1, 1, 1, 2).unfold(3, SIZE, SIZE)[..., 0, :]  # of which nobody knows what it has made
            return attend(q, q, q)

    class Broadcasting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(SIZE, SIZE)

        def forward(self, query, x):  # of one query for three examples
            return (query @ self.layer(x).mT).softmax(-1) @ x

    for program, *given in (
        (Model(), torch.randn(3, 3, LENGTH, SIZE)),
        (lambda x: attend(x, x, x), torch.randn(3, LENGTH, SIZE)),
        (Broadcasting(), torch.randn(1, LENGTH, SIZE), torch.randn(3, LENGTH, SIZE)),
    ):
        seen, _ = watch(program, *given)
        assert seen == []
        (line,) = seen.missed
        assert "whether heads or the batch are on its axes of 3" in line


@pytest.mark.parametrize("case", ["static", "padded", "sliding"])
def test_grouped_heads_that_write_under_a_mask(case):
    """transformers' SDPA packs the heads of a group into the axis of the queries where one query has a mask."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 50, "pad_token_id": 0}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "bos_token_id": 1, "eos_token_id": None}
    config = MistralConfig(**sizes, **heads, sliding_window=16 if case == "sliding" else None)
    ids = torch.tensor([[0, 0, 5, 6, 7], [3, 4, 5, 6, 8]][1 - (case == "padded") :])
    asked = {"attention_mask": (ids > 0).long(), "max_new_tokens": 4, "do_sample": False}
    asked |= {"cache_implementation": "static"} if case == "static" else {}
    torch.manual_seed(0)
    model = spread(MistralForCausalLM(config), 4.0)
    seen, _ = watch(model.generate, ids, **asked, model=model)
    model.set_attn_implementation("eager")
    eager = model.generate(ids, **asked, output_attentions=True, return_dict_in_generate=True).attentions
    assert seen.missed == []
    steps = [(observed, A) for observed, (A,) in zip(seen, eager, strict=True) if A.shape[2] == 1]
    assert len(steps) == 3
    for observed, A in steps:
        torch.testing.assert_close(observed.call.weights(), A, rtol=0, atol=1e-5)


@pytest.mark.parametrize("made", [torch.linspace(-1, 1, 32).view(1, 4, 8), torch.arange(64.0).view(2, 4, 8)])
def test_rows_that_were_cut_from_one_axis_are_no_heads(made):
    project = nn.Linear(8, 8)

    class Reads(nn.Module):
        def forward(self, x):
            q = torch.zeros(len(x), 4, 8) + made.flatten().view(-1, 4, 8)
            return (q @ project(x).mT).softmax(-1) @ x, (q @ project(x).mT).softmax(-1)

    seen, (_, A) = watch(Reads(), torch.randn(2, LENGTH, 8))
    assert torch.equal(seen.weights(), A[:, None])


def by_letters(q, k, v):
    A = torch.einsum("qihc,wjhc->qwhij", q / 2, k).softmax(-1)
    return torch.einsum("qwhij,wjhc->qwihc", A, v)


def by_broadcasting(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return attend(q[:, None], k[None], v[None])


def by_repeating(q, k, v):
    """Of a head for itself, as PyTorch's SDPA has four axes here."""
    each = [
        (one[:, None].expand(-1, len(k), -1, -1), *(x[None].expand(len(q), -1, -1, -1) for x in (two, three)))
        for one, two, three in zip(*(x.unbind(2) for x in (q, k, v)), strict=True)
    ]
    return torch.stack([SDPA(*one) for one in each], 3)


def without_heads(q, k, v):
    q, k, v = (x.flatten(2) for x in (q, k, v))
    return attend(q[:, None], k[None], v[None])


def each_with_each(q, k):
    """The weights of each example of queries with each of keys, (pairs, heads, queries, keys)."""
    return torch.stack([(one.transpose(0, 1) @ two.permute(1, 2, 0) / 2).softmax(-1) for one in q for two in k])


@pytest.mark.parametrize("pair", [by_letters, by_broadcasting, by_repeating, without_heads])
@pytest.mark.parametrize(("n_queries", "n_keys"), [(2, 3), (1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("is_one_input", [False, True])
def test_classes_and_documents_are_no_heads(pair, n_queries, n_keys, is_one_input):
    """Few-shot learning by CrossTransformers (Doersch et al. 2020, arXiv 2007.11498), ColBERT-like pairs."""
    n_heads = 1 if pair is without_heads else 2
    layers = nn.ModuleList(nn.Linear(8, n_heads * SIZE) for _ in range(3))

    class Pairs(nn.Module):
        def forward(self, x, y):
            return pair(*(f(z).unflatten(-1, (n_heads, SIZE)) for f, z in zip(layers, (x, y, y), strict=True)))

    x, y = torch.randn(n_queries, LENGTH, 8), torch.randn(n_keys, LENGTH + 1, 8)
    y = x if is_one_input else y
    q, k = (f(z).unflatten(-1, (n_heads, SIZE)) for f, z in zip(layers, (x, y), strict=False))
    with torch.no_grad(), mhaviz.record(model := Pairs(), examples="all") as recording:
        model(x, y)
    maps, expected = recording.attention.maps, each_with_each(q, k)
    found = torch.stack([torch.as_tensor(m.weights) for m in maps]).flatten(0, 1)
    torch.testing.assert_close(found, expected.flatten(0, 1), rtol=0, atol=1e-5)
    several = is_one_input and n_queries > 1
    assert {m.kind for m in maps} == {"other" if several else "self" if is_one_input else "cross"}
    names = [tuple(map(str, range(n))) for n in (q.shape[1], k.shape[1])]
    of_others = tuple(f"row {place}" for place in range(k.shape[1]))  # keys of another example than the queries
    assert {m.queries for m in maps} == {names[0]}
    assert {m.keys for m in maps} == ({names[1], of_others} if several else {names[1]})


def test_axes_of_pairs_are_not_taken_for_heads_where_nobody_knows_what_has_made_them():
    class Pairs(nn.Module):
        def forward(self, x, y):
            return attend(x[:, None], y[None], y[None])

    with mhaviz.record() as recording:
        Pairs()(torch.randn(2, LENGTH, SIZE), torch.randn(3, LENGTH, SIZE))
    assert recording.is_empty
    assert "not known whether one of its axes of 2 and 3 before the queries is heads" in recording.notices[0]
