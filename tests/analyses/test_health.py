"""Numbers of heads in training beside float64, written plainly."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhaviz.analyses import health
from mhaviz.analyses.collapse import CollapseRule
from mhaviz.analyses.health import health_sums
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.padding import padding_of

B, H, Q, D = 2, 4, 9, 8


def call(dtype=torch.float32, seed=0, kv_heads=H, sharp=1.0, k_length=Q, **others):
    generator = torch.Generator().manual_seed(seed)
    query = sharp * torch.randn(B, H, Q, D, generator=generator)
    key = torch.randn(B, kv_heads, k_length, D, generator=generator)
    return AttentionCall(query.to(dtype), key.to(dtype), key.to(dtype), D**-0.5, **others)


def expected(of, queries=None, keys=None):
    """The numbers of each head, row by row, in float64."""
    q, k = (x.double().numpy() for x in (of.query, of.key))
    k = k.repeat(H // k.shape[1], axis=1)
    queries = np.ones((B, Q), bool) if queries is None else queries
    keys = np.ones((B, k.shape[2]), bool) if keys is None else keys
    found = []
    for h in range(H):
        scores, entropies, uniform, one_hot, sinks = [], [], [], [], []
        for b in range(B):
            first = []
            for i in np.flatnonzero(queries[b]):
                S = q[b, h, i] @ k[b, h].T * of.scale
                if of.softcap:
                    S = of.softcap * np.tanh(S / of.softcap)
                sees = keys[b].copy()
                if of.causal:
                    sees &= np.arange(len(S)) <= i + len(S) - Q
                if of.mask is not None:
                    mask = of.mask.expand(B, H, Q, len(S))[b, h, i].numpy()
                    S, sees = (S, sees & mask) if mask.dtype == bool else (S + mask, sees & (mask > -1e4))
                scores += list(S[sees])
                if sees.sum() < 2:
                    continue
                E = np.where(sees, np.exp(S - S[sees].max()), 0)
                sink = 0 if of.sinks is None else np.exp(float(of.sinks[h]) - S[sees].max())
                A = E / (E.sum() + sink)
                a = (E / E.sum())[E > 0]
                entropies.append(-(a * np.log(a)).sum())
                uniform.append(np.log(sees.sum()))
                one_hot.append(A.max() > 0.99)
                first.append(A[np.flatnonzero(keys[b])[0]])
            if first:
                sinks.append(np.mean(first) > 0.3)
        found.append([max(scores), *(np.mean(x) for x in (entropies, uniform, sinks, one_hot))])
    return np.array(found).T


MASK = torch.rand(B, H, Q, Q, generator=torch.Generator().manual_seed(3)) > 0.3
CALLS = {
    "plain": call(),
    "sharp": call(sharp=9.0),
    "causal": call(sharp=3.0, causal=True),
    "one kv head": call(kv_heads=1, causal=True),
    "cross": call(k_length=5),
    "after a prefix": call(k_length=14, causal=True),
    "capped": call(sharp=20.0, softcap=5.0),
    "biased": call(mask=2 * torch.randn(1, H, Q, Q, generator=torch.Generator().manual_seed(5))),
    "masked by False": call(mask=MASK | torch.eye(Q, dtype=torch.bool)),
    "masked by numbers": call(mask=torch.zeros(1, 1, Q, Q).masked_fill(torch.ones(Q, Q).triu(1).bool(), -1e9)),
    "with sinks": call(sharp=4.0, sinks=torch.tensor([0.0, 2.0, 30.0, -5.0])),
    "double": call(torch.float64, sharp=5.0, causal=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_those_of_float64(monkeypatch, name):
    """In blocks of two queries, too."""
    of = CALLS[name]
    np.testing.assert_allclose(health_sums(of).numbers(), expected(of), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(health, "_BLOCK", 2 * B * H * of.shape[3])
    np.testing.assert_allclose(health_sums(of).numbers(), expected(of), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hides", [False, -torch.inf])
def test_padding_is_no_row(hides):
    """Whatever it holds, as the mask tells which tokens are padding."""
    keys = torch.ones(B, Q, dtype=torch.bool)
    keys[1, 6:] = False
    mask = keys[:, None, None].expand(B, 1, Q, Q)
    mask = mask if hides is False else torch.zeros(B, 1, Q, Q).masked_fill(~mask, hides)
    of = call(sharp=3.0, mask=mask)
    of.query[1, :, 6:] = torch.nan
    padding = padding_of(of, reads_itself=True)
    assert padding.queries.tolist() == padding.keys.tolist() == keys.tolist()
    numbers = expected(of, keys.numpy(), keys.numpy())
    np.testing.assert_allclose(health_sums(of, padding).numbers(), numbers, rtol=1e-5, atol=1e-5)


def test_scores_are_not_known_where_only_weights_are():
    of = call(sharp=3.0, causal=True)
    for seen in (None, torch.ones(Q, Q, dtype=torch.bool).tril().expand(B, H, Q, Q)):
        largest, *numbers = health_sums(AttentionWeights(of.weights(), seen=seen)).numbers()
        assert np.isnan(largest).all()
        np.testing.assert_allclose(numbers, expected(of)[1:], rtol=1e-5, atol=1e-5)


def test_keys_without_weight_are_no_hidden_keys_of_heads_that_have_collapsed():
    weights = torch.zeros(B, H, Q, Q)
    weights[..., 2] = 1
    _, entropy, uniform, sink, one_hot = health_sums(AttentionWeights(weights)).numbers()
    np.testing.assert_allclose(uniform, np.log(Q))
    assert not entropy.any()
    assert not sink.any()
    assert (one_hot == 1).all()


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.floats(0.01, 200))
def test_entropy_is_between_0_and_that_of_uniform_weights(n_heads, q_length, k_length, sharp):
    query, key = sharp * torch.randn(2, n_heads, q_length, 3), torch.randn(2, n_heads, k_length, 3)
    of = AttentionCall(query, key, key, 1.0, causal=q_length == k_length)
    largest, entropy, uniform, sink, one_hot = health_sums(of).numbers()
    assert np.isfinite(largest).all()
    if k_length == 1:  # no row has a choice
        assert all(np.isnan(x).all() for x in (entropy, uniform, sink, one_hot))
    else:
        assert ((entropy > -1e-6) & (entropy < uniform + 1e-5)).all()


def test_what_is_not_finite_is_not_hidden():
    of = call()
    of.query[0, 1, 3, 0], of.query[0, 2, 3, 0] = torch.nan, torch.inf
    largest, entropy, _, _, one_hot = health_sums(of).numbers()
    assert np.isnan(largest[1])
    assert not np.isfinite(largest[2])
    assert np.isnan(entropy[1:3]).all()
    assert np.isnan(one_hot[1:3]).all()
    assert np.isfinite(entropy[[0, 3]]).all()
    assert np.isfinite(largest[[0, 3]]).all()


def test_parts_of_an_attention_add_up():
    of, half = call(), [slice(0, 1), slice(1, 2)]
    parts = [health_sums(AttentionCall(of.query[one], of.key[one], of.value[one], of.scale)) for one in half]
    np.testing.assert_allclose((parts[0] + parts[1]).numbers(), expected(of), rtol=1e-5, atol=1e-5)


def signs_of(samples, uniform=2.0):
    """The signs that samples of a head, (largest score, entropy), give, each with its pass and that it is seen in."""
    rule, found = CollapseRule(), []
    for number, (largest, entropy) in enumerate(samples):
        for one in rule.collapses(0, "self", 0, 3, 10 * number, largest, entropy, uniform):
            found.append((one.sign, one.pass_number, 10 * number, one.before_pass))
    return found


NAN = float("nan")


@pytest.mark.parametrize(
    ("samples", "signs"),
    [
        ([(4, 1.5)] * 4, []),
        ([(4, 1.5), (20, 0.02), (22, 0.03), (22, 0.01)], []),  # sharp, as heads that copy are
        ([(4, 1.5), (60, 0.02), (60, 1.5), (60, 0.02)], []),  # never twice in a row
        ([(4, 1.5), (8, 0.9), (60, 0.02), (61, 0.01), (62, 0.01)], [("entropy", 20, 30, 10)]),
        ([(60, 0.02)] * 5, []),  # sharp from the start
        ([(4, 1.5), (101, 1.4), (500, 1.4)], [("scores", 10, 10, 0)]),
        ([(40, 1.5), (101, 1.4), (390, 1.4)], []),  # not ten times as large
        ([(-30, 1.5), (101, 1.4)], [("scores", 10, 10, 0)]),
        ([(4, 1.5), (300, 0.01), (900, 0.01)], [("scores", 10, 10, 0), ("entropy", 10, 20, 0)]),
        ([(4, 1.5), (NAN, NAN), (NAN, NAN)], [("not finite", 10, 10, 0)]),
        ([(4, 1.5), (float("inf"), 1.5)], [("not finite", 10, 10, 0)]),
        ([(NAN, 1.5), (NAN, 0.02), (NAN, 0.02)], []),  # scores that are not known
        ([(NAN, 1.5), (NAN, 0.001), (NAN, 0.001)], [("entropy", 10, 20, 0)]),
    ],
)
def test_signs_of_a_collapse_are_told_once(samples, signs):
    assert signs_of(samples) == signs
