"""What a smaller cache keeps, beside the policies written plainly in numpy, a query and a key at a time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st

import mhaviz
from mhaviz.analyses import cache_budget
from mhaviz.analyses.cache_budget import BudgetStudy
from mhaviz.analyses.cache_policies import Columns
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site, SiteCall
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.cache_budget import POLICY_NAMES
from mhaviz.results.result import Source

SINKS, KERNEL, OBSERVED = 4, 5, 32
SLOW = pytest.mark.slow  # other checkpoints than that of grouped heads: 2 s


def call_of(length, n_heads=4, n_kv_heads=2, seed=0, dtype=torch.float64, size=2.0, **more):
    """A causal call of random queries and keys, with some keys that all queries like."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, n, length, 8, generator=draw, dtype=torch.float64) for n in (n_heads, n_kv_heads))
    k[:, :, ::7] += 0.5 * q.mean(dim=2, keepdim=True)[:, :: n_heads // n_kv_heads]
    k = size * k
    return AttentionCall(q.to(dtype), k.to(dtype), k.to(dtype), 8**-0.5, True, **more)


def seen_of(call, layer=0, reach=None):
    """The call as of a layer of a model."""
    n_heads, length = call.shape[1:3]
    tokens = (Tokens(("",) * length),)
    return SiteCall(Site("masked", layer, n_heads, 8), call, tuple(range(n_heads)), tokens, tokens, reach=reach)


def found_of(*calls, budgets, policies=POLICY_NAMES, reach=None):
    """What the study finds of calls of a text each."""
    study = BudgetStudy(budgets, policies)
    for call in calls:
        study.begin(call.shape[2])
        study.add(seen_of(call, reach=reach))
    return study.result(Source("made"))


def weights_of(call, window=None):
    """Softmax of the scores over earlier keys, written out in float64, (n_heads, queries, keys)."""
    q, k = (np.asarray(x[0].double()) for x in (call.query, call.key))
    k = np.repeat(k, len(q) // len(k), axis=0)
    S = np.einsum("hid,hjd->hij", q, k) * call.scale
    distance = np.subtract.outer(np.arange(S.shape[1]), np.arange(S.shape[1]))
    S[:, (distance < 0) | (distance > (window if window is not None else S.shape[1]))] = -np.inf
    highest = S.max(axis=-1, keepdims=True)
    sinks = np.full(len(S), -np.inf) if call.sinks is None else np.asarray(call.sinks.double())
    E = np.exp(S - highest)
    return E / (E.sum(axis=-1, keepdims=True) + np.exp(sinks[:, None, None] - highest))


def largest(numbers, k):
    """The places of the k largest numbers, of equal ones the first."""
    return set(sorted(range(len(numbers)), key=lambda j: (-numbers[j], j))[:k])


def sets_of(policy, A, k, losing, window=None, lost=False):
    """The keys that each query may see, of heads that share them; A: (group, queries, keys)."""
    length = A.shape[1]
    shared = A.sum(axis=0)
    if policy == "rows":
        return [largest(shared[i, : i + 1], k) for i in range(length)]
    if policy == "columns":
        return [largest(shared[losing].sum(axis=0), k)] * length
    if policy == "window":
        sinks = min(SINKS, k // 2)
        return [set(range(sinks)) | set(range(i + 1 - (k - sinks), i + 1)) for i in range(length)]
    if policy == "h2o":
        cache, score, sets = set(), {}, []
        for i in range(length):
            if len(cache) == k:
                old = [j for j in cache if j <= i - (k + 1) // 2]
                if old:
                    gone = [j for j in old if window is not None and j < i - window]
                    cache.remove(min(gone) if gone else min(old, key=lambda j: (score[j], j)))
                else:
                    cache.remove(min(cache))
            cache.add(i)
            score[i] = 0.0
            for head in A:
                there = sum(head[i, j] for j in cache)
                for j in cache:
                    score[j] += head[i, j] / (there + 1 - head[i].sum() if lost else there)
            sets.append(set(cache))
        return sets
    new = max(k // 4, 1)
    observed = min(OBSERVED, new, k - new)
    sets = [set(range(i + 1)) for i in range(min(k, length))]
    for prompt in range(k, length, new):
        before = prompt - observed
        votes = shared[before:prompt, :before].sum(axis=0)
        pooled = [votes[max(j - KERNEL // 2, 0) : j + KERNEL // 2 + 1].sum() / KERNEL for j in range(before)]
        chosen = largest(pooled, k - new - observed) | set(range(before, prompt))
        for i in range(prompt, min(prompt + new, length)):
            sets.append(chosen | set(range(prompt, i + 1)))
    return sets


def expected(call, policy, k, most, window=None):
    """The share that each head keeps by ``sets_of`` of the queries after ``most`` tokens."""
    return expected_of(weights_of(call, window), call.group, policy, k, most, window, call.sinks is not None)


def expected_of(A, n_shared, policy, k, most, window=None, lost=False):
    """The same of weights A, (n_heads, queries, keys), of which groups of ``n_shared`` heads share a set."""
    length = A.shape[1]
    n_seen = np.minimum(np.arange(length) + 1, length if window is None else window + 1)
    losing = (np.arange(length) >= most) & (n_seen > k)
    shares = []
    for group in A.reshape(-1, n_shared, length, length):
        sets = sets_of(policy, group, k, losing, window, lost)
        assert all(len(sets[i] & set(range(i + 1))) <= k for i in np.flatnonzero(losing))
        for head in group:
            kept = sum(
                sum(head[i, j] for j in sets[i] if j <= i) if losing[i] else head[i].sum() for i in range(most, length)
            )
            shares.append(kept / head[most:].sum())
    return np.array(shares)


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_beside_numpy(policy, n_kv_heads, monkeypatch):
    monkeypatch.setattr(cache_budget, "_AT_ONCE", 1500)  # blocks of a few queries
    call = call_of(61, n_kv_heads=n_kv_heads, seed=n_kv_heads, dtype=torch.float32)
    budgets = (1, 2, 3, 7, 16, 33)
    found = found_of(call, budgets=budgets, policies=(policy,))
    assert found.share[policy].shape == (len(budgets), 1, 4)
    for number, k in enumerate(budgets):
        np.testing.assert_allclose(found.share[policy][number, 0], expected(call, policy, k, 33), atol=1e-6)
    assert found.queries == 61 - 33
    assert found.groups == (4 // n_kv_heads,)


@pytest.mark.parametrize("family", ["llama", pytest.param("gpt2", marks=SLOW), pytest.param("mistral", marks=SLOW)])
def test_of_a_checkpoint_beside_its_eager_weights(model_folder, family):
    folder, text = model_folder(family), "the cat sat on the mat, a dog ran"
    loaded = mhaviz.load(folder)
    found = loaded.budget(text, keep=(4, 12))
    ids = loaded._whole.encode([text]).texts[0].source.ids
    eager = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        weights = eager(torch.tensor([ids]), output_attentions=True).attentions
    window = getattr(eager.config, "sliding_window", None)
    window = None if window is None else window - 1
    for policy in POLICY_NAMES:
        for number, k in enumerate(found.budgets):
            for layer, A in enumerate(weights):
                shares = expected_of(A[0].double().numpy(), found.groups[layer], policy, k, 12, window)
                np.testing.assert_allclose(found.share[policy][number, layer], shares, atol=1e-6)


@settings(max_examples=8)
@given(
    length=st.integers(2, 40),
    shape=st.sampled_from([(1, 1), (2, 1), (4, 2), (3, 3)]),
    k=st.integers(1, 39),
    more=st.integers(0, 9),
    at_once=st.integers(1, 4000),
    seed=st.integers(0, 9),
)
def test_beside_numpy_in_any_shape(length, shape, k, more, at_once, seed):
    call = call_of(length, *shape, seed=seed)
    k = min(k, length - 1)
    most = min(k + more, length - 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cache_budget, "_AT_ONCE", at_once)
        found = found_of(call, budgets=sorted({k, most}))
    for policy in POLICY_NAMES:
        np.testing.assert_allclose(found.share[policy][0, 0], expected(call, policy, k, most), atol=1e-9)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_sliding_window(policy):
    length, reach = 50, 19
    distance = torch.arange(length)[:, None] - torch.arange(length)
    mask = ((distance >= 0) & (distance <= reach))[None, None]
    call = call_of(length, mask=mask)
    found = found_of(call, budgets=(5, 12, 20, 30), policies=(policy,), reach=reach)
    for number, k in enumerate(found.budgets):
        np.testing.assert_allclose(found.share[policy][number, 0], expected(call, policy, k, 30, reach), atol=1e-9)
    assert (found.share[policy][2:] == 1).all()  # no query sees more


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_sink_that_is_no_key_is_neither_kept_nor_lost(policy):
    call = call_of(40, sinks=torch.tensor([1.0, 0.0, 3.0, -2.0], dtype=torch.float64))
    found = found_of(call, budgets=(8, 16), policies=(policy,))
    for number, k in enumerate(found.budgets):
        np.testing.assert_allclose(found.share[policy][number, 0], expected(call, policy, k, 16), atol=1e-9)


@given(st.integers(0, 200))
@settings(max_examples=5)
def test_no_policy_passes_rows_and_no_fixed_set_columns(seed):
    call, k = call_of(48, seed=seed), 9
    found = found_of(call, budgets=(k,))
    shared = {policy: share[0, 0].reshape(-1, call.group).mean(axis=1) for policy, share in found.share.items()}
    for policy in POLICY_NAMES:
        assert (shared[policy] <= shared["rows"] + 1e-12).all()
    A = weights_of(call).reshape(-1, call.group, 48, 48)[:, :, k:].mean(axis=1)  # kv_heads queries keys
    chosen = np.random.default_rng(seed).choice(48, k, replace=False)
    assert (A[..., chosen].sum(axis=-1).mean(axis=-1) <= shared["columns"] + 1e-12).all()


def of_weights(A, **more):
    """A call of a text with these weights, (heads, queries, keys), of heads that share keys."""
    n_keys = A.shape[-1]
    key = torch.eye(n_keys, dtype=torch.float64)[None, None]
    return AttentionCall(torch.tensor(A).log()[None], key, key, 1.0, True, **more)


def test_of_one_of_the_heads_that_share_keys_a_policy_may_keep_more_than_rows():
    """Two keys of 40: head 0 looks at keys 10 and 11, which have the larger sums, and head 1 at the last three."""
    A = np.full((2, 40, 40), 1e-9)
    A[0, :, 10:12] = 1
    for i in range(40):
        A[1, i, max(i - 2, 0) : i + 1] = 1
    share = found_of(of_weights(A), budgets=(2, 20)).share
    rows, snapkv = (share[policy][0, 0] for policy in ("rows", "snapkv"))
    np.testing.assert_allclose(rows, [1, 0], atol=1e-6)
    assert snapkv[1] > 0.5
    assert snapkv.mean() < rows.mean()


def test_where_sinks_take_more_of_one_head_the_mean_may_pass_rows():
    """Head 0 gives keys 10 and 11 all, and head 1 the last two a hundredth: the sum is of head 0, the mean of both."""
    A = np.full((2, 40, 40), 1e-9)
    A[0, :, 10:12] = 1
    A[0, :, 12:] = 0.2
    for i in range(40):
        A[1, i, max(i - 1, 0) : i + 1] = 1
    share = found_of(of_weights(A, sinks=torch.tensor([-9.0, np.log(198)], dtype=torch.float64)), budgets=(2, 20)).share
    assert share["window"][0, 0].mean() > share["rows"][0, 0].mean()


def test_votes_of_snapkv_bring_back_what_was_left_out():
    """Key 3 is looked at by queries from 24 on alone, long after it was left out of 8 keys; H2O has evicted it."""
    A = np.full((1, 40, 40), 1e-9)
    A[0, :, 0] = A[0, np.arange(40), np.arange(40)] = 1
    A[0, 3, 3] = 0.1
    A[0, 24:, 3] = 100
    share = found_of(of_weights(A), budgets=(8, 30), policies=("h2o", "snapkv")).share
    assert share["h2o"][0, 0, 0] < 0.1
    assert share["snapkv"][0, 0, 0] > 0.9


def test_uniform_attention_keeps_k_of_those_seen():
    call = call_of(64)
    call = AttentionCall(torch.zeros_like(call.query), call.key, call.value, 1.0, True)
    found = found_of(call, budgets=(16,))
    seen = np.arange(17, 65)
    for policy in ("rows", "window", "h2o", "snapkv"):
        kept = 16 / seen
        if policy == "snapkv":  # its places for new tokens are empty at first
            kept = (16 - 3 + (seen - 17) % 4) / seen
        np.testing.assert_allclose(found.share[policy][0], kept.mean(), rtol=1e-9)


def test_texts_are_averaged():
    calls = [call_of(30, seed=1), call_of(44, seed=2)]
    both = found_of(*calls, budgets=(8,))
    each = [found_of(call, budgets=(8,)) for call in calls]
    for policy in POLICY_NAMES:
        shares = np.stack([one.share[policy] for one in each])
        np.testing.assert_allclose(both.share[policy], shares.mean(axis=0))
        np.testing.assert_allclose(both.spread[policy], shares.std(axis=0, ddof=1))
    assert both.queries == 22 + 36
    assert both.lengths == (30, 44)
    assert np.isnan(each[0].spread["rows"]).all()


def test_layers_of_other_sizes():
    study = BudgetStudy((4,), ("rows", "h2o"))
    study.begin(20)
    for layer, shape in ((3, (4, 1)), (0, (2, 2))):
        study.add(seen_of(call_of(20, *shape), layer))
    found = study.result(Source("made"))
    assert (found.layers, found.groups) == ((0, 3), (1, 4))
    assert np.isnan(found.share["rows"][0]).tolist() == [[False, False, True, True], [False] * 4]
    assert len(list(found.heads())) == 6
    assert len(list(found.rows())) == 6 * 2


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (AttentionWeights(torch.eye(3).expand(1, 4, 3, 3)), "gives only its weights"),
        (AttentionCall(*[torch.ones(1, 4, 3, 8)] * 3, 1.0), "queries that see no later keys"),
        (AttentionCall(torch.ones(1, 4, 3, 8), *[torch.ones(1, 4, 5, 8)] * 2, 1.0, True), "5 keys of 3 queries"),
    ],
)
def test_what_is_no_cache_is_refused(call, expected):
    with pytest.raises(MhavizError, match=expected):
        BudgetStudy((2,), ("rows",)).add(seen_of(call))


@pytest.mark.skipif("MHAVIZ_KVPRESS" not in os.environ, reason="MHAVIZ_KVPRESS names no interpreter that has kvpress")
def test_columns_rank_keys_as_kvpress_does(model_folder, tmp_path):
    """Its score is the mean over the queries that see a key, whose number is the factor between it and our sum."""
    folder, saved = model_folder("llama"), tmp_path / "scores.npz"
    model = mhaviz.load(folder)
    text = "the cat sat on the mat, a dog ran to the cat " * 4
    inputs = model._whole.encode([text])
    ids, calls = inputs.texts[0].source.ids, []
    model._whole.run(inputs, lambda seen: calls.append(seen.call))
    script = Path(__file__).parents[1] / "kvpress_scores.py"
    program = [os.environ["MHAVIZ_KVPRESS"], script, folder, saved, ",".join(map(str, ids))]
    subprocess.run(program, check=True, capture_output=True)
    with np.load(saved) as arrays:
        scores = list(arrays.values())
    assert len(scores) == len(calls) == 2
    for call, score in zip(calls, scores, strict=True):
        n_heads, length = call.shape[1:3]
        columns = Columns((1,), (n_heads // call.group, call.group, length))
        columns.add(cache_budget._block(call, 0, length, (1,), None))
        sums = columns.sums[0].mean(axis=1)  # n_kv_heads keys
        sums[:, 0] += 1  # of the first query, which sees the first key alone, and is not measured
        of_kvpress = score * np.arange(length, 0, -1)
        np.testing.assert_allclose(sums, of_kvpress, atol=1e-5)
        apart = np.abs(np.diff(np.sort(sums, axis=-1), axis=-1)).min()
        assert apart > 1e-6  # so that rounding changes no rank
        assert (np.argsort(-sums) == np.argsort(-of_kvpress)).all()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_square_of_the_length():
    """15 s: of 8,192 tokens all weights would take 8 GiB."""
    script = Path(__file__).parents[1] / "benchmarks" / "budget_memory.py"
    done = subprocess.run([sys.executable, script, "--length", "8192"], check=True, capture_output=True, text=True)
    assert int(re.search(r"(-?\d+) MiB above the inputs", done.stdout)[1]) < 700, done.stdout
