"""Queries and keys that are kept beside weights: the same weights come of them, by a softmax of the tests' own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from families import FAMILIES, save
from looking import calls

import mhaviz
from mhaviz.analyses.queries_and_keys import kept_queries_and_keys
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site, SiteCall
from mhaviz.inputs.tokens import Tokens

TEXT = "the cat sat on the mat playing hello the dog ran"
WITH_ENCODER = ("t5", "bart")


def decoded(coded):
    return coded.lows[:, None] + coded.codes * coded.steps[:, None].astype(np.float64)


def weights_of(kept):
    """softmax(cap(scale · q·k) + bias) over what a query sees, in float64, row by row."""
    Q, K = decoded(kept.query), decoded(kept.key)
    n_heads, q_length, _ = Q.shape
    k_length = K.shape[1]
    A = np.zeros((n_heads, q_length, k_length))
    for h in range(n_heads):
        S = kept.scale * Q[h] @ K[kept.key_heads[h]].T
        if kept.softcap is not None:
            S = kept.softcap * np.tanh(S / kept.softcap)
        for i in range(q_length):
            for j in range(k_length):
                hidden = kept.causal and j > i + k_length - q_length
                hidden |= kept.reach is not None and abs(i - j) > kept.reach
                if kept.bias is not None:
                    values = kept.bias.values[h if len(kept.bias.values) > 1 else 0]
                    if kept.bias.form == "visible":
                        hidden |= not values[i if len(values) > 1 else 0, j]
                    else:
                        S[i, j] += values[j - i + q_length - 1 if kept.bias.form == "offsets" else j]
                if hidden:
                    S[i, j] = -np.inf
        sink = [] if kept.sinks is None else [kept.sinks[h]]
        for i in range(q_length):
            if np.isneginf(S[i]).all():
                continue
            e = np.exp(S[i] - S[i].max())
            A[h, i] = e / (e.sum() + sum(np.exp(s - S[i].max()) for s in sink))
    return A


@pytest.mark.parametrize("name", FAMILIES)
def test_the_weights_of_every_family_come_of_them(name, tmp_path_factory):
    folder = save(name, tmp_path_factory.getbasetemp().parent / "families")
    model = mhaviz.load(folder)._whole
    seen = calls(model, [TEXT], "the mat ran" if name in WITH_ENCODER else None)
    for one in seen:
        kept = kept_queries_and_keys(one)
        assert kept is not None
        expected = one.call.weights()[0].numpy()
        assert np.abs(weights_of(kept) - expected).max() <= max(2 * kept.precision, 1e-6)
        assert kept.precision < 1e-3


def site_call(call, kind="self", reach=None):
    _, n_heads, q_length, k_length = call.shape
    sides = [(Tokens(tuple(map(str, range(n)))),) for n in (q_length, k_length)]
    return SiteCall(Site(kind, 0, n_heads, call.query.shape[3]), call, tuple(range(n_heads)), *sides, reach=reach)


def random_call(q_length=5, k_length=5, n_heads=2, n_kv_heads=2, **others):
    torch.manual_seed(0)
    query, key = torch.randn(1, n_heads, q_length, 4), torch.randn(1, n_kv_heads, k_length, 4)
    return AttentionCall(query, key, key, 0.5, **others)


BOOL = torch.tensor([[True, True, False, True, True]] * 5).tril()
ALIBI = (
    -torch.arange(5.0).sub(torch.arange(5.0)[:, None]).abs()[None, None] * torch.tensor([0.5, 2.0])[None, :, None, None]
)


@pytest.mark.parametrize(
    ("call", "form"),
    [
        (random_call(mask=BOOL[None, None]), "visible"),
        (random_call(mask=BOOL[None, None, -1:]), "visible"),
        (random_call(mask=ALIBI), "offsets"),
        (random_call(mask=ALIBI.masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf), causal=True), "offsets"),
        (random_call(mask=ALIBI[:, :, -1:]), "keys"),
        (random_call(3, 5, causal=True), None),
        (random_call(n_heads=4, n_kv_heads=2, softcap=0.7, sinks=torch.tensor([0.0, 1.0, 2.0, -1.0])), None),
    ],
)
def test_masks_and_biases_have_a_form(call, form):
    kept = kept_queries_and_keys(site_call(call))
    assert (kept.bias and kept.bias.form) == form
    np.testing.assert_allclose(weights_of(kept), call.weights()[0], atol=1e-4)
    chosen = [call.shape[1] - 1, 0]
    np.testing.assert_allclose(weights_of(kept.select(chosen)), call.weights()[0][chosen], atol=1e-4)


def test_a_bias_of_any_form_is_not_kept():
    torch.manual_seed(1)
    assert kept_queries_and_keys(site_call(random_call(mask=torch.randn(1, 2, 5, 5)))) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_type_of_number_is_kept(dtype):
    call = random_call(mask=ALIBI, sinks=torch.tensor([0.5, 1.0]))
    parts = {name: getattr(call, name).to(dtype) for name in ("query", "key", "value", "mask", "sinks")}
    call = replace(call, **parts)
    np.testing.assert_allclose(weights_of(kept_queries_and_keys(site_call(call))), call.weights()[0], atol=1e-4)


def softmax_in_float64(Q, K, scale, softcap=None, sinks=None, bias=None, causal=False, reach=None):
    """Q (n_heads, q_length, d_key), K (n_heads, k_length, d_key), bias that broadcasts to the scores."""
    Q, K = Q.astype(np.float64), K.astype(np.float64)
    S = scale * Q @ K.swapaxes(1, 2)
    if softcap is not None:
        S = softcap * np.tanh(S / softcap)
    if bias is not None:
        S = S + bias
    far = np.arange(K.shape[1]) - np.arange(Q.shape[1])[:, None] - (K.shape[1] - Q.shape[1])
    if causal:
        S = np.where(far > 0, -np.inf, S)
    if reach is not None:
        S = np.where(np.abs(far) > reach, -np.inf, S)
    sink = np.full((len(Q), 1, 1), -np.inf) if sinks is None else np.asarray(sinks, np.float64)[:, None, None]
    top = np.maximum(S.max(axis=2, keepdims=True), sink)
    e = np.exp(S - top)
    return e / (e.sum(axis=2, keepdims=True) + np.exp(sink - top))


def hostile_call(length, n_heads, d_key, size, giant=1.0, **others):
    """Scores of about this size; one feature is so many times as large as the others."""
    rng = np.random.default_rng(length + d_key)
    Q, K = rng.normal(size=(2, n_heads, length, d_key)) * np.sqrt(size)
    Q[..., 0] *= giant
    Q, K = (torch.from_numpy(x.astype(np.float32))[None] for x in (Q, K))
    return AttentionCall(Q, K, K, d_key**-0.5, **others)


LONG_ALIBI = -torch.arange(1700.0).sub(torch.arange(1700.0)[:, None]).abs()[None, None] / 8
HOSTILE_CALLS = {
    "sharp, with sinks": hostile_call(2100, 2, 8, 30, sinks=torch.tensor([0.0, 40.0])),
    "one giant feature": hostile_call(2100, 1, 16, 1, giant=1000, causal=True),
    "capped": hostile_call(2100, 1, 64, 40, softcap=50.0),
    "flat": hostile_call(2100, 2, 32, 1),
    "with a bias": hostile_call(1700, 3, 8, 10, mask=LONG_ALIBI, causal=True),
    "sharp and short": hostile_call(40, 2, 8, 3000),
}


@pytest.mark.parametrize("name", HOSTILE_CALLS)
@pytest.mark.slow
def test_the_precision_is_a_bound_of_every_weight_and_of_every_sum_of_a_query(name):
    """Beside a softmax in float64 of the queries and keys themselves, over all cells."""
    call = HOSTILE_CALLS[name]
    kept = kept_queries_and_keys(site_call(call))
    sinks = None if call.sinks is None else call.sinks.numpy()
    bias = None if call.mask is None else call.mask.numpy()[0].astype(np.float64)
    about = call.scale, call.softcap, sinks, bias, call.causal
    exact = softmax_in_float64(call.query[0].numpy(), call.key[0].numpy(), *about)
    found = softmax_in_float64(decoded(kept.query).astype(np.float32), decoded(kept.key).astype(np.float32), *about)
    gained = np.maximum(found - exact, 0).sum(axis=2).max()
    lost = np.maximum(exact - found, 0).sum(axis=2).max()
    assert np.abs(found - exact).max() <= max(gained, lost) <= kept.precision <= 0.002


def test_numbers_as_far_apart_as_float32_has_them_are_kept():
    query = torch.tensor([3e38, -3e38]).view(1, 1, 2, 1)
    call = AttentionCall(query, torch.tensor([1e-38, 2e-38]).view(1, 1, 2, 1), query, 1.0)
    np.testing.assert_allclose(weights_of(kept_queries_and_keys(site_call(call))), call.weights()[0], atol=1e-3)


def test_scores_that_float64_does_not_tell_apart_are_not_kept():
    query = torch.tensor([3e30, -3e30]).view(1, 1, 2, 1)
    assert kept_queries_and_keys(site_call(AttentionCall(query, query, query, 1.0))) is None


@pytest.mark.parametrize("options", [{"window": (0, 2, 0, 2)}, {"show": "rollout"}], ids=str)
def test_parts_and_other_quantities_have_none(options):
    assert mhaviz.load("random").attend("a b c", **options)[0].queries_and_keys is None


@pytest.mark.slow
def test_long_inputs_have_coarser_steps_where_they_suffice():
    call = random_call(4096, 4096)
    kept = kept_queries_and_keys(site_call(call))
    assert kept.query.bits == 12
    assert kept.precision <= 0.002
    spread = AttentionCall(call.query * 3, call.key, call.value, 1.0)
    assert kept_queries_and_keys(site_call(spread)).query.bits == 16
    sharp = AttentionCall(call.query * 300, call.key, call.value, 1.0)
    assert kept_queries_and_keys(site_call(sharp)).query.bits == 32


def test_attend_keeps_them_where_they_take_little(monkeypatch):
    from mhaviz.api import loaded

    model = mhaviz.load("random")
    assert model.attend("a b c")[0].queries_and_keys is not None
    assert model.attend("a b c", page=False)[0].queries_and_keys is None
    assert model.attend("a b c", head=3)[0].select((3,)).queries_and_keys.key_heads == (0,)
    monkeypatch.setattr(loaded, "_KEPT_BYTES", 0)
    assert model.attend("a b c")[0].queries_and_keys is None
    assert model.attend("a b c", page=True)[0].queries_and_keys is not None
