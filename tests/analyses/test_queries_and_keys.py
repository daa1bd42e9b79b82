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
from mhaviz.attention.model import SiteCall
from mhaviz.records import Site, Tokens

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


def test_numbers_without_steps_are_not_kept():
    """The difference of the two is more than float32 holds, though their scores are small."""
    query = torch.tensor([3e38, -3e38]).view(1, 1, 2, 1)
    key = torch.full((1, 1, 2, 1), 1e-38)
    assert kept_queries_and_keys(site_call(AttentionCall(query, key, key, 1.0))) is None


@pytest.mark.parametrize("options", [{"window": (0, 2, 0, 2)}, {"rollout": True}], ids=str)
def test_parts_and_other_quantities_have_none(options):
    assert mhaviz.load("random").attend("a b c", queries_and_keys=True, **options)[0].queries_and_keys is None


def test_long_inputs_have_coarser_steps_where_they_suffice():
    call = random_call(4096, 4096)
    kept = kept_queries_and_keys(site_call(call))
    assert kept.query.bits == 12
    assert kept.precision <= 0.002
    spread = AttentionCall(call.query * 30, call.key, call.value, 1.0)
    assert kept_queries_and_keys(site_call(spread)).query.bits == 16


def test_attend_keeps_them_where_they_take_little(monkeypatch):
    from mhaviz.api import loaded

    model = mhaviz.load("random")
    assert model.attend("a b c")[0].queries_and_keys is not None
    assert model.attend("a b c", queries_and_keys=False)[0].queries_and_keys is None
    assert model.attend("a b c", head=3)[0].select((3,)).queries_and_keys.key_heads == (0,)
    monkeypatch.setattr(loaded, "_KEPT_BYTES", 0)
    assert model.attend("a b c")[0].queries_and_keys is None
    assert model.attend("a b c", queries_and_keys=True)[0].queries_and_keys is not None
