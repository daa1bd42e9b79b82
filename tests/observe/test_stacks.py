"""Which attentions of a program are layers of one stack: the oracle is the forward pass, as it is written here."""

import re

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.observe.regions import Traced
from mhaviz.pages.attention import attention_page

IDS, OTHERS = torch.tensor([[1, 5, 3, 4]]), torch.tensor([[9, 8, 7, 6]])
CLOSE = rounding(depth=3)


class Attention(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(8, 24), nn.Linear(8, 8), causal

    def forward(self, x, y=None):
        q, k, v = self.read = self.qkv(x)[..., :8], *self.qkv(x if y is None else y)[..., 8:].chunk(2, -1)
        q, k, v = (part[:, None] for part in (q, k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=1)[:, 0])

    @property
    def A(self):
        """The weights of what it has read last, where no mask hides any."""
        q, k, _ = self.read
        return (q @ k.mT).softmax(-1).detach()


class Program(nn.Module):
    """Attentions by their names, and a forward pass of these and of the embeddings of two texts."""

    def __init__(self, run, *masked, **others):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.run = nn.Embedding(10, 8), run
        for name in masked:
            setattr(self, name, Attention(causal=True))
        for name, n in others.items():
            setattr(self, name, nn.ModuleList(Attention() for _ in range(n)) if n else Attention())

    def forward(self, ids, others):
        return self.run(self, self.words(ids), self.words(others))


def recorded(program, **options):
    with mhaviz.record(program, **options) as recording, torch.no_grad():
        program(IDS, OTHERS)
    return recording


def through(x, *layers):
    for layer in layers:
        x = x + layer(x)
    return x


def encoded_and_decoded(p, x, y):
    memory, y = through(x, p.encoder), through(y, p.decoder)
    y = through(y + p.cross(y, memory), p.second)
    return y + p.last(y, memory)


def one_stack(p, x, y):
    return through(x, p.first, p.second, p.third)


def shared(p, x, y):
    return through(x, p.layer, p.layer, p.layer)


def siamese(p, x, y):
    return through(x, *p.layers).mean(1) * through(y, *p.layers).mean(1)


def two_towers(p, x, y):
    return through(x, *p.a) * through(y, *p.b)


def titles(recording):
    page = attention_page(recording.attention)
    names = [(block.title.head, block.module) for block in page.blocks if hasattr(block, "maps")]
    return [(re.sub(", (Program|recorded)(?=,)", "", head), module) for head, module in names]  # without the model


def test_layers_of_other_kinds_are_counted_together_where_they_read_one_another():
    recording = recorded(Program(one_stack, "second", first=0, third=0))
    assert [(m.module, m.kind, m.layer) for m in recording.attention] == [
        ("first", "self", 0),
        ("second", "masked", 1),
        ("third", "self", 2),
    ]
    with pytest.raises(ArgumentError, match="second, masked self-attention, reads what first has made, self-attention"):
        _ = recording.rollout


def test_encoders_and_decoders_are_counted_each_by_itself():
    recording = recorded(Program(encoded_and_decoded, "decoder", "second", encoder=0, cross=0, last=0))
    assert [(m.module, m.kind, m.layer) for m in recording.attention] == [
        ("encoder", "self", 0),
        ("decoder", "masked", 0),
        ("cross", "cross", 0),
        ("second", "masked", 1),
        ("last", "cross", 1),
    ]
    assert [(m.module, m.layer) for m in recording.rollout] == [("encoder", 0), ("decoder", 0), ("second", 1)]


def test_numbers_in_names_stay():
    recording = recorded(Program(lambda p, x, y: through(x, p.layers[0], p.masked, p.layers[1]), "masked", layers=2))
    assert [(m.module, m.layer) for m in recording.attention] == [("layers.0", 0), ("masked", 1), ("layers.1", 2)]


def test_a_rollout_goes_through_modules_of_any_names():
    program = Program(one_stack, first=0, second=0, third=0)
    *_, last = recorded(program).rollout
    R = torch.eye(4)
    for layer in (program.first, program.second, program.third):
        R = (layer.A[0] + torch.eye(4)) / 2 @ R
    np.testing.assert_allclose(last.weights[0], R, atol=CLOSE)


@pytest.mark.parametrize(
    "program",
    [
        Program(two_towers, a=1, b=1),
        Program(two_towers, a=2, b=2),
        Program(lambda p, x, y: p.first(x) + p.second(x), first=0, second=0),
    ],
)
def test_no_rollout_goes_through_attentions_that_do_not_read_one_another(program):
    with pytest.raises(ArgumentError, match="that is not known, as of two towers"):
        _ = recorded(program).rollout


def test_calls_of_one_module_are_called_so():
    recording = recorded(Program(shared, layer=0))
    assert [(m.module, m.layer) for m in recording.attention] == [("layer", 0), ("layer #2", 1), ("layer #3", 2)]
    assert titles(recording) == [("self-attention, calls 1 to 3", "layer #1 to #3")]
    (block,) = attention_page(recording.attention).blocks
    assert [one.title for one in block.panels] == ["call 1 · L0 H0", "call 2 · L1 H0", "call 3 · L2 H0"]
    assert len(recording.rollout) == 3  # each call reads what the one before it has made


def in_turns(p, x, y):
    for _ in range(2):
        x, y = x + p.layers[0](x), y + p.layers[0](y)
    return x.mean(1) * y.mean(1)


def siamese_with_shared_layers(p, x, y):
    return through(x, *[p.layers[0]] * 2).mean(1) * through(y, *[p.layers[0]] * 2).mean(1)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (siamese, ("layers.0", "layers.1")),
        (in_turns, ("layers.0", "layers.0 #2")),
        (siamese_with_shared_layers, ("layers.0", "layers.0 #2")),
    ],
)
@pytest.mark.parametrize("others", [OTHERS, torch.tensor([[9, 8, 7, 6, 5, 2]]), IDS])
def test_a_second_text_of_a_forward_pass_is_another_pass(run, names, others):
    """A siamese encoder reads two texts; SimCSE (Gao et al. 2021, arXiv 2104.08821) reads one twice."""
    program, weights = Program(run, layers=2), []
    for layer in program.layers:
        layer.register_forward_hook(lambda module, args, output: weights.append(module.A))
    with mhaviz.record(program, passes="0-") as recording, torch.no_grad():
        for pair in ((IDS, others), (others, IDS)):
            program(*pair)
    found = recording.attention.maps
    assert [(m.pass_number, m.module, m.layer) for m in found] == [
        (number, name, layer) for number in range(4) for layer, name in enumerate(names)
    ]
    if run is in_turns:
        weights = [weights[2 * (2 * (i // 4) + i % 2) + i // 2 % 2] for i in range(8)]
    for m, A in zip(found, weights, strict=True):
        np.testing.assert_allclose(m.weights, A, atol=CLOSE)
    assert [m.rows.tokens.ids for m in found[::2]] == [tuple(x[0].tolist()) for x in (IDS, others, others, IDS)]


def test_passes_of_several_texts_are_counted_where_only_some_are_drawn():
    program = Program(siamese, layers=2)
    for passes, drawn in ((None, [None]), ("3", [3]), ("last", [5])):
        with mhaviz.record(program, **({} if passes is None else {"passes": passes})) as recording, torch.no_grad():
            for _ in range(3):
                program(IDS, OTHERS)
        assert [(m.module, m.pass_number) for m in recording.attention] == [
            (f"layers.{layer}", number) for number in drawn for layer in range(2)
        ]


@pytest.mark.parametrize(
    "run",
    [
        lambda p, x, y: through(x, *[p.layer] * 2) + p.layer(y + x),
        lambda p, x, y: p.layer(y + p.layer(x).mean(1, keepdim=True)),
        lambda p, x, y: p.layer(p.layer(x).flip(1)) + p.layer(p.layer(x).flip(1) + y),
        lambda p, x, y: p.layer(x, y) + p.layer(y, x),
    ],
)
def test_a_call_that_reads_tokens_of_a_call_before_is_no_other_pass(run):
    recording = recorded(Program(run, layer=0), passes="0-")
    names = [m.module for m in recording.attention]
    assert names == ["layer", *(f"layer #{i + 1}" for i in range(1, len(names)))]


def test_a_rollout_goes_through_the_layers_of_each_text():
    program = Program(siamese, layers=2)
    *_, last = recorded(program).rollout
    program(IDS, IDS)
    R = torch.eye(4)
    for layer in program.layers:
        R = (layer.A[0] + torch.eye(4)) / 2 @ R
    np.testing.assert_allclose(last.weights[0], R, atol=CLOSE)


def test_towers_have_their_own_examples_and_tokens():
    both = torch.cat([IDS, OTHERS])
    with mhaviz.record(program := Program(two_towers, a=2, b=2), examples="all") as recording, torch.no_grad():
        program(both, both.flip(0))
    found = {(m.module, m.sentence): (m.rows.tokens.ids, m.weights[0]) for m in recording.attention}
    for name, tower, of_tower in (("a", program.a, both), ("b", program.b, both.flip(0))):
        for place, layer in enumerate(tower):
            for example, row in enumerate(of_tower.tolist()):
                ids, weights = found[f"{name}.{place}", example]
                assert ids == tuple(row)
                np.testing.assert_allclose(weights, layer.A[example], atol=CLOSE)


def test_models_whose_modules_have_the_same_names_are_told_apart():
    models = [nn.Sequential(Attention(), Attention()) for _ in range(2)]
    with mhaviz.record() as recording:
        for model in models:
            model(torch.randn(1, 4, 8))
    names = [("self-attention, layers 0 to 1", "*"), ("self-attention, layers 2 to 3", "model 2.*")]
    assert [m.module for m in recording.attention] == ["0", "1", "model 2.0", "model 2.1"]
    assert titles(recording) == names


class Two(nn.Module):
    """Two attentions, which methods other than ``forward`` call, or a program itself."""

    def __init__(self):
        super().__init__()
        self.attn, self.cross_attn = Attention(), nn.MultiheadAttention(8, 2, batch_first=True)

    def encode(self, x):
        return self.attn(x)

    def decode(self, x, y):
        return self.cross_attn(x, y, y)


def test_a_model_has_one_number_whichever_of_its_modules_a_program_calls():
    x, models = torch.randn(1, 4, 8), [Two() for _ in range(3)]
    with mhaviz.record() as recording:
        for model in models[:2]:
            model.encode(x)
        for model in models[1:]:
            model.decode(x, x)
    assert recording.modules == ("attn", "model 2.attn", "model 2.cross_attn", "model 3.cross_attn")
    for module, names in (("attn", {"attn", "model 2.attn"}), ("model 2.*", {"model 2.attn", "model 2.cross_attn"})):
        with mhaviz.record(module=module) as recording:
            for model in models[:2]:
                model.decode(model.encode(x), x)
        assert {m.module for m in recording.attention} == names


def test_modules_that_a_script_calls_are_named_by_its_model():
    script = "for model in models:\n    model.cross_attn(model.attn(x), x, x)"
    with mhaviz.record() as recording:
        exec(script, {"models": [Two(), Two()], "x": torch.randn(1, 4, 8)})
    assert recording.modules == ("attn", "cross_attn", "model 2.attn", "model 2.cross_attn")


def test_notices_of_several_models_tell_which():
    """A softmax of the largest scores is not drawn."""

    class Largest(Attention):
        def forward(self, x):
            return (x @ x.mT).topk(2)[0].softmax(-1) @ x[:, :2]

    models, x = [Largest() for _ in range(3)], torch.randn(1, 4, 8)
    with mhaviz.record() as recording:
        for model in (*models, *models):
            model(x)
    names = dict.fromkeys(line.partition(":")[0] for line in recording.notices)
    assert [*names] == ["Largest", "model 2.Largest", "model 3.Largest"]


def documents(x):
    """One after another, of other lengths."""
    for n in (2, 3, 4):
        F.scaled_dot_product_attention(*3 * [x[:, None, :n]])


def chunks(x):
    """Of queries from the last on, each of which reads all keys up to its own end."""
    for end in (6, 4, 2):
        mask = torch.ones(6, 6, dtype=torch.bool).tril()[end - 2 : end, :end]
        F.scaled_dot_product_attention(x[:, None, end - 2 : end], x[:, None, :end], x[:, None, :end], mask)


@pytest.mark.parametrize("run", [documents, chunks])
def test_what_a_function_computes_again_is_called_calls(run):
    with mhaviz.record() as recording:
        run(torch.randn(1, 6, 8))
    assert [head.rpartition(", ")[2] for head, _ in titles(recording)] == ["call 1", "call 2", "call 3"]
    assert "is counted by its calls, whether these are layers" in recording.attention.source.remark
    with mhaviz.record() as recording:
        nn.Sequential(Attention(), Attention())(torch.randn(1, 6, 8))
    assert "numbered" not in recording.attention.source.remark


class SplitHeads(nn.Module):
    """A layer with a residual connection, of two heads that are split off as GPT-2 splits its own."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.qkv(x).split(8, dim=-1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


def test_layers_that_are_alike_move_their_numbers_once(monkeypatch):
    moved = []

    def count(traced, move, original=Traced.moved):
        moved.append(traced)
        return original(traced, move)

    monkeypatch.setattr(Traced, "moved", count)
    counts = []
    for n_layers in (2, 8):
        net = nn.Sequential(nn.Embedding(10, 8), *(SplitHeads() for _ in range(n_layers)))
        with mhaviz.record(net) as recording:
            net(IDS)
        assert len(recording.attention.maps) == n_layers
        assert all(m.columns.tokens.texts == ("0", "1", "2", "3") for m in recording.attention.maps)
        counts.append(len(moved))
        moved.clear()
    assert 0 < counts[0] == counts[1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_heads_of_a_list_have_the_numbers_of_their_modules_in_whichever_order_they_run(order):
    def run(net, x, y):
        outputs = {number: net.heads[number](x) for number in order}
        return torch.cat([outputs[number] for number in range(3)], dim=-1)

    net = Program(run, heads=3)
    with mhaviz.record(net) as recording, torch.no_grad():
        net(IDS, OTHERS)
    (m,) = recording.attention.maps
    assert m.heads == (0, 1, 2)
    np.testing.assert_allclose(m.weights, torch.cat([head.A for head in net.heads]), rtol=0, atol=CLOSE)
