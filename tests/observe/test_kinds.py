"""Which kind of attention a program's is, by the tokens that its queries and keys are, as each is written here."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.pages.map_words import map_title

T, D = 6, 8
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()
ONE, OTHER, SOME = torch.tensor([3, 1, 0, 2, 5, 4]), torch.tensor([5, 4, 3, 2, 1, 0]), torch.tensor([2, 0, 5])


class Program(nn.Module):
    """Reads two inputs of one length; ``sides`` makes queries and keys of them."""

    def __init__(self, sides, how="fused", mask=None):
        super().__init__()
        self.q, self.k, self.words, self.pool = nn.Linear(D, D), nn.Linear(D, D), nn.Embedding(9, D), nn.AvgPool1d(2)
        self.places = nn.Embedding(T, D)
        self.learned, self.multihead_attn = nn.Parameter(torch.randn(1, T, D)), nn.MultiheadAttention(D, 2)
        self.multihead_attn.batch_first = True
        self.sides, self.how, self.mask = sides, how, mask

    def forward(self, x, y):
        query, key = self.sides(self, x, y)
        if self.how == "layer":
            return self.multihead_attn(query, key, x[:, :1].expand_as(key), attn_mask=self.mask)
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in (self.q(query), self.k(key), key))
        if self.how == "fused":
            return F.scaled_dot_product_attention(q, k, v, self.mask)
        S = q @ k.mT
        return (S if self.mask is None else S.masked_fill(~self.mask, -torch.inf)).softmax(-1) @ v


def recorded(sides, how="fused", mask=None, **options):
    program = Program(sides, how, mask)
    with mhaviz.record(program, **options) as recording, torch.no_grad():
        program(torch.randn(1, T, D), torch.randn(1, T, D))
    return recording


SAME = {
    "the same": lambda p, x, y: (x, x),
    "with other positions": lambda p, x, y: (x + 1, x + p.learned),
    "positions with words": lambda p, x, y: (p.learned.clone() + p.places(torch.arange(T)[None]) + x, x),
    "with the same added": lambda p, x, y: (x + y, x + y),
    "reordered before": lambda p, x, y: (x[:, ONE],) * 2,
    "after layers": lambda p, x, y: (p.q(x) + x, F.layer_norm(x, (D,))),
    "some of them": lambda p, x, y: (x[:, 2:4], x),
    "a text": lambda p, x, y: (p.words(ONE[None]),) * 2,
    "with others before the keys": lambda p, x, y: (x, torch.cat([p.learned, x], 1)),
    "with a prefix of a table": lambda p, x, y: (x, torch.cat([p.places(torch.arange(3)[None]), x], 1)),
    "of two inputs": lambda p, x, y: (torch.cat([p.q(x), p.k(y)], 1), torch.cat([p.k(x), p.q(y)], 1)),
}
CROSS = {
    "two inputs": lambda p, x, y: (x, y),
    "two inputs of other lengths": lambda p, x, y: (x[:, :4], y),
    "two texts": lambda p, x, y: (p.words(ONE[None]), p.words(OTHER[None])),
    "learned queries": lambda p, x, y: (p.learned, x),
    "learned queries, and positions": lambda p, x, y: (torch.zeros_like(p.learned) + p.learned, x + y),
    "with the same positions": lambda p, x, y: (x + p.learned, y + p.learned),
    "more queries than keys": lambda p, x, y: (torch.cat([x, p.learned], 1), y),
}
OTHERS = {
    "some, gathered": lambda p, x, y: (x[:, SOME], x),
    "two orders": lambda p, x, y: (x[:, ONE], x[:, OTHER]),
    "two parts": lambda p, x, y: (x[:, 3:], x[:, :3]),
    "keys of a part": lambda p, x, y: (x, x[:, :3]),
    "pooled keys": lambda p, x, y: (x, p.pool(x.mT).mT),
    "patches of patches": lambda p, x, y: (x, F.conv1d(x.mT, torch.ones(D, D, 2), stride=2).mT),
    "positions alone": lambda p, x, y: (y, x + y),
    "positions alone, to which others are added": lambda p, x, y: (y, y + x),
    "positions alone of a wider batch": lambda p, x, y: (y.expand(2, -1, -1), x.repeat(2, 1, 1) + y),
    "positions of one side, or its tokens": lambda p, x, y: (x, x + y),
    "keys of another input, too": lambda p, x, y: (x, torch.cat([x, y], 1)),
    "keys of another input before them": lambda p, x, y: (x, torch.cat([y, x], 1)),
    "learned keys and keys of another input": lambda p, x, y: (x, torch.cat([p.learned, torch.cat([x, y], 1)], 1)),
    "both with others": lambda p, x, y: (torch.cat([x, y], 1), torch.cat([x, p.words(ONE[None])], 1)),
    "learned queries among the keys": lambda p, x, y: (p.learned, torch.cat([x, p.learned], 1)),
    "random numbers": lambda p, x, y: (torch.randn_like(x), x),
    "one mean token": lambda p, x, y: (x.mean(1, keepdim=True), x),
}
HOW = pytest.mark.parametrize("how", ["fused", "by hand", "layer"])


@HOW
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for kind, names in (("self", SAME), ("cross", CROSS), ("other", OTHERS)) for name in names],
)
def test_kinds_are_those_of_the_tokens_whatever_modules_are_called(name, kind, how):
    (m,) = recorded((SAME | CROSS | OTHERS)[name], how).attention.maps
    assert m.kind == kind
    title = {"self": "self-attention", "cross": "source-target attention", "other": "attention"}[kind]
    assert map_title(m, "").head == title


OUTSIDE = {
    "normalised": ("self", lambda x, y: (F.layer_norm(x, (D,)), x)),
    "times two": ("self", lambda x, y: (2 * x, x)),
    "by a matrix": ("self", lambda x, y: (x @ torch.randn(D, D), x)),
    "two inputs": ("cross", lambda x, y: (x / 2, y / 2)),
    "two inputs joined": ("cross", lambda x, y: (x, torch.cat([y, y.flip(1)], 1))),
    "a sum": ("other", lambda x, y: (x, y + x)),
    "joined": ("other", lambda x, y: (x, torch.cat([y, x], 1))),
    "the larger": ("other", lambda x, y: (x, torch.stack([x, y]).max(0)[0])),
    "by numbers": ("other", lambda x, y: [F.one_hot(ONE[None], D).float() * n for n in (1, 2)]),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("is_layer", [False, True])
def test_what_a_script_computes_before_a_module_runs_is_followed(name, is_layer):
    kind, sides = OUTSIDE[name]
    layer, q, k = nn.MultiheadAttention(D, 2, batch_first=True), nn.Linear(D, D), nn.Linear(D, D)
    with mhaviz.record() as recording, torch.no_grad():
        x, y = sides(torch.randn(1, T, D), torch.randn(1, T, D))
        _ = layer(x, y, y) if is_layer else (q(x) @ k(y).mT).softmax(-1) @ y
    assert [m.kind for m in recording.attention] == [kind]


@HOW
def test_masked_attention_is_of_tokens_that_stand_in_one_order(how):
    mask = CAUSAL if how != "layer" else ~CAUSAL
    kinds = {
        name: recorded(sides, how, mask).attention.maps[0].kind
        for name, sides in {"same": SAME["the same"], "inputs": CROSS["two inputs"]}.items()
    }
    assert kinds == {"same": "masked", "inputs": "cross"}
    part = CAUSAL[:3, :3] if how != "layer" else ~CAUSAL[:3, :3]
    assert recorded(OTHERS["two parts"], how, part).attention.maps[0].kind == "other"


UNMASKED = {
    "sharp, of itself": lambda S: torch.eye(T) * 1e4 + S,
    "sharp, of the token before": lambda S: -1e3 * (torch.arange(T)[:, None] - torch.arange(T) - 1).abs() + S * 1e-3,
    "all but one token far lower": lambda S: torch.tensor([1e3] + [0.0] * (T - 1)) + S,
}


@pytest.mark.parametrize("name", UNMASKED)
def test_weights_that_underflow_tell_of_no_mask(name):
    """Each row is 0 beyond the diagonal, in float32, of scores that hide no key; −∞ in their place is a mask."""
    x = torch.randn(1, T, D)

    def program(x, hides):
        S = UNMASKED[name](x @ x.mT)
        S = S.masked_fill(~CAUSAL, -torch.inf) if hides else S
        A = S.softmax(-1)
        assert not A.triu(1).any()
        return A @ x

    for hides in (False, True):
        with mhaviz.record() as recording:
            program(x, hides)
        assert [m.kind for m in recording.attention.maps] == ["masked" if hides else "self"]


def test_of_bare_tensors_nothing_is_known():
    with mhaviz.record() as recording:
        F.scaled_dot_product_attention(torch.randn(1, 2, T, 4), torch.randn(1, 2, T, 4), torch.randn(1, 2, T, 4))
    assert [m.kind for m in recording.attention] == ["other"]


@pytest.mark.parametrize("suffix", [".json", ".safetensors", ".npz"])
def test_other_attention_is_read_back_and_has_no_rollout(suffix, tmp_path):
    recording = recorded(OTHERS["two orders"])
    recording.attention.save(path := tmp_path / f"maps{suffix}")
    (m,) = mhaviz.read(path).maps
    assert (m.kind, m.name, m.weights.shape) == ("other", "layer 0, other", (2, T, T))
    with pytest.raises(ArgumentError, match="a rollout goes through self-attention"):
        _ = recording.rollout


def test_statistics_of_other_attention_have_nothing_along_a_diagonal():
    averages = recorded(OTHERS["two parts"], statistics=True).head_statistics.kinds
    known = {name: averages[0].number(name).is_known for name in ("entropy", "first", "itself", "previous", "distance")}
    assert known == {"entropy": True, "first": True, "itself": False, "previous": False, "distance": False}
    averages = recorded(OTHERS["two orders"], statistics=True).head_statistics.kinds
    assert averages[0].kind == "other"
    assert not averages[0].number("distance").is_known


OF_EXAMPLES = {
    "flipped": lambda x: (x, x.flip(0)),
    "rolled": lambda x: (x, x.roll(1, 0)),
    "indexed": lambda x: (x, x[[1, 2, 3, 0]]),
    "selected": lambda x: (x, x.index_select(0, torch.tensor([1, 2, 3, 0]))),
    "joined": lambda x: (x, torch.cat([x[2:], x[:2]])),
    "halves": lambda x: x.chunk(2),
    "repeated": lambda x: (x.repeat_interleave(4, 0), x.repeat(4, 1, 1)),
    "each with each": lambda x: (x[:, None].expand(-1, 4, -1, -1), x[None].expand(4, -1, -1, -1)),
    "each with each, copied": lambda x: tuple(y.contiguous() for y in OF_EXAMPLES["each with each"](x)),
}


OF_TWO = {
    "two halves": lambda x: x.chunk(2),
    "two": lambda x: x.unbind(),
    "two, in pairs": lambda x: x.repeat(2, 1, 1)[:4].view(2, 2, 5, 8).unbind(),
    "two by their numbers": lambda x: (x[0], x[1]),
    "two, sliced": lambda x: (x[:1], x[1:]),
    "two that were stacked": lambda x: torch.stack([x, torch.zeros(2, 5, 8) + x.sum()]).unbind(),
}


@pytest.mark.parametrize("name", OF_EXAMPLES | OF_TWO)
@pytest.mark.parametrize("both", [False, True])
def test_tokens_of_other_examples_are_not_the_same(name, both):
    class Pairs(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y, z = (OF_EXAMPLES | OF_TWO)[name](x)
            y = z if both else y
            return (self.q(y) @ self.k(z).mT).softmax(-1) @ z

    with torch.no_grad(), mhaviz.record(model := Pairs()) as recording:
        model(torch.randn(4 if name in OF_EXAMPLES else 2, 5, 8))
    if both and name.startswith("each"):  # what was repeated may be heads
        assert "whether heads or the batch are on its axes of 4 and 4" in recording.notices[0]
    else:
        are_same = both or name == "two, in pairs"  # which are the same two twice
        assert recording.attention[0].kind == ("self" if are_same else "other")


@pytest.mark.parametrize("is_self", [False, True])
def test_queries_keys_and_values_of_one_tensor_are_of_what_each_was_made_of(is_self):
    q, k = nn.Linear(D, D), nn.Linear(D, D)
    with torch.no_grad(), mhaviz.record() as recording:
        x, y = torch.randn(1, T, D), torch.randn(1, T, D)
        y = x if is_self else y
        F.scaled_dot_product_attention(*torch.stack([q(x), k(y), k(y)]).unbind())
    assert recording.attention[0].kind == ("self" if is_self else "cross")


class Masked(nn.Module):
    """Attention that sees later tokens only if it is told to."""

    def __init__(self):
        super().__init__()
        self.embedding, self.qkv = nn.Embedding(9, 8), nn.Linear(8, 24)

    def forward(self, ids, is_causal=True):
        q, k, v = self.qkv(self.embedding(ids)).chunk(3, dim=-1)
        S = q @ k.mT
        return (S + torch.full(S.shape[-2:], -torch.inf).triu(1) if is_causal else S).softmax(-1) @ v


@pytest.mark.parametrize("lengths", [(1, 2, 3), (2, 3)])
def test_a_text_that_grows_from_its_first_token_is_masked_in_all_passes(lengths):
    net = Masked()
    with mhaviz.record(net, passes="0-") as recording:
        for n in lengths:
            net(torch.arange(n)[None])
    assert [m.kind for m in recording.attention.maps] == ["masked"] * len(lengths)


@pytest.mark.parametrize("masks", [(False, True), (True, False), (False, True, False)])
def test_a_kind_is_that_of_the_mask_of_its_pass(masks):
    net = Masked()
    with mhaviz.record(net, passes="0-") as recording:
        for is_causal in masks:
            net(torch.arange(4)[None], is_causal)
    assert [m.kind for m in recording.attention.maps] == ["masked" if is_causal else "self" for is_causal in masks]
