"""Weights by span at any length, beside group sums of eager weights in float64."""

import weakref

import numpy as np
import pytest
import torch
from families import FAMILIES
from looking import GivenModel
from rounding import rounding

import mhaviz
from mhaviz.analyses import span_numbers as module
from mhaviz.analyses.span_numbers import span_numbers, span_numbers_outline
from mhaviz.attention import map as maps_of_any_length
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Inputs
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.tokens import Text, Tokens

CLOSE = rounding()
SPANS = [
    {"name": "prompt", "tokens": [3, 20]},
    {"name": "document", "tokens": [[20, 70], [80, 90]]},
    {"name": "answer", "tokens": [100, 130]},
]
OWNERS = np.full(130, -1)
OWNERS[3:20], OWNERS[20:70], OWNERS[80:90], OWNERS[100:] = 0, 1, 1, 2


def call(causal=True, length=130, sink=True, **more):
    generator = np.random.default_rng(0)
    query, key = (torch.from_numpy(generator.normal(size=(1, 3, length, 4)).astype(np.float32)) for _ in range(2))
    if sink:
        query[..., 0] += 4
        key[:, :, 0, 0] += 3
    return AttentionCall(query, key, key, 0.7, causal, **more)


def model_of(given, kind):
    """One sentence of numbered words, the first of which is special."""
    words = Tokens(tuple(f" w{i}" for i in range(given.shape[2])), (0,))
    return GivenModel(kind, given), Inputs((Text(words),))


def by_definition(A, seen, sinks):
    free = ~np.isin(np.arange(A.shape[2]), sinks)
    share = np.stack([(seen & free & (t == OWNERS)).sum(axis=1) for t in range(3)], axis=1)
    share = share / np.maximum((seen & free).sum(axis=1), 1)[:, None]
    mass = np.stack([A[:, :, (t == OWNERS) & free].sum(axis=2) for t in range(3)], axis=2)
    chance = A[:, :, free].sum(axis=2)[..., None] * share
    return (np.stack([x[:, p == OWNERS].mean(axis=1) for p in range(3)], axis=1) for x in (mass, chance))


@pytest.fixture(params=["at once", "tile by tile"])
def engine(request, monkeypatch):
    if request.param == "tile by tile":
        monkeypatch.setattr(maps_of_any_length, "is_short", lambda call, memory: False)


@pytest.mark.parametrize("at_once", [2**24, 700])
@pytest.mark.parametrize("causal", [True, False])
def test_spans_are_group_sums_of_all_weights(engine, monkeypatch, causal, at_once):
    """Also with a few queries at a time."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    given = call(causal)
    A = given.weights()[0].double().numpy()
    seen = np.tril(np.ones((130, 130), bool)) if causal else np.ones((130, 130), bool)
    (found,) = span_numbers(*model_of(given, "masked" if causal else "self"), SpanChoice.of(SPANS))
    mass, chance = by_definition(A, seen, [0])
    assert found.keys == ("prompt", "document", "answer", "(rest)", " w0")
    np.testing.assert_allclose(found.weights[..., :3], mass, atol=CLOSE)
    np.testing.assert_allclose(found.chance[..., :3], chance, atol=CLOSE)
    np.testing.assert_allclose(
        found.weights[..., 4], np.stack([A[:, p == OWNERS, 0].mean(axis=1) for p in range(3)], axis=1), atol=CLOSE
    )


def test_what_a_mask_hides_is_not_seen(engine):
    """Documents in one row: each sees its own tokens alone."""
    document = np.repeat([0, 1], 65)
    seen = np.tril(document[:, None] == document)
    given = call(False, sink=False, mask=torch.from_numpy(seen)[None, None])
    (found,) = span_numbers(*model_of(given, "masked"), SpanChoice.of(SPANS))
    mass, chance = by_definition(given.weights()[0].double().numpy(), seen, [])
    np.testing.assert_allclose(found.weights[..., :3], mass, atol=CLOSE)
    np.testing.assert_allclose(found.chance[..., :3], chance, atol=CLOSE)
    assert found.chance[0, 2, 0] == 0  # the answer sees nothing of the prompt


@pytest.mark.parametrize("at_once", [2**24, 3 * 130 * 10])
def test_a_mask_of_each_head_is_read_a_few_queries_at_a_time(monkeypatch, at_once):
    """Head 0 sees all earlier keys, head 1 those of its document, head 2 the last 40; all count against the limit."""
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    sizes, visible = [], AttentionCall.visible
    monkeypatch.setattr(AttentionCall, "visible", lambda *a: (sizes.append((seen := visible(*a)).numel()), seen)[1])
    positions, document = np.arange(130), np.repeat([0, 1], 65)
    seen = np.tril(np.ones((3, 130, 130), bool))
    seen[1] &= document[:, None] == document
    seen[2] &= positions[:, None] - positions < 40
    given = call(False, sink=False, mask=torch.from_numpy(seen)[None])
    (found,) = span_numbers(*model_of(given, "masked"), SpanChoice.of(SPANS))
    A = given.weights()[0].double().numpy()
    for head in range(3):
        mass, chance = by_definition(A[head : head + 1], seen[head], [])
        np.testing.assert_allclose(found.weights[head : head + 1, :, :3], mass, atol=CLOSE)
        np.testing.assert_allclose(found.chance[head : head + 1, :, :3], chance, atol=CLOSE)
    assert max(sizes) <= at_once


def test_queries_and_keys_are_freed_after_each_map():
    """While the next map is read, also of the first map of each text."""
    alive = []

    class Fresh(GivenModel):
        def run(self, inputs, on_attention, heads=None, batched=False):
            for text in inputs.texts:
                once = GivenModel("masked", call())
                key = weakref.ref(once.given[0].key)
                once.run(Inputs((text,)), on_attention, heads)
                del once
                alive.append(key() is not None)

    model, inputs = Fresh("masked", call()), model_of(call(), "masked")[1]
    span_numbers(model, inputs, SpanChoice.of(SPANS))
    assert alive == [False, False]


def test_a_softmax_with_a_sink_of_its_own_is_compared_by_what_keys_get():
    given = call(sink=False, sinks=torch.tensor([2.0, -1.0, 0.0]))
    (found,) = span_numbers(*model_of(given, "masked"), SpanChoice.of(SPANS))
    seen = np.tril(np.ones((130, 130), bool))
    mass, chance = by_definition(given.weights()[0].double().numpy(), seen, [])
    np.testing.assert_allclose(found.weights[..., :3], mass, atol=CLOSE)
    np.testing.assert_allclose(found.chance[..., :3], chance, atol=CLOSE)


def test_weights_alone_are_enough():
    whole = call()
    given = AttentionWeights(whole.weights(), seen=torch.ones(130, 130, dtype=torch.bool).tril()[None, None])
    model, inputs = model_of(whole, "masked")
    (expected,) = span_numbers(model, inputs, SpanChoice.of(SPANS))
    model.given = (given,)
    (found,) = span_numbers(model, inputs, SpanChoice.of(SPANS))
    np.testing.assert_allclose(found.weights, expected.weights, atol=CLOSE)
    np.testing.assert_allclose(found.chance, expected.chance, atol=CLOSE)


def test_weights_whose_mask_is_not_known_are_compared_a_few_queries_at_a_time(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 3 * 130 * 10)
    whole = call(sink=False)
    (expected,) = span_numbers(*model_of(whole, "masked"), SpanChoice.of(SPANS))
    sizes, weighed = [], AttentionWeights.weighed
    monkeypatch.setattr(AttentionWeights, "weighed", lambda a: (sizes.append(a.given.numel()), weighed(a))[1])
    model, inputs = model_of(whole, "masked")
    model.given = (AttentionWeights(whole.weights()),)
    (found,) = span_numbers(model, inputs, SpanChoice.of(SPANS))
    np.testing.assert_allclose(found.chance, expected.chance, atol=CLOSE)
    assert max(sizes) <= 3 * 130 * 10


def test_axes_are_known_before_the_model_runs():
    model, inputs = model_of(call(), "masked")
    outline = span_numbers_outline(model, inputs, SpanChoice.of(SPANS))
    assert outline[0].queries == ("prompt", "document", "answer")
    with pytest.raises(ArgumentError, match="got one text"):
        span_numbers_outline(model, inputs, SpanChoice.of("turn"))


def test_sums_that_do_not_fit_are_refused(monkeypatch):
    def full(needed, device, what):
        if needed > 500:
            raise MhavizError("full")

    monkeypatch.setattr(module, "require_memory", full)
    with pytest.raises(MhavizError, match="full"):
        span_numbers(*model_of(call(), "masked"), SpanChoice.of(SPANS))


def with_a_sink(model, first):
    """Let all queries of all heads look at the token ``first``: what it alone has much of, keys tell by, and queries
    by what all tokens have."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.1)
        embeddings = model.get_input_embeddings().weight
        embeddings[:, 1] += 1
        embeddings[first, 0] += 10
        for name, module in model.named_modules():
            if name.endswith(("query", "q_proj")):
                module.weight[:, 1] = 0.4
            elif name.endswith(("key", "k_proj")):
                module.weight[:, 0] = 0.4
            elif name.endswith("c_attn"):  # queries, keys and values of 32 features each, inputs first
                module.weight[1, :32] = module.weight[0, 32:64] = 0.4
    return model


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_checkpoints_of_transformers_beside_their_eager_weights(name):
    """In float64, with the sums of numpy. The first token is the sink, which a span begins with."""
    kind, config, words = FAMILIES[name]
    text = "the cat sat on a mat the dog saw hello the cat"
    ids = words()(text).input_ids
    torch.manual_seed(0)
    model = kind._from_config(config(), attn_implementation="eager").eval().double()
    with_a_sink(model, ids[0])
    with torch.no_grad():
        eager = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    n, half, is_masked = len(ids), len(ids) // 2, name != "bert"
    seen = np.tril(np.ones((n, n))) if is_masked else np.ones((n, n))
    seen[:, 0] = 0  # the sink is no key that chance gives weight
    spans = {"a": (0, half), "b": (half, n - 1)}
    found = mhaviz.load(model, words()).attend(text, by=[{"name": x, "tokens": [*y]} for x, y in spans.items()])
    for m, A in zip(found, (a[0].numpy() for a in eager), strict=True):
        assert m.keys[:3] == ("a", "b", "(rest)")
        assert m.sinks.keys == (3,)
        np.testing.assert_allclose(m.weights[:, 0, 3], A[:, :half, 0].mean(axis=1), atol=CLOSE)
        free = 1 - A[:, :, 0]
        for p, queries in enumerate(slice(*of_span) for of_span in spans.values()):
            for t, (first, last) in enumerate(spans.values()):
                keys = slice(max(first, 1), last)
                mass = A[:, queries, keys].sum(axis=2)
                share = seen[queries, keys].sum(axis=1) / np.maximum(seen[queries].sum(axis=1), 1)
                np.testing.assert_allclose(m.weights[:, p, t], mass.mean(axis=1), atol=CLOSE)
                np.testing.assert_allclose(m.chance[:, p, t], (free[:, queries] * share).mean(axis=1), atol=CLOSE)
        before = (A[:, i, :half].mean(axis=1) for i in range(half, n - 1))
        new = (A[:, i, half : i + 1].mean(axis=1) for i in range(half, n - 1))
        lookback = np.mean([c / (c + w) for c, w in zip(before, new, strict=True)], axis=0)
        np.testing.assert_allclose(m.lookback[:, 1], lookback if is_masked else np.nan, atol=CLOSE)
        assert np.isnan(m.lookback[:, 0]).all()  # nothing is before it


def test_sinks_are_those_of_the_chosen_layers():
    """The first layer has none: its queries are zero, so that its weights are uniform."""
    kind, config, words = FAMILIES["bert"]
    torch.manual_seed(0)
    model = with_a_sink(kind(config()).eval(), words().cls_token_id)
    torch.nn.init.zeros_(model.encoder.layer[0].attention.self.query.weight)
    loaded, text, by = mhaviz.load(model, words()), "the cat sat on a mat", [{"name": "a", "tokens": [1, 4]}]
    chosen, of_all = (loaded.attend(text, by=by, layer=layer) for layer in (0, None))
    assert chosen[0].keys == ("a", "(rest)")
    assert of_all.select(layer=0)[0].keys == ("a", "(rest)", "[CLS]")
