"""What stands beside the means: heads without any preference, sinks, and needles; against plain loops."""

import math

import numpy as np
import pytest
import torch

from mhaviz.analyses import head_statistics
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site, SiteCall, with_plain_mask
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.head_statistics import STATISTICS
from mhaviz.results.result import Source

IDS = ((7, 1, 2, 1, 3, 2, 1, 4), (7, 5, 5, 6))
NEEDLE = (1, 2)


def sides(ids=IDS):
    return tuple(Tokens(("",) * len(one), (0,), one) for one in ids)


def call_of(random, n_heads=2, mask=None, causal=True, q=8):
    query, key, value = (torch.tensor(random.normal(size=(2, n_heads, q, 4))) for _ in range(3))
    return AttentionCall(query, key, value, 2.0, causal, mask)


def window(reach):
    positions = torch.arange(8)
    return ((positions[:, None] - positions) <= reach)[None, None] & (positions <= positions[:, None])


def studied(call, kind="masked", needle=(), ids=IDS):
    study, side = HeadStudy(needle=needle), sides(ids)
    site = Site(kind, 0, call.shape[1], 1)
    seen = with_plain_mask(SiteCall(site, call, tuple(range(call.shape[1])), side, side))
    study.add(seen, range(len(ids)))
    (averages,) = study.result(Source("made by a test")).kinds
    return averages


def uniform(is_seen, head):
    """The mean over sentences of each number of a head that looks alike at all that ``is_seen(sentence, i, j)``."""
    found = {name: [] for name in ("entropy", "distance", "itself", "previous", "first", "copies", "induction", "sink")}
    for number, ids in enumerate(IDS):
        rows = {name: [] for name in found}
        for i in range(len(ids)):
            keys = [j for j in range(len(ids)) if is_seen(number, head, i, j)]
            a = {j: 1 / len(keys) for j in keys}
            rows["entropy"].append(math.log(len(keys)))
            rows["distance"].append(sum(weight * abs(i - j) for j, weight in a.items()))
            rows["itself"].append(a.get(i, 0))
            rows["first"].append(a.get(0, 0))
            if i:
                rows["previous"].append(a.get(i - 1, 0))
            copies = [j for j in range(1, i) if ids[j] == ids[i]]
            if copies:
                rows["copies"].append(sum(a.get(j, 0) for j in copies))
                rows["induction"].append(sum(a.get(j + 1, 0) for j in copies))
        for name, values in rows.items():
            if values:
                found[name].append(np.mean(values))
        found["sink"].append(float(np.mean(rows["first"]) > 0.3))
    return {name: np.mean(values) for name, values in found.items()}


def hidden_by_head(sentence, head, i, j):
    return (j <= i and (j + head) % 3 != 1) or i == j


CASES = {
    "causal": (None, True, lambda s, h, i, j: j <= i),
    "window": (window(2), True, lambda s, h, i, j: 0 <= i - j <= 2),
    "padding": (
        torch.tensor([[True] * 8, [True] * 4 + [False] * 4])[:, None, None],
        True,
        lambda s, h, i, j: j <= i,
    ),
    "bias": (torch.linspace(-1, 1, 128).view(1, 2, 8, 8).double(), True, lambda s, h, i, j: j <= i),
    "by head": (
        torch.tensor([[[[hidden_by_head(0, h, i, j) for j in range(8)] for i in range(8)] for h in range(2)]]),
        False,
        hidden_by_head,
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_chance_against_plain_loops(case):
    mask, causal, is_seen = CASES[case]
    averages = studied(call_of(np.random.default_rng(0), mask=mask, causal=causal))
    for head in range(2):
        for name, value in uniform(is_seen, head).items():
            assert averages.number(name).chance[0, head] == pytest.approx(value, rel=1e-12), name


def test_of_weights_alone_a_key_that_no_head_looks_at_is_hidden():
    weights = torch.zeros(2, 2, 8, 8, dtype=torch.float64)
    weights[:, 0] = torch.eye(8)
    weights[:, 1, :, 0] = 1
    averages = studied(AttentionWeights(weights), "self")
    expected = np.mean([(len(ids) - 1) * math.log(2) / len(ids) for ids in IDS])
    assert averages.entropy.chance[0] == pytest.approx([expected] * 2)


def test_layers_share_what_is_found_of_a_mask(monkeypatch):
    random, side, study, found = np.random.default_rng(0), sides(), HeadStudy(), []
    real = head_statistics.seen_keys
    monkeypatch.setattr(head_statistics, "seen_keys", lambda call: found.append(call) or real(call))
    masks = [None, window(2), None, window(2)[:, :, :, :]]
    for layer, mask in enumerate([*masks, masks[1]]):
        study.add(SiteCall(Site("masked", layer, 2, layer), call_of(random, mask=mask), (0, 1), side, side), [0, 1])
    assert len(found) == 3, "no mask; a window; the same window made anew"


def test_sinks_and_the_sink_rate():
    weights = torch.full((2, 3, 8, 8), 0.05)
    weights[..., 0] = torch.tensor([0.31, 0.29, 0.0])[None, :, None]
    weights[1, 1, :, 0] = 0.9
    averages = studied(AttentionWeights(weights), "self")
    assert averages.sink.mean[0].tolist() == [1.0, 0.5, 0.0]
    assert averages.sink_rate == 0.5
    assert (averages.sink.sentences, averages.sink.queries) == (2, 12)


def test_retrieval_against_plain_loops():
    ids = (7, 1, 2, 9, 1, 2, 8, 3, 1, 2)
    random = np.random.default_rng(3)
    hits, weight, chance = np.zeros((40, 2)), np.zeros((40, 2)), []
    study = HeadStudy(needle=NEEDLE)
    for number in range(40):
        q, k, v = (torch.tensor(random.normal(size=(1, 2, 10, 4))) for _ in range(3))
        call = AttentionCall(q, k, v, 1.0, causal=True)
        side = sides([ids])
        study.add(SiteCall(Site("masked", 0, 2, 1), call, (0, 1), side, side), [number])
        a = call.weights()[0].numpy()
        for head in range(2):
            for token, query in ((1, 7), (2, 8)):  # which predict the last two
                keys = [j for j in (1, 2, 4, 5) if ids[j] == token]
                hits[number, head] += (a[head, query].argmax() in keys) / 2
                weight[number, head] += a[head, query, keys].sum() / 2
        chance.append((2 / 8 + 2 / 9) / 2)
    (averages,) = study.result(Source("made by a test")).kinds
    np.testing.assert_allclose(averages.retrieval.mean[0], hits.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(averages.needle.mean[0], weight.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(averages.retrieval.chance[0], np.mean(chance), rtol=1e-12)
    assert (averages.retrieval.sentences, averages.retrieval.queries) == (40, 80)
    assert 0 < averages.retrieval.mean.min() < averages.retrieval.mean.max() < 1


@pytest.mark.parametrize(("kind", "ids"), [("self", IDS), ("masked", ((7, 1, 2, 3), (7, 1, 1, 2)))])
def test_without_two_needles_nothing_is_known(kind, ids):
    averages = studied(call_of(np.random.default_rng(0), q=max(map(len, ids))), kind, NEEDLE, ids)
    assert not averages.retrieval.is_known
    assert not averages.needle.is_known


def test_intervals_and_histograms_are_of_the_sentences():
    random, study, values = np.random.default_rng(0), HeadStudy(), []
    for number in range(30):
        weights = torch.tensor(random.dirichlet(np.ones(4), size=(1, 1, 4)))
        side = sides([IDS[1]])
        study.add(SiteCall(Site("self", 0, 1, 1), AttentionWeights(weights), (0,), side, side), [number])
        values.append(float(weights[0, 0, :, 0].mean()))
    found = study.result(Source("made by a test"))
    first = found.kinds[0].first
    error = np.std(values, ddof=1) / math.sqrt(30)
    assert first.low[0, 0] == pytest.approx(np.mean(values) - 1.96 * error, abs=0.3 * error)
    assert first.high[0, 0] == pytest.approx(np.mean(values) + 1.96 * error, abs=0.3 * error)
    assert first.counts[0, 0].tolist() == np.histogram(values, np.linspace(0, 1, 41))[0].tolist()
    assert STATISTICS.index("first") < len(STATISTICS)
